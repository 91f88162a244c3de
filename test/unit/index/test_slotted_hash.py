"""HASH indexes in the order of Tarantool's slots. The expected orders were observed on 2.8.1."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType as T
from box.index import IndexDef, IteratorType, create_index
from box.index.bulk import SLICE, Keyed, fill
from box.index.frozen import FrozenIndex
from box.index.slotted_hash import SlottedHashIndex
from box.index.view import open_view

PRIMARY = KeyDef([PartDef(0, T.UNSIGNED)])
I = IteratorType  # noqa: E741


def index_of(*parts: PartDef, primary: KeyDef | None = None) -> SlottedHashIndex:
    definition = IndexDef(512, 0 if primary is None else 1, "i", "HASH", True, parts or (PartDef(0, T.UNSIGNED),))
    index = create_index(definition, primary, space_name="test", hash_slots=True)
    assert isinstance(index, SlottedHashIndex)
    return index


def filled(*keys: int) -> SlottedHashIndex:
    """Return an index of unsigned keys, which are the entries as well."""
    index = index_of()
    for key in keys:
        index.put(key, key)
    return index


def test_colliding_keys_are_chained_through_free_slots() -> None:
    index = filled(0, 8, 16, 1, 9, 24)
    assert index.values_list() == [0, 1, 16, 8, 9, 24]
    index.remove(8)
    assert index.values_list() == [0, 1, 16, 9, 24]
    index.put(2, 2)
    assert index.values_list() == [0, 1, 2, 16, 9, 24]


def test_a_table_grows_by_eight_slots_and_splits_chains() -> None:
    index = filled(0, 8, 16, 1, 9, 24)
    index.remove(8)
    for key in (2, *range(100, 131)):
        index.put(key, key)
    grown = (
        "0 1 2 112 129 128 105 120 104 9 106 107 108 109 110 111 16 113 114 115 116 117 118 119 24 121 122 123 124 125"
    )
    assert index.values_list() == [*map(int, grown.split()), 126, 127, 130, 100, 101, 102, 103]
    for key in range(100, 131, 3):
        index.remove(key)
    for key in (2**40, 2**40 + 2**33):
        index.put(key, key)
    wide = "0 1 2 129 128 105 120 104 9 107 108 110 111 16 113 114 116 117 119 24 122 123 125 126 1108101562368"
    assert index.values_list() == [*map(int, wide.split()), 2**40, 101, 102]
    assert [index.random(seed) for seed in (0, 17, 1234567)] == [0, 113, 120]


def test_a_replaced_entry_keeps_its_slot() -> None:
    index = filled(0, 8, 16)
    assert index.replace(0, "new") == 0
    index.put(8, "newer")
    assert index.values_list() == ["new", "newer", 16]


ORDERS: dict[str, tuple[T, list[Any], list[Any]]] = {
    "strings": (T.STRING, list("abcdefghijklm"), list("dacibegmhlfjk")),
    "integers": (T.INTEGER, list(range(-6, 6)), [-2, 3, -5, 0, 1, -4, 2, -3, 5, -1, -6, 4]),
    "numbers": (T.NUMBER, [1, 2.5, -3, 1e20, 0.1, -7.25, 40, 2**53], [0.1, -3, -7.25, 1e20, 2.5, 1, 40, 2**53]),
    "doubles": (T.DOUBLE, [1.0, 2.5, -3.0, 1e20, 0.1, -7.25], [0.1, -3.0, -7.25, 1e20, 2.5, 1.0]),
    "scalars": (T.SCALAR, [1, 2.5, "x", True, "y", -4, False], [2.5, "y", True, -4, False, 1, "x"]),
    "decimals": (
        T.DECIMAL,
        [Decimal(text) for text in ("0.25", "0.5", "0.75", "1", "1.25", "1.5")],
        [Decimal(text) for text in ("1.5", "0.25", "0.5", "0.75", "1.25", "1")],
    ),
    "UUIDs": (
        T.UUID,
        [UUID(f"c8f0fa1f-da29-438c-a040-393f1126ad3{number}") for number in range(1, 7)],
        [UUID(f"c8f0fa1f-da29-438c-a040-393f1126ad3{number}") for number in (4, 1, 2, 6, 5, 3)],
    ),
}


@pytest.mark.parametrize(("kind", "values", "order"), ORDERS.values(), ids=ORDERS)
def test_the_hash_of_each_type_is_that_of_tarantool(kind: T, values: list[Any], order: list[Any]) -> None:
    index = index_of(PartDef(0, kind))
    for value in values:
        index.put(index.key_of([value]), value)
    assert index.values_list() == order


def test_keys_of_several_parts_are_hashed_as_a_whole() -> None:
    index = index_of(PartDef(0, T.STRING), PartDef(1, T.UNSIGNED))
    for number in range(1, 9):
        index.put(index.key_of([f"k{number % 3}", number]), number)
    assert index.values_list() == [7, 4, 3, 6, 2, 8, 5, 1]


def test_a_number_in_a_path_is_hashed_as_messagepack() -> None:
    index = index_of(PartDef(0, T.UNSIGNED, path=".a"))
    for number in range(1, 9):
        index.put(index.key_of([{"a": number}]), number)
    assert index.values_list() == [3, 2, 5, 7, 8, 1, 6, 4]


def test_a_refused_tuple_moves_others() -> None:
    one, other = filled(*range(0, 48, 8)), filled(*range(0, 48, 8))
    one.refuse(16)
    assert one.values_list() == [0, 16, 8, 24, 32, 40]
    one.undo_refused(None, 3)
    other.refuse(24)
    assert one.values_list() == [0, 16, 8, 32, 40, 24]
    assert other.values_list() == [0, 8, 24, 16, 32, 40]
    one.undo_refused(8, 8)
    one.refuse(4)
    assert one.values_list() == [0, 16, 8, 32, 40, 24]


def test_a_moved_key_is_added_before_the_old_one_is_removed() -> None:
    """The new key takes a free slot, not that of the old one."""
    moved, exchanged, expected = filled(0, 8), filled(0, 8), filled(0, 8, 16)
    expected.remove(8)
    moved.move(8, 16, 16)
    exchanged.exchange([8], [16], 16)
    slots = expected.table.entries
    assert moved.table.entries == exchanged.table.entries == slots


@pytest.mark.parametrize("seed", range(5))
def test_the_contents_are_those_of_a_dictionary(seed: int) -> None:
    rnd, index, model = random.Random(seed), index_of(), dict[int, Any]()
    for step in range(3000):
        key = rnd.choice([rnd.randrange(40), rnd.randrange(400) * 8, rnd.randrange(1 << 45)])
        match rnd.randrange(5):
            case 0:
                index.remove(key)
                model.pop(key, None)
            case 1:
                index.refuse(key)
            case 2:
                assert index.add(key, step) == (key not in model)
                model.setdefault(key, step)
            case _:
                assert index.replace(key, step) == model.get(key)
                model[key] = step
        if step % 100 == 0:
            entries = index.values_list()
            assert sorted(entries) == sorted(model.values())
            assert len(index) == len(index.table) == len(model)
            assert index.select(I.ALL, [], 3, 20) == entries[3:23]
    assert all(index.find(key) == entry for key, entry in model.items())
    assert {key: index.table.entries[index.table.slot_of(key) or 0] for key in model} == model
    index.clear()
    assert index.values_list() == [] == index.select(I.ALL, [], 0, 5)
    assert index.random(7) is None


def test_gt_begins_behind_the_slot_of_its_key() -> None:
    index = filled(0, 8, 16, 1, 9, 24)
    assert index.select(I.GT, [16], 0, 10) == [8, 9, 24]
    assert index.select(I.GT, [16], 1, 1) == [9]
    assert index.select(I.GT, [24], 0, 10) == index.select(I.GT, [77], 0, 10) == []
    assert index.select(I.GT, [], 0, 2) == [0, 1]
    assert index.count(I.GT, [16]) == 3
    cursor = index.cursor(I.GT, [16])
    index.remove(16)
    assert cursor.fetch(10) == [9, 24]  # the tuple that is left out is the next one


def test_a_cursor_remembers_its_slot() -> None:
    index, seen = filled(*range(0, 48, 8)), []
    for key in index.scan(I.ALL, []):
        seen.append(key)
        index.remove(key)
        if len(seen) == 2:
            index.put(77, 77)
    assert seen == [0, 8, 16, 24, 32, 77]
    assert index.values_list() == [40]


def test_a_cursor_finds_what_is_added_behind_its_last_tuple() -> None:
    index = filled(0)
    cursor = index.cursor(I.ALL, [])
    assert cursor.fetch(16) == [0]
    index.put(5, 5)
    assert cursor.fetch(16) == [5]
    cursor.rewind(0)
    assert cursor.fetch(16) == [5]
    assert cursor.fetch(16) == []


def test_views_keep_the_order_and_the_entries() -> None:
    index = filled(0, 8, 16, 1, 9, 24)
    view = open_view(index, [(9, None), (1, b"old")])
    rest = open_view(index, (), index.cursor(I.GT, [16]))
    frozen = FrozenIndex(index)
    fresh, begun = index.cursor(I.ALL, []), index.cursor(I.ALL, [])
    assert begun.fetch(2) == [0, 1]
    frozen.adopt(begun)
    index.remove(8)
    index.put(2, 2)
    frozen.adopt(fresh)
    assert view.fetch() == [0, b"old", 16, 8, 24]
    assert rest.fetch() == [8, 9, 24]
    assert begun.fetch(2) + begun.fetch(9) == [16, 8, 9, 24]
    assert sorted(fresh.fetch(9)) == [0, 1, 8, 9, 16, 24]
    frozen.close()


def test_a_secondary_index_is_filled_in_the_given_order() -> None:
    """The order decides the slots; a repeated key is an error."""
    keys = random.Random(1).sample(range(0, 8 * SLICE, 8), SLICE)
    index, expected, keyed = index_of(primary=PRIMARY), filled(*keys), Keyed()
    entries = [pack([key]) for key in keys]
    keyed.add(list(keys), list(entries))
    assert sum(1 for _ in fill(index, keyed, AssertionError)) > 1
    assert index.values_list() == [pack([key]) for key in expected.values_list()]
    keyed.add([keys[3]], [b"again"])
    with pytest.raises(KeyError) as caught:
        list(fill(index, keyed, KeyError))
    assert caught.value.args == (entries[3], b"again")
    index.rearrange(sorted(zip(keys, entries, strict=True)))
    assert index.values_list() == [pack([key]) for key in filled(*sorted(keys)).values_list()]
