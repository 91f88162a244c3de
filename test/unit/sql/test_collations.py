"""Collations of columns and of COLLATE: how values are compared, and which pairs are errors."""

from __future__ import annotations

import pytest

from .conftest import Session, Start

MIX = ("ILLEGAL_COLLATION_MIX", "Illegal mix of collations")


@pytest.fixture
def letters(start: Start) -> Session:
    db = start()
    db.sql('create table t (id int primary key, a text, b text collate "binary", c text collate "unicode_ci")')
    db.sql("insert into t values (1, 'a', 'a', 'a'), (2, 'A', 'A', 'A'), (3, 'aS', 'aS', 'aS'), (4, 'AS', 'AS', 'AS')")
    return db


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select distinct c from t", [["a"], ["aS"]]),
        ("select distinct substr(c, 1, 1) from t", [["a"]]),
        ('select distinct a collate "unicode_ci" from t', [["a"], ["aS"]]),
        ("select count(distinct c), count(distinct a) from t", [[2, 4]]),
        ("select id from t where c in (select 'A')", [[1], [2]]),
        ("select id from t where c in ('A', 'x', 'y')", [[1], [2]]),
        ("with q as (select distinct c from t) select * from q", [["a"], ["aS"]]),
        ("select greatest(c, 'a'), least(c, 'a') from t where id = 2", [["A", "a"]]),
    ],
)
def test_equal_values_are_one(letters: Session, query: str, rows: list[list[object]]) -> None:
    assert letters.sql(query) == rows


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select c from t union select c from t", [["A"], ["AS"]]),
        ("select c from t except select 'x'", [["A"], ["AS"]]),
        ("select c from t intersect select 'a'", [["A"]]),
        ("select c from t union select 'a'", [["a"], ["AS"]]),
        ("select * from (select c from t union select c from t)", [["A"], ["AS"]]),
        ("select c from t union select c from t order by 1", [["a"], ["aS"]]),
        ("select distinct c from t order by c", [["A"], ["AS"]]),
        ("select distinct c from t order by c desc", [["aS"], ["a"]]),
    ],
)
def test_which_of_equal_texts_stays(letters: Session, query: str, rows: list[list[object]]) -> None:
    """A set keeps the last one, unless it has to be sorted for ORDER BY."""
    assert letters.sql(query) == rows


def test_names_of_collations_are_exact(letters: Session) -> None:
    for text in ("select c = 'a' collate unicode_ci from t", "create table u (a text primary key collate binary)"):
        assert letters.error(text)[0] == "NO_SUCH_COLLATION"


def test_compounds_compare_by_one_collation(letters: Session) -> None:
    for operator in ("union", "except", "intersect"):
        assert letters.error(f"select c from t {operator} select b from t") == MIX
    assert letters.error("select c from t union all select b from t order by 1") == MIX
    assert len(letters.sql("select c from t union all select b from t")) == 8
    assert len(letters.sql("select a from t union select c from t")) == 2
    assert len(letters.sql('select b from t union select c collate "binary" from t')) == 4


def test_limit_has_no_collation(letters: Session) -> None:
    for text in ("1 collate binary", "1 collate binary offset 1", "1 offset 1 collate binary", "1, 1 collate binary"):
        assert letters.error(f"select 1 limit {text}") == (
            "SQL_SYNTAX_NEAR_TOKEN",
            "Syntax error at line 1 near 'COLLATE'",
        )


def test_a_group_shows_the_text_of_its_last_row(db: Session) -> None:
    """Texts that a collation takes for equal are one group; as in Tarantool, it shows the last of them."""
    db.sql('create table t (id int primary key, s string collate "unicode_ci")')
    db.sql("insert into t values (1, 'abc'), (2, 'ABC'), (3, 'b')")
    assert db.sql("select s, count(*) from t group by s") == [["ABC", 2], ["b", 1]]
