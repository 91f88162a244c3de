"""Indexes against a model: a sorted list of (key, entry)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from box.data.codec import pack
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType as T
from box.errors import BoxError, ErrorCode
from box.index import Index, IndexDef, IteratorType, create_index
from box.index.bulk import SLICE, Keyed, fill
from box.index.layered import GONE
from box.index.memory import MemoryQuota
from box.index.ordered import OrderedIndex

I = IteratorType  # noqa: E741
PRIMARY = KeyDef([PartDef(0, T.UNSIGNED)])


def index_of(*parts: PartDef, unique: bool = True, kind: str = "TREE", primary: KeyDef | None = PRIMARY) -> Index:
    return create_index(IndexDef(512, 1, "i", kind, unique, parts), primary, space_name="test")


SHAPES: dict[str, Callable[[], Index]] = {
    "unsigned": lambda: index_of(PartDef(0, T.UNSIGNED), primary=None),
    "integer": lambda: index_of(PartDef(1, T.INTEGER)),
    "string": lambda: index_of(PartDef(2, T.STRING)),
    "two parts": lambda: index_of(PartDef(2, T.STRING), PartDef(0, T.UNSIGNED)),
    "non-unique": lambda: index_of(PartDef(2, T.STRING), unique=False),
    "non-unique with a part of the primary key": lambda: index_of(
        PartDef(2, T.STRING), PartDef(0, T.UNSIGNED), unique=False
    ),
    "non-unique nullable": lambda: index_of(PartDef(3, T.UNSIGNED, is_nullable=True), unique=False),
    "unique nullable": lambda: index_of(PartDef(4, T.UNSIGNED, is_nullable=True)),
    "unique nullable of two parts": lambda: index_of(PartDef(2, T.STRING), PartDef(4, T.UNSIGNED, is_nullable=True)),
}


def tuples(count: int, seed: int = 1) -> list[list[Any]]:
    """Generate tuples [unique unsigned, unique integer, string (unique with a suffix), nullable, nullable unique]."""
    rnd = random.Random(seed)
    numbers = rnd.sample(range(count * 3), count)
    return [
        [
            number * 7,
            number - count,
            f"name{number % 5 if seed > 1 else number}",
            rnd.choice([None, 1, 2, 3]),
            rnd.choice([None, number]),
        ]
        for number in numbers
    ]


class Model:
    """A sorted list that does what an index should do."""

    def __init__(self, index: Index, rows: list[list[Any]]) -> None:
        parts = [index.key_of(row) for row in rows]
        self.pairs = sorted(zip(parts, rows, strict=True), key=lambda pair: pair[0])
        self.key_def = index.key_def

    def select(self, iterator: IteratorType, values: list[Any]) -> list[list[Any]]:
        key = self.key_def.parse_parts(values)
        size = len(key)

        def prefix(row: list[Any]) -> tuple[Any, ...]:
            return self.key_def.parse_parts(self.key_def.extract_values(row))[:size]

        tests = {
            I.EQ: lambda row: prefix(row) == key,
            I.REQ: lambda row: prefix(row) == key,
            I.GE: lambda row: prefix(row) >= key,
            I.ALL: lambda row: prefix(row) >= key,
            I.GT: lambda row: prefix(row) > key or not size,
            I.LE: lambda row: prefix(row) <= key,
            I.LT: lambda row: prefix(row) < key or not size,
        }
        found = [row for _, row in self.pairs if tests[iterator](row)]
        return found[::-1] if iterator.is_reverse else found


def filled(shape: str, rows: list[list[Any]]) -> Index:
    index = SHAPES[shape]()
    for row in rows:
        index.put(index.key_of(row), row)
    return index


@pytest.mark.parametrize("shape", SHAPES)
def test_every_iterator_with_every_kind_of_key(shape: str) -> None:
    """Full, partial, absent and empty keys select the model's entries in its order, by each iterator,
    and count agrees.
    """
    rows = tuples(400, 1 if "unique" not in shape or "two" in shape else 2)
    index = filled(shape, rows)
    model = Model(index, rows)
    rnd = random.Random(3)
    for _ in range(60):
        row = rnd.choice(rows)
        values = index.key_def.extract_values(row)[: rnd.randint(0, len(index.key_def))]
        if values and rnd.random() < 0.3 and isinstance(values[-1], int):
            values[-1] += 1
        for iterator in list(I)[:7]:
            expected = model.select(iterator, values)
            assert list(index.scan(iterator, values)) == expected, (iterator, values)
            assert [entry for chunk in index.scan_chunks(iterator, values, 7) for entry in chunk] == expected
            assert index.count(iterator, values) == (len(rows) if iterator is I.ALL else len(expected))
            offset, limit = rnd.choice((0, 0, 1, 5, 300, 1000)), rnd.choice((0, 1, 7, 100, 2000, 2**40))
            assert index.select(iterator, values, offset, limit) == expected[offset : offset + limit]
        equal = model.select(I.EQ, values)
        assert index.min(values) == (equal[0] if equal else None)
        assert index.max(values) == (equal[-1] if equal else None)


@pytest.mark.parametrize(
    ("kind", "iterator"), [*(("TREE", iterator) for iterator in list(I)[:7]), ("HASH", I.ALL), ("HASH", I.GT)]
)
def test_select_of_many(kind: str, iterator: IteratorType) -> None:
    """Offset and limit are right beyond a chunk's size, from where containers count leaves or slices."""
    index = index_of(PartDef(0, T.UNSIGNED), kind=kind, primary=None)
    for number in range(0, 10_000, 2):
        index.put(number, number)
    for values in ([], [4001]) if kind == "TREE" else ([],):
        expected = list(index.scan(iterator, values))
        for offset in (0, 1, 1023, 1024, 1025, 2500, 4999, 5000, 2**40):
            for limit in (0, 1, 1024, 4000, 2**32 - 1, 2**40):
                assert index.select(iterator, values, offset, limit) == expected[offset : offset + limit]


