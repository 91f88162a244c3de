"""Whole queries and definitions, as Tarantool 2.8.1 answers them: WITH, groups, names, orders, definitions."""

from __future__ import annotations

import pytest

from test.unit.sql.conftest import Session


@pytest.fixture
def w(db: Session) -> Session:
    """A session with a table of five rows."""
    db.sql("create table w (id int primary key, i int, s string, b boolean)")
    db.sql(
        "insert into w values (1, 5, 'a', true), (2, 100, 'b', false), (3, null, 'c', null), (4, 5, 'd', false),"
        " (5, 7, 'e', true)"
    )
    return db


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("with q as (select * from r), r as (select 1 as z) select * from q", [[1]]),
        ("with q(a) as (select 1, 2), r as (select nothing) select 5", [[5]]),
        ("with recursive q(a) as (select 1 union all select a + 1 from q order by 1 limit 3) select * from q",
         [[1], [2], [3]]),
        ("select count(*), id, s, b from w", [[5, 5, "e", True]]),
        ("select s, id + count(*) from w", [["e", 10]]),
        ("select i, s from w group by i", [[None, "c"], [5, "d"], [7, "e"], [100, "b"]]),
        ("select i, s from w group by 1 order by s desc limit 2", [[7, "e"], [5, "d"]]),
        ("select i + 1 as k, s from w group by k limit 2", [[None, "c"], [6, "d"]]),
        ("select upper(s), i from w group by i having s > 'c'", [["D", 5], ["E", 7]]),
        ("select s, min(id), max(id) from w", [["e", 1, 5]]),
        ("select false and nothing, 'x' and false", [[False, False]]),
        ("select id from w where id = 9 and s", []),
        ("select id from w where 0 and false", []),
    ],
)  # fmt: skip
def test_a_query_has_the_rows_of_tarantool(w: Session, text: str, rows: list[list[object]]) -> None:
    assert w.sql(text) == rows


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("with q as (select 1 union all select 2) select * from q", ["COLUMN_1"]),
        ("with q as (select 1 union all select 2) select * from q as a, q as b", ["COLUMN_1", "COLUMN_3"]),
        ("with q(x) as (select 1 union all select 2) select a.x + b.x from q as a, q as b", ["COLUMN_5"]),
        ("with q as (select 1, 2 intersect select 1, 2) select * from q, q as b",
         ["COLUMN_3", "COLUMN_4", "COLUMN_7", "COLUMN_8"]),
        ("with recursive q(x) as (values (1) union all select x + 1 from q where x < 4) select a.x + 1 from q a, q b",
         ["COLUMN_5"]),
        ("with q as (select 1 + id as z, 2 + id from w), r as (select * from q union select 1, 2)"
         " select *, 8 from r, q, r as s", ["Z", "COLUMN_1", "Z", "COLUMN_4", "Z", "COLUMN_5", "COLUMN_8"]),
        ("select (select 1), 2 from (select 3)", ["COLUMN_2", "COLUMN_3"]),
    ],
)  # fmt: skip
def test_columns_without_a_name_are_counted_as_in_tarantool(w: Session, text: str, names: list[str]) -> None:
    assert w.names(text) == names


@pytest.mark.parametrize(("value", "shown"), [("'abc'", "abc"), ("x'44'", "varbinary"), ("'a' || 'b'", "ab")])
def test_a_text_as_the_key_of_an_index_of_booleans(db: Session, value: str, shown: str) -> None:
    """The text is converted to a key before the index is read, so an empty table gives the error too."""
    db.sql("create table t (a boolean primary key, b boolean)")
    error = "SQL_TYPE_MISMATCH", f"Type mismatch: can not convert {shown} to boolean"
    for text in (f"select * from t where a = {value}", f"delete from t where {value} = a"):
        assert db.error(text) == error
    assert db.sql(f"select * from t where b = {value}") == db.sql("select * from t where a = null") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with q as (select * from q) select * from q", "circular reference: Q"),
        ("with q as (select * from r), r as (select * from q) select * from q", "circular reference: Q"),
        ("with recursive q(a) as (select 1 union all select count(a) from q) select * from q",
         "Tarantool does not support recursive aggregate queries"),
        ("with recursive q(a) as (select 1 union all select q.a + 1 from q, q as r) select * from q",
         "multiple references to recursive table: Q"),
        ("with recursive q(a) as (select 1 union all select a from q where a in (select a from q)) select * from q",
         "multiple recursive references: Q"),
        ("with recursive q(a) as (select 1 union all select a from (select * from q)) select * from q",
         "recursive reference in a subquery: Q"),
        ("update w set (i, s) = (1, 2, 3)", "2 columns assigned 3 values"),
        ("delete from nothing limit 1", "Space 'NOTHING' does not exist"),
        ("delete from w limit 1", "Syntax error at line 1 near 'limit'"),
        ("create table d (id int primary key, a int default (id))",
         "Failed to create space 'D': default value of column 'A' is not constant"),
        ("create table d (a int, primary key (a + 1))", "Expressions are prohibited in an index definition"),
        ("create table d (a int primary key, unique (a + 1))", "Tarantool does not support functional indexes"),
        ("create index i on \"_space\" (\"id\")",
         "Can't create or modify index 'I' in space '_space': can't create index on system space"),
        ("alter table w add constraint f foreign key (i) references w (id) on cascade",
         "Syntax error at line 1 near 'cascade'"),
        (f"create table d (id int primary key, {', '.join(f'c{number} int' for number in range(2000))})",
         "Failed to create space 'D': space column count 2001 exceeds the limit (2000)"),
    ],
)  # fmt: skip
def test_a_statement_has_the_error_of_tarantool(w: Session, text: str, message: str) -> None:
    assert w.error(text)[1] == message


def test_rows_without_an_order_may_come_backwards(w: Session) -> None:
    w.sql('set session "sql_reverse_unordered_selects" = true')
    assert w.sql("select id from w") == [[5], [4], [3], [2], [1]]
    assert w.sql("select id from w where id < 3") == [[2], [1]]
    assert w.sql("select distinct id from w limit 1") == [[5]]
    assert w.sql("select id from w order by id limit 1") == [[1]]
    assert w.sql("select x.id, y.id from w x join w y on x.id = y.id where x.id < 3") == [[2, 2], [1, 1]]


def test_full_names_have_the_alias_for_a_star_and_the_table_for_a_column(w: Session) -> None:
    w.sql("create view v as select id, i from w")
    w.sql('set session "sql_full_column_names" = true')
    assert w.names("select q.*, q.id, q.i + 1, q.s as x from w q")[4:] == ["W.ID", "COLUMN_1", "X"]
    assert w.names("select q.* from w q")[0] == "Q.ID"
    assert w.names("select id from (select id from w) q") == ["ID"]
    assert w.names("select * from v") == ["V.ID", "V.I"]
    assert w.names("with r as (select id from w) select * from r") == ["R.ID"]


def test_a_key_from_a_sequence_is_not_replaced_by_nil(db: Session) -> None:
    db.sql("create table a (id integer primary key autoincrement, s string)")
    db.sql("insert into a values (null, 'a')")
    error = ("KEY_PART_TYPE", "Supplied key type of part 0 does not match index part type: expected integer")
    assert db.error("replace into a values (null, 'h')") == error
    assert db.error("update or replace a set id = null") == error
    text = "Tuple field 1 (ID) type does not match one required by operation: expected integer, got nil"
    assert db.error("update a set id = null") == ("FIELD_TYPE", text)
    assert db.sql("select * from a") == [[1, "a"]]
