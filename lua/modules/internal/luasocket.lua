-- LuaSocket's calls `tcp`, `connect` and `bind`, which `socket` offers for programs written for LuaSocket.
--
--   tcp{master}   the result of `tcp`, before it is connected, or bound and made a server
--   tcp{server}   accepts clients
--   tcp{client}   sends and receives; so does a connected master, because programs rely on that in LuaSocket
--
-- A failed call returns nil and the reason. Operations wait for the time that `settimeout` sets, without it for ever.
local errno = require('errno')
local fiber = require('fiber')
local objects = require('internal.socket_object')

local error, ipairs, setmetatable, tostring, type = error, ipairs, setmetatable, tostring, type
local methods, open, FOREVER, TRANSIENT = objects.methods, objects.open, objects.FOREVER, objects.TRANSIENT

local LINE = {delimiter = '\n'}
local EVERYTHING = {}

local function done(self, result)
    if not result then
        return nil, methods.error(self)
    end
    return 1
end

local function deadline_of(self)
    methods.fd(self)
    return fiber.clock() + (self.timeout or FOREVER)
end

-- ---- calls of all kinds ----------------------------------------------------------------------

local function close(self)
    -- A closed socket cannot tell the reason.
    if not methods.close(self) then
        return nil, errno.strerror()
    end
    return 1
end

local function described(self, address)
    if address == nil then
        return nil, methods.error(self)
    end
    return address.host, tostring(address.port), address.family:match('AF_(.*)'):lower()
end

local function getsockname(self)
    return described(self, methods.name(self))
end

local function getpeername(self)
    return described(self, methods.peer(self))
end

local function settimeout(self, seconds)
    methods.fd(self)
    self.timeout = seconds
    return 1
end

local OPTIONS = {
    reuseaddr = {'socket', 'SO_REUSEADDR'}, keepalive = {'socket', 'SO_KEEPALIVE'}, ['tcp-nodelay'] = {'tcp', 'TCP_NODELAY'},
}

local function setoption(self, name, value)
    local option = OPTIONS[name]
    if option ~= nil then
        return done(self, methods.setsockopt(self, option[1], option[2], value))
    elseif name ~= 'linger' then
        error('Unknown socket option name: ' .. tostring(name))
    elseif type(value) == 'table' then
        value = value.on
    end
    return done(self, methods.linger(self, value) ~= nil)
end

-- ---- servers ---------------------------------------------------------------------------------

local server, client

local function bind(self, host, port)
    return done(self, methods.bind(self, host, port))
end

local function listen(self, backlog)
    local result, reason = done(self, methods.listen(self, backlog))
    if result ~= nil then
        setmetatable(self, server)
    end
    return result, reason
end

local function accept(self)
    local deadline = deadline_of(self)
    repeat
        local accepted = methods.accept(self)
        if accepted ~= nil then
            return setmetatable(accepted, client)
        elseif not TRANSIENT[self._errno] then
            break
        end
    until not methods.readable(self, deadline - fiber.clock())
    return nil, methods.error(self)
end

-- ---- data ------------------------------------------------------------------------------------

local function receive_all(self)
    local data = methods.read(self, EVERYTHING, self.timeout)
    if data == nil and self._errno == errno.ETIMEDOUT then
        -- The data that has arrived in time is all there is.
        local size = #self._buffer - self._start + self._more_size
        return size > 0 and methods.read(self, size) or nil, size > 0
    end
    return data, data ~= ''
end

local function is_line(data)
    return data:byte(-1) == 10
end

-- Receives data: receive(size), receive('*l') for a line (the default), or receive('*a') for everything up to the end.
-- At the end of the stream it returns nil, 'closed', and the rest of the data.
local function receive(self, pattern, prefix)
    methods.fd(self)
    prefix = prefix or ''
    local data, is_whole
    if type(pattern) == 'number' then
        data = methods.read(self, pattern, self.timeout)
        is_whole = data ~= nil and #data >= pattern
    elseif pattern == '*l' or pattern == nil then
        data = methods.read(self, LINE, self.timeout)
        is_whole = data ~= nil and is_line(data)
        data = is_whole and data:sub(1, -2) or data
    elseif pattern == '*a' then
        data, is_whole = receive_all(self)
    else
        error('Usage: socket:receive(pattern, [, prefix])')
    end
    if data == nil then
        return nil, methods.error(self)
    elseif not is_whole then
        return nil, 'closed', prefix .. data
    end
    return prefix .. data
end

-- Sends a part of a text, send(data[, first[, last]]), and returns the position of the last byte that was sent.
local function send(self, data, first, last)
    if first ~= nil then
        data = string.sub(data, first, last)
    end
    local sent = methods.write(self, data, self.timeout)
    if sent == nil then
        return nil, methods.error(self)
    end
    return (first or 1) + sent - 1
end

local function shutdown(self, how)
    return done(self, methods.shutdown(self, how))
end

-- ---- kinds -----------------------------------------------------------------------------------

local function kind(name, calls)
    calls.close, calls.getsockname, calls.getpeername = close, getsockname, getpeername
    calls.settimeout, calls.setoption = settimeout, setoption
    local function shown(self)
        return ('tcp{%s}: fd=%d'):format(name, methods.fd(self))
    end
    return {__index = calls, __tostring = shown, __serialize = shown}
end

server = kind('server', {accept = accept})
client = kind('client', {receive = receive, send = send, shutdown = shutdown})

-- Makes the calls from `getaddrinfo(host, port, timeout, hints)`, `tcp_connect(host, port)`, `connect_to(deadline)`,
-- which returns a function that connects a socket to an address, and `tcp_listen(host, port, prepare)`.
return function(getaddrinfo, tcp_connect, connect_to, tcp_listen)
    local function connect(self, host, port)
        local deadline = deadline_of(self)
        local addresses, reason = getaddrinfo(
            host, port, deadline - fiber.clock(), {family = 'AF_INET', type = 'SOCK_STREAM'})
        if addresses == nil then
            self._errno = errno.EINVAL
            return nil, reason
        end
        self._errno = errno.EINVAL
        for _, address in ipairs(addresses) do
            if connect_to(deadline)(self, address) then
                return 1
            end
        end
        return nil, methods.error(self)
    end

    local master = kind('master', {bind = bind, listen = listen, connect = connect, receive = receive, send = send})

    return {
        tcp = function()
            local self = open('AF_INET', 'SOCK_STREAM', 'tcp')
            if self == nil then
                return nil, errno.strerror()
            end
            return setmetatable(self, master)
        end,
        connect = function(host, port)
            if host == nil or port == nil then
                error('Usage: luasocket.connect(host, port)')
            end
            local self, reason = tcp_connect(host, port)
            if self == nil then
                return nil, reason
            end
            return setmetatable(self, client)
        end,
        bind = function(host, port, backlog)
            if host == nil or port == nil then
                error('Usage: luasocket.bind(host, port [, backlog])')
            end
            local self, reason = tcp_listen(host, port, function()
                return backlog
            end)
            if self == nil then
                return nil, reason
            end
            return setmetatable(self, server)
        end,
    }
end
