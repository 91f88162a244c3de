"""Queries that pause: others run, and what they change is not seen; cancelling, errors, the end of the node."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from box import Node
from box.data.codec import unpack
from box.errors import BoxError
from box.iproto.sql_requests import encode_result
from box.sql import pauses, result
from box.sql.sqlite_connection import Connection
from box.wire.constants import Key

from .conftest import Session, Start

_ROWS = 1500
_FILL = (
    f"insert into t with recursive r (n) as (values (0) union all select n + 1 from r where n + 1 < {_ROWS}) "
    "select n, n % 10, 'row' from r"
)
_ENDLESS = "with recursive r (n) as (values (0) union all select n + 1 from r where n >= 0) select count(*) from r"


@pytest.fixture(params=[False, True], ids=["plain", "versions"])
def filled(start: Start, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A table of some thousand rows in a node whose queries pause as often as they can."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    db = start(memtx_use_mvcc_engine=request.param)
    db.sql("create table t (id int primary key, a int, s text)")
    db.sql("create index by_a on t (a)")
    db.sql(_FILL)
    return db


async def _beside(db: Session, query: str, others: Any) -> list[Any]:
    """Run a query, and `others(turn)` in each turn of the loop beside it. Returns the rows."""
    task = asyncio.create_task(db.node.sql.execute(db.ctx, query, ()))
    turn = 0
    while not task.done():
        await asyncio.sleep(0)
        if not task.done():
            turn += 1
            await others(turn)
    assert turn > 1
    return (await task).rows


@pytest.mark.parametrize(
    "query",
    [
        "select id, a, s from t",
        "select id, a, s from t order by id desc",
        "select id, a, s from t order by a, id",
        "select x.id, y.s from t as x join t as y on y.id = x.id + 1 where x.a < 3",
        "select a, count(*), max(id) from t group by a",
        "select id from t where id > 500 and id <= 1200 and id in (select id from t where a in (1, 2))",
        "select count(*) from t where a = 3 union all select sum(id) from t",
    ],
)
def test_a_query_sees_one_moment(filled: Session, query: str) -> None:
    before = filled.sql(query)
    other = filled.another()

    async def change(turn: int) -> None:
        sql = other.node.sql
        if turn % 3 != 1:
            return
        await sql.execute(other.ctx, "update t set s = 'new', a = 9 - a where id % 50 = ?", [turn % 50])
        await sql.execute(other.ctx, "delete from t where id = ? or id = ?", [turn, _ROWS - turn])
        await sql.execute(other.ctx, "insert into t values (?, 3, 'added')", [_ROWS + turn])

    assert filled.wait(_beside(filled, query, change)) == before
    assert filled.value("select count(*) from t where s = 'added'")


@pytest.mark.parametrize("statement", ["drop table t", "truncate table t", "drop index by_a on t"])
def test_the_table_goes_meanwhile(filled: Session, statement: str) -> None:
    query = "select x.id, y.id from t as x join t as y on y.a = x.id"
    before = filled.sql(query)
    other = filled.another()

    async def drop(turn: int) -> None:
        if turn == 2:
            await other.node.sql.execute(other.ctx, statement, [])

    assert filled.wait(_beside(filled, query, drop)) == before
    if statement == "drop table t":
        assert filled.error("select * from t") == ("NO_SUCH_SPACE", "Space 'T' does not exist")


def test_a_table_goes_during_the_first_query_of_it(filled: Session) -> None:
    other = filled.another()

    async def drop(turn: int) -> None:
        if turn == 2:
            await other.node.sql.execute(other.ctx, "drop table t", [])

    counted = (
        "with recursive n (i) as (values (1) union all select i + 1 from n where i < 20000) select count(*) from n"
    )
    assert filled.wait(_beside(filled, f"{counted} left join t on id = i", drop)) == [[20000]]


def test_it_can_be_cancelled_and_has_a_timeout(filled: Session) -> None:
    async def run() -> None:
        sql = filled.node.sql
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sql.execute(filled.ctx, _ENDLESS, ()), 0.05)
        task = asyncio.create_task(sql.execute(filled.ctx, "select count(*) from t as x, t as y, t as z", ()))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    filled.wait(run())
    assert filled.value("select count(*) from t") == _ROWS
    filled.node.sql.end()
    space = filled.node.schema.space_by_name("T")
    assert not any(index.listeners for index in space.indexes.values())  # type: ignore[attr-defined]


def test_an_error_after_a_pause(filled: Session) -> None:
    """Nothing stays frozen after a query that fails."""
    assert filled.error("select sum(id) from t where 10 / (1200 - id) > -100") == (
        "SQL_EXECUTE",
        "Failed to execute SQL statement: division by zero",
    )
    space = filled.node.schema.space_by_name("T")
    assert not any(index.listeners for index in space.indexes.values())  # type: ignore[attr-defined]


def test_a_transaction_has_no_pause(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query in a transaction without versions runs to its end, because a pause would abort the transaction."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    db = start()
    db.sql("create table t (id int primary key, a int, s text)")
    db.sql(_FILL)

    async def run() -> None:
        db.node.txns.begin(db.ctx)
        others: list[int] = []
        asyncio.get_running_loop().call_soon(others.append, 1)
        await db.node.sql.execute(db.ctx, "select sum(id) from t", ())
        assert others == []
        await db.node.sql.execute(db.ctx, "insert into t values (-1, 0, '')", ())
        pending = db.node.txns.commit(db.ctx)
        if pending is not None:
            await pending.wait()

    db.wait(run())
    assert db.value("select count(*) from t") == _ROWS + 1


def test_sorting_is_cut_into_turns() -> None:
    """SQLite itself sorts in short runs, and asks in between whether to go on."""
    db = Connection().db
    turns: list[float] = []
    begin = time.thread_time()

    def note() -> bool:
        nonlocal begin
        turns.append(time.thread_time() - begin)
        begin = time.thread_time()
        return False

    db.set_progress_handler(note, 1000)
    numbers = "with recursive r (n) as (values (1) union all select n + 1 from r where n < 150000) select n from r"
    groups = f"select abs(random()) as x, count(*) from ({numbers}) group by x"
    assert next(db.execute(f"select count(*) from ({groups})"))[0] == 150000
    assert len(turns) > 500
    assert max(turns) < 0.02


def test_turns_are_short() -> None:
    """A query over many rows leaves others a turn every few milliseconds."""

    async def run() -> list[float]:
        turns: list[float] = []
        async with Node() as node:
            await node.execute("create table t (id int primary key, a int, s text)")
            await node.execute(_FILL)
            task = asyncio.create_task(node.execute("select count(*) from t as x, t as y, t as z where x.id % 7 = y.a"))
            while not task.done() and len(turns) < 40:
                begin = time.thread_time()
                await asyncio.sleep(0)
                turns.append(time.thread_time() - begin)
            task.cancel()
        return turns

    turns = sorted(asyncio.run(run()))
    assert len(turns) > 30
    assert turns[len(turns) // 2] < 0.01


def test_the_node_stops_during_a_query() -> None:
    """The query ends too, soon, with an error or with its rows."""

    async def run() -> None:
        async with Node() as node:
            await node.execute("create table t (id int primary key, a int, s text)")
            await node.execute(_FILL)
            task = asyncio.create_task(node.execute("select count(*) from t as x, t as y, t as z"))
            await asyncio.sleep(0.02)
        with pytest.raises((BoxError, asyncio.CancelledError)):
            await asyncio.wait_for(task, 10)

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 15, 16, _ROWS])
def test_a_large_result_is_converted_in_pieces(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Others have turns meanwhile, but not in a transaction; programs, Lua and clients get the same rows."""
    monkeypatch.setattr(result, "_PIECE", 10)
    monkeypatch.setattr(pauses, "_TURN", 10.0)
    query = f"select id, s from t order by id limit {count}"

    async def run() -> None:
        async with Node() as node:
            await node.execute("create table t (id int primary key, a int, s text)")
            await node.execute(_FILL)
            rows = [(number, "row") for number in range(count)]
            turns = 0

            async def beside() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            task = asyncio.create_task(beside())
            await asyncio.sleep(0)
            turns = 0
            assert [tuple(row) for row in await node.execute(query)] == rows
            assert turns == (-(-count // 10) if count > 10 else 0)
            task.cancel()
            source = "local r = box.execute(...).rows local k = {} for i, t in ipairs(r) do k[i] = t[1] end return k"
            assert list(await node.eval(source, query)) == [number for number, _ in rows]
            core = node._embedding.core
            ctx = core.new_context()
            body = await encode_result(ctx, await core.sql.execute(ctx, query, []))
            assert [tuple(row) for row in unpack(body)[Key.DATA]] == rows
            async with node.transaction():
                others: list[int] = []
                asyncio.get_running_loop().call_soon(others.append, 1)
                assert len(await node.execute(query)) == count
                assert others == []

    asyncio.run(run())
