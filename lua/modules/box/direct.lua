-- The fastest reads: Lua calls an index directly.
--
-- They ignore access rights, transactions and versions. So they are only used in a fiber that runs as admin and whose
-- transaction, if it has one, sees what is in the indexes, on an instance without versions. A look-up has a key that
-- cannot be wrong: one whole number or string for an index with one such part. A search has a key of numbers and
-- strings; if the key is wrong, the general read follows, which raises the error. All other reads are general ones.

local ffi = require('ffi')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local tuples = require('internal.tuple')

local running, new_salted, copy_tuple = scheduler.running, tuples.new_salted, tuples.from_image
local from_images = tuples.from_images
local type = type

-- Index object -> {find, has, window, format}, or false if the index has no direct look-up. An index is added at its
-- first use. `has(key)` returns whether there is a tuple. `find(key)` puts a tuple into the window and returns its size,
-- or returns salted bytes, or nil: see `look_up_in` in lua/bindings/direct_reads.py. The window lives as long as `find`.
local by_number, by_string = setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'k'})

-- Index object -> {get, select, count, window, begin, go_on, has_many_keys}, the searches of
-- lua/bindings/direct_reads.py, or false if the index has none.
local searches = setmetatable({}, {__mode = 'k'})

-- Space object -> the entry of its primary index in `by_number`, after the first use.
local by_space = setmetatable({}, {__mode = 'k'})

local M = {by_number = by_number, by_string = by_string, by_space = by_space, searches = searches, reads = 0}

local function ask(fiber)
    fiber.reads_directly = python.reads_directly() == 1
    return fiber.reads_directly
end

-- Returns whether the running fiber may use direct look-ups.
function M.is_allowed()
    local fiber = running.fiber
    if fiber == nil then
        return false
    end
    local allowed = fiber.reads_directly
    if allowed == nil then
        return ask(fiber)
    end
    return allowed
end

-- Returns whether the running fiber may use searches.
function M.may_search()
    local fiber = running.fiber
    if fiber == nil then
        return false
    end
    local allowed = fiber.reads_directly
    if allowed ~= nil then
        return allowed
    end
    local answer = python.index_may_search()
    if answer == nil then
        return false
    end
    fiber.reads_directly = answer == 1
    return fiber.reads_directly
end

-- Forgets what `is_allowed` and `may_search` have found for the running fiber, after a change of its user or its
-- transaction.
function M.forget_fiber()
    local fiber = running.fiber
    if fiber ~= nil then
        fiber.reads_directly = nil
    end
end

local function window_at(address, format)
    local window = ffi.cast(tuples.pointer, address)
    window._format = format
    return window
end

-- Asks Python for the direct reads of an index.
function M.look_at(index)
    local kind, find, has, address = python.index_finder(index.space_id, index.id)
    local way = false
    if kind ~= nil then
        way = {find = find, has = has, window = window_at(address, index.space_id), format = index.space_id}
    end
    by_number[index] = kind == 'number' and way
    by_string[index] = kind == 'string' and way
    local get, choose, count, window, begin, go_on, has_many_keys = python.index_searches(index.space_id, index.id)
    searches[index] = get ~= nil and {
        get = get, select = choose, count = count, window = window_at(window, index.space_id),
        begin = begin, go_on = go_on, has_many_keys = has_many_keys,
    }
end

-- Returns the tuple with this key, by an entry of `by_number` or `by_string`.
local function fetch(way, key)
    local reads = M.reads
    local found = way.find(key)
    if found == nil then
        return
    elseif type(found) ~= 'number' then
        return new_salted(found, way.format)
    end
    local tuple = copy_tuple(way.window, found)
    if M.reads ~= reads then
        -- The allocation of the copy has run a finalizer, which has looked up another tuple in this window.
        return fetch(way, key)
    end
    return tuple
end
M.fetch = fetch

-- Returns the tuples of a search in a new list, or nil if the general read has to find them.
local function choose(search, iterator, offset, limit, ...)
    local reads = M.reads
    local found, sizes = search.select(iterator, offset, limit, ...)
    if found == 1 then
        local window = search.window
        local tuple = copy_tuple(window, window._size)
        if M.reads ~= reads then
            return choose(search, iterator, offset, limit, ...)    -- see `fetch`
        end
        M.reads = reads + 1
        return {tuple}
    elseif found == false then
        return nil
    end
    M.reads = M.reads + 1
    return found == 0 and {} or from_images(found, sizes)
end
M.choose = choose

-- Returns the first tuples of a loop, at most `chunk`, and the version of the index: one tuple, 0 for none, or their
-- images, followed by their sizes and, if the index numbers its tuples, the numbers. Returns nil if a general cursor has
-- to find them.
local function begin(search, iterator, chunk, ...)
    local reads = M.reads
    local found, version, sizes, numbers = search.begin(iterator, chunk, ...)
    if found == 1 then
        local window = search.window
        found = copy_tuple(window, window._size)
        if M.reads ~= reads then
            return begin(search, iterator, chunk, ...)
        end
    elseif found == false then
        return nil
    end
    M.reads = M.reads + 1
    return found, version, sizes, numbers
end
M.begin = begin

-- Looks up a tuple by a full key of any parts. Returns whether the general read is not needed, and the tuple, if there
-- is one.
local function get(search, ...)
    local reads = M.reads
    local found = search.get(...)
    if found == 1 then
        local window = search.window
        local tuple = copy_tuple(window, window._size)
        if M.reads ~= reads then
            return get(search, ...)
        end
        M.reads = reads + 1
        return true, tuple
    elseif found == false then
        return false
    end
    M.reads = M.reads + 1
    return true
end
M.get = get

-- Forgets the look-ups of a space, after a change of its indexes.
function M.forget_space(space)
    by_space[space] = nil
end

-- Forgets the look-ups of an index, after a change of the index.
function M.forget_index(index)
    by_number[index], by_string[index], searches[index] = nil, nil, nil
end

return M
