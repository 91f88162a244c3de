"""Views against a copy of the index at their opening; trees that are freed in slices."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest

from box.data.codec import pack
from box.data.keydef import PartDef
from box.data.types import FieldType as T
from box.index import Index, IndexDef, IteratorType, create_index
from box.index.ordered import OrderedIndex, children
from box.index.release import LEAVES_A_TURN, Releaser
from box.index.untracked import CollectorWatch, untrack_index, untracked_list
from box.index.view import TupleView, open_view

DEADLINE = 20
_PARTS = {
    "unsigned": (PartDef(0, T.UNSIGNED),),
    "string": (PartDef(1, T.STRING),),
    "two parts": (PartDef(1, T.STRING), PartDef(0, T.UNSIGNED)),
}


def row(number: int) -> list[Any]:
    return [number, f"name {number * 7919 % 1009:04}"]


def filled(parts: str, numbers: range, kind: str = "TREE") -> OrderedIndex:
    index = create_index(IndexDef(512, 0, "pk", kind, True, _PARTS[parts]))
    assert isinstance(index, OrderedIndex)
    for number in numbers:
        put(index, number, b"old")
    return index


def put(index: Index, number: int, mark: bytes) -> None:
    index.put(index.key_of(row(number)), pack(row(number)) + mark)


def change(index: Index, rnd: random.Random) -> None:
    number = rnd.randrange(1200)
    if rnd.random() < 0.5:
        index.remove(index.key_of(row(number)))
    else:
        put(index, number, b"new%d" % rnd.randrange(10))


def rest(view: TupleView) -> list[bytes]:
    found = []
    while tuples := view.fetch(7):
        found += tuples
    return found


class Ranges:
    """A container without random access: finding a place costs as much as its size."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def keys(self, *bounds: object) -> Iterator[Any]:
        return iter(self._tree.keys(*bounds))

    def values(self, *bounds: object) -> Iterator[Any]:
        return iter(self._tree.values(*bounds))


def test_the_cost_of_a_slice_does_not_depend_on_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled("unsigned", range(1000))
    expected, view = index.values_list(), open_view(index)
    with monkeypatch.context() as patch:
        patch.setattr(index, "_base", Ranges(index.tree))
        found = view.fetch(7) + view.fetch(20)
    assert found + rest(view) == expected


@pytest.mark.parametrize("kind", ["TREE", "HASH"])
@pytest.mark.parametrize("parts", list(_PARTS))
@pytest.mark.parametrize("changes", [0, 1, 40])
def test_a_view_shows_what_was_there(parts: str, kind: str, changes: int) -> None:
    """A view shows the entries of its moment, whatever is put, replaced and removed between slices, ahead or behind."""
    for seed in range(8):
        rnd = random.Random(seed)
        index = filled(parts, range(0, 1000, 1 + seed % 3), kind)
        expected, found = index.values_list(), []
        view = open_view(index)
        while tuples := view.fetch(rnd.choice((1, 5, 60))):
            found += tuples
            for _ in range(changes):
                change(index, rnd)
        assert found == expected
        assert not index.listeners


@pytest.mark.parametrize("kind", [IteratorType.LE, IteratorType.GT, IteratorType.GE, IteratorType.LT])
@pytest.mark.parametrize("parts", list(_PARTS))
def test_a_view_of_a_part_of_an_index(parts: str, kind: IteratorType) -> None:
    """A view of a part of an index starts at a key and goes in either direction."""
    for seed in range(8):
        rnd = random.Random(seed)
        index = filled(parts, range(1000))
        key = row(400)[: len(_PARTS[parts])] if parts == "unsigned" else row(400)[1:2]
        expected = list(index.scan(kind, key))
        view, found = open_view(index, (), index.cursor(kind, key)), []
        while tuples := view.fetch(rnd.choice((1, 30))):
            found += tuples
            for _ in range(20):
                change(index, rnd)
        assert found == expected


def test_a_view_of_an_index_that_is_emptied_or_filled() -> None:
    """A view is right if the index is emptied or filled, so that more has changed ahead than is left."""
    index = filled("unsigned", range(1000))
    expected = index.values_list()
    view = open_view(index)
    found = view.fetch(10)
    for number in range(1000):
        index.remove(number)
    assert found + rest(view) == expected
    view = open_view(index)
    for number in range(1000):
        put(index, number, b"new")
    assert view.fetch(10) == []


