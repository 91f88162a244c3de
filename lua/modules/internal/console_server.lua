-- What console.listen() returns: the listening socket, to be shown, named and closed.
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local methods = {}
local server_mt = {__index = methods}

local function check_open(self)
    if self._fd < 0 then
        error('attempt to use closed socket')
    end
end

local function copy(name)
    -- In this order, which decides the order of pairs().
    return {host = name.host, port = name.port, family = name.family, type = name.type, protocol = name.protocol}
end

function methods.fd(self)
    check_open(self)
    return self._fd
end

function methods.name(self)
    check_open(self)
    return copy(self._name)
end

function methods.close(self)
    check_open(self)
    self._fd = -1
    scheduler.daemon_timers = scheduler.daemon_timers - 1
    return python.console_unlisten(self._id)
end

function server_mt.__serialize(self)
    check_open(self)
    return {fd = self._fd, name = copy(self._name)}
end

function server_mt.__tostring(self)
    check_open(self)
    local name = self._name
    return ('fd %d, aka %s:%s'):format(self._fd, name.host, name.port)
end

-- Makes the object of a socket that listens. `id` is the number of the server, `name` the address of the socket.
local function new(id, fd, name)
    -- A socket that listens waits with a timer, too.
    scheduler.daemon_timers = scheduler.daemon_timers + 1
    return setmetatable({_id = id, _fd = fd, _name = name}, server_mt)
end

return {new = new}
