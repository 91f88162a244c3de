"""SQL of blocking nodes and of DB-API connections: what runs in the calling thread, and what in that of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, dbapi
from box.errors import DiskWriteError, TransactionConflictError
from box.sync import Node
from box.sync.loop_thread import LoopThread

CREATE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name STRING, price DOUBLE)"
INSERT = "INSERT INTO t VALUES (?, ?, ?)"
SELECT = "SELECT * FROM t WHERE id = ?"


@contextmanager
def no_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Collect the calls to the thread of the loop."""
    calls: list[Any] = []
    call = LoopThread.call
    with monkeypatch.context() as patch:
        patch.setattr(LoopThread, "call", lambda self, work: (calls.append(work), call(self, work))[1])
        yield calls


@pytest.mark.parametrize("with_log", [False, True])
def test_short_statements_run_in_the_calling_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_log: bool
) -> None:
    with Node(tmp_path if with_log else None) as node:
        node.execute(CREATE)
        prepared = node.prepare("SELECT name FROM t WHERE id = :id")
        with no_calls(monkeypatch) as calls:
            for number in range(20):
                assert node.execute(INSERT, [number, f"name {number}", 1.5]).row_count == 1
            assert node.execute("REPLACE INTO t VALUES (?, ?, ?)", (3, "three", 2.5)).row_count == 2
            assert node.execute("UPDATE t SET price = :price WHERE id = :id", {"price": 7.5, "id": 3}).row_count == 1
            assert node.execute("DELETE FROM t WHERE id = 4").row_count == 1
            assert node.execute(SELECT, [3]) == [(3, "three", 7.5)]
            assert node.execute(SELECT, [4]) == []
            assert prepared.execute({"id": 3})[0].NAME == "three"
            joined = "SELECT a.name, b.price FROM t a JOIN t b ON a.id = b.id + 2 WHERE b.id = 3 ORDER BY 1"
            assert node.execute(joined) == [("name 5", 7.5)]
            assert node.execute("SELECT row_count()") == [(0,)]
            with node.transaction():
                node.execute(INSERT, [100, "own", 1.0])
                assert node.execute(SELECT, [100])[0].NAME == "own"
            with pytest.raises(BoxError, match='Duplicate key exists in unique index "pk_unnamed_T_1" in space "T"'):
                node.execute(INSERT, [100, "other", 1.0])
            with pytest.raises(BoxError, match="resolve field 'NOSUCH'"):
                node.execute("SELECT nosuch FROM t")
            assert not calls
        assert node.execute("SELECT count(*) FROM t") == [(20,)]


def test_what_may_wait_or_run_code_goes_to_the_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with Node() as node:
        node.execute(CREATE)
        node.execute("INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', 2.5)")
        node.eval(
            """
            box.schema.func.create('TWICE', {
                language = 'LUA', returns = 'integer', body = 'function(x) return 2 * x end', param_list = {'integer'},
                exports = {'LUA', 'SQL'}, is_deterministic = true,
            })
            """
        )
        seen: list[Any] = []
        with no_calls(monkeypatch) as calls:
            assert node.execute("SELECT twice(id) FROM t WHERE id = 2") == [(4,)]
            assert node.execute("UPDATE t SET price = price + 1").row_count == 2
            assert len(calls) == 2
            trigger = node.space["T"].on_replace(lambda old, new: seen.append(new))
            del calls[:]
            node.execute(INSERT, [3, "three", 3.5])
            assert len(calls) == 1
            trigger.remove()
            del calls[:]
            node.execute(INSERT, [4, "four", 3.5])
            assert not calls
        assert [tuple(row) for row in seen] == [(3, "three", 3.5)]


def test_a_long_query_starts_anew_where_it_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turns while it runs; the next time it goes to the thread of the loop at once."""
    with Node() as node:
        node.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
        node.space["N"].insert_many([[number] for number in range(400)])
        query = "SELECT count(*) FROM n a, n b WHERE (a.i + b.i) % 7 = 1"
        with no_calls(monkeypatch) as calls:
            first = node.execute(query)
            assert first == node.execute(query) == [(22857,)]
            assert len(calls) == 2
            with node.transaction():
                assert node.execute(query) == first


def test_a_change_that_the_log_refuses_raises_and_leaves_no_trace(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        node.execute(CREATE)
        node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
        for text in (INSERT, "REPLACE INTO t VALUES (?, ?, ?)"):
            with pytest.raises(DiskWriteError):
                node.execute(text, [1, "one", 1.5])
        node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")
        assert node.execute("SELECT * FROM t") == []


def test_threads_and_connections_see_what_is_committed(tmp_path: Path) -> None:
    """Statements of transactions of one thread, through the node and through connections, do not see each other."""
    with Node(tmp_path) as node, ThreadPoolExecutor(1) as other, dbapi.connect(node) as one, dbapi.connect(node) as two:
        node.execute(CREATE)
        with node.transaction():
            node.execute(INSERT, [1, "node", 1.5])
            one.cursor().execute(INSERT, [2, "one", 1.5])
            two.cursor().execute(INSERT, [3, "two", 1.5])
            assert [row[0] for row in one.cursor().execute("SELECT id FROM t")] == [2]
            assert two.cursor().execute(SELECT, [1]).fetchall() == []
            assert node.execute(SELECT, [1])[0].NAME == "node"
            assert other.submit(node.execute, "SELECT * FROM t").result(10) == []
            one.commit()
            assert other.submit(node.execute, "SELECT id FROM t").result(10) == [(2,)]
            two.rollback()
        assert [row[0] for row in node.execute("SELECT id FROM t")] == [1, 2]
        with pytest.raises(TransactionConflictError), node.transaction():  # noqa: PT012
            assert node.execute(SELECT, [1])[0].NAME == "node"
            two.cursor().execute("UPDATE t SET name = 'two' WHERE id = 1")
            two.commit()
            node.execute("UPDATE t SET name = 'node' WHERE id = 2")
        assert node.execute(SELECT, [1])[0].NAME == "two"


def test_many_rows_of_a_connection_go_on_where_one_needs_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of another type is converted on the general path, in the same transaction as the rows around it."""
    with dbapi.connect(None) as connection:
        cursor = connection.cursor().execute(CREATE)
        connection.commit()
        with no_calls(monkeypatch) as calls:
            cursor.executemany(INSERT, [[number, f"name {number}", 1.5] for number in range(300)])
            assert (cursor.rowcount, connection.in_transaction, calls) == (300, True, [])
            connection.commit()
            assert not calls
            rows: list[Any] = [[number, "x", 2.5] for number in range(300, 400)]
            rows[70] = [370, "x", 3]
            cursor.executemany(INSERT, rows)
            assert cursor.rowcount == 100
            with pytest.raises(dbapi.IntegrityError):
                cursor.executemany(INSERT, [[1000, "y", 1.0], [5, "y", 1.0], [1001, "y", 1.0]])
            connection.rollback()
        cursor.execute("SELECT count(*), max(id) FROM t")
        assert cursor.fetchone() == (300, 299)
