-- Times statements on a space as Lua makes them, then asks `test.bench.write_layers` for the layers below.
-- Usage: EXECUTABLE write_layers.lua DIRECTORY COUNT ROUNDS; prints `name microseconds` lines.
local directory, count, rounds = arg[1], tonumber(arg[2]), tonumber(arg[3])
local clock = require('clock')

box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0, wal_mode = 'none'}
local space = box.schema.space.create('bench', {format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'},
}})
space:create_index('pk')

local function fill()
    for id = 1, count do space:replace{id, 'name', 1.5} end
end

local function in_transactions(read)
    return function()
        for first = 1, count - 9, 10 do
            box.begin()
            for id = first, first + 9 do
                if read then space:get(id) end
                space:replace{id, 'name', 1.5}
            end
            box.commit()
        end
    end
end

local function clear()
    for id = 1, count do space:delete(id) end
end

-- Each has a name, what is measured, and what goes before it.
local statements = {
    {'insert', function() for id = 1, count do space:insert{id, 'name', 1.5} end end, clear},
    {'replace', function() for id = 1, count do space:replace{id, 'name', 1.5} end end, fill},
    {'update', function() for id = 1, count do space:update(id, {{'=', 2, 'new name'}}) end end, fill},
    {'upsert', function() for id = 1, count do space:upsert({id, 'name', 1.5}, {{'+', 3, 1}}) end end, fill},
    {'delete', function() for id = 1, count do space:delete(id) end end, fill},
    {'transaction', in_transactions(false), fill},
    {'transaction_get', in_transactions(true), fill},
}

for _, statement in ipairs(statements) do
    local name, work, before = unpack(statement)
    local best = math.huge
    for _ = 1, rounds do
        before()
        local start = clock.proc()
        work()
        best = math.min(best, clock.proc() - start)
    end
    print(('%s %.3f'):format(name, best / count * 1e6))
end
fill()
local is_ours, python = pcall(require, 'internal.python')
if is_ours and python.time_layers then python.time_layers(space.id, count, rounds) end
os.exit(0)
