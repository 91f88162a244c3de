-- Lua values to MessagePack, through one growing FFI buffer.
--
-- Every `put_*` takes the position to write at and returns the next one, so a position is never shared state: an
-- error leaves nothing to clean up. Code of the user (`__serialize`) may itself encode or wait, and finalizers may run
-- in between: both get another buffer. Leaf functions are small, so that the JIT compiles each as a trace of its own.
-- Only the walk over the keys of a table stays interpreted (`next` is never compiled).
--
-- Options with a function `fail` make the encoder follow the rules of Tarantool's `msgpackffi`, which differ for what is
-- unusual: tables with holes, large numbers, depth. `fail(text)` raises its errors.
local ffi = require('ffi')
local bit = require('bit')
local located = require('internal.caller').located

local band, bor, rshift, tobit = bit.band, bit.bor, bit.rshift, bit.tobit
local floor, max, sub = math.floor, math.max, string.sub
local type, getmetatable, tostring, error, pairs, rawget = type, getmetatable, tostring, error, pairs, rawget
local real_metatable = debug.getmetatable

local INITIAL_SIZE = 65536
-- The room that is kept after every position. A header or a number takes at most 9 bytes.
local MARGIN = 32

local bytes_type, int64_type, uint64_type = ffi.typeof('uint8_t[?]'), ffi.typeof('int64_t'), ffi.typeof('uint64_t')
local NULL = ffi.cast('void *', 0)
local number_cell = ffi.new('union { double d; float f; int64_t i; uint64_t u; int32_t half[2]; }')

local buffer, capacity = ffi.new(bytes_type, INITIAL_SIZE), INITIAL_SIZE - MARGIN
-- A chain of free buffers. There are as many as calls out of the encoder have ever been nested, and one more.
local spares
local put

-- ctype id -> function(value, pos, buffer) -> next position, for decimal, uuid, tuple and cdata of other modules. There
-- is room for MARGIN bytes at `pos`; `put_bytes` and `put_string` make more. The function must not raise or run user
-- code.
local by_ctype = {}
-- ctype id -> a function of the user from a value to the one that is encoded instead.
local converters = {}

-- Raises an error object of type LuajitError, as Tarantool does here.
local function raise(problem)
    error(require('internal.error').from_serializer(problem), 0)
end

local function grow(wanted, used)
    local size = max(wanted + MARGIN, (capacity + MARGIN) * 2)
    local larger = ffi.new(bytes_type, size)
    ffi.copy(larger, buffer, used)
    buffer, capacity = larger, size - MARGIN
end

local function taken(pos)
    return ffi.string(buffer, pos)
end

-- Makes another buffer current before a call out of the encoder. Pass the result to `swap_back`.
local function swap()
    local outer, outer_capacity = buffer, capacity
    local spare = spares
    if spare then
        spares = spare.next
        buffer, capacity = spare.buffer, spare.capacity
    else
        buffer, capacity = ffi.new(bytes_type, INITIAL_SIZE), INITIAL_SIZE - MARGIN
    end
    return outer, outer_capacity
end

-- Makes the former buffer current again. The present one is free, whether or not `swap` gave it: every other call has
-- ended or holds its own.
local function swap_back(outer, outer_capacity)
    -- A new table may start a finalizer, which swaps too. So it is made before the chain is read; nothing after it
    -- allocates.
    local spare = {buffer = buffer, capacity = capacity, next = false}
    spare.next, spares = spares, spare
    buffer, capacity = outer, outer_capacity
end

local function put_be32(pos, value)
    buffer[pos], buffer[pos + 1] = rshift(value, 24), band(rshift(value, 16), 0xff)
    buffer[pos + 2], buffer[pos + 3] = band(rshift(value, 8), 0xff), band(value, 0xff)
end

local function put_cell(pos, tag)
    buffer[pos] = tag
    put_be32(pos + 1, number_cell.half[1])
    put_be32(pos + 5, number_cell.half[0])
    return pos + 9
end

local function put_double(value, pos)
    number_cell.d = value
    return put_cell(pos, 0xcb)
end

