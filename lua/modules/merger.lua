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
local python = require('internal.python')
local tuples = require('internal.tuple')
local wait = require('internal.wait')

local error, ipairs, pairs, setmetatable, type = error, ipairs, pairs, setmetatable, type
local gc, salted_raw = ffi.gc, tuples.salted_raw

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

-- Python keeps the first tuples of the sources in their order, and knows a source by its place among them. Of equal
-- tuples the one of the earlier source comes first.
local guard_type = ffi.typeof('struct { uint32_t merger; }')

local function close(guard)
    python.merger_close(guard.merger)
end

-- Returns the function that takes the next tuple of all sources. The first tuple of each is asked for at the first call.
local function merge(packed, sources, is_reverse)
    local guard = gc(guard_type(wait(python.merger_open(packed, is_reverse))), close)
    local heads
    local function begin()
        heads = {}
        for place, source in ipairs(sources) do
            heads[place] = source._take()
            if heads[place] ~= nil then
                wait(python.merger_add(guard.merger, place, salted_raw(heads[place])))
            end
        end
        return python.merger_take(guard.merger)
    end
    -- The source whose tuple comes next, 0 at the end.
    local place
    return function()
        if heads == nil then
            place = begin()
        end
        local tuple = heads[place]
        if tuple == nil then
            return nil
        end
        local following = sources[place]._take()
        heads[place] = following
        if following ~= nil then
            place = wait(python.merger_replace(guard.merger, place, salted_raw(following)))
        else
            place = python.merger_take(guard.merger)
        end
        return tuple
    end
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
    local copy = {}
    for place, source in ipairs(sources) do
        copy[place] = source
    end
    return new_source(merge(ffi.string(key_def.parts, key_def.size), copy, options ~= nil and options.reverse == true))
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
