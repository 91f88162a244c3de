"""`prepare`, EXPLAIN and a text with a second statement raise the errors of a definition that its text has."""

from __future__ import annotations

import pytest

from box.errors import BoxError

from .conftest import Session, Start


@pytest.fixture
def db(start: Start) -> Session:
    found = start()
    found.sql("create table t (id int primary key, a int)")
    found.sql("create table p (id int primary key references t (id))")
    found.sql("create index ta on t (a)")
    found.sql("create view v as select * from t")
    return found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop table nothing", "Space 'NOTHING' does not exist"),
        ("drop table t", "Can't drop space 'T': other objects depend on it"),
        ("drop table v", "Can't drop space 'V': use DROP VIEW"),
        ("drop view t", "Can't drop space 'T': use DROP TABLE"),
        ("drop index ta on nothing", "Space 'NOTHING' does not exist"),
        ("create table n (id int)", "Failed to create space 'N': PRIMARY KEY missing"),
        ("create index ta on t (a)", "Index 'TA' already exists in space 'T'"),
        ("create index tb on t (b)", "Can\u2019t resolve field 'B'"),
        ("create view w as select b from t", "Can\u2019t resolve field 'B'"),
        ("create trigger x after insert on n for each row begin select 1; end", "Space 'N' does not exist"),
        ("alter table nothing rename to p", "Space 'P' already exists"),
        ("alter table nothing add column b int", "Space 'NOTHING' does not exist"),
        ("alter table t drop constraint c", "Constraint 'C' does not exist in space 'T'"),
        ("truncate table v", "Failed to execute SQL statement: can not truncate space 'V' because space is a view"),
    ],
)
def test_what_the_text_has(db: Session, text: str, message: str) -> None:
    for start in ("", "explain "):
        with pytest.raises(BoxError) as caught:
            db.node.sql.prepare(db.ctx, start + text)
        assert caught.value.message == message
    assert db.error(f"{text}; select 1")[1] == message


@pytest.mark.parametrize(
    "text",
    [
        "drop table if exists nothing",
        "drop table p",
        "drop view v",
        "drop index nothing on t",
        "drop trigger nothing",
        "create table t (id int primary key)",
        "create table n (id int primary key, id int)",
        "create view t as select 1",
        "alter table t add column a int",
        "alter table t rename to n",
        "truncate table p",
    ],
)
def test_nothing_is_changed(db: Session, text: str) -> None:
    """What an object that exists forbids is found when the statement runs."""
    before = db.sql('select "id", "name" from "_space"'), db.node.schema.version
    assert db.node.sql.prepare(db.ctx, text).parameters == []
    assert (db.sql('select "id", "name" from "_space"'), db.node.schema.version) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update t set n1 = n2", "Can\u2019t resolve field 'N2'"),
        ("update t set n1 = a, a = n2", "Field 'N1' was not found in space 'T' format"),
        ("update t set a = 1, a = n2", "Can\u2019t resolve field 'N2'"),
        ("update t set n1 = a, a = 1, a = 2", "Field 'N1' was not found in space 'T' format"),
        ("update t set a = 1, a = 2, n1 = 3", "set id list: duplicate column name A"),
        ("update t set zz = max(a)", "misuse of aggregate function MAX()"),
    ],
)
def test_names_of_an_update_come_in_turn(db: Session, text: str, message: str) -> None:
    """A value is looked at before the column that gets it."""
    assert db.error(text)[1] == message
    with pytest.raises(BoxError) as caught:
        db.node.sql.prepare(db.ctx, text)
    assert caught.value.message == message
