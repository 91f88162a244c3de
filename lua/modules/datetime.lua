-- require('datetime'): points in time and intervals as cdata of `struct datetime` and `struct interval`; MessagePack
-- extensions 4 and 6. Calendar, texts, zones and sums are in Python (box/data/times); ranges are checked here.
local ffi = require('ffi')
local arguments = require('internal.datetime_arguments')
local intervals = require('internal.datetime_interval')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local values = require('internal.datetime_values')

local error, ipairs, rawset, select, setmetatable, type = error, ipairs, rawset, select, setmetatable, type
local floor, format = math.floor, string.format
local expect, expect_text = arguments.expect, arguments.expect_text
local check_fields, given_offset = arguments.check_fields, arguments.given_offset
local given_nanoseconds = arguments.given_nanoseconds
local DATE_FIELDS, TIME_FIELDS = arguments.DATE_FIELDS, arguments.TIME_FIELDS
local split_timestamp, zone_at, day_of = arguments.split_timestamp, arguments.zone_at, arguments.day_of
local refuse_beside_timestamp = arguments.refuse_beside_timestamp
local interval_from, interval_text, LIMITS = intervals.from, intervals.text, intervals.LIMITS
local is_datetime, is_interval = values.is_datetime, values.is_interval
local raw_datetime, raw_interval = values.raw_datetime, values.raw_interval
local datetime_of, interval_of, assign = values.datetime_of, values.interval_of, values.assign

local DAY = 86400
local MIN_TEXT, MAX_TEXT = '-5879610-06-22', '5879611-07-11'

-- ---- datetimes --------------------------------------------------------------------------------

local function raw_new(epoch, nsec, tzoffset, tzindex)
    local value = ffi.new(values.datetime_type)
    value.epoch, value.nsec, value.tzoffset, value.tzindex = epoch, nsec, tzoffset, tzindex
    return value
end

-- Returns a part, or its default if it is nil or box.NULL.
local function given(part, default)
    if part == nil then
        return default
    end
    return part
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
        midnight = day_of(given(source.year, 1970), given(source.month, 1), given(source.day, 1)) * DAY
    end
    if source.tz ~= nil then
        offset, index = zone_at(source.tz, midnight)
    end
    if has_time then
        seconds = given(source.hour, 0) * 3600 + given(source.min, 0) * 60 + given(source.sec, 0)
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
    -- As in Tarantool, the value is the local time from here on, even if a part is then refused.
    local now = local_seconds(value)
    value.epoch, value.tzoffset = now, 0
    if has_date then
        local year, month, day = python.datetime_date(floor(now / DAY))
        local midnight = day_of(given(source.year, year), given(source.month, month), given(source.day, day)) * DAY
        value.epoch = midnight + now % DAY
    end
    if source.tz ~= nil then
        offset, value.tzindex = zone_at(source.tz, value.epoch)
    end
    if has_time then
        local hour, minute, second = floor(now / 3600) % 24, floor(now / 60) % 60, now % 60
        value.epoch = value.epoch - value.epoch % DAY
            + given(source.hour, hour) * 3600 + given(source.min, minute) * 60 + given(source.sec, second)
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
        year = year, month = month, yday = yday, wday = wday, day = day, hour = hour, min = minute, sec = second,
        isdst = is_dst(value), nsec = value.nsec, tzoffset = value.tzoffset, tz = zone_name(value),
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
    for _, name in ipairs(intervals.COMPARED) do
        local difference = left[name] - right[name]
        if difference ~= 0 then
            return difference
        end
    end
    return 0
end

-- Makes __eq, __lt and __le; `is_one` recognises the values that can be compared.
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

-- ---- members of values ------------------------------------------------------------------------

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
local interval_methods = {totable = intervals.to_table, __serialize = interval_text}

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
ffi.metatype(values.datetime_type, {
    __tostring = to_text, __eq = equal, __lt = less, __le = less_or_equal, __add = add, __sub = subtract,
    __index = index_of(datetime_fields, datetime_methods),
})
equal, less, less_or_equal = comparisons('interval', is_interval, compare_intervals)
ffi.metatype(values.interval_type, {
    __tostring = interval_text, __eq = equal, __lt = less, __le = less_or_equal, __add = add, __sub = subtract,
    __index = index_of(interval_fields, interval_methods),
})

-- ---- the module -------------------------------------------------------------------------------

local interval = {new = intervals.new, is_interval = is_interval}

local module = {
    new = new, now = now, parse = parse, parse_date = parse_date, is_datetime = is_datetime,
    interval = setmetatable(interval, interval),
}

-- Reads the names of zones only when a program asks for them.
return setmetatable(module, {__index = function(self, key)
    if key == 'TZ' then
        local names = msgpack.decode(python.datetime_zones())
        setmetatable(names, nil)
        rawset(self, key, names)
        return names
    end
end})
