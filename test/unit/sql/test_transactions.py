"""Transactions and savepoints in SQL."""

from __future__ import annotations

import pytest

from .conftest import Session


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key)")
    db.sql("insert into t values (1)")
    return db


def test_a_statement_is_all_or_nothing(filled: Session) -> None:
    """A statement that fails changes nothing; inside a transaction only the statement is undone."""
    assert filled.error("insert into t values (2), (1)")[0] == "TUPLE_FOUND"
    assert filled.sql("select * from t") == [[1]]
    filled.sql("start transaction")
    filled.sql("insert into t values (3)")
    assert filled.error("insert into t values (4), (1)")[0] == "TUPLE_FOUND"
    filled.sql("commit")
    assert filled.sql("select * from t") == [[1], [3]]


@pytest.mark.parametrize(
    "text", ["select * from t limit -1", "select (select id from t)", "insert into c values (1, 9)"]
)
def test_an_error_leaves_the_transaction_open(filled: Session, text: str) -> None:
    """Tarantool 2.8.1 rolls it back: what a program does next would be committed without what it did before."""
    filled.sql("create table c (id int primary key, parent int references t)")
    filled.sql("start transaction")
    filled.sql("insert into t values (2)")
    assert filled.error(text)[0] == "SQL_EXECUTE"
    filled.sql("insert into t values (3)")
    filled.sql("commit")
    assert filled.sql("select * from t") == [[1], [2], [3]]


def test_a_rollback_takes_back_rows_and_definitions(filled: Session) -> None:
    filled.sql("start transaction")
    filled.sql("insert into t values (2)")
    filled.sql("create table u (id int primary key)")
    filled.sql("rollback")
    assert filled.sql("select * from t") == [[1]]
    assert filled.error("select * from u")[0] == "NO_SUCH_SPACE"


def test_savepoints_have_names(filled: Session) -> None:
    """A second savepoint of a name replaces the first, and a released one is gone."""
    filled.sql("start transaction")
    filled.sql("savepoint s")
    filled.sql("insert into t values (2)")
    filled.sql("savepoint s")
    filled.sql("insert into t values (3)")
    filled.sql("rollback to s")
    assert filled.sql("select * from t") == [[1], [2]]
    filled.sql("release s")
    missing = ("NO_SUCH_SAVEPOINT", "Can not rollback to savepoint: the savepoint does not exist")
    assert filled.error("rollback to savepoint s") == missing
    assert filled.error("rollback to nosuch") == missing
    filled.sql("commit")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("commit", "SQL_EXECUTE", "Failed to execute SQL statement: cannot commit - no transaction is active"),
        ("rollback", "SQL_EXECUTE", "Failed to execute SQL statement: cannot rollback - no transaction is active"),
        ("savepoint s", "NO_TRANSACTION", "No active transaction"),
        ("release s", "NO_TRANSACTION", "No active transaction"),
        ("rollback to s", "NO_TRANSACTION", "No active transaction"),
    ],
)
def test_what_needs_a_transaction(db: Session, text: str, code: str, message: str) -> None:
    assert db.error(text) == (code, message)


def test_one_transaction_at_a_time(db: Session) -> None:
    db.sql("start transaction")
    message = "Operation is not permitted when there is an active transaction "
    assert db.error("start transaction") == ("ACTIVE_TRANSACTION", message)
    db.sql("rollback")


def test_a_read_only_node_takes_no_change(filled: Session) -> None:
    filled.wait(filled.node.configure({"read_only": True}))
    assert filled.error("insert into t values (2)")[0] == "READONLY"
    assert filled.error("create table u (id int primary key)")[0] == "READONLY"
    assert filled.sql("select * from t") == [[1]]


def test_a_savepoint_takes_the_place_of_one_with_its_name(db: Session) -> None:
    for text in ("start transaction", "savepoint a", "savepoint b", "savepoint a", "release savepoint a"):
        db.sql(text)
    assert db.error("release savepoint a")[0] == "NO_SUCH_SAVEPOINT"
    db.sql("rollback to b")
    db.sql("rollback")


def test_a_query_sets_the_row_count_to_nothing(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    db.sql("insert into t values (1), (2)")
    assert [db.value("select row_count()") for _ in range(2)] == [2, 0]
