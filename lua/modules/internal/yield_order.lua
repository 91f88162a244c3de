-- In which order strands that yielded run again. In Tarantool a yield is a timer that has expired, in a heap with all
-- other timers. The heap has four children a node (libev's), and decides the order of timers of equal time.
local floor = math.floor

-- Places in the heap, from 1: the children of k are 4k - 2 .. 4k + 1.
local function parent_of(place)
    return floor((place + 2) / 4)
end

-- What is in the heap: the place of a strand among those that yielded, or LATER for a timer that has not expired.
local LATER = math.huge

local function add(heap, size, item)
    local place = size + 1
    -- A strand rises above timers that expire later, never above another strand.
    while place > 1 and item ~= LATER and heap[parent_of(place)] == LATER do
        heap[place] = heap[parent_of(place)]
        place = parent_of(place)
    end
    heap[place] = item
    return size + 1
end

-- Returns the first child that is a strand; nil if there is none.
local function first_strand(heap, size, place)
    for child = 4 * place - 2, math.min(4 * place + 1, size) do
        if heap[child] ~= LATER then
            return child
        end
    end
end

-- Takes the first item off. The last one takes its place, and sinks below strands if it is a timer.
local function take(heap, size)
    local first, item, place = heap[1], heap[size], 1
    heap[size] = nil
    local child = item == LATER and first_strand(heap, size - 1, place)
    while child do
        heap[place], place = heap[child], child
        child = first_strand(heap, size - 1, place)
    end
    if size > 1 then
        heap[place] = item
    end
    return first
end

-- Returns the places 1 .. count in the order in which the strands run. `before` is the number of timers that run when the
-- first of them yields. `started[i]` is the number of all timers that had been started when strand i yielded, `now` that
-- at the end.
local function order_of(before, started, count, now)
    local heap, size, timers = {}, 0, started[1]
    for _ = 1, before do
        size = add(heap, size, LATER)
    end
    for i = 1, count do
        for _ = timers + 1, started[i] do
            size = add(heap, size, LATER)
        end
        timers = started[i]
        size = add(heap, size, i)
    end
    for _ = timers + 1, now do
        size = add(heap, size, LATER)
    end
    local order = {}
    for i = 1, count do
        order[i] = take(heap, size)
        size = size - 1
    end
    return order
end

-- Orders for up to KEPT strands while no timer is started, by `before * STEP + count`. Most rounds need one of few.
local KEPT, STEP, MOST = 1000, 10000, 100
local kept, kept_count = {}, 0

return function(before, started, count, now)
    if now ~= started[1] or count > KEPT then
        return order_of(before, started, count, now)
    end
    local key = before * STEP + count
    local order = kept[key]
    if order == nil then
        if kept_count == MOST then
            kept, kept_count = {}, 0
        end
        order = order_of(before, started, count, now)
        kept[key], kept_count = order, kept_count + 1
    end
    return order
end
