-- require('datetime'): points in time and intervals as cdata of `struct datetime` and `struct interval`; MessagePack
-- extensions 4 and 6. Calendar, texts, zones and sums are in Python (box/data/times); ranges are checked here.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local error, type, setmetatable, tonumber, ipairs = error, type, setmetatable, tonumber, ipairs
local floor, modf = math.floor, math.modf
local format = string.format

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
local DAY = 86400
local MIN_YEAR, MAX_YEAR = -5879610, 5879611
local MIN_OFFSET, MAX_OFFSET = -720, 840
local MIN_TEXT, MAX_TEXT = '-5879610-06-22', '5879611-07-11'

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

-- ---- arguments --------------------------------------------------------------------------------

local function expect(is_right, value, place, expected)
    if not is_right then
        error(format('%s: expected %s, but received %s', place, expected, type(value)), 2)
    end
end

local function expect_text(value, place)
    expect(type(value) == 'string', value, place, 'string')
end

-- `level` is that of the function which checks: 1 is its caller.
local function check_range(value, least, greatest, name, special, level)
    if type(value) ~= 'number' then
        error(format('numeric value expected, but received %s', type(value)), level + 1)
    elseif value == special or value >= least and value <= greatest then
        return
    elseif special == nil then
        error(format('value %d of %s is out of allowed range [%d, %d]', value, name, least, greatest), level + 1)
    end
    error(format('value %d of %s is out of allowed range [%d, %d..%d]', value, name, special, least, greatest), level + 1)
end

local function check_integer(value, name, level)
    if type(value) ~= 'number' or value % 1 ~= 0 then
        error(format('%s: integer value expected, but received %s', name, type(value)), level + 1)
    end
end

-- Name, range, and what is allowed besides.
local DATE_FIELDS = {{'year', MIN_YEAR, MAX_YEAR}, {'month', 1, 12}, {'day', 1, 31, -1}}
local TIME_FIELDS = {{'hour', 0, 23}, {'min', 0, 59}, {'sec', 0, 60}}
local FRACTIONS = {{'usec', 1e6, 1e3}, {'msec', 1e3, 1e6}, {'nsec', 1e9, 1}}

-- Whether any of the fields is given; a wrong one is an error of the caller's caller.
local function check_fields(source, fields)
    local is_given = false
    for _, field in ipairs(fields) do
        local value = source[field[1]]
        if value ~= nil then
            check_range(value, field[2], field[3], field[1], field[4], 3)
            check_integer(value, field[1], 4)
            is_given = true
        end
    end
    return is_given
end

local ONE_FRACTION = 'only one of nsec, usec or msecs may be defined simultaneously'

local function count_fractions(source)
    return (source.nsec ~= nil and 1 or 0) + (source.usec ~= nil and 1 or 0) + (source.msec ~= nil and 1 or 0)
end

-- The nanoseconds that are given as such, as micro- or as milliseconds, or nil.
local function given_nanoseconds(source)
    if count_fractions(source) > 1 then
        error(ONE_FRACTION, 3)
    end
    for _, fraction in ipairs(FRACTIONS) do
        local name, greatest, factor = fraction[1], fraction[2], fraction[3]
        local value = source[name]
        if value ~= nil then
            check_range(value, 0, greatest, name, nil, 3)
            check_integer(value, name, 4)
            return value * factor
        end
    end
end

local function offset_of(value, place, level)
    if type(value) == 'number' then
        check_integer(value, 'tzoffset', level + 2)
        return value
    elseif type(value) ~= 'string' then
        error(format('%s: string or number expected, but received %s', place, value), level + 1)
    end
    return python.datetime_offset(value) or error(format('invalid time-zone format %s', value), level + 1)
end

local function given_offset(value)
    if value ~= nil then
        local offset = offset_of(value, 'tzoffset', 3)
        check_range(offset, MIN_OFFSET, MAX_OFFSET, 'tzoffset', nil, 3)
        return offset
    end
end

-- Offset and number of a zone at a moment.
local function zone_at(name, epoch)
    expect_text(name, 'parse_tzname()')
    local offset, index = python.datetime_zone(name, epoch)
    if offset == nil then
        error(format("could not parse '%s'%s", name, index))
    end
    return offset, index
end

