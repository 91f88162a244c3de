-- The server of `python -m test.bench.stalls`. Usage: EXECUTABLE stalls.lua DIRECTORY URI CONSOLE [MASTER]
local fiber = require('fiber')
require('console').listen(arg[3])

box.cfg{
    work_dir = arg[1], listen = arg[2], replication = arg[4], log = 'stalls.log', log_level = 5,
    checkpoint_interval = 0, memtx_memory = 2 * 1024 * 1024 * 1024, wal_mode = 'write', replication_timeout = 60,
    replication_sync_timeout = 300,
}

-- Stores tuples (unsigned, string, double) in about a thousand transactions, and yields after each.
function fill(count)
    local space = box.schema.space.create('stalls', {if_not_exists = true})
    space:create_index('pk', {if_not_exists = true})
    local step = math.max(1, math.floor(count / 1000))
    for first = 1, count, step do
        box.begin()
        for id = first, math.min(first + step - 1, count) do
            space:replace{id, ('name %d'):format(id * 7919 % 1000003), id / 2}
        end
        box.commit()
        fiber.sleep(0)
    end
    return space:len()
end

-- Stores tuples (unsigned, string, double) in one transaction.
function fill_at_once(count)
    local space = box.space.stalls
    box.begin()
    for id = 1, count do
        space:replace{id, ('name %d'):format(id), id / 2}
    end
    box.commit()
    return count
end

function read_all(count)
    local found = 0
    for _, tuple in box.space.stalls:pairs() do
        found = found + 1
        if found == count then
            break
        end
    end
    return found
end

if arg[4] == nil then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
end

is_ready = true -- all functions are there
