-- Checks the arguments of the module `datetime`, with the error texts of Tarantool 2.11.
local python = require('internal.python')

local error, ipairs, modf, type = error, ipairs, math.modf, type
local format = string.format

local MIN_YEAR, MAX_YEAR = -5879610, 5879611
local MIN_OFFSET, MAX_OFFSET = -720, 840

local function expect(is_right, value, place, expected)
    if not is_right then
        error(format('%s: expected %s, but received %s', place, expected, type(value)), 2)
    end
end

local function expect_text(value, place)
    expect(type(value) == 'string', value, place, 'string')
end

-- Checks the range of a value. `level` counts from this function: 1 is its caller.
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

-- The name, the range, and a value that is allowed besides.
local DATE_FIELDS = {{'year', MIN_YEAR, MAX_YEAR}, {'month', 1, 12}, {'day', 1, 31, -1}}
local TIME_FIELDS = {{'hour', 0, 23}, {'min', 0, 59}, {'sec', 0, 60}}
local FRACTIONS = {{'usec', 1e6, 1e3}, {'msec', 1e3, 1e6}, {'nsec', 1e9, 1}}

-- Returns whether any of the fields is given. An error for a wrong one names the place of the caller's caller.
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

-- Returns the nanoseconds, given as nano-, micro- or milliseconds; nil if none is given.
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

-- Returns the offset and the number of a zone at a moment.
local function zone_at(name, epoch)
    expect_text(name, 'parse_tzname()')
    local offset, index = python.datetime_zone(name, epoch)
    if offset == nil then
        error(format("could not parse '%s'%s", name, index))
    end
    return offset, index
end

-- Returns the seconds and nanoseconds of a timestamp; `nsec` are nanoseconds that are given besides.
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

-- Returns the days from 1970-01-01 to a date. The day -1 is the last of its month.
local function day_of(year, month, day)
    if day < 0 then
        day = python.datetime_month_length(year, month)
    elseif day > 28 and day > python.datetime_month_length(year, month) then
        error(format('invalid number of days %d in month %d for %d', day, month, year), 4)
    end
    return python.datetime_day(year, month, day) or error(format('date %4d-%02d-%02d is invalid', year, month, day))
end

return {
    expect = expect, expect_text = expect_text, check_integer = check_integer, check_fields = check_fields,
    DATE_FIELDS = DATE_FIELDS, TIME_FIELDS = TIME_FIELDS, ONE_FRACTION = ONE_FRACTION,
    count_fractions = count_fractions, given_nanoseconds = given_nanoseconds, given_offset = given_offset,
    zone_at = zone_at, split_timestamp = split_timestamp, refuse_beside_timestamp = refuse_beside_timestamp,
    day_of = day_of, YEARS = MAX_YEAR - MIN_YEAR,
}