-- Writes a whole number of at least 0 and below 2^64.
local function put_unsigned(value, pos)
    if value < 0x80 then
        buffer[pos] = value
        return pos + 1
    elseif value < 0x100 then
        buffer[pos], buffer[pos + 1] = 0xcc, value
        return pos + 2
    elseif value < 0x10000 then
        local whole = tobit(value)
        buffer[pos], buffer[pos + 1], buffer[pos + 2] = 0xcd, rshift(whole, 8), band(whole, 0xff)
        return pos + 3
    elseif value < 0x100000000 then
        buffer[pos] = 0xce
        put_be32(pos + 1, tobit(value))
        return pos + 5
    end
    local high = floor(value / 0x100000000)
    buffer[pos] = 0xcf
    put_be32(pos + 1, tobit(high))
    put_be32(pos + 5, tobit(value - high * 0x100000000))
    return pos + 9
end

-- Writes a whole number below 0 and at least -2^63.
local function put_negative(value, pos)
    if value >= -0x20 then
        buffer[pos] = band(value, 0xff)
        return pos + 1
    elseif value >= -0x80 then
        buffer[pos], buffer[pos + 1] = 0xd0, band(value, 0xff)
        return pos + 2
    elseif value >= -0x8000 then
        local whole = tobit(value)
        buffer[pos], buffer[pos + 1], buffer[pos + 2] = 0xd1, band(rshift(whole, 8), 0xff), band(whole, 0xff)
        return pos + 3
    elseif value >= -0x80000000 then
        buffer[pos] = 0xd2
        put_be32(pos + 1, tobit(value))
        return pos + 5
    end
    local high = floor(value / 0x100000000)
    buffer[pos] = 0xd3
    put_be32(pos + 1, tobit(high))
    put_be32(pos + 5, tobit(value - high * 0x100000000))
    return pos + 9
end

-- Writes a whole number of more than 64 bits as `msgpackffi` does, unless the option `is_exact` is set: it becomes 0, the
-- least integer if it is negative.
local function put_cast(value, pos)
    number_cell.u = value < 0 and 0x8000000000000000ULL or 0
    return put_cell(pos, value < 0 and 0xd3 or 0xcf)
end

local function put_number(cfg, value, pos)
    if floor(value) == value then
        if value >= 0 then
            if value < 0x10000000000000000 then
                return put_unsigned(value, pos)
            end
        elseif value >= -0x8000000000000000 then
            return put_negative(value, pos)
        end
        if cfg.fail and not cfg.is_exact and value > -1e63 and value < 1e64 then
            return put_cast(value, pos)
        end
    end
    if value - value ~= 0 and not cfg.encode_invalid_numbers and not cfg.fail then
        if not cfg.encode_invalid_as_nil then
            raise('number must not be NaN or Inf')
        end
        buffer[pos] = 0xc0
        return pos + 1
    end
    return put_double(value, pos)
end

local function put_uint64(value, pos)
    if value < 0x100000000ULL then
        return put_unsigned(tonumber(value), pos)
    end
    number_cell.u = value
    return put_cell(pos, 0xcf)
end

local function put_int64(value, pos)
    if value >= 0LL then
        return put_uint64(ffi.cast(uint64_type, value), pos)
    elseif value >= -0x80000000LL then
        return put_negative(tonumber(value), pos)
    end
    number_cell.i = value
    return put_cell(pos, 0xd3)
end

local function put_bytes(value, size, pos)
    if pos + size > capacity then
        grow(pos + size, pos)
    end
    ffi.copy(buffer + pos, value, size)
    return pos + size
end

local function put_string(value, pos)
    local size = #value
    if size < 32 then
        buffer[pos] = bor(0xa0, size)
        pos = pos + 1
    elseif size < 0x100 then
        buffer[pos], buffer[pos + 1] = 0xd9, size
        pos = pos + 2
    elseif size < 0x10000 then
        buffer[pos], buffer[pos + 1], buffer[pos + 2] = 0xda, rshift(size, 8), band(size, 0xff)
        pos = pos + 3
    else
        buffer[pos] = 0xdb
        put_be32(pos + 1, tobit(size))
        pos = pos + 5
    end
    return put_bytes(value, size, pos)
