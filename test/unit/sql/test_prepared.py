"""Prepared statements have Tarantool's ids, belong to sessions, and expire when the dictionary changes."""

from __future__ import annotations

from typing import Any

import pytest

from box.errors import BoxError

from .conftest import Session


def run(db: Session, statement_id: int, *params: Any) -> Any:
    result = db.wait(db.node.sql.execute_prepared(db.ctx, statement_id, params))
    return getattr(result, "rows", None) or result.row_count


def test_a_statement_is_described(db: Session) -> None:
    prepared = db.node.sql.prepare(db.ctx, "select ?, :a")
    assert prepared.id == 3865862610
    assert prepared.parameters == [None, ":a"]
    assert prepared.fields is not None
    assert [field.name for field in prepared.fields] == ["COLUMN_1", "COLUMN_2"]
    assert run(db, prepared.id, 1, {":a": 2}) == [[1, 2]]


def test_a_wrong_statement_is_not_kept(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    wrong = ("selec", "select x from t", "insert into nosuch values (1)", "update t set x = 1", "delete from t where x")
    for text in wrong:
        with pytest.raises(BoxError):
            db.node.sql.prepare(db.ctx, text)
    assert db.node.sql.prepared.count == 0


def test_a_statement_belongs_to_the_sessions_that_prepared_it(db: Session) -> None:
    """A statement is kept once for all sessions, until the last one unprepares it or ends."""
    other, sql = db.another(), db.node.sql
    prepared = sql.prepare(db.ctx, "select 1")
    with pytest.raises(BoxError, match=f"Prepared statement with id {prepared.id} does not exist"):
        run(other, prepared.id)
    assert sql.prepare(other.ctx, "select 1") is prepared
    sql.unprepare(db.ctx, prepared.id)
    assert run(other, prepared.id) == [[1]]
    for forget in other.ctx.session.on_disconnect:
        forget()
    assert sql.prepared.count == sql.prepared.size == 0


def test_a_change_of_the_dictionary_expires_statements(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    text = "insert into t values (?)"
    prepared = db.node.sql.prepare(db.ctx, text)
    assert run(db, prepared.id, 1) == 1
    db.sql("create table u (id int primary key)")
    with pytest.raises(BoxError, match="Failed to execute SQL statement: statement has expired"):
        run(db, prepared.id, 2)
    assert run(db, db.node.sql.prepare(db.ctx, text).id, 2) == 1


def test_the_cache_has_a_limit(db: Session) -> None:
    prepared = db.node.sql.prepare(db.ctx, "select 1")
    with pytest.raises(BoxError, match="Can't reduce memory limit for SQL prepared statements"):
        db.wait(db.node.configure({"sql_cache_size": 10}))
    db.node.sql.unprepare(db.ctx, prepared.id)
    db.wait(db.node.configure({"sql_cache_size": 10}))
    with pytest.raises(BoxError, match="Memory limit for SQL prepared statements has been reached"):
        db.node.sql.prepare(db.ctx, "select 1")
