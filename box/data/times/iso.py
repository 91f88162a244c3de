"""Reading points in time by ISO 8601 and RFC 3339, in the forms that Tarantool 2.11 accepts.

    date    2012-12-24  20121224      2012-359  2012359      2012-W52-1  2012W521      2012-Q4-85  2012Q485
    time    12  1230  123045  123045.123      12:30  12:30:45  12:30:45,123456789
    zone    Z  +3  +03  +0300  +03:00  GMT+3  UTC-03:00      MSK  Europe/Moscow

Years may have a sign and, where a dash, W or Q follows, 3 to 7 digits. What follows a zone that is an offset is not
read; a reader returns how many characters it has read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from box.data.times import calendar, zones
from box.data.times.points import Datetime


class UnknownZone(ValueError):
    """A text names a time zone that does not exist; with `is_ambiguous` the name belongs to several zones."""

    def __init__(self, is_ambiguous: bool = False) -> None:
        super().__init__("unknown time zone")
        self.is_ambiguous = is_ambiguous


_YEAR: Final = r"(?P<year>[0-9]{3,7})"
_DATES: Final = tuple(
    (re.compile(pattern + r"(?![0-9])"), make)
    for pattern, make in (
        (r"(?P<year>[0-9]{4})(?P<a>[0-9]{2})(?P<b>[0-9]{2})", calendar.day_of_date),
        (r"(?P<year>[0-9]{4})(?P<a>[0-9]{3})(?![0-9QW]*-|[0-9]*[QW])", calendar.day_of_year),
        (_YEAR + r"-(?P<a>[0-9]{2})-(?P<b>[0-9]{2})", calendar.day_of_date),
        (_YEAR + r"-(?P<a>[0-9]{3})", calendar.day_of_year),
        (_YEAR + r"W(?P<a>[0-9]{2})(?P<b>[0-9])", calendar.day_of_week),
        (_YEAR + r"-W(?P<a>[0-9]{2})-(?P<b>[0-9])", calendar.day_of_week),
        (_YEAR + r"Q(?P<a>[0-9])(?P<b>[0-9]{2})", calendar.day_of_quarter),
        (_YEAR + r"-Q(?P<a>[0-9])-(?P<b>[0-9]{2})", calendar.day_of_quarter),
    )
)
_FRACTION: Final = r"(?:[.,](?P<fraction>[0-9]+)|(?![.,]))"
_END: Final = r"(?![0-9])"
_EXTENDED_TIME: Final = re.compile(
    rf"(?P<hour>[0-9]{{2}}){_END}(?::(?P<min>[0-9]{{2}}){_END}(?::(?P<sec>[0-9]{{2}}){_END}{_FRACTION}|(?!:))|(?!:))"
)
_BASIC_TIME: Final = re.compile(
    rf"(?P<hour>[0-9]{{2}})(?:(?P<min>[0-9]{{2}})(?:(?P<sec>[0-9]{{2}}){_END}{_FRACTION})?)?{_END}"
)
_OFFSET: Final = re.compile(
    rf"(?P<sign>[+-])(?:(?P<hour4>[0-9]{{2}})(?P<min4>[0-9]{{2}}){_END}"
    rf"|(?P<hour>[0-9]{{1,2}}){_END}(?::(?P<min>[0-9]{{2}}){_END}|(?!:)))"
)
_ZULU: Final = re.compile(r"[zZ]|GMT|UTC")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z/_-]*")


class Clock(NamedTuple):
    """A time of the day: its seconds and nanoseconds."""

    seconds: int
    nsec: int


def read_date(text: str) -> tuple[int, int]:
    """Return the day number (see `calendar`) of the date at the beginning of a text, and the number of characters read.

    Raises:
        ValueError: the text does not begin with a date, or the date does not exist.
    """
    start = 1 if text.startswith("-") else 0
    for pattern, make in _DATES:
        found = pattern.match(text, start)
        if found is not None:
            numbers = [int(found[name]) for name in ("a", "b") if name in found.re.groupindex]
            year = int(found["year"])
            return make(-year if start else year, *numbers), found.end()
    raise ValueError("no date")


def read_time(text: str, start: int) -> tuple[Clock, int]:
    """Return the time of the day that a text has at `start`, and the position after it. Raises ValueError."""
    if text.startswith("T", start):
        start += 1
    pattern = _EXTENDED_TIME if text[start + 2 : start + 3] == ":" else _BASIC_TIME
    found = pattern.match(text, start)
    if found is None:
        raise ValueError("no time")
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "min", "sec"))
    nsec = int((found["fraction"] or "0")[:9].ljust(9, "0"))
    is_midnight = hour == 24 and not (minute or second or nsec)
    if not is_midnight and (hour > 23 or minute > 59 or second > 59):
        raise ValueError("no time")
    return Clock(hour * 3600 + minute * 60 + second, nsec), found.end()


def read_offset(text: str, start: int = 0) -> tuple[int, int] | None:
    """Return the offset in minutes that a text has at `start`, and the position after it; None if there is no
    offset.
    """
    zulu = _ZULU.match(text, start)
    if zulu is not None:
        has_offset = len(zulu[0]) == 3 and text[zulu.end() : zulu.end() + 1] in ("+", "-")
        return read_offset(text, zulu.end()) if has_offset else (0, zulu.end())
    found = _OFFSET.match(text, start)
    if found is None:
        return None
    hour, minute = int(found["hour4"] or found["hour"]), int(found["min4"] or found["min"] or 0)
    if hour > 23 or minute > 59:
        return None
    minutes = hour * 60 + minute
    return -minutes if found["sign"] == "-" else minutes, found.end()


def read_zone(text: str, start: int, base: int) -> tuple[int, int, int]:
    """Return the offset in minutes and the number of the zone that a text has at `start`, and the position after it.

    A zone name has to extend to the end of the text. `base` is the moment, in seconds, at which the zone's offset is
    looked up. Without a zone the returned position is `start`.

    Raises:
        UnknownZone: the name belongs to no zone, or to several.
    """
    name = _NAME.match(text, start)
    if name is not None:
        # As a C string, the text ends at its first zero byte.
        found = zones.zone_named(text[start:].split("\0", 1)[0])
        if found is None or found[1].is_ambiguous:
            raise UnknownZone(found is not None)
        spelling, zone = found
        if zone.offset is not None:
            return zone.offset, zone.index, name.end()
        # Names in the database are case-sensitive.
        offset = zones.offset_at(spelling, base) if text.startswith(spelling, start) else None
        if offset is not None:
            return zones.whole_minutes(offset[0]), zone.index, name.end()
    offset_only = read_offset(text, start)
    return (0, 0, start) if offset_only is None else (offset_only[0], 0, offset_only[1])


def read_datetime(text: str) -> tuple[Datetime, int]:
    """Return the point in time at the beginning of a text, and the number of characters read.

    Raises:
        UnknownZone: the zone's name belongs to no zone, or to several.
        ValueError: the text does not begin with a point in time.
    """
    day, end = read_date(text)
    clock = Clock(0, 0)
    offset = index = 0
    if end < len(text):
        if text[end] not in "Tt ":
            raise ValueError("no time")
        end += 1
    if end < len(text):
        clock, end = read_time(text, end)
        if text.startswith(" ", end):
            end += 1
        offset, index, end = read_zone(text, end, day * 86_400 + clock.seconds)
    return Datetime.unchecked(day * 86_400 + clock.seconds - offset * 60, clock.nsec, offset, index), end
