-- A library `coroutine` that lets a fiber wait inside a coroutine of the user. A wait yields a mark, and each enclosing
-- resume passes it on to the scheduler. Meanwhile nothing else can resume the coroutine.
local arguments = require('internal.arguments')
local nested = require('internal.nested_coroutine')

local enter, parked, pass = nested.enter, nested.parked, nested.pass
local raw_create, raw_yield = coroutine.create, coroutine.yield
local raw_status, raw_running = coroutine.status, coroutine.running
local raw_getinfo = debug.getinfo
local error, type, setmetatable = error, type, setmetatable

-- The coroutines of the user: only these may yield.
local users = setmetatable({}, {__mode = 'k'})

local function resume(co, ...)
    if type(co) ~= 'thread' then
        arguments.bad(1, 'coroutine expected', 2)
    end
    if parked[co] then
        return false, 'cannot resume non-suspended coroutine'
    end
    return pass(co, enter(co, ...))
end

local function new(...)
    local body = ...
    if type(body) ~= 'function' then
        arguments.bad(1, arguments.expected('function', ...), 3)
    end
    local co = raw_create(body)
    users[co] = true
    return co
end

local function create(...)
    local co = new(...)
    return co
end

-- Stands in the place of its caller: a text gets the position where the wrapped coroutine was called, as in LuaJIT.
local function outcome(ok, ...)
    if ok then
        return ...
    end
    local caller, problem = raw_getinfo(2, 'S'), ...
    -- In the place of frames that run a request or a script Tarantool has C code, which has no position.
    if type(problem) ~= 'string' or (caller ~= nil and caller.short_src:find('^builtin/internal/')) then
        error(problem, 0)
    end
    error(problem:match('^%Z*'), 2)    -- a zero byte ends the text, to which C adds the position
end

local function wrap(...)
    local co = new(...)
    return function(...)
        return outcome(resume(co, ...))
    end
end

local function yield(...)
    local co = raw_running()
    if co == nil or not users[co] then
        error('attempt to yield across C-call boundary', 0)
    end
    return raw_yield(...)
end

-- Returns whether the running coroutine is one of the user.
local function is_yieldable()
    return users[raw_running()] == true
end

local function status(co)
    if type(co) == 'thread' and parked[co] then
        return 'normal'
    end
    return raw_status(co)
end

coroutine.create, coroutine.resume, coroutine.wrap = create, resume, wrap
coroutine.yield, coroutine.status, coroutine.isyieldable = yield, status, is_yieldable

return coroutine
