-- The fastest look-up of a tuple: Lua calls the container of an index directly.
--
-- It ignores access rights, transactions and versions. So it is only used in a fiber that runs as admin outside of a
-- transaction, on an instance without versions, for a key that cannot be wrong: one whole number or string for an index
-- with one such part. All other look-ups go through Python.

local ffi = require('ffi')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local tuples = require('internal.tuple')

local running, new_salted, copy_tuple = scheduler.running, tuples.new_salted, tuples.from_image
local type = type

-- Index object -> {find, window, format}, or false if the index has no direct look-up. An index is added at its first
-- use. `find(key)` puts a tuple into the window and returns its size, or returns salted bytes, or nil: see `finder` in
-- lua/bindings/data.py. The window lives as long as `find`.
local by_number, by_string = setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'k'})

-- Space object -> the entry of its primary index in `by_number`, after the first use.
local by_space = setmetatable({}, {__mode = 'k'})

local M = {by_number = by_number, by_string = by_string, by_space = by_space, reads = 0}

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

-- Called when the user or the transaction of the fiber has changed: `is_allowed` has to check anew.
function M.forget_fiber()
    local fiber = running.fiber
    if fiber ~= nil then
        fiber.reads_directly = nil
    end
end

-- Asks Python for the direct look-up of an index.
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

-- Called when the indexes of a space have changed.
function M.forget_space(space)
    by_space[space] = nil
end

-- Called when the index has changed.
function M.forget_index(index)
    by_number[index], by_string[index] = nil, nil
end

return M