-- Seconds and nanoseconds of a timestamp; `nsec` are those that are given besides.
local function split_timestamp(timestamp, nsec)
    local seconds, fraction = modf(timestamp)
    if fraction < 0 then
        seconds, fraction = seconds - 1, fraction + 1
    end
    if nsec == nil then
        return seconds, fraction * 1e9
    elseif fraction ~= 0 then
        error('only integer values allowed in timestamp if nsec, usec, or msecs provided', 3)
    end
    return seconds, nsec
end

local function refuse_beside_timestamp(has_date, has_time)
    if has_date then
        error('timestamp is not allowed if year/month/day provided', 3)
    elseif has_time then
        error('timestamp is not allowed if hour/min/sec provided', 3)
    end
end

-- The days from 1970-01-01 to a date; a day of -1 is the last of its month.
local function day_of(year, month, day)
    if day < 0 then
        day = python.datetime_month_length(year, month)
    elseif day > 28 and day > python.datetime_month_length(year, month) then
        error(format('invalid number of days %d in month %d for %d', day, month, year), 4)
    end
    return python.datetime_day(year, month, day) or error(format('date %4d-%02d-%02d is invalid', year, month, day))
end

-- ---- datetimes --------------------------------------------------------------------------------

local function raw_new(epoch, nsec, tzoffset, tzindex)
    local value = ffi.new(datetime_type)
    value.epoch, value.nsec, value.tzoffset, value.tzindex = epoch, nsec, tzoffset, tzindex
    return value
end

local function new(source)
    if source == nil then
        return raw_new(0, 0, 0, 0)
    end
    expect(type(source) == 'table', source, 'datetime.new()', 'table')
    local has_date, has_time = check_fields(source, DATE_FIELDS), check_fields(source, TIME_FIELDS)
    local nsec = given_nanoseconds(source)
    local timestamp = source.timestamp
    local seconds = 0
    if timestamp ~= nil then
        refuse_beside_timestamp(has_date, has_time)
        if type(timestamp) ~= 'number' then
            error(format("bad timestamp ('number' expected, got '%s')", type(timestamp)))
        end
        seconds, nsec = split_timestamp(timestamp, nsec)
    end
    local offset, index = given_offset(source.tzoffset), 0
    local midnight = 0
    if has_date then
        midnight = day_of(source.year or 1970, source.month or 1, source.day or 1) * DAY
    end
    if source.tz ~= nil then
        offset, index = zone_at(source.tz, midnight)
    end
    if has_time then
        seconds = (source.hour or 0) * 3600 + (source.min or 0) * 60 + (source.sec or 0)
    end
    offset = offset or 0
    return raw_new(midnight + seconds - offset * 60, nsec or 0, offset, index)
end

local function local_seconds(value)
    return value.epoch + value.tzoffset * 60
end

local function set_timestamp(value, source, nsec, offset)
    local seconds
    seconds, nsec = split_timestamp(source.timestamp, nsec)
    if source.tz ~= nil then
        offset, value.tzindex = zone_at(source.tz, seconds)
    end
    value.epoch, value.nsec, value.tzoffset = seconds - offset * 60, nsec, offset
    return value
end

local function set(value, source)
    expect(is_datetime(value), value, 'datetime.set()', 'datetime')
    expect(type(source) == 'table', source, 'datetime.set()', 'table')
    local has_date, has_time = check_fields(source, DATE_FIELDS), check_fields(source, TIME_FIELDS)
    local nsec = given_nanoseconds(source)
    value.nsec = nsec or value.nsec
    local offset = given_offset(source.tzoffset) or value.tzoffset
    if source.timestamp ~= nil then
        refuse_beside_timestamp(has_date, has_time)
        return set_timestamp(value, source, nsec, offset)
    end
    -- From here on the value is the local time, also when a part of it is refused.
    local now = local_seconds(value)
    value.epoch, value.tzoffset = now, 0
    if has_date then
        local year, month, day = python.datetime_date(floor(now / DAY))
        local midnight = day_of(source.year or year, source.month or month, source.day or day) * DAY
        value.epoch = midnight + now % DAY
    end
    if source.tz ~= nil then
        offset, value.tzindex = zone_at(source.tz, value.epoch)
    end
    if has_time then
        local hour, minute, second = floor(now / 3600) % 24, floor(now / 60) % 60, now % 60
        value.epoch = value.epoch - value.epoch % DAY
            + (source.hour or hour) * 3600 + (source.min or minute) * 60 + (source.sec or second)
    end
    value.epoch, value.tzoffset = value.epoch - offset * 60, offset
    return value
