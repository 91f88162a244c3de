# ruff: noqa: E501  a message is one line
"""CREATE TABLE and DROP TABLE write the rows of system spaces that Tarantool writes."""

from __future__ import annotations

import pytest

from box.data.codec import pack
from box.wire.change import Request

from .conftest import Session


def test_a_table_is_a_space_with_a_format(db: Session) -> None:
    """Unquoted names are folded to upper case, and columns of the primary key are not nullable."""
    assert db.sql("create table t (id int primary key, a text default 'x', b double not null)") == 1
    ((space_id, owner, name, engine, field_count, options, fields),) = db.rows_of("_space", [512])
    assert (space_id, owner, name, engine, field_count, options) == (512, 1, "T", "memtx", 3, {})
    assert fields == [
        {"name": "ID", "type": "integer", "is_nullable": False, "nullable_action": "abort"},
        {"name": "A", "type": "string", "is_nullable": True, "nullable_action": "none", "default": "'x'"},
        {"name": "B", "type": "double", "is_nullable": False, "nullable_action": "abort"},
    ]


def test_keys_without_a_name_are_counted(db: Session) -> None:
    """Unnamed primary and unique keys are numbered together; an unnamed key on another one's columns is that one."""
    db.sql("create table t (id int primary key, a int unique, unique (a), constraint u unique (a), unique (a, id))")
    indexes = [(row[1], row[2]) for row in db.rows_of("_index", [512])]
    assert indexes == [(0, "pk_unnamed_T_1"), (1, "unique_unnamed_T_2"), (2, "U"), (3, "unique_unnamed_T_4")]


def test_a_later_primary_key_makes_columns_of_earlier_keys_not_null(db: Session) -> None:
    db.sql("create table t (id int unique, a int, b int unique, primary key (a, id))")
    assert [row[1:3] for row in db.rows_of("_index", [512])] == [
        [0, "pk_unnamed_T_3"],
        [1, "unique_unnamed_T_1"],
        [2, "unique_unnamed_T_2"],
    ]
    ids = db.rows_of("_index", [512])
    assert [[part["is_nullable"] for part in row[5]] for row in ids] == [[False, False], [False], [True]]
    db.sql("insert into t values (1, 2, null)")
    assert db.error("insert into t values (null, 2, 3)")[1] == (
        "Failed to execute SQL statement: NOT NULL constraint failed: T.ID"
    )


def test_autoincrement_attaches_a_sequence(db: Session) -> None:
    db.sql("create table t (id int primary key autoincrement)")
    assert db.rows_of("_sequence") == [[1, 1, "T", 1, 0, 2**63 - 1, 1, 0, False]]
    assert db.rows_of("_space_sequence") == [[512, 1, True, 0, ""]]


def test_a_quoted_name_keeps_its_case(db: Session) -> None:
    db.sql('create table "ab c" ("x y" int primary key)')
    db.sql('insert into "ab c" values (1)')
    assert db.names('select "x y" from "ab c"') == ["x y"]
    assert db.error("select * from abc") == ("NO_SUCH_SPACE", "Space 'ABC' does not exist")


def test_if_not_exists_changes_nothing(db: Session) -> None:
    assert db.sql("create table t (id int primary key)") == 1
    assert db.sql("create table if not exists t (a text primary key)") == 0
    assert db.error("create table t (id int primary key)") == ("SPACE_EXISTS", "Space 'T' already exists")


