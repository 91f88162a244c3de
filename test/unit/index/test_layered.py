"""Changes laid over an index are visible at once, and are merged while it is read and written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from box.data.codec import pack
from box.index import IteratorType, create_index
from box.index.layered import GONE
from box.index.ordered import OrderedIndex
from box.index.view import TupleView, open_view
from test.unit.index.test_view import filled, row

_READS = (
    (IteratorType.ALL, False),
    (IteratorType.GE, True),
    (IteratorType.GT, True),
    (IteratorType.EQ, True),
    (IteratorType.LE, True),
    (IteratorType.LT, True),
    (IteratorType.REQ, False),
)


class Model:
    """An index, and a dict of what it should have."""

    def __init__(self, parts: str, kind: str, rnd: random.Random) -> None:
        self.rnd = rnd
        self.index = filled(parts, range(0, 400, 1 + rnd.randrange(3)), kind)
        self.entries: dict[Any, bytes] = dict(self.index.tree.items())

    def key(self) -> Any:
        return self.index.key_of(row(self.rnd.randrange(500)))

    def lay_over(self) -> None:
        changes, before = self.index.new_tree(), len(self.entries)
        for _ in range(self.rnd.randrange(1, 120)):
            key = self.key()
            if self.rnd.random() < 0.3:
                changes[key] = GONE
                self.entries.pop(key, None)
            else:
                changes[key] = self.entries[key] = b"laid %d" % self.rnd.randrange(9)
        self.index.lay_over(changes, len(self.entries) - before)

    def write(self) -> None:
        key, entry = self.key(), b"written %d" % self.rnd.randrange(9)
        way = self.rnd.randrange(4)
        if way == 0:
            self.index.remove(key)
            self.entries.pop(key, None)
        elif way == 1:
            assert self.index.replace(key, entry) == self.entries.get(key)
            self.entries[key] = entry
        elif way == 2:
            assert self.index.add(key, entry) is (key not in self.entries)
            self.entries.setdefault(key, entry)
        else:
            self.index.put(key, entry)
            self.entries[key] = entry

    def contents(self) -> list[bytes]:
        return [self.entries[key] for key in sorted(self.entries)]

    def check(self) -> None:
        """Assert that look-ups agree with the dict, by reads that do not merge everything."""
        key = self.key()
        assert self.index.find(key) == self.entries.get(key)
        assert len(self.index) == len(self.entries)
        found: list[bytes] = []
        cursor = self.index.cursor(IteratorType.ALL, [])
        while chunk := cursor.fetch(37):
            found += chunk
        assert found == self.contents()


@pytest.mark.parametrize("kind", ["TREE", "HASH"])
@pytest.mark.parametrize("parts", ["unsigned", "string", "two parts"])
def test_readers_and_writers_while_changes_are_merged(parts: str, kind: str) -> None:
    """Look-ups, scans, sizes and all four kinds of writes agree with a dict at any time of the merge."""
    for seed in range(25):
        model = Model(parts, kind, random.Random(seed))
        for _ in range(3):
            model.lay_over()
            model.check()
            for _ in range(model.rnd.randrange(6)):
                for _ in range(model.rnd.randrange(8)):
                    model.write()
                model.check()
                if not model.index.merge(model.rnd.randrange(1, 30)):
                    break
            while model.index.merge(11):
                model.check()
            assert not model.index.is_layered
            assert list(model.index.tree.values()) == model.contents()


@pytest.mark.parametrize("parts", ["unsigned", "string", "two parts"])
def test_every_way_to_read(parts: str) -> None:
    """Selections, counts, minimum and maximum agree with an index that has all changes."""
    for seed in range(15):
        model = Model(parts, "TREE", random.Random(seed))
        other = create_index(model.index.definition)
        for number in range(len(_READS) + 6):
            model.index.settle()
            model.lay_over()
            model.index.merge(model.rnd.randrange(1, 20))
            other.clear()
            for key, entry in model.entries.items():
                other.put(key, entry)
            if number < len(_READS):
                kind, has_key = _READS[number]
                fields = [
                    value for part in other.key_def.parts for value in [row(model.rnd.randrange(500))[part.fieldno]]
                ]
                arguments = (kind, fields if has_key else [], model.rnd.randrange(3), model.rnd.randrange(1, 60))
                assert model.index.select(*arguments) == other.select(*arguments)
                continue
            ways: list[Any] = [
                lambda index: index.count(IteratorType.ALL, []),
                lambda index: index.min([]),
                lambda index: index.max([]),
                lambda index: index.values_list(),
                lambda index: list(index.scan(IteratorType.LE, [])),
                lambda index: index.random(7) is not None,
            ]
            way = ways[number - len(_READS)]
            assert way(model.index) == way(other)


@pytest.mark.parametrize("parts", ["unsigned", "string"])
@pytest.mark.parametrize("kind", [None, IteratorType.LE])
def test_views_opened_at_any_moment(parts: str, kind: IteratorType | None) -> None:
    """A view opened before, during or after the merge shows the entries of its moment."""
    for seed in range(25):
        model = Model(parts, "TREE", random.Random(seed))
        views: list[tuple[TupleView, list[bytes], list[bytes]]] = []

        def open_one(model: Model = model, views: list[Any] = views) -> None:
            cursor = None if kind is None else model.index.cursor(kind, [])
            contents = model.contents()
            views.append((open_view(model.index, (), cursor), [], contents[::-1] if kind is not None else contents))

        open_one()
        model.lay_over()
        for step in range(30):
            for view, found, _ in views:
                found += view.fetch(model.rnd.randrange(1, 20))
            model.write()
            model.index.merge(model.rnd.randrange(4))
            if step == 12:
                open_one()
        open_one()
        for view, found, wanted in views:
            while tuples := view.fetch(50):
                found += tuples
            assert found == wanted
        assert not model.index.listeners


def test_a_cursor_kept_over_the_moment() -> None:
    """A look-up and a scan that began before the changes continue with the new entries."""
    index = filled("unsigned", range(10))
    point, scan = index.cursor(IteratorType.EQ, [3]), index.cursor(IteratorType.ALL, [])
    scan.fetch(2)
    changes = index.new_tree()
    changes[3], changes[4] = b"new", GONE
    index.lay_over(changes, -1)
    assert point.fetch(1) == [b"new"]
    assert scan.fetch(3) == [pack(row(2)) + b"old", b"new", pack(row(5)) + b"old"]


def test_an_index_that_is_taken_away() -> None:
    """`detach` returns an index that includes the changes."""
    index = filled("unsigned", range(10))
    changes = index.new_tree()
    changes[20] = b"new"
    index.lay_over(changes, 1)
    assert isinstance(index, OrderedIndex)
    assert list(index.detach()[0].keys()) == [*range(10), 20]
    assert len(index) == 0
    assert not index.is_layered
