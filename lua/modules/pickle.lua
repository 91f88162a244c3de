-- require('pickle'): packs numbers and strings to bytes according to a format.
--     b 8 bits; s, i, l 16, 32, 64 bits little-endian; n, N, q 16, 32, 64 bits big-endian; f, d float and
--     double; a, A bytes. `pack` also accepts the letters in upper case.
local ffi = require('ffi')
local arguments = require('internal.arguments')

local error, pcall, select, type = error, pcall, select, type

-- Format -> {type, bits, whether it is big-endian}.
local KINDS = {
    b = {'uint8_t', 8}, s = {'uint16_t', 16}, i = {'uint32_t', 32}, l = {'uint64_t', 64},
    n = {'uint16_t', 16, true}, N = {'uint32_t', 32, true}, q = {'uint64_t', 64, true},
    f = {'float', 32}, d = {'double', 64},
}
local PACK_ALIASES = {B = 'b', S = 's', I = 'i', L = 'l', Q = 'q'}
for _, kind in pairs(KINDS) do
    kind.cell = ffi.new(kind[1] .. '[1]')
    kind.size = kind[2] / 8
    kind.is_big = kind[3]
    kind.is_float = kind[1] == 'float' or kind[1] == 'double'
end

local function check_text(value, position)
    if type(value) == 'number' then
        return tostring(value)
    elseif type(value) ~= 'string' then
        arguments.bad(position, 'string expected, got ' .. type(value), 3)
    end
    return value
end

local function store(cell, value)
    cell[0] = value
end

-- Raises an error for a value that MessagePack does not know: pack() reads all values as if for that.
local function check_kind(value)
    local kind = type(value)
    if kind == 'function' or kind == 'userdata' or kind == 'thread' then
        error(("unsupported Lua type '%s'"):format(kind), 3)
    end
end

-- Packs a number. Negative numbers are stored in two's complement; too large numbers lose their upper bits.
local function pack_number(kind, value)
    if kind.is_float then
        value = arguments.number(value) or 0
    end
    local ok = type(value) == 'number' or type(value) == 'cdata' and value ~= nil
    if ok and not kind.is_float and type(value) == 'number' then
        ok = value % 1 == 0    -- neither a fraction nor NaN or infinite
    end
    if ok and not kind.is_float then
        ok, value = pcall(ffi.cast, type(value) == 'number' and value < 0 and 'int64_t' or 'uint64_t', value)
    end
    if not ok or not pcall(store, kind.cell, value) then
        error(('pickle.pack: expected %d-bit %s'):format(kind[2], kind.is_float and 'float' or 'int'), 3)
    end
    local bytes = ffi.string(kind.cell, kind.size)
    return kind.is_big and bytes:reverse() or bytes
end

local function pack(format, ...)
    format = check_text(format, 1)
    local values, count, parts = {...}, select('#', ...), {}
    for i = 1, #format do
        local letter = format:sub(i, i)
        local kind = KINDS[PACK_ALIASES[letter] or letter]
        local is_text = letter == 'a' or letter == 'A'
        if i > count then
            error('pickle.pack: argument count does not match the format', 2)
        end
        check_kind(values[i])
        if is_text then
            parts[i] = check_text(values[i], i + 1)
        elseif kind == nil then
            error(("pickle.pack: unsupported pack format specifier '%s'"):format(letter), 2)
        else
            parts[i] = pack_number(kind, values[i])
        end
    end
    return table.concat(parts)
end

local function unpack_number(kind, bytes)
    if kind.is_big then
        bytes = bytes:reverse()
    end
    ffi.copy(kind.cell, bytes, kind.size)
    local value = kind.cell[0]
    if kind[2] == 64 and not kind.is_float and value < 100000000000000ULL then
        return tonumber(value)
    end
    return value
end

local function unpack_values(...)
    local format, bytes = ...
    format = check_text(format, 1)
    if select('#', ...) < 2 then
        arguments.bad(2, 'string expected, got no value', 2)
    end
    bytes = check_text(bytes, 2)
    local result, position = {}, 1
    for i = 1, #format do
        local letter = format:sub(i, i)
        local kind = KINDS[letter]
        if letter == 'a' or letter == 'A' then
            result[i], position = bytes:sub(position), #bytes + 1
        elseif kind == nil then
            error(("pickle.unpack: unsupported format specifier '%s'"):format(letter), 2)
        elseif position + kind.size - 1 > #bytes then
            error(("pickle.unpack('%s'): got %d bytes (expected: %d+)")
                :format(letter, #bytes, position + kind.size - 1), 2)
        else
            result[i] = unpack_number(kind, bytes:sub(position, position + kind.size - 1))
            position = position + kind.size
        end
    end
    if position <= #bytes then
        error(("pickle.unpack('%s'): too many bytes: unpacked %d, total %d")
            :format(format, position - 1, #bytes), 0)
    end
    return unpack(result, 1, #format)
end

return {pack = pack, unpack = unpack_values}