end

local function now()
    return datetime_of(python.datetime_now())
end

local function to_text(value)
    return python.datetime_text(raw_datetime(value))
end

local function format_datetime(value, template)
    expect(is_datetime(value), value, 'datetime.format()', 'datetime')
    if template == nil then
        return to_text(value)
    end
    expect_text(template, 'datetime.strftime()')
    return python.datetime_format(raw_datetime(value), template)
end

local function date_of(value)
    return python.datetime_date(floor(local_seconds(value) / DAY))
end

local function is_dst(value)
    return python.datetime_is_dst(raw_datetime(value))
end

local function zone_name(value)
    return value.tzindex ~= 0 and python.datetime_format(raw_datetime(value), '%Z') or ''
end

local function timestamp_of(value)
    return value.epoch + value.nsec / 1e9
end

local function to_table(value)
    expect(is_datetime(value), value, 'datetime.totable()', 'datetime')
    local year, month, day, yday, wday = date_of(value)
    local hour, minute, second = python.datetime_clock(raw_datetime(value))
    return {
        year = year, month = month, day = day, yday = yday, wday = wday, hour = hour, min = minute, sec = second,
        nsec = value.nsec, isdst = is_dst(value), tzoffset = value.tzoffset, tz = zone_name(value),
        timestamp = timestamp_of(value),
    }
end

-- ---- reading texts ----------------------------------------------------------------------------

local ISO_FORMATS = {['iso8601'] = true, ['rfc3339'] = true, [''] = true}

local function parse_iso(text)
    local raw, size = python.datetime_parse(text)
    if raw == nil then
        error(format("could not parse '%s'%s", text, size))
    end
    return datetime_of(raw), size
end

local function parse_after(text, template)
    local raw, size = python.datetime_scan(text, template)
    if raw == nil or size == 0 then
        error(format("could not parse '%s' using '%s' format", text, template))
    end
    return datetime_of(raw), size
end

local function parse(text, options)
    expect_text(text, 'datetime.parse()')
    local template, tzoffset, tz
    if options ~= nil then
        expect(type(options) == 'table', options, 'datetime.parse()', 'table')
        template, tzoffset, tz = options.format, options.tzoffset, options.tz
    end
    if template ~= nil then
        expect_text(template, 'datetime.parse()')
    end
    given_offset(tzoffset)
    if tz ~= nil then
        expect_text(tz, 'datetime.parse()')
    end
    if tzoffset and tz then
        error('ambiguous timezone: both tzoffset and tz are specified')
    end
    local value, size
    if not template or ISO_FORMATS[template] then
        value, size = parse_iso(text)
    else
        value, size = parse_after(text, template)
    end
    if value.tzindex == 0 and value.tzoffset == 0 then
        set(value, {tzoffset = tzoffset, tz = tz})
    end
    return value, size
end

local function parse_date(text)
    expect_text(text, 'datetime.parse_date()')
    local day, size = python.datetime_parse_date(text)
    if day == nil then
        error(format('invalid date format %s', text), 2)
    end
    return raw_new(day * DAY, 0, 0, 0), size
end

-- ---- intervals --------------------------------------------------------------------------------

local ADJUST = {excess = 0, none = 1, last = 2}
local ADJUST_NAMES = {[0] = 'excess', 'none', 'last'}
local INT32_MAX = 2147483647
local YEARS = MAX_YEAR - MIN_YEAR
local DAYS = YEARS * 365.25
local LIMITS = {
    year = YEARS, month = YEARS * 12, week = YEARS * (365.25 / 7), day = DAYS, hour = DAYS * 24,
    min = DAYS * 24 * 60, sec = DAYS * DAY, nsec = INT32_MAX, usec = floor(INT32_MAX / 1e3),
    msec = floor(INT32_MAX / 1e6),
}
-- In the order of checks; `week` may have a fraction, which is dropped.
local PARTS = {'year', 'month', 'week', 'day', 'hour', 'min', 'sec'}
local HAS_FRACTION = {week = true}
local COMPARED = {'year', 'month', 'week', 'day', 'hour', 'min', 'sec', 'nsec'}

