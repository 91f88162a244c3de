-- Fibers as coroutines. Python wakes, Lua schedules.
--
-- This module decides which fiber runs when. internal.strand makes and ends fibers, internal.parking lets them wait,
-- and internal.finalization runs finalizers of the user.
--
-- Life of a strand:
--     ready ---run---> running ---park---> parked ---(deliver | fire | wake)---> ready
--                         |---yield---> yielded ---next tick---> ready
--                         '---return or raise---> finished; its coroutine goes back to the pool
--
-- One tick of the Python loop runs all strands that are ready or become ready meanwhile, in up to a few rounds. Fibers
-- that yielded wait for the next round. Input and timers are handled between ticks, which is Tarantool's order as well.
-- A turn of the loop costs more than a round, so fibers that do little between yields have several rounds in one tick.
local python = require('internal.python')
local cells = require('internal.cells')
local registry = require('internal.registry')
local strands = require('internal.strand')
local yield_order = require('internal.yield_order')

local raw_resume = coroutine.resume
local max, unpack = math.max, unpack
local show_running, want_tick, count_woken = cells.show_running, cells.want_tick, cells.count_woken
local is_stopped, show_lazy_again = cells.is_stopped, cells.show_lazy_again
local fibers, new_fiber, new_strand = strands.fibers, strands.new_fiber, strands.new
local take_coroutine, give_back, IDLE = strands.take_coroutine, strands.give_back, strands.IDLE
-- A simulation passes a clock. That of the system is cheaper: it costs a fifth of a crossing to Python.
local seconds = python.seconds or require('clock').monotonic

-- The limit of switches in a tick: fibers that keep waking each other must not starve the loop.
local TICK_BUDGET = 10000
-- The limit of rounds in a tick, and of the seconds that they may take.
local ROUNDS, LONG_TICK = 32, 0.0001
-- The limit of nested coroutines: each takes a part of the C stack, and an overflow would end the process.
local MOST_NESTED = 800

local queue, queue_head, queue_tail = {}, 0, 0
-- `next_yielded` is the empty table that replaces `yielded` in the next round.
local yielded, next_yielded, yielded_count = {}, {}, 0
-- Place among those that yielded -> the number of timers that had been started.
local started = {}
local last_activation = 0

-- `strand` and `fiber` are the running ones, or nil; fields, because a call would be too slow for frequent readers.
-- `depth` is the number of nested coroutines, those of the user included. `timers` is the number of timers that have
-- been started, `active_timers` that of those that run. `outer` is the strand that has started the running one and goes on
-- when it waits, or nil.
local running = {strand = nil, outer = nil, fiber = nil, depth = 0, timers = 0, active_timers = 0}

-- Resumes a strand. While times of fibers are measured or limited other functions do.
local resume, measure, limit = raw_resume, nil, nil

-- Runs a strand until it parks or ends. The caller may be the tick, another fiber or a call from Python.
local function switch(strand)
    local co, first, ok, mark = strand.co, nil, nil, nil
    local previous, outer, fiber = running.strand, running.outer, strand.fiber
    if co == nil then
        co, first = take_coroutine(), strand
        strand.co = co
    end
    if first == nil or strand.is_first then    -- a call from inside the fiber, as that of a trigger, is no switch
        fiber.csw = fiber.csw + 1
    end
    running.fiber = fiber
    show_running(fiber.id)
    if fiber.lacks_context then
        show_lazy_again(fiber.id, fiber.wave)
    end
    strand.ready, strand.yielding = false, false
    running.strand, running.outer = strand, previous
    running.depth = running.depth + 1
    ok, mark = resume(co, first)
    running.depth = running.depth - 1
    running.strand, running.outer = previous, outer
    fiber = previous and previous.fiber
    running.fiber = fiber
    show_running(fiber and fiber.id or 0)
    if mark == IDLE then
        give_back(co)
    elseif not ok then
        python.log('crit', 'a coroutine of the scheduler died: ' .. tostring(mark))
    end
end

local function make_ready(strand)
    if strand.ready or strand.finished then
        return
    end
    strand.ready = true
    queue_tail = queue_tail + 1
    queue[queue_tail] = strand
    want_tick()
end

local parking = require('internal.parking')(running, make_ready)
local finalization = require('internal.finalization')(running, switch)
local take_woken, waiting_strand, park_strand = parking.take_woken, parking.waiting_strand, parking.park_strand
local put_off = finalization.put_off

