# ruff: noqa: E501  a message is one line
"""INSERT, REPLACE, UPDATE, DELETE and TRUNCATE."""

from __future__ import annotations

import pytest

from .conftest import Session


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key autoincrement, a int default 7, b int unique)")
    db.sql("insert into t values (1, 10, 100), (2, 20, 200)")
    return db


def test_rows_are_counted_and_generated_ids_told(filled: Session) -> None:
    result = filled.execute("insert into t values (null, 1, 1), (10, 2, 2), (null, 3, 3)")
    assert (result.row_count, result.autoincrement_ids) == (3, [3, 11])
    assert filled.value("select row_count()") == 3


def test_columns_that_are_left_out_have_their_defaults(filled: Session) -> None:
    filled.sql("insert into t (b) values (5)")
    filled.sql("insert into t default values")
    assert filled.sql("select * from t where id > 2") == [[3, 7, 5], [4, 7, None]]


def test_rows_come_from_a_query(filled: Session) -> None:
    """INSERT ... SELECT from the same table does not read the rows that it inserts."""
    assert filled.sql("insert into t select id + 10, a, b + 1 from t") == 2
    assert filled.sql("select id, b from t") == [[1, 100], [2, 200], [11, 101], [12, 201]]


def test_a_replaced_row_counts_twice(filled: Session) -> None:
    """A replaced row counts as two changes; REPLACE removes duplicates in every unique index."""
    assert filled.sql("replace into t values (1, 0, 300)") == 2
    assert filled.sql("replace into t values (5, 0, 200)") == 2
    assert filled.sql("select * from t") == [[1, 0, 300], [5, 0, 200]]


def test_an_update_sees_the_rows_as_they_were(filled: Session) -> None:
    assert filled.sql("update t set a = b, b = a where id > 0") == 2
    assert filled.sql("select * from t") == [[1, 100, 10], [2, 200, 20]]
    assert filled.sql("update t set (a, b) = (1, 2) where id = 1") == 1
    assert filled.sql("update t set a = 1 where id = 99") == 0


def test_a_delete_takes_what_its_condition_names(filled: Session) -> None:
    assert filled.sql("delete from t where a in (select max(a) from t)") == 1
    assert filled.sql("select id from t") == [[1]]
    assert filled.sql("delete from t") == 1


def test_truncate_empties_a_table(filled: Session) -> None:
    assert filled.sql("truncate table t") == 0
    assert filled.sql("select * from t") == []


@pytest.mark.parametrize(
    ("clause", "rows"),
    [
        ("ABORT", [1, 2]),
        ("FAIL", [1, 2, 50]),
        ("IGNORE", [1, 2, 50, 51]),
        ("REPLACE", [1, 50, 51]),
    ],
)
def test_or_says_what_a_conflict_does(filled: Session, clause: str, rows: list[int]) -> None:
    text = f"insert or {clause} into t values (50, 0, 500), (2, 0, 200), (51, 0, 510)"
    if clause in ("ABORT", "FAIL"):
        assert filled.error(text)[0] == "TUPLE_FOUND"
    else:
        filled.sql(text)
    expected = rows if clause != "REPLACE" else [1, 2, 50, 51]
    assert [row[0] for row in filled.sql("select id from t")] == expected


def test_or_rollback_ends_the_transaction(filled: Session) -> None:
    filled.sql("start transaction")
    filled.sql("insert into t values (3, 0, 3)")
    assert filled.error("insert or rollback into t values (1, 0, 4)")[0] == "TUPLE_FOUND"
    assert filled.ctx.txn is None
    assert filled.sql("select id from t") == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("insert into t values (1)", "SQL_PARSER_GENERIC", "table T has 3 columns but 1 values were supplied"),
        ("insert into t (id) values (1, 2)", "SQL_PARSER_GENERIC", "2 values for 1 columns"),
        ("insert into t (x) values (1)", "NO_SUCH_FIELD_NAME_IN_SPACE", "Field 'X' was not found in space 'T' format"),
        ("insert into t (id, id) values (1, 1)", "SQL_PARSER_GENERIC", "table id list: duplicate column name ID"),
        ("insert into t values ('a', 1, 1)", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert a to integer"),
        ("update t set x = 1", "NO_SUCH_FIELD_NAME_IN_SPACE", "Field 'X' was not found in space 'T' format"),
        ("update t set a = 1, a = 2", "SQL_PARSER_GENERIC", "set id list: duplicate column name A"),
        ("update t set id = 9 where id = 1", "CANT_UPDATE_PRIMARY_KEY", "Attempt to modify a tuple field which is part of index 'pk_unnamed_T_1' in space 'T'"),
        ("delete from nosuch", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
        ("truncate table nosuch", "NO_SUCH_SPACE", "Space 'NOSUCH' does not exist"),
    ],
)  # fmt: skip
def test_a_wrong_change_changes_nothing(filled: Session, text: str, code: str, message: str) -> None:
    before = filled.sql("select * from t")
    assert filled.error(text) == (code, message)
    assert filled.sql("select * from t") == before


