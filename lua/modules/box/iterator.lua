-- index:pairs(): a cursor that reads ahead.
--
-- The call that opens a cursor brings its first chunk of tuples, each further call into Python fetches one more. The
-- loop must see the current index at each step, so the rest of a chunk is only valid while nothing can have changed: no
-- write by this Lua code (`changes`), no switch to another fiber. After either, Python says whether the index is
-- unchanged; if not, it continues after the last tuple of the loop.
--
-- A loop that begins with a direct search (see box.direct) has no cursor in Python until the first chunk does not
-- suffice: then Python makes one that continues after the last tuple of the loop. Most such loops end before.

local ffi = require('ffi')
local changes = require('box.changes')
local gc = require('internal.finalizers').raw_gc
local python = require('internal.python')
local running = require('internal.scheduler').running
local tuples = require('internal.tuple')
local wait = require('internal.wait')

local cursor_next = python.cursor_next
local from_image, HEADER_SIZE = tuples.from_image, tuples.HEADER_SIZE
local byte_pointer, size_pointer = ffi.typeof('const uint8_t *'), ffi.typeof('const uint32_t *')
local C, cast, ffi_string = ffi.C, ffi.cast, ffi.string
local max, min = math.max, math.min
local raw_tuple = tuples.raw

-- The chunks grow, as most loops end after either a few steps or very many. The first one has a tuple more than the last
-- loop over the index took, or twice as many if that loop reached its end: most often one chunk then suffices for the
-- next loop, too.
local FIRST_CHUNK, LARGEST_CHUNK, LARGEST_FIRST = 16, 512, 64

-- Index object -> the last loop over it that has begun, while it is in memory.
local last_loops = setmetatable({}, {__mode = 'kv'})

local function text()
    return '<iterator state>'
end

local cursor_mt = {__tostring = text, __serialize = text}
local guard_type = ffi.typeof('struct { uint32_t cursor; }')

local function close(guard)
    python.cursor_close(guard.cursor)
end

local function note_place(cursor)
    local fiber = running.fiber
    cursor.changes, cursor.fiber, cursor.switches = changes.count, fiber, fiber and fiber.csw
end

local function is_same_place(cursor)
    local fiber = running.fiber
    return cursor.changes == changes.count and cursor.fiber == fiber and (fiber == nil or cursor.switches == fiber.csw)
end

local function take(cursor, blob, sizes)
    note_place(cursor)
    cursor.blob, cursor.sizes = blob, sizes
    cursor.data, cursor.list = cast(byte_pointer, blob), cast(size_pointer, sizes)
    cursor.position, cursor.count = 0, #sizes / 4
    cursor.is_last = cursor.reads_ahead and cursor.count < cursor.chunk
end

-- Returns how often the last one of the first `used` tuples of a chunk is among them.
local function occurrences(cursor, used)
    local data, list, position, found = cursor.data, cursor.list, 0, 0
    local last, size = data + cursor.before, list[used - 1]
    for place = 0, used - 1 do
        local length = list[place]
        if length == size and C.memcmp(data + position, last, HEADER_SIZE + size) == 0 then
            found = found + 1
        end
        position = position + HEADER_SIZE + length
    end
    return found
end

-- Makes the cursor in Python of a loop that began with a direct search, and fetches its next chunk. Returns whether the
-- rest of the first chunk is still valid.
local function go_on(cursor, used)
    local last, nth = '', 1
    if cursor.numbers then
        last = cursor.numbers
    elseif used > 0 and cursor.tuple then
        last = raw_tuple(cursor.tuple)
    elseif used > 0 then
        last = ffi_string(cursor.data + cursor.before + HEADER_SIZE, cursor.list[used - 1])
        if cursor.search.has_many_keys then
            nth = occurrences(cursor, used)
        end
    end
    local id, blob, sizes = cursor.search.go_on(
        cursor.iterator, cursor.key, cursor.count, cursor.version, used, last, nth, cursor.chunk)
    if id == true then
        note_place(cursor)
        return true
    end
    cursor.used, cursor.count, cursor.tuple = 0, 0, nil
    if id ~= nil then
        cursor.id, cursor.guard = id, gc(guard_type(id), close)
        take(cursor, blob, sizes)
    end
end

