-- Fibers as coroutines. Python wakes, Lua schedules.
--
-- A *strand* is one coroutine with its wait state; a *fiber* is the identity that Lua code sees. A fiber begins
-- with one strand. When Python calls Lua while the fiber is inside a bound Python function (a trigger, a stored
-- function), that call runs on another strand of the same fiber, so that it may wait too; the innermost strand
-- is the one that `wakeup` and `cancel` reach.
--
-- Life of a strand:
--     ready ---run---> running ---park---> parked ---(deliver | fire | wake)---> ready
--                         |---yield---> yielded ---next tick---> ready
--                         '---return or raise---> finished; its coroutine goes back to the pool
--
-- One tick of the Python loop runs everything that is ready, and what becomes ready meanwhile, in up to a few rounds.
-- Fibers that yielded wait for the next round, and input and timers have their turn between ticks: the peer's order as
-- well. A turn of the loop costs more than a round, so that fibers which do little between yields have several in one.
--
-- A finalizer may make, wake and cancel fibers, and the collector may run it in any C function that is called here. None
-- runs between two lines of this file: internal.finalizers puts it off.
local python = require('internal.python')
local cells, woken = require('internal.cells'), require('internal.woken')
local registry = require('internal.registry')

local raw_create, raw_resume, raw_yield = coroutine.create, coroutine.resume, coroutine.yield
local pcall, select, unpack, type = pcall, select, unpack, type
local show_running, want_tick, count_woken, take_id = cells.show_running, cells.want_tick, cells.count_woken, cells.take_id
local is_stopped = cells.is_stopped
-- A clock of the caller's, which a simulation has; the system's costs a fifth of a crossing.
local seconds = python.seconds or require('clock').monotonic

-- What a coroutine of the scheduler yields.
local PARK, IDLE = {}, {}
-- At most so many switches in a tick: fibers that keep waking each other must not starve the loop.
local TICK_BUDGET = 10000
-- So many rounds a tick, as long as they take less than so many seconds.
local ROUNDS, LONG_TICK = 32, 0.0001
-- Waits of this many seconds and more have no deadline.
local FOREVER = 3e9
-- In `waiting`: nobody wants to know how this token ends.
local NOBODY = {}
local MUST_NOT_WAIT = 'a finalizer must not wait'
-- So many coroutines may be resumed inside each other: each takes a part of the C stack, whose end is the process's.
local MOST_NESTED = 800
-- And so many finalizers; the others wait for the next tick.
local MOST_FINALIZERS = 20
-- Of finalizers that put off others, before the state is freed: as many as LuaJIT itself has for objects that make others.
local MOST_ROUNDS = 10

local fibers = {}
local current
local queue, queue_head, queue_tail = {}, 0, 0
-- `next_yielded`: the empty table that takes the place of `yielded` in the next round.
local yielded, next_yielded, yielded_count = {}, {}, 0
local pool, pool_size = {}, 0
local timers, last_timer = {}, 0
local waiting, early = {}, {}
local last_activation = 0
-- The fiber whose finalizer runs, 0: there is none.
local finalizing, finalizer_depth = 0, 0
-- Finalizers that wait for the next tick, each followed by its object. Who puts one off moves the tail alone, who runs
-- them the head alone: the one may interrupt the other between any two steps.
local put_off, put_off_head, put_off_tail = {}, 0, 0

-- `running.fiber`: the fiber that is running, or nil, for who asks too often for a call. `running.depth`: how many
-- coroutines have been resumed inside each other, those of the user included.
local running = {depth = 0}
local scheduler = {
    PARK = PARK, fibers = fibers, FOREVER = FOREVER, take_id = take_id, running = running, MOST_NESTED = MOST_NESTED,
    STACK_OVERFLOW = 'C stack overflow',
}

-- Set by internal.fiber: called with a fiber that has ended and with its outcome.
scheduler.on_end = nil

-- `id`: what Python has taken for it; nil: the next one.
local function new_fiber(name, id)
    if id == nil then
        id = take_id()
    end
    local fiber = {id = id, name = name or 'lua', csw = 0}
    fibers[id] = fiber
    return fiber
end

