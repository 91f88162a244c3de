-- require('merger'): merges sorted sequences of tuples. A source yields one tuple after another:
--     new_source_fromtable(tuples)     new_table_source(gen, param, state): tables of tuples
--     new_tuple_source(gen, param, state): a tuple each time     new_buffer_source(gen, param, state): MessagePack
--     new(key_def, sources[, {reverse = true}]): the sources in the order of the key
-- A source has pairs(), ipairs() and select({limit = n, buffer = ibuf}).
local arguments = require('internal.arguments')
local ffi = require('ffi')
local fun = require('fun')
require('buffer')
require('key_def')
local decoder = require('internal.msgpack_decode')
local python = require('internal.python')
local tuples = require('internal.tuple')
local wait = require('internal.wait')

local decode_limit = require('internal.msgpack_decode').check
local errors = require('internal.error')

local error, ipairs, pairs, pcall, select, type = error, ipairs, pairs, pcall, select, type
local gc, salted_raw = ffi.gc, tuples.salted_raw

ffi.cdef('struct merge_source { int number; };')
local source_type, ibuf_type = ffi.typeof('struct merge_source'), ffi.typeof('struct ibuf')
local new_memory = ffi.typeof('struct merge_source[1]')

-- Source -> {take, put_back, memory}: `take()` returns the next tuple or nil, `put_back()` makes the last one the next one
-- again; the source is a reference to the memory.
local known = setmetatable({}, {__mode = 'k'})

local function nothing()
end

local function new_source(take, put_back)
    local memory = new_memory()
    local source = memory[0]
    known[source] = {take = take, put_back = put_back or nothing, memory = memory}
    return source
end

-- Returns the entry of a source in `known`; nil if the value is not a source.
local function entry_of(value)
    return type(value) == 'cdata' and ffi.istype(source_type, value) and known[value] or nil
end

-- Returns the function that takes the next tuple of a source; nil if the value is not a source.
local function taker(value)
    local source = entry_of(value)
    return source and source.take
end

local function is_buffer(value)
    return type(value) == 'cdata' and ffi.istype(ibuf_type, value)
end

local function wrong(text)
    error(errors.new_here({type = 'IllegalParams', message = text}), 0)
end

local ARRAY = '^[\144-\159\220\221]'    -- the first byte of an array in MessagePack

local function as_tuple(value)
    if tuples.is(value) then
        return value
    end
    local packed = tuples.encode(value)
    if not packed:find(ARRAY) then
        box.error(box.error.TUPLE_NOT_ARRAY)
    end
    return tuples.new(packed)
end

-- ---- sources ---------------------------------------------------------------------------------

-- Returns a function that makes one step of the generator, from the state of the step before, and returns true and the
-- value; nothing at the end. After the end the generator may be called again, with the last state that it returned.
local function stepper(kind, generate, param, state)
    local function taken(...)
        local next_state, value = ...
        if type(next_state) == 'nil' then
            return
        elseif select('#', ...) ~= 2 then
            wrong(('Expected <state>, <%s>, got %d return values'):format(kind, select('#', ...)))
        end
        state = next_state
        return true, value
    end
    local function returned(ok, ...)
        if not ok then
            error(errors.from_value((...)), 0)
        end
        return taken(...)
    end
    -- Called by pcall, as by C: errors name neither a place in this module nor the generator.
    return function()
        return returned(pcall(generate, param, state))
    end
end

-- Makes a source of lists: `next_list()` returns true and a table of tuples, or nothing at the end. With `is_kept`, a tuple
-- can be put back.
local function of_lists(next_list, is_kept)
    local list, position = {}, 0
    return new_source(function()
        while type(list[position + 1]) == 'nil' do
            local has_more, following = next_list()
            list, position = has_more and type(following) == 'table' and following or {}, 0
            if not has_more then
                return nil
            elseif list ~= following then
                wrong('Expected <state>, <table>')
            end
        end
        -- What is no tuple stays the next one, as in Tarantool.
        local tuple = as_tuple(list[position + 1])
        position = position + 1
        return tuple
    end, is_kept and function()
        position = position - 1
    end)
