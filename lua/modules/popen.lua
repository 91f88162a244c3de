-- require('popen'): other programs; their standard streams may be pipes.
local arguments = require('internal.arguments')
local clock = require('clock')
local errno = require('errno')
local ffi = require('ffi')
local fiber = require('fiber')
local gc = require('internal.finalizers').raw_gc
local errors = require('internal.error')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local table_new = require('table.new')
local wait = require('internal.wait')

local error, getmetatable, ipairs, pairs, setmetatable, type = error, getmetatable, ipairs, pairs, setmetatable, type

local SIGNALS = {
    'HUP', 'INT', 'QUIT', 'ILL', 'TRAP', 'ABRT', 'BUS', 'FPE', 'KILL', 'USR1', 'SEGV', 'USR2', 'PIPE', 'ALRM', 'TERM',
    'STKFLT', 'CHLD', 'CONT', 'STOP', 'TSTP', 'TTIN', 'TTOU', 'URG', 'XCPU', 'XFSZ', 'VTALRM', 'PROF', 'WINCH', 'IO',
    'PWR', 'SYS',
}
local signal = {}
for number, name in ipairs(SIGNALS) do
    signal['SIG' .. name] = number
end
signal.SIGIOT, signal.SIGPOLL = signal.SIGABRT, signal.SIGIO

local ACTIONS = {INHERIT = 'inherit', DEVNULL = 'devnull', CLOSE = 'close', PIPE = 'pipe'}
local STREAMS = {[0] = 'stdin', 'stdout', 'stderr'}
local SIGNALED = 256
local INFO = {'pid', 'command', 'opts', 'status', 'stdin', 'stdout', 'stderr'}

-- ---- errors ----------------------------------------------------------------------------------

local function illegal(text)
    error(errors.new_here({type = 'IllegalParams', message = text}), 0)
end

local function wrong(where, name, expected, got)
    illegal(('%s: wrong parameter "%s": expected %s, got %s'):format(where, name, expected, got))
end

local function failure(kind, text, number)
    errno(number)
    return nil, errors.new_here({type = kind, message = text, errno = number})
end

-- ---- arguments -------------------------------------------------------------------------------

