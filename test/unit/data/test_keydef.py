"""Sort keys order tuples as Tarantool does."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from operator import itemgetter
from typing import Any
from uuid import UUID

import pytest

from box.data.keydef import NAN, TOP, KeyDef, PartDef
from box.data.types import FieldType as T
from box.errors import BoxError, ErrorCode

NAN_VALUE = float("nan")
INF = float("inf")


def error_of(key: KeyDef, values: list[Any], exact: bool = True) -> tuple[str, str]:
    with pytest.raises(BoxError) as raised:
        key.parse(values, exact)
    return ErrorCode(raised.value.code).name, raised.value.message


def test_the_commonest_key_costs_no_python_call() -> None:
    assert isinstance(KeyDef([PartDef(0, T.UNSIGNED)]).extract, itemgetter)


ASCENDING: dict[T, list[Any]] = {
    T.UNSIGNED: [0, 1, 2**63, 2**64 - 1],
    T.INTEGER: [-(2**63), -1, 0, 1, 2**64 - 1],
    T.NUMBER: [NAN_VALUE, -INF, -(2**63), -1.5, -1, Decimal("-0.5"), 0, 0.1, 1, 1.5, 2**53 + 1, 2.0**53 + 2, INF],
    T.DOUBLE: [NAN_VALUE, -INF, -1.5, 0.0, 1e300],
    T.DECIMAL: [Decimal("-1.5"), Decimal("0"), Decimal("1.25")],
    T.STRING: ["", "A", "AB", "B", "a", "é", "\ud7ff", "\ue000", "\U0001f600"],
    T.VARBINARY: [b"", b"\x00", b"a", b"\xff"],
    T.BOOLEAN: [False, True],
    T.UUID: [UUID(int=0), UUID(int=2**127 - 1), UUID(int=2**127), UUID(int=2**128 - 1)],
    T.SCALAR: [False, True, NAN_VALUE, -1, 0.5, 1, "", "a", b"", b"a"],
}


@pytest.mark.parametrize("kind", list(ASCENDING))
@pytest.mark.parametrize("nullable", [False, True])
def test_order_of_each_type(kind: T, nullable: bool) -> None:
    """Keys of strictly ascending values ascend strictly; a user's key equals the tuple's."""
    key = KeyDef([PartDef(1, kind, is_nullable=nullable)])
    values = [None, *ASCENDING[kind]] if nullable else ASCENDING[kind]
    keys = [key.extract(["x", value]) for value in values]
    for (low, low_value), (high, high_value) in itertools.combinations(zip(keys, values, strict=True), 2):
        assert low < high, (low_value, high_value)
        assert not high < low
        assert low != high
    assert keys == [key.parse([value], False) for value in values]
    assert len({hash(one) for one in keys}) > 1


def test_equal_numbers_of_different_kinds_are_one_key() -> None:
    key = KeyDef([PartDef(0, T.NUMBER)])
    keys = {key.extract([value]) for value in (1, 1.0, Decimal("1"), Decimal("1.00"))}
    assert len(keys) == 1


def test_a_missing_nullable_field_is_nil() -> None:
    key = KeyDef([PartDef(3, T.STRING, is_nullable=True)])
    assert key.extract([1]) == key.extract([1, 2, 3, None]) == key.parse([None], False)


def test_several_parts_make_a_tuple() -> None:
    key = KeyDef([PartDef(1, T.STRING), PartDef(0, T.UNSIGNED)])
    assert key.extract([7, "a"]) == (b"a", 7) == key.parse(["a", 7])
    assert key.parse(["a"], False) == (b"a",)
    assert key.parse([], False) == ()


def test_text_that_is_not_utf8_orders_by_its_bytes() -> None:
    key = KeyDef([PartDef(0, T.STRING)])
    assert key.extract(["a\udcff"]) == b"a\xff" == key.parse(["a\udcff"])


def test_paths() -> None:
    key = KeyDef([PartDef(1, T.UNSIGNED, path="a.b[2]"), PartDef(1, T.STRING, is_nullable=True, path='["c"]')])
    assert key.extract([0, {"a": {"b": [1, 2]}, "c": "x"}]) == (2, (True, b"x"))
    assert key.extract([0, {"a": {"b": [1, 2]}}]) == (2, (False,))


def test_multikey_has_a_key_for_every_element() -> None:
    """A multikey index has each key once, with the tuple's other parts; a tuple without the array has no key."""
    key = KeyDef([PartDef(1, T.UNSIGNED, path="[*].a"), PartDef(0, T.UNSIGNED)])
    assert key.is_multikey
    assert key.extract_all([7, [{"a": 2}, {"a": 1}, {"a": 2}]]) == ((2, 7), (1, 7))
    assert key.extract_all([7, []]) == key.extract_all([7, None]) == key.extract_all([7]) == ()
    deep = KeyDef([PartDef(1, T.STRING, is_nullable=True, path="x[2][*]")])
    assert deep.extract_all([1, {"x": [0, ["b", None]]}]) == ((True, b"b"), (False,))
    assert deep.extract_all([1, {"x": [0, ["\udcff"]]}]) == ((True, b"\xff"),)