def test_a_dropped_table_leaves_nothing(db: Session) -> None:
    """A dropped table leaves no row, not even a sequence's or a truncation's, and its id is not reused."""
    before = {name: db.rows_of(name) for name in ("_space", "_index", "_sequence", "_space_sequence", "_truncate")}
    db.sql("create table t (id int primary key autoincrement, a int unique check (a > 0))")
    db.sql("insert into t (a) values (1)")
    db.sql("truncate table t")
    assert db.sql("drop table t") == 1
    assert {name: db.rows_of(name) for name in before} == before
    assert db.sql("drop table if exists t") == 0
    db.sql("create table t (id int primary key)")
    assert db.rows_of("_space", [513])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("create table t (a int)", "CREATE_SPACE", "Failed to create space 'T': PRIMARY KEY missing"),
        ("create table t (a int primary key, a int)", "SPACE_FIELD_IS_DUPLICATE", "Space field 'A' is duplicate"),
        (
            "create table t (a int primary key, primary key (a))",
            "CREATE_SPACE",
            "Failed to create space 'T': primary key has been already declared",
        ),
        ("create table t (a int primary key) with engine = 'x'", "NO_SUCH_ENGINE", "Space engine 'x' does not exist"),
        (
            "create table t (a int null primary key)",
            "NULLABLE_PRIMARY",
            "Primary index of space 'T' can not contain nullable parts",
        ),
        ("create table t (a int, primary key (b))", "SQL_CANT_RESOLVE_FIELD", "Can\u2019t resolve field 'B'"),
        (
            "create table t (a int primary key autoincrement, b int autoincrement)",
            "SQL_SYNTAX_WITH_POS",
            "Syntax error at line 1 at or near position 69: table must feature at most one AUTOINCREMENT field",
        ),
        (
            "create table t (a int primary key, b int null not null)",
            "SQL_EXECUTE",
            "Failed to execute SQL statement: NULL declaration for column 'B' of table 'T' has been already set to 'none'",
        ),
        (
            "create table t (a text primary key autoincrement)",
            "MODIFY_INDEX",
            "Can't create or modify index 'pk_unnamed_T_1' in space 'T': "
            "sequence cannot be used with a non-integer key",
        ),
        ("drop table t", "NO_SUCH_SPACE", "Space 'T' does not exist"),
    ],
)
def test_a_wrong_definition_leaves_nothing(db: Session, text: str, code: str, message: str) -> None:
    """A wrong definition raises Tarantool's error and leaves no row of what was written before it."""
    before = db.rows_of("_space"), db.rows_of("_index"), db.rows_of("_sequence")
    assert db.error(text) == (code, message)
    assert (db.rows_of("_space"), db.rows_of("_index"), db.rows_of("_sequence")) == before


def test_dropping_a_table_revokes_what_is_granted_on_it(db: Session) -> None:
    db.sql("create table t (id int primary key autoincrement)")
    guest = 0
    db.write("_priv", Request.insert(pack([1, guest, "space", 512, 1])))
    db.write("_priv", Request.insert(pack([1, guest, "sequence", 1, 1])))
    assert db.sql("drop table t") == 1
    assert not [row for row in db.rows_of("_priv") if row[2] == "sequence" or row[3] == 512]
    assert db.rows_of("_sequence") == []


def test_a_space_without_primary_key_is_not_read(db: Session) -> None:
    row = [600, 1, "S", "memtx", 0, {}, [{"name": "A", "type": "integer"}]]
    db.write("_space", Request.insert(pack(row)))
    assert db.error("select * from s") == ("UNSUPPORTED", "SQL does not support spaces without primary key")


@pytest.mark.parametrize(
    ("column", "code", "message"),
    [
        ("a int null on conflict ignore", "SQL_EXECUTE", "Failed to execute SQL statement: NULL declaration for column 'A' of table 'T' has been already set to 'none'"),
        ("a int null primary key not null", "NULLABLE_PRIMARY", "Primary index of space 'T' can not contain nullable parts"),
        ("a int primary key null", "SQL_EXECUTE", "Failed to execute SQL statement: NULL declaration for column 'A' of table 'T' has been already set to 'abort'"),
        ("a int primary key not null on conflict ignore", "SQL_EXECUTE", "Failed to execute SQL statement: NULL declaration for column 'A' of table 'T' has been already set to 'abort'"),
    ],
)  # fmt: skip
def test_nullability_is_said_once(db: Session, column: str, code: str, message: str) -> None:
    assert db.error(f"create table t ({column}, b int)") == (code, message)