-- Fetches the next chunk after `used` tuples of the present one were taken. Returns whether the rest of that chunk is
-- still valid.
local function fetch(cursor, used)
    if cursor.id == nil then
        return go_on(cursor, used)
    end
    local blob, sizes = cursor_next(cursor.id, cursor.chunk, used, cursor.space_id)
    if blob == true then
        note_place(cursor)
        return true
    end
    cursor.used, cursor.count = 0, 0
    if blob == nil then
        return
    elseif blob == false then
        cursor.is_over = true
        wait(blob, sizes)
    end
    take(cursor, blob, sizes)
end

local M = {}

local function advance(cursor)
    if M.on_chunk then
        M.on_chunk(cursor.used)
    end
    if cursor.used < cursor.count then
        if not fetch(cursor, cursor.used) and cursor.count > 0 then
            -- The index has changed during the loop, so it will probably change again: small chunks.
            cursor.chunk = FIRST_CHUNK
        end
        return
    end
    if cursor.is_last and is_same_place(cursor) then
        -- A chunk with room for more was the last one.
        if cursor.id ~= nil then
            python.cursor_close(cursor.id)
        end
        return
    end
    if cursor.count > 0 then
        cursor.passed, cursor.chunk = cursor.passed + cursor.count, min(cursor.chunk * 4, LARGEST_CHUNK)
    end
    fetch(cursor, cursor.used)
end

local function next_tuple(param, cursor)
    if getmetatable(cursor) ~= cursor_mt then
        error('usage: next(param, state)')
    elseif cursor.is_over then
        return nil
    end
    local used = cursor.used
    if used >= cursor.count or not is_same_place(cursor) then
        advance(cursor)
        used = cursor.used
        if used >= cursor.count then
            cursor.is_over = true
            return nil
        end
    end
    local tuple = cursor.tuple
    if tuple then
        cursor.used = 1
        return cursor, tuple
    end
    local size, position = cursor.list[used], cursor.position
    cursor.used, cursor.before, cursor.position = used + 1, position, position + HEADER_SIZE + size
    return cursor, from_image(cursor.data + position, size)
end

-- Returns how many tuples the first chunk of a loop over an index should have, at least `least`.
function M.first_chunk(index, least)
    local last = last_loops[index]
    if last == nil then
        return FIRST_CHUNK
    end
    local taken = last.passed + last.used
    return max(least or FIRST_CHUNK, min((last.is_over and taken * 2 or taken) + 1, LARGEST_FIRST))
end

-- `wrap` of the module `fun`, which the first loop loads.
local wrap

-- Returns generator, parameter and state of a loop over the tuples of a cursor.
local function loop(index, key, cursor)
    last_loops[index] = cursor
    wrap = wrap or require('fun').wrap
    return wrap(next_tuple, key, cursor)
end

-- Returns generator, parameter and state of a loop, as an iterator of `fun`. `after` is a position, '' for the
-- beginning; `chunk` is what `first_chunk` has returned.
function M.open(index, iterator, key, after, chunk)
    local id, blob, sizes = wait(python.cursor_open(index.space_id, index.id, iterator, key, after, chunk))
    local guard = gc(guard_type(id), close)
    local cursor = setmetatable({
        id = id, guard = guard, space_id = index.space_id, chunk = chunk, passed = 0, used = 0, count = 0,
        position = 0, reads_ahead = blob ~= nil,
    }, cursor_mt)
    if blob ~= nil then
        take(cursor, blob, sizes)
    end
    return loop(index, key, cursor)
end

-- Returns what `open` does for a loop that has begun with a direct search; see `begin` of box.direct.
function M.open_directly(index, search, iterator, key, chunk, found, version, sizes, numbers)
    local fiber = running.fiber
    local cursor = setmetatable({
        search = search, iterator = iterator, key = key, version = version, space_id = index.space_id, chunk = chunk,
        passed = 0, used = 0, count = 0, position = 0, reads_ahead = true, is_last = true,
        changes = changes.count, fiber = fiber, switches = fiber.csw, tuple = nil, numbers = numbers,
    }, cursor_mt)
    if sizes ~= nil then
        take(cursor, found, sizes)
    elseif found ~= 0 then
        cursor.tuple, cursor.count = found, 1
    end
    return loop(index, key, cursor)
end

return M