def test_not_null_has_an_action_of_its_own(db: Session) -> None:
    """A NOT NULL violation aborts the statement unless the column or the statement has another action."""
    db.sql(
        "create table t (id int primary key, a int not null on conflict ignore,"
        " b int not null on conflict replace default 3, c int not null)"
    )
    assert db.sql("insert into t values (1, null, 1, 1), (2, 1, null, 1)") == 1
    assert db.sql("select * from t") == [[2, 1, 3, 1]]
    message = "Failed to execute SQL statement: NOT NULL constraint failed: T.C"
    assert db.error("insert into t values (3, 1, 1, null)") == ("SQL_EXECUTE", message)


def test_tuples_of_lua_that_end_early_have_nil_there(db: Session) -> None:
    """An UPDATE of a column beyond the end of a short tuple fills the columns between with nil."""
    from box.data.codec import pack
    from box.wire.change import Request

    fields = [{"name": "id", "type": "unsigned"}, *({"name": name, "is_nullable": True} for name in "abc")]
    db.write("_space", Request.insert(pack([600, 1, "s", "memtx", 0, {}, fields])))
    db.write("_index", Request.insert(pack([600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])))
    db.write("s", Request.insert(pack([1])))
    assert db.sql('select * from "s"') == [[1, None, None, None]]
    assert db.sql('update "s" set "c" = 5 where "id" = 1') == 1
    assert db.rows_of("s") == [[1, None, None, 5]]


def test_update_or_replace_counts_the_old_rows_too(db: Session) -> None:
    db.sql("create table t (id int primary key, a int unique)")
    db.sql("insert into t values (1, 3), (2, 4), (3, 5)")
    assert db.sql("update or replace t set a = a + 1") == 5
    assert db.sql("select * from t") == [[1, 4], [3, 6]]


def test_rows_of_one_insert(db: Session) -> None:
    """The rows of an INSERT are all or nothing; the error is that of the first wrong row, whatever is wrong with it."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n DOUBLE, s TEXT NOT NULL)")
    db.sql("CREATE UNIQUE INDEX tn ON t (n)")
    assert db.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2.5, 'b'), (3, NULL, 'c')") == 3
    for rows, message in (
        ("(4, 4, 'd'), (2, 5, 'e'), (5, 'x', 'f')", 'unique index "pk_unnamed_T_1" in space "T" with old tuple'),
        ("(4, 4, 'd'), (5, 'x', 'f'), (2, 5, 'e')", "Type mismatch: can not convert x to double"),
        ("(4, 2.5, 'd'), (5, 5, NULL)", 'unique index "TN" in space "T" with old tuple'),
        ("(4, 4, NULL), (5, 2.5, 'e')", "NOT NULL constraint failed: T.S"),
        ("(4, 4, 'd'), (4, 5, 'e')", 'unique index "pk_unnamed_T_1" in space "T" with old tuple'),
    ):
        assert message in db.error(f"INSERT INTO t VALUES {rows}")[1]
        assert db.sql("SELECT id, n FROM t") == [[1, 1.0], [2, 2.5], [3, None]]
    db.sql("START TRANSACTION")
    db.sql("INSERT INTO t VALUES (8, 8, 'h'), (9, 9, 'i')")
    db.error("INSERT INTO t VALUES (10, 10, 'h'), (9, 11, 'i')")
    db.sql("COMMIT")
    assert db.sql("SELECT id FROM t WHERE id > 3") == [[8], [9]]
