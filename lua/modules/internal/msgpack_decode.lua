-- Decodes MessagePack to Lua values. Positions count from the start of the memory that `p` (uint8_t *) points to.
--
-- nil becomes box.NULL. Integers of 10^14 and more in absolute value become 64-bit cdata, as in Tarantool. Tables
-- get the metatables that make them arrays and maps again when they are encoded.
--
-- Memory is read byte by byte: LuaJIT 2.1 (GC64, March 2026) compiles `cast('int32_t *', p + pos)[0]` to a load from
-- `pos` alone when `p` is a constant, and crashes.
local ffi = require('ffi')
local bit = require('bit')
local marks = require('internal.marks')
local new_table = require('table.new')

local band, bor, lshift = bit.band, bit.bor, bit.lshift
local error, setmetatable = error, setmetatable

-- Integers below this become Lua numbers.
local NUMBER_LIMIT = 1e14

local byte_pointer = ffi.typeof('const uint8_t *')
local number_cell = ffi.new('union { double d; float f; int64_t i; uint64_t u; int32_t half[2]; }')
local NULL = ffi.cast('void *', 0)

local array_mt, map_mt = marks.array_mt, marks.map_mt

-- The modules that register extensions. They load when the first value of theirs is read.
local EXTENSION_MODULES = {[1] = 'decimal', [2] = 'uuid', [4] = 'datetime', [6] = 'datetime'}

-- Extension type -> function(p, pos, size) -> value, which decodes the body of the extension; nil if it is malformed.
local extensions = setmetatable({}, {
    __index = function(decoders, kind)
        local name = EXTENSION_MODULES[kind]
        if name ~= nil then
            require(name)
            return rawget(decoders, kind)
        end
    end,
})

local function be16(p, pos)
    return bor(lshift(p[pos], 8), p[pos + 1])
end

local function signed32(p, pos)
    return bor(lshift(p[pos], 24), lshift(p[pos + 1], 16), lshift(p[pos + 2], 8), p[pos + 3])
end

local function be32(p, pos)
    return p[pos] * 0x1000000 + bor(lshift(p[pos + 1], 16), lshift(p[pos + 2], 8), p[pos + 3])
end

local function load_cell(p, pos)
    number_cell.half[1], number_cell.half[0] = signed32(p, pos), signed32(p, pos + 4)
end

local function unsigned64(p, pos)
    local number = be32(p, pos) * 0x100000000 + be32(p, pos + 4)
    if number < NUMBER_LIMIT then
        return number
    end
    load_cell(p, pos)
    return number_cell.u
end

local function signed64(p, pos)
    local number = signed32(p, pos) * 0x100000000 + be32(p, pos + 4)
    if number < NUMBER_LIMIT and number > -NUMBER_LIMIT then
        return number
    end
    load_cell(p, pos)
    return number_cell.i
end

local function get_string(p, pos, size)
    return ffi.string(p + pos, size), pos + size
end

local function get_extension(cfg, p, pos, size)
    local kind = p[pos]
    local decode = extensions[kind]
    if decode == nil then
        error('Unsupported MsgPack extension type: ' .. (kind < 0x80 and kind or kind - 0x100), 0)
    end
    local value = decode(p, pos + 1, size)
    if not value then
        if cfg.refuse_malformed then
            cfg.refuse_malformed(kind)
        end
        error('msgpack.decode: invalid MsgPack', 0)
    end
    return value, pos + 1 + size
end

local function finite(cfg, number)
    if number - number ~= 0 and not cfg.decode_invalid_numbers then
        error('number must not be NaN or Inf', 0)
    end
    return number
end

-- Tags 0xcc .. 0xd3: integers, whose bytes follow.
local function get_wide_number(p, pos, tag)
    if tag == 0xcc then
        return p[pos], pos + 1
    elseif tag == 0xcd then
        return be16(p, pos), pos + 2
    elseif tag == 0xce then
        return be32(p, pos), pos + 4
    elseif tag == 0xcf then
        return unsigned64(p, pos), pos + 8
    elseif tag == 0xd0 then
        return p[pos] - lshift(band(p[pos], 0x80), 1), pos + 1
    elseif tag == 0xd1 then
        local number = be16(p, pos)
        return number - lshift(band(number, 0x8000), 1), pos + 2
    elseif tag == 0xd2 then
        return signed32(p, pos), pos + 4
    end
    return signed64(p, pos), pos + 8
