"""Aggregates in subqueries: they belong to the query whose columns they name; GROUP_CONCAT without an argument."""

from __future__ import annotations

import pytest

from .conftest import Session, Start


@pytest.fixture
def db(start: Start) -> Session:
    found = start()
    found.sql("create table t (id int primary key, a int, b int)")
    found.sql("create table e (id int primary key, a int)")
    found.sql("create view v as select * from t")
    found.sql("insert into t values (1, 1, 10), (2, 1, 20), (3, 2, 30)")
    return found


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select (select max(t.b)) from t", [[30]]),
        ("select (select max(t.b) + x.id from t as x where x.id = 1) from t", [[31]]),
        ("select (select max(t.b) from e) from t", [[None]]),
        ("select (select count(*) from t as x where max(t.a) > 0) from t", [[3]]),
        ("select a from t group by a having (select max(t.b)) > 20", [[2]]),
        ("select a from t group by a order by (select max(t.b)) desc", [[2], [1]]),
        ("select (select t.b) from t group by a", [[20], [30]]),
        ("select (select sum(1) from t as x) from t where id = 1", [[3]]),
        ("select group_concat() from t", [[3]]),
        ("select group_concat() as x from v", [[3]]),
        ("select group_concat() from t where id > 100", [[None]]),
        ("select group_concat(a, 'x', 1) from e", [[None]]),
    ],
)
def test_rows(db: Session, query: str, rows: list[list[object]]) -> None:
    assert db.sql(query) == rows


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select (select max(t.a) from t as x) from t", "Failed to execute SQL statement: Expression subquery returned "
         "more than 1 row"),
        ("select id from t where (select max(t.a)) > 0", "misuse of aggregate: MAX()"),
        ("select id from t order by (select max(t.a))", "misuse of aggregate: MAX()"),
        ("select count(*) from t where max(a) > 0", "misuse of aggregate: MAX()"),
        ("select a from t where max(a) > 0", "misuse of aggregate function MAX()"),
        ("select a from t group by (select max(t.a))", "aggregate functions are not allowed in the GROUP BY clause"),
        ("update e set a = (select max(e.a))", "misuse of aggregate: MAX()"),
        ("delete from t where (select max(t.a)) = 1", "misuse of aggregate: MAX()"),
        ("select group_concat() from t where id = 1",
         "Wrong number of arguments is passed to GROUP_CONCAT(): expected 1 or 2, got 0"),
    ],
)  # fmt: skip
def test_errors(db: Session, query: str, text: str) -> None:
    assert db.error(query)[1] == text


def test_other_columns_of_min_and_max(start: Start) -> None:
    """They are those of the row with the extreme, whatever the type of its value."""
    db = start()
    db.sql('create table t (id int primary key, g int, s text collate "unicode_ci", n number, c scalar)')
    db.sql(
        "insert into t values (1, 1, 'b', 2.5, 'x'), (2, 1, 'C', 1, 7), (3, 2, 'a', 3, true), (4, 2, null, null, null)"
    )
    assert db.sql("select id, max(s) from t") == [[2, "C"]]
    assert db.sql("select id, max(n), g + 1 from t") == [[3, 3, 3]]
    assert db.sql("select min(n), id from t") == [[1, 2]]
    assert db.sql("select id, max(c) from t") == [[1, "x"]]
    assert db.sql("select g, id, max(n) from t group by g") == [[1, 1, 2.5], [2, 3, 3]]
    assert db.sql("select id, max(n) from t where n is null") == [[4, None]]
    assert db.sql("select g, id from t group by g having max(n) > 2.9") == [[2, 3]]
    assert db.sql("select id, max(n) + max(n) from t") == [[3, 6]]