local scheduler = {
    PARK = parking.PARK, FOREVER = parking.FOREVER, fibers = fibers, take_id = cells.take_id, running = running,
    -- The number of daemons that wait with a timer in Tarantool; it has a say in the order of fibers that yielded.
    daemon_timers = 1,
    MOST_NESTED = MOST_NESTED, STACK_OVERFLOW = 'C stack overflow', make_ready = make_ready,
    current_strand = waiting_strand, park = parking.park, suspend = parking.suspend, wait = parking.wait,
    fire = parking.fire, deliver = parking.deliver, deliver_error = parking.deliver_error,
    finalize = finalization.finalize, finalize_later = finalization.finalize_later,
    finalize_all = finalization.finalize_all,
}

-- Makes the strand at a place among those that yielded ready to run.
local function promote(batch, place)
    local strand = batch[place]
    batch[place] = nil
    if strand.yielding then
        make_ready(strand)
    end
end

-- Makes the strands that yielded ready, in the order of Tarantool.
local function promote_yielded()
    local batch, count = yielded, yielded_count
    yielded, next_yielded, yielded_count = next_yielded, batch, 0
    if count == 1 then
        promote(batch, 1)
        return
    end
    local now = running.timers
    local before = scheduler.daemon_timers + max(running.active_timers - (now - started[1]), 0)
    local order = yield_order(before, started, count, now)
    for i = 1, count do
        promote(batch, order[i])
    end
end

-- Runs ready strands, at most `budget` of them. Returns the unused part of the budget.
local function run_round(budget)
    cells.forget_clocks()
    if yielded_count > 0 then
        promote_yielded()
    end
    while queue_head < queue_tail and budget > 0 do
        queue_head = queue_head + 1
        local strand = queue[queue_head]
        queue[queue_head] = nil
        if not strand.finished then
            switch(strand)
        end
        budget = is_stopped() and 0 or budget - 1
    end
    if queue_head == queue_tail then
        queue_head, queue_tail = 0, 0
    end
    return budget
end

-- Runs ready strands. Returns whether another tick is needed.
function scheduler.run()
    take_woken()
    cells.want_no_tick()
    if put_off.head < put_off.tail then
        finalization.finalize_put_off()
    end
    local start = yielded_count > 0 and seconds()
    local budget, round = run_round(TICK_BUDGET), 1
    -- Starts another round only for fibers that have yielded, as anything else may take longer than a round.
    while start and round < ROUNDS and yielded_count > 0 and queue_tail == 0 and count_woken() == 0
            and put_off.head == put_off.tail and seconds() - start < LONG_TICK do
        budget, round = run_round(budget), round + 1
    end
    -- Tokens may have ended during the run, because some requests to the journal complete its pending writes first.
    cells.want_no_tick()
    local more = queue_tail > 0 or yielded_count > 0 or count_woken() > 0 or put_off.head < put_off.tail
    if more then
        want_tick()
    end
    return more
end

-- Lets other fibers run until the next round.
function scheduler.yield()
    local strand = waiting_strand()
    strand.yielding = true
    yielded_count = yielded_count + 1
    yielded[yielded_count], started[yielded_count] = strand, running.timers
    want_tick()
    park_strand(strand)
end

-- Lets the fibers run that are ready, and those that become ready meanwhile. Does nothing if others have yielded, which
-- would run as well. Returns whether there are such.
function scheduler.run_ready()
    local strand = waiting_strand()
    while yielded_count == 0 do
        make_ready(strand)
        park_strand(strand)
        if queue_head == queue_tail then
            return yielded_count > 0
        end
    end
    return true
end

-- Makes a fiber that is ready to run but has not started.
function scheduler.new(name, run, ...)
    local fiber = new_fiber(name)
    make_ready(new_strand(fiber, run, ...))
    return fiber
end

-- Makes a fiber and runs it until its first wait.
function scheduler.create(name, run, ...)
    if running.depth >= MOST_NESTED then
        error(scheduler.STACK_OVERFLOW, 0)
    end
    local fiber = new_fiber(name)
    local strand = new_strand(fiber, run, ...)
    local fiber_of_caller = running.fiber
    local hook = fiber_of_caller and fiber_of_caller.on_yield
    if hook then
        hook()
    end
    switch(strand)
    return fiber
end

-- Returns the coroutine of the running strand, or nil.
function scheduler.current_coroutine()
    local strand = running.strand
    return strand and strand.co
end

-- The name of a fiber that serves a request.
local REQUEST_FIBER = 'main'

-- Makes a fiber for a call from Python. `id` is the one that Python has reserved, or nil.
local function fiber_for_python(name, id)
    local fiber = new_fiber(name, id)
    fiber.has_context, fiber.started_by_python = id ~= nil, true
    return fiber
end