end

local function put_array_header(size, pos)
    if size < 16 then
        buffer[pos] = bor(0x90, size)
        return pos + 1
    elseif size < 0x10000 then
        buffer[pos], buffer[pos + 1], buffer[pos + 2] = 0xdc, rshift(size, 8), band(size, 0xff)
        return pos + 3
    end
    buffer[pos] = 0xdd
    put_be32(pos + 1, tobit(size))
    return pos + 5
end

local function put_map_header(size, pos)
    if size < 16 then
        buffer[pos] = bor(0x80, size)
        return pos + 1
    elseif size < 0x10000 then
        buffer[pos], buffer[pos + 1], buffer[pos + 2] = 0xde, rshift(size, 8), band(size, 0xff)
        return pos + 3
    end
    buffer[pos] = 0xdf
    put_be32(pos + 1, tobit(size))
    return pos + 5
end

-- Calls code of the user.
local function call_out(serialize, value)
    local outer, outer_capacity = swap()
    local ok, result = pcall(serialize, value)
    swap_back(outer, outer_capacity)
    if not ok then
        raise(result)
    end
    return result
end

local function unencodable(cfg, value, pos, kind)
    if cfg.fail then
        -- Tarantool raises the first error while it makes the text of another one.
        cfg.fail(kind == 'cdata' and "cannot convert 'string' to 'ctype'" or "can not encode Lua type: '" .. kind .. "'")
    elseif cfg.encode_use_tostring then
        return put_string(call_out(tostring, value), pos)
    elseif cfg.encode_invalid_as_nil then
        buffer[pos] = 0xc0
        return pos + 1
    end
    error(located("unsupported Lua type '" .. kind .. "'"), 0)
end

local small_integers = {}
for _, name in ipairs({'int8_t', 'int16_t', 'int32_t', 'uint8_t', 'uint16_t', 'uint32_t', 'char'}) do
    small_integers[tonumber(ffi.typeof(name))] = true
end
local BOOL, FLOAT = tonumber(ffi.typeof('bool')), tonumber(ffi.typeof('float'))
local DOUBLE = tonumber(ffi.typeof('double'))
local INT64, UINT64 = tonumber(int64_type), tonumber(uint64_type)

local function put_float(value, pos)
    number_cell.f = value
    buffer[pos] = 0xca
    put_be32(pos + 1, number_cell.half[0])
    return pos + 5
end

-- Returns whether `value` is a ctype object, of the number `ctype`. It is encoded as that number.
local function is_ctype(value, ctype)
    return tonumber(value) == ctype and sub(tostring(value), 1, 6) == 'ctype<'
end

local function put_other_cdata(cfg, value, pos)
    local ctype = tonumber(ffi.typeof(value))
    if is_ctype(value, ctype) then
        return unencodable(cfg, value, pos, 'cdata')
    end
    local encode = by_ctype[ctype]
    if encode then
        return encode(value, pos, buffer, cfg)
    elseif converters[ctype] then
        return put(cfg, call_out(converters[ctype], value), pos, 0)
    elseif small_integers[ctype] then
        local number = tonumber(value)
        return number >= 0 and put_unsigned(number, pos) or put_negative(number, pos)
    elseif ctype == BOOL then
        buffer[pos] = value and value ~= ffi.new('bool', false) and 0xc3 or 0xc2
        return pos + 1
    elseif ctype == FLOAT then
        return put_float(value, pos)
    elseif ctype == DOUBLE then
        return put_double(tonumber(value), pos)
    end
    return unencodable(cfg, value, pos, 'cdata')
end

local function is_null(value)
    return ffi.istype('void *', value) and value == NULL
end

local function put_cdata(cfg, value, pos)
    if ffi.istype(int64_type, value) then
        return is_ctype(value, INT64) and unencodable(cfg, value, pos, 'cdata') or put_int64(value, pos)
    elseif ffi.istype(uint64_type, value) then
        return is_ctype(value, UINT64) and unencodable(cfg, value, pos, 'cdata') or put_uint64(value, pos)
    elseif is_null(value) then
        buffer[pos] = 0xc0
        return pos + 1
    end
    return put_other_cdata(cfg, value, pos)
