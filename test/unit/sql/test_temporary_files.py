"""Sorts of many rows: their files in memory, whose owner may wait in the middle of a merge."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import apsw
import pytest

from box.errors import ErrorCode, client_error
from box.sql import pauses, sqlite_connection, temporary_files
from box.sql.sqlite_connection import Connection
from box.sql.temporary_files import SortedRuns, TemporaryFiles

from .conftest import Start

_COUNT = 60_000
_NUMBERS = f"with recursive r (n) as (values (0) union all select n + 1 from r where n + 1 < {_COUNT}) select n from r"
_ROWS = 15_000
_FILL = (
    f"insert into t with recursive r (n) as (values (0) union all select n + 1 from r where n + 1 < {_ROWS}) "
    "select n, printf('%080d', n * 7919 % 60013) from r"
)
_SORT = f"select 'row ' || (n * 7919 % 60013) as name from ({_NUMBERS}) order by name"


def _open(look: Any) -> apsw.Connection:
    files = TemporaryFiles(look)
    db = apsw.Connection(":memory:", vfs=files.name)
    db.execute("pragma page_size = 1024; pragma cache_size = -256; pragma temp_store = file")
    return db


def test_runs_are_merged_and_the_owner_is_asked_meanwhile() -> None:
    looks: list[None] = []
    rows = [name for (name,) in _open(lambda: looks.append(None)).execute(_SORT)]
    assert rows == sorted(f"row {number * 7919 % 60013}" for number in range(_COUNT))
    assert len(looks) > 50


def test_what_the_owner_raises_ends_the_statement() -> None:
    def look() -> None:
        raise failure

    for failure in (asyncio.CancelledError(), client_error(ErrorCode.SQL_EXECUTE, "ended")):
        with pytest.raises(type(failure)) as caught:
            list(_open(look).execute(_SORT))
        assert caught.value is failure


def test_a_file_is_written_anywhere_and_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_files, "_BLOCK", 16)
    file = SortedRuns(lambda: None)
    file.xWrite(memoryview(b"12345678"), 40)
    file.xWrite(memoryview(b"abcdefgh"), 8)
    assert file.xFileSize() == 48
    assert bytes(file.xRead(8, 8)) == b"abcdefgh"
    assert bytes(file.xRead(8, 24)) == bytes(8)
    assert bytes(file.xRead(8, 44)) == b"5678"
    file.xClose()


def test_a_sort_has_a_limit(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_files, "SIZE_MAX", 1 << 20)
    db = start()
    db.sql("create table t (id int primary key, s text)")
    db.sql(_FILL)
    failure = ("SQL_EXECUTE", "Failed to execute SQL statement: database or disk is full")
    assert db.error("select s, count(*) from t group by s") == failure
    assert db.value("select count(*) from (select s from t)") == _ROWS


def test_rows_that_distinct_has_seen_have_the_same_limit(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "SIZE_MAX", 1 << 20)
    db = start()
    db.sql("create table t (id int primary key, s text)")
    db.sql(_FILL)
    failure = ("SQL_EXECUTE", "Failed to execute SQL statement: database or disk is full")
    assert db.error("select count(*) from (select distinct s from t)") == failure
    assert db.value("select count(distinct id % 100) from t") == 100


def test_others_run_during_a_merge(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query also waits between two questions of SQLite, which come after each thousand steps of its program."""
    monkeypatch.setattr(pauses, "_TURN", 0.0)
    monkeypatch.setattr(Connection, "_on_progress", lambda self: False)
    db = start()
    db.sql("create table t (id int primary key, s text)")
    db.sql(_FILL)
    turns: list[None] = []

    async def run() -> list[Any]:
        query = asyncio.create_task(db.node.sql.execute(db.ctx, "select s from t order by s", ()))
        while not query.done():
            turns.append(None)
            await asyncio.sleep(0)
        return (await query).rows

    rows = db.wait(run())
    assert rows == sorted([f"{number * 7919 % 60013:080}"] for number in range(_ROWS))
    assert len(turns) > 20


def test_nothing_is_left_of_a_closed_connection() -> None:
    names = apsw.vfs_names()
    connections = [Connection() for _ in range(3)]
    assert len(apsw.vfs_names()) == len(names) + 3
    found = [weakref.ref(connection) for connection in connections]
    for connection in connections:
        connection.close()
    del connection, connections
    gc.collect()
    assert apsw.vfs_names() == names
    assert [one() for one in found] == [None] * 3