local function new_strand(fiber, run, ...)
    local strand = {fiber = fiber, run = run, parent = fiber.strand, n = select('#', ...), ...}
    local parent = strand.parent
    if parent == nil then
        strand.is_first = true
    else
        strand.in_finalizer = parent.in_finalizer
    end
    fiber.strand = strand
    return strand
end

local function unlink(strand)
    local fiber = strand.fiber
    if fiber.strand == strand then
        fiber.strand = strand.parent
        return
    end
    local above = fiber.strand
    while above and above.parent ~= strand do
        above = above.parent
    end
    if above then
        above.parent = strand.parent
    end
end

local function end_fiber(fiber, ok, ...)
    fiber.finished = true
    if fiber.has_context then
        python.fiber_end(fiber.id)
    end
    if not fiber.joinable then
        fibers[fiber.id] = nil
    end
    scheduler.on_end(fiber, ok, ...)
end

-- Python started this strand and waits for its values, or for the bytes of its error.
local function report(strand, ok, ...)
    if not ok then
        strand.count, strand.results = 1, {(require('internal.error').encode((...)))}
    else
        strand.count, strand.results = select('#', ...), {...}
    end
    strand.ok = ok
    if strand.activation then
        python.finish(strand.activation, ok, unpack(strand.results, 1, strand.count))
    end
end

local function finish(strand, ok, ...)
    strand.finished = true
    unlink(strand)
    if strand.is_first then
        end_fiber(strand.fiber, ok, ...)
    end
    if strand.for_python then
        report(strand, ok, ...)
    end
end

local function work(strand)
    while true do
        finish(strand, pcall(strand.run, unpack(strand, 1, strand.n)))
        strand = raw_yield(IDLE)
    end
end

local function take_coroutine()
    if pool_size == 0 then
        return raw_create(work)
    end
    local co = pool[pool_size]
    pool[pool_size] = nil
    pool_size = pool_size - 1
    return co
end

-- Run a strand until it parks or ends. The caller may be the tick, another fiber or a call from Python.
local function switch(strand)
    local co, first, ok, mark = strand.co, nil, nil, nil
    if co == nil then
        co, first = take_coroutine(), strand
        strand.co = co
    end
    local previous, fiber = current, strand.fiber
    running.fiber = fiber
    show_running(fiber.id)
    fiber.csw = fiber.csw + 1
    strand.ready, strand.yielding = false, false
    current = strand
    running.depth = running.depth + 1
    ok, mark = raw_resume(co, first)
    running.depth = running.depth - 1
    current = previous
    fiber = previous and previous.fiber
    running.fiber = fiber
    show_running(fiber and fiber.id or 0)
    if mark == IDLE then
        pool_size = pool_size + 1
        pool[pool_size] = co
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
scheduler.make_ready = make_ready

-- Of those that yielded, the one at a place.
local function promote(batch, place)
    local strand = batch[place]
    batch[place] = nil
    if strand.yielding then
        make_ready(strand)
    end
end

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

-- Tokens that have ended without a value; before anything else becomes ready, so that the order stays.
local NOTHING = {ok = true, n = 0}

local function take_woken()
    local count = count_woken()
    if count > 0 then
        for i = 0, count - 1 do
            complete(woken[i], NOTHING)
        end
        cells.forget_woken()
    end
end

-- Of those that yielded, the first goes first and the others follow from last to second: a yield is a timer in the
-- peer, and this is how its heap gives out timers of the same time.
local function promote_yielded()
    local batch, count = yielded, yielded_count
    yielded, next_yielded, yielded_count = next_yielded, batch, 0
    promote(batch, 1)
    for i = count, 2, -1 do
        promote(batch, i)
    end
end

-- Run what is ready, at most `budget` fibers; what is left of the budget.
local function run_round(budget)
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

