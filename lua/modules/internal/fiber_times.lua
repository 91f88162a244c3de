-- Measures the processor time of fibers for fiber.top(), once that is enabled.
--
-- The processor time of the thread is read at every switch. The time since the last switch belongs to the fiber that
-- ran, or to the loop (`sched`) if none did: tasks of Python, such as appliers, count there. The time of a fiber is a
-- sum. For shares of the processor there is also a meter by turns:
--
--     turn        at least a millisecond of the program; it ends at the next switch from the loop
--     previous    the share of a fiber in the time of the previous turn: its `instant`
--     average     a moving average of the shares: each turn has the weight 1/16, all earlier ones 15/16
--
-- Turns in which a fiber has not run are only counted when its meter is read.
local clock = require('clock')

local WEIGHT, TURN = 1 / 16, 0.001

local thread_time, seconds = clock.thread, clock.monotonic

local M = {}

local turn, turn_begun, last = 0, 0, 0
-- `all` is the meter of everything. A period lasts from reset to stop; time that began in an earlier period is not
-- counted.
local sched, all, owner
local period, is_measuring = 0, false

local function new_meter()
    return {turn = turn, used = 0, previous = 0, average = 0, time = 0}
end

-- Counts the turns that have ended since a meter was last read.
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

-- Adds the time since the last switch to its owner.
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

-- Wraps `resume` with a meter. `running` is the scheduler's table, where the fiber is already the running one.
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

-- Forgets the measured times and starts again.
function M.reset(fibers)
    period, is_measuring = period + 1, true
    turn, turn_begun, last = 0, seconds(), thread_time()
    sched, all = new_meter(), new_meter()
    owner = sched
    for _, fiber in pairs(fibers) do
        fiber.meter = nil
    end
end

-- Stops to measure; the measured times remain.
function M.stop()
    charge()
    is_measuring = false
end

-- Returns the seconds of a meter, 0 without one; the clock counts nanoseconds.
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

-- Returns the table of fiber.top(). `cpu_misses` is 0: the clock of a thread stays right when the processor changes.
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
