"""The module `datetime` and its values in tuples, JSON, YAML and indexes, as in Tarantool 2.11."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from box import Datetime, Interval
from box.errors import BoxError

from .conftest import Lua

HEAD = "local d = require('datetime') local i, s = d.interval, tostring "


def test_datetimes_are_made_of_their_parts(lua: Lua) -> None:
    assert lua(
        HEAD
        + """return s(d.new()), s(d.new{year = 2024, month = 2, day = -1, hour = 23, min = 59, sec = 60, msec = 5}),
            s(d.new{timestamp = -1.5}), s(d.new{timestamp = 5, usec = 7, tzoffset = '+03:30'}),
            s(d.new{year = 2024, month = 7, tz = 'Europe/Berlin'}), d.is_datetime(d.now()), d.is_datetime(5),
            i.is_interval(i.new()), s(i.new{year = 1, day = -2, msec = 5}), d.TZ.MSK, d.TZ[238], d.TZ['W-SU']"""
    ) == [
        "1970-01-01T00:00:00Z", "2024-03-01T00:00:00.005Z", "1969-12-31T23:59:58.500Z",
        "1970-01-01T00:00:05.000007+0330", "2024-07-01T00:00:00 Europe/Berlin", True, False, True,
        "+1 years, -2 days, 5000000 nanoseconds", 238, "MSK", 947,
    ]  # fmt: skip


def test_datetimes_have_fields_and_methods(lua: Lua) -> None:
    assert lua(
        HEAD
        + """local x = d.parse('2024-02-29T15:04:05.123456789 Europe/Moscow')
        local t = x:totable()
        return x.year, x.month, x.day, x.yday, x.wday, x.hour, x.min, x.sec, x.usec, x.nsec, x.tz, x.isdst, x.tzoffset,
            x.epoch, x.timestamp == x.epoch + x.nsec / 1e9, x:format(), x:format('%d.%m'), t.year, t.hour, t.tz, t.wday,
            x.nothing"""
    ) == [
        2024, 2, 29, 60, 5, 15, 4, 5, 123456.789, 123456789, "Europe/Moscow", False, 180, 1709208245, True,
        "2024-02-29T15:04:05.123456789 Europe/Moscow", "29.02", 2024, 15, "Europe/Moscow", 5, None,
    ]  # fmt: skip


def test_datetimes_can_be_set(lua: Lua) -> None:
    assert lua(
        HEAD
        + """local x = d.new{year = 2024, month = 1, day = 31, tzoffset = 60}
        local a = s(x:set{hour = 5, nsec = 3})
        local b = s(x:set{tz = 'Europe/Berlin', month = 7})
        local c = s(x:set{timestamp = 1.5})
        local ok = pcall(x.set, x, {month = 2, day = 30})
        return a, b, c, ok, s(x)"""
    ) == [
        "2024-01-31T05:00:00.000000003+0100",
        "2024-07-31T05:00:00.000000003 Europe/Berlin",
        "1970-01-01T00:00:01.500 Europe/Berlin",
        False,
        "1970-01-01T00:00:01.500 Europe/Berlin",
    ]


def test_values_are_added_and_compared(lua: Lua) -> None:
    assert lua(
        HEAD
        + """local x, y = d.new{year = 2024, month = 1, day = 31}, d.new{year = 2024, month = 3}
        local z = d.new{year = 2024, month = 1, day = 31, hour = 3, tzoffset = 180}
        return s(x + {month = 1}), s(i.new{month = 1, adjust = 'excess'} + x), s(x - i.new{sec = 1}), s(y - x),
            s(i.new{day = 1} + {hour = 2}), s(i.new{day = 1} - i.new{hour = 2}), x == z, x < y, x <= z, y <= x, x == 5,
            x == nil, i.new{day = 1} == i.new{day = 1}, i.new{day = 1} < i.new{day = 2},
            s(x:add{day = 1}:sub{hour = 1})"""
    ) == [
        "2024-02-29T00:00:00Z", "2024-03-02T00:00:00Z", "2024-01-30T23:59:59Z", "+2 months, -30 days",
        "+1 days, 2 hours", "+1 days, -2 hours", True, True, True, False, False, False, True, True,
        "2024-01-31T23:00:00Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("d.new(5)", "datetime.new(): expected table, but received number"),
        ("d.new{year = '5'}", "numeric value expected, but received string"),
        ("d.new{year = 6e6}", "value 6000000 of year is out of allowed range [-5879610, 5879611]"),
        ("d.new{day = 0}", "value 0 of day is out of allowed range [-1, 1..31]"),
        ("d.new{month = 1.5}", "month: integer value expected, but received number"),
        ("d.new{day = 31, month = 2}", "invalid number of days 31 in month 2 for 1970"),
        ("d.new{year = -5879610, month = 1}", "date -5879610-01-01 is invalid"),
        ("d.new{usec = 1, nsec = 1}", "only one of nsec, usec or msecs may be defined simultaneously"),
        ("d.new{timestamp = 1, year = 1}", "timestamp is not allowed if year/month/day provided"),
        ("d.new{timestamp = 1, hour = 1}", "timestamp is not allowed if hour/min/sec provided"),
        ("d.new{timestamp = 1.5, nsec = 1}", "only integer values allowed in timestamp"),
        ("d.new{timestamp = '1'}", "bad timestamp ('number' expected, got 'string')"),
        ("d.new{tzoffset = 900}", "value 900 of tzoffset is out of allowed range [-720, 840]"),
        ("d.new{tzoffset = 'x'}", "invalid time-zone format x"),
        ("d.new{tzoffset = true}", "tzoffset: string or number expected, but received true"),
        ("d.new{tz = 'Mars'}", "could not parse 'Mars'"),
        ("d.new{tz = 'AMT'}", "could not parse 'AMT' - ambiguous timezone"),
        ("d.new{tz = 5}", "parse_tzname(): expected string, but received number"),
        ("d.parse('x')", "could not parse 'x'"),
        ("d.parse('x', {format = '%d'})", "could not parse 'x' using '%d' format"),
        ("d.parse('2024-01-01', {tz = 'MSK', tzoffset = 5})", "ambiguous timezone: both tzoffset and tz are specified"),
        ("d.parse(5)", "datetime.parse(): expected string, but received number"),
        ("d.parse_date('x')", "invalid date format x"),
        ("d.new():format(5)", "datetime.strftime(): expected string, but received number"),
        ("d.new():set(5)", "datetime.set(): expected table, but received number"),
        ("d.new():add(5)", "datetime.add: expected interval or table, but received number"),
        ("d.new() + 5", "operator +: expected interval or table, but received number"),
        ("d.new() + d.new()", "operator +: expected interval or table, but received cdata"),
        ("d.new() - 5", "operator -: expected datetime, interval or table, but received number"),
        ("5 - d.new()", "operator -: expected datetime or interval, but received number"),
        ("i.new() - d.new()", "datetime:operator -() - incompatible type of arguments"),
        ("d.new() < 5", "incompatible types for datetime comparison"),
        ("i.new() <= d.new()", "incompatible types for"),
        ("d.new() + {year = 6e6}", "addition makes date greater than maximum allowed 5879611-07-11"),
        ("d.new() - {year = 6e6}", "subtraction makes date less than minimum allowed -5879610-06-22"),
        ("i.new(5)", "interval.new(): expected table, but received number"),
        ("i.new{year = 12e6}", "value 12000000 of year is out of allowed range [-11759221, 11759221]"),
        ("i.new{day = 1.5}", "day: integer value expected, but received number"),
        ("i.new{nsec = 1, msec = 1}", "only one of nsec, usec or msecs may be defined simultaneously"),
        ("i.new{year = 11e6} + {year = 11e6}", "addition moves value 22000000 of year out of allowed range"),
    ],
)
def test_the_module_refuses(shared_lua: Lua, expression: str, message: str) -> None:
    with pytest.raises(BoxError) as caught:
        shared_lua(f"{HEAD} local value = {expression} return value")
    assert message in str(caught.value)


def test_values_travel(lua: Lua) -> None:
    values = [datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Moscow")), Datetime(2**40, 1), Interval(month=1, min=-70000)]
    found = lua(
        HEAD + "local a, b, c = ... return a, b, c, s(a), s(b), s(c), d.is_datetime(a), i.is_interval(c)", *values
    )
    assert found == [
        *values,
        "2024-07-01T00:00:00 Europe/Moscow",
        "36812-02-20T00:36:16.000000001Z",
        "+1 months, -70000 minutes",
        True,
        True,
    ]


def test_values_are_serialized_as_their_texts(lua: Lua) -> None:
    assert lua(
        HEAD
        + """local v = {d.new{year = 2024, nsec = 5}, i.new{day = 1}}
        local m = require('msgpack')
        local back = m.decode(m.encode(v))
        return require('json').encode(v), require('yaml').encode(v), back[1] == v[1], back[2] == v[2],
            (pcall(m.decode, '\\xd7\\x04\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f')), s(box.tuple.new(v)),
            s(box.tuple.new(v)[1])"""
    ) == [
        '["2024-01-01T00:00:00.000000005Z","+1 days"]',
        "---\n- 2024-01-01T00:00:00.000000005Z\n- +1 days\n...\n",
        True,
        True,
        False,
        "[null, null]",
        "2024-01-01T00:00:00.000000005Z",
    ]


def test_yaml_quotes_values_in_flow_style_and_folds_long_ones(lua: Lua) -> None:
    assert lua(
        HEAD
        + """local long = i.new{year = -22, month = -2, hour = 12, min = -79072645, sec = 5173001802, nsec = -131794541}
        local list = setmetatable({i.new{year = 1, month = 2}, d.new(), i.new{day = 1}}, {__serialize = 'seq'})
        return require('yaml').encode(list), require('yaml').encode({long})"""
    ) == [
        "--- ['+1 years, 2 months', '1970-01-01T00:00:00Z', +1 days]\n...\n",
        "---\n- -22 years, -2 months, 12 hours, -79072645 minutes, 5173001802 seconds, -131794541\n  "
        "nanoseconds\n...\n",
    ]


def test_datetimes_are_keys_and_intervals_are_not(lua: Lua) -> None:
    found = lua(
        HEAD
        + """local format = {{'at', 'datetime'}, {'for', 'interval', is_nullable = true}}
        local t = box.schema.space.create('t', {format = format})
        t:create_index('pk') t:create_index('h', {type = 'hash', parts = {'at'}})
        t:create_index('both', {parts = {{'at'}, {3, 'scalar', is_nullable = true}}})
        local x = d.new{year = 2024, tzoffset = 60}
        t:insert{x + {day = 1}, i.new{day = 1}, d.new()} t:insert{x} t:insert{d.new{timestamp = -5}}
        local order = {}
        for _, row in t:pairs({x}, 'GE') do table.insert(order, s(row[1])) end
        return order, t:get{d.new{year = 2023, month = 12, day = 31, hour = 23}} ~= nil, t.index.h:get{x} ~= nil,
            s(t:update(x, {{'=', 2, i.new{sec = 5}}})[2]), #t.index.both:select({x, box.NULL}),
            {pcall(t.update, t, x, {{'+', 1, i.new{sec = 5}}})}, {pcall(t.insert, t, {5})},
            {pcall(t.insert, t, {x, x})}, {pcall(t.create_index, t, 'i', {parts = {'for'}})},
            {pcall(t.get, t, {5})},
            {pcall(t.create_index, t, 'r', {type = 'rtree', parts = {'at'}, unique = false})}""",
        configure={},
    )
    texts = [str(part[1]) if isinstance(part, list) and part[0] is False else part for part in found]
    assert texts == [
        ["2024-01-01T00:00:00+0100", "2024-01-02T00:00:00+0100"], True, True, "+5 seconds", 1,
        "Argument type in operation '+' on field 1 does not match field type: expected a number",
        "Tuple field 1 (at) type does not match one required by operation: expected datetime, got unsigned",
        "Tuple field 2 (for) type does not match one required by operation: expected interval, got extension",
        "Can't create or modify index 'i' in space 't': field type 'interval' is not supported",
        "Supplied key type of part 0 does not match index part type: expected datetime",
        "Can't create or modify index 'r' in space 't': RTREE index field type must be ARRAY",
    ]  # fmt: skip


def test_the_present_is_that_of_the_machine(lua: Lua) -> None:
    found = lua(HEAD + "return d.now()")[0]
    assert abs((found - datetime.now(UTC)).total_seconds()) < 60
