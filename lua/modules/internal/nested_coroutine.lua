-- Coroutines inside that of a fiber. If the fiber waits in one, the coroutine yields a mark, which is passed on to the
-- scheduler.
local scheduler = require('internal.scheduler')

local PARK, running, MOST_NESTED = scheduler.PARK, scheduler.running, scheduler.MOST_NESTED
local raw_create, raw_resume, raw_yield = coroutine.create, coroutine.resume, coroutine.yield
local rawequal, setmetatable = rawequal, setmetatable

-- The coroutines in which a fiber waits now.
local parked = setmetatable({}, {__mode = 'k'})

local function count_off(...)
    running.depth = running.depth - 1
    return ...
end

local function enter(co, ...)
    if running.depth >= MOST_NESTED then
        return false, scheduler.STACK_OVERFLOW
    end
    running.depth = running.depth + 1
    return count_off(raw_resume(co, ...))
end

local function pass(co, ...)
    local _, mark = ...
    if not rawequal(mark, PARK) then    -- `==` would call a metamethod of the user's values
        return ...
    end
    parked[co] = true
    raw_yield(PARK)
    parked[co] = nil
    return pass(co, enter(co))
end

return {enter = enter, parked = parked, pass = pass, raw_create = raw_create, raw_resume = raw_resume}
