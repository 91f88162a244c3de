-- Ends of calls into Python: wait where the call must wait, raise its error, turn its bytes into values.
--
-- A bound function returns bytes, nil, true or a number >= 0 as its result, false and the bytes of an
-- error, or a negative number: the token of something to wait for.

local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')
local errors = require('internal.error')
local msgpack = require('internal.msgpack')
local tuple_new = require('internal.tuple').new
local wait = require('internal.wait')

-- What Python describes becomes plain tables: a console shows them in block style.
local PLAIN = {}
for name, value in pairs(msgpack.DEFAULTS) do
    PLAIN[name] = value
end
PLAIN.decode_save_metatables = false

local function decode(packed)
    return (decoder.get(PLAIN, ffi.cast(decoder.byte_pointer, packed), 0))
end

-- `error(bytes)` is the error object of what Python sent.
local M = {encode = msgpack.encode, decode = decode, error = errors.decode}

-- The MessagePack value that the call returned.
function M.value(result, problem)
    result = wait(result, problem)
    if result ~= nil then
        return decode(result)
    end
end

-- The plain result.
M.plain = wait

-- Raises or returns nothing.
function M.nothing(result, problem)
    wait(result, problem)
end

-- The result as a tuple with a format, or nothing.
function M.tuple(format, result, problem)
    result = wait(result, problem)
    if result ~= nil then
        return tuple_new(result, format)
    end
end

return M
