-- The objects that `socket(domain, type, protocol)` returns. Operations do not block the instance. A failed one returns
-- nil or false; s:errno(), s:error() and errno() tell why.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local errno = require('errno')
local fiber = require('fiber')
local decode = require('box.finish').decode
local gc = require('internal.finalizers').raw_gc
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local wait = require('internal.wait')

local error, pairs, pcall, select, setmetatable, tostring, type = error, pairs, pcall, select, setmetatable, tostring, type
local huge, max, min = math.huge, math.max, math.min

local READ, WRITE = 1, 2
local READ_SIZE, WRITE_SIZE = 16320, 1048576
local RECEIVE_SIZE, DATAGRAM_SIZE = 512, 65536    -- that are asked for without a size
local FOREVER = 365 * 86400 * 500
local BACKLOG = 256
local LARGEST_BUFFER = 2 ^ 40    -- bytes; no machine has so many
local SHUTDOWN = {
    R = 0, READ = 0, receive = 0, W = 1, WRITE = 1, send = 1, RW = 2, READ_WRITE = 2, both = 2, [0] = 0, [1] = 1, [2] = 2,
}
local STRUCT, TEXT = 0, 2
local IPPROTO_TCP = 6

local constants = decode(python.socket_constants())
-- Options by level: 1 is SOL_SOCKET, 6 is TCP.
local OPTIONS = {[constants.SOL_SOCKET] = constants.SO_OPT[1], [IPPROTO_TCP] = constants.SO_OPT[6]}

local TRANSIENT = {[errno.EAGAIN] = true, [errno.EWOULDBLOCK] = true, [errno.EINTR] = true}

-- ---- descriptors -----------------------------------------------------------------------------

ffi.cdef('struct lunabox_socket { int fd; };')
local handle_type = ffi.typeof('struct lunabox_socket')

-- Descriptors of collected sockets. Finalizers must not call Python, so these are closed when the next socket is
-- opened.
local abandoned = {}

