"""Tuples as text in messages."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.data.show import tuple_str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["Barbara", 2012], '["Barbara", 2012]'),
        ([1, -1, None, True, False], "[1, -1, null, true, false]"),
        ([1.5, 1e100, 0.1, 1 / 3], "[1.5, 1e+100, 0.1, 0.333333]"),
        ([123456789.123, 1e15, float("inf")], "[1.23457e+08, 1e+15, inf]"),
        ([float("nan"), -float("nan")], "[nan, -nan]"),
        (['a"b\\c\n\t/\x01\x7fé'], r'["a\"b\\c\n\t\/\u0001\u007fé"]'),
        ([{"a": 1, 2: [None]}, {}, []], '[{"a": 1, 2: [null]}, {}, []]'),
        ([Decimal("1.50"), Decimal("1E10"), Decimal("1E-10")], "[1.50, 10000000000, 0.0000000001]"),
        ([UUID(int=1)], "[00000000-0000-0000-0000-000000000001]"),
        ([b'bin"'], r'["bin\""]'),
    ],
)
def test_text(value: list[Any], text: str) -> None:
    assert tuple_str(pack(value)) == text


def test_unknown_extension() -> None:
    assert tuple_str(b"\x91\xc7\x03\x07abc") == "[(extension: type 7, len 3)]"


def test_deep_nesting_is_cut() -> None:
    value: list[Any] = []
    for _ in range(40):
        value = [value]
    assert tuple_str(pack(value)) == "[" * 33 + "..." + "]" * 33


def test_long_text_is_cut() -> None:
    assert len(tuple_str(pack(["x" * 5000]))) == 1023
    assert len(tuple_str(pack(["é" * 1000])).encode("utf-8", "surrogateescape")) == 1023


def test_what_is_no_tuple() -> None:
    assert tuple_str(b"\x92\x01") == "<failed to format tuple>"