-- A part that is given in its range, or nil.
local function part_of(source, name)
    local value = source[name]
    if value == nil then
        return nil
    elseif type(value) ~= 'number' then
        error(format('numeric value expected, but received %s', type(value)), 2)
    end
    local limit = LIMITS[name]
    if value >= -limit and value <= limit then
        return value
    end
    error(format('value %s of %s is out of allowed range [%s, %s]', value, name, -limit, limit), 4)
end

-- The interval of a table, or an interval itself.
local function interval_from(source)
    if is_interval(source) then
        return source
    end
    local value = ffi.new(interval_type)
    for _, name in ipairs(PARTS) do
        local part = part_of(source, name) or 0
        if not HAS_FRACTION[name] then
            check_integer(part, name, 3)
        end
        value[name] = part
    end
    local nsec, usec, msec = part_of(source, 'nsec'), part_of(source, 'usec'), part_of(source, 'msec')
    if count_fractions(source) > 1 then
        error(ONE_FRACTION, 3)
    end
    value.nsec = (msec or 0) * 1e6 + (usec or 0) * 1e3 + (nsec or 0)
    value.adjust = ADJUST[source.adjust] or ADJUST.none
    return value
end

local function new_interval(source)
    if source == nil then
        local value = ffi.new(interval_type)
        value.adjust = ADJUST.none
        return value
    end
    expect(type(source) == 'table', source, 'interval.new()', 'table')
    local value = interval_from(source)
    return value
end

local function interval_text(value)
    expect(is_interval(value), value, 'datetime.interval.tostring', 'interval')
    return python.interval_text(raw_interval(value))
end

local function interval_to_table(value)
    if not is_interval(value) then
        error('interval.totable(): expected interval, but received ' .. type(value), 2)
    end
    return {
        year = value.year, month = value.month, week = value.week, day = value.day, hour = value.hour, min = value.min,
        sec = value.sec, nsec = value.nsec, adjust = ADJUST_NAMES[value.adjust],
    }
end

-- ---- arithmetic -------------------------------------------------------------------------------

local function increase(value, interval, direction)
    local raw, is_late = python.datetime_add(raw_datetime(value), raw_interval(interval), direction)
    if raw then
        return assign(value, raw)
    end
    local operation = direction > 0 and 'addition' or 'subtraction'
    if is_late then
        error(format('%s makes date greater than maximum allowed %s', operation, MAX_TEXT), 3)
    end
    error(format('%s makes date less than minimum allowed %s', operation, MIN_TEXT), 3)
end

local function shift(direction, place)
    return function(value, change)
        expect(type(change) == 'table' or is_interval(change), change, place, 'interval or table')
        local interval = interval_from(change)
        local sum = increase(value, interval, direction)
        return sum
    end
end

local function copy(value)
    return datetime_of(raw_datetime(value))
end

local function interval_result(operation, raw, name, value)
    if raw then
        return interval_of(raw)
    end
    local limit = LIMITS[name]
    error(format('%s moves value %s of %s out of allowed range [%s, %s]', operation, value, name, -limit, limit), 3)
end

local function subtract(left, right)
    expect(is_datetime(left) or is_interval(left), left, 'operator -', 'datetime or interval')
    expect(type(right) == 'table' or is_datetime(right) or is_interval(right), right, 'operator -',
        'datetime, interval or table')
    if is_interval(left) then
        if is_datetime(right) then
            error('datetime:operator -() - incompatible type of arguments', 2)
        end
        local other = interval_from(right)
        local value = interval_result('subtraction',
            python.interval_combine(raw_interval(left), raw_interval(other), -1))
        return value
    elseif is_datetime(right) then
        local value = interval_result('subtraction',
            python.datetime_difference(raw_datetime(left), raw_datetime(right)))
        return value
    end
    local other = interval_from(right)
    local value = increase(copy(left), other, -1)
    return value
end

