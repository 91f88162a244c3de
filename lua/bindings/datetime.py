"""`datetime`: points in time and intervals, which cross the boundary as the bytes of their C structures.

    struct datetime   double epoch | int32 nsec | int16 tzoffset | int16 tzindex
    struct interval   double sec, min, hour, day | int32 week, month, year, nsec, adjust | 4 bytes

Texts cross as bytes and are read here as Latin-1, so that places count bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from box.data import codec
from box.data.times import calendar, points, shown, zones
from box.data.times.points import ADJUSTMENTS, Datetime, Interval
from lua.bindings.binding import Binding, exported

_DATETIME: Final = struct.Struct("<dihh")
_INTERVAL: Final = struct.Struct("<ddddiiiii4x")
_LEAST: Final = -(2**63)
"""What a conversion in C gives for a double that fits no integer, also for NaN."""
_BILLION: Final = 1_000_000_000


def _whole(number: float) -> int:
    """Convert a double to an integer as C does."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else _LEAST


def _datetime(raw: bytes) -> Datetime:
    epoch, *rest = _DATETIME.unpack(raw)
    return Datetime.unchecked(_whole(epoch), *rest)


def _raw_datetime(value: Datetime) -> bytes:
    return _DATETIME.pack(value.epoch, value.nsec, value.tzoffset, value.tzindex)


def _interval(raw: bytes) -> Interval:
    sec, minute, hour, day, week, month, year, nsec, adjust = _INTERVAL.unpack(raw)
    return Interval(
        year, month, week, _whole(day), _whole(hour), _whole(minute), _whole(sec), nsec, ADJUSTMENTS[adjust % 3]
    )


def _raw_interval(value: Interval) -> bytes:
    return _INTERVAL.pack(
        value.sec,
        value.min,
        value.hour,
        value.day,
        value.week,
        value.month,
        value.year,
        value.nsec,
        ADJUSTMENTS.index(value.adjust),
    )


def _until_zero(data: bytes) -> str:
    """Return a text up to its first zero byte, as C reads it."""
    return data.split(b"\0", 1)[0].decode("latin-1")


