"""Equalities of columns that no index begins with: they find the same rows, in the same order, without many reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from box.sql import automatic_index
from box.sql.automatic_index import AutomaticIndex
from box.sql.stored_values import Texts

from .conftest import Session, Start

_COUNT: Final = 60
_VALUES: Final[dict[str, Callable[[int], Any]]] = {
    "int": lambda number: number - 9,
    "unsigned": lambda number: 2**63 - 5 + number,
    "string": lambda number: f"é{number}",
    "boolean": lambda number: number % 2 == 0,
    "varbinary": lambda number: bytes([number]),
    "double": lambda number: number / 2,
}
"""For each type a function that gives a value of a number."""
_COLUMNS: Final = "nusfbd"
"""The columns of the tables; each has a type of `_VALUES`."""


def _row(number: int, factor: int) -> list[Any]:
    """Return a row with nil here and there."""
    small = number * factor % 17
    values = [value(small) for value in _VALUES.values()]
    return [number, *(None if (number + place) % 7 == 0 else value for place, value in enumerate(values))]


@pytest.fixture
def tables(start: Start) -> tuple[Session, list[list[Any]], list[list[Any]]]:
    """Create two tables, `l` and `r`, and return their rows."""
    db = start()
    columns = ", ".join(f"{name} {type_name}" for name, type_name in zip(_COLUMNS, _VALUES, strict=True))
    sides = []
    for name, factor in (("l", 3), ("r", 5)):
        db.sql(f"create table {name} (id int primary key, {columns})")
        rows = [_row(number, factor) for number in range(_COUNT)]
        for row in rows:
            db.sql(f"insert into {name} values (?, ?, ?, ?, ?, ?, ?)", *row)
        sides.append(rows)
    return db, sides[0], sides[1]


def _reads(db: Session) -> int:
    """Return how many rows the queries of a node have read from tables."""
    return sum(
        table.reads for connection in db.node.sql._queries._free[Texts.UTF8] for table in connection.tables.values()
    )


def _equal(left: list[Any], right: list[Any], places: range) -> bool:
    return all(left[place] is not None and left[place] == right[place] for place in places)


@pytest.mark.parametrize("place", range(1, 7))
@pytest.mark.parametrize("count", [1, 2])
def test_joins(tables: Any, place: int, count: int) -> None:
    db, left, right = tables
    places = range(place, min(place + count, 7))
    condition = " and ".join(f"l.{_COLUMNS[one - 1]} = r.{_COLUMNS[one - 1]}" for one in places)
    before = _reads(db)
    expected = [[a[0], b[0]] for a in left for b in right if _equal(a, b, places)]
    assert db.sql(f"select l.id, r.id from l, r where {condition}") == expected
    assert expected
    assert _reads(db) - before < 2 * _COUNT + 4 * _COUNT + len(expected)

    outer = [pair for a in left for pair in [[a[0], b[0]] for b in right if _equal(a, b, places)] or [[a[0], None]]]
    assert db.sql(f"select l.id, r.id from l left join r on {condition}") == outer


def test_values_that_differ_only_in_type_are_equal(start: Start) -> None:
    db = start()
    db.sql("create table a (id int primary key, n number, d double)")
    db.sql("create table b (id int primary key, n number, d double)")
    db.sql("insert into a values (1, 1, 0.0), (2, 2.0, 2), (3, 9007199254740993, 3)")
    db.sql("insert into b values (1, 1.0, -0.0), (2, 2, 2.0), (3, 9007199254740992, 3.5)")
    assert db.sql("select a.id, b.id from a join b on a.n = b.n") == [[1, 1], [2, 2]]
    assert db.sql("select a.id, b.id from a join b on a.d = b.d") == [[1, 1], [2, 2]]


def test_collations_compare_as_without(start: Start) -> None:
    db = start()
    for name in "ab":
        db.sql(f'create table {name} (id int primary key, s text collate "unicode_ci")')
    db.sql("insert into a values (1, 'x'), (2, 'Y'), (3, 'z')")
    db.sql("insert into b values (1, 'X'), (2, 'y'), (3, 'w')")
    assert db.sql("select a.id, b.id from a join b on a.s = b.s") == [[1, 1], [2, 2]]


def test_correlated_queries(tables: Any) -> None:
    db, left, right = tables
    before = _reads(db)
    expected = [[a[0], max((b[0] for b in right if _equal(a, b, range(1, 2))), default=None)] for a in left]
    assert db.sql("select id, (select max(r.id) from r where r.n = l.n) from l") == expected
    assert _reads(db) - before < 8 * _COUNT

    known = [[a[0]] for a in left if any(_equal(a, b, range(3, 4)) for b in right)]
    assert db.sql("select id from l where exists (select 1 from r where r.s = l.s limit 1)") == known


def test_three_tables_and_themselves(tables: Any) -> None:
    db, left, right = tables
    before = _reads(db)
    expected = sorted(
        [a[0], b[0], c[0]]
        for a in left
        for b in right
        for c in left
        if _equal(a, b, range(1, 2)) and _equal(b, c, range(3, 4))
    )
    found = db.sql("select x.id, r.id, y.id from l as x, l as y, r where x.n = r.n and r.s = y.s")
    assert sorted(found) == expected
    assert _reads(db) - before < 5 * len(expected) + 10 * _COUNT


def test_a_range_besides(tables: Any) -> None:
    db, left, right = tables
    db.sql("create index by_b on r (b)")
    condition = "l.n = r.n and r.b >= x'05'"
    expected = {(a[0], b[0]) for a in left for b in right if _equal(a, b, range(1, 2)) and (b[5] or b"") >= b"\x05"}
    assert {(a, b) for a, b in db.sql(f"select l.id, r.id from l, r where {condition}")} == expected
    # A range that depends on the other table is another one for each of its rows.
    expected = {
        (a[0], b[0])
        for a in left
        for b in right
        if _equal(a, b, range(1, 2)) and a[5] is not None and b[5] is not None and b[5] >= a[5]
    }
    assert {(a, b) for a, b in db.sql("select l.id, r.id from l, r where l.n = r.n and r.b >= l.b")} == expected


def test_one_scan_for_a_constant(tables: Any) -> None:
    db, left, _ = tables
    assert db.sql("select id from l where s = ?", left[4][3]) == [[a[0]] for a in left if a[3] == left[4][3]]
    assert db.sql("select id from l where s = 'none'") == []
    assert db.sql("select id from l where n = 3 order by id desc") == [[a[0]] for a in reversed(left) if a[1] == 3]
    assert db.sql("select id from l where f = null") == []
    assert db.sql("select id from l where n in (5, 3)") == [[a[0]] for a in left if a[1] in (3, 5)]
    assert db.sql("update l set n = 100 where s = ?", left[4][3]) == sum(a[3] == left[4][3] for a in left)


def test_reverse_order(tables: Any) -> None:
    db, left, right = tables
    db.sql('set session "sql_reverse_unordered_selects" = true')
    expected = [[a[0], b[0]] for a in reversed(left) for b in reversed(right) if _equal(a, b, range(1, 2))]
    assert db.sql("select l.id, r.id from l, r where l.n = r.n") == expected


@pytest.mark.parametrize("mvcc", [False, True])
def test_transactions_see_their_changes(start: Start, mvcc: bool) -> None:
    db = start(memtx_use_mvcc_engine=mvcc)
    for name in "ab":
        db.sql(f"create table {name} (id int primary key, n int)")
        db.sql(f"insert into {name} values (1, 1), (2, 2), (3, 3)")
    other = Session(db.node)
    query = "select a.id, b.id from a join b on a.n = b.n"
    db.sql("start transaction")
    db.sql("update b set n = 9 where n = 2")
    db.sql("insert into b values (4, 3)")
    assert db.sql(query) == [[1, 1], [3, 3], [3, 4]]
    if mvcc:
        assert other.sql(query) == [[1, 1], [2, 2], [3, 3]]
    db.sql("rollback")
    assert db.sql(query) == [[1, 1], [2, 2], [3, 3]]


def test_a_statement_sees_no_index_of_another_one(tables: Any) -> None:
    db, _, _ = tables
    query = "select count(*) from (select l.id from l, r where l.n = r.n limit 1000)"
    before = db.value(query)
    db.sql("insert into r (id, n) values (1000, -9)")
    assert db.value(query) > before
    assert all(not connection.automatic for connection in db.node.sql._queries._free[Texts.UTF8])


def test_plans(tables: Any) -> None:
    db, _, _ = tables

    def plan(text: str) -> list[str]:
        return [row[3] for row in db.sql(f"explain query plan {text}")]

    assert plan("select * from l, r where l.n = r.n and l.s = r.s") == [
        "SCAN TABLE L",
        "SEARCH TABLE R USING EPHEMERAL INDEX (N=? AND S=?)",
    ]
    assert plan("select id from l where n = 5") == ["SCAN TABLE L"]
    assert plan("select id, (select max(r.id) from r where r.n = l.n) from l")[-1] == (
        "SEARCH TABLE R USING EPHEMERAL INDEX (N=?)"
    )


class _Rows:
    """Decodes tuples that are numbers to rows."""

    @staticmethod
    def rows(numbers: list[int]) -> list[list[Any]]:
        return [[number, number % 10, str(number % 3)] for number in numbers]


@pytest.mark.parametrize("columns", [[1], [2], [1, 2]])
def test_great_indexes_have_parts(monkeypatch: pytest.MonkeyPatch, columns: list[int]) -> None:
    monkeypatch.setattr(automatic_index, "_PART", 8)
    index = AutomaticIndex((), 100)
    decoder: Any = _Rows
    batches: Any = iter([list(range(70)), list(range(70, 100))])
    assert index.fill(batches, decoder, columns) == 100
    get = automatic_index.value_of(columns)
    for row in decoder.rows(range(100)):
        same = [one[0] for one in decoder.rows(range(100)) if get(one) == get(row)]
        assert index.find(get(row)) == same
    assert index.find("no such value") == []
    steps = 1
    while index.free_some():
        steps += 1
    assert steps == 13


@pytest.mark.parametrize(
    ("condition", "count"),
    [("l.id = i - 1", 50), ("l.n = i - 12", 51), ("l.d = (i - 1) / 2.0", 51), ("l.id = i + 0.5", 0)],
)
def test_a_computed_number_finds_its_rows(tables: Any, condition: str, count: int) -> None:
    db, left, _ = tables
    counted = "with recursive q (i) as (values (1) union all select i + 1 from q where i < 50)"
    before = _reads(db)
    found = db.sql(f"{counted} select i, l.id from q join l on {condition}")
    assert _reads(db) - before < 600
    numbers = {"l.id": 0, "l.n": 1, "l.d": 6}
    column, _, text = condition.partition(" = ")
    rows = [[i, row[0]] for i in range(1, 51) for row in left if row[numbers[column]] == eval(text, {"i": i})]
    assert sorted(found) == rows
    assert len(rows) == count
