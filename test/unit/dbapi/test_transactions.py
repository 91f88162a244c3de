"""Connections: transactions, sharing of a node, threads, options."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, dbapi
from box.sync import Node

CREATE = "CREATE TABLE goods (id INTEGER PRIMARY KEY, name STRING)"
QUERY = "SELECT id, name FROM goods ORDER BY id"


def rows(connection: dbapi.DatabaseConnection) -> list[tuple[int, str]]:
    return [tuple(row) for row in connection.cursor().execute(QUERY)]


def test_changes_are_visible_to_others_after_the_commit(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path) as one, dbapi.connect(str(tmp_path)) as two:
        one.cursor().execute(CREATE)
        assert not one.in_transaction
        one.cursor().execute("INSERT INTO goods VALUES (1, 'pear')")
        assert one.in_transaction
        assert (rows(one), rows(two)) == ([(1, "pear")], [])
        one.commit()
        assert (rows(two), one.in_transaction, two.in_transaction) == ([(1, "pear")], False, False)
        one.cursor().execute("DELETE FROM goods")
        one.rollback()
        assert rows(one) == [(1, "pear")]
        one.commit()
        one.rollback()


def test_data_survives_the_last_connection(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path / "data") as connection:
        connection.cursor().execute(CREATE).execute("INSERT INTO goods VALUES (1, 'pear')")
    with dbapi.connect(tmp_path / "data") as connection:
        assert rows(connection) == [(1, "pear")]
        connection.cursor().execute("INSERT INTO goods VALUES (2, 'fig')")
        connection.close()
    undone = dbapi.connect(tmp_path / "data")
    with pytest.raises(ZeroDivisionError), undone:
        _fail(undone)
    with dbapi.connect(tmp_path / "data") as connection:
        assert rows(connection) == [(1, "pear")]


def _fail(connection: dbapi.DatabaseConnection) -> None:
    connection.cursor().execute("INSERT INTO goods VALUES (3, 'plum')")
    raise ZeroDivisionError


def test_autocommit_makes_each_change_a_transaction(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path, autocommit=True) as one, dbapi.connect(tmp_path) as two:
        one.cursor().execute(CREATE).execute("INSERT INTO goods VALUES (1, 'pear')")
        one.rollback()
        assert rows(two) == [(1, "pear")]
        two.cursor().execute("INSERT INTO goods VALUES (2, 'fig')")
        two.autocommit = True
        assert (len(rows(one)), two.autocommit) == (2, True)
        one.cursor().execute("START TRANSACTION").execute("DELETE FROM goods")
        assert (len(rows(two)), one.in_transaction) == (2, True)
        one.cursor().execute("ROLLBACK")
        assert len(rows(one)) == 2
        one.autocommit = False
        one.cursor().execute("DELETE FROM goods").execute("SAVEPOINT s").execute("INSERT INTO goods VALUES (9, '')")
        one.cursor().execute("ROLLBACK TO s").execute("COMMIT")
        assert rows(two) == []


def test_a_conflict_is_an_operational_error_and_can_be_tried_again(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path) as one, dbapi.connect(tmp_path) as two:
        one.cursor().execute(CREATE).execute("INSERT INTO goods VALUES (1, 'pear')")
        one.commit()
        for connection in (one, two):
            connection.cursor().execute("UPDATE goods SET name = name || '!'")
        one.commit()
        with pytest.raises(dbapi.OperationalError, match="conflict"):
            two.commit()
        assert not two.in_transaction
        two.cursor().execute("UPDATE goods SET name = name || '?'")
        two.commit()
        assert rows(one) == [(1, "pear!?")]


def test_tables_are_made_in_an_open_transaction(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path) as connection:
        cursor = connection.cursor().execute(CREATE).execute("INSERT INTO goods VALUES (1, 'pear')")
        cursor.execute("CREATE TABLE other (id INTEGER PRIMARY KEY)").execute("INSERT INTO other VALUES (1)")
        connection.rollback()
        assert rows(connection) == []
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("SELECT * FROM other")


def test_a_failed_statement_leaves_the_transaction(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path) as connection:
        cursor = connection.cursor().execute(CREATE)
        with pytest.raises(dbapi.IntegrityError):
            cursor.executemany("INSERT INTO goods VALUES (?, 'x')", [(1,), (2,), (1,)])
        cursor.execute("INSERT INTO goods VALUES (3, 'x')")
        connection.commit()
        assert [row[0] for row in rows(connection)] == [1, 2, 3]


def test_threads_share_a_connection(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path) as connection:
        connection.cursor().execute(CREATE)

        def insert(start: int) -> None:
            for number in range(start, start + 20):
                connection.cursor().execute("INSERT INTO goods VALUES (?, 'x')", [number])

        threads = [threading.Thread(target=insert, args=(100 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.commit()
        assert len(rows(connection)) == 80


def test_a_node_of_the_program_goes_on_after_its_connections() -> None:
    with Node(wal_mode="none") as node:
        with dbapi.connect(node) as connection:
            connection.cursor().execute(CREATE).execute("INSERT INTO goods VALUES (1, 'pear')")
            with pytest.raises(dbapi.ProgrammingError):
                dbapi.connect(node, wal_mode="none")
        assert node.space.GOODS.get(1) == [1, "pear"]
        left = dbapi.connect(node)
        left.cursor().execute("DELETE FROM goods")
    with pytest.raises(dbapi.OperationalError):
        left.cursor().execute("SELECT 1")
    left.close()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="listn"):
        dbapi.connect(tmp_path, listn=1)  # type: ignore[call-arg]
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "absent" / "x")
    with pytest.raises(dbapi.NotSupportedError):
        dbapi.connect(tmp_path, memtx_use_mvcc_engine=False)
    with dbapi.connect(tmp_path, memtx_use_mvcc_engine=False, autocommit=True) as connection:
        assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]
        with pytest.raises(dbapi.NotSupportedError):
            connection.autocommit = False
        with pytest.raises(dbapi.ProgrammingError, match="other options"):
            dbapi.connect(tmp_path, read_only=True)
    with dbapi.connect(tmp_path), pytest.raises(BoxError, match="Failed to lock"):
        Node(tmp_path).start()


def test_an_unknown_option() -> None:
    """The error names the function that was called, and the option that was meant."""
    options: dict[str, Any] = {"listn": 1}
    with pytest.raises(dbapi.ProgrammingError, match=r"connect\(\) got an unknown option 'listn'; did you"):
        dbapi.connect(**options)
