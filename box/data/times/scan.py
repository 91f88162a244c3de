"""Reading points in time after a format with specifiers as those of `strptime`.

Each specifier has a pattern and says which part of the result its text is; the rest of the module makes a date of what
was read. Facts of Tarantool 2.11: `%Y` takes a sign and up to 7 digits; `%f` up to 9 digits; `%s` is read and has no
effect; `%Z` takes capital letters and skips a name that it does not know; the day of the year, and the number of the
week, say what is not given of month and day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from box.data.times import zones
from box.data.times.calendar import day_of_date, day_parts, days_in_month, first_of_month
from box.data.times.points import Datetime
from box.data.times.shown import COMPOSED, MONTHS, WEEKDAYS

_SPACES: Final = " \t\n\v\f\r"
_NONE: Final = -1
"""Stands for a century, or a year of the century, that the text does not give. As in Tarantool, a year before 0 gives
this number, too.
"""


class Mismatch(ValueError):
    """The text does not follow the format."""


@dataclass
class Found:
    """The parts of a date and a time that were read. Parts that the text does not give are those of 1970-01-01."""

    year: int = 1970
    month: int = 1
    day: int = 1
    yday: int = 1
    wday: int = 4  # 1970-01-01 was a Thursday
    hour: int = 0
    min: int = 0
    sec: int = 0
    nsec: int = 0
    offset: int = 0
    tzindex: int = 0
    century: int = _NONE
    short_year: int = _NONE
    week: int = 0
    first_weekday: int | None = None
    """The first day of the week if the text gives a week number: 0 for Sunday, 1 for Monday."""
    given: set[str] = field(default_factory=set)


def _number(name: str, least: int, greatest: int) -> Callable[[Found, str], None]:
    def take(found: Found, text: str) -> None:
        number = int(text)
        if not least <= number <= greatest:
            raise Mismatch
        setattr(found, name, number)
        found.given.add(name)

    return take


def _name_of(name: str, texts: tuple[str, ...], first: int) -> Callable[[Found, str], None]:
    abbreviations = [text[:3].lower() for text in texts]

    def take(found: Found, text: str) -> None:
        setattr(found, name, abbreviations.index(text[:3].lower()) + first)
        found.given.add(name)

    return take


def _take_century(found: Found, text: str) -> None:
    found.century = int(text)
    found.given.add("year")


def _take_year(found: Found, text: str) -> None:
    if text.strip():
        digits = text.lstrip("-")
        year = int(digits or "0")
        sign = -1 if text.startswith("-") else 1
        found.century, found.short_year = sign * (year // 100), sign * (year % 100)
        found.given.add("year")


def _take_short_year(found: Found, text: str) -> None:
    if text.strip():
        digits = text.lstrip("-")
        found.short_year = (-1 if text.startswith("-") else 1) * int(digits or "0")
        found.given.add("year")


def _take_fraction(found: Found, text: str) -> None:
    found.nsec = int(text.ljust(9, "0"))


def _take_weekday(found: Found, text: str) -> None:
    found.wday = int(text) % 7
    found.given.add("wday")


def _take_half_day(found: Found, text: str) -> None:
    if found.hour > 12:
        raise Mismatch
    found.hour = found.hour % 12 + (12 if text.lower() == "pm" else 0)


def _week_from(weekday: int) -> Callable[[Found, str], None]:
    def take(found: Found, text: str) -> None:
        _number("week", 0, 53)(found, text)
        found.first_weekday = weekday

    return take


def _take_seconds(found: Found, text: str) -> None:
    if int(text) == 0:
        raise Mismatch


def _optional(take: Callable[[Found, str], None]) -> Callable[[Found, str], None]:
    def take_if_there(found: Found, text: str) -> None:
        if text:
            take(found, text)

    return take_if_there


def _take_offset(found: Found, text: str) -> None:
    if text != "Z":
        digits = text[1:].ljust(4, "0")
        hours, minutes = int(digits[:2]), int(digits[2:])
        is_west = text[0] == "-"
        # From -12:00 to +14:00, as hours and minutes in one number.
        if minutes > 59 or int(digits) > (1200 if is_west else 1400):
            raise Mismatch
        found.offset = (hours * 60 + minutes) * (-60 if is_west else 60)
    else:
        found.offset = 0


def _take_zone(found: Found, name: str) -> None:
    if not name:
        return
    named = zones.zone_named(name)
    if named is None or named[1].is_ambiguous:
        return
    spelling, zone = named
    if zone.offset is not None:
        found.offset, found.tzindex = zone.offset * 60, zone.index
        return
    moment = _moment(found)
    there = zones.offset_at(spelling, moment.epoch) if spelling == name else None
    if there is None:
        raise Mismatch
    # The time read so far is a local time at the offset read so far; it is shown in the new zone.
    local = moment.epoch + there[0]
    date = day_parts(local // 86_400)
    found.year, found.month, found.day, found.wday = date.year, date.month, date.day, date.wday
    found.hour, found.min, found.sec = local // 3600 % 24, local // 60 % 60, local % 60
    found.offset = there[0]


_TWO: Final = "[0-9]{1,2}"
_MAYBE_TWO: Final = rf"(?:{_TWO}|(?=[{_SPACES}]|\Z))"
_YEAR: Final = rf"(?:-?[0-9]{{0,7}}|(?=[{_SPACES}]|\Z))"
_MONTH_NAMES: Final = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
_DAY_NAMES: Final = "|".join(f"{name}|{name[:3]}" for name in WEEKDAYS)

_SPECIFIERS: Final[dict[str, tuple[re.Pattern[str], Callable[[Found, str], None]]]] = {
    letter: (re.compile(pattern, re.IGNORECASE | re.ASCII), take)
    for letters, pattern, take in (
        ("Aa", _DAY_NAMES, _name_of("wday", WEEKDAYS, 0)),
        ("Bbh", _MONTH_NAMES, _name_of("month", MONTHS, 1)),
        ("C", _TWO, _take_century),
        ("d", _TWO, _number("day", 1, 31)),
        ("e", f"[{_SPACES}]?{_TWO}", _number("day", 1, 31)),
        ("f", "[0-9]{1,9}", _take_fraction),
        ("GY", rf"-[0-9]{{0,7}}|[0-9]{{1,7}}|(?=[{_SPACES}]|\Z)", _take_year),
        ("gy", rf"-[0-9]{{0,2}}|[0-9]{{1,2}}|(?=[{_SPACES}]|\Z)", _take_short_year),
        ("H", _TWO, _number("hour", 0, 23)),
        ("k", rf"[ \t][0-9]|{_TWO}", _number("hour", 0, 23)),
        ("I", _TWO, _number("hour", 1, 12)),
        ("l", rf"[ \t][0-9]|{_TWO}", _number("hour", 1, 12)),
        ("j", "[0-9]{1,3}", _number("yday", 1, 366)),
        ("M", _MAYBE_TWO, _optional(_number("min", 0, 59))),
        ("m", _TWO, _number("month", 1, 12)),
        ("nt", f"[{_SPACES}]*", lambda found, text: None),
        ("p", "am|pm", _take_half_day),
        ("S", _MAYBE_TWO, _optional(_number("sec", 0, 60))),
        ("s", rf"[{_SPACES}]*[+-]?[0-9]+", _take_seconds),
        ("U", _TWO, _week_from(0)),
        ("u", "[1-7]", _take_weekday),
        ("W", _TWO, _week_from(1)),
        ("w", "[0-6]", _take_weekday),
        ("Z", "(?-i:[A-Z]*)", _take_zone),
        ("z", "(?-i:Z)|[+-][0-9]{2}(?:[0-9]{2}|(?![0-9]))", _take_offset),
        ("%", "%", lambda found, text: None),
    )
    for letter in letters
}
_PIECE: Final = re.compile(
    r"%(?P<modifiers>[EO]*)(?P<width>[0-9]*)(?P<letter>.?)|(?P<space>[ \t\n\v\f\r])|(?P<char>.)", re.DOTALL
)


_KEPT: Final = ("year", "month", "day", "yday", "wday", "hour", "min", "sec", "nsec", "offset", "tzindex")
_DATE: Final = frozenset({"year", "month", "day"})
_DATES: Final = {letter: _DATE | ({"wday"} if letter in "+c" else set()) for letter in "+cDFvx"}
"""For each composed specifier, the names of the parts that it sets."""


def _scan(found: Found, text: str, pos: int, template: str) -> int:
    """Read a text from a position on, following a format; return the position after it."""
    for piece in _PIECE.finditer(template):
        if piece["space"] is not None:
            while pos < len(text) and text[pos] in _SPACES:
                pos += 1
        elif piece["char"] is not None:
            if text[pos : pos + 1] != piece["char"]:
                raise Mismatch
            pos += 1
        else:
            pos = _scan_specifier(found, text, pos, piece)
    return pos


def _scan_specifier(found: Found, text: str, pos: int, piece: re.Match[str]) -> int:
    letter = piece["letter"]
    if piece["width"] and letter != "f":
        raise Mismatch
    if len(piece["modifiers"]) > 1:
        # A second modifier ends the specifier.
        return _scan(found, text, pos, piece["modifiers"][2:] + letter)
    if letter in COMPOSED:
        return _scan_composed(found, text, pos, letter)
    if letter not in _SPECIFIERS:
        raise Mismatch
    pattern, take = _SPECIFIERS[letter]
    match = pattern.match(text, pos)
    if match is None:
        raise Mismatch
    take(found, match[0])
    return match.end()


def _scan_composed(found: Found, text: str, pos: int, letter: str) -> int:
    """Read a composed specifier, which stands for a whole format. Its year and week are not mixed with those of the
    outer format.
    """
    inner = replace(found, century=_NONE, short_year=_NONE, first_weekday=None, given=set())
    end = _scan(inner, text, pos, COMPOSED[letter])
    _settle_year(inner)
    _settle_date(inner)
    for name in _KEPT:
        setattr(found, name, getattr(inner, name))
    if letter in _DATES:
        found.given |= _DATES[letter]
    return end


def _first_weekday_of(year: int) -> int:
    return day_parts(first_of_month(year, 1)).wday


def _settle_year(found: Found) -> None:
    if found.century == _NONE and found.short_year == _NONE:
        return
    short = 0 if found.short_year == _NONE else found.short_year
    if found.century != _NONE:
        found.year = found.century * 100 + short
    else:
        # POSIX: 69 to 99 are years of the twentieth century, 00 to 68 of the next one.
        found.year = 1900 + short + (100 if short < 69 else 0)


def _settle_date(found: Found) -> None:
    """Compute the month and the day, as far as they are not given, from the day of the year or the number of the
    week.
    """
    given = found.given
    if "year" not in given:
        return
    if "month" in given:
        if "day" not in given:
            before = first_of_month(found.year, found.month) - first_of_month(found.year, 1)
            found.day = (found.yday - before if "yday" in given else 1) or 1
        return
    if "yday" not in given:
        if found.first_weekday is None:
            return
        found.yday = _day_of_week(found, found.first_weekday) + 1
    day = day_parts(first_of_month(found.year, 1) + found.yday - 1)
    found.year, found.month = day.year, day.month
    if "day" not in given:
        found.day = day.day


def _day_of_week(found: Found, first: int) -> int:
    """Return the day of the year, from 0, of a weekday in a numbered week. Raises Mismatch."""
    begins = _first_weekday_of(found.year)
    is_exact = "wday" in found.given
    if found.week == 0 and begins == first:
        raise Mismatch
    weekday = found.wday if is_exact else first
    place = (7 - begins + first) % 7 + (found.week - 1) * 7 + (weekday - first) % 7
    if place < 0 and is_exact:
        raise Mismatch
    return max(place, 0)


def _moment(found: Found) -> Datetime:
    if found.day > days_in_month(found.year, found.month):
        raise Mismatch
    seconds = day_of_date(found.year, found.month, found.day) * 86_400
    seconds += found.hour * 3600 + found.min * 60 + found.sec - found.offset
    return Datetime.unchecked(seconds, found.nsec, zones.whole_minutes(found.offset), found.tzindex)


def read_formatted(text: str, template: str) -> tuple[Datetime, int]:
    """Return the point in time that a text gives in a certain format, and the number of characters read.

    Raises:
        ValueError: the text does not follow the format, or the date does not exist.
    """
    found = Found()
    end = _scan(found, text, 0, template)
    _settle_year(found)
    _settle_date(found)
    return _moment(found), end
