"""Packed keys sort as their parts do, and ranges of partial keys are those of the parts."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from box.data.codec import pack
from box.data.keydef import TOP, KeyDef, PartDef
from box.data.types import FieldType as T
from box.index import IndexDef, IteratorType, create_index
from box.index.packed import after_all, is_packable, pack_parts, packer, packer_of_all

NUMBERS = (0, 1, 255, 256, 2**32, 2**63, 2**64 - 2, 2**64 - 1)
TEXTS = (
    "",
    "\0",
    "\0\0",
    "a",
    "a\0",
    "a\0b",
    "a\0\0",
    "a\1",
    "ab",
    "b",
    "\xff",
    "\u00ff\0",
    "\udcff",
    "\udcff\udcff",
    "я",
)
DEFINITIONS = {
    "text, number": KeyDef([PartDef(1, T.STRING), PartDef(0, T.UNSIGNED)]),
    "number, text": KeyDef([PartDef(0, T.UNSIGNED), PartDef(1, T.STRING)]),
    "numbers": KeyDef([PartDef(2, T.UNSIGNED), PartDef(0, T.UNSIGNED)]),
    "texts and a number": KeyDef([PartDef(1, T.STRING), PartDef(3, T.VARBINARY), PartDef(0, T.UNSIGNED)]),
    "number, texts": KeyDef(
        [PartDef(0, T.UNSIGNED), PartDef(2, T.UNSIGNED), PartDef(1, T.STRING), PartDef(3, T.VARBINARY)]
    ),
}


def some_fields(count: int) -> list[list[Any]]:
    """Generate fields [number, text, number, bytes], many of them equal or with equal beginnings."""
    chooser = random.Random(7)
    texts = [*TEXTS, *("".join(chooser.choices("\0\1a\udcff", k=4)) for _ in range(30))]
    return [
        [
            chooser.choice(NUMBERS),
            chooser.choice(texts),
            chooser.choice(NUMBERS),
            chooser.choice(texts).encode(errors="surrogateescape"),
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_order_is_that_of_the_parts(name: str) -> None:
    definition = DEFINITIONS[name]
    assert is_packable(definition)
    fields = some_fields(400)
    pack_fields = packer(definition)
    by_parts = sorted(fields, key=definition.extract)
    assert sorted(fields, key=pack_fields) == by_parts
    for one, other in pairwise(by_parts):
        assert (pack_fields(one) == pack_fields(other)) == (definition.extract(one) == definition.extract(other))
        assert pack_fields(one) == pack_parts(definition.extract(one))


@pytest.mark.parametrize("kind", [T.UNSIGNED, T.STRING])
def test_places_inside_fields_are_packed(kind: T) -> None:
    """Parts with paths have the packed keys of their values; those of a multikey definition are not repeated."""
    values = [0, 1, 256, 1, 2**64 - 1] if kind is T.UNSIGNED else ["", "a", "a\0b", "a", "\udcff"]
    inner = KeyDef([PartDef(1, kind, path="a[1]"), PartDef(0, T.UNSIGNED)])
    many = KeyDef([PartDef(1, kind, path="a[*]"), PartDef(0, T.UNSIGNED)])
    assert is_packable(inner)
    assert is_packable(many)
    keys = [pack_parts(inner.extract([7, {"a": [value]}])) for value in values]
    assert [packer(inner)([7, {"a": [value]}]) for value in values] == keys
    assert packer_of_all(many)([7, {"a": values}]) == list(dict.fromkeys(keys))
    assert packer_of_all(many)([7, {}]) == []
    assert sorted(keys) == keys[:1] + sorted(keys[1:])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_prefix_ends_before_the_next(name: str) -> None:
    """Exactly the keys that begin with a prefix are between the prefix and its upper bound."""
    definition = DEFINITIONS[name]
    fields = some_fields(150)
    keys = [(definition.extract(row), packer(definition)(row)) for row in fields]
    for parts, _ in keys:
        for size in range(1, len(parts) + 1):
            low = pack_parts(parts[:size])
            high = after_all(low)
            for other, packed in keys:
                assert (low <= packed < high) == (other[:size] == parts[:size])


def test_behind_the_greatest_is_the_top() -> None:
    assert after_all(pack_parts([2**64 - 1, 2**64 - 1])) is TOP
    assert pack_parts([2**64 - 1]) < TOP


@pytest.mark.parametrize(
    "parts",
    [
        [PartDef(0, T.UNSIGNED)],
        [PartDef(1, T.STRING, is_nullable=True), PartDef(0, T.UNSIGNED)],
        [PartDef(1, T.STRING, collation_id=1), PartDef(0, T.UNSIGNED)],
        [PartDef(1, T.INTEGER), PartDef(0, T.UNSIGNED)],
        [PartDef(1, T.STRING, path="a.b", is_nullable=True), PartDef(0, T.UNSIGNED)],
    ],
)
def test_other_keys_stay_tuples(parts: list[PartDef]) -> None:
    assert not is_packable(KeyDef(parts))


@pytest.mark.parametrize("iterator", list(IteratorType)[:7])
def test_scans_are_those_of_the_parts(iterator: IteratorType) -> None:
    """Scans by whole and partial keys, with the greatest number among them, give the entries of unpacked keys."""
    primary = KeyDef([PartDef(2, T.UNSIGNED)])
    parts = (PartDef(0, T.UNSIGNED), PartDef(1, T.STRING))
    index = create_index(IndexDef(512, 1, "i", "TREE", False, parts), primary, space_name="test")
    plain = KeyDef([*parts, PartDef(2, T.UNSIGNED)])
    rows = {}
    for number, row in enumerate(some_fields(200)):
        row[2] = number
        rows[plain.extract(row)] = pack(number)
        index.put(index.key_of(row), rows[plain.extract(row)])
    own = KeyDef(parts)
    compare = {
        IteratorType.EQ: lambda part, key: part == key,
        IteratorType.REQ: lambda part, key: part == key,
        IteratorType.ALL: lambda part, key: part >= key,
        IteratorType.LT: lambda part, key: part < key,
        IteratorType.LE: lambda part, key: part <= key,
        IteratorType.GE: lambda part, key: part >= key,
        IteratorType.GT: lambda part, key: part > key,
    }[iterator]
    for number in NUMBERS:
        for values in ([number], [number, "a"], [number, "a\0"], [number, ""]):
            key = own.parse_parts(values)
            expected = [rows[full] for full in sorted(rows) if compare(full[: len(key)], key)]
            found = index.select(iterator, values, 0, 1000)
            assert found == (expected[::-1] if iterator.is_reverse else expected)
            assert index.count(iterator, values) == len(rows if iterator is IteratorType.ALL else expected)
            assert index.cursor(iterator, values).fetch(1000) == found
