-- Completes calls into Python: waits if needed, raises the error, decodes the result.
--
-- A bound function returns bytes, nil, true or a number >= 0 as its result; false and the bytes of an error; or a
-- negative number, which is a token to wait for.

local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')
local errors = require('internal.error')
local msgpack = require('internal.msgpack')
local tuple_new = require('internal.tuple').new
local wait = require('internal.wait')

-- Descriptions by Python become plain tables, so that a console shows them in block style.
local PLAIN = {}
for name, value in pairs(msgpack.DEFAULTS) do
    PLAIN[name] = value
end
PLAIN.decode_save_metatables = false

local function decode_at(packed)
    return decoder.get(PLAIN, ffi.cast(decoder.byte_pointer, packed), 0)
end

local function decode(packed)
    return (decode_at(packed))
end

-- `decode_at(bytes)` also returns the place after the first value. `error(bytes)` decodes an error from Python.
local M = {encode = msgpack.encode, decode = decode, decode_at = decode_at, error = errors.decode}

-- Returns the MessagePack value that the call has returned, decoded.
function M.value(result, problem)
    result = wait(result, problem)
    if result ~= nil then
        return decode(result)
    end
end

-- Returns the result unchanged.
M.plain = wait

-- Raises the error of the call, or returns nothing.
function M.nothing(result, problem)
    wait(result, problem)
end

-- Returns the result of the call as a tuple with the given format, or nothing.
function M.tuple(format, result, problem)
    result = wait(result, problem)
    if result ~= nil then
        return tuple_new(result, format)
    end
end

return M
