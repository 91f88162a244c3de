-- require('msgpack'): MessagePack for users, with options, buffers and Tarantool's checks.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local encoder = require('internal.msgpack_encode')
local own = require('internal.msgpack')
local decoder = require('internal.msgpack_decode')
local serializer = require('internal.serializer')

local type, error, pcall, select = type, error, pcall, select

local char_pointer, byte_pointer = ffi.typeof('const char *'), decoder.byte_pointer
local EXPECTED_TEXT = "%s: a Lua string or 'char *' expected"

local function is_pointer(value)
    return type(value) == 'cdata' and (ffi.istype('const char *', value) or ffi.istype('char *', value)
        or ffi.istype('const uint8_t *', value) or ffi.istype('uint8_t *', value))
end

local function is_ibuf(value)
    local ok, result = pcall(ffi.istype, 'struct ibuf', value)
    return ok and result
end

-- Writes bytes to a buffer and returns their number.
local function append(ibuf, bytes)
    local p = ibuf:alloc(#bytes)
    ffi.copy(p, bytes, #bytes)
    return #bytes
end

-- Returns a pointer moved by `count` bytes; it keeps the type of the argument.
local function advanced(pointer, count)
    return ffi.cast(ffi.typeof(pointer), pointer + count)
end

-- An empty text is invalid MessagePack if `offset` is nil, otherwise the offset is out of bounds.
local function decode_string(cfg, name, text, offset, checked)
    local start = (offset or 1) - 1
    if not (start >= 0 and start <= #text) or (start == #text and offset ~= nil) then
        error(name .. ': offset is out of bounds', 2)
    end
    local p = ffi.cast(byte_pointer, text)
    if checked and decoder.check(p, start, #text) == nil then
        error(name .. ': invalid MsgPack', 2)
    end
    local value, pos = decoder.get_sized(cfg, p, start)
    return value, pos + 1
end

local function decode_memory(cfg, name, pointer, size, checked)
    local p = ffi.cast(byte_pointer, pointer)
    if checked then
        if type(size) ~= 'number' then
            local kind = size == nil and 'no value' or type(size)
            error("bad argument #2 to '?' (number expected, got " .. kind .. ')', 2)
        elseif size < 0 then
            error(name .. ": size can't be negative", 2)
        elseif pointer == nil or decoder.check(p, 0, size) == nil then
            error(name .. ': invalid MsgPack', 2)
        end
    end
    local value, pos = decoder.get_sized(cfg, p, 0)
    return value, advanced(pointer, pos)
end

local function new_decode(cfg, name, checked)
    return function(data, ...)
        if type(data) == 'string' then
            local offset
            if select('#', ...) > 0 then    -- nil is no absent offset
                offset = arguments.number((...)) or arguments.bad(2, 'number expected, got ' .. type((...)), 2)
                offset = offset - offset % 1
            end
            return decode_string(cfg, name, data, offset, checked)
        elseif is_pointer(data) and (checked or data ~= nil) then
            return decode_memory(cfg, name, data, (...), checked)
        end
        error(EXPECTED_TEXT:format(name), 2)
    end
end

local function new_encode(cfg)
    return function(...)
        local count = select('#', ...)
        if count == 0 then
            error('msgpack.encode: a Lua object expected', 2)
        end
        local value, ibuf = ...
        if count > 1 and not is_ibuf(ibuf) then
            error("msgpack.encode: argument 2 must be of type 'struct ibuf'", 2)
        end
        local ok, bytes = pcall(encoder.encode, cfg, value)
        if not ok then
            -- An error that is a text gets the place of the caller.
            error(bytes, 2)
        end
        return ibuf ~= nil and append(ibuf, bytes) or bytes
    end
end

-- Returns the size in a header and the pointer after it. `narrow` and `wide` are the tags with sizes of 2 and 4 bytes.
local function new_header(name, read, narrow, wide)
    return function(...)
        local pointer, size = ...
        if select('#', ...) ~= 2 then
            error(('Usage: %s(ptr, size)'):format(name), 2)
        elseif not is_pointer(pointer) then
            error(name .. ": 'char *' expected", 2)
        end
        local kind = type(size)
        size = arguments.number(size) or arguments.bad(2, 'number expected, got ' .. kind, 2)
        if pointer == nil and size >= 1 then
            error(name .. ": 'char *' expected", 2)
        elseif size < 1 then
            error(name .. ': non-positive size', 2)
        end
        local p = ffi.cast(byte_pointer, pointer)
        local tag = p[0]
        local needed = tag == narrow and 3 or tag == wide and 5 or 1
        local is_header = needed > 1 or (tag >= 0x80 and tag < 0xa0 and read(p, 0) ~= nil)
        if not is_header then
            error(name .. ': unexpected msgpack type', 2)
        elseif needed > size then
            error(name .. ': unexpected end of buffer', 2)
        end
        local count, pos = read(p, 0)
        return count, advanced(pointer, pos)
    end
end

-- Decodes at the read position of a buffer. Returns the new position and the value.
local function new_ibuf_decode(cfg)
    return function(rpos)
        if type(rpos) == 'cdata' and rpos == nil then
            error('msgpack.ibuf_decode: rpos is null', 2)
        elseif not is_pointer(rpos) then
            error('expected cdata as 1 argument', 2)
        end
        local value, pos = decoder.get_sized(cfg, ffi.cast(byte_pointer, rpos), 0)
        return advanced(rpos, pos), value
    end
end

-- Loaded at the first use, as few programs need it.
local function objects()
    return require('internal.msgpack_object')
end

local function new_object(cfg)
    return function(...)
        if select('#', ...) ~= 1 then
            error('msgpack.object: a Lua object expected', 2)
        end
        return objects().new(cfg, encoder.encode(cfg, (...)))
    end
end

-- Makes an object of the bytes of one value, in a string or in memory.
local function new_object_from_raw(cfg)
    return function(data, size)
        local bytes = data
        if is_pointer(data) and data ~= nil then
            if type(size) ~= 'number' then
                error("bad argument #2 to '?' (number expected, got " .. (size == nil and 'no value' or type(size)) .. ')', 2)
            end
            bytes = ffi.string(data, size)
        elseif type(data) ~= 'string' then
            error(EXPECTED_TEXT:format('msgpack.object_from_raw'), 2)
        end
        if decoder.check(ffi.cast(byte_pointer, bytes), 0, #bytes) ~= #bytes or #bytes == 0 then
            error('msgpack.object_from_raw: invalid MsgPack', 2)
        end
        return objects().new(cfg, bytes)
    end
end

local function is_object(value)
    return objects().is(value)
end

local new

-- Makes a module with these options.
local function module_of(cfg)
    return {
        NULL = encoder.NULL,
        array_mt = decoder.array_mt,
        map_mt = decoder.map_mt,
        cfg = serializer.public_cfg(cfg, 'encode_error_as_ext'),
        new = new,
        object = new_object(cfg),
        object_from_raw = new_object_from_raw(cfg),
        is_object = is_object,
        encode = new_encode(cfg),
        decode = new_decode(cfg, 'msgpack.decode', true),
        decode_unchecked = new_decode(cfg, 'msgpack.decode', false),
        ibuf_decode = new_ibuf_decode(cfg),
        decode_array_header = new_header('msgpack.decode_array_header', decoder.array_header, 0xdc, 0xdd),
        decode_map_header = new_header('msgpack.decode_map_header', decoder.map_header, 0xde, 0xdf),
    }
end

function new()
    return module_of(serializer.options())
end

-- The options of this module also apply to tuples, requests, results and messages.
return module_of(own.OPTIONS)
