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


_NO_BOOLEAN = "KEY_PART_TYPE", "Supplied key type of part 0 does not match index part type: expected boolean"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("b in (true, 1)", "1"), ("b in ('abc', 1)", "1"), ("b in ('d', 'abc', true)", "abc"),
        ("b in (x'00', 2.5)", "2.5"),
        ("b in (null, 'abc')", "abc"), ("b < 'abc'", [1, 2]), ("b <= x'00'", [1, 2]), ("'abc' > b", [1, 2]),
        ("b > 'abc'", None), ("'abc' <= b", None), ("b between true and 'b'", [1]), ("b between 'a' and true", None),
        ("b < 'abc' and b > false", [1]), ("v = 1 and b > 'abc'", None), ("b < lower('A')", [1, 2]),
        ("b < cast(null as string)", []), ("b in (true, null)", [1]), ("b >= false", [1, 2]),
    ],
)  # fmt: skip
def test_other_values_become_keys_of_an_index_of_booleans(
    start: Start, condition: str, expected: str | list[int] | None
) -> None:
    """A range to a text has all booleans, a range from one is an error, even without rows."""
    db = start()
    for name in ("k", "m", "e"):
        db.sql(f"create table {name} (id int primary key, b boolean, v int)")
        db.sql(f"create index {name}b on {name} (b)")
        if name != "e":
            db.sql(f"insert into {name} values (1, true, 1), (2, false, 2)" + ", (3, null, 3)" * (name == "m"))
        text = f"select v from {name} where {condition} order by v"
        if isinstance(expected, list):
            assert [row[0] for row in db.sql(text)] == (expected if name != "e" else [])
        elif expected is None:
            assert db.error(text) == _NO_BOOLEAN
        else:
            assert db.error(text) == ("SQL_TYPE_MISMATCH", f"Type mismatch: can not convert {expected} to boolean")
    assert db.error("select v from k where b > ?", 1) == _NO_BOOLEAN
    assert db.sql("select v from k where b < ? order by v", 1) == [[1], [2]]
    assert db.error("select v from k where b = ?", 1) == (
        "SQL_TYPE_MISMATCH",
        "Type mismatch: can not convert 1 to boolean",
    )
