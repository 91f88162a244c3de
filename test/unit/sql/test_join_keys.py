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


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("a = '1' || ''", [1]),
        ("a = 'z' || ''", []),
        ("a = (1 < 2)", []),
        ("a in ('z' || '', 1, 2 > 1)", [1]),
        ("upper('1') = a", [1]),
        ("n in ('1' || '', 1.5)", [1, 4]),
        ("s < (1 < 2)", []),
        ("s <= cast('a' as varbinary)", [1, 2, 4]),
        ("s in (1 + 0, 'x' || '')", [1, 4]),
        ("b < 'a' || ''", [1, 2, 4]),
        ("b in (null, 1 < 2)", [1, 4]),
        ("v < 'a' || ''", []),
        ("c = '1' || ''", []),
        ("c = coalesce(null, '1')", []),
        ("c > coalesce(null, 2.4)", [2, 4]),
        ("c in ('2' || '', 1)", [1, 2]),
        ("a = null || ''", []),
    ],
)
def test_computed_keys(db: Session, condition: str, ids: list[int]) -> None:
    assert sorted(row[0] for row in db.sql(f"select id from x where {condition}")) == ids


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("a > '1' || ''", "Type mismatch: can not convert 1 to integer"),
        ("n = '1' || ''", "Type mismatch: can not convert 1 to number"),
        ("n in ('z' || '', 1)", "Type mismatch: can not convert z to number"),
        ("n in ('z' || '', 1 < 2, 1)", "Type mismatch: can not convert TRUE to number"),
        ("d in ('1' || '', 1)", "Type mismatch: can not convert 1 to double"),
        ("s = (1 < 2)", "Type mismatch: can not convert TRUE to string"),
        ("s > (1 < 2)", "Supplied key type of part 0 does not match index part type: expected string"),
        ("(1 < 2) <= s", "Supplied key type of part 0 does not match index part type: expected string"),
        ("b = coalesce(null, 1)", "Type mismatch: can not convert 1 to boolean"),
        ("v >= 'a' || ''", "Supplied key type of part 0 does not match index part type: expected varbinary"),
    ],
)
def test_errors_of_computed_keys_come_without_rows(db: Session, condition: str, text: str) -> None:
    assert db.error(f"select id from x where {condition}")[1] == text
    db.sql("delete from x where id > 0")
    assert db.error(f"select id from x where {condition}")[1] == text


def test_keys_computed_from_columns_of_an_earlier_table(db: Session) -> None:
    assert db.sql("select t.id, x.id from t, x where x.a = t.s || ''") == [[1, 1], [2, 2]]
    assert db.error("select t.id from t, x where x.n = t.s || ''")[1] == "Type mismatch: can not convert 1 to number"
    wrong = "Supplied key type of part 0 does not match index part type: expected string"
    assert db.error("select t.id from t, x where x.s > t.v")[1] == wrong
    assert db.sql("select x.id from t, x where t.id = 1 and x.s < t.v order by x.id") == [[1], [2], [4]]


def test_a_negative_key_of_unsigned_values(db: Session) -> None:
    db.sql("create table u (id unsigned primary key, k unsigned)")
    db.sql("create index uk on u (k)")
    db.sql("insert into u values (1, 1)")
    wrong = "Supplied key type of part 0 does not match index part type: expected unsigned"
    for condition in ("id = -1", "id = -1 + 0", "k = -1", "id in (1, -1)"):
        assert db.error(f"select id from u where {condition}")[1] == wrong
        assert db.error(f"update u set k = 2 where {condition}")[1] == wrong
    assert db.error("select id from u where id = ?", -1)[1] == wrong
    assert db.sql("select id from u where id = -1.0") == []


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("x.n = '1' and x.n = 1", "can not convert 1 to number"),
        ("x.n = 1 and x.n = '1'", [1]),
        ("x.n = '1' and x.a = 1", [1]),
        ("x.n = '1' and x.s > true", "can not convert 1 to number"),
        ("x.n = 1 and x.s > true", "can not convert text to boolean"),
        ("x.n > '1' and x.n in ('x', 'y')", "can not convert x to number"),
        ("x.s in (true, false) and x.n in ('x', 'y')", "can not convert FALSE to string"),
        ("x.s > true and x.n between '1' and '2'", "can not convert 1 to number"),
        ("x.id in (1, '2') and x.n = '1'", [1]),
        ("x.n = t.s and x.n = '1'", "can not convert 1 to number"),
        ("x.n = t.s and x.a = 1", [1]),
        ("x.n = t.s and x.a = t.s", [1]),
        ("x.n > t.s and x.a = t.s", []),
        ("t.n = '1' and x.a = 1", [1]),
    ],
)
def test_one_index_of_a_table_is_chosen(db: Session, condition: str, found: list[int] | str) -> None:
    db.sql("create index tn on t (n)")
    query = f"select x.id from t, x where t.id = 1 and {condition}"
    if isinstance(found, str):
        assert db.error(query)[1] == f"Type mismatch: {found}"
    else:
        assert db.sql(query) == [[number] for number in found]
