-- Writes data, or measures a start from it: `EXECUTABLE log_start.lua DIRECTORY fill COUNT SIZE [FIBERS]` writes COUNT
-- rows in transactions of SIZE rows to the log, by some fibers at once; with a SIZE of 0 they go to a snapshot.
-- `... start` prints the seconds of processor time of `box.cfg`.
local directory, what, count, size, fibers = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4]), tonumber(arg[5] or 1)
local clock = require('clock')
local fiber = require('fiber')

local before = clock.proc()
box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0}
if what == 'start' then
    print(clock.proc() - before)
    os.exit()
end
local space = box.schema.space.create('bench', {format = {{'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'}}})
space:create_index('pk')
local next_id = 1
local function fill()
    while next_id <= count do
        local first = next_id
        local last = math.min(count, first + (size == 0 and 1000 or size) - 1)
        next_id = last + 1
        if size ~= 1 then box.begin() end
        for id = first, last do space:replace{id, 'name' .. id, math.random()} end
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
