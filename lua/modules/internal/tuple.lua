-- Tuples: cdata with the MessagePack bytes of an array. A field is decoded when it is read.
--
--     struct tuple { uint32_t _size; uint32_t _format; uint8_t _data[]; }
--
-- `_format` is the id under which `set_format` has registered field names, 0 for none. Other modules add methods to
-- `methods`. As in Tarantool, a field hides a method of the same name.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local decoder = require('internal.msgpack_decode')

local type, error, tonumber, pairs, unpack, rawequal = type, error, tonumber, pairs, unpack, rawequal
local get, skip, array_header = decoder.get, decoder.skip, decoder.array_header
local byte_pointer, put_bytes = decoder.byte_pointer, msgpack.put_bytes

ffi.cdef('struct tuple { uint32_t _size; uint32_t _format; uint8_t _data[?]; };')
ffi.cdef('int memcmp(const void *, const void *, size_t);')
local tuple_type = ffi.typeof('struct tuple')
local size_array = ffi.typeof('const uint32_t *')
local HEADER_SIZE = ffi.offsetof('struct tuple', '_data')
local C, ffi_copy, ffi_new = ffi.C, ffi.copy, ffi.new

-- Decodes with metatables for __serialize in nested tables, because users receive the elements of a tuple.
local OPTIONS = msgpack.DEFAULTS

local formats = {}
local methods = {}

local M = {methods = methods, ctype = tuple_type}

local function is(value)
    return type(value) == 'cdata' and ffi.istype(tuple_type, value)
end
M.is = is

-- Makes a tuple of the bytes at a pointer.
local function from_memory(p, size, format)
    local tuple = tuple_type(size, size, format or 0)
    ffi_copy(tuple._data, p, size)
    return tuple
end
M.from_memory = from_memory