local function collect(handle)
    if handle.fd >= 0 then
        abandoned[#abandoned + 1] = handle.fd
    end
end

local function close_abandoned()
    for i = #abandoned, 1, -1 do
        python.socket_close(abandoned[i])
        abandoned[i] = nil
    end
end

local methods = {}
local socket_mt = {__index = methods}

local function adopt(fd, kind)
    close_abandoned()
    return setmetatable({
        _kind = kind, _handle = gc(handle_type(fd), collect), _buffer = '', _start = 0, _more = {}, _more_size = 0, _reads = 0,
    }, socket_mt)
end

local function fd_of(self)
    if type(self) ~= 'table' or self._handle == nil then
        error('Usage: socket:method()' .. (self ~= nil and ', called with non-socket' or ''))
    elseif self._handle.fd < 0 then
        error('attempt to use closed socket')
    end
    return self._handle.fd
end

-- Returns the result of an operation; `failure` if it has failed.
local function outcome(self, failure, result, number)
    if result == nil and number ~= nil then
        self._errno = number
        errno(number)
        return failure
    end
    self._errno = nil
    return result
end

function methods.fd(self)
    return fd_of(self)
end

function methods.errno(self)
    fd_of(self)
    return self._errno or 0
end

function methods.error(self)
    fd_of(self)
    return self._errno and errno.strerror(self._errno) or nil
end

function methods.close(self)
    local fd = fd_of(self)
    self._handle.fd = -1
    return outcome(self, false, python.socket_close(fd))
end

-- Detaches the descriptor from the object and returns it. It stays open.
function methods.detach(self)
    local fd = fd_of(self)
    self._handle.fd = -1
    return outcome(self, nil, python.socket_detach(fd))
end

-- ---- waiting ---------------------------------------------------------------------------------

local NAMES = {[READ] = 'R', [WRITE] = 'W', [READ + WRITE] = 'RW'}
local IOWAIT_USAGE = "Usage: iowait(fd, 1 | 'r' | 2 | 'w' | 3 | 'rw' [, timeout])"

local function wait_ready(fd, mask, timeout)
    if not timeout then
        timeout = FOREVER
    end
    local seconds = arguments.number(timeout)
    if seconds == nil then
        error(("bad argument #3 to 'iowait' (number expected, got %s)"):format(type(timeout)))
    end
    timeout = seconds < FOREVER and seconds or nil
    if seconds <= 0 then
        fiber.yield()    -- even without a wait other fibers run
    end
    local ready = wait(python.socket_wait(fd, mask, timeout))
    fiber.testcancel()    -- even if there was no wait
    return ready
end

-- Returns the bits of events: a number, or a text of the letters R and W in any order; nil for anything else.
local function mask_of(events)
    if type(events) == 'number' then
        local mask = arguments.whole_int(events)
        return mask > 0 and mask <= READ + WRITE and mask or nil
    elseif type(events) ~= 'string' or not events:find('^[rRwW]+$') then
        return nil
    end
    return (events:find('[rR]') and READ or 0) + (events:find('[wW]') and WRITE or 0)
end

local function optional_number(value, position, default)
    if type(value) == 'nil' then
        return default
    end
    return arguments.number(value) or arguments.bad(position, 'number expected, got ' .. type(value), 3)
end

-- Waits for events of a descriptor. Without a descriptor and events it only sleeps.
local function iowait(...)
    local given, events, timeout = ...
    if select('#', ...) < 2 then
        error(IOWAIT_USAGE, 2)
    end
    local fd = arguments.whole_int(optional_number(given, 1, -1))
    timeout = optional_number(timeout, 3, FOREVER)
    if fd < 0 and type(events) == 'nil' then
        fiber.sleep(timeout)
        return
    end
    local mask = mask_of(events)
    if fd < 0 or mask == nil then
        error(IOWAIT_USAGE, 2)
    end
    local ready = wait_ready(fd, mask, timeout)
    return type(events) == 'number' and ready or NAMES[ready] or ''
end

local function wait_for(self, mask, timeout)
    local fd = fd_of(self)
    self._errno = nil
    local ready = wait_ready(fd, mask, timeout)
    if self._handle.fd >= 0 then
        self._errno = nil
        if ready == 0 then
            self._errno = errno.ETIMEDOUT
            errno(errno.ETIMEDOUT)
        end
    end
    return ready
end

function methods.readable(self, timeout)
    return wait_for(self, READ, timeout) ~= 0
end

function methods.writable(self, timeout)
    return wait_for(self, WRITE, timeout) ~= 0
end

-- Returns 'R', 'W' or 'RW'; 0 after the timeout.
function methods.wait(self, timeout)
    local ready = wait_for(self, READ + WRITE, timeout)
    return NAMES[ready] or ready
end

-- ---- addresses -------------------------------------------------------------------------------

local function is_unix(host)
    return host == 'unix/'
end

-- Converts the second argument of a function of C to an int.
local function c_int(value, call)
    if type(value) == 'number' then
        return tonumber(ffi.cast('int', value))
    end
    local is_table = type(value) == 'table'
    local ok, result = pcall(ffi.new, 'int', is_table and '' or value)
    if not ok then
        error(("bad argument #2 to '%s' (%s)"):format(call, is_table and "cannot convert 'table' to 'int'" or result))
    end
    return tonumber(result)
end

function methods.sysconnect(self, host, port)
    return outcome(self, false, python.socket_connect(fd_of(self), tostring(host), tostring(port)))
end

function methods.bind(self, host, port)
    return outcome(self, false, python.socket_bind(fd_of(self), tostring(host), tostring(port)))
end

function methods.listen(self, backlog)
    return outcome(self, false, python.socket_listen(fd_of(self), c_int(backlog == nil and BACKLOG or backlog, 'listen')))
end

function methods.accept(self)
    local fd, from = python.socket_accept(fd_of(self))
    if fd == nil then
        return outcome(self, nil, nil, from)
    end
    self._errno = nil
    return adopt(fd, self._kind), decode(from)
end

local function described(self, ...)
    local packed = outcome(self, nil, ...)
    return packed and decode(packed)
end

function methods.name(self)
    return described(self, python.socket_name(fd_of(self)))
end

function methods.peer(self)
    return described(self, python.socket_peer(fd_of(self)))
end

-- ---- data ------------------------------------------------------------------------------------

-- Returns the number of one flag or of a list of flags, which are names; nil if one is unknown. As in Tarantool, a number
-- is no flag.
local function flag_bits(flags)
    if flags == nil then
        return 0
    end
    local result = 0
    for _, name in pairs(type(flags) == 'table' and flags or {flags}) do
        local flag = constants.SEND_FLAGS[name]
        if flag == nil then
            return nil
        end
        result = bit.bor(result, flag)
    end
    return result
end

-- Returns the number of bytes that a buffer of Tarantool has room for. A wrong size is refused as there.
local function room_for(size)
    size = ffi.istype('uint64_t', size) and ffi.cast('int64_t', size) or size
    if type(size) ~= 'number' and not ffi.istype('int64_t', size)
        or not (size > -LARGEST_BUFFER and size < LARGEST_BUFFER) then
        require('buffer').ibuf():alloc(size)
    end
    size = tonumber(size)
    -- Tarantool takes a negative size for a huge one.
    return size <= -1 and DATAGRAM_SIZE or max(size, 0)
end

function methods.sysread(self, size)
    size = size or READ_SIZE
    if size < 0 then
        error('socket:sysread(): size can not be negative')
    end
    local fd, room = fd_of(self), room_for(size)
    if room < 1 then
        return outcome(self, nil, '')
    end
    return outcome(self, nil, python.socket_read(fd, room, 0))
end

-- Writes a text, or the first `size` bytes of a pointer.
function methods.syswrite(self, data, size)
    if type(data) == 'cdata' and size ~= nil then
        data = ffi.string(data, size)
    elseif type(data) ~= 'string' then
        error('Usage: socket:syswrite(data) or socket:syswrite(const char *, size)')
    end
    return outcome(self, nil, python.socket_write(fd_of(self), data, 0))
end

function methods.send(self, data, flags)
    local fd, number = fd_of(self), flag_bits(flags)
    self._errno = nil
    string.len(data)
    if type(data) == 'number' then
        error("bad argument #2 to 'send' (cannot convert 'number' to 'const void *')")
    elseif number == nil then
        error("bad argument #4 to 'send' (cannot convert 'nil' to 'int')")
    end
    return outcome(self, nil, python.socket_write(fd, data, number))
end

-- Returns the size of a read that is given none: a datagram is read to its end.
local function default_size(self)
    return self._kind == constants.SO_TYPE.SOCK_DGRAM and DATAGRAM_SIZE or RECEIVE_SIZE
end

function methods.recv(self, size, flags)
    local fd, number = fd_of(self), flag_bits(flags)
    if number == nil then
        return outcome(self, nil, nil, errno.EINVAL)
    end
    self._errno = nil
    return outcome(self, nil, python.socket_read(fd, room_for(size == nil and default_size(self) or size), number))
end

function methods.sendto(self, host, port, data, flags)
    local fd, number = fd_of(self), flag_bits(flags)
    if number == nil then
        return outcome(self, nil, nil, errno.EINVAL)
    elseif data == nil or data == '' then
        self._errno = nil
        return true
    end
    return outcome(self, nil, python.socket_sendto(fd, tostring(host), tostring(port), tostring(data), number))
end

function methods.recvfrom(self, size, flags)
    local fd, number = fd_of(self), flag_bits(flags)
    if number == nil then
        return outcome(self, nil, nil, errno.EINVAL)
    end
    local count = size == nil and default_size(self) or arguments.whole(size)
    if count < 0 and count > -LARGEST_BUFFER then
        return outcome(self, nil, nil, errno.ENOMEM)
    end
    local data, from = python.socket_recvfrom(fd, count < 0 and DATAGRAM_SIZE or min(count, DATAGRAM_SIZE), number)
    if data == nil then
        return outcome(self, nil, nil, from)
    end
    self._errno = nil
    return data, from and decode(from)
end

local read_until = require('internal.socket_input')(function(self, size)
    return methods.sysread(self, size)
end, function(self, timeout)
    return TRANSIENT[self._errno] and methods.readable(self, timeout)
end, READ_SIZE)

local READ_USAGE = 'Usage: s:read(delimiter|chunk|{delimiter = x, chunk = x}, timeout)'

-- Reads data: read(size), read(delimiter) or read{chunk =, delimiter = text or list of texts}; each ends at the end of
-- the stream. Returns nil after the timeout; the data received so far stays for the next read.
function methods.read(self, options, timeout)
    fd_of(self)
    local kind = type(options)
    local limit, delimiter = huge, nil
    if kind == 'number' then
        limit = options
    elseif kind == 'string' then
        delimiter = options
    elseif kind == 'table' then
        limit, delimiter = options.chunk or options.size or huge, options.delimiter or options.line
    else
        error(READ_USAGE)
    end
    if delimiter ~= nil and type(delimiter) ~= 'string' and type(delimiter) ~= 'table' then
        error(READ_USAGE)
    elseif limit < 0 then
        error('socket:read(): limit can not be negative')
    end
    local delimiters = type(delimiter) == 'table' and delimiter or delimiter == nil and {} or {delimiter}
    return read_until(self, limit, delimiters, timeout or FOREVER)
end

-- Writes all bytes. Returns their number; nil after the timeout or a failure.
function methods.write(self, octets, timeout)
    fd_of(self)
    local kind = type(octets)
    if kind ~= 'string' and kind ~= 'cdata' and kind ~= 'number' and kind ~= 'nil' then
        error(("cannot convert '%s' to 'const char *'"):format(kind == 'boolean' and 'bool' or kind))
    end
    if type(octets) == 'cdata' then
        octets = ffi.string(ffi.cast('const char *', octets), #octets)
    end
    local written, size = 0, #octets
    if size == 0 then
        return 0
    end
    if timeout == nil then
        timeout = FOREVER
    end
    local deadline = fiber.clock() + timeout
    while written < size do
        local count = methods.syswrite(self, octets:sub(written + 1, written + WRITE_SIZE))
        if count ~= nil then
            written = written + count
        elseif not TRANSIENT[self._errno] or not methods.writable(self, deadline - fiber.clock()) then
            return nil
        end
    end
    return size
end

function methods.shutdown(self, how)
    local number = SHUTDOWN[how]
    if number == nil then
        -- As in Tarantool, any other value closes both directions.
        number = SHUTDOWN.RW
    end
    return outcome(self, false, python.socket_shutdown(fd_of(self), number))
end

-- ---- options ---------------------------------------------------------------------------------

local function level_of(self, level)
    if level == 'SOL_SOCKET' or level == 'socket' or level == constants.SOL_SOCKET then
        return constants.SOL_SOCKET
    elseif type(level) == 'number' then
        return level
    end
    if type(level) ~= 'string' then
        return outcome(self, nil, nil, errno.EINVAL)
    end
    local number = python.socket_protocol((level:lower():gsub('^ipproto_', ''):gsub('^sol_', '')))
    return number or outcome(self, nil, nil, errno.EPROTOTYPE)
end

local function option_of(level, name)
    local known = OPTIONS[level] or {}
    if type(name) == 'number' then
        -- As in Tarantool, which then fails to index it.
        return name
    elseif known[name] == nil then
        error('Unknown socket option name: ' .. tostring(name))
    end
    return known[name]
end

local LINGER_USAGE = 'Use s:linger(%s)'

-- Raises an error for an option that is neither a number nor a text.
local function refuse_structure(name, linger_arguments)
    if name == 'SO_LINGER' then
        error(LINGER_USAGE:format(linger_arguments), 2)
    end
    error('Unsupported socket option: ' .. tostring(name), 2)
end

function methods.setsockopt(self, level, name, value)
    local fd, number = fd_of(self), level_of(self, level)
    if number == nil then
        return false
    end
    local info = option_of(number, name)
    if not info.rw then
        error(('Socket option %s is read only'):format(tostring(name)))
    elseif info.type == STRUCT then
        refuse_structure(name, 'active[, timeout]')
    end
    if type(value) == 'boolean' then
        value = value and 1 or 0
    end
    if info.type ~= TEXT then
        value = tonumber(ffi.new('int[1]', value)[0])
    end
    return outcome(self, false, python.socket_setopt(fd, number, info.iname, value))
end

function methods.getsockopt(self, level, name)
    local fd, number = fd_of(self), level_of(self, level)
    if number == nil then
        return false
    end
    local info = option_of(number, name)
    if info.type == STRUCT then
        refuse_structure(name, '')
    end
    return outcome(self, nil, python.socket_getopt(fd, number, info.iname, info.type == TEXT))
end

local new_linger = ffi.typeof('struct { int active; int timeout; }[1]')

-- Returns whether a socket lingers and for how many seconds. With `active` it sets both first, and returns what it got.
function methods.linger(self, active, seconds)
    local fd = fd_of(self)
    if active == nil then
        local packed = outcome(self, nil, python.socket_linger(fd, nil, nil))
        if packed ~= nil then
            return msgpack.decode_args(packed)
        end
        return nil
    end
    if seconds == nil then
        seconds = 0
    end
    local number = new_linger({{active = 1, timeout = seconds}})[0].timeout
    if outcome(self, nil, python.socket_linger(fd, active and true or false, number)) ~= nil then
        return active, seconds
    end
end

function methods.nonblock(self, is_nonblocking)
    local is_blocking
    if is_nonblocking ~= nil then
        is_blocking = not is_nonblocking
    end
    local result = outcome(self, nil, python.socket_blocking(fd_of(self), is_blocking))
    if result ~= nil then
        return result == 1
    end
end

-- ---- shown -----------------------------------------------------------------------------------

local function address_text(address)
    if address == nil then
        return nil
    elseif is_unix(address.host) then
        return 'unix/:' .. tostring(address.port)
    end
    return address.host .. ':' .. address.port
end

function socket_mt.__tostring(self)
    local saved = self._errno
    local text, name, peer = 'fd ' .. fd_of(self), address_text(self:name()), address_text(self:peer())
    self._errno = saved
    if name ~= nil then
        text = text .. ', aka ' .. name
    end
    return peer ~= nil and text .. ', peer ' .. peer or text
end

function socket_mt.__serialize(self)
    local fd = self._handle.fd
    if fd < 0 then
        return {fd = fd}
    end
    local saved = self._errno
    local result = {fd = fd, name = self:name(), peer = self:peer()}
    self._errno = saved
    return result
end

-- ---- making sockets --------------------------------------------------------------------------

local function number_of(names, value)
    if type(value) == 'number' then
        return value
    end
    return names[value]
end

local function protocol_number(protocol)
    if protocol == nil or type(protocol) == 'number' then
        return protocol or 0
    end
    return type(protocol) == 'string' and python.socket_protocol(protocol) or nil
end

local function open(domain, kind, protocol)
    local domain_number, kind_number = number_of(constants.DOMAIN, domain), number_of(constants.SO_TYPE, kind)
    local number = protocol_number(protocol)
    if domain_number == nil or kind_number == nil or protocol == nil then
        errno(errno.EINVAL)
        return nil
    elseif number == nil then
        errno(errno.EPROTOTYPE)
        return nil
    end
    local fd, problem = python.socket_open(domain_number, kind_number, number)
    if fd == nil then
        errno(problem)
        return    -- no value, as in Tarantool
    end
    return adopt(fd, kind_number)
end

return {
    constants = constants, methods = methods, open = open, iowait = iowait, is_unix = is_unix,
    number_of = number_of, protocol_number = protocol_number, FOREVER = FOREVER, TRANSIENT = TRANSIENT,
}
