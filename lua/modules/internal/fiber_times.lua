-- Processor time of fibers, for fiber.top(). Nothing is measured, and nothing is asked for, until it is enabled.
--
-- The time of the thread is read at every switch. What has gone by since the last one belongs to the fiber that has run
-- until then, or to the loop (`sched`) where none has: Python's own tasks, such as appliers, count there. A fiber's time is
-- a sum, and so that shares can be told, also a meter that goes by turns:
--
--     a turn      at least a millisecond of the program; it ends at the first switch from the loop behind that
--     previous    what a fiber has used in the turn before, divided by what all have: its `instant`
--     average     of all turns, a turn with 1/16 of the weight and what was before with 15/16
--
-- Turns in which a fiber has not run are made up for when it is looked at.
local clock = require('clock')

local WEIGHT, TURN = 1 / 16, 0.001

local thread_time, seconds = clock.thread, clock.monotonic

local M = {}

local turn, turn_begun, last = 0, 0, 0
-- `all`: of everything that runs here. A period is from reset to stop; what was resumed in another one is not measured.
local sched, all, owner
local period, is_measuring = 0, false

local function new_meter()
    return {turn = turn, used = 0, previous = 0, average = 0, time = 0}
end

-- Count the turns that have ended since a meter was last looked at.
local function settle(meter)
    local missed = turn - meter.turn
    if missed > 0 then
        meter.average = ((1 - WEIGHT) * meter.average + WEIGHT * meter.used) * (1 - WEIGHT) ^ (missed - 1)
        meter.previous = missed == 1 and meter.used or 0
        meter.used, meter.turn = 0, turn
    end
    return meter
end

local function add(meter, used)
    settle(meter)
    meter.used, meter.time = meter.used + used, meter.time + used
end

-- What has gone by since the last switch is its owner's.
local function charge()
    local now = thread_time()
    add(owner, now - last)
    add(all, now - last)
    last = now
end

local function end_turn()
    local now = seconds()
    if now - turn_begun >= TURN then
        turn, turn_begun = turn + 1, now
    end
end

local function leave(began, outer, ...)
    if is_measuring and began == period then
        charge()
        owner = outer
    end
    return ...
end

-- `resume` with a meter; `running` is the scheduler's, for which the fiber runs already.
function M.measured(resume, running)
    return function(co, first)
        charge()
        local outer = owner
        if running.depth == 1 then
            outer = sched
            end_turn()
        end
        local fiber = running.fiber
        fiber.meter = fiber.meter or new_meter()
        owner = fiber.meter
        return leave(period, outer, resume(co, first))
    end
end

-- Forget what was measured, and begin anew.
function M.reset(fibers)
    period, is_measuring = period + 1, true
    turn, turn_begun, last = 0, seconds(), thread_time()
    sched, all = new_meter(), new_meter()
    owner = sched
    for _, fiber in pairs(fibers) do
        fiber.meter = nil
    end
end

-- Measure nothing more; what was measured stays.
function M.stop()
    charge()
    is_measuring = false
end

-- Seconds of a meter, or of none; the clock counts nanoseconds.
function M.seconds(meter)
    return meter and math.floor(meter.time * 1e9 + 0.5) / 1e9 or 0
end

local function share(part, whole)
    return whole > 0 and part / whole * 100 or 0
end

local function described(meter)
    settle(meter)
    return {
        instant = share(meter.previous, all.previous), average = share(meter.average, all.average),
        time = M.seconds(meter),
    }
end

-- What fiber.top() gives. A clock of the thread misses nothing when that comes to another processor.
function M.top(fibers)
    charge()
    settle(all)
    local cpu = {['1/sched'] = described(sched)}
    for id, fiber in pairs(fibers) do
        cpu[('%d/%s'):format(id, fiber.name)] = described(fiber.meter or new_meter())
    end
    return {cpu = cpu, cpu_misses = 0}
end

return M
