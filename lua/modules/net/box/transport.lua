-- The life of a connection, in a fiber of its own.
--
--     initial           connecting
--     auth              authenticating
--     fetch_schema      loading the server's spaces; requests may be sent
--     active            waiting for the end or for a change of the server's schema
--     graceful_shutdown the server ends: no more requests, and the end once those are answered that were sent
--     error_reconnect   failed; sleeps for `reconnect_after` seconds and connects again
--     error, closed     final; an error of the user's functions always is
--
-- The owner's callbacks `events`: state_changed(state, reason), handshake(greeting) -> reason to refuse,
-- requires(protocol), schema(version, spaces, indexes, collations), reconnect_after() -> seconds or nil,
-- connect_timeout(). Without `events.schema` the server's spaces are not loaded.
--
-- `serve` and `hang_up` are the conversation of one connection and its end. net.box.console_client replaces them where the
-- server speaks the protocol of the text console.
local errors = require('internal.error')
local fiber = require('fiber')
local log = require('log')
local msgpack = require('internal.msgpack')
local future = require('net.box.future')
local codec = require('net.box.codec')
local python = require('internal.python')
local wait = require('internal.wait')

local error, pcall, tostring = error, pcall, tostring

local CLOSED = 1
local FINAL = {error = true, closed = true}
-- Seconds. A condition that waits so long has no limit.
local TIMEOUT_INFINITY = 500 * 365 * 86400
local VSPACE, VINDEX, VCOLLATION = 281, 289, 277
local ITERATE_ALL, NO_LIMIT = 2, 0xFFFFFFFF
local ALL_PUSHES = 2 ^ 52 -- more than a request has

local methods = {}
local transport_mt = {__index = methods}

-- Changes the state. Requests then get `reason`, and `code`, by default NO_CONNECTION.
local function set_state(self, state, reason, code)
    self.state, self.reason, self.code = state, reason, code
    self.events.state_changed(state, reason)
    self.changed:broadcast()
end

local function disconnect(self, reason)
    local id = self.id
    if id ~= nil then
        self.id = nil
        self.hang_up(id, reason or 'Connection closed')
    end
end

-- ---- what the fiber does ---------------------------------------------------------------------

local function select_all(self, space_id)
    local kind, body = codec.bodies.select(space_id, 0, ITERATE_ALL, 0, NO_LIMIT, nil)
    return future.new(wait(python.netbox_send(self.id, kind, body)), 'call_17', {})
end

local function value_of(request)
    local value, problem = request:wait_result()
    if problem ~= nil then
        error(problem, 0)
    end
    return value
end

local NO_PROTOCOL = {0, {
    streams = false, transactions = false, error_extension = false, watchers = false, pagination = false,
}}

-- Returns {version, features} of the server, which is asked once. Older servers do not know the request.
local function fetch_protocol(self, with_errors)
    if self.protocol == nil then
        local kind, body = codec.bodies.id(with_errors)
        local request = future.new(wait(python.netbox_send(self.id, kind, body)), 'id', {})
        local found, problem = request:wait_result()
        if problem ~= nil and problem.code ~= box.error.UNKNOWN_REQUEST_TYPE then
            error(problem, 0)
        end
        self.protocol = problem == nil and found or NO_PROTOCOL
    end
    return self.protocol
end

-- Returns {version, features} of the server's protocol, or nil if there has never been a connection.
function methods.known_protocol(self)
    if self.protocol == nil and self.id ~= nil and (self.state == 'active' or self.state == 'fetch_schema') then
        return fetch_protocol(self)
    end
    return self.protocol
end

-- Loads the schema; starts over if it changes meanwhile.
local function fetch_schema(self)
    set_state(self, 'fetch_schema')
    repeat
        local requests = {select_all(self, VSPACE), select_all(self, VINDEX), select_all(self, VCOLLATION)}
        local spaces, first = value_of(requests[1]), python.netbox_version(self.id)
        local indexes, collations = value_of(requests[2]), value_of(requests[3])
        local version = python.netbox_version(self.id)
        if version == first then
            python.netbox_schema(self.id, version)
            self.events.schema(version, spaces, indexes, collations)
            return
        end
    until self.id == nil