end

local function get_float(cfg, p, pos, tag)
    if tag == 0xcb then
        load_cell(p, pos)
        return finite(cfg, number_cell.d), pos + 8
    end
    number_cell.half[0] = signed32(p, pos)
    return finite(cfg, number_cell.f), pos + 4
end

-- Makes a decoder. `new_map(size)` makes its maps, because the initial size of a table decides the order of pairs().
local function new_decoder(new_map)
    local get

    local function get_array(cfg, p, pos, size)
        local result = {}
        for i = 1, size do
            result[i], pos = get(cfg, p, pos)
        end
        if cfg.decode_save_metatables then
            setmetatable(result, array_mt)
        end
        return result, pos
    end

    local function get_map(cfg, p, pos, size)
        local result = new_map(size)
        for _ = 1, size do
            local key
            key, pos = get(cfg, p, pos)
            result[key], pos = get(cfg, p, pos)
        end
        if cfg.decode_save_metatables then
            setmetatable(result, map_mt)
        end
        return result, pos
    end

    -- Reads strings, binaries, arrays and maps whose size follows the tag, and extensions.
    local function get_long(cfg, p, pos, tag)
        if tag == 0xd9 or tag == 0xc4 then
            return get_string(p, pos + 1, p[pos])
        elseif tag == 0xda or tag == 0xc5 then
            return get_string(p, pos + 2, be16(p, pos))
        elseif tag == 0xdb or tag == 0xc6 then
            return get_string(p, pos + 4, be32(p, pos))
        elseif tag == 0xdc then
            return get_array(cfg, p, pos + 2, be16(p, pos))
        elseif tag == 0xdd then
            return get_array(cfg, p, pos + 4, be32(p, pos))
        elseif tag == 0xde then
            return get_map(cfg, p, pos + 2, be16(p, pos))
        elseif tag == 0xdf then
            return get_map(cfg, p, pos + 4, be32(p, pos))
        elseif tag >= 0xd4 and tag <= 0xd8 then
            return get_extension(cfg, p, pos, lshift(1, tag - 0xd4))
        elseif tag == 0xc7 then
            return get_extension(cfg, p, pos + 1, p[pos])
        elseif tag == 0xc8 then
            return get_extension(cfg, p, pos + 2, be16(p, pos))
        elseif tag == 0xc9 then
            return get_extension(cfg, p, pos + 4, be32(p, pos))
        end
        error('Unsupported MsgPack extension type: 0', 0)
    end

    -- Returns the value at `pos` and the position after it. The memory must hold valid MessagePack: see `check`.
    function get(cfg, p, pos)
        local tag = p[pos]
        if tag < 0x80 then
            return tag, pos + 1
        elseif tag < 0x90 then
            return get_map(cfg, p, pos + 1, tag - 0x80)
        elseif tag < 0xa0 then
            return get_array(cfg, p, pos + 1, tag - 0x90)
        elseif tag < 0xc0 then
            return get_string(p, pos + 1, tag - 0xa0)
        elseif tag >= 0xe0 then
            return tag - 0x100, pos + 1
        elseif tag == 0xc0 then
            return NULL, pos + 1
        elseif tag == 0xc2 then
            return false, pos + 1
        elseif tag == 0xc3 then
            return true, pos + 1
        elseif tag >= 0xcc and tag <= 0xd3 then
            return get_wide_number(p, pos + 1, tag)
        elseif tag == 0xca or tag == 0xcb then
            return get_float(cfg, p, pos + 1, tag)
        end
        return get_long(cfg, p, pos + 1, tag)
    end

    return get
end

-- The maps of this decoder grow, as in Tarantool's decoder of fields of tuples.
local get = new_decoder(function() return {} end)

-- The maps of this decoder have room for all their keys at once, as in Tarantool's decoder of anything else.
local get_sized = new_decoder(function(size) return new_table(0, size) end)

