-- require('socket'): sockets for fibers, TCP clients and servers. A failed call returns nil; errno() tells why.
local arguments = require('internal.arguments')
local errno = require('errno')
local fiber = require('fiber')
local fio = require('fio')
local decode = require('box.finish').decode
local errors = require('internal.error')
local log = require('log')
local luasocket = require('internal.luasocket')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local objects = require('internal.socket_object')
local wait = require('internal.wait')

local error, ipairs, pairs, pcall, setmetatable, tostring, type = error, ipairs, pairs, pcall, setmetatable, tostring, type
local constants, methods, open, is_unix = objects.constants, objects.methods, objects.open, objects.is_unix
local number_of, protocol_number, FOREVER, TRANSIENT =
    objects.number_of, objects.protocol_number, objects.FOREVER, objects.TRANSIENT

local FATAL = {[errno.EBADF] = true, [errno.EINVAL] = true, [errno.EOPNOTSUPP] = true, [errno.ENOTSOCK] = true}

-- Returns the number of one or several flags, or nil if one is unknown. A number is no flag.
local function flags_of(flags)
    local result = 0
    for _, name in pairs(type(flags) == 'table' and flags or {flags}) do
        local number = constants.AI_FLAGS[name]
        if number == nil then
            return nil
        end
        result = bit.bor(result, number)
    end
    return result
end

-- Returns the number of an option in a table of names; 0 if it is absent.
local function optional(names, value)
    if type(value) == 'number' then
        return arguments.whole_int(value)
    end
    return value == nil and 0 or names[value]
end

-- Returns the hints of an address, or nil and the number of an error.
local function hints_of(opts)
    local hints = setmetatable({
        type = optional(constants.SO_TYPE, opts.type), family = optional(constants.DOMAIN, opts.family),
        flags = opts.flags == nil and 0 or flags_of(opts.flags),
    }, {__serialize = 'map'})
    if hints.family == nil or hints.type == nil or hints.flags == nil then
        return nil, errno.EINVAL
    end
    local protocol = protocol_number(opts.protocol)
    hints.proto = protocol and arguments.whole_int(protocol)
    if protocol == nil then
        return nil, type(opts.protocol) == 'string' and errno.EPROTOTYPE or errno.EINVAL
    end
    return hints
end

-- Returns the text of a host or a port. A value that is neither text nor number counts as absent: the host is this one
-- then, the port 0.
local function name_of(value)
    local kind = type(value)
    return (kind == 'string' or kind == 'number') and arguments.c_text(value) or nil
end

-- Returns a number of seconds. A value that is not a number means no limit.
local function seconds_of(value)
    local kind = type(value)
    local seconds = (kind == 'string' or kind == 'number') and tonumber(value) or FOREVER
    return seconds == seconds and math.min(seconds, FOREVER) or FOREVER
end

-- getaddrinfo(host, port[, timeout][, {family =, type =, protocol =, flags =}]) returns a list of addresses, or nil and
-- the reason.
local function getaddrinfo(host, port, timeout, options)
    if type(timeout) == 'table' and options == nil then
        timeout, options = nil, timeout
    end
    if port == nil then
        port = 0
    end
    local hints, wrong = hints_of(options == nil and {} or options)
    if hints == nil then
        errno(wrong)
        return nil, errno.strerror(wrong)
    end
    local ok, packed, number, reason = pcall(wait, python.socket_getaddrinfo(
        name_of(host), name_of(port), msgpack.encode(hints), seconds_of(timeout)))
    if not ok then
        -- As in Tarantool, a cancellation is a failure of this call, and is raised by the next wait.
        if not errors.is(packed) or packed.type ~= 'FiberIsCancelled' then
            error(packed, 0)
        end
        return nil, packed.message
    elseif packed == nil then
        errno(number)
        return nil, reason
    end
    return decode(packed)
end

-- Returns the socket of the first address that `try(socket, address)` accepts. If it accepts none, errno is that of the
-- last one. With `is_only`, only the first address of a family that the system has is tried.
local function first_of(addresses, try, is_only)
    for _, address in ipairs(addresses) do
        local self = open(address.family, address.type, address.protocol)
        if self ~= nil then
            if try(self, address) then
                return self, address
            end
            local number = self._errno
            self:close()
            errno(number)
            if is_only then
                return nil
            end
        end
    end
end

local function resolve(host, port, timeout, flags)
    if is_unix(host) then
        return {{host = host, port = port, family = 'AF_UNIX', type = 'SOCK_STREAM', protocol = 0}}
    end
    return getaddrinfo(host, port, timeout, {type = 'SOCK_STREAM', flags = flags})
end

local function connect_to(deadline)
    return function(self, address)
        if not is_unix(address.host) and deadline <= fiber.clock() then
            self._errno = errno.ETIMEDOUT
            return false
        elseif methods.sysconnect(self, address.host, address.port) then
            return true
        elseif self._errno ~= errno.EINPROGRESS then
            return false
        elseif not methods.writable(self, deadline - fiber.clock()) then
            return false
        end
        local number = methods.getsockopt(self, 'SOL_SOCKET', 'SO_ERROR')
        self._errno = number
        return number == 0
    end