class DatetimeBinding(Binding):
    """Python half of lua/modules/datetime.lua. A method returns None if it has no result."""

    # --- texts ---

    @exported("datetime_text")
    def text(self, raw: bytes) -> bytes:
        """Return the text of a point in time by ISO 8601."""
        return shown.datetime_text(_datetime(raw)).encode()

    @exported("datetime_format")
    def format(self, raw: bytes, template: bytes) -> bytes:
        """Return the text of a point in time in a given format."""
        return shown.formatted(_datetime(raw), _until_zero(template)).encode("latin-1")

    @exported("datetime_parse")
    def parse(self, text: bytes) -> tuple[bytes | None, int | bytes]:
        """Return the point in time at the beginning of a text, and the number of bytes read; or None and the problem
        with the zone.
        """
        from box.data.times import iso

        try:
            value, size = iso.read_datetime(text.decode("latin-1"))
        except iso.UnknownZone as error:
            return None, b" - ambiguous timezone" if error.is_ambiguous else b""
        except ValueError:
            return None, b""
        return _raw_datetime(value), size

    @exported("datetime_scan")
    def scan(self, text: bytes, template: bytes) -> tuple[bytes | None, int]:
        """Return the point in time that a text gives in a certain format, and the number of bytes read."""
        from box.data.times import scan

        try:
            value, size = scan.read_formatted(_until_zero(text), _until_zero(template))
        except ValueError:
            return None, 0
        return _raw_datetime(value), size

    @exported("datetime_parse_date")
    def parse_date(self, text: bytes) -> tuple[int | None, int]:
        """Return the day number of the date at the beginning of a text, and the number of bytes read."""
        from box.data.times import iso

        try:
            return iso.read_date(text.decode("latin-1"))
        except ValueError:
            return None, 0

    @exported("interval_text")
    def interval_text(self, raw: bytes) -> bytes:
        """Return the text of an interval."""
        return shown.interval_text(_interval(raw)).encode()

    # --- zones ---

    @exported("datetime_zone")
    def zone(self, name: bytes, base: float) -> tuple[int | None, int | bytes]:
        """Return the offset in minutes and the number of a zone at a moment; or None and the problem with its name."""
        from box.data.times import iso

        try:
            offset, index, end = iso.read_zone(name.decode("latin-1"), 0, _whole(base))
        except iso.UnknownZone as error:
            return None, b" - ambiguous timezone" if error.is_ambiguous else b""
        return (offset, index) if end else (None, b"")

    @exported("datetime_offset")
    def offset(self, text: bytes) -> int | None:
        """Return the minutes of an offset; the text must contain nothing else."""
        from box.data.times import iso

        found = iso.read_offset(text.decode("latin-1"))
        return found[0] if found is not None and found[1] == len(text) else None

    @exported("datetime_is_dst")
    def is_dst(self, raw: bytes) -> bool:
        """Return whether it is daylight saving time in the zone."""
        value = _datetime(raw)
        found = zones.index_offset_at(value.tzindex, value.epoch)
        return found is not None and found[1]

    @exported("datetime_zones")
    def zones(self) -> bytes:
        """Return a MessagePack map: names of zones by number, and numbers by all names."""
        return codec.pack({**zones.spellings(), **zones.names()})

    @exported("datetime_now")
    def now(self) -> bytes:
        """Return the present time in microseconds, with the offset of the machine."""
        clocks = self.runtime.machine.clocks
        epoch, nsec = divmod(clocks.read("realtime"), _BILLION)
        # Whole microseconds, because Tarantool reads this clock with gettimeofday.
        return _DATETIME.pack(epoch, nsec // 1000 * 1000, zones.whole_minutes(clocks.utc_offset(epoch)), 0)

    # --- calendar ---

    @exported("datetime_day")
    def day(self, year: float, month: float, day: float) -> int | None:
        """Return the number of days from 1970-01-01 to a date."""
        try:
            return calendar.day_of_date(int(year), int(month), int(day))
        except ValueError:
            return None

    @exported("datetime_month_length")
    def month_length(self, year: float, month: float) -> int:
        """Return the number of days in a month."""
        return calendar.days_in_month(int(year), int(month))

    @exported("datetime_date")
    def date(self, day: float) -> tuple[int, int, int, int, int]:
        """Return year, month, day, day of the year and day of the week (1 is Sunday) of a day."""
        found = calendar.day_parts(_whole(day))
        return found.year, found.month, found.day, found.yday, found.wday + 1

    @exported("datetime_clock")
    def clock(self, raw: bytes) -> tuple[int, int, int]:
        """Return hour, minute and second, which are negative before 1970."""
        from box.data.times import arithmetic

        found = arithmetic.time_of_day(_datetime(raw))
        return found.hour, found.min, found.sec

    # --- arithmetic ---

    @exported("datetime_add")
    def add(self, moment: bytes, interval: bytes, direction: float) -> tuple[bytes | None, bool]:
        """Return a point in time plus or minus an interval; or None, and whether the result would be too late (or too
        early).
        """
        from box.data.times import arithmetic

        try:
            return _raw_datetime(arithmetic.add(_datetime(moment), _interval(interval), int(direction))), False
        except arithmetic.OutOfRange as error:
            return None, error.is_late

    @exported("datetime_difference")
    def difference(self, left: bytes, right: bytes) -> bytes | tuple[None, bytes, int]:
        """Return the interval between two points in time; or None, and the name and value of the part that is out of
        range.
        """
        from box.data.times import arithmetic

        try:
            return _raw_interval(arithmetic.difference(_datetime(left), _datetime(right)))
        except arithmetic.PartOutOfRange as error:
            return None, error.name.encode(), error.value

    @exported("interval_combine")
    def combine(self, left: bytes, right: bytes, direction: float) -> bytes | tuple[None, bytes, int]:
        """Return the sum or difference of two intervals; or None, and the name and value of the part that is out of
        range.
        """
        from box.data.times import arithmetic

        try:
            return _raw_interval(arithmetic.combine(_interval(left), _interval(right), int(direction)))
        except arithmetic.PartOutOfRange as error:
            return None, error.name.encode(), error.value

    # --- MessagePack ---

    @exported("interval_pack")
    def pack(self, raw: bytes) -> bytes:
        """Return an interval as a MessagePack extension."""
        return codec.pack(_interval(raw))

    @exported("interval_unpack")
    def unpack(self, body: bytes) -> bytes | None:
        """Return an interval from the body of its extension; None for a malformed one."""
        try:
            return _raw_interval(points.decode_interval(body))
        except (ValueError, LookupError):
            return None

    @exported("datetime_check")
    def check(self, body: bytes) -> bool:
        """Return whether the body of an extension is a valid datetime."""
        try:
            points.decode_datetime(body)
        except ValueError:
            return False
        return True
