"""Time zones by their names and numbers (`zone_table`), and their offsets.

Offsets of the database's zones are those of `zoneinfo`: of the system, or of the package `tzdata`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from box.data.times.zone_table import ABBREVIATIONS, ZONES

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

GREATEST_INDEX: Final = 1024
"""The greatest zone number that Tarantool accepts in a datetime. Not every number up to it has a zone."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_CYCLE: Final = 146_097 * 86_400
"""The seconds of 400 years, after which the calendar repeats."""
_EARLY: Final = -10_000_000_000
"""A moment in the year 1653, before any zone changed its offset (in seconds since 1970)."""
_LATE: Final = 13_000_000_000
"""A moment in the year 2381; the rules of zones repeat every 400 years."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A name of a time zone.

    `name` is the one that texts show. `offset` counts minutes; None for a zone of the database and for an ambiguous
    abbreviation.
    """

    index: int
    name: str
    offset: int | None = None
    is_ambiguous: bool = False

    @property
    def is_abbreviation(self) -> bool:
        return self.offset is not None or self.is_ambiguous


@cache
def _table() -> tuple[dict[int, Zone], dict[str, tuple[str, Zone]]]:
    """Return the zones by number, and for each name in lower case its zone with the name as the database writes it."""
    abbreviations = filter(None, map(_abbreviation, ABBREVIATIONS.replace("\n", ",").split(",")))
    found: list[tuple[Zone, tuple[str, ...]]] = [(zone, (zone.name,)) for zone in abbreviations]
    for line in ZONES.strip().splitlines():
        number, *spellings = line.split()
        found.append((Zone(int(number), spellings[0]), tuple(spellings)))
    by_index = {zone.index: zone for zone, _ in found}
    return by_index, {name.lower(): (name, zone) for zone, spellings in found for name in spellings}


def _abbreviation(text: str) -> Zone | None:
    if not text.strip():
        return None
    number, name, offset = text.split()
    return Zone(int(number), name, None if offset == "?" else int(offset), offset == "?")


def names() -> dict[int, str]:
    """Return the names of zones by number, as datetimes are shown with them."""
    return {index: zone.name for index, zone in _table()[0].items()}


def spellings() -> dict[str, int]:
    """Return the numbers of zones by name, for all spellings that exist."""
    return {spelling: zone.index for spelling, zone in _table()[1].values()}


def zone_of(index: int) -> Zone | None:
    """Return the zone with a number."""
    return _table()[0].get(index)


def zone_named(name: str) -> tuple[str, Zone] | None:
    """Return a zone with its name as the database writes it. Upper and lower case make no difference."""
    return _table()[1].get(name.lower())


def index_of(name: str) -> int:
    """Return the number of a zone by its exact name; 0 if Tarantool has no number for it."""
    found = zone_named(name)
    return found[1].index if found is not None and found[0] == name else 0


@cache
def database_zone(name: str) -> ZoneInfo | None:
    """Return a zone of the time zone database; None if the database has no zone with this name."""
    from zoneinfo import ZoneInfo  # it takes long to load, and few programs have zones

    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


def offset_at(name: str, epoch: int) -> tuple[int, bool] | None:
    """Return the offset in seconds of a database zone at a moment, and whether it is daylight saving time; None if the
    database has no such zone.
    """
    zone = database_zone(name)
    if zone is None:
        return None
    if epoch > _LATE:
        epoch = _LATE + (epoch - _LATE) % _CYCLE
    moment = (_EPOCH + timedelta(seconds=max(epoch, _EARLY))).astimezone(zone)
    offset, saved = moment.utcoffset(), moment.dst()
    assert offset is not None
    return offset // _SECOND, bool(saved)


def whole_minutes(seconds: int) -> int:
    """Return an offset in minutes, without the seconds that some historical offsets had."""
    return int(seconds / 60)  # not `//`, which would round offsets west of Greenwich away from zero


def index_offset_at(index: int, epoch: int) -> tuple[int, bool] | None:
    """Return the offset in seconds of a numbered zone, and whether it is daylight saving time. None if the database
    does not know the zone's name, which is usual for abbreviations.
    """
    zone = zone_of(index)
    return None if zone is None else offset_at(zone.name, epoch)
