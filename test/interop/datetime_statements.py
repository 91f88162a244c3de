"""Generates statements of the Lua module `datetime` from a seed, for a Lua program that prints the result of each.

A statement is the body of a function. It has `d` (the module), `i` (`datetime.interval`), `try(f, ...)` and `space`,
which has a datetime as its key, then an interval, then anything.
"""

from __future__ import annotations

import random

DRIVER = r"""
local d = require('datetime')
local json, yaml, msgpack = require('json'), require('yaml'), require('msgpack')
local i = d.interval
box.cfg{log = 'datetime.log', wal_mode = 'none'}
local function without_place(text)
    return (tostring(text):gsub('^[^ :]+:%d+: ', ''))
end
local function show(v)
    if d.is_datetime(v) then
        return ('datetime(%s|%.17g|%d|%d|%d)'):format(v, v.epoch, v.nsec, v.tzoffset, v.tzindex)
    elseif type(v) == 'cdata' and pcall(function() return v:totable().adjust end) then
        local t = v:totable()
        return ('interval(%s|%.17g|%.17g|%.17g|%.17g|%s|%s|%s|%s|%s)'):format(v, t.sec, t.min, t.hour, t.day, t.week,
            t.month, t.year, t.nsec, tostring(t.adjust))
    elseif type(v) == 'table' then
        local parts = {}
        for key, value in pairs(v) do
            table.insert(parts, tostring(key) .. '=' .. show(value))
        end
        table.sort(parts)
        return '{' .. table.concat(parts, ',') .. '}'
    elseif type(v) == 'number' then
        return ('%.14g'):format(v)
    end
    return type(v) .. ':' .. (type(v) == 'cdata' and box.tuple.is(v) and show(v:totable()) or tostring(v))
end
function try(f, ...)
    local ok, result, more = pcall(f, ...)
    return ok and show(result) .. (more ~= nil and '/' .. show(more) or '') or 'error ' .. without_place(result)
end
local space = box.schema.space.create('moments')
space:format({{'at', 'datetime'}, {'for', 'interval', is_nullable = true}})
space:create_index('pk')
space:create_index('mixed', {parts = {{3, 'scalar', is_nullable = true}, {1, 'datetime'}}})
local environment = {d = d, i = i, space = space, show = show, json = json, yaml = yaml, msgpack = msgpack}
setmetatable(environment, {__index = _G})
local statements, results = io.open('statements.txt', 'rb'), io.open('results.txt', 'wb')
for line in statements:lines() do
    local statement, problem = loadstring(json.decode(line), '=s')
    local result = problem
    if statement then
        result = try(setfenv(statement, environment))
    end
    results:write(json.encode(result), '\n')
end
results:close()
os.exit(0)
"""

ZONES = (
    "Europe/Moscow", "Asia/Tokyo", "America/New_York", "Asia/Kolkata", "Africa/Accra", "W-SU", "Australia/Lord_Howe",
    "America/St_Johns", "America/Santiago", "Etc/GMT-3", "UTC", "GMT", "EST5EDT", "MSK", "Z", "CEST", "A", "AMT", "CDT",
    "europe/moscow", "msk", "XYZ", "Mars/Base", "", "+0300", "-03", "+3:30", "Pacific/Apia", "Zulu", "ChST", "PRC",
)  # fmt: skip
NEAR_ZONES = ("Europe/Berlin", "Europe/Dublin", "Europe/London", "Africa/Casablanca", "Asia/Tehran", *ZONES[:9])
"""Zones; in some of them Tarantool has no summer time after the year 2437."""
OFFSETS = (
    "0",
    "60",
    "-720",
    "840",
    "841",
    "-721",
    "'+03:00'",
    "'-0330'",
    "'Z'",
    "'GMT+3'",
    "'x'",
    "1.5",
    "true",
    "'+25'",
)
SPECIFIERS = "AaBbCcDdEeFfGgHhIjklMmnOpRrSsTtUuVvWwXxYyZz+%"
ODD = ("'5'", "true", "{}", "1.5", "-1", "0", "1e10", "0/0", "5LL")


