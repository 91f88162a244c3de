-- require('msgpackffi'): the same encoder under the names of Tarantool's FFI module.
local ffi = require('ffi')
local encoder = require('internal.msgpack_encode')
local decoder = require('internal.msgpack_decode')
local msgpack = require('msgpack')

-- A handler for cdata of `ctype`: it returns a plain value that is encoded in its place.
local function on_encode(ctype, handler)
    encoder.converters[tonumber(ffi.typeof(ctype))] = handler
end

-- What keys of reads must not be.
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
