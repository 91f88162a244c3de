"""RTREE indexes: every iterator against a model, while the index changes, in views, under layers; pages and release."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import weakref
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
from box.index.bulk import Keyed, fill
from box.index.layered import GONE
from box.index.release import Releaser
from box.index.rtree import RtreeIndex
from box.index.rtree_pages import BoxNode, Pages
from box.index.view import TupleView, open_view

PRIMARY = KeyDef([PartDef(0, FieldType.UNSIGNED)])
Corners = tuple[list[float], list[float]]
MATCHES: dict[int, Callable[[float, float, float, float], bool]] = {
    I.OVERLAPS: lambda low, high, a, b: low <= b and high >= a,
    I.EQ: lambda low, high, a, b: low == a and high == b,
    I.GE: lambda low, high, a, b: low <= a and high >= b,
    I.GT: lambda low, high, a, b: low < a and high > b,
    I.LE: lambda low, high, a, b: low >= a and high <= b,
    I.LT: lambda low, high, a, b: low > a and high < b,
    I.ALL: lambda low, high, a, b: True,
}
"""For each iterator, whether the range of a tuple matches that of the key in one dimension."""


def make(
    dimension: int = 2, distance: str = "euclid", path: str | None = None, primary: KeyDef = PRIMARY
) -> RtreeIndex:
    options = {"dimension": dimension, "distance": distance}
    definition = IndexDef(512, 1, "i", "RTREE", False, (PartDef(1, FieldType.ARRAY, path=path),), options)
    index = create_index(definition, primary, space_name="s")
    assert isinstance(index, RtreeIndex)
    return index


def put(index: RtreeIndex, number: int, value: Any) -> bytes:
    raw = pack([number, value])
    index.put(index.key_of([number, value]), raw)
    return raw


def rows_of(found: list[bytes]) -> list[Any]:
    return [unpack(raw)[0] for raw in found]


def rest(view: TupleView, limit: int = 100) -> list[bytes]:
    found: list[bytes] = []
    while (tuples := view.take(limit)) is not None:
        found += tuples
    return found


def corners(value: list[float], dimension: int) -> Corners:
    if len(value) == dimension:
        return value, value
    pairs = list(zip(value[:dimension], value[dimension:], strict=True))
    return [min(pair) for pair in pairs], [max(pair) for pair in pairs]


class Model:
    """The tuples that the index should have, and a generator of coordinates."""

    def __init__(self, seed: int, dimension: int, distance: str) -> None:
        self.random = random.Random(seed)
        self.dimension, self.distance = dimension, distance
        self.rows: dict[int, list[float]] = {}
        self.span = self.random.choice((5, 100, 1000))

    def coordinates(self) -> list[float]:
        source, span = self.random, self.span
        value: list[float] = [
            source.choice((source.randrange(-span, span), source.uniform(0, span))) for _ in range(self.dimension)
        ]
        if source.random() < 0.4:
            value += [number + source.choice((0, 1, source.uniform(-span / 5, span / 5))) for number in value]
        return value

    def change(self, index: RtreeIndex) -> None:
        source = self.random
        if source.random() < 0.6 or not self.rows:
            number = len(self.rows) * 2 + source.randrange(2)
        else:
            number = source.choice(list(self.rows))
        old, new = self.rows.pop(number, None), self.coordinates()
        if old is not None and source.random() < 0.7:
            index.remove(index.key_of([number, old]))
            return
        self.rows[number] = new
        old_keys = [] if old is None else [index.key_of([number, old])]
        index.exchange(old_keys, [index.key_of([number, new])], pack([number, new]))

    def expected(self, iterator: int, key: list[float]) -> list[int]:
        matches, (a, b) = MATCHES[iterator], corners(key, self.dimension)
        found = []
        for number, value in self.rows.items():
            low, high = corners(value, self.dimension)
            if all(map(matches, low, high, a, b)):
                found.append(number)
        return sorted(found)

    def far(self, value: list[float], key: list[float]) -> float:
        (low, high), (point, _) = corners(value, self.dimension), corners(key, self.dimension)
        ways = [max(a - p, p - b, 0) for a, b, p in zip(low, high, point, strict=True)]
        return sum(way * way for way in ways) if self.distance == "euclid" else sum(ways)

    def distances(self, key: list[float]) -> list[float]:
        return sorted(self.far(value, key) for value in self.rows.values())


def check_pages(index: RtreeIndex) -> None:
    """Assert that boxes contain their children, and that the ranges of pages follow each other."""
    pages, found = index.pages, []

    def visit(node: BoxNode, parent: BoxNode | None) -> None:
        assert node.parent is parent
        for *box, child in node.rows:
            assert tuple(box) == child.box
            assert pages.geometry.unite_two(node.box, child.box) == node.box
            if not node.is_bottom:
                visit(child, node)
                continue
            found.append(child)
            assert child.parent is node
            for key in index.tree.keys(*child.range):
                assert pages.geometry.extend(child.box, key) is child.box

    visit(pages.root, None)
    assert found == pages.pages
    assert [page.end for page in found] == [*[page.first for page in found[1:]], None]
    assert found[0].first == pages.geometry.layout.lowest


def check_reads(index: RtreeIndex, model: Model, key: list[float]) -> None:
    given = [key] if model.dimension == 1 or model.random.random() < 0.5 else key
    for iterator in MATCHES:
        expected = model.expected(iterator, key)
        everything = index.select(iterator, given, 0, 1 << 40)
        assert sorted(rows_of(everything)) == expected
        assert index.select(iterator, given, 2, 3) == everything[2:5]
        assert index.count(iterator, given) == len(expected)
        assert sorted(rows_of([raw for chunk in index.scan_chunks(iterator, given, 7) for raw in chunk])) == expected
        assert sorted(rows_of(list(index.scan(iterator, given)))) == expected
        assert sorted(rows_of(rest(open_view(index, (), index.cursor(iterator, given)), 10))) == expected
    near = model.distances(key)
    for found in (
        index.select(I.NEIGHBOR, given, 0, 1 << 40),
        list(index.scan(I.NEIGHBOR, given)),
        rest(open_view(index, (), index.cursor(I.NEIGHBOR, given)), 10),
    ):
        assert sorted(rows_of(found)) == sorted(model.rows)
        assert [model.far(unpack(raw)[1], key) for raw in found] == pytest.approx(near)
    found = index.select(I.NEIGHBOR, given, 1, 4)
    assert [model.far(unpack(raw)[1], key) for raw in found] == pytest.approx(near[1:5])


@pytest.mark.parametrize("distance", ["euclid", "manhattan"])
@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 20])
def test_every_iterator_selects_what_the_model_selects(dimension: int, distance: str) -> None:
    index, model = make(dimension, distance), Model(dimension, dimension, distance)
    for _ in range(4):
        for _ in range(250):
            model.change(index)
        check_pages(index)
        keys = [model.coordinates() for _ in range(3)]
        keys.append(model.random.choice(list(model.rows.values())))
        for key in keys:
            check_reads(index, model, key)
        check_pages(index)
    for number in list(model.rows)[2:]:
        index.remove(index.key_of([number, model.rows.pop(number)]))
    check_pages(index)
    check_reads(index, model, model.coordinates())


def test_a_filled_index_is_like_one_that_has_grown() -> None:
    model, keyed, filled = Model(3, 2, "euclid"), Keyed(), make()
    rows = [[number, model.coordinates()] for number in range(1500)]
    assert list(keyed.add_tuples(filled, [pack(row) for row in rows], rows))
    for _ in fill(filled, keyed, lambda one, other: AssertionError(one, other)):
        pass
    model.rows = dict(rows)
    check_pages(filled)
    assert len(filled) == 1500
    assert len(filled.pages.pages) > 32
    for _ in range(200):
        model.change(filled)
    for _ in range(2):
        check_reads(filled, model, model.coordinates())
    check_pages(filled)


def test_coordinates_without_bounds() -> None:
    """Coordinates of every size work, and NaN breaks nothing."""
    index = make()
    values: list[list[float]] = [
        [float("nan"), 1.0], [float("inf"), 0.0], [-float("inf"), 5.0], [1e308, -1e308], [-0.0, 0.0], [0, 0],
        [5e-324, 1.0, float("nan"), 2.0], [-1e308, -1e308, 1e308, 1e308], [-float("inf"), 0, float("inf"), 0],
    ]  # fmt: skip
    for number, value in enumerate(values):
        put(index, number, value)
    assert sorted(rows_of(index.select(I.ALL, [], 0, 99))) == list(range(9))
    assert sorted(rows_of(index.select(I.NEIGHBOR, [0, 0], 0, 99))) == list(range(9))
    assert sorted(rows_of(index.select(I.EQ, [0, 0], 0, 99))) == [4, 5]
    assert rows_of(index.select(I.EQ, [1e308, -1e308], 0, 99)) == [3]
    assert sorted(rows_of(index.select(I.GE, [1e307, 0.0], 0, 99))) == [7, 8]
    for number, value in enumerate(values):
        index.remove(index.key_of([number, value]))
    assert len(index) == 0


@pytest.mark.parametrize(
    ("iterator", "key", "code"),
    [
        (I.EQ, [], ErrorCode.KEY_PART_COUNT),
        (I.NEIGHBOR, [], ErrorCode.KEY_PART_COUNT),
        (I.EQ, [1, 2, 3], ErrorCode.KEY_PART_COUNT),
        (I.EQ, [1], ErrorCode.KEY_PART_TYPE),
        (I.EQ, [[1, 2, 3]], ErrorCode.RTREE_RECT),
        (I.ALL, [1, "x"], ErrorCode.KEY_PART_TYPE),
        (I.ALL, [[1, None]], ErrorCode.KEY_PART_TYPE),
        (I.OVERLAPS, [1, (1 << 53) + 1], ErrorCode.FIELD_TYPE),
        (I.REQ, [1, 2], ErrorCode.UNSUPPORTED_INDEX_FEATURE),
        (I.BITS_ANY_SET, [1, 2], ErrorCode.UNSUPPORTED_INDEX_FEATURE),
    ],
)
def test_wrong_keys(iterator: int, key: list[Any], code: ErrorCode) -> None:
    with pytest.raises(BoxError) as caught:
        make().select(iterator, key, 0, 1)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("value", "code"),
    [([1], ErrorCode.RTREE_RECT), ([1, 2, 3], ErrorCode.RTREE_RECT), ([1, "x"], ErrorCode.FIELD_TYPE),
     ([1, (1 << 64) - 1], ErrorCode.FIELD_TYPE), ([1, 2, 3, True], ErrorCode.FIELD_TYPE)],
)  # fmt: skip
def test_wrong_values(value: list[Any], code: ErrorCode) -> None:
    with pytest.raises(BoxError) as caught:
        make().key_of([1, value])
    assert caught.value.code == code


def test_what_such_an_index_has_not() -> None:
    index = make(path="a.b")
    put(index, 1, {"a": {"b": [1, 2]}})
    for call in (lambda: index.min([]), lambda: index.max([]), lambda: index.random(1)):
        with pytest.raises(BoxError, match=r"Index 'i' \(RTREE\) of space 's' \(memtx\) does not support"):
            call()
    with pytest.raises(BoxError, match="non-unique indexes"):
        index.get([1, 2])
    for dimension in (0, 21):
        with pytest.raises(BoxError, match=rf"dimension \({dimension}\): must belong to range \[1, 20\]"):
            make(dimension)


def test_both_zeros_are_equal() -> None:
    """EQ finds 0.0 and -0.0 alike."""
    index = make()
    for number, value in enumerate(([0.0, -0.0], [-0.0, 0.0], [-1, -0.0, 1, 0.0], [1, 0, -1, 0], [0, 1])):
        put(index, number, value)
    assert sorted(rows_of(index.select(I.EQ, [0, 0], 0, 9))) == [0, 1]
    assert sorted(rows_of(index.select(I.EQ, [-0.0, -0.0], 0, 9))) == [0, 1]
    assert sorted(rows_of(index.select(I.EQ, [-1, 0.0, 1, -0.0], 0, 9))) == [2, 3]
    assert index.count(I.EQ, [-0.0, 1.0]) == 1


VIOLATED: dict[int, Callable[[float, float, float, float], bool]] = {
    I.OVERLAPS: lambda low, high, a, b: low > b or high < a,
    I.EQ: lambda low, high, a, b: low != a or high != b,
    I.GE: lambda low, high, a, b: low > a or high < b,
    I.GT: lambda low, high, a, b: low >= a or high <= b,
    I.LE: lambda low, high, a, b: low < a or high > b,
    I.LT: lambda low, high, a, b: low <= a or high >= b,
}
"""For each iterator, whether the range of a tuple violates the condition of the key in one dimension."""


@pytest.mark.parametrize("count", [8, 400])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_nan_violates_no_comparison_but_equality(dimension: int, count: int) -> None:
    """A tuple with NaN is found wherever its other coordinates allow it, also by a key with NaN; as in Tarantool, NaN
    changes places with the other corner. To NEIGHBOR it is as near as can be.
    """
    source, index, rows = random.Random(dimension * count), make(dimension), {}

    def coordinates() -> list[float]:
        value = [source.choice((math.nan, *range(-9, 9))) for _ in range(dimension * source.choice((1, 2)))]
        return [float(number) for number in value]

    def ordered(value: list[float]) -> list[tuple[float, float]]:
        pairs = zip(value[:dimension], value[-dimension:], strict=True)
        return [(a, b) if len(value) == dimension or a <= b else (b, a) for a, b in pairs]

    for number in range(count):
        rows[number] = coordinates()
        put(index, number, rows[number])
    for number in range(0, count, 3):
        index.remove(index.key_of([number, rows.pop(number)]))
    for _ in range(40):
        key = coordinates()
        for kind, is_violated in VIOLATED.items():
            wanted = []
            for number, value in rows.items():
                sides = zip(ordered(value), ordered(key), strict=True)
                if not any(is_violated(*side, *bounds) for side, bounds in sides):
                    wanted.append(number)
            assert sorted(rows_of(index.select(kind, [key], 0, 1000))) == wanted, (kind, key)
            assert sorted(rows_of(list(index.scan(kind, [key])))) == wanted
            assert index.count(kind, [key]) == len(wanted)
        found = [
            sum(
                (low - point) ** 2 if point < low else (point - high) ** 2 if point > high else 0
                for (low, high), (point, _) in zip(ordered(rows[number]), ordered(key), strict=True)
            )
            for number in rows_of(index.select(I.NEIGHBOR, [key], 0, 1000))
        ]
        assert found == sorted(found)
        assert len(found) == len(rows)


@pytest.mark.parametrize("distance", ["euclid", "manhattan"])
def test_neighbours_of_an_infinite_point(distance: str) -> None:
    """A tuple at an infinite point has distance 0 to it, though differences of coordinates are no numbers."""
    index, inf = make(distance=distance), float("inf")
    for number in range(200):
        put(index, number, [number, number])
    put(index, 200, [inf, 0])
    assert rows_of(index.select(I.NEIGHBOR, [inf, 0], 0, 1)) == [200]
    assert sorted(rows_of(index.select(I.NEIGHBOR, [inf, 0], 0, 999))) == list(range(201))


@pytest.mark.parametrize(("distance", "large", "small"), [("euclid", 2.0**27, 1.2), ("manhattan", 2.0**53, 1.0)])
@pytest.mark.parametrize("are_points", [True, False])
def test_distances_are_rounded_as_in_tarantool(distance: str, large: float, small: float, are_points: bool) -> None:
    """The last dimension is added first: so a large one there hides the small ones."""
    index = make(3, distance)
    for number, value in enumerate([[large, small, small], [small, small, large]], 1):
        put(index, number, value if are_points else value + [each + 1 for each in value])
    for limit in (2, 100):
        assert rows_of(index.select(I.NEIGHBOR, [0, 0, 0], 0, limit)) == [2, 1]


@pytest.mark.parametrize(("dimension", "distance"), [(1, "euclid"), (2, "euclid"), (2, "manhattan"), (3, "euclid")])
@pytest.mark.parametrize("scale", [1, 1e-150, 1e200])
def test_few_neighbours_are_the_first_of_all(dimension: int, distance: str, scale: float) -> None:
    """A bounded search for neighbours gives the first results of an unbounded one, also if it is continued."""
    source, index = random.Random(dimension), make(dimension, distance)
    for number in range(700):
        width = dimension * (2 if number % 5 == 0 and scale == 1 else 1)
        put(index, number, [source.randrange(1, 400) * scale for _ in range(width)])
    for _ in range(8):
        point = [[source.randrange(-50, 450) * scale for _ in range(dimension)]]
        box = index.rectangle(I.NEIGHBOR, point)
        assert box is not None
        far = {raw: index.geometry.distances.of_key(index.key_of(unpack(raw)), box) for raw in index.values_list()}
        nearest = sorted(far.values())
        for limit in (1, 2, 10, 31, 32, 33, 100, 2000):
            found = index.select(I.NEIGHBOR, point, 0, limit)
            assert [far[raw] for raw in found] == nearest[:limit]
            assert len(set(found)) == len(found)
        cursor = index.cursor(I.NEIGHBOR, point)
        found = cursor.fetch(7) + cursor.fetch(16) + cursor.fetch(300)
        assert [far[raw] for raw in found] == nearest[:323]
        assert len(set(found)) == 323
        cursor.rewind(100)
        assert [far[raw] for raw in cursor.fetch(50)] == nearest[123:173]


@pytest.mark.parametrize("iterator", [I.OVERLAPS, I.NEIGHBOR])
def test_a_scan_goes_on_while_the_index_changes(iterator: int) -> None:
    """A scan gives each tuple that stays exactly once, and no removed one, while the index changes."""
    index, source = make(), random.Random(4)
    values = {number: [number % 40, number // 40] for number in range(600)}
    for number, value in values.items():
        put(index, number, value)
    gone: set[int] = set()
    seen: list[int] = []
    for raw in index.scan(iterator, [0, 0, 50, 50]):
        number = unpack(raw)[0]
        assert number not in gone
        seen.append(number)
        if number < 600 and source.random() < 0.5:
            other = source.randrange(600)
            if other not in gone:
                gone.add(other)
                index.remove(index.key_of([other, values[other]]))
    assert len(seen) == len(set(seen))
    assert set(range(600)) - gone <= set(seen)


@pytest.mark.parametrize("iterator", [I.OVERLAPS, I.NEIGHBOR, I.ALL])
def test_a_view_shows_what_was_there(iterator: int) -> None:
    """A view shows the tuples of its moment after inserts, moves and removals, with pages split and joined."""
    index, model = make(), Model(9, 2, "euclid")
    for _ in range(3000):
        model.change(index)
    key = [-10, -10, model.span, model.span / 2]
    expected = sorted(model.expected(iterator, key) if iterator != I.NEIGHBOR else model.rows)
    was = {number: pack([number, value]) for number, value in model.rows.items()}
    before = [(index.key_of([7_000_000, [0, 0]]), None)]  # a reader may see other entries than the index has
    view = open_view(index, before, index.cursor(iterator, key))
    found: list[bytes] = []
    while (taken := view.take(20)) is not None:
        found += taken
        for _ in range(30):
            model.change(index)
        index.put(index.key_of([model.random.randrange(1000) + 10_000, [1, 1]]), b"later")
    assert sorted(rows_of(found)) == expected
    assert all(was[unpack(raw)[0]] == raw for raw in found)
    assert index.listeners == []


@pytest.mark.parametrize("iterator", [I.OVERLAPS, I.NEIGHBOR, I.ALL])
def test_what_lies_over_the_tree_is_found(iterator: int) -> None:
    """Tuples laid over the tree are found before, during and after the merge, also if they are changed again."""
    index, source = make(), random.Random(2)
    values = {number: [source.uniform(0, 100), source.uniform(0, 100)] for number in range(1000)}
    for number, value in values.items():
        put(index, number, value)
    changes = OOBTree()
    for number in range(0, 1000, 3):
        changes[index.key_of([number, values.pop(number)])] = GONE
    for number in range(2000, 2500):
        values[number] = [source.uniform(-100, 200), source.uniform(0, 100)]
        changes[index.key_of([number, values[number]])] = pack([number, values[number]])
    index.lay_over(changes, 500 - 334)

    def check() -> None:
        window = [-100, 0, 200, 50]
        expected = [number for number, (_, y) in values.items() if iterator != I.OVERLAPS or y <= 50]
        found = index.select(iterator, window, 0, 9999)
        assert sorted(rows_of(found)) == sorted(expected)
        assert sorted(rows_of(list(index.scan(iterator, window)))) == sorted(expected)
        assert index.count(iterator, window) == len(expected)
        if iterator == I.NEIGHBOR:
            far = [(x + 100) ** 2 + y**2 for x, y in (unpack(raw)[1] for raw in found)]
            assert far == sorted(far)

    check()
    values[2001] = [1, 1]
    index.put(index.key_of([2001, [1, 1]]), pack([2001, [1, 1]]))
    index.remove(index.key_of([2002, values.pop(2002)]))
    values.pop(2001)
    index.remove(index.key_of([2001, [1, 1]]))
    old = next(unpack(raw)[1] for raw in index.values_list() if unpack(raw)[0] == 2001)
    values[2001] = old
    while index.merge(100):
        check()
    check()
    check_pages(index)


@pytest.mark.parametrize("kind", ["RTREE", "BITSET"])
def test_a_discarded_index_is_freed_in_slices(kind: str) -> None:
    part = PartDef(1, FieldType.ARRAY) if kind == "RTREE" else PartDef(1, FieldType.UNSIGNED)
    index = create_index(IndexDef(512, 1, "i", kind, False, (part,)), PRIMARY, space_name="s")
    for number in range(20000):
        row = [number, [number % 99, number // 99] if kind == "RTREE" else number]
        index.put(index.key_of(row), pack(row))

    errors: list[Any] = []

    async def free() -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        releaser, turns = Releaser(loop), 0
        releaser.release(index)
        while not releaser.is_idle:
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(free()) > 10
    assert errors == []
    assert len(index) == 0
    assert index.select(I.ALL, [], 0, 9) == []
    row = [1, [1, 2] if kind == "RTREE" else 3]
    index.put(index.key_of(row), pack(row))
    assert index.select(I.ALL, [], 0, 9) == [pack(row)]


def test_an_emptied_index_is_usable() -> None:
    index = make()
    for number in range(200):
        put(index, number, [number, number])
    index.clear()
    assert index.count(I.OVERLAPS, [0, 0, 300, 300]) == 0
    put(index, 5, [1, 1])
    assert rows_of(index.select(I.OVERLAPS, [0, 0, 300, 300], 0, 9)) == [5]


def test_pages_need_no_garbage_collector() -> None:
    """The collector visits no page, node or row, however the pages change, and they are freed without it."""
    index = make()
    source = random.Random(5)
    places = {number: [source.randrange(1000), source.randrange(1000)] for number in range(4000)}
    for number, place in places.items():
        put(index, number, place)
    for number in range(0, 4000, 3):
        index.remove(index.key_of([number, places[number]]))
    index.select(I.OVERLAPS, [0, 0, 1000, 500], 0, 1000)
    gc.collect()
    pages = index.pages
    nodes = list({id(page.parent): page.parent for page in pages.pages}.values())
    rows = [row for node in nodes for row in getattr(node, "rows", ())]
    read = [each for page in pages.pages for each in (page.keys, pages.entries(page), page.columns)]
    assert len(rows) == len(pages.pages)
    kept = [*pages.pages, *nodes, *rows, *read, pages.pages]
    assert [type(each) for each in kept if gc.is_tracked(each)] == []
    freed = weakref.ref(pages.root)
    gc.disable()
    try:
        del pages, nodes, rows, read, kept
        index.pages = Pages(index.geometry, index.tree)
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [I.EQ, I.OVERLAPS, I.NEIGHBOR])
def test_one_number_is_no_point(kind: int) -> None:
    """A key of one part is a list of coordinates, even where there is only one."""
    index = make(1)
    raw = put(index, 1, [3])
    assert index.select(kind, [[3]], 0, 10) == [raw]
    for read in (
        lambda: index.select(kind, [3], 0, 10),
        lambda: index.cursor(kind, [3]),
        lambda: index.count(kind, [3]),
    ):
        with pytest.raises(BoxError) as caught:
            read()
        assert caught.value.code == ErrorCode.KEY_PART_TYPE


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("share", [0, 1, 3])
def test_searches_of_pages_that_were_searched_before(dimension: int, share: int) -> None:
    """Pages are sorted at their second search, which changes no result, nor does a coordinate that is no number."""
    source, index = random.Random(dimension), make(dimension)
    for number in range(600):
        width = dimension * (2 if number % 3 < share else 1)
        put(index, number, [source.choice((source.randrange(40), 7, -0.0)) for _ in range(width)])
    put(index, 600, [math.nan] * dimension)
    for kind in MATCHES:
        for _ in range(10):
            key = [[source.randrange(40) for _ in range(dimension * source.choice((1, 2)))]]
            box = index.rectangle(I(kind), key)
            selects = index.selector(kind, key)
            wanted = [entry for own, entry in index.tree.items() if selects is None or selects(own)]
            for _ in range(3):
                assert index.select(kind, key, 0, 1000) == wanted, (kind, box)
                assert index.count(kind, key) == len(wanted)
                assert index.cursor(kind, key).fetch(1000) == wanted


def test_a_limited_search_reads_no_more_pages_than_it_needs() -> None:
    """A search ends, or pauses, as soon as it has enough tuples."""
    index = make()
    for number in range(4000):
        put(index, number, [number % 64, number // 64])
    near = [3, 3, 40, 40]
    wanted = index.select(I.OVERLAPS, near, 0, 4000)
    assert len(wanted) == 38 * 38

    def forget_pages() -> None:
        for page in index.pages.pages:
            page.keys = None

    def count_read() -> int:
        return sum(page.keys is not None for page in index.pages.pages)

    forget_pages()
    assert index.select(I.OVERLAPS, near, 2, 3) == wanted[2:5]
    assert count_read() <= 3
    forget_pages()
    cursor = index.cursor(I.OVERLAPS, near)
    found = cursor.fetch(5)
    assert count_read() <= 3
    while rows := cursor.fetch(7):
        found += rows
    assert found == wanted
