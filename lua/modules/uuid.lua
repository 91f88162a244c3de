-- require('uuid'): 128-bit identifiers as cdata of `struct tt_uuid`; MessagePack extension 2, 16 bytes big-endian.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local error, setmetatable, type = error, setmetatable, type
local format = string.format

local uuid_type = ffi.typeof('struct tt_uuid')
local byte_pointer, constant_pointer = ffi.typeof('uint8_t *'), ffi.typeof('const uint8_t *')
local SIZE, TEXT_SIZE, EXTENSION = 16, 36, 2
local IS_LITTLE = ffi.abi('le')

local function is_uuid(value)
    return type(value) == 'cdata' and ffi.istype(uuid_type, value)
end

-- Reverses the bytes of the three leading numbers, which are stored in the byte order of the machine or big-endian.
local function swapped(bytes)
    return bytes:sub(1, 4):reverse() .. bytes:sub(5, 6):reverse() .. bytes:sub(7, 8):reverse() .. bytes:sub(9)
end

local SWAP_OF_ORDER = {
    l = not IS_LITTLE, b = IS_LITTLE, h = false, n = IS_LITTLE, host = false, network = IS_LITTLE,
}

local function check_order(order)
    local swap = SWAP_OF_ORDER[order == nil and 'h' or order]
    if swap == nil then
        error('invalid byteorder, valid is l, b, h, n')
    end
    return swap
end

-- The place in memory of each byte of the big-endian form, both counted from 0.
local PLACES = ffi.new('const uint8_t[16]', IS_LITTLE and {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}
    or {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})

-- Makes a uuid from the 16 bytes at `p + pos`.
local function from_memory(p, pos)
    local uuid = ffi.new(uuid_type)
    local bytes = ffi.cast(byte_pointer, uuid)
    for i = 0, SIZE - 1 do
        bytes[PLACES[i]] = p[pos + i]
    end
    return uuid
end

local function from_big_endian(bytes)
    return from_memory(ffi.cast(constant_pointer, bytes), 0)
end

local function to_big_endian(uuid)
    local bytes = ffi.string(uuid, SIZE)
    return IS_LITTLE and swapped(bytes) or bytes
end

local function new()
    return from_big_endian(python.uuid_random())
end

local TEXT = '^(' .. ('%x'):rep(8) .. ')%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(' .. ('%x'):rep(12) .. ')$'

local function from_text(text)
    if #text ~= TEXT_SIZE then
        return nil
    end
    local a, b, c, d, e = text:match(TEXT)
    -- Returns whether the variant is that of RFC 4122, or the uuid is nil.
    if a == nil or tonumber(d:sub(1, 1), 16) >= 12 then
        return nil
    end
    return from_big_endian((a .. b .. c .. d .. e):fromhex())
end

local function fromstr(text)
    if type(text) ~= 'string' then
        error('fromstr(str)')
    end
    return from_text(text)
end

local function frombin(bytes, order)
    if type(bytes) ~= 'string' or #bytes ~= SIZE then
        error('frombin(bin, [byteorder])')
    end
    local uuid = ffi.new(uuid_type)
    ffi.copy(uuid, check_order(order) and swapped(bytes) or bytes, SIZE)
    return uuid
end

local function to_text(uuid)
    return format('%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x', uuid.time_low, uuid.time_mid,
        uuid.time_hi_and_version, uuid.clock_seq_hi_and_reserved, uuid.clock_seq_low,
        uuid.node[0], uuid.node[1], uuid.node[2], uuid.node[3], uuid.node[4], uuid.node[5])
end

local function str(uuid)
    if not is_uuid(uuid) then
        return error('Usage: uuid:str()')
    end
    return to_text(uuid)
end

local function bin(uuid, order)
    if not is_uuid(uuid) then
        return error('Usage: uuid:bin([byteorder])')
    end
    local bytes = ffi.string(uuid, SIZE)
    return check_order(order) and swapped(bytes) or bytes
end

local NIL = ffi.new(uuid_type)

local function isnil(uuid)
    if not is_uuid(uuid) then
        return error('Usage: uuid:isnil()')
    end
    return ffi.string(uuid, SIZE) == ffi.string(NIL, SIZE)
end

-- Returns a uuid for a comparison; a text is converted to a uuid.
local function comparable(value)
    if is_uuid(value) then
        return to_big_endian(value)
    elseif type(value) == 'string' then
        local uuid = from_text(value)
        return uuid and to_big_endian(uuid)
    end
end

local function equal(left, right)
    local a, b = comparable(left), comparable(right)
    return a ~= nil and a == b
end

local function operands(left, right)
    local a, b = comparable(left), comparable(right)
    if a == nil or b == nil then
        error(('incorrect value to convert to uuid as %d argument'):format(a == nil and 1 or 2), 3)
    end
    return a, b
end

local methods = {str = str, bin = bin, isnil = isnil, __serialize = to_text}

ffi.metatype(uuid_type, {
    __index = methods,
    __tostring = to_text,
    __eq = equal,
    __lt = function(left, right)
        local a, b = operands(left, right)
        return a < b
    end,
    __le = function(left, right)
        local a, b = operands(left, right)
        return a <= b
    end,
})

-- The bytes before the body: the tag 0xd8 of an extension of 16 bytes, and the type 2.
local HEADER_SIZE = 2

msgpack.register(uuid_type, function(uuid, pos, buffer)
    local bytes = ffi.cast(constant_pointer, uuid)
    buffer[pos], buffer[pos + 1] = 0xd8, EXTENSION
    for i = 0, SIZE - 1 do
        buffer[pos + HEADER_SIZE + i] = bytes[PLACES[i]]
    end
    return pos + HEADER_SIZE + SIZE
end)
msgpack.register_extension(EXTENSION, function(p, pos, size)
    return size == SIZE and from_memory(p, pos)
end)

return setmetatable({
    NULL = NIL,
    new = new,
    fromstr = fromstr,
    frombin = frombin,
    bin = function(order)
        return bin(new(), order)
    end,
    str = function()
        return to_text(new())
    end,
    is_uuid = is_uuid,
}, {__call = new})
