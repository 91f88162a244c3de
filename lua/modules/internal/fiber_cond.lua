-- fiber.cond(): condition variables.
local arguments = require('internal.arguments')
local opaque = require('internal.opaque')
local scheduler = require('internal.scheduler')
local wait_queue = require('internal.wait_queue')

local type, error, select = type, error, select

local methods = {}
local new, state_of

-- Checks the object and the call of a method. The error has the place of the method's caller.
local function check(usage, ...)
    local object = ...
    local waiters = object ~= nil and state_of(object)
    if waiters then
        return waiters
    elseif select('#', ...) == 0 then
        error('usage: ' .. usage, 3)
    end
    arguments.bad(1, arguments.expected('fiber.cond', ...), 3)
end

-- Waits. Returns true when signalled or woken, false after `timeout` seconds. Every end of a wait is a cancellation
-- point.
function methods.wait(...)
    local usage = 'cond:wait([timeout])'
    local waiters = check(usage, ...)
    local _, timeout = ...
    local seconds = arguments.number(timeout)
    if type(timeout) ~= 'nil' and (seconds == nil or seconds < 0) then
        error('usage: ' .. usage, 2)
    end
    local strand = scheduler.current_strand()
    local place = waiters:push(strand)
    local ok, timed_out = pcall(scheduler.suspend, seconds)
    waiters:remove(place, strand)
    if not ok then
        error(timed_out, 0)
    end
    scheduler.test_cancel()
    return not timed_out
end

function methods.signal(...)
    local strand = check('cond:signal()', ...):pop()
    if strand then
        scheduler.make_ready(strand)
    end
end

function methods.broadcast(...)
    local waiters = check('cond:broadcast()', ...)
    while waiters.count > 0 do
        scheduler.make_ready(waiters:pop())
    end
end

function methods.__tostring()
    return 'cond'
end

new, state_of = opaque('fiber.cond', methods)

return function()
    return new(wait_queue.new())
end