-- Returns the action that a text names. As in Tarantool, its first letters are enough, or none, and a zero byte ends it.
local function action_of(text)
    for _, action in ipairs({ACTIONS.INHERIT, ACTIONS.DEVNULL, ACTIONS.CLOSE, ACTIONS.PIPE}) do
        local ended = action .. '\0'
        if ended:sub(1, #text) == text:sub(1, #ended) then
            return action
        end
    end
end

local FLAGS = {'shell', 'setsid', 'close_fds', 'restore_signals', 'group_signal', 'keep_child'}
local DEFAULTS = {
    stdin = 'inherit', stdout = 'inherit', stderr = 'inherit', shell = false, setsid = false, close_fds = true,
    restore_signals = true, group_signal = false, keep_child = false,
}

local function check_environment(env)
    if type(env) ~= 'table' then
        wrong('popen.new', 'opts.env', 'table or nil', type(env))
    end
    local texts = {}
    for name, value in pairs(env) do
        if type(name) ~= 'string' or type(value) ~= 'string' then
            wrong('popen.new', 'opts.env', '{[<string>] = <string>, ...}', 'a non-string key or value')
        end
        texts[name] = arguments.c_text(value)
    end
    return texts
end

-- Returns all options with their defaults, and the environment.
local function complete(given)
    local options = table.copy(DEFAULTS)
    for number = 0, #STREAMS do
        local name = STREAMS[number]
        local action = given[name]
        if type(action) ~= 'nil' then
            if type(action) ~= 'string' then
                wrong('popen.new', 'opts.' .. name, 'string or nil', type(action))
            end
            options[name] = action_of(action)
                or wrong('popen.new', 'opts.' .. name, 'popen.opts.<...> constant', arguments.c_text(action))
        end
    end
    local env = type(given.env) ~= 'nil' and check_environment(given.env) or nil
    for _, name in ipairs(FLAGS) do
        local value = given[name]
        if type(value) ~= 'nil' then
            if type(value) ~= 'boolean' then
                wrong('popen.new', 'opts.' .. name, 'boolean or nil', type(value))
            end
            options[name] = value
        end
    end
    return options, env
end

local function arguments_of(argv, options)
    local list = {}
    for number = 1, #argv do
        local argument = argv[number]
        if type(argument) ~= 'string' then
            wrong('popen.new', ('argv[%d]'):format(number), 'string', type(argument))
        end
        list[number] = arguments.c_text(argument)
    end
    if options.group_signal and not options.setsid then
        illegal('popen: group signal without setting sid')
    end
    return list
end

-- Returns the command as it is shown, with quotes around words that contain blanks.
local function shown(list, options)
    local words = {}
    if options.shell then
        words = {'sh', '-c'}
    end
    for _, word in ipairs(list) do
        words[#words + 1] = word:find('%s') and "'" .. word .. "'" or word
    end
    return table.concat(words, ' ')
end

-- ---- handles ---------------------------------------------------------------------------------

ffi.cdef('struct popen_guard { int number; };')
local guard_type = ffi.typeof('struct popen_guard')

-- Handle -> {number, pid, command, options, guard}.
local states = setmetatable({}, {__mode = 'k'})
local methods, prototype = {}, newproxy(true)

local function collect(guard)
    python.popen_close(guard.number)
end

local function state_of(handle, usage)
    local state = type(handle) == 'userdata' and states[handle] or nil
    if state == nil then
        illegal(usage)
    end
    return state
end

local function open_state(handle, usage)
    local state = state_of(handle, usage)
    if state.is_closed then
        illegal('popen: attempt to operate on a closed handle')
    end
    return state
end

local signal_names = {}
for name, number in pairs(signal) do
    if signal_names[number] == nil or name == 'SIG' .. (SIGNALS[number] or '') then
        signal_names[number] = name
    end
end

local function status_of(state)
    local code = state.code or python.popen_status(state.number)
    if code == nil then
        return {state = 'alive'}
    end
    state.code = code
    if code < SIGNALED then
        return {state = 'exited', exit_code = code}
    end
    local number = code - SIGNALED
    return {state = 'signaled', signo = number, signame = signal_names[number] or 'unknown'}
end

local function stream_status(state, number)
    local descriptor = python.popen_descriptor(state.number, number)
    if descriptor ~= nil then
        return descriptor > 0 and 'open' or 'closed'
    end
end

local getters = {}

function getters.pid(state)
    return status_of(state).state == 'alive' and state.pid or nil
end

function getters.command(state)
    return state.command
end

function getters.opts(state)
    return table.copy(state.options)
end

getters.status = status_of

for number, name in pairs(STREAMS) do
    getters[name] = function(state)
        return stream_status(state, number)
    end
end

local function info(state)
    local result = table_new(0, #INFO)
    for _, name in ipairs(INFO) do
        result[name] = getters[name](state)
    end
    return result
end

function methods.info(self)
    return info(open_state(self, 'Bad params, use: ph:info()'))
end

-- ---- streams ---------------------------------------------------------------------------------

-- Raises unless the end of the stream exists and is open.
local function check_stream(state, number)
    local status = stream_status(state, number)
    if status == nil then
        illegal('popen: handle does not support the requested IO operation')
    elseif status == 'closed' then
        illegal('popen: attempt to operate on a closed file descriptor')
    end
end

local function deadline_of(timeout, usage)
    if type(timeout) == 'nil' then
        return nil
    elseif type(timeout) ~= 'number' or timeout < 0 or timeout ~= timeout then
        illegal(usage)
    end
    return clock.monotonic() + timeout
end

-- Waits for a stream. Returns false after the timeout; raises if the handle is closed meanwhile.
local function wait_ready(state, number, deadline)
    local left = deadline and math.max(deadline - clock.monotonic(), 0)
    if left == 0 then
        fiber.yield()    -- even without a wait other fibers run
    end
    local ready = wait(python.popen_ready(state.number, number, left))
    if state.is_closed then
        illegal('popen: attempt to operate on a closed handle')
    end
    check_stream(state, number)
    return ready ~= 0
end

local function flag(options, name, usage)
    local value = options[name]
    if type(value) ~= 'nil' and type(value) ~= 'boolean' then
        illegal(usage)
    end
    return value
end

local function table_of(options, usage)
    if type(options) ~= 'nil' and type(options) ~= 'table' then
        illegal(usage)
    end
    return options or {}
end

local READ_USAGE = 'Bad params, use: ph:read([{stdout = <boolean>, stderr = <boolean>, timeout = <number>}])'

function methods.read(self, options)
    local state = open_state(self, READ_USAGE)
    options = table_of(options, READ_USAGE)
    local stdout, stderr = flag(options, 'stdout', READ_USAGE), flag(options, 'stderr', READ_USAGE)
    local deadline = deadline_of(options.timeout, READ_USAGE)
    if stdout and stderr then
        illegal('popen: reading from both stdout and stderr at one call is not supported')
    end
    local number = stderr and 2 or 1
    check_stream(state, number)
    while true do
        local data, problem = python.popen_read(state.number, number)
        if data ~= nil then
            return data
        elseif problem ~= errno.EAGAIN then
            return failure('SocketError', 'read(): ' .. errno.strerror(problem), problem)
        elseif not wait_ready(state, number, deadline) then
            return failure('TimedOut', 'timed out', errno.ETIMEDOUT)
        end
    end
end

local WRITE_USAGE = 'Bad params, use: ph:write(str[, {timeout = <number>}])'

function methods.write(self, data, options)
    local state = type(data) == 'string' and open_state(self, WRITE_USAGE) or illegal(WRITE_USAGE)
    options = table_of(options, WRITE_USAGE)
    local deadline = deadline_of(options.timeout, WRITE_USAGE)
    check_stream(state, 0)
    local done = 0
    while done < #data do
        local count, problem = python.popen_write(state.number, data, done)
        if count ~= nil then
            done = done + count
        elseif problem ~= errno.EAGAIN then
            return failure('SocketError', 'write(): ' .. errno.strerror(problem), problem)
        elseif not wait_ready(state, 0, deadline) then
            return failure('TimedOut', 'timed out', errno.ETIMEDOUT)
        end
    end
    return true
end

local SHUTDOWN_USAGE = 'Bad params, use: ph:shutdown({stdin = <boolean>, stdout = <boolean>, stderr = <boolean>})'

function methods.shutdown(self, options)
    local state = open_state(self, SHUTDOWN_USAGE)
    options = table_of(options, SHUTDOWN_USAGE)
    local chosen = {}
    for number = 0, #STREAMS do
        if flag(options, STREAMS[number], SHUTDOWN_USAGE) then
            chosen[#chosen + 1] = number
        end
    end
    if #chosen == 0 then
        illegal('popen: neither stdin, stdout nor stderr is set')
    end
    for _, number in ipairs(chosen) do
        if stream_status(state, number) == nil then
            illegal('popen: handle does not support the requested IO operation')
        end
    end
    for _, number in ipairs(chosen) do
        python.popen_shutdown(state.number, number)
    end
    return true
end

-- ---- the process -----------------------------------------------------------------------------

local function send(state, number)
    local ok, problem = python.popen_signal(state.number, number)
    if ok then
        return true
    elseif problem == errno.ESRCH then
        local text = 'Attempt to send a signal %d to a process that does not exist anymore'
        return failure('SystemError', text:format(number), problem)
    end
    local name = state.options.group_signal and 'killpg' or 'kill'
    return failure('SystemError', ('Unable to %s %d signo %d'):format(name, state.pid, number), problem)
end

local SIGNAL_USAGE = 'Bad params, use: ph:signal(signo)'

function methods.signal(self, number)
    state_of(self, SIGNAL_USAGE)
    if arguments.number(number) == nil then
        illegal(SIGNAL_USAGE)
    end
    return send(open_state(self, SIGNAL_USAGE), arguments.c_int(number))
end

function methods.terminate(self)
    return send(open_state(self, 'Bad params, use: ph:terminate()'), signal.SIGTERM)
end

function methods.kill(self)
    return send(open_state(self, 'Bad params, use: ph:kill()'), signal.SIGKILL)
end

function methods.wait(self)
    local state = open_state(self, 'Bad params, use: ph:wait()')
    if state.code == nil then
        wait(python.popen_wait(state.number))
        if state.is_closed then
            illegal('popen: attempt to operate on a closed handle')
        end
    end
    return status_of(state)
end

function methods.close(self)
    local state = state_of(self, 'Bad params, use: ph:close()')
    if not state.is_closed then
        state.is_closed = true
        gc(state.guard, nil)
        python.popen_close(state.number)
    end
    return true
end

local mt = getmetatable(prototype)
mt.__metatable = 'popen_handle'

function mt.__index(self, key)
    local state = states[self]
    if state == nil or type(key) ~= 'string' then
        illegal('Bad params, use __index(ph, <string>)')
    end
    local method = methods[key] or mt[key]
    if method ~= nil then
        return method
    elseif state.is_closed then
        illegal('Attempt to index a closed popen handle')
    end
    local getter = getters[key]
    return getter and getter(state)
end

function mt.__serialize(self)
    local state = state_of(self, 'Bad params, use: __serialize(ph)')
    return state.is_closed and '<closed popen handle>' or info(state)
end

-- ---- the module ------------------------------------------------------------------------------

local popen = {
    opts = ACTIONS,
    state = {ALIVE = 'alive', EXITED = 'exited', SIGNALED = 'signaled'},
    stream = {OPEN = 'open', CLOSED = 'closed'},
    signal = signal,
}

-- Returns the type of the first argument.
local function first_type(...)
    return select('#', ...) == 0 and 'no value' or type((...))
end

function popen.new(...)
    local argv, given = ...
    if type(argv) ~= 'table' then
        wrong('popen.new', 'argv', 'table', first_type(...))
    elseif type(given) ~= 'nil' and type(given) ~= 'table' then
        wrong('popen.new', 'opts', 'table or nil', type(given))
    end
    local options, env = complete(given or {})
    local list = arguments_of(argv, options)
    local number, pid = wait(python.popen_new(msgpack.encode({argv = list, options = options, env = env})))
    if number == nil then
        return failure('SystemError', errno.strerror(pid), pid)
    end
    local handle = newproxy(prototype)
    states[handle] = {
        number = number, pid = pid, command = shown(list, options), options = options,
        guard = gc(guard_type(number), collect),
    }
    return handle
end

function popen.shell(...)
    local command, mode = ...
    if type(command) ~= 'string' then
        wrong('popen.shell', 'command', 'string', first_type(...))
    elseif type(mode) ~= 'nil' and type(mode) ~= 'string' then
        wrong('popen.shell', 'mode', 'string or nil', type(mode))
    end
    local options = {shell = true, setsid = true, group_signal = true}
    for character in (mode or ''):gmatch('.') do
        if character == 'r' then
            options.stdout = 'pipe'
        elseif character == 'R' then
            options.stderr = 'pipe'
        elseif character == 'w' then
            options.stdin = 'pipe'
        else
            wrong('popen.shell', 'mode', "'r', 'w', 'R' or its combination", arguments.c_text(mode))
        end
    end
    return popen.new({command}, options)
end

return popen
