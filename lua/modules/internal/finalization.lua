-- Runs finalizers of the user on fibers, at once or in the next tick (internal.finalizers wraps them).
--
-- A finalizer may make, wake and cancel fibers, and the collector may run it in any C function that the scheduler
-- calls. internal.finalizers delays a finalizer that would run inside one of the scheduler's modules.
--
-- internal.scheduler calls `require('internal.finalization')(running, switch)` once: `running.strand` is the current
-- strand, `switch(strand)` runs another one.
local python = require('internal.python')
local cells = require('internal.cells')
local strands = require('internal.strand')
local new_fiber, new_strand = strands.new_fiber, strands.new

-- How many finalizers may be nested; others wait for the next tick.
local MOST_FINALIZERS = 20
-- How often delayed finalizers may delay others before the state is freed. LuaJIT has the same limit for finalizers
-- that make new objects.
local MOST_ROUNDS = 10

return function(running, switch)
    -- The fiber whose finalizer runs, 0 for none.
    local finalizing, depth = 0, 0
    -- A queue of finalizers that wait for the next tick, each followed by its object. To delay one moves only the tail,
    -- to run one only the head, because either may interrupt the other between any two steps.
    local put_off = {head = 0, tail = 0}
    local finalization = {put_off = put_off}

    -- Runs a finalizer in the next tick, because it has interrupted code that must not be entered again.
    local function finalize_later(run, object)
        local place = put_off.tail
        put_off.tail = place + 2
        put_off[place + 1], put_off[place + 2] = run, object
        cells.want_tick()
    end
    finalization.finalize_later = finalize_later

    -- Runs a finalizer. `run(object)` raises nothing and must not wait, because the interrupted code does not expect
    -- that. As in Tarantool it belongs to the running fiber; without one it gets a fiber of its own.
    local function finalize(run, object)
        if depth >= MOST_FINALIZERS then
            return finalize_later(run, object)
        end
        depth = depth + 1
        local current = running.strand
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
        depth = depth - 1
    end
    finalization.finalize = finalize

    -- Runs the finalizers that are delayed now. They may delay others.
    local function finalize_put_off()
        local last = put_off.tail
        while put_off.head < last do
            local place = put_off.head
            put_off.head = place + 2
            local run, object = put_off[place + 1], put_off[place + 2]
            put_off[place + 1], put_off[place + 2] = nil, nil
            finalize(run, object)
        end
    end
    finalization.finalize_put_off = finalize_put_off

    local function finalize_rounds()
        for _ = 1, MOST_ROUNDS do
            if put_off.head == put_off.tail then
                break
            end
            finalize_put_off()
        end
    end

    -- Runs all finalizers at the end, also those that these delay: there will be no other tick. After `close` this
    -- module delays none, as it would be lost: a step of the collector may still follow on the way back to Python. (If
    -- a trace is left in the phase of finalizers there is one even if the collector was stopped.) The second rounds are
    -- for those that interrupted other modules of the scheduler. Python calls this without a fiber, because the end of
    -- one is the scheduler's business again.
    function finalization.finalize_all()
        finalize_rounds()
        cells.close()
        finalize_rounds()
    end

    -- Not compiled: the collector may run wherever a trace is left, so a compiled step could be interrupted in the
    -- middle.
    jit.off(finalize_put_off)
    jit.off(finalize_rounds)
    jit.off(finalize_later)

    return finalization
end
