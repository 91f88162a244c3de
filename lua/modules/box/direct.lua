-- The shortest way to a tuple: the look-up of an index's container itself, called from Lua.
--
-- It passes over access rights, transactions and versions, so it serves only a fiber that runs as admin outside of
-- a transaction, on an instance without versions, for a key that cannot be wrong: one whole number or string for
-- an index of one such part. Everything else takes the usual way.

local ffi = require('ffi')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local tuples = require('internal.tuple')

local running, new_salted, copy_tuple = scheduler.running, tuples.new_salted, tuples.from_image
local type = type

-- Index object -> {find, window, format}; false: the index has none. An index that is not there is looked at when first
-- used. `find(key)` leaves a tuple in the window and gives its size, or gives salted bytes, or nil: see `finder` in
-- lua/bindings/data.py. The window lives as long as `find`.
local by_number, by_string = setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'k'})

-- Space object -> what `by_number` has for its primary index, once it was used.
local by_space = setmetatable({}, {__mode = 'k'})

local M = {by_number = by_number, by_string = by_string, by_space = by_space, reads = 0}

local function ask(fiber)
    fiber.reads_directly = python.reads_directly() == 1
    return fiber.reads_directly
end

-- Whether the running fiber may use look-ups at all.
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

-- The fiber's user or transaction has changed: ask again.
function M.forget_fiber()
    local fiber = running.fiber
    if fiber ~= nil then
        fiber.reads_directly = nil
    end
end

-- Find out about an index.
function M.look_at(index)
    local kind, find, address = python.index_finder(index.space_id, index.id)
    local way = false
    if kind ~= nil then
        way = {find = find, window = ffi.cast(tuples.pointer, address), format = index.space_id}
        way.window._format = index.space_id
    end
    by_number[index] = kind == 'number' and way
    by_string[index] = kind == 'string' and way
end

-- The tuple with this key, by a way of `by_number` or `by_string`.
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
        -- Memory was collected for the copy, and a finalizer has looked up another tuple in the same window.
        return fetch(way, key)
    end
    return tuple
end
M.fetch = fetch

-- The indexes of a space have changed.
function M.forget_space(space)
    by_space[space] = nil
end

-- The index has changed.
function M.forget_index(index)
    by_number[index], by_string[index] = nil, nil
end

return M
