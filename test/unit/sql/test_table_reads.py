"""Queries of a whole table read its tuples without SQLite, and have the rows that SQLite would find."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.sql import pauses, reading, table_reads
from box.wire.change import Request

from .conftest import Session, Start

_QUERIES = (
    "SELECT * FROM t",
    "SELECT id, a FROM t",
    "SELECT n, id, n AS again, t.b FROM t",
    "SELECT x.*, x.s FROM t AS x",
    "SELECT COUNT(*) FROM t",
    "SELECT count(*) AS number FROM t",
    'SELECT "a" FROM t',
    "SELECT t.id FROM t AS x",
    "SELECT nosuch FROM t",
    "SELECT count(*), id FROM t",
    "SELECT count(id) FROM t",
    "SELECT id FROM t LIMIT 2",
    "SELECT id FROM t WHERE id > 1",
    "SELECT DISTINCT a FROM t",
    "SELECT id FROM t ORDER BY id DESC",
    "SELECT id FROM t UNION ALL SELECT a FROM t",
    "SELECT * FROM v",
    "SELECT count(*) FROM v",
    "WITH t AS (SELECT 5 AS id) SELECT * FROM t",
    "SELECT * FROM t WHERE a = ?",
    'SELECT * FROM "_vspace" WHERE "id" = 600',
)
_TUPLES: tuple[list[Any], ...] = (
    [1, 2, float("nan"), "text", True],
    [2, None, 1.5, b"bytes", None],
    [3, 7, 2**64 - 1, float("nan"), False],
    [4, -3, Decimal("1.50"), "\u0436", True],
    [5],
    [6, 1],
    [7, 1, None, None, True, "one more", [1, {"a": float("inf")}]],
    [8, 0, 1e300, "a\udcff", False],
    [9, 0, 0, UUID(int=5), False],
    [10, 0, -0.0, datetime(2026, 1, 1, tzinfo=UTC), False],
)


def _outcome(db: Session, query: str) -> str:
    try:
        result = db.execute(query, *([7] if "?" in query else []))
    except Exception as error:
        return repr(error)
    return f"{result.fields} {result.rows!r}"


def _fill(db: Session, kind: str, rows: int) -> None:
    types = [["ID", "integer"], ["A", "integer"], ["N", "number"], ["S", "any"], ["B", "boolean"]]
    fields = [{"name": name, "type": of, "is_nullable": name != "ID"} for name, of in types]
    db.write("_space", Request.insert(pack([600, 1, "T", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", kind, {"unique": True}, [[0, "integer"]]])))
    for row in _TUPLES:
        db.write("T", Request.insert(pack(row)))
    for number in range(100, 100 + rows):
        db.write("T", Request.insert(pack([number, number % 7, number / 4, str(number), None])))
    db.sql("CREATE VIEW v AS SELECT id FROM t")


@pytest.mark.parametrize("rows", [0, 2500])
@pytest.mark.parametrize("kind", ["tree", "hash"])
@pytest.mark.parametrize("mvcc", [False, True])
def test_rows_are_those_of_sqlite(
    start: Start, monkeypatch: pytest.MonkeyPatch, mvcc: bool, kind: str, rows: int
) -> None:
    """Equal rows, columns and errors, also beside a transaction with other rows, inside it, and in reversed order."""
    db = start(memtx_use_mvcc_engine=mvcc)
    _fill(db, kind, rows)
    other = db.another()
    used = []
    read = table_reads.table_read

    def watched(*args: Any) -> Any:
        found = read(*args)
        used.append(found)
        return found

    def outcomes(read: Any) -> list[str]:
        monkeypatch.setattr(reading, "table_read", read)
        found = [_outcome(db, query) for query in _QUERIES]
        other.sql("START TRANSACTION")
        other.sql("REPLACE INTO t (id, a) VALUES (2, 44), (20, 45)")
        found += [_outcome(one, query) for one in ((db, other) if mvcc else (other,)) for query in _QUERIES]
        other.sql("ROLLBACK")
        db.sql('SET SESSION "sql_reverse_unordered_selects" = true')
        found += [_outcome(db, query) for query in _QUERIES]
        db.sql('SET SESSION "sql_reverse_unordered_selects" = false')
        return found

    direct = outcomes(watched)
    assert len([one for one in used if one is not None]) >= 5
    assert direct == outcomes(lambda *_: None)


def _beside_changes(db: Session, query: str) -> tuple[list[Any], int]:
    """Run a query while another session changes the table in each turn. Returns the rows and the number of turns."""
    other = db.another()

    async def run() -> tuple[list[Any], int]:
        task, turns = asyncio.ensure_future(db.node.sql.execute(db.ctx, query, ())), 0
        await asyncio.sleep(0)
        while not task.done():
            turns += 1
            space = other.node.schema.space_by_name("T")
            other.node.dml.write(other.ctx, space, Request.replace(pack([399 - turns, -1])))
            other.node.dml.write(other.ctx, space, Request.delete([100 + turns * 2]))
            await asyncio.sleep(0)
        return task.result().rows, turns

    found: tuple[list[Any], int] = db.wait(run())
    return found


@pytest.fixture
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    monkeypatch.setattr(table_reads, "_AT_ONCE", 10)


@pytest.mark.usefixtures("_short_slices")
@pytest.mark.parametrize("mvcc", [False, True])
def test_a_long_read_sees_one_moment(start: Start, mvcc: bool) -> None:
    """Rows that others change between two slices are as they were."""
    db = start(memtx_use_mvcc_engine=mvcc)
    _fill(db, "tree", 300)
    before = db.execute("SELECT * FROM t").rows
    assert len(before) == 310
    rows, turns = _beside_changes(db, "SELECT * FROM t")
    assert turns > 20
    assert repr(rows) == repr(before)
    assert db.value("SELECT COUNT(*) FROM t") < 310


@pytest.mark.usefixtures("_short_slices")
def test_rows_are_counted_one_by_one_while_tuples_have_versions(start: Start) -> None:
    """An open transaction has added a row, which others must not count; they, too, count in slices."""
    db = start(memtx_use_mvcc_engine=True)
    _fill(db, "tree", 300)
    writer = db.another()
    writer.sql("START TRANSACTION")
    writer.sql("INSERT INTO t (id) VALUES (5000)")
    assert writer.ctx.txn is not None
    writer.node.txns.share(writer.ctx.txn)
    rows, turns = _beside_changes(db, "SELECT COUNT(*) FROM t")
    assert rows == [[310]]
    assert turns > 20
    assert writer.value("SELECT COUNT(*) FROM t") == db.value("SELECT COUNT(*) FROM t") + 1


def test_large_rows_are_read_in_smaller_slices(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows of a hundred kilobytes pause as often as they are many."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    db = start()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
    for number in range(40):
        db.write("T", Request.insert(pack([number, "x" * 100_000])))

    async def run() -> int:
        task, turns = asyncio.ensure_future(db.node.sql.execute(db.ctx, "SELECT * FROM t", ())), 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        assert len(task.result().rows) == 40
        return turns

    assert db.wait(run()) >= 40


def test_a_table_that_is_dropped_meanwhile(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long read goes on while its table is dropped."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    monkeypatch.setattr(table_reads, "_AT_ONCE", 10)
    db = start()
    _fill(db, "tree", 300)
    other = db.another()

    async def run() -> list[Any]:
        task = asyncio.ensure_future(db.node.sql.execute(db.ctx, "SELECT id FROM t", ()))
        await asyncio.sleep(0)
        assert not task.done()
        await other.node.sql.execute(other.ctx, "DROP VIEW v", ())
        await other.node.sql.execute(other.ctx, "DROP TABLE t", ())
        return (await task).rows

    assert len(db.wait(run())) == 310
    assert db.error("SELECT id FROM t") == ("NO_SUCH_SPACE", "Space 'T' does not exist")
