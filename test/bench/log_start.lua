-- Writes data, or measures a start from it.
--
-- `EXECUTABLE log_start.lua DIRECTORY fill COUNT SIZE [FIBERS [INDEXES [mixed]]]` makes COUNT changes in transactions of
-- SIZE rows, by some fibers at once; with a SIZE of 0 they go to a snapshot. All are new tuples, or with `mixed` two fifths
-- are, and one fifth each are updates, upserts of tuples that are there, and deletions.
--
-- `... start` prints the seconds of processor time of `box.cfg`.
local directory, what, count, size = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])
local fibers, indexes, is_mixed = tonumber(arg[5] or 1), tonumber(arg[6] or 1), arg[7] == 'mixed'
local clock = require('clock')
local fiber = require('fiber')

local before = clock.proc()
box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0, memtx_memory = 2^30}
if what == 'start' then
    print(clock.proc() - before)
    os.exit()
end
local space = box.schema.space.create('bench', {format = {{'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'}}})
space:create_index('pk')
local others = {{{'name'}}, {{'value'}}, {{'value'}, {'name'}}}
for number = 1, indexes - 1 do
    space:create_index('other' .. number, {unique = false, parts = others[number]})
end
local function change(id)
    local kind = is_mixed and id > 9 and id % 5 or 0
    if kind < 2 then
        space:replace{id, 'name' .. id, math.random()}
    elseif kind == 2 then
        space:update(id - 1, {{'=', 2, 'new' .. id}})
    elseif kind == 3 then
        space:upsert({id - 3, 'none', 0.5}, {{'=', 2, 'newer' .. id}})
    else
        space:delete(id - 3)
    end
end
local next_id = 1
local function fill()
    while next_id <= count do
        local first = next_id
        local last = math.min(count, first + (size == 0 and 1000 or size) - 1)
        next_id = last + 1
        if size ~= 1 then box.begin() end
        for id = first, last do change(id) end
        if size ~= 1 then box.commit() end
    end
end
local writers = {}
for _ = 1, fibers do
    local writer = fiber.new(fill)
    writer:set_joinable(true)
    table.insert(writers, writer)
end
for _, writer in ipairs(writers) do writer:join() end
if size == 0 then box.snapshot() end
os.exit()