end

-- Writes the elements 1 .. size. Holes become nil; `__index` is not asked.
local function put_elements(cfg, value, size, pos, level)
    for i = 1, size do
        local item = rawget(value, i)
        if type(item) == 'number' then
            if pos > capacity then
                grow(pos, pos)
            end
            pos = put_number(cfg, item, pos)
        else
            pos = put(cfg, item, pos, level)
        end
    end
    return pos
end

local function put_array(cfg, value, size, pos, level)
    return put_elements(cfg, value, size, put_array_header(size, pos), level)
end

local function put_map(cfg, value, count, pos, level)
    pos = put_map_header(count, pos)
    for key, item in pairs(value) do
        pos = put(cfg, item, put(cfg, key, pos, level), level)
    end
    return pos
end

-- Returns the number of keys and, if all are positive whole numbers, the greatest key.
local function survey(value)
    local count, greatest = 0, 0
    for key in next, value do
        count = count + 1
        if type(key) ~= 'number' or key < 1 or floor(key) ~= key then
            greatest = nil
            break
        elseif key > greatest then
            greatest = key
        end
    end
    if greatest == nil then
        count = 0
        for _ in next, value do
            count = count + 1
        end
    end
    return count, greatest
end

local function put_plain_table(cfg, value, pos, level)
    local count, greatest = survey(value)
    if greatest == nil or greatest > count and cfg.fail then
        return put_map(cfg, value, count, pos, level)
    end
    if cfg.encode_sparse_ratio > 0 and greatest > cfg.encode_sparse_safe
            and greatest > count * cfg.encode_sparse_ratio then
        if not cfg.encode_sparse_convert then
            raise('excessively sparse array')
        end
        return put_map(cfg, value, count, pos, level)
    end
    return put_array(cfg, value, greatest, pos, level)
end

local function put_sequence(cfg, value, pos, level)
    local greatest = 0
    for key in next, value do
        if type(key) == 'number' and key > greatest and floor(key) == key then
            greatest = key
        end
    end
    return put_array(cfg, value, greatest, pos, level)
end

-- Returns the metatable that counts, or nil. It is the real one, even if a field `__metatable` hides it from Lua. The
-- rules of `msgpackffi` take what Lua sees, because Tarantool's is written in Lua.
local function metatable_of(cfg, value)
    local metatable
    if cfg.fail then
        metatable = getmetatable(value)
        local kind = type(metatable)
        if kind == 'boolean' or kind == 'number' then
            cfg.fail(("attempt to index local 'mt' (a %s value)"):format(kind))
        end
    else
        metatable = real_metatable(value)
    end
    return type(metatable) == 'table' and metatable or nil
end

local function put_with_hint(cfg, value, hint, pos, level)
    if type(hint) == 'function' then
        local result = call_out(hint, value)
        if type(result) == 'table' and type(rawget(metatable_of(cfg, result) or {}, '__serialize')) ~= 'string' then
            return put_plain_table(cfg, result, pos, level)
        end
        return put(cfg, result, pos, level - 1)
    elseif hint == 'map' or hint == 'mapping' then
        return put_map(cfg, value, (survey(value)), pos, level)
    elseif hint == 'seq' or hint == 'sequence' or hint == 'array' then
        return put_sequence(cfg, value, pos, level)
    end
    if cfg.fail then
        cfg.fail('Invalid __serialize value')
    end
    raise('invalid __serialize value')
end

local function serialize_hint(cfg, value)
    local metatable = metatable_of(cfg, value)
    if metatable == nil or not (cfg.encode_load_metatables or cfg.fail) then
        return nil
    end
    local hint = metatable.__serialize
    if hint == nil then
        return nil
    end
    return hint
end

