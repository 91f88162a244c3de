"""Values of the field types `datetime` and `interval`, and the bodies of their MessagePack extensions.

Datetime (ext 4): 8 bytes, or 16 if any of the rest is not zero; little-endian:

    int64 seconds since 1970-01-01 UTC | int32 nanoseconds | int16 offset in minutes | int16 number of the zone

Interval (ext 6): a byte that counts the pairs, then pairs of a byte and a MessagePack integer; zeros are left out:

    0 year   1 month   2 week   3 day   4 hour   5 minute   6 second   7 nanosecond   8 adjust

Adjust says what becomes of a day that a month does not have: 0 `excess`, the days count into the next month; 1 `none`,
it becomes the last day; 2 `last`, besides the last day of a month stays the last.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgpack import Packer, unpackb

from box.data.marks import FIXMAP, NEGATIVE_FIXINT
from box.data.times.calendar import GREATEST_DAY, LEAST_DAY
from box.data.times.shown import datetime_text, interval_text, zone_name
from box.data.times.zones import GREATEST_INDEX, index_of

DATETIME_EXT: Final = 4
INTERVAL_EXT: Final = 6
"""The types of the MessagePack extensions."""
LEAST_SECOND: Final = LEAST_DAY * 86_400
GREATEST_SECOND: Final = GREATEST_DAY * 86_400
"""The first and the last second since 1970: Tarantool counts days in 32 bits, see `box.data.times.calendar`."""
LEAST_OFFSET: Final = -12 * 60
GREATEST_OFFSET: Final = 14 * 60
"""The offsets in minutes between which the world's time zones are, and which Tarantool accepts."""
ADJUSTMENTS: Final = ("excess", "none", "last")

