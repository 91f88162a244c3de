"""Sums and differences of points in time and intervals.

Facts of Tarantool 2.11, which programs see: a sum goes from the largest part to the smallest, on the local time of the
datetime; years and months that leave the range are refused by their average length. A difference of two datetimes is
taken part by part, without a carry. Before 1970 the time of the day counts backwards from midnight: it is zero or
negative, both in differences and in sums that change the date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from box.data.times import zones
from box.data.times.calendar import EPOCH_ORDINAL, day_parts, days_in_month, first_of_month
from box.data.times.points import GREATEST_SECOND, LEAST_SECOND, Datetime, Interval

_DAY: Final = 86_400
"""The length of a day in seconds."""
_BILLION: Final = 1_000_000_000
"""Nanoseconds in a second."""
_YEARS: Final = 5_879_611 + 5_879_610
"""The years from the first datetime to the last, see `box.data.times.calendar`."""
_DAYS_OF_YEAR: Final = 365.25
"""The average with which Tarantool 2.11 checks ranges; the Gregorian calendar's would be 365.2425."""
_DAYS: Final = _YEARS * _DAYS_OF_YEAR
LIMITS: Final[dict[str, float]] = {
    "year": _YEARS,
    "month": _YEARS * 12,
    "week": _YEARS * (_DAYS_OF_YEAR / 7),
    "day": _DAYS,
    "hour": _DAYS * 24,
    "min": _DAYS * 24 * 60,
    "sec": _DAYS * _DAY,
    "nsec": 2**31 - 1,
}
"""The greatest parts of an interval, from the largest unit to the smallest."""


class OutOfRange(ValueError):
    """A sum leaves the range of datetimes; `is_late` tells at which end."""

    def __init__(self, is_late: bool) -> None:
        super().__init__("datetime out of range")
        self.is_late = is_late


class PartOutOfRange(ValueError):
    """A part of a sum of intervals is out of range: its `name` and `value`."""

    def __init__(self, name: str, value: int) -> None:
        super().__init__(f"{name} of an interval out of range")
        self.name = name
        self.value = value


def _check(value: float, least: int, greatest: int) -> None:
    # Fractions of a day are cut off towards zero.
    if not least <= int(value) <= greatest:
        raise OutOfRange(value > 0)


def _check_rata_die(day: float) -> None:
    _check(day, -(2**31), 2**31 - 1)


def _wrapped(number: int) -> int:
    """Return a number wrapped around to a signed 32-bit integer."""
    return (number + 2**31) % 2**32 - 2**31


def _towards_zero(seconds: int) -> int:
    """Return the seconds since midnight; before 1970 they are zero or negative."""
    return seconds % _DAY if seconds >= 0 else -(-seconds % _DAY)


def _add_months(rata_die: int, months: int, adjust: str) -> int:
    date = day_parts(rata_die - EPOCH_ORDINAL)
    first = first_of_month(date.year, date.month + months) + EPOCH_ORDINAL
    if adjust == "excess":
        return first + date.day - 1
    length = first_of_month(date.year, date.month + months + 1) + EPOCH_ORDINAL - first
    stays_last = adjust == "last" and date.day == days_in_month(date.year, date.month)
    return first + (length if stays_last else min(date.day, length)) - 1


def add(moment: Datetime, interval: Interval, direction: int = 1) -> Datetime:
    """Return a point in time plus an interval, or minus it if `direction` is -1.

    Raises:
        OutOfRange: the sum leaves the range of datetimes.
    """
    seconds = moment.epoch + moment.tzoffset * 60
    day = _wrapped(_wrapped(seconds // _DAY) + EPOCH_ORDINAL)
    for months, average in ((interval.year * 12, _DAYS_OF_YEAR / 12), (interval.month, _DAYS_OF_YEAR / 12)):
        if months:
            _check_rata_die(day + direction * months * average)
            day = _wrapped(_add_months(day, direction * months, interval.adjust))
    for days in (interval.week * 7, interval.day):
        if days:
            _check_rata_die(day + direction * days)
            day += direction * days
    if interval.year or interval.month or interval.week or interval.day:
        seconds = (day - EPOCH_ORDINAL) * _DAY + _towards_zero(seconds)
    for more in (interval.hour * 3600, interval.min * 60, interval.sec):
        if more:
            seconds += direction * more
            _check(seconds, LEAST_SECOND, GREATEST_SECOND)
    carried, nsec = divmod(_wrapped(moment.nsec + direction * interval.nsec), _BILLION)
    seconds += carried
    _check_rata_die((seconds + EPOCH_ORDINAL * _DAY) / _DAY)
    return _in_zone(moment, seconds, nsec)


def _in_zone(moment: Datetime, seconds: int, nsec: int) -> Datetime:
    """Return the local time at another moment in the zone of `moment`, and the zone's offset at that moment."""
    offset = moment.tzoffset
    found = zones.index_offset_at(moment.tzindex, seconds) if moment.tzindex else None
    if found is not None:
        offset = zones.whole_minutes(found[0])
    return Datetime.unchecked(seconds - offset * 60, nsec, offset, moment.tzindex)


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """Hour, minute and second; all zero or negative before 1970."""

    hour: int
    min: int
    sec: int


def time_of_day(moment: Datetime) -> TimeOfDay:
    """Return the local time of the day."""
    seconds = _towards_zero(moment.epoch + moment.tzoffset * 60)
    sign = 1 if seconds >= 0 else -1
    minutes, second = divmod(abs(seconds), 60)
    return TimeOfDay(sign * (minutes // 60), sign * (minutes % 60), sign * second)


def _parts(moment: Datetime) -> dict[str, int]:
    date = day_parts((moment.epoch + moment.tzoffset * 60) // _DAY)
    clock = time_of_day(moment)
    return {
        "year": date.year,
        "month": date.month,
        "week": 0,
        "day": date.day,
        "hour": clock.hour,
        "min": clock.min,
        "sec": clock.sec,
        "nsec": moment.nsec,
    }


def difference(left: Datetime, right: Datetime) -> Interval:
    """Return the interval between two points in time, part by part. Raises PartOutOfRange."""
    a, b = _parts(left), _parts(right)
    a["min"] -= left.tzoffset - right.tzoffset
    return _interval({name: a[name] - b[name] for name in LIMITS}, "none")


def combine(left: Interval, right: Interval, direction: int = 1) -> Interval:
    """Return the sum of two intervals, or their difference if `direction` is -1. Raises PartOutOfRange."""
    sums = {name: getattr(left, name) + direction * getattr(right, name) for name in LIMITS}
    sums["nsec"] = _wrapped(sums["nsec"])
    return _interval(sums, left.adjust)


def _interval(parts: dict[str, int], adjust: str) -> Interval:
    for name, limit in LIMITS.items():
        if not -int(limit) <= parts[name] <= int(limit):
            raise PartOutOfRange(name, parts[name])
    return Interval(**parts, adjust=adjust)
