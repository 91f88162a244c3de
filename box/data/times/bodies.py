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

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from box.data.times import points, zones
from box.data.times.points import EPOCH, MICROSECOND, Datetime, encode_parts, exact_utc, utc_of_body

SECONDS_A_DAY: Final = 86_400


@lru_cache(1024)
def _tzinfo(tzoffset: int, tzindex: int) -> tzinfo | None:
    """Return the `tzinfo` for an offset and a zone number; None if Python has no `tzinfo` for them."""
    offset = timedelta(minutes=tzoffset)
    if not tzindex:
        return timezone(offset) if tzoffset else UTC
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
    if type(zone) is timezone:  # its offset is always the one that it was made with
        return local
    return local if local.utcoffset() == timedelta(minutes=value.tzoffset) else value


def from_python(value: datetime) -> Datetime:
    """Convert an aware `datetime`. Raises ValueError if it has no time zone, or if its offset is out of range."""
    offset = value.utcoffset()
    if offset is None:
        raise ValueError("a datetime without a time zone")
    zone = value.tzinfo
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name is None and type(zone) is timezone:
        # A `timezone` without an explicit name calls itself UTC or UTC+03:00.
        shown = zone.tzname(None)
        name = None if shown.startswith("UTC") else shown
    seconds, rest = divmod(value - EPOCH, timedelta(seconds=1))
    return Datetime(
        seconds,
        rest // MICROSECOND * 1000,
        zones.whole_minutes(offset // timedelta(seconds=1)),
        zones.index_of(name) if isinstance(name, str) else 0,
    )


def encode(value: datetime | Datetime) -> bytes:
    """Encode a point in time as the body of its extension. Raises ValueError."""
    if type(value) is Datetime:
        return points.encode_datetime(value)
    assert isinstance(value, datetime)
    if value.tzinfo is UTC:
        since = value - EPOCH
        return encode_parts(since.days * SECONDS_A_DAY + since.seconds, since.microseconds * 1000)
    return points.encode_datetime(from_python(value))


def decode(data: bytes) -> datetime | Datetime:
    """Decode the body of a point in time. Raises ValueError if it is malformed."""
    return utc_of_body(data) or to_python(points.decode_datetime(data))