MICROSECOND: Final = timedelta(microseconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime(1, 1, 2, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
_LAST: Final = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
"""The beginning of the last day of Python's range, in seconds: earlier moments have a local time in the range, too."""

_SHORT: Final = struct.Struct("<q")
_LONG: Final = struct.Struct("<qihh")
_NANOSECOND_LIMIT: Final = 2_000_000_000
"""Tarantool accepts two seconds of nanoseconds, which has room for a leap second."""
_SHOWN: Final = 80
"""The most characters of a wrong text that an error repeats."""
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)


class Datetime:
    """A point in time with nanoseconds, for what Python's `datetime` cannot hold.

    `epoch` are seconds since 1970-01-01 UTC from year -5879610 to 5879611, `nsec` nanoseconds, `tzoffset` minutes from
    UTC, `tzindex` the number of a time zone or 0. Equality and order are those of the moments, also beside an aware
    `datetime`. It never changes.

    Raises:
        ValueError: a part is out of range, or no time zone is called `tz`.
        TypeError: a part is no integer, or `tz` no text.
    """

    __slots__ = ("epoch", "nsec", "tzindex", "tzoffset")
    epoch: int
    nsec: int
    tzoffset: int
    tzindex: int

    def __init__(
        self, epoch: int, nsec: int = 0, tzoffset: int = 0, tzindex: int = 0, *, tz: str | None = None
    ) -> None:
        if tz is not None:
            if not isinstance(tz, str):
                raise TypeError(f"tz is the name of a time zone, not {type(tz).__name__}")
            tzindex = index_of(tz)
            if not tzindex:
                raise ValueError(f"unknown time zone {tz[:_SHOWN]!r}")
        for part in (epoch, nsec, tzoffset, tzindex):
            if not isinstance(part, int):
                raise TypeError(f"the parts of a datetime are integers, not {type(part).__name__}")
        if not (
            LEAST_SECOND <= epoch <= GREATEST_SECOND
            and 0 <= nsec < _NANOSECOND_LIMIT
            and LEAST_OFFSET <= tzoffset <= GREATEST_OFFSET
            and 0 <= tzindex <= GREATEST_INDEX
        ):
            raise ValueError("datetime out of range")
        _set_epoch(self, epoch)
        _set_nsec(self, nsec)
        _set_tzoffset(self, tzoffset)
        _set_tzindex(self, tzindex)

    @classmethod
    def unchecked(cls, epoch: int, nsec: int, tzoffset: int, tzindex: int) -> Datetime:
        """Return a value without checking its parts: Lua's datetimes may have parts that are out of range."""
        value = object.__new__(cls)
        _set_epoch(value, epoch)
        _set_nsec(value, nsec)
        _set_tzoffset(value, tzoffset)
        _set_tzindex(value, tzindex)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Datetime does not change")

    @property
    def tz(self) -> str:
        """The name of the time zone, or ''."""
        return zone_name(self.tzindex)

    @property
    def sort_key(self) -> int:
        """An integer that orders datetimes by their moments."""
        # 32 bits, because nanoseconds are lower than two billion.
        return (self.epoch << 32) + self.nsec

    def __eq__(self, other: object) -> bool:
        key = key_of(other)
        return NotImplemented if key is None else self.sort_key == key

    def __lt__(self, other: object) -> bool:
        key = key_of(other)
        return NotImplemented if key is None else self.sort_key < key

    def __le__(self, other: object) -> bool:
        key = key_of(other)
        return NotImplemented if key is None else self.sort_key <= key

    def __gt__(self, other: object) -> bool:
        key = key_of(other)
        return NotImplemented if key is None else self.sort_key > key

    def __ge__(self, other: object) -> bool:
        key = key_of(other)
        return NotImplemented if key is None else self.sort_key >= key

    def __hash__(self) -> int:
        moment = exact_utc(self)
        return hash(self.sort_key if moment is None else moment)

    def __reduce__(self) -> tuple[Any, ...]:
        return Datetime, (self.epoch, self.nsec, self.tzoffset, self.tzindex)

    def __str__(self) -> str:
        return datetime_text(self)

    def __repr__(self) -> str:
        return f"Datetime({self.epoch}, {self.nsec}, {self.tzoffset}, {self.tzindex})"


_set_epoch, _set_nsec, _set_tzoffset, _set_tzindex = (
    vars(Datetime)[name].__set__ for name in ("epoch", "nsec", "tzoffset", "tzindex")
)
"""The setters of the slots, for new objects: `__setattr__` refuses every change."""


def exact_utc(value: Datetime) -> datetime | None:
    """Return the moment in UTC, or None if Python's `datetime` cannot hold it."""
    if value.nsec % 1000 or value.nsec >= 1_000_000_000 or not _FIRST <= value.epoch < _LAST:
        return None
    return EPOCH + timedelta(seconds=value.epoch, microseconds=value.nsec // 1000)


def datetime_key(value: datetime | Datetime) -> int:
    """Return an integer in the order of moments. Raises ValueError for a datetime without a time zone."""
    if type(value) is Datetime:
        return value.sort_key
    assert isinstance(value, datetime)
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone")
    seconds, rest = divmod(value - EPOCH, timedelta(seconds=1))
    # Nanoseconds take the low 32 bits, as in `Datetime.sort_key`.
    return (seconds << 32) + rest // MICROSECOND * 1000


def key_of(value: object) -> int | None:
    """Return the sort key of a Datetime or an aware datetime; None for other values."""
    if type(value) is Datetime:
        return value.sort_key
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return datetime_key(value)
    return None


_PARTS: Final = ("year", "month", "week", "day", "hour", "min", "sec", "nsec")
_WIDE: Final = frozenset({"day", "hour", "min", "sec"})
"""The interval parts that have 64 bits; the others have 32."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, of which each part is kept as it is given: `Interval(month=1)` is no number of days.

    `adjust` is `none`, `last` or `excess`: what becomes of a day that the month of a sum does not have (see the
    module's text).

    Raises:
        ValueError: a part is no integer or does not fit its integer type, or `adjust` is unknown.
    """

    year: int = 0
    month: int = 0
    week: int = 0
    day: int = 0
    hour: int = 0
    min: int = 0
    sec: int = 0
    nsec: int = 0
    adjust: str = "none"

    def __post_init__(self) -> None:
        for name in _PARTS:
            value = getattr(self, name)
            if type(value) is not int:
                raise ValueError(f"{name} of an interval is an integer, not {type(value).__name__}")
            if value not in (_INT64 if name in _WIDE else _INT32):
                raise ValueError(f"{name} of an interval out of range: {value}")
        if not isinstance(self.adjust, str):
            raise ValueError(f"adjust of an interval is a text, not {type(self.adjust).__name__}")
        if self.adjust not in ADJUSTMENTS:
            raise ValueError(f"adjust of an interval is none, last or excess, not {self.adjust[:_SHOWN]!r}")

    def __str__(self) -> str:
        return interval_text(self)


# --- bodies ---


def encode_datetime(value: Datetime) -> bytes:
    """Return the body of a datetime."""
    return encode_parts(value.epoch, value.nsec, value.tzoffset, value.tzindex)


def encode_parts(epoch: int, nsec: int, tzoffset: int = 0, tzindex: int = 0) -> bytes:
    """Return the body of a datetime with the parts of `Datetime`."""
    if nsec or tzoffset or tzindex:
        return _LONG.pack(epoch, nsec, tzoffset, tzindex)
    return _SHORT.pack(epoch)


def utc_of_body(data: bytes) -> datetime | None:
    """Return the moment of a body in UTC; None if it has a time zone, or is none that Python's `datetime` can hold."""
    epoch = nsec = zone = 0
    if len(data) == _LONG.size:
        epoch, nsec, tzoffset, tzindex = _LONG.unpack(data)
        zone = tzoffset or tzindex
    elif len(data) == _SHORT.size:
        (epoch,) = _SHORT.unpack(data)
    else:
        return None
    if zone or nsec % 1000 or not (0 <= nsec < 1_000_000_000 and _FIRST <= epoch < _LAST):
        return None
    return EPOCH + timedelta(0, epoch, nsec // 1000)


def decode_datetime(data: bytes) -> Datetime:
    """Decode the body of a datetime. Raises ValueError if it is malformed."""
    if len(data) == _SHORT.size:
        return Datetime(*_SHORT.unpack(data))
    if len(data) == _LONG.size:
        return Datetime(*_LONG.unpack(data))
    raise ValueError("malformed datetime")


_pack = Packer(autoreset=True).pack


def encode_interval(value: Interval) -> bytes:
    """Return the body of an interval."""
    values = [getattr(value, name) for name in _PARTS]
    values.append(ADJUSTMENTS.index(value.adjust))
    pairs = [bytes((number,)) + _pack(part) for number, part in enumerate(values) if part]
    return bytes((len(pairs),)) + b"".join(pairs)


_INTEGER_SIZES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
"""The bytes after the marks of unsigned (cc to cf) and signed integers (d0 to d3)."""


def decode_interval(data: bytes) -> Interval:
    """Decode the body of an interval. Raises ValueError if it is malformed."""
    parts: dict[str, Any] = {"adjust": ADJUSTMENTS[0]}
    pos = 1
    for _ in range(data[0]):
        number, head = data[pos], data[pos + 1]
        # Integers from -32 to 127 are their own marks.
        end = pos + 2 + (0 if head < FIXMAP or head >= NEGATIVE_FIXINT else _INTEGER_SIZES[head])
        value = unpackb(data[pos + 1 : end])
        if value not in _INT64 or number > len(_PARTS):
            raise ValueError("malformed interval")
        if number == len(_PARTS):
            if value not in range(len(ADJUSTMENTS)):
                raise ValueError("malformed interval")
            parts["adjust"] = ADJUSTMENTS[value]
        else:
            name = _PARTS[number]
            # Tarantool reads 64 bits and assigns them to an int32_t, which keeps the low 32 bits with their sign.
            parts[name] = value if name in _WIDE else (value + 2**31) % 2**32 - 2**31
        pos = end
    if pos != len(data):
        raise ValueError("malformed interval")
    return Interval(**parts)
