-- Finalizers of the user on fibers (internal.finalizers wraps them): at once, or in the next tick.
--
-- A finalizer may make, wake and cancel fibers, and the collector may run it in any C function that the scheduler calls.
-- None runs between two lines of the scheduler's modules: internal.finalizers puts it off.
--
-- `require('internal.finalization')(running, switch)`, once, by internal.scheduler: `running.strand` is the one that runs,
-- `switch(strand)` runs another one.
local python = require('internal.python')
local cells = require('internal.cells')
local strands = require('internal.strand')
local new_fiber, new_strand = strands.new_fiber, strands.new

-- So many finalizers may run inside each other; the others wait for the next tick.
local MOST_FINALIZERS = 20
-- Of finalizers that put off others, before the state is freed: as many as LuaJIT itself has for objects that make others.
local MOST_ROUNDS = 10

return function(running, switch)
    -- The fiber whose finalizer runs, 0: there is none.
    local finalizing, depth = 0, 0
    -- Finalizers that wait for the next tick, each followed by its object. Who puts one off moves the tail alone, who
    -- runs them the head alone: the one may interrupt the other between any two steps.
    local put_off = {head = 0, tail = 0}
    local finalization = {put_off = put_off}

    -- As `finalize`, in the next tick, for a finalizer that has interrupted code which must not be entered again.
    local function finalize_later(run, object)
        local place = put_off.tail
        put_off.tail = place + 2
        put_off[place + 1], put_off[place + 2] = run, object
        cells.want_tick()
    end
    finalization.finalize_later = finalize_later

    -- Run a finalizer: `run(object)` raises nothing and must not wait, for it has interrupted code that does not expect
    -- it. It belongs to the fiber that is running, as in Tarantool, and where none is to a fiber of its own.
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

    -- Those that have been put off so far; they may put off others.
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

    -- There will be no other tick: those that the last ones put off are run, too. From the end on none is put off, or it
    -- would be lost: a step of the collector may follow on the way back to Python (where a trace is left in the phase of
    -- finalizers there is one, even if the collector was stopped).
    function finalization.finalize_all()
        for _ = 1, MOST_ROUNDS do
            if put_off.head == put_off.tail then
                break
            end
            finalize_put_off()
        end
        cells.close()
        finalize_put_off()
    end

    -- Compiled, a step of theirs would not be one: the collector may run where a trace is left.
    jit.off(finalize_put_off)
    jit.off(finalize_later)

    return finalization
end
