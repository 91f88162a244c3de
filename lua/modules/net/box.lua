-- require('net.box'): requests to other instances. The connection `self` is to this instance.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local console = require('net.box.console_client')
local errors = require('internal.error')
local fiber = require('fiber')
local itself = require('net.box.itself')
local log = require('log')
local schema = require('net.box.schema')
local stream = require('net.box.stream')
local transport = require('net.box.transport')
local trigger = require('internal.trigger')
local uri = require('uri')
local watchers = require('net.box.watchers')

local error, max, pairs, pcall, select = error, math.max, pairs, pcall, select
local setmetatable, tonumber, tostring, type, unpack = setmetatable, tonumber, tostring, type, unpack

local CONNECT_TIMEOUT = 10

local remote_methods = {}

local function shown(remote)
    return {
        host = remote.host, port = remote.port, opts = next(remote.opts) and remote.opts, state = remote.state,
        error = remote.error, protocol = remote.protocol, schema_version = remote.schema_version,
        peer_uuid = remote.peer_uuid, peer_version_id = remote.peer_version_id, stream_id = remote._stream_id,
    }
end

-- The version and the features of the server's protocol; the server is asked when they are first read.
local ASKED = {peer_protocol_version = 1, peer_protocol_features = 2}

local function member(remote, name)
    local method = remote_methods[name]
    if method == nil and ASKED[name] then
        return (select(ASKED[name], remote:_protocol()))
    end
    return method
end

local remote_mt = {__index = member, __serialize = shown, __metatable = false}

-- The methods of a connection to a console. All but `eval` are those of other connections.
local console_methods = {}
local console_mt = {__index = console_methods, __serialize = shown}

-- ---- connecting ------------------------------------------------------------------------------

-- Parses the arguments of connect(uri[, options]) or connect(host, port[, options]); either is also called as a method.
local function parse_arguments(first, ...)
    local host, port, options = first, ...
    if type(host) == 'table' then
        host, port, options = ...
    end
    if type(port) == 'table' then
        port, options = nil, port
    end
    local own = {}
    if options ~= nil then
        for name, value in pairs(options) do
            own[name] = value
        end
    end
    options = own
    if port == nil then
        local address = uri.parse(tostring(host))
        if address == nil or address.service == nil then
            box.error(box.error.PROC_LUA, 'usage: connect(uri[, opts] | host, port[, opts])')
        end
        host, port = address.host, address.service
        if options.user == nil and options.password == nil then
            options.user, options.password = address.login, address.password
        end
    end
    return host, port, options
end

local function is_cancellation(problem)
    return errors.is(problem) and problem.type == 'FiberIsCancelled'
end

-- Runs the triggers of a change of state. The first error ends them, and the connection.
local function run_all(list, remote)
    for _, run in ipairs(list) do
        local ok, problem = pcall(run, remote)
        if not ok then
            -- A trigger may close the connection in whose fiber it runs, which then is cancelled.
            if not is_cancellation(problem) then
                remote._transport.failure = {reason = problem}
            end
            error(problem, 0)
        end
    end
end

local CONNECTED = {active = true}
local DISCONNECTED = {error = true, error_reconnect = true, closed = true}

-- Handles that the server is about to end. Triggers may still send requests.
local function shut_down(remote)
    local channel = remote._transport
    local id = channel.id
    for _, run in ipairs(remote._on_shutdown) do
        local ok, problem = pcall(run, remote)
        if not ok and is_cancellation(problem) then
            error(problem, 0)
        elseif not ok then
            log.error('net.box trigger: %s', tostring(problem))
        end
    end
    if channel.id == id then -- it is still that connection
        channel:finish()
    end
end

