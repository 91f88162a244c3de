-- Intervals of the module `datetime`: constructor, text, and parts.
local ffi = require('ffi')
local arguments = require('internal.datetime_arguments')
local python = require('internal.python')
local values = require('internal.datetime_values')

local error, ipairs, type = error, ipairs, type
local floor, format = math.floor, string.format
local expect, check_integer, count_fractions = arguments.expect, arguments.check_integer, arguments.count_fractions
local ONE_FRACTION, YEARS = arguments.ONE_FRACTION, arguments.YEARS
local interval_type, is_interval, raw_interval = values.interval_type, values.is_interval, values.raw_interval

local DAY = 86400
local ADJUST = {excess = 0, none = 1, last = 2}
local ADJUST_NAMES = {[0] = 'excess', 'none', 'last'}
local INT32_MAX = 2147483647
local DAYS = YEARS * 365.25
local LIMITS = {
    year = YEARS, month = YEARS * 12, week = YEARS * (365.25 / 7), day = DAYS, hour = DAYS * 24,
    min = DAYS * 24 * 60, sec = DAYS * DAY, nsec = INT32_MAX, usec = floor(INT32_MAX / 1e3),
    msec = floor(INT32_MAX / 1e6),
}
-- In the order of checks. `week` may have a fraction, which is cut off.
local PARTS = {'year', 'month', 'week', 'day', 'hour', 'min', 'sec'}
local HAS_FRACTION = {week = true}
-- In the order of comparisons.
local COMPARED = {'year', 'month', 'week', 'day', 'hour', 'min', 'sec', 'nsec'}

-- Returns a part, which must be in its range, or nil.
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

-- Returns the interval of a table; an interval is returned unchanged.
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

return {
    LIMITS = LIMITS, COMPARED = COMPARED, from = interval_from, new = new_interval, text = interval_text,
    to_table = interval_to_table,
}
