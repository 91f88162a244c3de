-- xpcall whose handler may wait, as on Tarantool. The handler is called above the failed frames, where a yield is
-- impossible. So it runs in a coroutine of its own, which continues after these frames if it waits. Until then
-- debug.traceback and debug.getinfo show the failed frames through it.
local nested = require('internal.nested_coroutine')
local stack_text = require('internal.stack_text')
local standard = require('internal.standard_functions')
local PARK = require('internal.scheduler').PARK

local xpcall, pass, raw_create, raw_resume = xpcall, nested.pass, nested.raw_create, nested.raw_resume
local running = coroutine.running
local raw_getinfo, raw_traceback = debug.getinfo, debug.traceback
local described, stands_for_c = standard.described, standard.stands_for_c
local frames, shorten = stack_text.frames, stack_text.shorten
local error, getmetatable, math, rawequal = error, getmetatable, math, rawequal
local select, setmetatable, type = select, setmetatable, type

-- Coroutine of a handler -> the failed coroutine, while its frames exist.
local failed = setmetatable({}, {__mode = 'k'})
-- The frames of this file on the failed coroutine: coroutine.resume, and `handle` instead of its caller.
local OWN_FRAMES = 2

-- Stands for the result of a handler that waits.
local Waiting = {}

local function handle(handler, problem)
    local co = raw_create(handler)
    failed[co] = running()
    local ok, result = raw_resume(co, problem)
    failed[co] = nil
    if ok and rawequal(result, PARK) then    -- `==` would call a metamethod of a value
        return setmetatable({co = co}, Waiting)
    elseif not ok then
        error(result, 0)    -- ends in the standard way: an error in error handling
    end
    return result
end

-- Returns the outcome of a protected call; if the handler waits, it first waits for the handler's result. The number of
-- results stays the same.
local function outcome(...)
    local ok, result = ...
    if ok or type(result) ~= 'table' or getmetatable(result) ~= Waiting then
        return ...
    end
    local handled, value = pass(result.co, true, PARK)
    if not handled then
        return false, 'error in error handling'
    end
    return false, value
end

local function is_standard(handler)
    return type(handler) ~= 'function' or raw_getinfo(handler, 'S').what == 'C'
end

-- Calls the standard function by a tail call, which leaves no frame, so that error texts and levels stay the same.
function _G.xpcall(...)
    local body, handler = ...
    if is_standard(handler) then
        return xpcall(...)
    end
    return outcome(xpcall(body, function(problem) return handle(handler, problem) end, select(3, ...)))
end

-- Returns the number of frames of the running coroutine, without the two of the caller.
local function count_frames()
    local count = 0
    while raw_getinfo(count + 3, 'l') ~= nil do
        count = count + 1
    end
    return count
end

-- Frames of this node where Tarantool has none, or a C function that is there as well: our debug.traceback below, and
-- the functions that run a request, a script, a strand.
local OWN_LINES = {
    "\n\tbuiltin/internal/protected_call%.lua:%d+: in function 'xpcall'",
    '\n\tbuiltin/box/call[%a_]*%.lua:[^\n]*',
    '\n\tbuiltin/main%.lua:[^\n]*',
    "\n\t%[C%]: in function 'pcall'\n\tbuiltin/internal/strand%.lua:[^\n]*",
}

-- Below the function of a request stand the two `pcall` of internal.outermost, where Tarantool has one C function.
local OUTERMOST = "\n\t(%[[^\n]*)\n\t%[C%]: in function 'pcall'\n\tbuiltin/internal/outermost%.lua:[^\n]*"

-- Functions that are in C in Tarantool, with what they call to raise an error.
local IN_C = {
    "\n\t%[C%]: in function 'error'\n\tbuiltin/tarantool%.lua:%d+: in function '(require)'",
    "\n\tbuiltin/tarantool%.lua:%d+: in function '(require)'",
    "\n\tbuiltin/tarantool%.lua:%d+: in function '(dofile)'",
}

local function c_function(line)
    return '\n\t[C]: at ' .. (line:match('0x%x+') or '0x0')
end

local function hide(text)
    if type(text) == 'string' then
        text = text:gsub(OUTERMOST, c_function)
        for i = 1, #OWN_LINES do
            text = text:gsub(OWN_LINES[i], '')
        end
        for i = 1, #IN_C do
            text = text:gsub(IN_C[i], "\n\t[C]: in function '%1'")
        end
        text = text:gsub('\n\tbuiltin/internal/protected_call%.lua:%d+: in', '\n\t[C]: in')    -- level 0: debug.traceback itself
    end
    return text
end

local HEADING = 'stack traceback:'

-- Returns the text of frames from a level on, under a message, which is nil without one.
local function under(message, lines, level)
    return (message and message .. '\n' or '') .. HEADING .. shorten(hide(lines), level)
end

-- Returns the frames of the running coroutine and those of the failed one below it. The level is that of our caller's
-- caller.
local function look_through(co, level)
    -- Two frames more than those of the caller of debug.traceback.
    local own = count_frames() - 1
    local below = frames(co, OWN_FRAMES + math.max(level - own - 1, 0))
    return level > own and below or frames(running(), level + 3) .. below
end

-- Levels of the running coroutine count from `frames` on, which this function calls.
local FROM_FRAMES = 2

function debug.traceback(...)
    local thread, position = running(), 1
    if type((...)) == 'thread' then
        thread, position = ..., 2
    end
    local message, level = select(position, ...)
    if select('#', ...) >= position and type(message) ~= 'string' and type(message) ~= 'number' then
        return message
    end
    local is_own = thread == running()
    level = type(level) == 'number' and level or is_own and 1 or 0
    if thread == nil then
        return hide(raw_traceback(message or '', level + 1)):sub(message and 1 or 2)    -- no fiber runs
    elseif not is_own then
        return under(message, frames(thread, level), level)
    end
    local co = failed[thread]
    return under(message, co and look_through(co, level) or frames(thread, level + FROM_FRAMES), level)
end

-- Returns whether the function on a level above the caller of debug.getinfo stands for a function in C.
local function is_in_c(level)
    local frame = raw_getinfo(level + 2, 'f')
    return frame ~= nil and stands_for_c[frame.func]
end

local function is_choice(what)
    return what == nil or type(what) == 'string' and not what:find('[^nSlufL]')
end

-- Calls the standard function by a tail call, which leaves no frame, so that the level is still that of the caller.
function debug.getinfo(...)
    local level, what = ...
    local is_level = type(level) == 'number'
    local co = is_level and failed[running()]
    if co then
        local own = count_frames()
        if level > own then
            local place = OWN_FRAMES + level - own - 1
            local frame = raw_getinfo(co, place, 'f')
            local info = raw_getinfo(co, place, what)
            return frame ~= nil and stands_for_c[frame.func] and described(info) or info
        end
    end
    if stands_for_c[level] and is_choice(what) then
        return described(raw_getinfo(level, what))
    elseif is_level and level > 0 and is_in_c(level) and is_choice(what) then
        return described(raw_getinfo(level + 1, what))
    end
    return raw_getinfo(...)
end
