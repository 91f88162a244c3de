"""IN compares values one by one, or looks them up in a set of values of one type."""

from __future__ import annotations

import pytest

from .conftest import Session, Start


@pytest.fixture
def filled(start: Start) -> Session:
    db = start()
    db.sql("create table t (id int primary key, s text, f boolean, n number, v scalar)")
    db.sql("insert into t values (1, 'a', true, 1.5, true), (2, 'b', false, 2, 'x'), (3, null, null, null, null)")
    return db


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("id in (1, 2, 'x')", [True, True, False]),
        ("id in ('1', '2', 'x')", [True, True, False]),
        ("n in ('1.5', 2, 3)", [True, True, None]),
        ("s in (1, 'a')", [True, False, None]),
        ("f in (1, true, 'a')", [True, False, None]),
        ("v in (1, 'x', true)", [True, True, None]),
        ("'a' in (n, 2)", [False, False, None]),
        ("id in (1, null)", [True, None, None]),
        ("id not in (1, 2, null)", [False, False, None]),
    ],
)  # fmt: skip
def test_a_value_is_in_a_list(filled: Session, expression: str, values: list[bool | None]) -> None:
    assert [row[0] for row in filled.sql(f"select {expression} from t")] == values


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select id in (1, 'abcd') from t", "Type mismatch: can not convert abcd to numeric"),
        ("select n in ('a', 2) from t", "Type mismatch: can not convert a to numeric"),
        ("select v in (true, 1) from t", "Type mismatch: can not convert text to boolean"),
        ("select f in (select 1) from t", "Type mismatch: can not convert TRUE to integer"),
        ("select s in (select id from t) from t", "Type mismatch: can not convert a to integer"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_an_error(filled: Session, query: str, message: str) -> None:
    assert filled.error(query) == ("SQL_TYPE_MISMATCH", message)


def test_a_row_is_in_a_query_or_a_list_of_one_row(filled: Session) -> None:
    assert filled.sql("select id from t where (id, s) in (select id, s from t)") == [[1], [2]]
    assert filled.sql("select id from t where (id, s) in ((1, 'a'))") == [[1]]
    text = "Unequal number of entries in row expression: left side has 2, but right side - 1"
    assert filled.error("select 1 from t where (id, s) in ((1, 'a'), (2, 'b'))") == ("SQL_COLUMN_COUNT", text)


def test_values_of_a_query_get_the_type_of_numbers(filled: Session) -> None:
    assert filled.value("select 1 in (select '1' union select 'a')") is True
    assert filled.value("select 1.0 in (select 1)") is True