end

-- Returns a text as the C functions of Tarantool take it: nil unless it is a text or a number.
local function c_text(value)
    return (type(value) == 'string' or type(value) == 'number') and tostring(value) or nil
end

local UNKNOWN_NAME = 'getaddrinfo: Name or service not known'
local UNKNOWN_SERVICE = 'getaddrinfo: Servname not supported for ai_socktype'

local function refuse(problem)
    error(errors.new_here({code = box.error.NO_CONNECTION, message = problem}), 0)
end

-- Raises an error after a turn, because Tarantool has it from a look-up in another thread.
local function refuse_name(problem)
    fiber.yield()
    refuse(problem)
end

-- Returns the host and the service to connect to. Raises the error of getaddrinfo() for what cannot be any.
local function resolvable(host, port)
    host, port = c_text(host), c_text(port)
    if host == 'unix/' then
        return host, port or ''
    end
    host = host == '' and 'localhost' or host
    if port and port ~= '' and not port:find('^%d+$') and not port:find('^%a[%a-]*$') then
        refuse_name(UNKNOWN_SERVICE)
    elseif host == nil and port == nil or host and not host:find('^[%w.:%%_-]+$') then
        refuse_name(UNKNOWN_NAME)
    end
    return host or 'localhost', port ~= '' and port or '0'
end

local function serve(self)
    local host, port = resolvable(self.address())
    local id, packed = wait(python.netbox_connect(host, port, self.events.connect_timeout()))
    self.id = id
    local greeting = msgpack.decode(packed)
    local refusal = self.events.handshake({protocol = greeting[1], uuid = greeting[2], version_id = greeting[3]})
    if refusal ~= nil then
        error(errors.new_here({code = box.error.NO_CONNECTION, message = refusal}), 0)
    end
    self.protocol = nil
    self.events.requires(function(with_errors)
        return fetch_protocol(self, with_errors)
    end)
    set_state(self, 'auth')
    if self.user ~= nil and self.user then
        local password = c_text(self.password) or refuse("Missing mandatory field 'tuple' in request")
        wait(python.netbox_auth(self.id, c_text(self.user) or '', password))
    end
    while true do
        if self.state == 'graceful_shutdown' or self.events.schema == nil then
            python.netbox_schema(self.id, python.netbox_version(self.id))
        else
            fetch_schema(self)
        end
        if self.id == nil then
            return -- a trigger has closed the connection
        end
        if self.state ~= 'graceful_shutdown' and self.state ~= 'active' then
            set_state(self, 'active')
        end
        local event, reason = wait(python.netbox_event(self.id))
        if event == CLOSED then
            error(errors.new_here({code = box.error.NO_CONNECTION, message = reason}), 0)
        end
        fiber.testcancel()
    end
end

-- Returns the reason why an attempt has ended, and the code of later requests. If a function of the user has failed, its
-- error is in `failure`; the reason is then this error, of any type, and the code is UNKNOWN.
local function reason_of(self, problem)
    local failure = self.failure
    if failure ~= nil then
        return failure.reason, box.error.UNKNOWN
    end
    return errors.is(problem) and problem.message or tostring(problem)
end

-- Leaves the connected states. The error of an on_disconnect trigger becomes the reason.
local function leave(self, state, ...)
    local known = self.failure
    local ok, problem = pcall(set_state, self, state, ...)
    if ok then
        return
    elseif self.failure == known then
        error(problem, 0)
    end
    set_state(self, state, reason_of(self))
end

local function run(self)
    fiber.name(('%s:%s (net.box)'):format(self.address()), {truncate = true})
    while not FINAL[self.state] do
        local _, problem = pcall(self.serve, self)
        disconnect(self)
        if FINAL[self.state] then
            break
        end
        local delay = self.failure == nil and self.events.reconnect_after()
        leave(self, delay and 'error_reconnect' or 'error', reason_of(self, problem))
        if delay then
            fiber.sleep(delay)
        end
    end
    self.worker = nil