end

-- Decodes the MessagePack array at the read position of a buffer to a list.
local function take_buffer(buffer)
    if not is_buffer(buffer) then
        wrong('Expected <state>, <buffer>')
    end
    local size = tonumber(buffer.wpos - buffer.rpos)
    if size == 0 then
        return {}
    end
    local p = ffi.cast(decoder.byte_pointer, buffer.rpos)
    local count, pos = decoder.array_header(p, 0)
    if count == nil or pos > size then
        wrong(('Invalid merge source %p'):format(buffer))
    end
    local list = {}
    for i = 1, count do
        local after = decode_limit(p, pos, size)
        if after == nil or decoder.array_header(p, pos) == nil then
            wrong('Unexpected msgpack buffer end')
        end
        list[i] = tuples.new(ffi.string(p + pos, after - pos))
        pos = after
    end
    buffer.rpos = buffer.rpos + pos
    return list
end

local M = {}

local function is_callable(value)
    local metatable = type(value) == 'table' and debug.getmetatable(value)
    return type(value) == 'function' or metatable and metatable.__call ~= nil
end

-- Returns generator, parameter and state out of the arguments of a function.
local function generator_of(kind, ...)
    if select('#', ...) > 3 or not is_callable((...)) then
        error(('Usage: merger.new_%s_source(gen, param, state)'):format(kind), 3)
    end
    return ...
end

function M.new_source_fromtable(list)
    if type(list) ~= 'table' then
        error('Usage: merger.new_source_fromtable(<table>)', 0)
    end
    return of_lists(stepper('table', pairs({list})), true)
end

function M.new_table_source(...)
    local generate, param, state = generator_of('table', ...)
    return of_lists(stepper('table', generate, param, state), true)
end

function M.new_tuple_source(...)
    local generate, param, state = generator_of('tuple', ...)
    local step = stepper('tuple', generate, param, state)
    return new_source(function()
        local has_more, value = step()
        return has_more and as_tuple(value) or nil
    end)
end

function M.new_buffer_source(...)
    local generate, param, state = generator_of('buffer', ...)
    local step = stepper('buffer', generate, param, state)
    return of_lists(function()
        local has_more, buffer = step()
        if has_more then
            return true, take_buffer(buffer)
        end
    end)
end

function M.new_source_frombuffer(buffer)
    if not is_buffer(buffer) then
        error('Usage: merger.new_source_frombuffer(<cdata<struct ibuf>>)', 0)
    end
    return M.new_buffer_source(pairs({buffer}))
end

-- ---- merging ---------------------------------------------------------------------------------

-- Python keeps the first tuples of the sources, and knows a source by its place among them.
local guard_type = ffi.typeof('struct { uint32_t merger; }')

local function close(guard)
    python.merger_close(guard.merger)
end

-- Returns the result of a bound call. If Python has refused the tuple, the source gets it back.
local function accepted(source, ...)
    if (...) == false then
        source.put_back()
    end
    return wait(...)
end

-- Returns the function that takes the next tuple of all sources. The first tuple of each is asked for at the first call.
local function merge(packed, sources, is_reverse)
    local guard, heads
    -- A call that fails begins anew when it is repeated, as in Tarantool.
    local function begin()
        guard = gc(guard_type(wait(python.merger_open(packed, is_reverse))), close)
        local first = {}
        for place, source in ipairs(sources) do
            first[place] = source.take()
            if first[place] ~= nil then
                accepted(source, python.merger_add(guard.merger, place, salted_raw(first[place])))
            end
        end
        heads = first
        return python.merger_first(guard.merger)
    end
    -- The place of the source whose tuple comes next; 0 at the end.
    local place
    return function()
        if heads == nil then
            place = begin()
        end
        local tuple = heads[place]
        if tuple == nil then
            return nil
        end
        local source = sources[place]
        local following = source.take()
        if following ~= nil then
            local next_place = accepted(source, python.merger_replace(guard.merger, salted_raw(following)))
            heads[place], place = following, next_place
        else
            heads[place], place = nil, python.merger_drop(guard.merger)
        end
        return tuple
    end
