-- require('msgpackffi'): the encoder of `msgpack` under the names of Tarantool's FFI module.
local ffi = require('ffi')
local encoder = require('internal.msgpack_encode')
local decoder = require('internal.msgpack_decode')
local msgpack = require('msgpack')

-- Registers a handler for cdata of `ctype`. It returns a plain value, which is encoded instead.
local function on_encode(ctype, handler)
    encoder.converters[tonumber(ffi.typeof(ctype))] = handler
end

-- Raises an error for a value that cannot be a key of a read.
local function refuse(value)
    error("can not encode Lua type: '" .. type(value) .. "'")
end

return {
    refuse = refuse,
    NULL = encoder.NULL,
    array_mt = decoder.array_mt,
    map_mt = decoder.map_mt,
    encode = msgpack.encode,
    decode = msgpack.decode_unchecked,
    decode_unchecked = msgpack.decode_unchecked,
    on_encode = on_encode,
}