@pytest.mark.parametrize("kind", [IteratorType.GE, IteratorType.LE])
def test_a_slice_of_many_changes_is_a_slice(kind: IteratorType) -> None:
    """A slice visits a bounded number of entries, also if all entries ahead are new or removed."""
    index = filled("unsigned", range(400, 600))
    expected = list(index.scan(kind, [500]))
    view: Any = open_view(index, (), index.cursor(kind, [500]))
    for number in range(400):
        put(index, number, b"new")
        put(index, 999 - number, b"new")
    found, left = [], len(view._before)
    assert left >= 400
    while (tuples := view.take(10)) is not None:
        found += tuples
        assert left - len(view._before) <= 10 or not len(view._before)
        left = len(view._before)
    assert found == expected
    assert view.take(10) is None


def test_a_view_knows_better_than_the_index() -> None:
    """Entries of given tuples are replaced in a view."""
    index = filled("unsigned", range(4))
    view = open_view(index, [(1, None), (2, b"other"), (9, b"hidden")])
    assert rest(view) == [index.find(0), b"other", index.find(3), b"hidden"]


def test_the_memory_of_a_view_is_that_of_changes_ahead() -> None:
    """A view keeps changes ahead of its reader only, and drops what was read."""
    index = filled("unsigned", range(1000))
    view: Any = open_view(index)
    view.fetch(500)
    for number in range(1000):
        put(index, number, b"new")
    assert len(view._before) == 500
    view.fetch(250)
    assert len(view._before) == 250
    view.close()
    assert view.fetch(10) == []
    assert not index.listeners


def test_an_index_is_freed_in_slices() -> None:
    """A dropped index is freed a few leaves a turn, and looks empty at once."""

    async def run() -> None:
        index = filled("unsigned", range(20000))
        leaves = len(children(index._tree)[0])
        releaser = Releaser(asyncio.get_running_loop())
        releaser.release(index)
        turns = 0
        while not releaser.is_idle:
            turns += 1
            await asyncio.sleep(0)
        assert turns > leaves / LEAVES_A_TURN
        assert len(index) == 0
        assert index.find(1) is None
        assert index.values_list() == []

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_many_small_indexes_are_freed_together() -> None:
    """Many small dropped indexes are freed together, as many in a turn as have the leaves of one large index.

    So a program that truncates all the time does not fill the memory. An index with an open view does not delay the
    others.
    """

    async def run() -> None:
        releaser = Releaser(asyncio.get_running_loop())
        seen = filled("unsigned", range(10))
        view = open_view(seen)
        releaser.release(seen)
        small = [filled("unsigned", range(10)) for _ in range(1000)]
        for index in small:
            releaser.release(index)
        turns = 0
        while any(map(len, small)):
            turns += 1
            await asyncio.sleep(0)
        assert turns < 300
        view.close()
        while not releaser.is_idle:
            await asyncio.sleep(0.001)
        assert len(seen) == 0

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_an_index_stays_whole_while_a_view_is_open() -> None:
    """A dropped index with an open view is freed when the view is closed."""

    async def run() -> None:
        index = filled("unsigned", range(3000))
        expected = index.values_list()
        view = open_view(index)
        releaser = Releaser(asyncio.get_running_loop())
        releaser.release(index)
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert rest(view) == expected
        while not releaser.is_idle:
            await asyncio.sleep(0.001)
        assert len(index) == 0

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_the_garbage_collector_does_not_see_trees() -> None:
    """The garbage collector does not visit nodes of trees."""
    watch = CollectorWatch()
    watch.begin()
    index = filled("unsigned", range(20000))
    strings = filled("string", range(1000))
    gc.collect()
    watch.end()
    nodes = [found for found in gc.get_objects() if found is index._tree or found is strings._tree]
    leaves = {id(leaf) for leaf in children(index._tree)[0]}
    assert nodes == []
    assert leaves
    assert not leaves & {id(found) for found in gc.get_objects()}


def test_an_index_is_taken_from_the_garbage_collector() -> None:
    """An index is removed from the garbage collector's lists a thousand nodes a step."""
    gc.disable()
    try:
        index = filled("unsigned", range(100000))
        steps = len(list(untrack_index(index)))
        seen = {id(found) for found in gc.get_objects()}
        nodes = [id(node) for node in index.nodes()]
    finally:
        gc.enable()
    assert steps == len(nodes) // 1024
    assert len(nodes) > 2000
    assert not seen.intersection(nodes)


def test_a_list_that_the_garbage_collector_does_not_see() -> None:
    """A list that the garbage collector does not track works as a list, and is freed with its last reference."""
    made = untracked_list()
    made += range(10)
    assert made == list(range(10))
    assert not gc.is_tracked(made)
