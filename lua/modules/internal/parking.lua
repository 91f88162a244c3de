-- How a strand waits: it parks its coroutine until a token has ended, a timer has expired, or it is woken.
--
-- internal.scheduler calls `require('internal.parking')(running, make_ready)` once: `running.strand` is the current
-- strand, `running.timers` the number of the last timer, `make_ready(strand)` lets a strand run in the next round.
local python = require('internal.python')
local cells, woken = require('internal.cells'), require('internal.woken')

local raw_yield = coroutine.yield
local pcall, select, unpack = pcall, select, unpack
local count_woken = cells.count_woken

-- A coroutine yields this when its strand waits.
local PARK = {}
-- Waits of this many seconds and more have no deadline.
local FOREVER = 3e9
-- In `waiting`: nothing waits for this token any more.
local NOBODY = {}
-- The outcome of a token that has ended without a value.
local NOTHING = {ok = true, n = 0}
-- The words with which Tarantool ends the process.
local IN_FINALIZER = 'fiber %d is switched while running GC finalizer (i.e. __gc metamethod)'

return function(running, make_ready)
    local timers = {}
    local waiting, early = {}, {}
    local parking = {PARK = PARK, FOREVER = FOREVER}

    local function complete(token, outcome)
        local strand = waiting[token]
        if strand == nil then
            early[token] = outcome
            return
        end
        waiting[token] = nil
        if strand.token == token then
            strand.token, strand.outcome = nil, outcome
            make_ready(strand)
        end
    end

    -- Takes the tokens that have ended without a value. This happens before anything else becomes ready, to keep the
    -- order.
    local function take_woken()
        local count = count_woken()
        if count > 0 then
            for i = 0, count - 1 do
                complete(woken[i], NOTHING)
            end
            cells.forget_woken()
        end
    end
    parking.take_woken = take_woken

    -- Returns the running strand, which is about to wait.
    local function waiting_strand()
        local strand = running.strand
        if strand == nil then
            error('a wait outside of a fiber', 0)
        elseif strand.in_finalizer then
            error(IN_FINALIZER:format(running.fiber and running.fiber.id or 0), 0)
        end
        return strand
    end
    parking.waiting_strand = waiting_strand

    -- Raises an error, because the strand cannot wait inside a hook or inside a function that C code has called. It
    -- must not be woken later.
    local function stay(strand, problem)
        local timer, token = strand.timer, strand.token
        strand.yielding, strand.timer, strand.token = false, nil, nil
        if timer then
            timers[timer], running.active_timers = nil, running.active_timers - 1
            python.timer_stop(timer)
        end
        if token then
            waiting[token] = NOBODY
            python.cancel_wait(token)
        end
        error(problem, 0)
    end

    local function park_strand(strand)
        local hook = strand.fiber.on_yield
        if hook then
            hook()
        end
        local ok, problem = pcall(raw_yield, PARK)
        if not ok then
            stay(strand, problem)
        end
    end
    parking.park_strand = park_strand

    local function park()
        park_strand(waiting_strand())
    end
    parking.park = park

    -- Parks until something makes the strand ready. Returns true if that was the deadline, which is `timeout` seconds
    -- from now.
    function parking.suspend(timeout)
        if timeout == nil or timeout >= FOREVER then
            park()
            return false
        end
        if timeout ~= timeout then
            timeout = 0
        end
        local strand, timer = waiting_strand(), running.timers + 1
        running.timers, running.active_timers = timer, running.active_timers + 1
        timers[timer] = strand
        strand.timer = timer
        python.timer_start(timer, timeout)
        park_strand(strand)
        if strand.timer ~= timer then
            return true
        end
        strand.timer, timers[timer], running.active_timers = nil, nil, running.active_timers - 1
        python.timer_stop(timer)
        return false
    end

    -- Called by Python: a timer has expired.
    function parking.fire(timer)
        take_woken()
        local strand = timers[timer]
        if strand == nil then
            return
        end
        timers[timer], running.active_timers = nil, running.active_timers - 1
        if strand.timer == timer then
            strand.timer = nil
            make_ready(strand)
        end
    end

    -- Called by Python: a token has ended, with values or the bytes of an error.
    function parking.deliver(token, ...)
        take_woken()
        complete(token, {ok = true, n = select('#', ...), ...})
    end

    function parking.deliver_error(token, bytes)
        take_woken()
        complete(token, {ok = false, bytes})
    end

    -- Waits for a token. Only its end ends the wait: a cancellation asks Python, which ends the token with an error if
    -- the operation can be abandoned.
    function parking.wait(token)
        local outcome = early[token]
        if outcome then
            early[token] = nil
        else
            local strand = running.strand
            if strand == nil or strand.in_finalizer then
                waiting[token] = NOBODY
                python.cancel_wait(token)
                strand = waiting_strand()
            end
            waiting[token] = strand
            strand.token = token
            if strand.fiber.cancelled then
                python.cancel_wait(token)
            end
            while strand.token == token do
                park_strand(strand)
            end
            outcome, strand.outcome = strand.outcome, nil
        end
        if outcome == NOTHING then
            return
        elseif outcome.ok then
            return unpack(outcome, 1, outcome.n)
        end
        require('internal.error').raise(outcome[1])
    end

    return parking
end
