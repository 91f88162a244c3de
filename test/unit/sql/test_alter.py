# ruff: noqa: E501  a message is one line
"""ALTER TABLE, CREATE INDEX and DROP INDEX."""

from __future__ import annotations

import pytest

from .conftest import Session


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key, a int)")
    return db


def test_a_column_is_added_with_its_constraints(filled: Session) -> None:
    assert filled.sql("alter table t add column b text default 'x' unique check (b > 'a')") == 1
    filled.sql("insert into t (id) values (1)")
    assert filled.sql("select * from t") == [[1, None, "x"]]
    assert filled.error("insert into t values (2, 1, 'a')")[0] == "CK_CONSTRAINT_FAILED"
    assert filled.error("insert into t values (2, 1, 'x')")[0] == "TUPLE_FOUND"
    message = "Tuple field count 3 does not match space field count 4"
    assert filled.error("alter table t add column c int") == ("EXACT_FIELD_COUNT", message)


def test_a_constraint_is_added_and_dropped(filled: Session) -> None:
    assert filled.sql("alter table t add constraint u unique (a)") == 0
    assert filled.sql("alter table t add constraint f foreign key (a) references t") == 1
    assert filled.error("alter table t add constraint u unique (a)")[0] == "INDEX_EXISTS_IN_SPACE"
    assert filled.sql("alter table t drop constraint f") == 1
    assert filled.sql("alter table t drop constraint u") == 1
    message = "Constraint 'U' does not exist in space 'T'"
    assert filled.error("alter table t drop constraint u") == ("NO_SUCH_CONSTRAINT", message)
    assert [row[1] for row in filled.rows_of("_index", [512])] == [0]


def test_a_primary_key_is_replaced(filled: Session) -> None:
    filled.sql('alter table t drop constraint "pk_unnamed_T_1"')
    assert filled.error("select * from t where id = (insert)")[0] == "SQL_KEYWORD_IS_RESERVED"
    assert filled.error("insert into t values (1, 1)") == (
        "UNSUPPORTED",
        "SQL does not support spaces without primary key",
    )
    assert filled.sql("alter table t add constraint p primary key (id)") == 0
    assert filled.sql("insert into t values (1, 1)") == 1


def test_a_table_gets_another_name(filled: Session) -> None:
    assert filled.sql("alter table t rename to u") == 0
    assert filled.sql("select * from u") == []
    filled.sql("create table t (id int primary key)")
    assert filled.error("alter table t rename to u") == ("SPACE_EXISTS", "Space 'U' already exists")


def test_indexes_are_made_and_dropped(filled: Session) -> None:
    """An index is created on a table with rows, with a collation of its own, and dropped."""
    filled.sql("alter table t add column s text")
    filled.sql("insert into t values (1, 1, 'A'), (2, 1, 'b')")
    assert filled.sql('create unique index i on t (s collate "unicode_ci")') == 1
    assert filled.sql("create index if not exists i on t (a)") == 0
    assert filled.error("insert into t values (3, 1, 'B')")[0] == "TUPLE_FOUND"
    assert filled.sql("select id from t where s collate \"unicode_ci\" = 'a'") == [[1]]
    assert filled.sql("drop index i on t") == 1
    assert filled.sql("drop index if exists i on t") == 0
    assert filled.error("create unique index j on t (a)")[0] == "TUPLE_FOUND"
    assert filled.sql("select id from t where a = 1") == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("create index i on t (a + 1)", "UNSUPPORTED", "Tarantool does not support functional indexes"),
        ("create index i on t (x)", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'X'"),
        ("create index i on nosuch (x)", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ('create index i on t (a collate "nosuch")', "NO_SUCH_COLLATION", "Collation 'nosuch' does not exist"),
        ("drop index i on t", "NO_SUCH_INDEX_NAME", "No index 'I' is defined in space 'T'"),
        ("alter table t add column id int", "SPACE_FIELD_IS_DUPLICATE", "Space field 'ID' is duplicate"),
        ("alter table nosuch add column id int", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("alter table t disable check constraint c", "NO_SUCH_CONSTRAINT", "Constraint 'C' does not exist in space 'T'"),
    ],
)  # fmt: skip
def test_a_wrong_change_of_a_table_is_refused(filled: Session, text: str, code: str, message: str) -> None:
    assert filled.error(text) == (code, message)