-- Runs a function for Python, on a new strand, until it ends or waits. Returns the strand, which has an activation if
-- it waits.
local function start_strand(fiber, run, ...)
    local strand = new_strand(fiber, run, ...)
    strand.report = strands.report
    switch(strand)
    if not strand.finished then
        last_activation = last_activation + 1
        strand.activation = last_activation
    end
    return strand
end

-- Called by Python: runs a registered function, on a new fiber (`fiber_id` 0) or on another strand of a living one.
-- `lent` is the id of the new fiber, whose context exists already; 0 means that there is none. Returns `true,
-- values...` or `false, error bytes` if it ended, else the number that `finish` will report and the id of the fiber.
function scheduler.start(fiber_id, name, lent, handle, ...)
    take_woken()
    local run = registry.get(handle)
    local fiber = fibers[fiber_id] or fiber_for_python(name, lent ~= 0 and lent or nil)
    local strand = start_strand(fiber, run, ...)
    if strand.finished then
        return strand.ok, unpack(strand.results, 1, strand.count)
    end
    return strand.activation, fiber.id
end

-- Set by box.call_wave: called with the strand of a function of a wave that has begun to wait. Returns true if the wave
-- goes on with the next request.
scheduler.call_waits = nil

-- Called by Python: runs a registered function, which serves requests one after another, on a new fiber. Whenever it
-- waits, it is called again on another new fiber, to go on with the next request, if `call_waits` says so.
-- Returns `true, values...` or `false, error bytes` of the fiber that has ended; or true, if all of them wait.
function scheduler.start_wave(handle, ...)
    take_woken()
    local run = registry.get(handle)
    repeat
        local fiber = fiber_for_python(REQUEST_FIBER)
        fiber.has_context = true    -- or will have one: see `cells.lacks_context`
        cells.show_lazy(fiber.id)
        local strand = start_strand(fiber, run, ...)
        if strand.finished then
            return strand.ok, unpack(strand.results, 1, strand.count)
        end
        fiber.has_context = false
    until not scheduler.call_waits(strand)
    return true
end

-- Called by Python: notes that the fiber has a context now, which it returns at its end. Returns the wave and the sync of
-- a function of a wave that has waited: its end is reported in any case.
function scheduler.keep_context(id)
    local fiber = fibers[id]
    if fiber == nil then
        return
    elseif fiber.wave then
        fiber.lacks_context = false
        return fiber.wave, fiber.sync
    end
    fiber.has_context = true
end

function scheduler.wakeup(fiber)
    local strand = fiber.strand
    if strand and not strand.token then
        make_ready(strand)
    end
end

function scheduler.cancel(fiber)
    if fiber.finished then
        return
    end
    fiber.cancelled = true
    local strand = fiber.strand
    if strand == running.strand then
        return
    end
    if strand.token then
        python.cancel_wait(strand.token)
    else
        make_ready(strand)
    end
end

-- Called by Python: cancels a fiber, because nobody waits for it any more.
function scheduler.cancel_id(id)
    local fiber = fibers[id]
    if fiber then
        scheduler.cancel(fiber)
    end
end

-- Called by Python: returns whether the fiber is inside a bound function, so that a call from there belongs to it.
function scheduler.is_in_python(id)
    local fiber = fibers[id]
    local strand = fiber and fiber.strand
    return strand ~= nil and (strand == running.strand or strand.token ~= nil)
end

-- Called by Python: returns whether no other fiber will run before the end of this round, and none waits for the running
-- one to give way.
function scheduler.is_alone()
    return running.outer == nil and queue_head == queue_tail and yielded_count == 0
end

-- Returns the running fiber, or nil.
function scheduler.current_fiber()
    return running.fiber
end

function scheduler.is_cancelled()
    local fiber = running.fiber
    return fiber ~= nil and fiber.cancelled == true
end

-- A cancellation point: raises if the running fiber is cancelled.
function scheduler.test_cancel()
    local fiber = running.fiber
    if fiber and fiber.cancelled then
        require('internal.error').raise_cancelled()
    end
end

local function wrap_resume()
    resume = measure and measure(raw_resume, running) or raw_resume
    resume = limit and limit(resume) or resume
end

-- Makes `measured(resume, running)` return the function that resumes strands from now on; nil ends the measurement.
function scheduler.set_measured(measured)
    measure = measured
    wrap_resume()
end

-- Makes `limited(resume)` return the function that resumes strands from now on; see internal.fiber_slices.
function scheduler.set_limited(limited)
    limit = limited
    wrap_resume()
end

-- Sets `hook()`, which is called whenever the running fiber is about to give way; nil removes it.
function scheduler.set_yield_hook(hook)
    running.fiber.on_yield = hook
end

return scheduler
