"""Indexes built from sorted entries equal those built by single inserts."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
from BTrees import check as btrees_check
from BTrees.check import check
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType as T
from box.index import IndexDef, create_index
from box.index.iterator_type import IteratorType
from box.index.ordered import OrderedIndex
from box.index.own_trees import NODES
from box.index.sorted_build import SortedBuild

for kind in NODES:  # the checker of BTrees knows the types of that package
    btrees_check._type2kind[kind] = btrees_check._type2kind[kind.__base__]
    if hasattr(kind, "_bucket_type"):
        btrees_check._btree2bucket[kind] = kind._bucket_type

UNSIGNED, STRING = PartDef(0, T.UNSIGNED), PartDef(1, T.STRING)


def index_on(part: PartDef, *, unique: bool = True) -> OrderedIndex:
    primary = None if part is UNSIGNED else KeyDef([UNSIGNED])
    index = create_index(IndexDef(512, 0, "i", "TREE", unique, (part,)), primary, space_name="test")
    assert isinstance(index, OrderedIndex)
    return index


def entries_of(index: OrderedIndex, numbers: list[int]) -> list[tuple[Any, bytes]]:
    return sorted((index.key_of([number, f"name {number}"]), b"%d" % number) for number in numbers)


def build(index: OrderedIndex, entries: list[tuple[Any, bytes]], slice_size: int) -> None:
    made = SortedBuild(index)
    for start in range(0, len(entries), slice_size):
        keys, values = zip(*entries[start : start + slice_size], strict=True)
        assert made.append(keys, values)
    assert made.count == len(entries)
    for _ in made.finish():
        pass
    index.end_load(made.count)


@pytest.mark.parametrize("part", [UNSIGNED, STRING])
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("count", [0, 1, 23, 24, 25, 47, 48, 49, 4800, 4801, 4824, 4825, 40_000])
def test_trees_of_every_height(part: PartDef, unique: bool, count: int) -> None:
    """Trees of every height find entries and take changes."""
    index = index_on(part, unique=unique)
    rnd = random.Random(count)
    entries = entries_of(index, rnd.sample(range(count * 3), count))
    build(index, entries, 1000)
    check(index.tree)
    index.tree._check()
    assert (len(index), len(index.tree)) == (count, count)
    assert list(index.tree.items()) == entries
    model = dict(entries)
    for number in rnd.sample(range(count * 3 + 1), min(count * 3, 3000)):
        key = index.key_of([number, f"name {number}"])
        assert index.find(key) == model.get(key)
        if number % 2:
            index.put(key, b"new")
            model[key] = b"new"
        else:
            index.remove(key)
            model.pop(key, None)
    check(index.tree)
    index.tree._check()
    assert list(index.tree.items()) == sorted(model.items())
    backwards = index.cursor(IteratorType.REQ, [])
    assert backwards.fetch(count * 3 + 1) == [model[key] for key in sorted(model, reverse=True)]


@pytest.mark.parametrize("part", [UNSIGNED, STRING])
def test_the_garbage_collector_sees_nothing_of_a_build(part: PartDef) -> None:
    """No node of the tree, and no list of nodes, is tracked by the garbage collector during a build."""
    index = index_on(part)
    entries = entries_of(index, list(range(40_000)))
    gc.collect()
    gc.disable()  # so that new objects stay in the first generation
    try:
        made = SortedBuild(index)
        for start in range(0, len(entries), 1000):
            keys, values = zip(*entries[start : start + 1000], strict=True)
            made.append(keys, values)
        for _ in made.finish():
            assert max((len(found) for found in gc.get_objects(0) if isinstance(found, list)), default=0) < 1000
    finally:
        gc.enable()
    nodes = list(index.nodes())
    assert len(nodes) > 300
    assert not any(gc.is_tracked(node) for node in nodes if node is not index.tree)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 5000), unique=True),
    st.integers(1, 300),
    st.sampled_from([UNSIGNED, STRING]),
    st.lists(st.integers(0, 5000), min_size=1, max_size=5),
)
def test_slices_that_are_out_of_order(numbers: list[int], slice_size: int, part: PartDef, more: list[int]) -> None:
    """A slice whose keys do not ascend after the present ones adds nothing."""
    index = index_on(part)
    entries = entries_of(index, numbers)
    made = SortedBuild(index)
    for start in range(0, len(entries), slice_size):
        keys, values = zip(*entries[start : start + slice_size], strict=True)
        assert made.append(keys, values)
        extra = [index.key_of([number, f"name {number}"]) for number in more]
        ascends = all(one < other for one, other in zip([keys[-1], *extra], extra, strict=False))
        if not ascends:
            assert not made.append(extra, [b"extra"] * len(extra))
    for _ in made.finish():
        pass
    index.end_load(made.count)
    assert list(index.tree.items()) == entries