-- How to skip a value by its tag: `fixed` bytes follow the tag. The first `width` of them are a size, which counts
-- bytes (`units` is 1: strings, extensions) or values (`values` is 1 for arrays, 2 for maps).
local fixed, width, values = ffi.new('uint8_t[256]'), ffi.new('uint8_t[256]'), ffi.new('uint8_t[256]')
do
    local sizes = {
        [0xca] = 4, [0xcb] = 8, [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8, [0xd0] = 1, [0xd1] = 2, [0xd2] = 4,
        [0xd3] = 8, [0xd4] = 2, [0xd5] = 3, [0xd6] = 5, [0xd7] = 9, [0xd8] = 17, [0xc7] = 1, [0xc8] = 1, [0xc9] = 1,
    }
    for tag, size in next, sizes do
        fixed[tag] = size
    end
    local widths = {
        [0xc4] = 1, [0xc5] = 2, [0xc6] = 4, [0xd9] = 1, [0xda] = 2, [0xdb] = 4, [0xc7] = 1, [0xc8] = 2, [0xc9] = 4,
        [0xdc] = 2, [0xdd] = 4, [0xde] = 2, [0xdf] = 4,
    }
    for tag, size in next, widths do
        width[tag] = size
    end
    for size = 0, 31 do
        fixed[0xa0 + size] = size
    end
    values[0xdc], values[0xdd], values[0xde], values[0xdf] = 1, 1, 2, 2
end

local function size_at(p, pos, bytes)
    if bytes == 1 then
        return p[pos]
    elseif bytes == 2 then
        return be16(p, pos)
    end
    return be32(p, pos)
end

-- Returns the position after the value at `pos`. The memory must hold valid MessagePack.
local function skip(p, pos)
    local left = 1
    while left > 0 do
        local tag = p[pos]
        local bytes = width[tag]
        pos = pos + 1
        if bytes > 0 then
            local size = size_at(p, pos, bytes)
            pos = pos + bytes
            if values[tag] > 0 then
                left = left + size * values[tag]
            else
                pos = pos + size + fixed[tag]
            end
        elseif tag >= 0x80 and tag < 0xa0 then
            left = left + (tag < 0x90 and (tag - 0x80) * 2 or tag - 0x90)
        else
            pos = pos + fixed[tag]
        end
        left = left - 1
    end
    return pos
end

-- Like `skip`, for memory of `limit` bytes that may hold anything. Returns nil if the value does not end in it, or has a
-- value with the tag `refused`.
local function check(p, pos, limit, refused)
    local left = 1
    while left > 0 do
        if pos >= limit then
            return nil
        end
        local tag = p[pos]
        if tag == refused then
            return nil
        end
        local bytes = width[tag]
        pos = pos + 1
        if bytes > 0 then
            if pos + bytes > limit then
                return nil
            end
            local size = size_at(p, pos, bytes)
            pos = pos + bytes
            if values[tag] > 0 then
                left = left + size * values[tag]
            else
                pos = pos + size + fixed[tag]
            end
        elseif tag >= 0x80 and tag < 0xa0 then
            left = left + (tag < 0x90 and (tag - 0x80) * 2 or tag - 0x90)
        else
            pos = pos + fixed[tag]
        end
        left = left - 1
    end
    return pos <= limit and pos or nil
end

-- Returns the number of elements of the array at `pos` and the position of the first; nil if it is not an array.
local function array_header(p, pos)
    local tag = p[pos]
    if tag >= 0x90 and tag < 0xa0 then
        return tag - 0x90, pos + 1
    elseif tag == 0xdc then
        return be16(p, pos + 1), pos + 3
    elseif tag == 0xdd then
        return be32(p, pos + 1), pos + 5
    end
end

local function map_header(p, pos)
    local tag = p[pos]
    if tag >= 0x80 and tag < 0x90 then
        return tag - 0x80, pos + 1
    elseif tag == 0xde then
        return be16(p, pos + 1), pos + 3
    elseif tag == 0xdf then
        return be32(p, pos + 1), pos + 5
    end
end

return {
    get = get, get_sized = get_sized, skip = skip, check = check, array_header = array_header, map_header = map_header,
    extensions = extensions, array_mt = array_mt, map_mt = map_mt, byte_pointer = byte_pointer,
}
