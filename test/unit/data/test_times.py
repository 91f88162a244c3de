"""Points in time and intervals: calendar, zones, encoding, texts, sums. Expected values follow Tarantool 2.11."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from box.data.codec import Ext, pack, unpack
from box.data.keydef import KeyDef, PartDef
from box.data.show import tuple_str
from box.data.times import arithmetic, bodies, calendar, iso, scan, shown, zones
from box.data.times.points import Datetime, Interval, decode_datetime, decode_interval, encode_datetime
from box.data.types import FieldType
from box.errors import BoxError

MOSCOW = ZoneInfo("Europe/Moscow")


def at(text: str) -> Datetime:
    """Parse a whole text as a point in time."""
    value, size = iso.read_datetime(text)
    assert size == len(text)
    return value


# --- calendar ---


def test_days_are_those_of_the_standard_library() -> None:
    for ordinal in range(1, date.max.toordinal(), 9973):
        day = date.fromordinal(ordinal)
        number = ordinal - calendar.EPOCH_ORDINAL
        parts = calendar.day_parts(number)
        assert (parts.year, parts.month, parts.day) == (day.year, day.month, day.day)
        assert (parts.yday, parts.wday) == (day.timetuple().tm_yday, day.isoweekday() % 7)
        assert calendar.iso_week(number) == day.isocalendar()[:2]
        assert calendar.day_of_date(day.year, day.month, day.day) == number
        assert calendar.day_of_year(day.year, parts.yday) == number
        assert calendar.day_of_week(*day.isocalendar()) == number


def test_days_reach_over_the_whole_range() -> None:
    first, last = calendar.day_parts(calendar.LEAST_DAY), calendar.day_parts(calendar.GREATEST_DAY)
    assert first[:3] == (-5879610, 6, 22)
    assert last[:3] == (5879611, 7, 11)
    for parts, number in ((first, calendar.LEAST_DAY), (last, calendar.GREATEST_DAY)):
        assert calendar.day_of_date(*parts[:3]) == number
    for number in range(calendar.LEAST_DAY, calendar.GREATEST_DAY, 99_999_989):
        assert calendar.day_of_date(*calendar.day_parts(number)[:3]) == number


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (calendar.day_of_date, (2023, 2, 29)),
        (calendar.day_of_date, (2023, 13, 1)),
        (calendar.day_of_date, (5879611, 7, 12)),
        (calendar.day_of_date, (-5879610, 6, 21)),
        (calendar.day_of_year, (2023, 366)),
        (calendar.day_of_quarter, (2023, 1, 91)),
        (calendar.day_of_quarter, (2023, 5, 1)),
        (calendar.day_of_week, (2023, 53, 1)),
        (calendar.day_of_week, (2023, 1, 8)),
    ],
)
def test_days_that_do_not_exist_are_refused(make: Any, numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        make(*numbers)


# --- zones ---


def test_zones_have_tarantool_numbers() -> None:
    assert [zones.index_of(name) for name in ("MSK", "Z", "UTC", "Europe/Moscow", "W-SU")] == [238, 25, 296, 947, 947]
    assert zones.names()[947] == "Europe/Moscow"
    assert zones.index_of("europe/moscow") == zones.index_of("Mars/Olympus") == 0
    assert zones.zone_named("amt") == ("AMT", zones.Zone(132, "AMT", None, True))
    assert len(zones.names()) == 630
    assert len(zones.spellings()) == 845


def test_offsets_follow_the_rules_of_any_century() -> None:
    summer, winter = 1_720_000_000, 1_705_000_000
    assert zones.offset_at("Europe/Berlin", summer) == (7200, True)
    assert zones.offset_at("Europe/Berlin", winter) == (3600, False)
    cycles = 146_097 * 86_400
    for more in (cycles, 9_000 * cycles):
        assert zones.offset_at("Europe/Berlin", summer + more) == (7200, True)
        assert zones.offset_at("Europe/Berlin", winter + more) == (3600, False)
    assert zones.offset_at("Europe/Moscow", -(10**14)) == (9017, False)
    assert zones.offset_at("Mars/Olympus", 0) is None


# --- MessagePack ---

EXACT = [
    datetime(2024, 2, 29, 12, 30, 1, 123456, UTC),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(2024, 7, 1, tzinfo=MOSCOW),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    datetime(2024, 7, 1, tzinfo=timezone(timedelta(hours=3), "MSK")),
    datetime(2024, 7, 1, tzinfo=timezone(timedelta(0), "Z")),
    datetime(2024, 7, 1, tzinfo=ZoneInfo("UTC")),
    datetime(1, 1, 3, tzinfo=UTC),
    datetime(9999, 12, 30, tzinfo=UTC),
]
OURS = [
    Datetime(0, 1),
    Datetime(0, 1_500_000_000),
    Datetime(2**40, 5000, 840, 0),
    Datetime(-185604722870400),
    Datetime(185480451417600),
    Datetime(0, 0, 60, 947),
    Datetime(0, 0, 0, 1000),
    Datetime(0, 0, 0, 26),
]


@pytest.mark.parametrize("value", EXACT, ids=str)
def test_datetimes_that_python_holds_are_those_of_python(value: datetime) -> None:
    found = unpack(pack(value))
    assert type(found) is datetime
    assert (found, found.utcoffset(), found.tzname()) == (value, value.utcoffset(), value.tzname())
    assert pack(found) == pack(value)


@pytest.mark.parametrize("value", OURS, ids=repr)
def test_other_datetimes_are_ours(value: Datetime) -> None:
    found = unpack(pack(value))
    assert type(found) is Datetime
    assert repr(found) == repr(value)
    assert repr(pickle.loads(pickle.dumps(value))) == repr(value)


@pytest.mark.parametrize("nsec", [0, 1, 1000, 999_999_000, 1_000_000_000, 1_999_999_000])
@pytest.mark.parametrize("epoch", [0, -1, 1709210000, -62135510400, -62135510401, 253402214399, 253402214400])
def test_moments_in_utc_are_decoded_as_all_others(epoch: int, nsec: int) -> None:
    value = Datetime(epoch, nsec)
    expected, found = bodies.to_python(value), bodies.decode(encode_datetime(value))
    assert type(found) is type(expected)
    assert str(found) == str(expected)
    assert bodies.encode(found) == encode_datetime(value)


def test_bodies_are_those_of_tarantool() -> None:
    assert pack(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).hex() == "d7040100000000000000"
    assert pack(Datetime(-1, 2, 180, 947)).hex() == "d804ffffffffffffffff02000000b400b303"
    assert pack(Interval(year=1, sec=-200, adjust="last")).hex() == "c7090603000106d1ff380802"
    assert pack(Interval(adjust="excess")).hex() == "d40600"
    assert unpack(bytes.fromhex("d40600")) == Interval(adjust="excess")


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (4, "01" * 7),
        (4, "01" * 12),
        (4, "ff" * 7 + "7f"),
        (4, "00" * 8 + "ffffffff00000000"),
        (4, "00" * 8 + "0094357700000000"),
        (4, "00" * 8 + "00000000490300" + "00"),
        (4, "00" * 8 + "000000000000ffff"),
        (6, "01"),
        (6, "010901"),
        (6, "0100a161"),
        (6, "010803"),
        (6, "0100cfffffffffffffffff"),
        (6, "01000101"),
        (6, "0100ce"),
    ],
)
def test_malformed_bodies_are_refused(code: int, body: str) -> None:
    with pytest.raises(BoxError, match="Invalid MsgPack"):
        unpack(pack([Ext(code, bytes.fromhex(body))]))
    with pytest.raises((ValueError, LookupError)):
        (decode_datetime if code == 4 else decode_interval)(bytes.fromhex(body))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Datetime(2**60),
        lambda: Datetime(0, -1),
        lambda: Datetime(0, 0, 900),
        lambda: Datetime(0, tz="Mars/Olympus"),
        lambda: Interval(year=2**31),
        lambda: Interval(day=1.5),  # type: ignore[arg-type]
        lambda: Interval(adjust="first"),
    ],
)
def test_values_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


def test_a_datetime_without_a_zone_or_with_too_large_an_offset_is_refused() -> None:
    with pytest.raises(BoxError, match="does not support a datetime without a time zone"):
        pack([datetime(2024, 1, 1)])
    with pytest.raises(BoxError, match="does not support datetime out of range"):
        pack([datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=15)))])


def test_datetimes_compare_by_their_moments() -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=MOSCOW)
    same, later = Datetime(int(noon.timestamp()), 0, 0, 0), Datetime(int(noon.timestamp()), 1)
    assert noon == same
    assert hash(noon) == hash(same)
    assert noon < later
    assert later > noon
    assert same <= later
    assert later >= same
    assert len({noon, same, later}) == 2
    assert same != "noon"
    with pytest.raises(AttributeError):
        same.nsec = 5


def test_keys_order_datetimes_by_their_moments() -> None:
    values = [Datetime(-(2**40)), *sorted(EXACT), Datetime(2**40), Datetime(2**40, 1)]
    for kind in (FieldType.DATETIME, FieldType.SCALAR):
        definition = KeyDef([PartDef(0, kind)])
        keys = [definition.extract([value]) for value in values]
        assert keys == sorted(keys)
        assert keys == [definition.parse([value]) for value in values]
        with pytest.raises(BoxError, match="without a time zone"):
            definition.parse([datetime(2024, 1, 1)])
    scalars = [True, 1, "a", b"a", EXACT[0]]
    keys = [KeyDef([PartDef(0, FieldType.SCALAR)]).extract([value]) for value in scalars]
    assert all(left < right for left, right in pairwise(keys))


# --- texts ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", "1970-01-01T00:00:00Z"),
        ("19700101T000102.5", "1970-01-01T00:01:02.500Z"),
        ("1970-01-01T00:00:00.0000015", "1970-01-01T00:00:00.000001500Z"),
        ("2012W521", "2012-12-24T00:00:00Z"),
        ("2012-W52-1T24:00:00", "2012-12-25T00:00:00Z"),
        ("2012Q485 12+3", "2012-12-24T12:00:00+0300"),
        ("2012-Q4-85", "2012-12-24T00:00:00Z"),
        ("2012359", "2012-12-24T00:00:00Z"),
        ("2012-359", "2012-12-24T00:00:00Z"),
        ("-001-12-31", "-001-12-31T00:00:00Z"),
        ("5879611-07-11T00:00 -0130", "5879611-07-11T00:00:00-0130"),
        ("2024-07-01T12:00 Europe/Berlin", "2024-07-01T12:00:00 Europe/Berlin"),
        ("2024-07-01T12:00z", "2024-07-01T12:00:00Z"),
        ("2024-07-01T12:00GMT+3", "2024-07-01T12:00:00+0300"),
        ("2024-07-01T12:00 MSK", "2024-07-01T12:00:00 MSK"),
    ],
)
def test_texts_are_read_and_shown(text: str, expected: str) -> None:
    if text.endswith("GMT+3"):
        with pytest.raises(iso.UnknownZone):
            at(text)
    else:
        assert str(at(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "x", "2024", "2024-1-01", "2024-02-30", "2024-01-01x", "2024-01-01T25", "2024-01-01T1", "20240101T1:00"],
)
def test_texts_that_are_no_points_in_time_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        iso.read_datetime(text)


def test_unknown_and_ambiguous_zones_are_told_apart() -> None:
    for name, is_ambiguous in (("XYZ", False), ("AMT", True), ("Europe/Moscow!", False)):
        with pytest.raises(iso.UnknownZone) as caught:
            iso.read_datetime(f"2024-01-01T00:00 {name}")
        assert caught.value.is_ambiguous is is_ambiguous


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%A %a %B %b %h", "Thursday Thu February Feb Feb"),
        ("%C %Y %y %G %g %V", "20 2024 24 2024 24 09"),
        ("%d %e %j %m %u %w %U %W", "29 29 060 02 4 4 08 09"),
        ("%H %I %k %l %M %S %p", "15 03 15  3 04 05 PM"),
        ("%s %Z %z", "1709219045 Europe/Moscow +0300"),
        ("%f %3f %12f %0f", "123456789 123 123456789 123456789"),
        ("%D|%F|%R|%r|%T|%v|%X|%x", "02/29/24|2024-02-29|15:04|03:04:05 PM|15:04:05|29-Feb-2024|15:04:05|02/29/24"),
        ("%c|%+", "Thu Feb 29 15:04:05 2024|Thu Feb 29 15:04:05 Europe/Moscow 2024"),
        ("%% %EY %OH %5x %q%n%t", "% 2024 15 5x q\n\t"),
        ("", ""),
    ],
)
def test_formats_show_every_part(template: str, expected: str) -> None:
    assert shown.formatted(at("2024-02-29T15:04:05.123456789 Europe/Moscow"), template) == expected


@pytest.mark.parametrize(("year", "shown_as"), [(-5879610, "-5879610"), (-5, "-005"), (0, "0000"), (12345, "12345")])
def test_years_have_four_digits_or_more(year: int, shown_as: str) -> None:
    day = calendar.day_of_date(year, 12, 31)
    assert shown.formatted(Datetime(day * 86_400), "%Y") == shown_as


@pytest.mark.parametrize(
    ("text", "template", "expected"),
    [
        ("24/12/2012 10:11:12.5", "%d/%m/%Y %H:%M:%S.%f", "2012-12-24T10:11:12.500Z"),
        ("Mon Dec 24 15:30:01 2012", "%c", "2012-12-24T15:30:01Z"),
        ("monday, 24 december 12", "%A, %d %B %y", "2012-12-24T00:00:00Z"),
        ("10:11:12 pm +0330", "%r %z", "1970-01-01T22:11:12+0330"),
        ("2012 359", "%Y %j", "2012-12-24T00:00:00Z"),
        ("2012 52 1", "%Y %W %u", "2012-12-24T00:00:00Z"),
        ("-5879610-06-22", "%Y-%m-%d", "-5879610-06-22T00:00:00Z"),
        ("68 69", "%y 69", "2068-01-01T00:00:00Z"),
        ("69", "%y", "1969-01-01T00:00:00Z"),
        ("20 24", "%C %y", "2024-01-01T00:00:00Z"),
        ("12:00 MSK", "%R %Z", "1970-01-01T12:00:00 MSK"),
        ("12:00 QQQ", "%R %Z", "1970-01-01T12:00:00Z"),
        ("% 5", "%% %e", "1970-01-05T00:00:00Z"),
    ],
)
def test_texts_are_read_after_a_format(text: str, template: str, expected: str) -> None:
    value, size = scan.read_formatted(text, template)
    assert (str(value), size) == (expected, len(text))


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("32", "%d"),
        ("13", "%m"),
        ("60", "%M"),
        ("x", "y"),
        ("1", "%5d"),
        ("1", "%q"),
        ("2023-02-29", "%F"),
        ("+1430", "%z"),
        ("-1201", "%z"),
        ("+1", "%z"),
        ("13 pm", "%H %p"),
    ],
)
def test_texts_that_do_not_follow_the_format_are_refused(text: str, template: str) -> None:
    with pytest.raises(ValueError):
        scan.read_formatted(text, template)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (Interval(), "+0 seconds"),
        (Interval(year=1, month=-2, nsec=3), "+1 years, -2 months, 3 nanoseconds"),
        (Interval(nsec=-3), "+0 seconds, -3 nanoseconds"),
        (Interval(week=1, day=2, hour=3, min=4, sec=5), "+1 weeks, 2 days, 3 hours, 4 minutes, 5 seconds"),
    ],
)
def test_intervals_show_their_parts(interval: Interval, expected: str) -> None:
    assert str(interval) == expected
    assert tuple_str(pack([interval, EXACT[0]])) == f"[{expected}, 2024-02-29T12:30:01.123456Z]"


# --- sums ---


@pytest.mark.parametrize(
    ("text", "interval", "expected"),
    [
        ("2024-01-31", Interval(month=1), "2024-02-29T00:00:00Z"),
        ("2024-01-31", Interval(month=1, adjust="excess"), "2024-03-02T00:00:00Z"),
        ("2024-02-29", Interval(month=1, adjust="last"), "2024-03-31T00:00:00Z"),
        ("2024-02-29", Interval(year=1), "2025-02-28T00:00:00Z"),
        ("2024-03-30T12:00 Europe/Berlin", Interval(day=1), "2024-03-31T12:00:00 Europe/Berlin"),
        ("2024-01-01", Interval(nsec=-1), "2023-12-31T23:59:59.999999999Z"),
        ("2024-01-01", Interval(week=1, day=1, hour=1, min=1, sec=1), "2024-01-09T01:01:01Z"),
    ],
)
def test_sums_go_part_by_part(text: str, interval: Interval, expected: str) -> None:
    assert str(arithmetic.add(at(text), interval)) == expected


def test_sums_out_of_range_are_refused() -> None:
    for direction, is_late in ((1, True), (-1, False)):
        for interval in (
            Interval(year=6_000_000),
            Interval(month=80_000_000),
            Interval(day=2**32),
            Interval(sec=2**50),
        ):
            with pytest.raises(arithmetic.OutOfRange) as caught:
                arithmetic.add(at("2024-01-01"), interval, direction)
            assert caught.value.is_late is is_late
    with pytest.raises(arithmetic.PartOutOfRange) as part:
        arithmetic.combine(Interval(year=11_000_000), Interval(year=11_000_000))
    assert (part.value.name, part.value.value) == ("year", 22_000_000)


def test_differences_keep_each_part() -> None:
    found = arithmetic.difference(at("2024-03-01T12:00+0300"), at("2023-12-31T23:59:58.5"))
    expected = Interval(year=1, month=-9, day=-30, hour=-11, min=-59 - 180, sec=-58, nsec=-500_000_000)
    assert found == expected
    assert arithmetic.combine(Interval(day=3), Interval(day=1, sec=1), -1) == Interval(day=2, sec=-1)
