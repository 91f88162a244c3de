-- require('merger'): merges sorted sequences of tuples. A source yields one tuple after another:
--     new_source_fromtable(tuples)     new_table_source(gen, param, state): tables of tuples
--     new_tuple_source(gen, param, state): a tuple each time     new_buffer_source(gen, param, state): MessagePack
--     new(key_def, sources[, {reverse = true}]): the sources in the order of the key
-- A source has pairs(), ipairs() and select({limit = n, buffer = ibuf}).
local ffi = require('ffi')
local fun = require('fun')
require('key_def')
local msgpack = require('internal.msgpack')
local decoder = require('internal.msgpack_decode')
local tuples = require('internal.tuple')

local error, ipairs, pairs, setmetatable, type = error, ipairs, pairs, setmetatable, type

local methods = {}
local source_mt = {__index = methods}

-- Makes a source of `take()`, which returns the next tuple or nil.
local function new_source(take)
    return setmetatable({_take = take}, source_mt)
end

local function as_tuple(value)
    return tuples.is(value) and value or tuples.new(msgpack.encode_tuple(value))
end

-- ---- sources ---------------------------------------------------------------------------------

-- Returns a function that makes one step of the generator, from the state of the step before. After the end the
-- generator may be called again, with the last state that it returned.
local function stepper(generate, param, state)
    return function()
        local next_state, value = generate(param, state)
        if type(next_state) == 'nil' then
            return nil
        end
        state = next_state
        return value
    end
end

-- Makes a source of lists: `next_list()` returns a table of tuples, or nil at the end.
local function of_lists(next_list)
    local list, position = {}, 0
    return new_source(function()
        position = position + 1
        while list[position] == nil do
            list, position = next_list(), 1
            if list == nil then
                list = {}
                return nil
            end
        end
        return as_tuple(list[position])
    end)
end

-- Decodes the MessagePack array at the read position of a buffer to a list.
local function take_buffer(buffer)
    if buffer == nil then
        return nil
    end
    local p = ffi.cast(decoder.byte_pointer, buffer.rpos)
    local count, pos = decoder.array_header(p, 0)
    local list = {}
    for i = 1, count do
        local after = decoder.skip(p, pos)
        list[i] = tuples.new(ffi.string(p + pos, after - pos))
        pos = after
    end
    buffer.rpos = buffer.rpos + pos
    return list
end

local M = {}

local function check_generator(generate, kind)
    if generate == nil or type(generate) == 'number' then
        error(('Usage: merger.new_%s_source(gen, param, state)'):format(kind), 3)
    end
end

function M.new_source_fromtable(list)
    if type(list) ~= 'table' then
        error('Usage: merger.new_source_fromtable(<table>)', 2)
    end
    return of_lists(stepper(pairs({list})))
end

function M.new_table_source(generate, param, state)
    check_generator(generate, 'table')
    return of_lists(stepper(generate, param, state))
end

function M.new_tuple_source(generate, param, state)
    check_generator(generate, 'tuple')
    local step = stepper(generate, param, state)
    return new_source(function()
        local value = step()
        return value ~= nil and as_tuple(value) or nil
    end)
end

function M.new_buffer_source(generate, param, state)
    check_generator(generate, 'buffer')
    local step = stepper(generate, param, state)
    return of_lists(function()
        return take_buffer(step())
    end)
end

function M.new_source_frombuffer(buffer)
    return M.new_buffer_source(pairs({buffer}))
end

-- ---- merging ---------------------------------------------------------------------------------

-- A heap of the sources that have a next tuple: {source, place, head}; `place` is that among the sources. Of equal
-- tuples the one of the earlier source comes first.
local function comparer(key_def, is_reverse)
    return function(left, right)
        local order = key_def:compare(left.head, right.head)
        if order == 0 then
            return left.place < right.place
        end
        return (order < 0) ~= is_reverse
    end
end

local function sift_up(heap, at, is_before)
    local entry = heap[at]
    while at > 1 do
        local parent = math.floor(at / 2)
        if not is_before(entry, heap[parent]) then
            break
        end
        heap[at], at = heap[parent], parent
    end
    heap[at] = entry
end

local function sift_down(heap, size, is_before)
    local entry, at = heap[1], 1
    while 2 * at <= size do
        local child = 2 * at
        if child < size and is_before(heap[child + 1], heap[child]) then
            child = child + 1
        end
        if not is_before(heap[child], entry) then
            break
        end
        heap[at], at = heap[child], child
    end
    heap[at] = entry
end

-- Returns the heap of the first tuples of the sources, and its size.
local function build_heap(sources, is_before)
    local heap, size = {}, 0
    for place, source in ipairs(sources) do
        local head = source._take()
        if head ~= nil then
            size = size + 1
            heap[size] = {source = source, place = place, head = head}
            sift_up(heap, size, is_before)
        end
    end
    return heap, size
end

local function is_key_def(value)
    return type(value) == 'cdata' and ffi.istype('struct key_def', value)
end

function M.new(key_def, sources, options)
    if not is_key_def(key_def) or type(sources) ~= 'table' or (options ~= nil and type(options) ~= 'table') then
        error('Bad params, use: merger.new(key_def, {source, source, ...}[, {reverse = <boolean> or <nil>}])', 2)
    end
    for _, source in ipairs(sources) do
        if getmetatable(source) ~= source_mt then
            error('expected cdata as 3 argument', 2)
        end
    end
    -- Copies the definition: the argument may be a reference to an object that the program does not keep.
    local is_before = comparer(key_def:merge(key_def), options ~= nil and options.reverse == true)
    local heap, size
    return new_source(function()
        if heap == nil then
            heap, size = build_heap(sources, is_before)
        end
        local first = heap[1]
        if first == nil then
            return nil
        end
        local tuple = first.head
        first.head = first.source._take()
        if first.head == nil then
            heap[1], heap[size] = heap[size], nil
            size = size - 1
        end
        if size > 1 then
            sift_down(heap, size, is_before)
        end
        return tuple
    end)
end

-- ---- methods of a source ---------------------------------------------------------------------

-- The source is the state of the loop; `fun` ends a loop when the state is box.NULL.
local function step(_, source)
    local tuple = source._take()
    if tuple ~= nil then
        return source, tuple
    end
end

function methods.pairs(source)
    return fun.wrap(step, nil, source)
end

methods.ipairs = methods.pairs

local function array_header(count)
    return count < 16 and string.char(0x90 + count) or '\xdd' .. string.char(
        math.floor(count / 16777216) % 256, math.floor(count / 65536) % 256, math.floor(count / 256) % 256, count % 256)
end

-- Returns a table of tuples, or writes their MessagePack array to options.buffer.
function methods.select(source, options)
    options = options or {}
    local limit, list = options.limit or math.huge, {}
    while #list < limit do
        local tuple = source._take()
        if tuple == nil then
            break
        end
        list[#list + 1] = tuple
    end
    if options.buffer == nil then
        return list
    end
    local parts = {array_header(#list)}
    for i, tuple in ipairs(list) do
        parts[i + 1] = tuples.raw(tuple)
    end
    local bytes = table.concat(parts)
    ffi.copy(options.buffer:alloc(#bytes), bytes, #bytes)
end

return M
