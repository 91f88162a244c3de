"""RTREE: primary keys of every form, and neighbours found by what the last search from a page has learned."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.index import IteratorType as I
from test.unit.index.test_rtree import MATCHES, Model, check_pages, corners, make, put


@pytest.mark.parametrize(
    ("parts", "first_of"),
    [
        ([PartDef(0, FieldType.UNSIGNED), PartDef(2, FieldType.UNSIGNED)], lambda number: number // 3),
        ([PartDef(0, FieldType.STRING)], lambda number: f"\0{number}"[number % 2 :]),
        ([PartDef(0, FieldType.VARBINARY), PartDef(2, FieldType.UNSIGNED)], lambda number: b"\xff" * (number % 4)),
        ([PartDef(0, FieldType.STRING, path="a.b")], lambda number: {"a": {"b": str(number)}}),
        ([PartDef(0, FieldType.NUMBER)], lambda number: number / 2 if number % 4 else number // 2),
        ([PartDef(0, FieldType.INTEGER), PartDef(2, FieldType.UNSIGNED)], lambda number: -number // 3),
    ],
    ids=["unsigned", "string", "varbinary", "path", "number", "integer"],
)
@pytest.mark.parametrize("are_points", [True, False])
def test_primary_keys_of_every_form(parts: list[PartDef], first_of: Callable[[int], Any], are_points: bool) -> None:
    """Keys with equal rectangles differ by their primary keys, whether these can be packed or not."""
    index, source, tuples = make(primary=KeyDef(parts)), random.Random(11), {}
    for number in range(400):
        corner = [float(source.randrange(-4, 4)), source.randrange(-4, 4)]
        other = [] if are_points or source.random() < 0.5 else [each + source.choice((0, 0, 2)) for each in corner]
        tuples[number] = [first_of(number), [*corner, *other], number]
        index.put(index.key_of(tuples[number]), pack(tuples[number]))
    for number in range(0, 400, 3):
        index.remove(index.key_of(tuples.pop(number)))
    check_pages(index)
    assert len(index) == len(tuples)
    for key in ([0, 0], [-0.0, 1], [-2, -1], [3, 3], [1, 1, 1, 1], [-1, -1, 1, 1], [9, 9]):
        (*low,), (*high,) = corners(key, 2)
        for iterator, matches in MATCHES.items():
            expected = [
                number
                for number, (_, value, _) in tuples.items()
                if all(matches(*each) for each in zip(*corners(value, 2), low, high, strict=True))
            ]
            found = index.select(iterator, key, 0, 1 << 40)
            assert sorted(unpack(raw)[2] for raw in found) == expected
            assert index.count(iterator, key) == len(expected)
            assert list(index.scan(iterator, key)) == found
            assert index.select(iterator, key, 1, 3) == found[1:4]
        near = [unpack(raw)[2] for raw in index.select(I.NEIGHBOR, key, 0, 9)]
        model = Model(1, 2, "euclid")
        model.rows = {number: value for number, (_, value, _) in tuples.items()}
        assert [model.far(model.rows[number], low) for number in near] == model.distances(low)[:9]


def test_the_last_search_from_a_page_tells_no_lies() -> None:
    """A search for neighbours looks as far as the last one from the same page had to. It finds the nearest also where
    that is too near, or too far.
    """
    index, source, model = make(), random.Random(8), Model(1, 2, "euclid")
    for number in range(1500):
        far = source.choice((1, 1, 1, 50, 1000))
        model.rows[number] = [source.gauss(0, far), source.gauss(0, far)]
        put(index, number, model.rows[number])
    reached = 0
    for _ in range(150):
        key, limit = [source.gauss(0, 60), source.gauss(0, 60)], source.choice((1, 10, 10, 10, 32))
        found = index.select(I.NEIGHBOR, key, 0, limit)
        assert [model.far(unpack(raw)[1], key) for raw in found] == pytest.approx(model.distances(key)[:limit])
        reached += len([page for page in index.pages.pages if page.reach[0]]) > 3
        number = source.randrange(1500)
        index.remove(index.key_of([number, model.rows[number]]))
        model.rows[number] = key
        put(index, number, key)
    assert reached > 100
