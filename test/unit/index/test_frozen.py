"""A frozen index has what was there at one moment, whatever becomes of the index."""

from __future__ import annotations

import random
from typing import Any

import pytest

from box.index import IteratorType
from box.index.frozen import FrozenIndex
from test.unit.index.test_layered import Model
from test.unit.index.test_view import row


def _read(cursor: Any, size: int) -> list[bytes]:
    found: list[bytes] = []
    while chunk := cursor.fetch(size):
        found += chunk
    return found


def _expected(entries: dict[Any, bytes], kind: IteratorType, key: Any) -> list[bytes]:
    """Return what an iteration over a unique index finds."""
    passes: dict[IteratorType, Any] = {
        IteratorType.ALL: lambda other: True,
        IteratorType.GE: lambda other: other >= key,
        IteratorType.GT: lambda other: other > key,
        IteratorType.EQ: lambda other: other == key,
        IteratorType.REQ: lambda other: other == key,
        IteratorType.LE: lambda other: other <= key,
        IteratorType.LT: lambda other: other < key,
    }
    found = [entries[other] for other in sorted(entries) if passes[kind](other)]
    return found[::-1] if kind in (IteratorType.LE, IteratorType.LT) else found


@pytest.mark.parametrize("parts", ["unsigned", "string", "two parts"])
def test_scans_and_look_ups_while_the_index_changes(parts: str) -> None:
    """Scans of all kinds agree with the entries of the moment, also those that began before it."""
    for seed in range(12):
        rnd = random.Random(seed)
        model = Model(parts, "TREE", rnd)
        if seed % 3 == 0:
            model.lay_over()
        begun = [model.index.cursor(kind, []) for kind in (IteratorType.ALL, IteratorType.LE)]
        early = [cursor.fetch(rnd.randrange(1, 90)) for cursor in begun]
        moment = dict(model.entries)
        frozen = FrozenIndex(model.index)
        for cursor in begun:
            frozen.adopt(cursor)  # type: ignore[arg-type]
        for _ in range(6):
            for _ in range(rnd.randrange(40)):
                model.write()
            if not model.index.is_layered and rnd.random() < 0.3:
                model.lay_over()
            model.index.merge(rnd.randrange(30))
            key = model.key()
            assert frozen.find(key) == moment.get(key)
            for kind in (IteratorType(number) for number in range(IteratorType.GT + 1)):
                number = rnd.randrange(500)
                fields = [row(number)[part.fieldno] for part in model.index.key_def.parts]
                cursor = model.index.cursor(kind, [] if kind is IteratorType.ALL else fields)
                frozen.adopt(cursor)  # type: ignore[arg-type]
                expected = _expected(moment, kind, model.index.key_of(row(number)))
                assert _read(cursor, rnd.randrange(1, 60)) == expected, (seed, kind)
            for taken, cursor in zip(early, begun, strict=True):
                taken += cursor.fetch(rnd.randrange(1, 40))
        rest = [taken + _read(cursor, 17) for taken, cursor in zip(early, begun, strict=True)]
        assert rest == [_expected(moment, IteratorType.ALL, None), _expected(moment, IteratorType.ALL, None)[::-1]]
        frozen.close()
        assert not model.index.listeners


def test_an_index_that_was_emptied_and_filled_again() -> None:
    model = Model("unsigned", "TREE", random.Random(1))
    frozen = FrozenIndex(model.index)
    for key in list(model.entries):
        model.index.remove(key)
    cursors = [model.index.cursor(kind, []) for kind in (IteratorType.ALL, IteratorType.LE)]
    for cursor in cursors:
        frozen.adopt(cursor)  # type: ignore[arg-type]
    forwards, backwards = (_read(cursor, 50) for cursor in cursors)
    assert forwards == model.contents()
    assert backwards == forwards[::-1]
    frozen.close()
