"""Values that operators and functions give for operands of unlike types, as Tarantool 2.8.1 gives them."""

from __future__ import annotations

import pytest

from test.unit.sql.conftest import Session


@pytest.fixture
def w(db: Session) -> Session:
    """A session with a table of four rows."""
    db.sql("create table w (id int primary key, i int, s string)")
    db.sql("insert into w values (1, 5, 'a'), (2, 100, 'b'), (3, null, 'c'), (4, 5, null)")
    return db


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select id from w where (id, i) in ((1, 5))", [[1]]),
        ("select id from w where (id, i) not in ((1, 5))", [[2], [3], [4]]),
        ("select id in ('x') from w where id = 1", [[False]]),
        ("select id in (null), id in (1) from w where id = 1", [[None, True]]),
        ("select exists (select id, i from w where id = 1), exists (select 1 from w limit 1)", [[True, True]]),
        ("select exists (select id from w where id > 100), not exists (select 1)", [[False, False]]),
        ("select (select id from w where id = 2 limit 0 + 1)", [[2]]),
        ("select 7.9 % 4, 7 % 4.2, -1 % 2.0, 1e30 % -1", [[3, 3, -1, 0]]),
        ("select '-1' + 1.5, '-1' * 1", [[0.5, 18446744073709551615]]),
        ("select length(char(1.5, '66', '2.5', -1, -1.5)), char(66, '67')", [[5, "BC"]]),
        ("select hex(char('1.5')), hex(char(-1.5)), hex(char(-1))", [["00", "00", "EFBFBD"]]),
        ("select zeroblob('1.5'), zeroblob(18446744073709551615)", [[b"", b""]]),
        ("select substr('abcdef', '2.5'), substr('abcdef', 2.5), substr('abcdef', 18446744073709551614)",
         [["abcdef", "bcdef", "ef"]]),
        ("select round(1.25, '1.5'), round(1.25, 1.9)", [[1, 1.2]]),
        ("select trim(12), trim('2' from 12), trim(both from true), trim(leading 'T' from true)",
         [["", "1", "TRUE", "RUE"]]),
        ("select trim(1 from ' a '), trim(2 from ' a '), trim(3 from ' a '), trim(4 from ' a ')",
         [["a ", " a", "a", " a "]]),
        ("select 'a1%' like 'a11%' escape 1, 'ax%' like 'axx%' escape x'78'", [[True, True]]),
        ("select unicode(x'00'), unicode('a')", [[None, 97]]),
        ("select 'ä' collate \"unicode_ci\" like 'A', 'ä' like 'A_' collate \"unicode_ci\"", [[True, False]]),
        ("select 'Äb' collate \"unicode\" like 'äb', 'xÄb' like '%a%' collate \"unicode_ci\"", [[False, True]]),
    ],
)  # fmt: skip
def test_a_value_is_that_of_tarantool(w: Session, text: str, rows: list[list[object]]) -> None:
    assert w.sql(text) == rows


_TWO = "Failed to execute SQL statement: Expression subquery returned more than 1 row"
_LIMIT = "Failed to execute SQL statement: Expression subquery could be limited only with 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select s in (1) from w", "Type mismatch: can not convert a to numeric"),
        ("select id from w where (id, i) in ((1, 2, 3))",
         "Unequal number of entries in row expression: left side has 2, but right side - 3"),
        ("select exists (select 1 from w)", _TWO),
        ("select exists (select 1 union all select 2)", _TWO),
        ("select id from w where exists (select 1 from w x where x.i = w.i)", _TWO),
        ("select exists (select 1 from w limit 2)", _LIMIT),
        ("select (select id from w limit 2)", _LIMIT),
        ("select (select id, i from w) = (1, 5)", _TWO),
        ("select ~'1.5'", "Type mismatch: can not convert 1.5 to integer"),
        ("select '1e3' & 1", "Type mismatch: can not convert 1e3 to integer"),
        ("select 'a' like 'b' escape 12",
         "Failed to execute SQL statement: ESCAPE expression must be a single character"),
    ],
)  # fmt: skip
def test_an_error_is_that_of_tarantool(w: Session, text: str, message: str) -> None:
    assert w.error(text)[1] == message
