-- The cdata of the module `datetime`, `struct datetime` and `struct interval`, and their MessagePack extensions.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local error, tonumber, type = error, tonumber, type

ffi.cdef([[
    struct datetime {
        double epoch;
        int32_t nsec;
        int16_t tzoffset;
        int16_t tzindex;
    };
    struct interval {
        double sec;
        double min;
        double hour;
        double day;
        int32_t week;
        int32_t month;
        int32_t year;
        int32_t nsec;
        int adjust;
    };
]])

local datetime_type, interval_type = ffi.typeof('struct datetime'), ffi.typeof('struct interval')
local DATETIME_SIZE, INTERVAL_SIZE = ffi.sizeof(datetime_type), ffi.sizeof(interval_type)
local DATETIME_EXTENSION, INTERVAL_EXTENSION = 4, 6

local function is_datetime(value)
    return type(value) == 'cdata' and ffi.istype(datetime_type, value)
end

local function is_interval(value)
    return type(value) == 'cdata' and ffi.istype(interval_type, value)
end

local function raw_datetime(value)
    return ffi.string(value, DATETIME_SIZE)
end

local function raw_interval(value)
    return ffi.string(value, INTERVAL_SIZE)
end

local function assign(value, raw)
    ffi.copy(value, raw, #raw)
    return value
end

local function datetime_of(raw)
    return assign(ffi.new(datetime_type), raw)
end

local function interval_of(raw)
    return assign(ffi.new(interval_type), raw)
end

-- ---- MessagePack ------------------------------------------------------------------------------
--
--     +------+---------+----------------+- - - - - - - - - - - - - - - - -+
--     | 0xd7 | type: 4 | seconds, int64 | nsec i32, tzoffset i16, zone i16 |   0xd8 if the second half is there
--     +------+---------+----------------+- - - - - - - - - - - - - - - - -+
--
-- Numbers are little-endian. The second half is omitted if it is zero.

local HALF = 8
local seconds_cell = ffi.new('union { int64_t whole; uint8_t bytes[8]; }')
local byte_pointer = ffi.typeof('const uint8_t *')

msgpack.register(datetime_type, function(value, pos, buffer)
    local is_long = value.nsec ~= 0 or value.tzoffset ~= 0 or value.tzindex ~= 0
    buffer[pos], buffer[pos + 1] = is_long and 0xd8 or 0xd7, DATETIME_EXTENSION
    pos = pos + 2
    seconds_cell.whole = value.epoch
    for i = 0, HALF - 1 do
        buffer[pos + i] = seconds_cell.bytes[i]
    end
    pos = pos + HALF
    if is_long then
        local bytes = ffi.cast(byte_pointer, value)
        for i = 0, HALF - 1 do
            buffer[pos + i] = bytes[HALF + i]
        end
        pos = pos + HALF
    end
    return pos
end)

msgpack.register_extension(DATETIME_EXTENSION, function(p, pos, size)
    if not python.datetime_check(ffi.string(p + pos, size)) then
        return nil
    end
    local value = ffi.new(datetime_type)
    for i = 0, HALF - 1 do
        seconds_cell.bytes[i] = p[pos + i]
    end
    value.epoch = tonumber(seconds_cell.whole)
    if size > HALF then
        ffi.copy(ffi.cast('uint8_t *', value) + HALF, p + pos + HALF, HALF)
    end
    return value
end)

msgpack.register(interval_type, function(value, pos)
    local bytes = python.interval_pack(raw_interval(value))
    return msgpack.put_bytes(bytes, #bytes, pos)
end)

msgpack.register_extension(INTERVAL_EXTENSION, function(p, pos, size)
    local raw = python.interval_unpack(ffi.string(p + pos, size))
    return raw and interval_of(raw)
end)

return {
    datetime_type = datetime_type, interval_type = interval_type, is_datetime = is_datetime, is_interval = is_interval,
    raw_datetime = raw_datetime, raw_interval = raw_interval, assign = assign, datetime_of = datetime_of,
    interval_of = interval_of,
}