local function add(left, right)
    if is_datetime(right) then
        left, right = right, left
    end
    expect(is_datetime(left) or is_interval(left), left, 'operator +', 'datetime or interval')
    expect(type(right) == 'table' or is_interval(right), right, 'operator +', 'interval or table')
    local other = interval_from(right)
    if is_datetime(left) then
        local value = increase(copy(left), other, 1)
        return value
    end
    local value = interval_result('addition', python.interval_combine(raw_interval(left), raw_interval(other), 1))
    return value
end

-- ---- comparison -------------------------------------------------------------------------------

local function compare_datetimes(left, right)
    local difference = left.epoch - right.epoch
    return difference ~= 0 and difference or left.nsec - right.nsec
end

local function compare_intervals(left, right)
    for _, name in ipairs(COMPARED) do
        local difference = left[name] - right[name]
        if difference ~= 0 then
            return difference
        end
    end
    return 0
end

-- __eq, __lt and __le of values that `is_one` tells.
local function comparisons(name, is_one, compare)
    local function ordered(left, right)
        if not is_one(left) or not is_one(right) then
            error(format('incompatible types for %s comparison', name), 3)
        end
        return compare(left, right)
    end
    return function(left, right)
        return is_one(left) and is_one(right) and compare(left, right) == 0
    end, function(left, right)
        local difference = ordered(left, right)
        return difference < 0
    end, function(left, right)
        local difference = ordered(left, right)
        return difference <= 0
    end
end

-- ---- what values offer ------------------------------------------------------------------------

local function of_date(place)
    return function(value)
        return (select(place, date_of(value)))
    end
end

local datetime_fields = {
    timestamp = timestamp_of,
    year = of_date(1), month = of_date(2), day = of_date(3), yday = of_date(4), wday = of_date(5),
    hour = function(value) return floor(local_seconds(value) / 3600 % 24) end,
    min = function(value) return floor(local_seconds(value) / 60 % 60) end,
    sec = function(value) return value.epoch % 60 end,
    usec = function(value) return value.nsec / 1e3 end,
    msec = function(value) return value.nsec / 1e6 end,
    isdst = is_dst,
    tz = zone_name,
}
local datetime_methods = {
    format = format_datetime, totable = to_table, set = set,
    add = shift(1, 'datetime.add'), sub = shift(-1, 'datetime.sub'),
}
local interval_fields = {
    usec = function(value) return floor(value.nsec / 1e3) end,
    msec = function(value) return floor(value.nsec / 1e6) end,
}
local interval_methods = {totable = interval_to_table, __serialize = interval_text}

local function index_of(fields, methods)
    return function(value, key)
        local field = fields[key]
        if field then
            return field(value)
        end
        return methods[key]
    end
end

local equal, less, less_or_equal = comparisons('datetime', is_datetime, compare_datetimes)
ffi.metatype(datetime_type, {
    __tostring = to_text, __eq = equal, __lt = less, __le = less_or_equal, __add = add, __sub = subtract,
    __index = index_of(datetime_fields, datetime_methods),
})
equal, less, less_or_equal = comparisons('interval', is_interval, compare_intervals)
ffi.metatype(interval_type, {
    __tostring = interval_text, __eq = equal, __lt = less, __le = less_or_equal, __add = add, __sub = subtract,
    __index = index_of(interval_fields, interval_methods),
})

-- ---- MessagePack ------------------------------------------------------------------------------
--
--     +------+---------+----------------+- - - - - - - - - - - - - - - - -+
--     | 0xd7 | type: 4 | seconds, int64 | nsec i32, tzoffset i16, zone i16 |   0xd8 if the second half is there
--     +------+---------+----------------+- - - - - - - - - - - - - - - - -+
--
-- Numbers are little-endian. The second half is left out where it is zero.

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
        error('Invalid MsgPack - datetime', 0)
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
    return raw and interval_of(raw) or error('Invalid MsgPack - interval', 0)
end)

-- ---- the module -------------------------------------------------------------------------------

local interval = {new = new_interval, is_interval = is_interval}

local module = {
    new = new, now = now, parse = parse, parse_date = parse_date, is_datetime = is_datetime,
    interval = setmetatable(interval, interval),
}

-- The names of zones are read when a program asks for them.
return setmetatable(module, {__index = function(self, key)
    if key == 'TZ' then
        local names = msgpack.decode(python.datetime_zones())
        setmetatable(names, nil)
        rawset(self, key, names)
        return names
    end
end})