end

function methods.start(self)
    fiber.create(function()
        self.worker = fiber.self()
        local ok, problem = pcall(run, self)
        self.worker = nil
        if not ok and not FINAL[self.state] then
            log.error('net.box: %s', tostring((reason_of(self, problem))))
        end
    end)
end

function methods.stop(self)
    local ok, problem = true, nil
    if not FINAL[self.state] then
        ok, problem = pcall(set_state, self, 'closed', 'Connection closed')
        if not ok then
            set_state(self, 'closed', 'Connection closed')    -- without the triggers, which have run
        end
    end
    disconnect(self)
    local worker = self.worker
    if worker ~= nil and worker:status() ~= 'dead' then
        self.worker = nil
        worker:cancel()
    end
    if not ok then
        error(problem, 0)
    end
end

-- Waits for one of the states `wanted` (a name or a set) or a final state. Returns whether it is a wanted one.
function methods.wait_state(self, target_state, timeout)
    local deadline = fiber.clock() + (timeout or TIMEOUT_INFINITY)
    while true do
        local is_wanted = self.state == target_state or target_state[self.state] or false
        if is_wanted or FINAL[self.state] then
            return is_wanted
        end
        if not self.changed:wait(math.max(deadline - fiber.clock(), 0)) then
            return false
        end
    end
end

-- Leaves a server that shuts down: sends nothing more, and closes once every request has its reply.
function methods.finish(self)
    if self.state ~= 'active' and self.state ~= 'fetch_schema' then
        return
    end
    set_state(self, 'graceful_shutdown')
    local number = python.netbox_pending(self.id)
    while number ~= 0 do
        pcall(wait, python.netbox_next(number, ALL_PUSHES, nil))
        number = self.id == nil and 0 or python.netbox_pending(self.id)
    end
    if self.state == 'graceful_shutdown' then
        disconnect(self, 'Peer closed')
    end
end

-- Gives up a WATCH request that waits for an event.
function methods.unwatch(self, request, key)
    if self.id ~= nil then
        local kind, body = codec.bodies.unwatch(key)
        wait(python.netbox_unwatch(self.id, request:number(), kind, body))
    end
end

-- Ends the connection, because a function of the user has failed with `problem`. The fiber of the connection learns it
-- from Python, and changes the state.
function methods.fail(self, problem)
    self.failure = {reason = problem}
    disconnect(self)
    local worker = self.worker
    while worker ~= nil and worker ~= fiber.self() and not FINAL[self.state] and worker:status() ~= 'dead' do
        self.changed:wait(1)
    end
end

-- Sends a request. Returns its future, or nil and an error.
function methods.send(self, method, options, ...)
    if self.id == nil or (self.state ~= 'active' and self.state ~= 'fetch_schema') then
        local reason = self.reason or ('Connection is not established, state is "%s"'):format(self.state)
        return nil, box.error.new({code = self.code or box.error.NO_CONNECTION, reason = reason})
    end
    local kind, body = codec.bodies[method](...)
    local number = wait(python.netbox_send(self.id, kind, body, options.stream_id))
    options.channel = self.getter
    return future.new(number, method, options)
end

local function new(host, port, user, password, events)
    if user == nil and password ~= nil then
        box.error(box.error.PROC_LUA, 'net.box: user is not defined')
    end
    local self = setmetatable({
        user = user, password = user and (password or ''), events = events,
        state = 'initial', changed = fiber.cond(), serve = serve, hang_up = python.netbox_close,
    }, transport_mt)
    -- A function, because a table as a host is shown as that of the connection only.
    function self.address()
        return host, port
    end
    -- Futures keep this function, so that a future that is printed does not show the channel.
    function self.getter()
        return self
    end
    return self
end

return {new = new, set_state = set_state}