-- Run what is ready. True if another tick is wanted.
function scheduler.run()
    take_woken()
    cells.want_no_tick()
    if put_off_head < put_off_tail then
        scheduler.finalize_put_off()
    end
    local start = yielded_count > 0 and seconds()
    local budget, round = run_round(TICK_BUDGET), 1
    -- Another round for fibers that have yielded: anything else that is left may stand for more than a round.
    while start and round < ROUNDS and yielded_count > 0 and queue_tail == 0 and count_woken() == 0
            and put_off_head == put_off_tail and seconds() - start < LONG_TICK do
        budget, round = run_round(budget), round + 1
    end
    -- Tokens may have ended during the run: a fiber that asks the journal for more than a write sends it off first.
    cells.want_no_tick()
    local more = queue_tail > 0 or yielded_count > 0 or count_woken() > 0 or put_off_head < put_off_tail
    if more then
        want_tick()
    end
    return more
end

-- The strand that is running, which is about to wait.
local function waiting_strand()
    local strand = current
    if strand == nil then
        error('a wait outside of a fiber', 0)
    elseif strand.in_finalizer then
        error(MUST_NOT_WAIT, 0)
    end
    return strand
end
scheduler.current_strand = waiting_strand

-- The strand cannot wait where it is: in a hook, or in a function that C code has called. Nothing wakes it for that.
local function stay(strand, problem)
    local timer, token = strand.timer, strand.token
    strand.yielding, strand.timer, strand.token = false, nil, nil
    if timer then
        timers[timer] = nil
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

local function park()
    park_strand(waiting_strand())
end
scheduler.park = park

-- Give way until the next tick.
function scheduler.yield()
    local strand = waiting_strand()
    strand.yielding = true
    yielded_count = yielded_count + 1
    yielded[yielded_count] = strand
    want_tick()
    park_strand(strand)
end

-- Park until something makes the strand ready; true if that was the deadline, `timeout` seconds from now.
function scheduler.suspend(timeout)
    if timeout == nil or timeout >= FOREVER then
        park()
        return false
    end
    if timeout ~= timeout then
        timeout = 0
    end
    local strand, timer = waiting_strand(), last_timer + 1
    last_timer = timer
    timers[timer] = strand
    strand.timer = timer
    python.timer_start(timer, timeout)
    park_strand(strand)
    if strand.timer ~= timer then
        return true
    end
    strand.timer, timers[timer] = nil, nil
    python.timer_stop(timer)
    return false
end

-- From Python: a timer has expired.
function scheduler.fire(timer)
    take_woken()
    local strand = timers[timer]
    if strand == nil then
        return
    end
    timers[timer] = nil
    if strand.timer == timer then
        strand.timer = nil
        make_ready(strand)
    end
end

-- From Python: what a token stands for has come, as values or as the bytes of an error.
function scheduler.deliver(token, ...)
    take_woken()
    complete(token, {ok = true, n = select('#', ...), ...})
end

function scheduler.deliver_error(token, bytes)
    take_woken()
    complete(token, {ok = false, bytes})
end

-- Wait for a token. Only its delivery ends the wait; a cancellation asks Python, which knows whether the
-- operation can be given up and then delivers an error.
function scheduler.wait(token)
    local outcome = early[token]
    if outcome then
        early[token] = nil
    else
        local strand = current
        if strand == nil or strand.in_finalizer then
            waiting[token] = NOBODY
            python.cancel_wait(token)
        end
        strand = waiting_strand()
        waiting[token] = strand
        strand.token = token
        if strand.fiber.cancelled then
            python.cancel_wait(token)
        end
        while strand.token == token do
            park()
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

-- A fiber that is ready to run; it has not run yet.
function scheduler.new(name, run, ...)
    local fiber = new_fiber(name)
    make_ready(new_strand(fiber, run, ...))
    return fiber
end

-- A fiber that runs at once, until its first wait.
function scheduler.create(name, run, ...)
    if running.depth >= MOST_NESTED then
        error(scheduler.STACK_OVERFLOW, 0)
    end
    local fiber = new_fiber(name)
    local strand = new_strand(fiber, run, ...)
    local hook = current and current.fiber.on_yield
    if hook then
        hook()
    end
    switch(strand)
    return fiber
end