class Statements:
    """Generates statements; equal seeds give equal ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def lines(self, count: int) -> list[str]:
        """Return statements that Lua can load."""
        makers = (
            self.construction, self.parsing, self.scanning, self.formatting, self.arithmetic, self.comparison,
            self.setting, self.intervals, self.fields, self.serialization, self.storage, self.zoned,
        )  # fmt: skip
        return [self.random.choice(makers)() for _ in range(count)]

    # --- values ---

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self, least: int, greatest: int) -> str:
        """Return an integer in a range, often one of its ends, as Lua text; sometimes something that is no number."""
        if self.chance(0.03):
            return self.random.choice(ODD)
        if self.chance(0.2):
            return str(self.random.choice((least, greatest, least - 1, greatest + 1)))
        return str(self.random.randint(least, greatest))

    def year(self) -> str:
        if self.chance(0.75):
            return str(self.random.randint(1900, 2100))
        return self.number(*self.random.choice(((-5879610, 5879611), (-400, 400), (9990, 10010), (5879611, 5879611))))

    def parts(self, *, is_free: bool = False) -> str:
        """Return a Lua table for `datetime.new`, nearly always a valid one."""
        found = []
        if self.chance(0.15):
            stamp = self.random.choice((self.random.uniform(-1e10, 1e10), self.random.randint(-(10**12), 10**12)))
            found.append(
                f"timestamp = {self.random.choice((repr(stamp), '0', '-0.5', '1e14')) if is_free else stamp!r}"
            )
        else:
            ranges = (("month", 1, 12), ("day", 1, 28), ("hour", 0, 23), ("min", 0, 59), ("sec", 0, 60))
            if self.chance(0.9):
                found.append(f"year = {self.year() if is_free else self.random.randint(-3000, 9000)}")
            for name, least, greatest in ranges:
                if self.chance(0.6):
                    if is_free and name == "day":
                        greatest = self.random.choice((28, 31))
                    value = self.number(least, greatest) if is_free else str(self.random.randint(least, greatest))
                    found.append(f"{name} = {value}")
            if self.chance(0.05):
                found.append("day = -1")
        if self.chance(0.4):
            name, limit = self.random.choice((("nsec", 10**9), ("usec", 10**6), ("msec", 1000)))
            found.append(f"{name} = {self.number(0, limit) if is_free else self.random.randrange(limit)}")
        if self.chance(0.3):
            found.append(f"tz = '{self.random.choice(ZONES if is_free else ZONES[:14])}'")
        elif self.chance(0.4):
            found.append(f"tzoffset = {self.random.choice(OFFSETS) if is_free else self.random.randint(-720, 840)}")
        if is_free:
            self.random.shuffle(found)
        return "{" + ", ".join(found) + "}"

    def moment(self) -> str:
        return f"d.new{self.parts()}"

    def interval_parts(self, *, is_free: bool = False) -> str:
        found = []
        scale = self.random.choice((1, 1, 1, 3, 1000)) if is_free else 1
        names = (("year", 100), ("month", 1200), ("week", 5000), ("day", 40000), ("hour", 10**6), ("min", 10**8))
        for name, limit in (*names, ("sec", 10**10)):
            if self.chance(0.35):
                size = self.random.choice((3, 30, limit)) * scale
                found.append(f"{name} = {self.number(-size, size) if is_free else self.random.randint(-size, size)}")
        if self.chance(0.3):
            name, limit = self.random.choice((("nsec", 2**31 - 1), ("usec", 2147483), ("msec", 2147)))
            found.append(f"{name} = {self.number(-limit, limit) if is_free else self.random.randint(-limit, limit)}")
        if self.chance(0.3):
            found.append(f"adjust = '{self.random.choice(('none', 'last', 'excess', *(('odd',) if is_free else ())))}'")
        return "{" + ", ".join(found) + "}"

    def interval(self) -> str:
        return f"i.new{self.interval_parts()}"

    # --- statements ---

    def construction(self) -> str:
        if self.chance(0.05):
            return f"return try(d.new, {self.random.choice((*ODD, 'nil', 'box.NULL'))})"
        return f"return try(d.new, {self.parts(is_free=True)})"

    def iso_text(self) -> str:
        year = self.random.choice((2012, 1969, 2024, 2000, 1, self.random.randint(0, 9999)))
        month, day = self.random.randint(1, 12), self.random.randint(1, 31)
        date = self.random.choice(
            (
                f"{year:04d}-{month:02d}-{day:02d}", f"{year:04d}{month:02d}{day:02d}",
                f"{year:04d}-{self.random.randint(1, 366):03d}", f"{year:04d}{self.random.randint(0, 366):03d}",
                f"{year:04d}-W{self.random.randint(1, 53):02d}-{self.random.randint(1, 7)}",
                f"{year:04d}W{self.random.randint(0, 53):02d}{self.random.randint(1, 8)}",
                f"{year:04d}-Q{self.random.randint(1, 5)}-{self.random.randint(1, 92):02d}",
                f"{year:04d}Q{self.random.randint(1, 4)}{self.random.randint(1, 92):02d}",
                f"{self.random.randint(-5879611, 5879612)}-{month:02d}-{day:02d}", f"-{year:04d}-{month:02d}-{day:02d}",
                f"{self.random.randint(100, 9999999)}W{self.random.randint(1, 53):02d}1",
                f"{self.random.randint(0, 10**8)}",
            )
        )  # fmt: skip
        hour, minute, second = self.random.randint(0, 24), self.random.randint(0, 60), self.random.randint(0, 60)
        fraction = "".join(self.random.choice("0123456789") for _ in range(self.random.choice((1, 3, 6, 9, 12))))
        clock = self.random.choice(
            (
                f"{hour:02d}", f"{hour:02d}{minute:02d}", f"{hour:02d}{minute:02d}{second:02d}",
                f"{hour:02d}:{minute:02d}",
                f"{hour:02d}:{minute:02d}:{second:02d}", f"{hour:02d}:{minute:02d}:{second:02d}.{fraction}",
                f"{hour:02d}{minute:02d}{second:02d},{fraction}", "24:00:00", "240000", f"{hour}:{minute}",
            )
        )  # fmt: skip
        zone = self.random.choice(
            (
                "",
                "",
                "Z",
                "z",
                "+03",
                "-0330",
                "+03:30",
                "+3",
                "-3:30",
                "+1439",
                "+2400",
                "GMT",
                "UTC+3",
                "+03 x",
                "x",
                *ZONES,
            )
        )
        separator = self.random.choice("TTTTt x")
        text = date + self.random.choice(("", separator + clock + self.random.choice(("", " ", "  ")) + zone))
        if self.chance(0.05):
            place = self.random.randrange(len(text) + 1)
            text = text[:place] + self.random.choice(("", " ", "-", "0", "W", ".", "é")) + text[place + 1 :]
        return text

    def parsing(self) -> str:
        if self.chance(0.2):
            return f"return try(d.parse_date, '{self.iso_text()}')"
        options = []
        if self.chance(0.1):
            options.append(
                self.random.choice(("format = 'iso8601'", "format = 'rfc3339'", "format = ''", "format = 5"))
            )
        if self.chance(0.15):
            options.append(f"tz = '{self.random.choice(ZONES)}'")
        if self.chance(0.15):
            options.append(f"tzoffset = {self.random.choice(OFFSETS)}")
        more = f", {{{', '.join(options)}}}" if options else ""
        return f"return try(d.parse, '{self.iso_text()}'{more})"

    def template(self) -> str:
        pieces = []
        for _ in range(self.random.randint(1, 5)):
            letter = self.random.choice(SPECIFIERS)
            if letter in "EO":
                letter += self.random.choice("CcHdYy")
            if letter == "f" and self.chance(0.5):
                letter = f"{self.random.choice((0, 1, 3, 6, 9, 12, 99999999999))}f"
            elif self.chance(0.02):
                letter = f"{self.random.randint(0, 20)}{letter}"
            elif self.chance(0.03):
                letter = self.random.choice(("q", "J", "i", "."))
            pieces.append("%" + letter + self.random.choice(("", " ", "-", "x", "/", " ")))
        return "".join(pieces)

    def formatting(self) -> str:
        return f"return try({self.moment()}.format, {self.moment()}, {self.template()!r})"

    def scanning(self) -> str:
        """Return a statement that parses a text by a format that can be read back; sometimes the text has an error."""
        template = self.template()
        moment, change = self.moment(), ""
        if "U" in template or "W" in template:
            # Tarantool has wrong days of the week in years before 0.
            moment = f"d.new{{year = {self.random.randint(1, 9000)}, day = -1, hour = 3, sec = 5}}"
        elif self.chance(0.3):
            place = self.random.randint(1, 12)
            with_what = self.random.choice(("", "9", " ", "-", "x", "00"))
            change = f" text = text:sub(1, {place - 1}) .. {with_what!r} .. text:sub({place + 1})"
        options = f"format = {template!r}"
        if self.chance(0.1):
            options += f", tz = '{self.random.choice(ZONES[:14])}'"
        return f"local text = {moment}:format({template!r}){change} return text .. try(d.parse, text, {{{options}}})"

    def arithmetic(self) -> str:
        a, b = self.moment(), self.moment()
        one, two = self.interval(), self.interval()
        expression = self.random.choice(
            (
                f"{a} + {one}", f"{one} + {a}", f"{a} - {one}", f"{a} + {self.interval_parts(is_free=True)}",
                f"{a} - {self.interval_parts(is_free=True)}", f"{a} - {b}", f"{one} + {two}", f"{one} - {two}",
                f"{one} + {self.interval_parts(is_free=True)}", f"{one} - {a}", f"{a} + {b}", f"{a} + 5", f"5 - {a}",
                f"{a}:add{self.interval_parts()}", f"{a}:sub{self.interval_parts()}", f"{a}:add({one})", f"{a}:sub(5)",
                f"{a} + {one} + {two} - {b}",
            )
        )  # fmt: skip
        return f"return try(function() return {expression} end)"

    def comparison(self) -> str:
        operator = self.random.choice(("==", "~=", "<", "<=", ">", ">="))
        a, b = self.moment(), self.moment()
        left, right = self.random.choice(
            (
                (a, b), (a, a), (a, f"{a}:set{{tzoffset = 60}}"), (a, "5"), (a, "nil"), (a, "box.NULL"),
                (a, self.interval()),
                (self.interval(), self.interval()), (self.interval(), "5"), ("'x'", a),
            )
        )  # fmt: skip
        return f"return try(function() return {left} {operator} {right} end)"

    def setting(self) -> str:
        """Return a statement that sets parts of a datetime and shows it, also after an error, when some may be set."""
        changes = " ".join(
            f"show(try(x.set, x, {self.parts(is_free=True)})) .." for _ in range(self.random.randint(1, 2))
        )
        return f"local x = {self.moment()} return {changes} show(x)"

    def intervals(self) -> str:
        if self.chance(0.05):
            return f"return try(i.new, {self.random.choice((*ODD, 'nil', 'box.NULL'))})"
        return f"return try(i.new, {self.interval_parts(is_free=True)})"

    def zoned(self) -> str:
        """Return a statement about a time near a change of a zone's offset."""
        year, month, day = self.random.randint(1880, 2420), self.random.randint(1, 12), self.random.randint(1, 28)
        zone, hour = self.random.choice(NEAR_ZONES), self.random.randint(0, 23)
        change = f"{{{self.random.choice(('day', 'month', 'hour', 'sec'))} = {self.random.randint(-90, 90)}}}"
        return (
            f"local x = d.new{{year = {year}, month = {month}, day = {day}, hour = {hour}, tz = '{zone}'}} "
            f"return show({{x, x.isdst, x + {change}, x:format('%c %Z %z'), d.parse(x:format())}})"
        )

    def fields(self) -> str:
        if self.chance(0.2):
            return f"local x = {self.interval()} return show({{x:totable(), x.usec, x.msec, x.year, x.nothing == nil}})"
        names = self.random.sample(
            "timestamp year month day yday wday hour min sec usec msec nsec isdst tz tzoffset tzindex epoch".split(), 5
        )
        shown = ", ".join(f"x.{name}" for name in names)
        return f"local x = {self.moment()} return show({{{shown}, x:totable()}})"

    def serialization(self) -> str:
        value = self.random.choice((self.moment(), self.interval(), f"{{{self.moment()}, {self.interval()}}}"))
        way = self.random.choice(
            (
                "json.encode(v)", "yaml.encode(v)", "msgpack.encode(v):hex()",
                "show(msgpack.decode(msgpack.encode(v)))",
                "tostring(box.tuple.new{v})", "show(box.tuple.new{v}[1])", "show(box.tuple.new{v}:totable())",
            )
        )  # fmt: skip
        return f"local v = {value} return {way}"

    def storage(self) -> str:
        key, value = self.moment(), self.random.choice((self.interval(), "nil"))
        mixed = self.random.choice((self.moment(), "5", "'text'", "nil", "true", self.interval()))
        iterator = self.random.choice(("EQ", "GE", "GT", "LE", "LT", "REQ"))
        return self.random.choice(
            (
                f"return try(space.replace, space, {{{key}, {value}, {mixed}}})",
                f"return try(space.get, space, {{{key}}})",
                f"return try(space.select, space, {{{key}}}, {{iterator = '{iterator}', limit = 3}})",
                f"local mixed = space.index.mixed "
                f"return try(mixed.select, mixed, {{{mixed}}}, {{iterator = '{iterator}', limit = 3}})",
                f"local x = {key} space:replace{{x}} return try(space.update, space, {{x}}, {{{{'=', 2, {value}}}}})",
                f"local x = {key} space:replace{{x, {self.interval()}}} return "
                f"try(space.update, space, {{x}}, {{{{'+', 2, {self.interval()}}}}})",
                f"return try(space.insert, space, {{{self.random.choice(('5', 'nil', self.interval()))}}})",
                f"return try(space.delete, space, {{{key}}})",
                "return show(space:count())",
            )
        )


__all__ = ["DRIVER", "Statements"]
