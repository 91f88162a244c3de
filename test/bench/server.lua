-- The server of `make bench` for figures of clients. Usage: EXECUTABLE server.lua DIRECTORY URI WAL_MODE CONSOLE
box.cfg{
    work_dir = arg[1], listen = arg[2], wal_mode = arg[3], log = 'bench.log', log_level = 4, checkpoint_interval = 0,
    memtx_memory = 1024 * 1024 * 1024, net_msg_max = 2000,
}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
local space = box.schema.space.create('bench', {if_not_exists = true})
space:create_index('pk', {if_not_exists = true})

-- Functions that clients call.
function stored(id)
    return space:replace{id, 'name', 1.5}
end

function stored_first(id)
    local tuple = space:replace{id, 'name', 1.5}
    return tuple[1]
end

function stored_then_read(id)
    space:replace{id, 'name', 1.5}
    return space:get(id)
end

function echo(...)
    return ...
end

require('console').listen(arg[4])