end

local function is_key_def(value)
    return type(value) == 'cdata' and ffi.istype('struct key_def', value)
end

local MERGER = 'merger.new(key_def, {source, source, ...}[, {reverse = <boolean> or <nil>}])'

-- Checks the sources of a call with `count` arguments. Errors count the sources so far as arguments.
local function check_sources(sources, count)
    for i = 1, #sources do
        local source = sources[i]
        if type(source) ~= 'cdata' then
            error(('expected cdata as %d argument'):format(count + i), 3)
        elseif taker(source) == nil then
            wrong('Unknown source type at index ' .. i)
        end
    end
end

function M.new(...)
    local key_def, sources, options = ...
    local count = select('#', ...)
    if count > 3 or not is_key_def(key_def) or type(sources) ~= 'table' or (type(options) ~= 'nil' and type(options) ~= 'table') then
        error('Bad params, use: ' .. MERGER, 2)
    elseif options ~= nil and type(options.reverse) ~= 'nil' and type(options.reverse) ~= 'boolean' then
        error('Bad param "reverse", use: ' .. MERGER, 2)
    end
    check_sources(sources, count)
    local entries = {}
    for place, source in ipairs(sources) do
        entries[place] = entry_of(source)
    end
    local packed = ffi.string(key_def.lunabox_parts, key_def.lunabox_size)
    return new_source(merge(packed, entries, options ~= nil and options.reverse == true))
end

-- ---- methods of a source ---------------------------------------------------------------------

local methods = {}

-- A step of a loop over a source. The source is the state of the loop; `fun` ends a loop when the state is box.NULL.
local function step(_, source)
    if type(source) ~= 'cdata' then
        error('expected cdata as 2 argument', 2)
    end
    local tuple = taker(source)()
    if tuple ~= nil then
        return source, tuple
    end
end

-- Raises an error for a source that is no cdata at all.
local function check_cdata(source)
    if type(source) ~= 'cdata' then
        error('expected cdata as 1 argument', 3)
    end
end

function methods.pairs(...)
    local source = ...
    local is_alone = select('#', ...) == 1
    if is_alone then
        check_cdata(source)
    end
    if not is_alone or taker(source) == nil then
        error('Usage: merge_source:ipairs()', 2)
    end
    return fun.wrap(step, nil, source)
end

methods.ipairs = methods.pairs

local function array_header(count)
    return count < 16 and string.char(0x90 + count) or '\xdd' .. string.char(
        math.floor(count / 16777216) % 256, math.floor(count / 65536) % 256, math.floor(count / 256) % 256, count % 256)
end

local SELECT = 'merge_source:select([{buffer = <cdata<struct ibuf>> or <nil>, limit = <number> or <nil>}])'

-- Returns the limit; it is converted like an unsigned number of 32 bits.
local function check_options(options)
    local buffer, limit = options.buffer, options.limit
    if type(buffer) ~= 'nil' and not is_buffer(buffer) then
        error('Bad param "buffer", use: ' .. SELECT, 3)
    elseif type(limit) == 'nil' then
        return math.huge
    elseif arguments.number(limit) == nil then
        error('Bad param "limit", use: ' .. SELECT, 3)
    end
    return arguments.whole(limit) % 2 ^ 32
end

-- Returns a table of tuples, or writes their MessagePack array to options.buffer.
function methods.select(...)
    local source, options = ...
    local count = select('#', ...)
    if count == 1 or count == 2 then
        check_cdata(source)
    end
    local take = count <= 2 and taker(source) or nil
    if take == nil or (type(options) ~= 'nil' and type(options) ~= 'table') then
        error('Bad params, use: ' .. SELECT, 2)
    end
    options = options or {}
    local limit, list = check_options(options), {}
    while #list < limit do
        local tuple = take()
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

ffi.metatype(source_type, {__index = function(_, name) return methods[name] end, __pairs = methods.pairs, __ipairs = methods.ipairs})
M.internal = {select = methods.select, ipairs = methods.ipairs}

return M
