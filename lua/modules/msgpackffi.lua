-- require('msgpackffi'): the encoder of `msgpack` under the names of Tarantool's FFI module.
local ffi = require('ffi')
local encoder = require('internal.msgpack_encode')
local decoder = require('internal.msgpack_decode')
local internal = require('internal.msgpack')
local msgpack = require('msgpack')

-- Registers a handler for cdata of `ctype`. It returns a plain value, which is encoded instead.
local function on_encode(ctype, handler)
    if type(ctype) ~= 'cdata' or type(handler) ~= 'function' then
        error("Usage: on_encode(ffi.typeof('mytype'), function(buf, obj)")
    end
    encoder.converters[tonumber(ffi.typeof(ctype))] = handler
end

-- Raises an error that names this file, as Tarantool's do.
local function fail(text)
    error(text)
end

-- The options of the encoder for what Tarantool encodes by this module: keys of reads, and operations of tuple:update.
local OPTIONS = setmetatable({fail = fail}, {__index = internal.OPTIONS})

local function encode(value)
    return encoder.encode(OPTIONS, value)
end

local USAGE = 'msgpackffi.decode_unchecked(str, offset) -> res, new_offset | ' ..
    'msgpackffi.decode_unchecked([const] char *buf) -> res, new_buf'

local function decode_unchecked(data, offset)
    if type(data) == 'string' then
        offset = offset == nil and 1 or tonumber(ffi.cast('ptrdiff_t', offset))
        if offset < 1 or offset > #data then
            fail(('offset = %d is out of bounds [1..%d]'):format(offset, #data))
        end
        return msgpack.decode_unchecked(data, offset)
    elseif not ffi.istype('char *', data) then
        fail(USAGE)
    end
    return msgpack.decode_unchecked(data)
end

return {
    OPTIONS = OPTIONS,
    NULL = encoder.NULL,
    array_mt = decoder.array_mt,
    map_mt = decoder.map_mt,
    encode = encode,
    decode = decode_unchecked,
    decode_unchecked = decode_unchecked,
    on_encode = on_encode,
}
