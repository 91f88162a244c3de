-- The server of `python -m test.bench.fairness`. Usage: EXECUTABLE fairness.lua DIRECTORY URI ROWS CONSOLE
box.cfg{
    work_dir = arg[1], listen = arg[2], wal_mode = 'none', log = 'bench.log', log_level = 4, checkpoint_interval = 0,
    memtx_memory = 2 * 1024 * 1024 * 1024,
}
local space = box.schema.space.create('bench')
space:create_index('pk')
box.schema.user.grant('guest', 'read,write', 'space', 'bench')
box.schema.user.grant('guest', 'execute', 'universe')
local rows = tonumber(arg[3])
for first = 1, rows, 1000 do
    box.begin()
    for id = first, math.min(first + 999, rows) do
        space:insert{id, 'name', 1.5}
    end
    box.commit()
end

local fiber = require('fiber')
local called = 0

-- Returns a megabyte, different each time, after 10 ms.
function wait_a_moment()
    fiber.sleep(0.01)
    called = called + 1
    return ('%10d'):format(called):rep(100000)
end

require('console').listen(arg[4])
