"""Points in time for Python programs: `datetime` where it holds a value exactly, else `Datetime`.

```
stored                              Python's datetime with
no zone, no offset                  timezone.utc
an offset                           timezone(offset)
a zone of the database              ZoneInfo(name)
an abbreviation (MSK, Z)            timezone(offset, name)
```

It holds a value exactly if packing gives the same bytes again: whole microseconds, years 1 to 9999, and an offset that
the zone really had at that moment.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from box.data.times import values, zones
from box.data.times.values import Datetime

MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST: Final = (datetime(1, 1, 2, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
_LAST: Final = (datetime(9999, 12, 31, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
"""A day inside Python's range, so that a local time is inside too."""


def exact_utc(value: Datetime) -> datetime | None:
    """Return the moment in UTC, or None if Python's `datetime` cannot hold it."""
    if value.nsec % 1000 or value.nsec >= 1_000_000_000 or not _FIRST <= value.epoch < _LAST:
        return None
    return _EPOCH + timedelta(seconds=value.epoch, microseconds=value.nsec // 1000)


@lru_cache(1024)
def _tzinfo(tzoffset: int, tzindex: int) -> tzinfo | None:
    """Return the `tzinfo` that stands for an offset and a zone; None if there is none."""
    offset = timedelta(minutes=tzoffset)
    if not tzindex:
        return timezone(offset) if tzoffset else timezone.utc
    zone = zones.zone_of(tzindex)
    if zone is None:
        return None
    if zone.is_abbreviation and zone.name != "UTC":
        return timezone(offset, zone.name)
    return zones.database_zone(zone.name)


def to_python(value: Datetime) -> datetime | Datetime:
    """Return the value as Python's `datetime` if that holds it exactly, else unchanged."""
    moment = exact_utc(value)
    zone = _tzinfo(value.tzoffset, value.tzindex)
    if moment is None or zone is None:
        return value
    local = moment.astimezone(zone)
    return local if local.utcoffset() == timedelta(minutes=value.tzoffset) else value


def from_python(value: datetime) -> Datetime:
    """Convert an aware `datetime`. Raises ValueError: it has no time zone, or its offset is out of range."""
    offset = value.utcoffset()
    if offset is None:
        raise ValueError("a datetime without a time zone")
    zone = value.tzinfo
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name is None and type(zone) is timezone:
        # One without a name of its own is called UTC or UTC+03:00.
        shown = zone.tzname(None)
        name = None if shown.startswith("UTC") else shown
    seconds, rest = divmod(value - _EPOCH, timedelta(seconds=1))
    return Datetime(
        seconds,
        rest // MICROSECOND * 1000,
        zones.whole_minutes(offset // timedelta(seconds=1)),
        zones.index_of(name) if isinstance(name, str) else 0,
    )


def datetime_key(value: datetime | Datetime) -> int:
    """Return an integer in the order of moments. Raises ValueError for a datetime without a time zone."""
    if type(value) is Datetime:
        return value.sort_key
    assert isinstance(value, datetime)
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone")
    seconds, rest = divmod(value - _EPOCH, timedelta(seconds=1))
    return (seconds << 32) + rest // MICROSECOND * 1000


def encode(value: datetime | Datetime) -> bytes:
    """Return the body of a point in time. Raises ValueError."""
    return values.encode_datetime(value if type(value) is Datetime else from_python(value))  # type: ignore[arg-type]


def decode(data: bytes) -> datetime | Datetime:
    """Decode the body of a point in time. Raises ValueError if it is malformed."""
    return to_python(values.decode_datetime(data))