@pytest.mark.parametrize("shape", SHAPES)
def test_changes(shape: str) -> None:
    """put, replace, remove, find and len agree with a dict."""
    rows = tuples(300)
    index = SHAPES[shape]()
    model: dict[Any, Any] = {}
    rnd = random.Random(5)
    for step in range(2000):
        row = rnd.choice(rows)
        key = index.key_of(row)
        assert index.find(key) == model.get(key)
        action = rnd.randrange(3)
        if action == 0:
            index.put(key, step)
            model[key] = step
        elif action == 1:
            assert index.replace(key, step) == model.get(key)
            model[key] = step
        else:
            index.remove(key)
            model.pop(key, None)
        assert len(index) == len(model)
    assert index.values_list() == [model[key] for key in sorted(model)]
    index.clear()
    assert (len(index), index.values_list()) == (0, [])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 1000, 9000])
def test_an_index_is_filled_in_slices(shape: str, count: int) -> None:
    """An index is filled in any order in slices; a duplicate key is an error."""
    rows = tuples(count)
    index = index_in(shape)
    pairs = [(index.key_of(row), row) for row in rows]
    expected = [row for _, row in sorted(pairs, key=lambda pair: pair[0])]
    assert len(list(fill(index, keyed(pairs), refuse))) >= 2 * (count // SLICE)
    assert index.values_list() == expected
    assert len(index) == count
    if count:
        assert index.find(pairs[count // 2][0]) == pairs[count // 2][1]
        with pytest.raises(LookupError, match="twice"):
            list(fill(index_in(shape), keyed([*pairs, pairs[0]]), refuse))


def keyed(pairs: list[tuple[Any, Any]]) -> Keyed:
    """Generate entries of which some have no key, and do not belong to the index."""
    found = Keyed()
    for start in range(0, len(pairs), 700):
        part: list[tuple[Any, Any]] = [*pairs[start : start + 700], (None, b"without a key")]
        found.add([key for key, _ in part], [entry for _, entry in part])
    return found


def refuse(old: Any, new: Any) -> Exception:
    return LookupError(f"twice: {old} {new}")


def index_in(shape: str) -> OrderedIndex:
    index = SHAPES[shape]()
    assert isinstance(index, OrderedIndex)
    return index


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("iterator", [I.ALL, I.LE])
def test_scans_see_the_index_as_it_is(shape: str, iterator: IteratorType) -> None:
    """A scan gives what lies ahead of its place at each step, while entries come and go in between."""
    rows = tuples(300)
    index = filled(shape, rows)
    rnd = random.Random(11)
    alive = {index.key_of(row): row for row in rows}
    keys = sorted(alive, reverse=iterator.is_reverse)
    ahead: Callable[[Any, Any], bool] = (lambda a, b: a < b) if iterator.is_reverse else (lambda a, b: a > b)
    last = None
    steps = 0
    for row in index.scan(iterator, []):
        expected = next(key for key in keys if key in alive and (last is None or ahead(key, last)))
        assert index.key_of(row) == expected
        last = expected
        steps += 1
        if rnd.random() < 0.3:
            continue
        key = rnd.choice(keys)
        if key in alive:
            index.remove(key)
            alive.pop(key)
        else:
            alive[key] = next(row for row in rows if index.key_of(row) == key)
            index.put(key, alive[key])
    assert steps > 50
    assert not any(last is None or ahead(key, last) for key in alive)


@pytest.mark.parametrize("iterator", [I.ALL, I.LE, I.EQ])
def test_deleting_everything_while_scanning(iterator: IteratorType) -> None:
    rows = [[number, 0, "same", None, None] for number in range(2000)]
    index = filled("non-unique", rows)
    seen = 0
    for row in index.scan(iterator, ["same"]):
        index.remove(index.key_of(row))
        seen += 1
    assert (seen, len(index)) == (2000, 0)


@pytest.mark.parametrize(
    ("kind", "iterator"), [("TREE", I.ALL), ("TREE", I.LE), ("TREE", I.EQ), ("HASH", I.ALL), ("HASH", I.EQ)]
)
def test_rewind(kind: str, iterator: IteratorType) -> None:
    """After a rewind a scan gives the returned entries again."""
    index = index_of(PartDef(0, T.UNSIGNED), kind=kind, primary=None)
    for number in range(500):
        index.put(number, number)
    values = [7] if iterator is I.EQ else []
    whole = list(index.scan(iterator, values))
    cursor = index.cursor(iterator, values)
    rnd = random.Random(2)
    taken: list[int] = []
    while chunk := cursor.fetch(rnd.randint(1, 40)):
        used = rnd.randint(0, len(chunk))
        cursor.rewind(used)
        taken += chunk[:used]
    assert taken == whole


def test_large_and_absent_keys() -> None:
    index = index_of(PartDef(0, T.UNSIGNED), primary=None)
    index.put(2**64 - 1, "top")
    index.put(0, "bottom")
    assert list(index.scan(I.LE, [2**64 - 1])) == ["top", "bottom"]
    assert list(index.scan(I.GT, [2**64 - 1])) == []
    assert list(index.scan(I.LT, [0])) == []
    assert index.find(5) is None
    assert index.get([5]) is None


def test_get() -> None:
    index = filled("unique nullable", [[1, 0, "a", None, 5], [2, 0, "a", None, None], [3, 0, "a", None, None]])
    assert index.get([5]) == [1, 0, "a", None, 5]
    assert [row[0] for row in index.scan(I.EQ, [None])] == [2, 3]
    with pytest.raises(BoxError) as raised:
        index.get([None])
    assert raised.value.code == ErrorCode.KEY_PART_TYPE
    with pytest.raises(BoxError, match=r"Get\(\) doesn't support partial keys and non-unique indexes"):
        SHAPES["non-unique"]().get(["a"])
    with pytest.raises(BoxError, match="Invalid key part count in an exact match"):
        SHAPES["two parts"]().get(["a"])


def test_random_is_repeatable_and_reaches_everything() -> None:
    index = index_of(PartDef(0, T.UNSIGNED), primary=None)
    assert index.random(7) is None
    for number in range(3000):
        index.put(number, number)
    assert index.random(12345) == index.random(12345)
    assert len({index.random(seed) for seed in range(100_000)}) == 3000


def test_excluded_nulls() -> None:
    """With exclude_null tuples with a nil in the part are not in the index; for an absent field other rules apply."""
    index = index_of(PartDef(3, T.UNSIGNED, is_nullable=True, exclude_null=True), unique=False)
    for row in ([1, 0, "", 5], [2, 0, "", None], [3, 0, ""]):
        index.put(index.key_of(row), row)
        index.replace(index.key_of(row), row)
    assert index.values_list() == [[3, 0, ""], [1, 0, "", 5]]
    assert index.find(index.key_of([2, 0, "", None])) is None
    index.remove(index.key_of([2, 0, "", None]))
    assert len(index) == 2


def hash_index(*parts: PartDef) -> Index:
    index = index_of(*(parts or (PartDef(0, T.UNSIGNED),)), kind="HASH", primary=None)
    for number in range(100):
        index.put(index.key_of([number, f"s{number}"]), number)
    return index


def test_hash() -> None:
    index = hash_index()
    assert sorted(index.scan(I.ALL, [])) == list(range(100)) == sorted(index.values_list())
    assert list(index.scan(I.EQ, [5])) == [5]
    assert list(index.scan(I.EQ, [500])) == []
    assert index.count(I.ALL, []) == 100
    assert index.count(I.EQ, [5]) == 1
    assert index.random(1) in range(100)


def test_hash_pages_by_gt() -> None:
    """In a hash GT with the last key of a page gives the next page; without a key it gives everything."""
    index = hash_index()
    order = list(index.scan(I.GT, []))
    assert list(index.scan(I.GT, [order[40]])) == order[41:]
    assert list(index.scan(I.GT, [12345])) == []


@pytest.mark.parametrize("iterator", [I.REQ, I.LT, I.LE, I.GE])
def test_hash_refuses_ordered_iterators(iterator: IteratorType) -> None:
    with pytest.raises(BoxError) as raised:
        hash_index().cursor(iterator, [1])
    assert raised.value.message == "Index 'i' (HASH) of space 'test' (memtx) does not support requested iterator type"
    assert raised.value.code == ErrorCode.UNSUPPORTED_INDEX_FEATURE


@pytest.mark.parametrize("iterator", [I.EQ, I.GE])
def test_hash_refuses_partial_keys(iterator: IteratorType) -> None:
    index = hash_index(PartDef(0, T.UNSIGNED), PartDef(1, T.STRING))
    with pytest.raises(BoxError) as raised:
        index.cursor(iterator, [1])
    assert raised.value.message == (
        "HASH index  does not support selects via a partial key (expected 2 parts, got 1). "
        "Please Consider changing index type to TREE."
    )
    with pytest.raises(BoxError, match="got 0"):
        index.cursor(iterator, [])
    assert index.get([5, "s5"]) == 5


def test_hash_min_and_max() -> None:
    for name in ("min", "max"):
        with pytest.raises(BoxError, match=rf"does not support {name}\(\)"):
            getattr(hash_index(), name)([])


def test_hash_scans_survive_changes() -> None:
    index = hash_index()
    seen = []
    for entry in index.scan(I.ALL, []):
        seen.append(entry)
        index.remove(entry)
        index.remove((entry + 50) % 100)
        index.put(1000 + entry, 1000 + entry)
        if len(seen) > 200:
            break
    assert len(set(seen)) == len(seen)
    assert all((entry + 50) % 100 not in seen for entry in seen if entry < 100)


@pytest.mark.parametrize("iterator", [7, 11])
def test_iterators_of_other_index_types(iterator: int) -> None:
    with pytest.raises(BoxError, match="does not support requested iterator type"):
        SHAPES["unsigned"]().cursor(iterator, [1])


def test_unknown_iterators() -> None:
    for kind in ("TREE", "HASH"):
        with pytest.raises(BoxError, match="Invalid iterator type"):
            index_of(PartDef(0, T.UNSIGNED), kind=kind).cursor(42, [])


def test_keys_are_checked_before_the_scan() -> None:
    index = SHAPES["two parts"]()
    with pytest.raises(BoxError, match=r"Invalid key part count \(expected \[0..2\], got 3\)"):
        index.cursor(I.EQ, ["a", 1, 2])
    with pytest.raises(BoxError, match="Supplied key type of part 0"):
        index.cursor(I.GE, [1])


def test_other_index_types() -> None:
    with pytest.raises(BoxError, match="Unsupported index type supplied for index 'i' in space 'test'"):
        index_of(PartDef(0, T.UNSIGNED), kind="HEAP")


def test_entries_are_opaque() -> None:
    index = SHAPES["unsigned"]()
    for entry in (b"", pack([1]), [], object()):
        index.put(1, entry)
        assert index.find(1) is entry
        assert list(index.scan(I.EQ, [1])) == [entry]


def test_new_entries_are_added_until_a_key_has_one() -> None:
    index = index_of(PartDef(0, T.UNSIGNED), primary=None)
    assert isinstance(index, OrderedIndex)
    raws = [pack([number]) for number in range(5)]
    index.put(3, raws[3])
    assert index.add_new([0, 1, 1, 2], [raws[0], raws[1], raws[1], raws[2]]) == 2
    assert index.add_new([3, 4], [raws[3], raws[4]]) == 0
    assert [len(index), [index.find(number) for number in range(5)]] == [3, [raws[0], raws[1], None, raws[3], None]]
    index.listeners.append(lambda key, old, new: None)
    assert index.add_new([4], [raws[4]]) == 0, "listeners hear of each change"


def test_many_present_entries_are_replaced_at_once() -> None:
    """The former entries come back. A new key, a key given twice, or a listener leaves everything as it is."""
    index = index_of(PartDef(0, T.UNSIGNED), primary=None)
    assert isinstance(index, OrderedIndex)
    index.use_memory(memory := MemoryQuota())
    before = [pack([number]) for number in range(3)]
    for number, raw in enumerate(before):
        index.put(number, raw)
    after, room = [pack([number, "x" * number]) for number in range(4)], memory.room
    assert index.replace_present([0, 1, 3], [after[0], after[1], after[3]]) is None
    assert index.replace_present([0, 0], [after[0], after[1]]) is None
    assert [index.find(number) for number in range(4)] == [*before, None]
    assert index.replace_present([2, 0], [after[2], after[0]]) == [before[2], before[0]]
    assert [index.find(number) for number in range(4)] == [after[0], before[1], after[2], None]
    growth = sum(map(len, after[:3:2])) - sum(map(len, before[::2]))
    assert [len(index), room - memory.room] == [3, growth]
    index.listeners.append(lambda key, old, new: None)
    assert index.replace_present([1], [after[1]]) is None, "listeners hear of each change"


def test_a_failure_in_the_middle_adds_no_new_entry() -> None:
    index = index_of(PartDef(2, T.STRING), PartDef(0, T.UNSIGNED), primary=None)
    assert isinstance(index, OrderedIndex)
    with pytest.raises(TypeError):
        index.add_new([("a", 1), ("b", 2), (3, 3)], [b"a", b"b", b"c"])
    assert [len(index), index.find(("a", 1))] == [0, None]


@pytest.mark.parametrize("way", ["alone", "followed", "layered"])
def test_many_changes_at_once(way: str) -> None:
    """They have the outcome of changes one by one: the entries, their number, the memory, and what listeners hear."""
    rng, outcomes = random.Random(5), []
    changes = [
        (key, None if rng.random() < 0.3 else pack([key, "x" * rng.randrange(9)])) for key in rng.sample(range(99), 60)
    ]
    new = [(key, pack([key, "y" * rng.randrange(9)])) for key in rng.choices(range(120), k=60)]
    for at_once in (False, True):
        index, heard = index_of(PartDef(0, T.UNSIGNED), primary=None), []
        assert isinstance(index, OrderedIndex)
        index.weight = 10
        index.use_memory(MemoryQuota())
        for number in range(0, 99, 3):
            index.put(number, pack([number]))
        if way == "followed":
            index.listeners.append(lambda *change, heard=heard: heard.append(change))  # type: ignore[misc]
        if way == "layered":
            index.lay_over(type(index.tree)({1: pack([1]), 3: GONE}), 0, 0)
        if at_once:
            index.set_many(iter(changes))
            index.replace_all([key for key, _ in new], [raw for _, raw in new])
        else:
            for key, raw in changes:
                _ = index.remove(key) if raw is None else index.replace(key, raw)  # type: ignore[func-returns-value]
            for key, raw in new:
                index.replace(key, raw)
        index.settle()
        assert index.memory is not None
        outcomes.append((list(index.tree.items()), len(index), index.tuple_bytes, index.memory.room, heard))
    assert outcomes[0] == outcomes[1]
