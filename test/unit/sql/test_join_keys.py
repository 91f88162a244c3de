"""Joins by columns of unlike types: a value of one table becomes a key of the other one. INDEXED BY orders rows."""

from __future__ import annotations

import pytest

from .conftest import Session, Start

_COLUMNS = "id int primary key, a int, s text, n number, d double, c scalar, b boolean, v varbinary"


@pytest.fixture
def db(start: Start) -> Session:
    found = start()
    found.sql(f"create table t ({_COLUMNS})")
    found.sql(f"create table x ({_COLUMNS})")
    for name in "asndcbv":
        found.sql(f"create index x{name} on x ({name})")
    found.sql("insert into t values (1, 1, '1', 1, 1, 1, true, x'31'), (2, 2, '2', 2, 2, '2', false, x'32')")
    found.sql("insert into t (id) values (3)")
    found.sql("insert into t values (4, -1, 'x', 1.5, 2.5, 2.5, true, x'00')")
    found.sql("insert into x select * from t")
    return found


@pytest.mark.parametrize(
    ("condition", "pairs"),
    [
        ("t.s = x.a", [[1, 1], [2, 2]]),
        ("x.a = t.s", [[1, 1], [2, 2]]),
        ("t.c = x.a", [[1, 1], [2, 2]]),
        ("t.b = x.a", []),
        ("t.v = x.a", []),
        ("t.s = x.c", [[2, 2]]),
        ("t.b = x.c", []),
        ("t.s < x.c", [[1, 2]]),
        ("t.a = x.s and t.id < 3", [[1, 1], [2, 2]]),
    ],
)
def test_rows(db: Session, condition: str, pairs: list[list[int]]) -> None:
    assert db.sql(f"select t.id, x.id from t, x where {condition}") == pairs
    assert db.sql(f"select t.id, x.id from t join x on {condition}") == pairs


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("t.s = x.n", "can not convert 1 to number"),
        ("t.s = x.d", "can not convert 1 to double"),
        ("t.s = x.v", "can not convert 1 to varbinary"),
        ("t.c = x.s", "can not convert 1 to string"),
        ("t.b = x.s", "can not convert TRUE to string"),
        ("t.v = x.s", "can not convert varbinary to string"),
        ("t.s > x.a", "can not convert 1 to integer"),
        ("t.c < x.a", "can not convert 2 to integer"),
        ("not t.s = x.a", "can not convert x to numeric"),
    ],
)
def test_errors(db: Session, condition: str, text: str) -> None:
    assert db.error(f"select t.id, x.id from t, x where {condition}")[1] == f"Type mismatch: {text}"


def test_a_table_that_left_join_adds_is_read_last(db: Session) -> None:
    query = "select t.id, x.id from t left join x on t.s = x.a order by t.id"
    assert db.sql(query) == [[1, 1], [2, 2], [3, None], [4, None]]
    assert db.error("select t.id, x.id from x left join t on t.s = x.a")[1].endswith("can not convert x to numeric")


def test_the_end_of_a_range_is_looked_at_with_the_first_row(db: Session) -> None:
    text = "Type mismatch: can not convert TRUE to integer"
    assert db.error("select id from x where id between 1 and true")[1] == text
    assert db.sql("select id from x where id between 100 and true") == []
    assert db.sql("delete from x where id between 100 and true") == 0


def test_indexed_by_gives_the_order_of_the_index(db: Session) -> None:
    assert db.sql("select id from x indexed by xa") == [[3], [4], [1], [2]]
    assert db.sql("select id from x indexed by xa where id > 1") == [[3], [4], [2]]
    assert db.sql("select id from x indexed by xs limit 2") == [[3], [1]]
    assert db.sql("select id from x indexed by xv") == [[3], [4], [1], [2]]
    assert db.sql("select id from x indexed by xs order by id") == [[1], [2], [3], [4]]
