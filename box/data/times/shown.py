"""Points in time and intervals as texts.

A format is read by one table: a specifier's letter and the function that shows its part. Facts of Tarantool 2.11:
`%s` counts the seconds of the local time; `%f` takes a number of digits (`%3f`) and shows 3, 6 or 9 without one;
`%E` and `%O` before a letter change nothing; a letter that is no specifier shows itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Final, Protocol

from box.data.times.calendar import Day, day_parts, iso_week
from box.data.times.zones import zone_of

MONTHS: Final = tuple("January February March April May June July August September October November December".split())
WEEKDAYS: Final = tuple("Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split())
COMPOSED: Final = {
    "+": "%a %b %e %H:%M:%S %Z %Y",
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "T": "%H:%M:%S",
    "v": "%e-%b-%Y",
    "X": "%H:%M:%S",
    "x": "%m/%d/%y",
}
"""The formats that composed specifiers stand for."""

_INTERVAL_UNITS: Final = {
    "year": "years",
    "month": "months",
    "week": "weeks",
    "day": "days",
    "hour": "hours",
    "min": "minutes",
    "sec": "seconds",
    "nsec": "nanoseconds",
}


class DatetimeParts(Protocol):
    """The parts of a datetime."""

    epoch: int
    nsec: int
    tzoffset: int
    tzindex: int


class IntervalParts(Protocol):
    """The parts of an interval."""

    @property
    def year(self) -> int: ...


def zone_name(tzindex: int) -> str:
    """Return the name of a numbered zone, or ''."""
    zone = zone_of(tzindex)
    return "" if zone is None else zone.name


class Local:
    """The local clock and calendar of a datetime."""

    def __init__(self, moment: DatetimeParts) -> None:
        self.moment = moment

    @cached_property
    def seconds(self) -> int:
        """Seconds since 1970-01-01 as the local clock counts them."""
        return self.moment.epoch + self.moment.tzoffset * 60

    @cached_property
    def date(self) -> Day:
        return day_parts(self.seconds // 86_400)

    @cached_property
    def week(self) -> tuple[int, int]:
        return iso_week(self.seconds // 86_400)

    @property
    def hour(self) -> int:
        return self.seconds // 3600 % 24

    @property
    def minute(self) -> int:
        return self.seconds // 60 % 60

    @property
    def second(self) -> int:
        return self.seconds % 60

    @property
    def half_day_hour(self) -> int:
        return self.hour % 12 or 12


def fraction_text(nsec: int, width: int = 0) -> str:
    """Return a fraction of a second with `width` digits; a width of 0 gives as many groups of three digits as
    necessary.
    """
    if width:
        return f"{nsec // 10 ** (9 - width):0{width}d}"
    if nsec % 1_000_000 == 0:
        return f"{nsec // 1_000_000:03d}"
    return f"{nsec // 1000:06d}" if nsec % 1000 == 0 else f"{nsec:09d}"


def datetime_text(value: DatetimeParts) -> str:
    """Return a point in time by ISO 8601, followed by the name of its zone if it has one."""
    local = Local(value)
    date = local.date
    fraction = f".{fraction_text(value.nsec)}" if value.nsec else ""
    clock = f"{local.hour:02d}:{local.minute:02d}:{local.second:02d}{fraction}"
    return f"{date.year:04d}-{date.month:02d}-{date.day:02d}T{clock}{_zone_text(value)}"


def _zone_text(value: DatetimeParts) -> str:
    if value.tzindex:
        name = zone_name(value.tzindex) or _offset_text(value.tzoffset)
        return name if len(name) == 1 else f" {name}"
    return _offset_text(value.tzoffset) if value.tzoffset else "Z"


def _offset_text(offset: int) -> str:
    hours, minutes = divmod(abs(offset), 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}{minutes:02d}"


def interval_text(value: IntervalParts) -> str:
    """Return the parts of an interval that are not zero, the first with its sign."""
    shown = [(getattr(value, name), unit) for name, unit in _INTERVAL_UNITS.items()]
    # Seconds are shown if all larger parts are zero.
    is_short = not any(part for part, _ in shown[:6])
    texts: list[str] = []
    for part, unit in shown:
        if part or (unit == "seconds" and is_short):
            texts.append(f"{part:d} {unit}" if texts else f"{part:+d} {unit}")
    return ", ".join(texts)


# --- formats ---


def _century(year: int) -> str:
    century = int(year / 100)  # rounds towards zero, as C's division does
    return "-0" if century == 0 and year < 0 else f"{century:02d}"


def _year_of_century(year: int) -> str:
    return f"{abs(year) % 100:02d}"


def _full_year(year: int) -> str:
    return _century(year) + _year_of_century(year)


def _zone_offset(local: Local) -> str:
    return _offset_text(local.moment.tzoffset)


_SPECIFIERS: Final[dict[str, Callable[[Local], str]]] = {
    "%": lambda local: "%",
    "A": lambda local: WEEKDAYS[local.date.wday],
    "a": lambda local: WEEKDAYS[local.date.wday][:3],
    "B": lambda local: MONTHS[local.date.month - 1],
    "b": lambda local: MONTHS[local.date.month - 1][:3],
    "C": lambda local: _century(local.date.year),
    "d": lambda local: f"{local.date.day:02d}",
    "e": lambda local: f"{local.date.day:2d}",
    "G": lambda local: _full_year(local.week[0]),
    "g": lambda local: _year_of_century(local.week[0]),
    "H": lambda local: f"{local.hour:02d}",
    "h": lambda local: MONTHS[local.date.month - 1][:3],
    "I": lambda local: f"{local.half_day_hour:02d}",
    "j": lambda local: f"{local.date.yday:03d}",
    "k": lambda local: f"{local.hour:2d}",
    "l": lambda local: f"{local.half_day_hour:2d}",
    "M": lambda local: f"{local.minute:02d}",
    "m": lambda local: f"{local.date.month:02d}",
    "n": lambda local: "\n",
    "p": lambda local: "PM" if local.hour >= 12 else "AM",
    "S": lambda local: f"{local.second:02d}",
    "s": lambda local: str(local.seconds),
    "t": lambda local: "\t",
    "U": lambda local: f"{(local.date.yday + 6 - local.date.wday) // 7:02d}",
    "u": lambda local: str(local.date.wday or 7),
    "V": lambda local: f"{local.week[1]:02d}",
    "W": lambda local: f"{(local.date.yday + 6 - (local.date.wday - 1) % 7) // 7:02d}",
    "w": lambda local: str(local.date.wday),
    "Y": lambda local: _full_year(local.date.year),
    "y": lambda local: _year_of_century(local.date.year),
    "Z": lambda local: zone_name(local.moment.tzindex),
    "z": _zone_offset,
}

_TOKEN: Final = re.compile(r"%[EO]*(?:(?P<width>[0-9]+)(?P<after>.?)|(?P<letter>.?))", re.DOTALL)


def formatted(value: DatetimeParts, template: str) -> str:
    """Return the text of a point in time in a format whose specifiers are those of `strftime`."""
    local = Local(value)

    def show(token: re.Match[str]) -> str:
        width, after, letter = token["width"], token["after"], token["letter"]
        if width is not None:
            return fraction_text(value.nsec, min(int(width), 9)) if after == "f" else width + after
        if letter == "f":
            return fraction_text(value.nsec)
        if letter in COMPOSED:
            return formatted(value, COMPOSED[letter])
        specifier = _SPECIFIERS.get(letter)
        return letter if specifier is None else specifier(local)

    return _TOKEN.sub(show, template)
