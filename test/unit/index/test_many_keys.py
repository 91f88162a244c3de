"""Indexes in which a tuple has any number of keys: reads, replaces, and the primary key after nils."""

from __future__ import annotations

import pytest

from box.data.codec import pack, unpack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode
from box.index import IndexDef, create_index
from box.index.bulk import Keyed
from box.index.tree import MultikeyTreeIndex

PRIMARY = KeyDef([PartDef(0, FieldType.UNSIGNED)])


def multikey(*, unique: bool, nullable: bool = False, exclude_null: bool = False) -> MultikeyTreeIndex:
    part = PartDef(1, FieldType.UNSIGNED, is_nullable=nullable, path="[*]", exclude_null=exclude_null)
    index = create_index(IndexDef(512, 1, "i", "TREE", unique, (part,)), PRIMARY, space_name="s")
    assert isinstance(index, MultikeyTreeIndex)
    return index


def add(index: MultikeyTreeIndex, *fields: object) -> bytes:
    raw = pack(list(fields))
    for key in index.keys_of(raw, unpack(raw)):
        assert index.add(key, raw)
    return raw


def test_a_tuple_is_found_by_each_of_its_elements() -> None:
    index = multikey(unique=False)
    first, second = add(index, 1, [3, 5, 3]), add(index, 2, [5])
    add(index, 3, [])
    assert len(index) == 3
    assert index.select(0, [5], 0, 9) == [first, second]
    assert index.select(2, [], 0, 9) == [first, first, second]
    assert index.select(4, [5], 0, 2) == [second, first]
    with pytest.raises(BoxError) as caught:
        index.get([5])
    assert caught.value.code == ErrorCode.MORE_THAN_ONE_TUPLE


def test_an_exchange_keeps_the_common_keys() -> None:
    index = multikey(unique=True)
    old, new = pack([1, [1, 2]]), pack([1, [2, 3]])
    heard: list[tuple[object, object, object]] = []
    for key in index.keys_of(old, unpack(old)):
        index.put(key, old)
    index.listeners.append(lambda *change: heard.append(change))
    index.exchange(index.keys_of(old, unpack(old)), index.keys_of(new, unpack(new)), new)
    assert heard == [(1, old, None), (2, old, new), (3, None, new)]
    assert [index.get([key]) for key in (1, 2, 3)] == [None, new, new]


def test_nils_repeat_in_a_unique_index() -> None:
    index = multikey(unique=True, nullable=True)
    first, second = add(index, 1, [None, 4, None]), add(index, 2, [None])
    assert index.select(0, [None], 0, 9) == [first, second]
    assert index.keys_of(first, unpack(first)) == [(False, 1), (True, 4)]


def test_exclude_null_looks_at_the_field_alone() -> None:
    """exclude_null looks only at the field itself, not at a path inside it, as in Tarantool 2.8."""
    index = multikey(unique=False, nullable=True, exclude_null=True)
    add(index, 1, None)
    raw = add(index, 2, [None])
    assert index.select(2, [], 0, 9) == [raw]


def test_tuples_with_thousands_of_keys_are_loaded_in_many_turns() -> None:
    index, keyed = multikey(unique=False), Keyed()
    rows = [[number, list(range(1000))] for number in range(20)]
    steps = list(keyed.add_tuples(index, [pack(row) for row in rows], rows))
    assert len(keyed.keys) == 20_000
    assert len(steps) >= 10
