"""PRINTF converts its arguments as Tarantool 2.8.1."""

from __future__ import annotations

import pytest

from test.unit.sql.conftest import Session


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'%s %q %Q', 1e0/3, 1e0/3, 1e0/3", "0.333333333333333 0.333333333333333 '0.333333333333333'"),
        ("'%5s|%.3s', 0.5, 1e0/3", "  0.5|0.3"),
        ("'%s', 0.1e0 + 0.2e0", "0.3"),
        ("'%d %i %x', 1.9, -1.9, 1e20", "1 -1 0"),
        ("'%d %d %d', '12', '12abc', '1.5'", "12 0 0"),
        ("'%d %d', x'3132', x'6162'", "12 0"),
        ("'%d %u %x', 18446744073709551615, 18446744073709551615, 18446744073709551615",
         "-1 18446744073709551615 ffffffffffffffff"),
        ("'%d %d', 9223372036854775808, '9223372036854775808'", "-9223372036854775808 -9223372036854775808"),
        ("'%f %f %f %g', '1.5', '12abc', x'31', '1e5'", "1.500000 0.000000 0.000000 100000"),
        ("'%*d|%.*f|', '5', 42, 2, 3.14159", "   42|3.14|"),
        ("'%s %d %f', true, true, true", "TRUE 0 0.000000"),
        ("'%s|%d|%Q', null, null, null", "|0|NULL"),
        ("'%%%c', 'xyz', 5", "%x"),
        ("1.5", "1.5"),
    ],
)  # fmt: skip
def test_values_are_converted(db: Session, arguments: str, text: str) -> None:
    assert db.value(f"select printf({arguments})") == text