end

-- Returns a connected socket; nil and errno if nobody answers within `timeout` seconds.
local function tcp_connect(host, port, timeout)
    timeout = timeout or FOREVER
    -- Nobody waits for the connection of a unix socket.
    local deadline = is_unix(host) and 0 or fiber.clock() + timeout
    local addresses, reason = resolve(host, port, timeout)
    if addresses == nil then
        return nil, reason
    elseif #addresses == 0 then
        errno(errno.EINVAL)
        return nil, errno.strerror()
    end
    local self = first_of(addresses, connect_to(deadline))
    if self == nil then
        return nil, errno.strerror()
    end
    self._errno = nil
    return self
end

-- ---- servers ---------------------------------------------------------------------------------

local SERVER_USAGE = 'Usage: socket.tcp_server(host, port, handler | opts)'

-- Frees the path of a unix socket: removes a file that refuses connections, which a former server has left, or an
-- ordinary file. Returns whether the path is free.
local function make_room(address)
    if not is_unix(address.host) then
        return false
    end
    local probe = tcp_connect(address.host, address.port, 1)
    if probe ~= nil then
        probe:close()
        return false
    elseif errno() ~= errno.ECONNREFUSED then
        return false
    end
    local file = fio.stat(address.port)
    if not fio.unlink(address.port) then
        return false
    end
    if file ~= nil and file:is_reg() and file.size > 0 then
        log.warn('%s was an ordinary file of %d bytes; the unix socket has replaced it', address.port, file.size)
    end
    return true
end

local function bind_to(prepare)
    return function(self, address)
        local backlog
        if prepare then
            backlog = prepare(self)
        else
            self:setsockopt('SOL_SOCKET', 'SO_REUSEADDR', 1)
        end
        if not self:bind(address.host, address.port) then
            local number = self._errno
            if number ~= errno.EADDRINUSE or not make_room(address) then
                self._errno = number
                return false
            end
            if not self:bind(address.host, address.port) then
                return false
            end
        end
        return self:listen(backlog)
    end
end

local function handle(options, connection, from)
    fiber.name(('%s/%s:%s'):format(options.name, from.host, from.port), {truncate = true})
    local ok, problem = pcall(options.handler, connection, from)
    if connection._handle.fd >= 0 then
        connection:shutdown('RW')
        connection:close()
    end
    if not ok then
        error(problem, 0)
    end
end

local function serve(options, self, address)
    fiber.name(('%s/%s:%s'):format(options.name, address.host, address.port), {truncate = true})
    log.info('started')
    while self:readable() and self._handle.fd >= 0 do
        local connection, from = self:accept()
        if connection ~= nil then
            fiber.create(handle, options, connection, from)
        elseif not TRANSIENT[self._errno] then
            log.error('accept(%s) failed: %s', tostring(self), self:error())
            if FATAL[self._errno] then
                break
            end
        else
            -- A socket that was shut down is readable for ever: without this nobody else would run.
            fiber.yield()
        end
    end
    log.info('stopped')
end

-- Returns a listening socket and its address, or nil and the reason.
local function tcp_listen(host, port, prepare, timeout)
    -- Without a host, all addresses of the machine.
    local addresses, reason = resolve(host, port, timeout, 'AI_PASSIVE')
    if addresses == nil then
        return nil, reason
    end
    local self, address = first_of(addresses, bind_to(prepare), true)
    if self == nil then
        return nil, errno.strerror()
    end
    return self, address
end

-- Returns a listening socket and its address, or nil and the reason. The handler gets each connection in a fiber of its
-- own; then the connection is closed.
local function tcp_server(host, port, options, timeout)
    if type(options) == 'function' then
        options = {handler = options}
    elseif type(options) ~= 'table' or type(options.handler) ~= 'function'
        or options.prepare ~= nil and type(options.prepare) ~= 'function' then
        error(SERVER_USAGE)
    end
    options = {handler = options.handler, name = options.name or 'server', prepare = options.prepare}
    local self, address = tcp_listen(host, port, options.prepare, timeout)
    if self ~= nil then
        if is_unix(address.host) then
            -- The file goes before the descriptor is closed, so that it is not that of a later server.
            function self.close(listening)
                fio.unlink(address.port)
                return methods.close(listening)
            end
        end
        fiber.create(serve, options, self, address)
    end
    return self, address
end

return setmetatable({
    getaddrinfo = getaddrinfo,
    iowait = objects.iowait,
    tcp_connect = tcp_connect,
    tcp_server = tcp_server,
    internal = setmetatable({
        AI_FLAGS = constants.AI_FLAGS, DOMAIN = constants.DOMAIN, SEND_FLAGS = constants.SEND_FLAGS,
        SOL_SOCKET = constants.SOL_SOCKET, SO_OPT = constants.SO_OPT, SO_TYPE = constants.SO_TYPE,
        getaddrinfo = getaddrinfo, iowait = objects.iowait,
    }, {__index = objects.methods}),
}, {
    __call = function(_, ...)
        return open(...)
    end,
    __index = luasocket(getaddrinfo, tcp_connect, connect_to, tcp_listen),
})
