"""Queries on copies of spaces inside of transactions, and in a node with MVCC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.sql import copies, pauses, reading

from .conftest import Session, Start
from .test_copies import ROWS, Watched, fill

_SUMS = "select a, count(*), sum(d), max(s) from t group by a"


@pytest.fixture
def db(start: Start, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A table of some rows, in a node that copies after few reads, and whose queries pause as often as they can."""
    return _started(start(), monkeypatch)


@pytest.fixture
def watched(db: Session, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(db, monkeypatch)


@pytest.fixture
def versioned(start: Start, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The table of `db` in a node with MVCC."""
    session = _started(start(memtx_use_mvcc_engine=True), monkeypatch)
    _settle(session)
    return session


def _started(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    monkeypatch.setattr(copies, "_LEAST_READS", 0)
    monkeypatch.setattr(reading, "_SMALL", 0)
    fill(session)
    return session


@pytest.mark.parametrize("is_copied", [False, True])
def test_in_a_transaction(db: Session, watched: Watched, is_copied: bool) -> None:
    """A query sees what its transaction has changed, and never waits."""
    watched.is_forced = True
    expected = db.sql(_SUMS) if is_copied else None
    text, turns = "select count(*), sum(d) from t where a = 3", []

    async def tick() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def run() -> list[Any]:
        results = []
        for statement in (
            "start transaction",
            "delete from t where id = 3",
            text,
            "savepoint p",
            "update t set d = 0, a = 3 where id < 10",
            text,
            "rollback to savepoint p",
            text,
        ):
            before = len(turns)
            found = await db.node.sql.execute(db.ctx, statement, ())
            assert len(turns) == before
            results.append(getattr(found, "rows", None))
        return [rows for rows in results if rows is not None]

    async def beside() -> list[Any]:
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        try:
            return await run()
        finally:
            ticking.cancel()

    whole = sum(number + 0.5 for number in range(3, ROWS, 10))
    first, second, third = db.wait(beside())
    assert first == third == [[ROWS // 10 - 1, whole - 3.5]]
    assert second == [[ROWS // 10 - 1 + 9, whole - 3.5]]
    db.sql("rollback")
    assert watched.uses == 3 + is_copied
    assert db.sql(text) == [[ROWS // 10, whole]]
    assert expected is None or db.sql(_SUMS) == expected


def test_a_query_of_a_transaction_that_will_read_many_rows_begins_anew(db: Session, watched: Watched) -> None:
    text = "select count(*), sum(y.d) from t as x join t as y on y.id = x.id + 1 join t as z on z.id = y.id + 1"
    watched.is_forced = False
    first = db.sql(text)
    watched.is_forced = None
    db.sql("start transaction")
    db.sql("update t set a = a")
    assert db.sql(text) == first
    assert watched.uses == 1
    assert 0 < watched.own_reads < ROWS // 2
    db.sql("commit")


def _settle(db: Session) -> None:
    """Wait until no tuple has versions."""

    async def settled() -> None:
        while db.node.dml.txns.storage.has_versions:
            await asyncio.sleep(0)

    db.wait(asyncio.wait_for(settled(), 10))


def test_versions(versioned: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """While tuples have versions, no query runs on copies; afterwards the copy has the changed rows."""
    db, other, watched = versioned, versioned.another(), Watched(versioned, monkeypatch)
    watched.is_forced = True
    text = "select count(*) from t where a = 3 and d > 0"
    assert (db.value(text), watched.uses) == (ROWS // 10, 1)
    made = watched.copies._known[db.node.schema.space_by_name("T").id]
    other.sql("start transaction")
    other.sql("delete from t where id = 3")
    other.sql("insert into t values (-1, 3, 'x', 7), (-2, 3, 'y', 7)")
    assert (db.value(text), other.value(text), watched.uses) == (ROWS // 10, ROWS // 10 + 1, 1)
    other.sql("commit")
    _settle(db)
    assert (db.value(text), watched.uses) == (ROWS // 10 + 1, 2)
    other.sql("start transaction")
    other.sql("update t set a = 3")
    other.sql("rollback")
    db.sql("delete from t where id = -2")
    _settle(db)
    assert (db.value(text), watched.uses) == (ROWS // 10, 3)
    assert watched.copies._known[db.node.schema.space_by_name("T").id] is not made  # a fourth of its rows had changed
    db.sql("start transaction")
    assert db.value(text) == ROWS // 10
    db.sql("commit")


def test_versions_that_come_in_a_pause(versioned: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that wants copies goes on without them if there are versions by then."""
    db, other, watched = versioned, versioned.another(), Watched(versioned, monkeypatch)
    watched.is_forced = False
    text = "select count(*), sum(y.d) from t as x join t as y on y.id = x.id + 1"
    first = db.sql(text)

    async def beside() -> Any:
        task = asyncio.create_task(db.node.sql.execute(db.ctx, text, ()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        await other.node.sql.execute(other.ctx, "start transaction", ())
        await other.node.sql.execute(other.ctx, "delete from t where id = 11", ())
        watched.is_forced = True
        return (await task).rows

    assert db.wait(beside()) == first
    assert watched.uses == 0
    other.sql("commit")
    _settle(db)
    assert db.sql(text) != first
    assert watched.uses == 1
