-- MessagePack for our own Lua modules, without checks of arguments.
--
--   encode(value) -> bytes for Python or another module, with the default options
--   encode_value(value) -> bytes of a value of the user; this and the rest use the options of `msgpack.cfg`
--   encode_args(...) -> bytes of the array of all arguments
--   encode_salted(value) -> bytes with salt, for tuples that cross to Python
--   decode(bytes[, offset]) -> value, next offset (1-based)
--   encode_args_at(target, room, ...) -> size; writes the elements of that array to memory, without the header
--   decode_args(bytes) -> the elements of an array, as several results
--   decode_args_at(p, pos) -> the elements of an array in memory, as several results
--   encode_tuple(table | tuple) -> bytes of an array; Tarantool's error for anything else
--   register(ctype, put) / register_extension(type, decode): cdata of other modules
local ffi = require('ffi')
local encoder = require('internal.msgpack_encode')
local decoder = require('internal.msgpack_decode')

local select, type, error = select, type, error
local get, byte_pointer = decoder.get, decoder.byte_pointer

local DEFAULTS = {
    encode_sparse_convert = true, encode_sparse_ratio = 2, encode_sparse_safe = 10, encode_max_depth = 128,
    encode_deep_as_nil = false, encode_invalid_numbers = true, encode_number_precision = 14,
    encode_load_metatables = true, encode_use_tostring = false, encode_invalid_as_nil = false,
    decode_invalid_numbers = true, decode_save_metatables = true, decode_max_depth = 128,
}

-- The options of the module `msgpack`, which its `cfg` changes.
local OPTIONS = {}
-- The options for arguments. A datetime or an interval that is malformed is an error of the request, as in Tarantool
-- 2.11, which has these types.
local ARGUMENTS = {
    refuse_malformed = function(kind)
        if kind == 4 or kind == 6 then
            box.error(box.error.INVALID_MSGPACK, 'packet body')
        end
    end,
}
for name, value in pairs(DEFAULTS) do
    OPTIONS[name], ARGUMENTS[name] = value, value
end

local M = {
    NULL = encoder.NULL, array_mt = decoder.array_mt, map_mt = decoder.map_mt, DEFAULTS = DEFAULTS, OPTIONS = OPTIONS,
}

local encode, encode_salted, encode_array = encoder.encode, encoder.encode_salted, encoder.encode_array

local encode_at, encode_elements_at = encoder.encode_at, encoder.encode_elements_at

function M.encode(value)
    return encode(DEFAULTS, value)
end

function M.encode_value(value)
    return encode(OPTIONS, value)
end

-- Returns the bytes with salt, see lua/salt.py.
function M.encode_salted(value)
    return encode_salted(OPTIONS, value)
end

function M.encode_args(...)
    return encode_array(OPTIONS, {...}, select('#', ...))
end

function M.decode(bytes, offset)
    local value, pos = get(DEFAULTS, ffi.cast(byte_pointer, bytes), (offset or 1) - 1)
    return value, pos + 1
end

local function decode_rest(p, pos, left)
    if left > 0 then
        local value
        value, pos = decoder.get_sized(ARGUMENTS, p, pos)
        return value, decode_rest(p, pos, left - 1)
    end
end

local function decode_args_at(p, start)
    local count, pos = decoder.array_header(p, start)
    if count < 200 then
        return decode_rest(p, pos, count)
    end
    return unpack(decoder.get_sized(ARGUMENTS, p, start), 1, count)
end
M.decode_args_at = decode_args_at

function M.decode_args(bytes)
    return decode_args_at(ffi.cast(byte_pointer, bytes), 0)
end

-- Writes the elements of the array of all arguments, without its header, at `target`, and returns their size. If they
-- take more than `room` bytes, returns nil and the bytes of the whole array.
function M.encode_args_at(target, room, ...)
    local count = select('#', ...)
    if count == 1 then
        return encode_at(OPTIONS, target, room, ...)
    end
    return encode_elements_at(OPTIONS, target, room, {...}, count)
end

-- Registers the encoder of a ctype. `put(value, pos, buffer, options)` writes a value at a position of the encoder's
-- buffer and returns the position after it. There is room for 32 bytes; more goes through `put_bytes` or `put_string`.
function M.register(ctype, put)
    encoder.by_ctype[tonumber(ffi.typeof(ctype))] = put
end

M.put_bytes, M.put_string, M.call_aside = encoder.put_bytes, encoder.put_string, encoder.call_aside

-- Registers a decoder: `decode_value(p, pos, size)` returns the value of the extension whose body is at that place, nil
-- if it is malformed.
function M.register_extension(kind, decode_value)
    decoder.extensions[kind] = decode_value
end

-- internal.tuple sets these functions, because it needs this module itself.
M.is_tuple, M.raw_tuple = nil, nil

function M.encode_tuple(value)
    if type(value) == 'table' then
        return encode(OPTIONS, value)
    elseif M.is_tuple(value) then
        return M.raw_tuple(value)
    end
    error('A tuple or a table expected, got ' .. type(value), 0)
end

return M
