-- What box.ctl.on_shutdown triggers do when the instance ends. Python calls `box.shut_down` in a fiber of that name.

local errors = require('internal.error')
local fiber = require('fiber')
local python = require('internal.python')
local registry = require('internal.registry')

local ETIMEDOUT = require('errno').ETIMEDOUT
local ERROR = 2
local TIMED_OUT = 'on_shutdown triggers are timed out: not all triggers might have finished yet'

-- Starts every trigger in a fiber of its own. Returns the list of outcomes, which have `ok` once the trigger has ended.
local function start(triggers, ended)
    local outcomes = {}
    for number, trigger in ipairs(triggers) do
        local outcome = {}
        outcomes[number] = outcome
        fiber.create(function()
            fiber.name('trigger_fiber' .. number - 1)
            outcome.ok, outcome.problem = pcall(trigger)
            ended:broadcast()
        end)
    end
    return outcomes
end

-- The end of a cancelled fiber is not an error.
local function report(problem)
    if errors.is(problem) and problem.type == 'FiberIsCancelled' then
        require('log').info("fiber `on_shutdown' has been cancelled")
        require('log').info("fiber `on_shutdown': exiting")
    else
        python.log_error(errors.encode(problem))
    end
end

-- Runs the triggers, the newest first, until all have ended or `timeout` seconds are over. The log tells which have
-- failed. As in Tarantool, one that waits holds up no other, and all begin even if the time is over.
local function shut_down(triggers, timeout)
    local deadline, ended = fiber.clock() + timeout, fiber.cond()
    local outcomes = start(triggers, ended)
    local is_late = false
    for _, outcome in ipairs(outcomes) do
        while outcome.ok == nil and fiber.clock() < deadline do
            ended:wait(deadline - fiber.clock())
        end
        if outcome.ok == nil and not is_late then
            is_late = true
            report(errors.new({type = 'TimedOut', message = 'timed out', errno = ETIMEDOUT}))
        elseif outcome.ok == false then
            report(outcome.problem)
        end
    end
    if is_late then
        python.log_say(ERROR, '', TIMED_OUT)
    end
end

return function(list_of)
    python.entry('box.shut_down', registry.ref(function(timeout)
        local triggers = {}
        for number, trigger in ipairs(list_of('on_shutdown')) do
            triggers[number] = trigger
        end
        shut_down(triggers, timeout)
    end))
end
