-- Wraps finalizers of the user: those of ffi.gc, and __gc of ffi.metatype and of proxies.
--
-- Finalizers run wherever Lua allocates, also on the way between Python and Lua, where nothing would catch an error:
-- LuaJIT 2.0 throws it through the frames of Python. The wrapper logs errors and refuses waits (`scheduler.finalize`).
-- Finalizers also run wherever compiled code is left, even between two stores: one that interrupts the scheduler waits
-- for the tick. Our own modules, whose finalizers neither raise nor wait, use `raw_gc`.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local cells = require('internal.cells')
local call_aside = require('internal.msgpack_encode').call_aside
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local raw_gc, raw_metatype, raw_newproxy = ffi.gc, ffi.metatype, newproxy
local get_metatable, pcall, rawget, rawset, tostring, type = debug.getmetatable, pcall, rawget, rawset, tostring, type
local setmetatable, getinfo = setmetatable, debug.getinfo
local is_closed, is_dead = cells.is_closed, cells.is_dead
local finalize, finalize_later = scheduler.finalize, scheduler.finalize_later
local current_coroutine = scheduler.current_coroutine

-- Modules that a finalizer must not interrupt, because it may make, wake or cancel fibers.
local DELICATE = {}
local NAMES = {
    'cells', 'fiber_channel', 'fiber_cond', 'finalization', 'parking', 'scheduler', 'strand', 'wait_queue',
}
for _, name in ipairs(NAMES) do
    DELICATE['@builtin/internal/' .. name .. '.lua'] = true
end
-- Levels of the stack: 1 is the asking function, 2 the finalizer.
local INTERRUPTED = 3

-- Once the state closes, no tick follows: what interrupts the last run of delayed finalizers must run at once or would
-- be lost. internal.finalization may be entered again at any point, the other modules may not.
local REENTRANT_AT_THE_END = '@builtin/internal/finalization.lua'

local function is_delicate(place)
    local source = place ~= nil and place.source
    if source == REENTRANT_AT_THE_END and is_closed() then
        return false
    end
    return DELICATE[source] == true
end

-- Returns whether the finalizer has interrupted the scheduler. LuaJIT 2.1 calls finalizers on a coroutine of their own,
-- whose stack does not show the interrupted function. If no fiber runs, it was the scheduler, unless the state is being
-- freed.
local function interrupts_scheduler()
    local place, co = getinfo(INTERRUPTED, 'S'), current_coroutine()
    if place ~= nil then
        return is_delicate(place)
    elseif co ~= nil then
        return is_delicate(getinfo(co, 0, 'S'))
    end
    return not is_closed()
end

-- Finalizer -> its wrapper, and wrapper -> itself, so that a wrapper is not wrapped again. The map is weak: only the
-- objects keep the wrappers.
local wrappers = setmetatable({}, {__mode = 'kv'})

local function report(problem)
    python.log('error', 'ERROR in finalizer: ' .. tostring(problem))
end

local function wrap(finalizer)
    local wrapper = wrappers[finalizer]
    if wrapper ~= nil then
        return wrapper
    end
    local function guarded(object)
        local ok, problem = pcall(finalizer, object)
        if not ok then
            pcall(report, problem)    -- the __tostring of the error may fail
        end
    end
    local function run(object)
        call_aside(guarded, object)
    end
    if type(finalizer) == 'cdata' then
        wrapper = run    -- a C function does not wait
    else
        wrapper = function(object)
            if is_dead() then
                return
            elseif interrupts_scheduler() then
                finalize_later(run, object)
            else
                finalize(run, object)
            end
        end
    end
    wrappers[finalizer], wrappers[wrapper] = wrapper, wrapper
    return wrapper
end

function ffi.gc(object, ...)
    local finalizer = ...
    if finalizer then
        return raw_gc(object, wrap(finalizer))
    end
    return raw_gc(object, ...)
end

function ffi.metatype(ctype, metatable)
    local finalizer = type(metatable) == 'table' and rawget(metatable, '__gc')
    if finalizer then
        metatable.__gc = wrap(finalizer)
    end
    return raw_metatype(ctype, metatable)
end

-- Catches the assignment of __gc to the metatable of a proxy.
local proxy_mt = {__newindex = function(metatable, key, value)
    rawset(metatable, key, key == '__gc' and value and wrap(value) or value)
end}

function _G.newproxy(...)
    local kind = type((...))
    if kind ~= 'nil' and kind ~= 'boolean' and not (kind == 'userdata' and get_metatable((...)) ~= nil) then
        arguments.bad(1, 'boolean or proxy expected', 2)
    end
    local proxy = raw_newproxy(...)
    if (...) == true then
        setmetatable(get_metatable(proxy), proxy_mt)
    end
    return proxy
end

return {raw_gc = raw_gc}
