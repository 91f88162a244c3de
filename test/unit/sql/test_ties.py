"""Rows that ORDER BY considers equal come in the order in which Tarantool has them."""

from __future__ import annotations

import pytest

from .conftest import Session


@pytest.fixture
def filled(db: Session) -> Session:
    db.sql("create table t (id int primary key, a int, b int, c text)")
    db.sql(
        "insert into t values (1, 1, 1, 'x'), (2, 2, 1, 'y'), (3, 3, 1, 'x'), (4, 4, 2, 'z'), (5, 5, 2, 'w'),"
        " (6, 1, 2, 'x'), (7, 4, 3, 'x')"
    )
    return db


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("select id from t order by b limit 2", [1, 2]),
        ("select id from t order by b desc", [7, 4, 5, 6, 1, 2, 3]),
        ("select id from t order by b desc limit 4", [7, 6, 5, 4]),
        ("select id from t order by b + 0 desc limit 2 offset 2", [5, 4]),
        ("select id from t order by c desc, b desc limit 4", [4, 2, 7, 6]),
        ("select id from t order by null desc limit 2", [7, 6]),
        ("select id from t order by (select max(x.b) from t as x where x.a = t.a) desc limit 3", [7, 4, 6]),
        ("select id from (select id, b from t order by b desc limit 2)", [7, 6]),
        ("select id from t where id in (select id from t order by length(c) desc limit 2)", [6, 7]),
        ("select distinct b from t order by length(c) desc limit 2", [3, 2]),
    ],
)
def test_limit_reverses_the_ties_of_a_descending_order(filled: Session, text: str, ids: list[int]) -> None:
    assert filled.sql(text) == [[id] for id in ids]


def test_an_index_that_gives_the_order_is_read_backwards(filled: Session) -> None:
    filled.sql("create index i on t (b)")
    assert filled.sql("select id from t order by b desc limit 4") == [[7], [6], [5], [4]]
    plan = filled.sql("explain query plan select id from t order by b desc limit 4")
    assert [row[3] for row in plan] == ["SCAN TABLE T USING INDEX I"]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("select a, count(*) as n from t group by a order by n desc", [[1, 2], [4, 2], [2, 1], [3, 1], [5, 1]]),
        ("select a, count(*) as n from t group by a order by n desc limit 3", [[4, 2], [1, 2], [5, 1]]),
        ("select b, count(*) as n from t group by b order by b desc", [[3, 1], [2, 3], [1, 3]]),
        ("select a, b from t where a < 3 group by a, b order by b desc, b desc", [[1, 2], [1, 1], [2, 1]]),
        ("select a, b from t where a < 3 group by a, b order by a desc, b", [[2, 1], [1, 1], [1, 2]]),
    ],
)
def test_equal_groups_come_in_the_order_of_group_by(filled: Session, text: str, groups: list[list[int]]) -> None:
    assert filled.sql(text) == groups
