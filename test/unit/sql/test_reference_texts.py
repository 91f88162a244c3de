"""Errors and values that each chapter of the reference has, as Tarantool 2.8.1 gives them."""

from __future__ import annotations

import pytest

from test.unit.sql.conftest import Session


@pytest.fixture
def tables(db: Session) -> Session:
    """A session with two tables of three rows."""
    for name in "tw":
        db.sql(f"create table {name} (id int primary key, i int, s string)")
        db.sql(f"insert into {name} values (1, 5, 'a'), (2, 5, 'b'), (3, null, null)")
    return db


_LIMITS = {
    f"select {', '.join(['1'] * 2001)}": "The number of columns in result set 2001 exceeds the limit (2000)",
    " union all ".join(["select 1"] * 31): (
        "The number of UNION or EXCEPT or INTERSECT operations 31 exceeds the limit (30)"
    ),
    f"select 1 from {', '.join(f't a{number}' for number in range(65))}": (
        "The number of tables in a join 65 exceeds the limit (64)"
    ),
    f"select ifnull({', '.join(['1'] * 128)})": "Number of arguments to function IFNULL 128 exceeds the limit (127)",
    f"select 1 from t order by {', '.join(['id'] * 2001)}": (
        "The number of terms in ORDER BY clause 2001 exceeds the limit (2000)"
    ),
}


@pytest.mark.parametrize("text", _LIMITS, ids=["columns", "compound", "tables", "arguments", "terms"])
def test_a_statement_has_limits(tables: Session, text: str) -> None:
    assert tables.error(text) == ("SQL_PARSER_LIMIT", _LIMITS[text])


@pytest.mark.parametrize("text", ["select t.x from t", "select x.id from t"])
def test_a_column_of_a_named_table_is_looked_up_in_its_format(tables: Session, text: str) -> None:
    code, message = tables.error(text)
    assert code == "NO_SUCH_FIELD_NAME_IN_SPACE"
    assert message in ("Field 'X' was not found in space 'T' format", "Field 'ID' was not found in space 'X' format")


_TEXTS = [
    ("select 1 and 'a'", "Type mismatch: can not convert a to boolean"),
    ("select i and s from t where id = 1", "Type mismatch: can not convert a to boolean"),
    ("select (select id from t)", "Failed to execute SQL statement: Expression subquery returned more than 1 row"),
    (
        "select id from t where i = (select i from w where w.id <= t.id)",
        "Failed to execute SQL statement: Expression subquery returned more than 1 row",
    ),
    ("select * from t right join w on true", "Tarantool does not support RIGHT and FULL OUTER JOINs"),
    ("with q as (select 1), q as (select 2) select * from q", "Ambiguous table name in WITH query: Q"),
    ("select i from t where count(*) > 1", "misuse of aggregate function COUNT()"),
    ("select i from t order by -1", "Error at ORDER BY in place 1: term out of range - should be between 1 and 1"),
    (
        "select i from t having count(*) > 1",
        "Failed to execute SQL statement: HAVING argument must appear in the GROUP BY clause or be used in an "
        "aggregate function",
    ),
    ("select --1", "Syntax error at line 1 near '--1'"),
    ("select /* c", "Syntax error at line 1 near '/* c'"),
    (
        "update t set i = 1 select 2",
        "At line 1 at or near position 20: keyword 'select' is reserved. Please use double quotes if 'select' is an "
        "identifier.",
    ),
    (
        "alter table t add unique (i)",
        "At line 1 at or near position 19: keyword 'unique' is reserved. Please use double quotes if 'unique' is an "
        "identifier.",
    ),
    (
        "alter table t rename to select",
        "At line 1 at or near position 25: keyword 'select' is reserved. Please use double quotes if 'select' is an "
        "identifier.",
    ),
    (
        "delete from t where i not null",
        "At line 1 at or near position 27: keyword 'null' is reserved. Please use double quotes if 'null' is an "
        "identifier.",
    ),
]


@pytest.mark.parametrize(("text", "message"), _TEXTS)
def test_a_wrong_statement_has_the_text_of_tarantool(tables: Session, text: str, message: str) -> None:
    assert tables.error(text)[1] == message


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select (select s from t where id = 2), (select id from t limit 1)", [["b", 1]]),
        ("select id, (select max(i) from w where w.id = t.id) from t order by id", [[1, 5], [2, 5], [3, None]]),
        ("select (select id from t where false)", [[None]]),
        ("select count(*) from t having count(*) > 1", [[3]]),
        ("select printf(18446744073709551615)", [["18446744073709551615"]]),
        ("select false and null, null and true", [[False, None]]),
    ],
)
def test_a_statement_with_one_row_has_its_value(tables: Session, text: str, rows: list[list[object]]) -> None:
    assert tables.sql(text) == rows
