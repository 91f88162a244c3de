"""Time zones by their names and numbers.

`zones.txt` lists what Tarantool 2.11 stores in datetimes, one zone a line:

    238 MSK +180                            an abbreviation and its offset in minutes
    132 AMT ?                               an abbreviation with several meanings, which is not accepted
    947 Europe/Moscow W-SU                  a zone of the time zone database, and other names of it

Offsets of the database's zones are those of `zoneinfo`: of the system, or of the package `tzdata`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

GREATEST_INDEX: Final = 1024

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND: Final = timedelta(seconds=1)
_CYCLE: Final = 146_097 * 86_400
_EARLY: Final = -10_000_000_000
"""In 1653, when no zone had a rule."""
_LATE: Final = 13_000_000_000
"""In 2381; rules repeat after 400 years."""


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
    """The zones by number, and by each name in lower case, with the name as the database writes it."""
    by_index: dict[int, Zone] = {}
    by_name: dict[str, tuple[str, Zone]] = {}
    for line in Path(__file__).with_name("zones.txt").read_text().splitlines():
        number, name, *rest = line.split()
        offset = rest[0] if rest and (rest[0][0] in "+-?") else None
        if offset is None:
            zone = Zone(int(number), name)
        else:
            zone = Zone(int(number), name, None if offset == "?" else int(offset), offset == "?")
        by_index[zone.index] = zone
        for spelling in (name, *(rest if offset is None else ())):
            by_name[spelling.lower()] = spelling, zone
    return by_index, by_name


def names() -> dict[int, str]:
    """Return the names that texts show, by number."""
    return {index: zone.name for index, zone in _table()[0].items()}


def spellings() -> dict[str, int]:
    """Return the numbers of zones by all their names."""
    return {spelling: zone.index for spelling, zone in _table()[1].values()}


def zone_of(index: int) -> Zone | None:
    """Return the zone with a number."""
    return _table()[0].get(index)


def zone_named(name: str) -> tuple[str, Zone] | None:
    """Return a name as the database writes it, and its zone. Letters count in any case."""
    return _table()[1].get(name.lower())


def index_of(name: str) -> int:
    """Return the number of a zone by its exact name; 0 if Tarantool has no number for it."""
    found = zone_named(name)
    return found[1].index if found is not None and found[0] == name else 0


@cache
def database_zone(name: str) -> ZoneInfo | None:
    """Return a zone of the database; None if it has none with this name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, ModuleNotFoundError):  # ZoneInfoNotFoundError among them
        return None


def offset_at(name: str, epoch: int) -> tuple[int, bool] | None:
    """Return the offset in seconds of a database zone at a moment, and whether it is daylight saving time; None if the
    database has no such zone.
    """
    zone = database_zone(name)
    if zone is None:
        return None
    if epoch > _LATE:
        epoch = _LATE - _CYCLE + (epoch - _LATE) % _CYCLE
    moment = (_EPOCH + timedelta(seconds=max(epoch, _EARLY))).astimezone(zone)
    offset, saved = moment.utcoffset(), moment.dst()
    assert offset is not None
    return offset // _SECOND, bool(saved)


def whole_minutes(seconds: int) -> int:
    """Return minutes, without the seconds that some offsets of the past had."""
    return int(seconds / 60)


def index_offset_at(index: int, epoch: int) -> tuple[int, bool] | None:
    """Return offset (seconds) and daylight saving time of a numbered zone; None if the database does not know its
    name, as it knows few abbreviations.
    """
    zone = zone_of(index)
    return None if zone is None else offset_at(zone.name, epoch)
