-- The latches of Tarantool's C API: locks for fibers, which programs call by `ffi.C.box_latch_lock(latch)` and so on. Each
-- function is named in Tarantool's headers; programs declare those that they call.
local ffi = require('ffi')
local scheduler = require('internal.scheduler')
local wait_queue = require('internal.wait_queue')

ffi.cdef('struct box_latch;')

-- Address -> {memory, owner, waiters}. The memory makes the address one that nothing else has.
local latches = {}

local function address_of(pointer)
    return tonumber(ffi.cast('uintptr_t', ffi.cast('void *', pointer)))
end

local function latch_of(pointer)
    return latches[address_of(pointer)] or error('not a latch', 3)
end

local functions = {}

function functions.box_latch_new()
    local memory = ffi.new('char[1]')
    latches[address_of(memory)] = {memory = memory, owner = nil, waiters = wait_queue.new()}
    return ffi.cast('struct box_latch *', memory)
end

function functions.box_latch_delete(pointer)
    if pointer ~= nil then
        latches[address_of(pointer)] = nil
    end
end

-- Returns 0 if the running fiber has the latch now, else 1.
function functions.box_latch_trylock(pointer)
    local latch = latch_of(pointer)
    if latch.owner ~= nil or latch.waiters.count > 0 then
        return 1
    end
    latch.owner = scheduler.current_strand()
    return 0
end

-- Waits for the latch. Neither a cancellation nor fiber.wakeup() ends the wait.
function functions.box_latch_lock(pointer)
    if functions.box_latch_trylock(pointer) == 0 then
        return
    end
    local latch, strand = latch_of(pointer), scheduler.current_strand()
    local place = latch.waiters:push(strand)
    scheduler.suspend()
    while latch.owner ~= strand do
        latch.waiters:remove(place, strand)
        place = latch.waiters:push_front(strand)
        scheduler.suspend()
    end
end

-- Gives the latch to the fiber that has waited longest.
function functions.box_latch_unlock(pointer)
    local latch = latch_of(pointer)
    latch.owner = latch.waiters:pop()
    if latch.owner ~= nil then
        scheduler.make_ready(latch.owner)
    end
end

return functions
