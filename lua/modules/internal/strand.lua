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
-- ended and its outcome.
local strands = {IDLE = IDLE, fibers = fibers, on_failure = nil, on_end = nil}

-- Makes a fiber. `id` is the one that Python has reserved for it; nil takes the next one.
function strands.new_fiber(name, id)
    if id == nil then
        id = take_id()
    end
    local fiber = {id = id, name = name or 'lua', csw = 0}
    fibers[id] = fiber
    return fiber
end

function strands.new(fiber, run, ...)
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
    strands.on_end(fiber, ok, ...)
end

-- Reports the end of a strand to Python, which has started it and waits for its values or the bytes of its error.
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
    if strand.is_first and not ok then
        -- Before anything is taken apart, as the log names the fiber.
        strands.on_failure(strand.fiber, (...))
    end
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
