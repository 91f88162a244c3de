"""BITSET indexes: every iterator against a model, the order of results, views and layers while the index changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from BTrees.OOBTree import OOBTree

from box.data.codec import pack, unpack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode
from box.index import IndexDef, create_index
from box.index import IteratorType as I
from box.index.bitset import BitsetIndex
from box.index.layered import GONE
from box.index.view import open_view

PRIMARY = KeyDef([PartDef(0, FieldType.UNSIGNED)])
MATCHES: dict[int, Callable[[int, int], bool]] = {
    I.BITS_ALL_SET: lambda value, key: key != 0 and value & key == key,
    I.BITS_ANY_SET: lambda value, key: value & key != 0,
    I.BITS_ALL_NOT_SET: lambda value, key: value & key == 0,
    I.EQ: lambda value, key: value == key,
    I.ALL: lambda value, key: True,
}


def make(kind: FieldType = FieldType.UNSIGNED, path: str | None = None) -> BitsetIndex:
    definition = IndexDef(512, 1, "i", "BITSET", False, (PartDef(1, kind, path=path),))
    index = create_index(definition, PRIMARY, space_name="s")
    assert isinstance(index, BitsetIndex)
    return index


def put(index: BitsetIndex, *fields: Any) -> bytes:
    raw = pack(list(fields))
    index.put(index.key_of(list(fields)), raw)
    return raw


def rows_of(found: list[bytes]) -> list[Any]:
    return [unpack(raw)[0] for raw in found]


def test_every_iterator_selects_what_the_model_selects() -> None:
    """Each iterator selects the model's tuples in the order of their internal numbers, of which the last freed is
    reused first.
    """
    source, index = random.Random(1), make()
    numbers: list[list[int] | None] = []
    free: list[int] = []
    for step in range(600):
        if source.random() < 0.7:
            row = [step, source.choice((0, 1, source.randrange(64), source.randrange(1 << 64)))]
            put(index, *row)
            if free:
                numbers[free.pop()] = row
            else:
                numbers.append(row)
        elif any(numbers):
            number = source.choice([number for number, row in enumerate(numbers) if row])
            gone = numbers[number]
            assert gone is not None
            index.remove(index.key_of(gone))
            numbers[number] = None
            free.append(number)
    for key in (0, 1, 2, 3, 5, 63, 1 << 63, (1 << 64) - 1, *(row[1] for row in numbers[:20] if row)):
        for iterator, matches in MATCHES.items():
            expected = [row[0] for row in numbers if row and matches(row[1], key)]
            assert rows_of(index.select(iterator, [key], 0, 1000)) == expected
            assert rows_of([entry for chunk in index.scan_chunks(iterator, [key], 3) for entry in chunk]) == expected
            assert rows_of(index.select(iterator, [key], 2, 3)) == expected[2:5]
            assert index.count(iterator, [key]) == (len(index) if iterator == I.ALL else len(expected))


def test_a_moved_tuple_keeps_its_number() -> None:
    """A move to another key finds what a removal and a new key would, also with changes over the tree; views stay."""
    source = random.Random(3)
    one, other = make(), make()
    values = {number: source.randrange(1 << 18) for number in range(200)}
    for index in (one, other):
        for number, value in values.items():
            put(index, number, value)
    former = [pack([number, value]) for number, value in values.items()]
    view = open_view(one)
    for step in range(600):
        number, value = source.randrange(200), source.randrange(1 << source.choice((3, 18, 40)))
        old, new, raw = one.key_of([number, values[number]]), one.key_of([number, value]), pack([number, value])
        if old == new:
            continue
        if step == 300:
            one.lay_over(OOBTree({old: GONE, new: raw}), 0)
        else:
            one.move(old, new, raw)
        other.remove(old)
        other.put(new, raw)
        values[number] = value
        if step % 20 == 0:
            for iterator in MATCHES:
                key = [source.randrange(1 << 10)]
                found = one.select(iterator, key, 0, 999)
                assert sorted(found) == sorted(other.select(iterator, key, 0, 999))
                assert one.count(iterator, key) == other.count(iterator, key) == len(found)
    taken = []
    while chunk := view.take():
        taken += chunk
    assert taken == former


def test_strings_are_compared_by_the_bits_of_the_key() -> None:
    """Strings are compared by the bits of the key: EQ finds longer strings that begin with it; later bytes are higher
    bits.
    """
    index = make(FieldType.STRING, "t")
    for number, text in enumerate(("a", "ab", "b", "", "a\0")):
        put(index, number, {"t": text})
    assert rows_of(index.select(I.EQ, ["a"], 0, 9)) == [0, 1, 4]
    assert rows_of(index.select(I.EQ, ["ab"], 0, 9)) == [1]
    assert rows_of(index.select(I.EQ, [""], 0, 9)) == [0, 1, 2, 3, 4]
    assert rows_of(index.select(I.BITS_ALL_SET, [""], 0, 9)) == []
    assert rows_of(index.select(I.BITS_ANY_SET, ["\2"], 0, 9)) == [2]


@pytest.mark.parametrize(
    ("iterator", "key", "code"),
    [
        (I.BITS_ALL_SET, [], ErrorCode.PARTIAL_KEY),
        (I.EQ, [1, 2], ErrorCode.KEY_PART_COUNT),
        (I.ALL, ["a"], ErrorCode.KEY_PART_TYPE),
        (I.GE, [1], ErrorCode.UNSUPPORTED_INDEX_FEATURE),
        (I.NEIGHBOR, [1], ErrorCode.UNSUPPORTED_INDEX_FEATURE),
    ],
)
def test_wrong_keys(iterator: int, key: list[Any], code: ErrorCode) -> None:
    with pytest.raises(BoxError) as caught:
        make().select(iterator, key, 0, 1)
    assert caught.value.code == code


def test_a_scan_goes_on_while_the_index_changes() -> None:
    index = make()
    for number in range(6):
        put(index, number, 1)
    seen = []
    for raw in index.scan(I.BITS_ALL_SET, [1]):
        number = unpack(raw)[0]
        seen.append(number)
        if number == 1:
            index.remove(index.key_of([3, 1]))
            put(index, 10, 1)
            put(index, 11, 1)
    assert seen == [0, 1, 2, 10, 4, 5, 11]


def test_a_view_shows_what_was_there() -> None:
    """A view shows the tuples of its moment, though their internal numbers are reused."""
    index = make()
    rows = [put(index, number, 1 + number % 2) for number in range(2000)]
    everything, odd = open_view(index), open_view(index, (), index.cursor(I.BITS_ALL_SET, [2]))
    taken = everything.take(100) or []
    for number in range(0, 2000, 3):
        index.remove(index.key_of([number, 1 + number % 2]))
    for number in range(3000, 4000):
        put(index, number, 3)
    index.put(index.key_of([1, 2]), b"changed")
    while found := everything.fetch(300):
        taken += found
    assert taken == rows
    found = []
    while chunk := odd.fetch():
        found += chunk
    assert found == rows[1::2]
    assert index.listeners == []


def test_what_lies_over_the_tree_is_found() -> None:
    index = make()
    for number in range(10):
        put(index, number, 1)
    changes = OOBTree({index.key_of([2, 1]): GONE, index.key_of([20, 1]): pack([20, 1])})
    index.lay_over(changes, 0)
    index.remove(index.key_of([20, 1]))
    put(index, 21, 1)
    assert index.merge(1) is False
    assert sorted(rows_of(index.select(I.EQ, [1], 0, 20))) == [0, 1, 3, 4, 5, 6, 7, 8, 9, 21]


def test_detached_trees_hold_everything() -> None:
    index = make()
    for number in range(10):
        put(index, number, 1)
    assert [len(tree) for tree in index.detach()] == [10, 10, 10]
    assert len(index) == index.count(I.BITS_ALL_SET, [1]) == 0
    put(index, 3, 1)
    assert rows_of(index.select(I.ALL, [], 0, 9)) == [3]


def test_a_freed_number_is_used_before_a_new_one() -> None:
    index = make()
    for number in range(300):
        put(index, number, 1)
    assert len(index.placed) == 300
    index.remove(index.key_of([7, 1]))
    put(index, 1000, 1)
    put(index, 1001, 1)
    assert rows_of(index.select(I.ALL, [], 0, 400)) == [*range(7), 1000, *range(8, 300), 1001]