-- Run a finalizer: `run(object)` raises nothing and must not wait, for it has interrupted code that does not expect it.
-- It belongs to the fiber that is running, as in the peer, and where none is to a fiber of its own.
function scheduler.finalize(run, object)
    if finalizer_depth >= MOST_FINALIZERS then
        return scheduler.finalize_later(run, object)
    end
    finalizer_depth = finalizer_depth + 1
    local strand, outer_fiber = current, finalizing
    if strand == nil or strand.finished then
        strand = new_strand(new_fiber('finalizer'), run, object)
    end
    local outer_strand = strand.in_finalizer
    strand.in_finalizer, finalizing = true, strand.fiber.id
    python.finalizing(finalizing)
    if strand == current then
        run(object)
    else
        switch(strand)
    end
    strand.in_finalizer, finalizing = outer_strand, outer_fiber
    python.finalizing(finalizing)
    finalizer_depth = finalizer_depth - 1
end

-- Those that have been put off so far; they may put off others.
function scheduler.finalize_put_off()
    local last = put_off_tail
    while put_off_head < last do
        local place = put_off_head
        put_off_head = place + 2
        local run, object = put_off[place + 1], put_off[place + 2]
        put_off[place + 1], put_off[place + 2] = nil, nil
        scheduler.finalize(run, object)
    end
end

-- There will be no other tick: those that the last ones put off are run, too.
function scheduler.finalize_all()
    for _ = 1, MOST_ROUNDS do
        if put_off_head == put_off_tail then
            return
        end
        scheduler.finalize_put_off()
    end
end

-- The coroutine of the strand that is running, or nil.
function scheduler.current_coroutine()
    return current and current.co
end

-- As `finalize`, in the next tick, for a finalizer that has interrupted code which must not be entered again.
function scheduler.finalize_later(run, object)
    local place = put_off_tail
    put_off_tail = place + 2
    put_off[place + 1], put_off[place + 2] = run, object
    want_tick()
end

-- Compiled, a step of theirs would not be one: the collector may run where a trace is left.
jit.off(scheduler.finalize_put_off)
jit.off(scheduler.finalize_later)

-- From Python: run a registered function, on a new fiber (`fiber_id` 0) or on another strand of a living one. `lent` is
-- the id that the new fiber has to have, because its context is known already; 0: it has none.
-- Returns `true, values...` or `false, error bytes` if it ended, else the number that `finish` will report.
function scheduler.start(fiber_id, name, lent, handle, ...)
    take_woken()
    local run = registry.get(handle)
    local fiber = fibers[fiber_id]
    if fiber == nil then
        fiber = lent ~= 0 and new_fiber(name, lent) or new_fiber(name)
        fiber.has_context, fiber.started_by_python = lent ~= 0, true
    end
    local strand = new_strand(fiber, run, ...)
    strand.for_python = true
    switch(strand)
    if strand.finished then
        return strand.ok, unpack(strand.results, 1, strand.count)
    end
    last_activation = last_activation + 1
    strand.activation = last_activation
    return last_activation, fiber.id
end

-- From Python: the fiber has a context now, which has to be given back at its end.
function scheduler.keep_context(id)
    local fiber = fibers[id]
    if fiber then
        fiber.has_context = true
    end
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
    if strand == current then
        return
    end
    if strand.token then
        python.cancel_wait(strand.token)
    else
        make_ready(strand)
    end
end

-- From Python: whoever waited for this fiber has given up.
function scheduler.cancel_id(id)
    local fiber = fibers[id]
    if fiber then
        scheduler.cancel(fiber)
    end
end

-- From Python: true if the fiber is inside a bound function, so that a call from there belongs to it.
function scheduler.is_in_python(id)
    local fiber = fibers[id]
    local strand = fiber and fiber.strand
    return strand ~= nil and (strand == current or strand.token ~= nil)
end

-- The fiber that is running, or nil.
function scheduler.current_fiber()
    return current and current.fiber
end

function scheduler.is_cancelled()
    return current ~= nil and current.fiber.cancelled == true
end

-- A cancellation point.
function scheduler.test_cancel()
    if current and current.fiber.cancelled then
        require('internal.error').raise_cancelled()
    end
end

-- `hook()` is called each time the running fiber is about to give way; nil takes it off.
function scheduler.set_yield_hook(hook)
    current.fiber.on_yield = hook
end

return scheduler