-- Makes a tuple of these bytes, which must be one MessagePack array.
local function new(raw, format)
    return from_memory(raw, #raw, format)
end
M.new = new

-- The bytes of a tuple that crosses to or from Python are followed by salt, see lua/salt.py.
local SALT_SIZE, ANY_SALT = 4, '\0\0\0\0'

function M.new_salted(raw, format)
    local size = #raw - SALT_SIZE
    local tuple = tuple_type(size, size, format)
    ffi_copy(tuple._data, raw, size)
    return tuple
end

-- The type of the argument of `copy`.
M.pointer = ffi.typeof('struct tuple *')

local function raw(tuple)
    return ffi.string(tuple._data, tuple._size)
end
M.raw = raw

function M.salted_raw(tuple)
    return raw(tuple) .. ANY_SALT
end

-- Copies the tuple of `size` bytes whose image, header and all, is at `p`.
local function from_image(p, size)
    local tuple = ffi_new(tuple_type, size)
    ffi_copy(tuple, p, HEADER_SIZE + size)
    return tuple
end
-- Encodes a table or a tuple. As in Tarantool's C functions, errors are objects.
function M.encode(value)
    local errors = require('internal.error')
    if type(value) ~= 'table' and not is(value) then
        local message = 'A tuple or a table expected, got ' .. type(value)
        error(errors.new_here({type = 'IllegalParams', message = message}), 0)
    end
    local ok, raw = pcall(msgpack.encode_tuple, value)
    if not ok then
        error(errors.from_value(raw), 0)
    end
    return raw
end

M.from_image, M.HEADER_SIZE = from_image, HEADER_SIZE

-- Makes the tuples whose images follow each other in `blob`. `sizes` has the sizes without headers as native uint32_t.
function M.from_images(blob, sizes)
    local p, list, pos, result = ffi.cast(byte_pointer, blob), ffi.cast(size_array, sizes), 0, {}
    for i = 1, #sizes / 4 do
        local size = list[i - 1]
        result[i] = from_image(p + pos, size)
        pos = pos + HEADER_SIZE + size
    end
    return result
end

-- Makes the tuples that follow each other in `blob` as MessagePack.
function M.many(blob, format)
    local p, result = ffi.cast(byte_pointer, blob), {}
    local pos, limit, count = 0, #blob, 0
    while pos < limit do
        local after = skip(p, pos)
        count = count + 1
        result[count] = from_memory(p + pos, after - pos, format or 0)
        pos = after
    end
    return result
end

-- The number of formats of dropped spaces that are kept for remaining tuples; Python keeps as many.
local DROPPED_LIMIT = 128
local dropped, place_of, last_place = {}, {}, 0

-- Registers the field names of a format: name -> number of the field, from 1.
function M.set_format(id, names)
    formats[id] = names
    local place = place_of[id]
    if place ~= nil then
        dropped[place], place_of[id] = nil, nil
    end
end

-- Keeps the format of a dropped space, of which tuples may still exist, and forgets the oldest of the kept formats.
function M.drop_format(id)
    if place_of[id] ~= nil then
        return
    end
    last_place = last_place % DROPPED_LIMIT + 1
    local oldest = dropped[last_place]
    if oldest ~= nil then
        formats[oldest], place_of[oldest] = nil, nil
    end
    dropped[last_place], place_of[id] = id, last_place
end

function M.format(id)
    return formats[id]
end

function M.format_of(tuple)
    return tuple._format
end

-- box.tuple sets `path_lookup(tuple, text)` -> value, for names like 'a.b[1]'.
M.path_lookup = nil

-- Returns a field. `decode` is one of internal.msgpack_decode: as in Tarantool, fields by number and by name have
-- different decoders.
local function field(tuple, number, decode)
    local p = tuple._data
    local count, pos = array_header(p, 0)
    if number < 1 or number > count then
        return nil
    end
    for _ = 2, number do
        pos = skip(p, pos)
    end
    return (decode(OPTIONS, p, pos))
end

function M.field(tuple, number)
    return field(tuple, number, get)
end

local function len(tuple)
    return (array_header(tuple._data, 0))
end

local function by_name(tuple, name)
    local names = formats[tuple._format]
    if names then
        local number = names[name]
        if number then
            local value = field(tuple, number, decoder.get_sized)
            if value ~= nil then
                return value
            end
        end
    end
    local method = methods[name]
    if method == nil and M.path_lookup then
        return M.path_lookup(tuple, name)
    end
    return method
end

local function index(tuple, key)
    local kind = type(key)
    if kind == 'number' then
        return field(tuple, key, get)
    elseif kind == 'string' then
        return by_name(tuple, key)
    end
end

local function check(tuple)
    if not is(tuple) then
        error('Invalid argument #1 (tuple expected, got ' .. type(tuple) .. ')', 3)
    end
end

-- Returns all fields in a table, or those from..to.
function methods.totable(tuple, from, to)
    check(tuple)
    local p = tuple._data
    local count, pos = array_header(p, 0)
    if from == nil and to == nil then
        return (get(OPTIONS, p, 0))
    end
    from, to = from or 1, to or count
    if from < 1 then
        error('tuple.totable: invalid second argument', 2)
    elseif to < from then
        error('tuple.totable: invalid third argument', 2)
    end
    local result = {}
    for i = 1, math.min(to, count) do
        local value
        if i >= from then
            value, pos = get(OPTIONS, p, pos)
            result[i - from + 1] = value
        else
            pos = skip(p, pos)
        end
    end
    return setmetatable(result, decoder.array_mt)
end

function methods.unpack(tuple, from, to)
    check(tuple)
    local list = methods.totable(tuple, from, to)
    local count = len(tuple)
    from, to = from or 1, to or count
    return unpack(list, 1, math.max(math.min(to, count) - from + 1, 0))
end

function methods.bsize(tuple)
    check(tuple)
    return tuple._size
end

-- A loop over a tuple remembers its position: the next number to read and where it is. It walks from the start only if
-- it is asked for an earlier one.
ffi.cdef('struct tuple_iterator { const uint8_t *_data; uint32_t _next; uint32_t _position; };')
local iterator_type = ffi.typeof('struct tuple_iterator')

local function step(tuple, number)
    number = number + 1
    if number <= len(tuple) then
        return number, field(tuple, number, get)
    end
    return nil
end

M.step = step

local function iterate(iterator, tuple, number)
    if number == nil then
        number = 0
    elseif type(number) ~= 'number' then
        error("error: invalid key to 'next'")
    end
    local p = tuple._data
    local count, first = array_header(p, 0)
    if not (number >= 0 and number <= count) then    -- a NaN would never get to the end
        error("error: invalid key to 'next'")
    elseif p ~= iterator._data then
        return step(tuple, number)
    end
    if number > count - 1 then
        if number < count then    -- a fraction
            error("error: invalid key to 'next'")
        end
        return nil
    end
    number = number + 1
    local following, pos = iterator._next, iterator._position
    if number ~= following then
        local wanted = number - number % 1    -- a fraction counts only in the number that is returned
        if wanted < following then
            following, pos = 1, first
        end
        while following < wanted do
            following, pos = following + 1, skip(p, pos)
        end
    end
    local value
    value, pos = get(OPTIONS, p, pos)
    iterator._next, iterator._position = following + 1, pos
    return number, value
end

ffi.metatype(iterator_type, {
    __call = iterate,
    __tostring = function() return '<tuple iterator>' end,
})

-- The generator of a loop over a tuple: (tuple, number) -> the next number and its field.
function M.iterator(tuple)
    local _, first = array_header(tuple._data, 0)
    return iterator_type(tuple._data, 1, first)
end

-- Returns generator, parameter and state of a loop over the fields.
function methods.ipairs(tuple)
    return M.iterator(tuple), tuple, 0
end

methods.pairs = methods.ipairs
methods.__serialize = methods.totable

-- Returns whether two tuples are equal. In Tarantool they are if they are the same object in memory, and all readers of
-- a space get the stored one. Here each reader gets a copy, so copies of one space are equal if their bytes are.
local function equal(left, right)
    if not is(left) or not is(right) then
        for _, name in ipairs({'table', 'boolean'}) do
            if type(left) == name or type(right) == name then
                error(("cannot convert '%s' to 'void *'"):format(name == 'boolean' and 'bool' or name))
            end
        end
        return false
    end
    if rawequal(left, right) then
        return true
    end
    return left._format ~= 0 and left._format == right._format and left._size == right._size
        and C.memcmp(left._data, right._data, left._size) == 0
end

local function to_text(tuple)
    return require('internal.tuple_text')(tuple._data)
end

ffi.metatype(tuple_type, {
    __index = index,
    __len = len,
    __eq = equal,
    __tostring = to_text,
})

-- pairs() and ipairs() of internal.globals find the loops over a tuple here.
M.pairs = methods.ipairs

msgpack.is_tuple, msgpack.raw_tuple = is, raw
msgpack.register(tuple_type, function(tuple, pos)
    return put_bytes(tuple._data, tuple._size, pos)
end)

return M
