-- Makes and ends fibers and their strands (internal.scheduler runs them).
--
-- A *strand* is one coroutine with its wait state; a *fiber* is the identity that Lua code sees. A fiber begins
-- with one strand. When Python calls Lua while the fiber is inside a bound Python function (a trigger, a stored
-- function), that call runs on another strand of the same fiber, so that it may wait too; the innermost strand
-- is the one that `wakeup` and `cancel` reach.
local python = require('internal.python')
local take_id = require('internal.cells').take_id

local raw_create, raw_yield = coroutine.create, coroutine.yield
local pcall, select, unpack = pcall, select, unpack

-- A coroutine yields this when its strand has ended.
local IDLE = {}

local fibers = {}
local pool, pool_size = {}, 0

-- `on_failure`, set by `fiber`, is called in a fiber that is about to end with an error; `on_end` with a fiber that has
-- ended and its outcome, if others may ask for it.
local strands = {IDLE = IDLE, fibers = fibers, on_failure = nil, on_end = nil}

-- Makes a fiber. `id` is the one that Python has reserved for it; nil takes the next one.
function strands.new_fiber(name, id)
    if id == nil then
        id = take_id()
    end
    -- The fields that are nil reserve room: a table that grows costs more than all of them.
    local fiber = {
        id = id, name = name or 'lua', csw = 0, strand = nil, has_context = nil, started_by_python = nil,
        reads_directly = nil, finished = nil, wave = nil, sync = nil, lacks_context = nil,
    }
    fibers[id] = fiber
    return fiber
end

function strands.new(fiber, run, ...)
    local parent = fiber.strand
    local strand = {
        fiber = fiber, run = run, parent = parent, n = select('#', ...), is_first = nil, report = nil, co = nil,
        ready = nil, yielding = nil, token = nil, outcome = nil, activation = nil, finished = nil, ok = nil, count = nil,
        results = nil, ...
    }
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
    if fiber.joinable or fiber.joiners then
        strands.on_end(fiber, ok, ...)
    end
end

-- The usual `report` of a strand that Python has started: keeps its values, or the bytes of its error, for Python; passes
-- them to Python if it has gone on with other work meanwhile.
function strands.report(strand, ok, ...)
    if strand.activation == nil then
        strand.ok = ok
        if ok then
            strand.count, strand.results = select('#', ...), {...}
        else
            strand.count, strand.results = 1, {(require('internal.error').encode((...)))}
        end
    elseif ok then
        python.finish(strand.activation, true, ...)
    else
        python.finish(strand.activation, false, (require('internal.error').encode((...))))
    end
end

local function finish(strand, ok, ...)
    strand.finished = true
    if strand.is_first and not ok then
        -- Before anything is taken apart, as the log names the fiber.
        strands.on_failure(strand.fiber, (...))
    end
    unlink(strand)
    if strand.is_first then
        end_fiber(strand.fiber, ok, ...)
    end
    local report = strand.report
    if report then
        report(strand, ok, ...)
    end
end

local function work(strand)
    while true do
        finish(strand, pcall(strand.run, unpack(strand, 1, strand.n)))
        strand = nil    -- an idle coroutine must not keep what its last strand has used
        strand = raw_yield(IDLE)
    end
end

-- Returns a coroutine: when it is resumed with a strand, it runs the strand to its end, then yields IDLE.
function strands.take_coroutine()
    if pool_size == 0 then
        return raw_create(work)
    end
    local co = pool[pool_size]
    pool[pool_size] = nil
    pool_size = pool_size - 1
    return co
end

-- Puts a coroutine that has yielded IDLE back into the pool.
function strands.give_back(co)
    pool_size = pool_size + 1
    pool[pool_size] = co
end

return strands