-- Returns the callbacks for the fiber of a connection. They do not keep the connection: if nobody else does, it is collected
-- and closed, as in Tarantool.
local function events_of(owner)
    local events, last_reason = {}, nil
    local held = setmetatable({remote = owner}, {__mode = 'v'})

    function events.state_changed(state, reason)
        local remote = held.remote
        if remote == nil then
            return
        end
        local was_connected = remote._is_connected
        if CONNECTED[state] and not was_connected then
            remote._is_connected = true
            run_all(remote._on_connect, remote)
        elseif DISCONNECTED[state] and was_connected then
            remote._is_connected = false
            run_all(remote._on_disconnect, remote)
        end
        if remote._transport.state ~= state then
            return -- a trigger has closed the connection
        end
        remote.state, remote.error = state, reason
        if state == 'active' then
            watchers.resume(remote)
        end
        if state == 'error_reconnect' then
            -- A repeated reason is not reported again.
            local say = reason ~= last_reason and log.warn or log.verbose
            say('%s:%s: %s', remote.host or '', remote.port or '', reason)
            last_reason = reason
        end
    end

    function events.handshake(greeting)
        local remote = held.remote
        if remote == nil then
            return 'Connection closed'
        elseif greeting.protocol ~= 'Binary' then
            return 'Unsupported protocol: ' .. greeting.protocol
        end
        remote.protocol, remote.peer_uuid = greeting.protocol, greeting.uuid
        remote.peer_version_id = greeting.version_id
    end

    function events.requires(protocol)
        local remote = held.remote
        local options = remote and remote.opts or {}
        local version, features = options.required_protocol_version, options.required_protocol_features
        if version == nil and features == nil then
            return
        end
        local wants_errors = false
        for _, name in ipairs(features or {}) do
            wants_errors = wants_errors or name == 'error_extension'
        end
        local found = protocol(wants_errors)
        local reason
        if version ~= nil and version > found[1] then
            reason = ('Protocol version (%d) < required (%d)'):format(found[1], version)
        else
            local missing = {}
            for _, name in ipairs(features or {}) do
                if not found[2][name] then
                    missing[#missing + 1] = tostring(name)
                end
            end
            if #missing > 0 then
                reason = 'Missing required protocol features: ' .. table.concat(missing, ', ')
            end
        end
        if reason ~= nil then
            error(box.error.new({code = box.error.NO_CONNECTION, reason = reason}), 0)
        end
    end

    function events.schema(version, spaces, indexes, collations)
        local remote = held.remote
        if remote == nil then
            return
        end
        remote.space = schema.build(remote, spaces, indexes, collations)
        remote.schema_version = version
        run_all(remote._on_schema_reload, remote)
    end

    function events.reconnect_after()
        local delay = held.remote and held.remote.opts.reconnect_after
        return type(delay) == 'number' and delay > 0 and delay or nil
    end

    function events.connect_timeout()
        return held.remote and tonumber(held.remote.opts.connect_timeout) or CONNECT_TIMEOUT
    end

    return events
end

local function check_option(options, name, kind)
    if options[name] ~= nil and type(options[name]) ~= kind then
        box.error(box.error.ILLEGAL_PARAMS, ("options parameter '%s' should be of type %s"):format(name, kind))
    end
end

local function connect_to(host, port, options)
    check_option(options, 'required_protocol_version', 'number')
    check_option(options, 'required_protocol_features', 'table')
    local user, password = options.user, options.password
    options.password = nil
    local remote = setmetatable({host = host, port = port, opts = options, state = 'initial'}, options.console and console_mt or remote_mt)
    remote._deadlines = setmetatable({}, {__mode = 'k'})
    remote._space_mt, remote._index_mt = schema.space_metatable(remote), schema.index_metatable(remote)
    if options.call_16 then
        remote.call, remote.eval = remote.call_16, remote.eval_16
    end
    for _, name in ipairs({'on_connect', 'on_disconnect', 'on_schema_reload', 'on_shutdown'}) do
        remote['_' .. name] = trigger.new(name)
    end
    remote._is_connected, remote._watched, remote._last_stream = false, {}, 0
    local channel = transport.new(host, port, user, password, events_of(remote))
    remote._transport = channel
    remote._guard = ffi.gc(ffi.new('char[1]'), function() channel:stop() end)
    if options.console then
        console.adopt(remote)
    end
    remote._transport:start()
    if options.wait_connected ~= false then
        remote._transport:wait_state('active', tonumber(options.wait_connected))
    end
    return remote
end

local function connect(...)
    return connect_to(parse_arguments(...))
end

-- ---- methods of a connection -----------------------------------------------------------------

local function check_remote(remote, method)
    if type(remote) ~= 'table' then
        box.error(box.error.PROC_LUA, ('Use remote:%s(...) instead of remote.%s(...):'):format(method, method))
    end
end

local function check_arguments(method, first, args)
    if args ~= nil and type(args) ~= 'table' and not require('internal.msgpack_object').is(args) then
        error(('Use remote:%s(%s, {arg1, arg2, ...}, opts) instead of remote:%s(%s, arg1, arg2, ...)')
            :format(method, first, method, first))
    end
end

-- Returns the version of the server's protocol and its features; nothing without a connection.
function remote_methods._protocol(remote)
    local found = remote._transport:known_protocol()
    if found ~= nil then
        return found[1], found[2]
    end
end

function remote_methods.new_stream(remote)
    check_remote(remote, 'new_stream')
    remote._last_stream = remote._last_stream + 1
    return stream.new(remote, remote._last_stream, check_remote, shown)
end

function remote_methods.watch(remote, key, run)
    check_remote(remote, 'watch')
    local conn = rawget(remote, '_conn') or remote
    local watcher = watchers.watch(conn, key, run)
    watchers.watch_shutdown(conn, shut_down)
    return watcher
end

function remote_methods.close(remote)
    check_remote(remote, 'close')
    remote._transport:stop()
end

-- Each names its field, because the errors of a wrong receiver do.
function remote_methods.on_connect(remote, ...)
    check_remote(remote, 'on_connect')
    return remote._on_connect(...)
end

function remote_methods.on_disconnect(remote, ...)
    check_remote(remote, 'on_disconnect')
    return remote._on_disconnect(...)
end

function remote_methods.on_schema_reload(remote, ...)
    check_remote(remote, 'on_schema_reload')
    return remote._on_schema_reload(...)
end

function remote_methods.on_shutdown(remote, ...)
    check_remote(remote, 'on_shutdown')
    if (...) ~= nil then
        watchers.watch_shutdown(remote, shut_down)
    end
    return remote._on_shutdown(...)
end

function remote_methods.is_connected(remote)
    check_remote(remote, 'is_connected')
    return remote.state == 'active' or remote.state == 'fetch_schema' or remote.state == 'graceful_shutdown'
end

function remote_methods.wait_connected(remote, timeout)
    check_remote(remote, 'wait_connected')
    return remote._transport:wait_state('active', timeout)
end

function remote_methods.wait_state(remote, state, timeout)
    check_remote(remote, 'wait_state')
    if timeout == nil then
        local deadline = remote._deadlines[fiber.self()]
        timeout = deadline and max(0, deadline - fiber.clock())
    end
    return remote._transport:wait_state(state, timeout)
end

for _, name in ipairs({'close', 'is_connected', 'on_connect', 'on_disconnect', 'on_schema_reload', 'wait_state'}) do
    console_methods[name] = remote_methods[name]
end

function console_methods.eval(remote, line, timeout)
    check_remote(remote, 'eval')
    return console.eval(remote, line, timeout)
end

local warned_of_timeout = false

-- Sets a deadline for the requests of this fiber. It is obsolete, because requests have an option `timeout`, and the
-- log says so once.
function remote_methods.timeout(remote, timeout)
    check_remote(remote, 'timeout')
    if not warned_of_timeout then
        warned_of_timeout = true
        log.warn('netbox:timeout(timeout) is deprecated since 1.7.4, ' ..
            'please use space:<request>(..., {timeout = t}) instead.')
    end
    remote._deadlines[fiber.self()] = timeout and fiber.clock() + timeout
    return remote
end

local function left_until(deadline)
    return deadline and max(0, deadline - fiber.clock()) or nil
end

-- Returns the text that Tarantool's client sends for an expression or statement: an empty one for what is no text.
local function text_of(value)
    local kind = type(value)
    return (kind == 'string' or kind == 'number') and tostring(value) or ''
end

local function send_async(remote, method, opts, format, ...)
    if opts.on_push or opts.on_push_ctx then
        error('To handle pushes in an async request use future:pairs()')
    end
    local request, problem = remote._transport:send(method, {
        format = format, buffer = opts.buffer, skip_header = opts.skip_header, return_raw = opts.return_raw,
        on_push = table.insert, on_push_ctx = {}, stream_id = remote._stream_id,
    }, ...)
    if request == nil then
        error(problem, 0)
    end
    return request
end

-- Sends a request. Returns a future if opts.is_async is set, else waits, and returns the value of the reply or
-- raises its error.
function remote_methods._request(remote, method, opts, format, ...)
    opts = opts or {}
    local buffer = opts.buffer
    if opts.return_raw ~= nil then
        check_option(opts, 'return_raw', 'boolean')
    end
    if opts.is_async then
        return send_async(remote, method, opts, format, ...)
    end
    local deadline = opts.timeout and fiber.clock() + opts.timeout or remote._deadlines[fiber.self()]
    local channel = remote._transport
    if remote.state ~= 'active' then
        channel:wait_state('active', left_until(deadline))
    end
    local request, problem = channel:send(method, {
        format = format, buffer = buffer, skip_header = opts.skip_header, return_raw = opts.return_raw,
        on_push = opts.on_push, on_push_ctx = opts.on_push_ctx, stream_id = remote._stream_id,
    }, ...)
    local value
    if request ~= nil then
        value, problem = request:wait_result(left_until(deadline))
        if value == nil and problem ~= nil then
            request:discard()
        end
    end
    if problem ~= nil then
        error(problem, 0)
    end
    if remote.state == 'fetch_schema' then
        channel:wait_state('active', left_until(deadline))
    end
    return value
end

function remote_methods.ping(remote, options)
    check_remote(remote, 'ping')
    return (pcall(remote._request, remote, 'ping', options))
end

function remote_methods.reload_schema(remote)
    check_remote(remote, 'reload_schema')
    remote:ping()
end

local function unpacked(value, options)
    if type(value) ~= 'table' or (options and options.is_async) then
        return value
    end
    return unpack(value)
end

function remote_methods.call(remote, name, args, options)
    check_remote(remote, 'call')
    check_arguments('call', 'func_name', args)
    return unpacked(remote:_request('call_17', options, nil, tostring(name), args or {}), options)
end

function remote_methods.call_16(remote, name, ...)
    check_remote(remote, 'call')
    return (remote:_request('call_16', nil, nil, tostring(name), {...}))
end

function remote_methods.eval(remote, expression, args, options)
    check_remote(remote, 'eval')
    check_arguments('eval', 'expression', args)
    return unpacked(remote:_request('eval', options, nil, text_of(expression), args or {}), options)
end

function remote_methods.eval_16(remote, expression, ...)
    check_remote(remote, 'eval')
    return unpack((remote:_request('eval', nil, nil, text_of(expression), {...})))
end

local function check_sql(name, options)
    if options ~= nil then
        box.error(box.error.UNSUPPORTED, name, 'options')
    end
end

function remote_methods.execute(remote, statement, params, sql_options, options)
    check_remote(remote, 'execute')
    check_sql('execute', sql_options)
    statement = type(statement) == 'number' and arguments.uint32(statement) or text_of(statement)
    return remote:_request('execute', options, nil, statement, params or {}, sql_options or {})
end

-- Prepares a statement. The argument after the statement, descriptions of parameters, is ignored.
function remote_methods.prepare(remote, statement, _, sql_options, options)
    check_remote(remote, 'prepare')
    if type(statement) ~= 'string' then
        box.error(box.error.SQL_PREPARE, 'expected string as SQL statement')
    end
    check_sql('prepare', sql_options)
    return remote:_request('prepare', options, nil, statement)
end

function remote_methods.unprepare(remote, id, _, sql_options, options)
    check_remote(remote, 'unprepare')
    if type(id) ~= 'number' then
        box.error('query id is expected to be numeric') -- itself a wrong call, as in Tarantool
    end
    check_sql('unprepare', sql_options)
    return remote:_request('unprepare', options, nil, arguments.uint32(id))
end

local M = {connect = connect, new = connect, self = itself(check_remote, check_arguments)}

-- Returns a table whose `connect` has a time limit: net_box.timeout(seconds).connect(...). It is obsolete.
function M.timeout(timeout, ...)
    if type(timeout) == 'table' then
        timeout = ...
    end
    if not timeout then
        return M
    end
    local function timed_connect(...)
        local host, port, options = parse_arguments(...)
        if options.wait_connected ~= false then
            options.wait_connected = timeout
        end
        return connect_to(host, port, options)
    end
    return setmetatable({connect = timed_connect, new = timed_connect}, {__index = M})
end

function M.wrap(connection, greeting)
    if connection == nil or type(greeting) ~= 'table' then
        error('Usage: netbox.wrap(socket, greeting, [opts])')
    end
    box.error(box.error.UNSUPPORTED, 'net.box', 'wrap()')
end

for _, name in ipairs({'establish_connection', 'create_transport'}) do
    M[name] = function()
        box.error(box.error.UNSUPPORTED, 'net.box', name .. '()')
    end
end

return M