local function put_table(cfg, value, pos, level)
    if level >= cfg.encode_max_depth and (level > cfg.encode_max_depth or cfg.fail) then
        if cfg.encode_deep_as_nil then
            buffer[pos] = 0xc0
            return pos + 1
        elseif cfg.fail then
            cfg.fail('Too high nest level - ' .. cfg.encode_max_depth + 1)
        end
        error(located('Too high nest level - ' .. level), 0)
    end
    if getmetatable(value) ~= nil then
        local hint = serialize_hint(cfg, value)
        if hint ~= nil then
            return put_with_hint(cfg, value, hint, pos, level)
        end
    end
    return put_plain_table(cfg, value, pos, level)
end

-- `raw_of(value)` returns the bytes of an object of msgpack.object; internal.msgpack_object sets it.
local encoder = {raw_of = nil}

local function put_rest(cfg, value, pos, level)
    local kind = type(value)
    if kind == 'cdata' then
        return put_cdata(cfg, value, pos)
    elseif kind == 'userdata' then
        local raw = encoder.raw_of and encoder.raw_of(value)
        if raw then
            return put_bytes(raw, #raw, pos)
        end
        local metatable = debug.getmetatable(value)
        local serialize = metatable and metatable.__serialize
        if type(serialize) == 'function' and cfg.encode_load_metatables then
            return put(cfg, call_out(serialize, value), pos, level)
        end
    end
    return unencodable(cfg, value, pos, kind)
end

function put(cfg, value, pos, level)
    if pos > capacity then
        grow(pos, pos)
    end
    local kind = type(value)
    if kind == 'number' then
        return put_number(cfg, value, pos)
    elseif kind == 'string' then
        return put_string(value, pos)
    elseif kind == 'table' then
        return put_table(cfg, value, pos, level + 1)
    elseif kind == 'nil' then
        buffer[pos] = 0xc0
        return pos + 1
    elseif kind == 'boolean' then
        buffer[pos] = value and 0xc3 or 0xc2
        return pos + 1
    end
    return put_rest(cfg, value, pos, level)
end

encoder.by_ctype, encoder.converters = by_ctype, converters
encoder.NULL, encoder.is_null = NULL, is_null
encoder.put_bytes, encoder.put_string = put_bytes, put_string

-- Returns the header of an array.
function encoder.array_header(count)
    return taken(put_array_header(count, 0))
end

-- Calls a function with another buffer. It may have interrupted this module, and must not raise.
function encoder.call_aside(run, argument)
    local low, high = number_cell.half[0], number_cell.half[1]
    local outer, outer_capacity = swap()
    run(argument)
    swap_back(outer, outer_capacity)
    number_cell.half[0], number_cell.half[1] = low, high
end

-- Returns the MessagePack of one value.
function encoder.encode(cfg, value)
    return taken(put(cfg, value, 0, 0))
end

local last_salt = 0

local function put_salt(pos)
    last_salt = last_salt + 1
    put_be32(pos, last_salt)
    return pos + 4
end

-- Returns the MessagePack of one value with salt, see lua/salt.py.
function encoder.encode_salted(cfg, value)
    return taken(put_salt(put(cfg, value, 0, 0)))
end

-- Returns the array of the values in `list[1 .. count]`, which may be nil.
function encoder.encode_array(cfg, list, count)
    return taken(put_array(cfg, list, count, 0, 0))
end

-- Returns the same array with salt.
function encoder.encode_salted_array(cfg, list, count)
    return taken(put_salt(put_array(cfg, list, count, 0, 0)))
end

-- Writes the values in `list[1 .. count]`, without the header of an array, at `target`, and returns their size. If they
-- take more than `room` bytes, returns nil and the bytes of the whole array.
function encoder.encode_elements_at(cfg, target, room, list, count)
    local size = put_elements(cfg, list, count, 0, 0)
    if size > room then
        local header = put_array_header(count, size)
        return nil, ffi.string(buffer + size, header - size) .. taken(size)
    end
    ffi.copy(target, buffer, size)
    return size
end

-- Writes the MessagePack of one value at `target`, as `encode_elements_at` does for several.
function encoder.encode_at(cfg, target, room, value)
    local size = put(cfg, value, 0, 0)
    if size > room then
        return nil, '\145' .. taken(size)
    end
    ffi.copy(target, buffer, size)
    return size
end

return encoder
