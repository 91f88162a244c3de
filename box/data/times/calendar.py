"""The proleptic Gregorian calendar over the whole range of days, which is wider than that of `datetime.date`.

Days are counted from 1970-01-01. The calendar repeats after 400 years, which are whole weeks: a day is moved by such
cycles into years 400 to 799, where `datetime.date` calculates.
"""

from __future__ import annotations

from datetime import date
from typing import Final, NamedTuple

CYCLE_YEARS: Final = 400
CYCLE_DAYS: Final = 146_097
"""The days of 400 years: 365 each, and 97 leap days."""
EPOCH_ORDINAL: Final = 719_163
"""The day 1970-01-01 counted from 0001-01-01, which is day 1."""
LEAST_DAY: Final = -(2**31) - EPOCH_ORDINAL
GREATEST_DAY: Final = 2**31 - 1 - EPOCH_ORDINAL
"""Tarantool counts days from 0001-01-01 in 32 bits: -5879610-06-22 to 5879611-07-11."""

_FIRST_OF_HOME: Final = date(CYCLE_YEARS, 1, 1).toordinal() - EPOCH_ORDINAL


class Day(NamedTuple):
    """A day: year, month and day of the month, from 1, and its place in the year (from 1) and week (0 is Sunday)."""

    year: int
    month: int
    day: int
    yday: int
    wday: int


def _home(day: int) -> tuple[int, date]:
    """Return the number of years by which a day is moved into years 400 to 799, and the day after the move."""
    cycles, rest = divmod(day - _FIRST_OF_HOME, CYCLE_DAYS)
    return cycles * CYCLE_YEARS, date.fromordinal(_FIRST_OF_HOME + rest + EPOCH_ORDINAL)


def day_parts(day: int) -> Day:
    """Return the year, the month and the other calendar parts of a day."""
    years, home = _home(day)
    yday = home.toordinal() - date(home.year, 1, 1).toordinal() + 1
    return Day(home.year + years, home.month, home.day, yday, home.isoweekday() % 7)


def iso_week(day: int) -> tuple[int, int]:
    """Return the year and number of a day's week by ISO 8601."""
    years, home = _home(day)
    found = home.isocalendar()
    return found.year + years, found.week


def first_of_month(year: int, month: int) -> int:
    """Return the first day of a month; months below 1 and above 12 belong to other years."""
    more, month = divmod(month - 1, 12)
    cycles, home = divmod(year + more, CYCLE_YEARS)
    return date(home + CYCLE_YEARS, month + 1, 1).toordinal() - EPOCH_ORDINAL + (cycles - 1) * CYCLE_DAYS


def days_in_month(year: int, month: int) -> int:
    """Return the number of days in a month."""
    return first_of_month(year, month + 1) - first_of_month(year, month)


def _checked(day: int) -> int:
    if not LEAST_DAY <= day <= GREATEST_DAY:
        raise ValueError("day out of range")
    return day


def day_of_date(year: int, month: int, day: int) -> int:
    """Return the number of the day with this date. Raises ValueError if the date does not exist or is out of range."""
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month)):
        raise ValueError("no such date")
    return _checked(first_of_month(year, month) + day - 1)


def day_of_year(year: int, yday: int) -> int:
    """Return the day number of the `yday`-th day of a year, counted from 1. Raises ValueError."""
    first = first_of_month(year, 1)
    if not 1 <= yday <= first_of_month(year + 1, 1) - first:
        raise ValueError("no such day of the year")
    return _checked(first + yday - 1)


def day_of_quarter(year: int, quarter: int, qday: int) -> int:
    """Return the day number of the `qday`-th day of a quarter; both are counted from 1. Raises ValueError."""
    month = quarter * 3 - 2
    if not 1 <= quarter <= 4:
        raise ValueError("no such quarter")
    first = first_of_month(year, month)
    if not 1 <= qday <= first_of_month(year, month + 3) - first:
        raise ValueError("no such day of the quarter")
    return _checked(first + qday - 1)


def day_of_week(year: int, week: int, weekday: int) -> int:
    """Return the day number of a weekday (Monday is 1) in a week by ISO 8601. Raises ValueError."""
    cycles, home = divmod(year, CYCLE_YEARS)
    found = date.fromisocalendar(home + CYCLE_YEARS, week, weekday)
    return _checked(found.toordinal() - EPOCH_ORDINAL + (cycles - 1) * CYCLE_DAYS)