def test_errors_of_users_keys() -> None:
    key = KeyDef([PartDef(0, T.UNSIGNED), PartDef(1, T.STRING)])
    assert error_of(key, [1]) == ("EXACT_MATCH", "Invalid key part count in an exact match (expected 2, got 1)")
    assert error_of(key, []) == ("EXACT_MATCH", "Invalid key part count in an exact match (expected 2, got 0)")
    assert error_of(key, [1, "a", 2], False) == ("KEY_PART_COUNT", "Invalid key part count (expected [0..2], got 3)")
    assert error_of(key, ["a", "b"]) == (
        "KEY_PART_TYPE",
        "Supplied key type of part 0 does not match index part type: expected unsigned",
    )
    assert error_of(key, [1, 2], False)[1].startswith("Supplied key type of part 1 ")
    assert error_of(key, [-1], False)[0] == "KEY_PART_TYPE"


def test_nil_in_a_key() -> None:
    """Partial scans accept a nil of a nullable part, exact matches do not."""
    key = KeyDef([PartDef(0, T.UNSIGNED, is_nullable=True)])
    assert key.parse([None], False) == (False,)
    assert error_of(key, [None])[0] == "KEY_PART_TYPE"
    assert error_of(KeyDef([PartDef(0, T.UNSIGNED)]), [None], False)[0] == "KEY_PART_TYPE"


def test_merge_adds_what_is_missing() -> None:
    primary = KeyDef([PartDef(0, T.UNSIGNED), PartDef(1, T.STRING)])
    merged = KeyDef([PartDef(1, T.STRING), PartDef(2, T.UNSIGNED)]).merge(primary)
    assert [part.fieldno for part in merged.parts] == [1, 2, 0]
    other_collation = KeyDef([PartDef(1, T.STRING, collation_id=2)]).merge(primary)
    assert [part.fieldno for part in other_collation.parts] == [1, 0, 1]


def test_the_edges() -> None:
    """TOP sorts after, and NAN before, every part."""
    parts: list[Any] = [0, -1.5, Decimal(1), b"a", True, (True, 1), (False,), (2, b"x")]
    for part in parts:
        assert (part,) < (TOP,)
        assert not (part,) > (TOP,)
    assert (1, TOP) > (1,)
    for number in (0, -INF, Decimal("-1e30")):
        assert number > NAN
        assert number > NAN


def test_extraction_agrees_with_the_plain_way() -> None:
    """The compiled extraction gives the keys of the single part functions, for random definitions."""
    rnd = random.Random(7)
    kinds = list(ASCENDING)
    for _ in range(100):
        parts = [
            PartDef(number, rnd.choice(kinds), is_nullable=rnd.random() < 0.3) for number in range(rnd.randint(1, 4))
        ]
        key = KeyDef(rnd.sample(parts, len(parts)))
        fields = [
            None if part.is_nullable and rnd.random() < 0.5 else rnd.choice(ASCENDING[part.type]) for part in parts
        ]
        assert key.extract(fields) == key.general.extract(fields)
        assert key.extract(fields) == key.general.parse(key.extract_values(fields), False)
