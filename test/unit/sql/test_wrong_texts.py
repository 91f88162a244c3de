"""Errors of wrong texts have Tarantool's place and kind: an unexpected token or a reserved word."""

from __future__ import annotations

import pytest

from box.errors import BoxError
from box.sql.parse import parse_statement

from .conftest import Session

WRONG = [
    ("select 1e", "SQL_UNKNOWN_TOKEN", "8 1e"),
    ("select 1 +", "SQL_SYNTAX_NEAR_TOKEN", "+"),
    ("select (1", "SQL_SYNTAX_NEAR_TOKEN", "1"),
    ("select 1)", "SQL_SYNTAX_NEAR_TOKEN", ")"),
    ("select", "SQL_KEYWORD_IS_RESERVED", "7 select"),
    ("", "SQL_STATEMENT_EMPTY", ""),
    (" ", "SQL_STATEMENT_EMPTY", ""),
    (";", "SQL_STATEMENT_EMPTY", ""),
    ("select 1 from", "SQL_KEYWORD_IS_RESERVED", "14 from"),
    ("select case when id else 1 end", "SQL_SYNTAX_NEAR_TOKEN", "else"),
    ("select case when id > 1 else 1 end", "SQL_KEYWORD_IS_RESERVED", "25 else"),
    ("select case when f(1) else 1 end", "SQL_KEYWORD_IS_RESERVED", "23 else"),
    ("select case when 1 > id else 1 end", "SQL_SYNTAX_NEAR_TOKEN", "else"),
    ("select * from", "SQL_KEYWORD_IS_RESERVED", "14 from"),
    ("insert", "SQL_KEYWORD_IS_RESERVED", "7 insert"),
    ("insert into", "SQL_KEYWORD_IS_RESERVED", "12 into"),
    ("insert into err", "SQL_SYNTAX_NEAR_TOKEN", "err"),
    ("insert into err values", "SQL_KEYWORD_IS_RESERVED", "23 values"),
    ("insert into err values (", "SQL_SYNTAX_NEAR_TOKEN", "("),
    ("insert into err values (1", "SQL_SYNTAX_NEAR_TOKEN", "1"),
    ("insert into err values 1", "SQL_SYNTAX_NEAR_TOKEN", "1"),
    ("update", "SQL_KEYWORD_IS_RESERVED", "7 update"),
    ("update err", "SQL_SYNTAX_NEAR_TOKEN", "err"),
    ("update err set", "SQL_KEYWORD_IS_RESERVED", "15 set"),
    ("update err set a", "SQL_SYNTAX_NEAR_TOKEN", "a"),
    ("update err set a =", "SQL_SYNTAX_NEAR_TOKEN", "="),
    ("delete err", "SQL_SYNTAX_NEAR_TOKEN", "err"),
    ("delete from", "SQL_KEYWORD_IS_RESERVED", "12 from"),
    ("create", "SQL_KEYWORD_IS_RESERVED", "7 create"),
    ("create tabel x", "SQL_SYNTAX_NEAR_TOKEN", "tabel"),
    ("create table", "SQL_KEYWORD_IS_RESERVED", "13 table"),
    ("create table x", "SQL_SYNTAX_NEAR_TOKEN", "x"),
    ("create table x (", "SQL_SYNTAX_NEAR_TOKEN", "("),
    ("create table x (a", "SQL_SYNTAX_NEAR_TOKEN", "a"),
    ("create table x (a int", "SQL_KEYWORD_IS_RESERVED", "22 int"),
    ("create table x (a foo primary key)", "SQL_SYNTAX_NEAR_TOKEN", "foo"),
    ("create table x (a int primary)", "SQL_SYNTAX_NEAR_TOKEN", ")"),
    ("drop", "SQL_KEYWORD_IS_RESERVED", "5 drop"),
    ("drop table", "SQL_KEYWORD_IS_RESERVED", "11 table"),
    ("drop foo x", "SQL_SYNTAX_NEAR_TOKEN", "foo"),
    ("select 1 limit", "SQL_SYNTAX_NEAR_TOKEN", "limit"),
    ("select 1 order", "SQL_KEYWORD_IS_RESERVED", "15 order"),
    ("select 1 group by", "SQL_KEYWORD_IS_RESERVED", "18 by"),
    ("select !", "SQL_UNKNOWN_TOKEN", "8 !"),
    ("select 'a", "SQL_UNKNOWN_TOKEN", "8 'a"),
    ('select "a', "SQL_UNKNOWN_TOKEN", '8 "a'),
    ("select 1 where", "SQL_KEYWORD_IS_RESERVED", "15 where"),
    ("select case", "SQL_KEYWORD_IS_RESERVED", "12 case"),
    ("select case when 1 end", "SQL_KEYWORD_IS_RESERVED", "20 end"),
    ("select cast(1 as)", "SQL_SYNTAX_NEAR_TOKEN", ")"),
    ("select 1 union", "SQL_KEYWORD_IS_RESERVED", "15 union"),
    ("with x", "SQL_SYNTAX_NEAR_TOKEN", "x"),
    ("values", "SQL_KEYWORD_IS_RESERVED", "7 values"),
    ("values (", "SQL_SYNTAX_NEAR_TOKEN", "("),
    ("foo", "SQL_SYNTAX_NEAR_TOKEN", "foo"),
    ("1", "SQL_SYNTAX_NEAR_TOKEN", "1"),
    ("select from err", "SQL_SYNTAX_NEAR_TOKEN", "from"),
    ("table", "SQL_KEYWORD_IS_RESERVED", "1 table"),
    ("select 1,,2", "SQL_SYNTAX_NEAR_TOKEN", ","),
    ("select 1 2", "SQL_SYNTAX_NEAR_TOKEN", "2"),
    ("select 5 not null", "SQL_SYNTAX_NEAR_TOKEN", "null"),
    ("select 1 indexed q", "SQL_SYNTAX_NEAR_TOKEN", "indexed"),
    ("select distinct t. from", "SQL_KEYWORD_IS_RESERVED", "20 from"),
    ("select char(*)", "SQL_SYNTAX_NEAR_TOKEN", "*"),
    ("select case 1 when from", "SQL_SYNTAX_NEAR_TOKEN", "from"),
    ("select 1 from t not null", "SQL_KEYWORD_IS_RESERVED", "21 null"),
    ("select 1 order by 1 union", "SQL_KEYWORD_IS_RESERVED", "26 union"),
    ("insert select", "SQL_SYNTAX_NEAR_TOKEN", "select"),
    ("update or ignore t select", "SQL_SYNTAX_NEAR_TOKEN", "select"),
    ("update t indexed a = 1", "SQL_SYNTAX_NEAR_TOKEN", "a"),
    ("update or ignore t set a = 1, as = 2", "SQL_KEYWORD_IS_RESERVED", "31 as"),
    ("delete from t where a between 1 select", "SQL_KEYWORD_IS_RESERVED", "33 select"),
    ("alter table t rename select", "SQL_KEYWORD_IS_RESERVED", "22 select"),
    ("create table if (a int primary key)", "SQL_SYNTAX_NEAR_TOKEN", "("),
    ("drop table if qq", "SQL_SYNTAX_NEAR_TOKEN", "qq"),
    ("alter table", "SQL_KEYWORD_IS_RESERVED", "12 table"),
    ("alter table x", "SQL_SYNTAX_NEAR_TOKEN", "x"),
    ("commit foo", "SQL_SYNTAX_NEAR_TOKEN", "foo"),
    ("set session", "SQL_SYNTAX_NEAR_TOKEN", "session"),
    ("select x'1'", "SQL_UNKNOWN_TOKEN", "8 x'1'"),
    ("select ~", "SQL_SYNTAX_NEAR_TOKEN", "~"),
    ("select 1 as select", "SQL_SYNTAX_NEAR_TOKEN", "select"),
    ("select count(*", "SQL_SYNTAX_NEAR_TOKEN", "*"),
    ("select not", "SQL_KEYWORD_IS_RESERVED", "11 not"),
    ("create index", "SQL_KEYWORD_IS_RESERVED", "13 index"),
    ("create index i on err", "SQL_SYNTAX_NEAR_TOKEN", "err"),
    ("create view v", "SQL_SYNTAX_NEAR_TOKEN", "v"),
    ("create trigger t", "SQL_SYNTAX_NEAR_TOKEN", "t"),
    ("replace into null (id) values (1)", "SQL_KEYWORD_IS_RESERVED", "14 null"),
    ("replace into t (id, select) values (1, 2)", "SQL_KEYWORD_IS_RESERVED", "21 select"),
    ("create view deferrable v as select 1", "SQL_SYNTAX_NEAR_TOKEN", "deferrable"),
    ("select autoincrement from t", "SQL_SYNTAX_NEAR_TOKEN", "autoincrement"),
    ("select char ", "SQL_SYNTAX_NEAR_TOKEN", " "),
    ("select raise case", "SQL_KEYWORD_IS_RESERVED", "14 case"),
    ("select 1 = 1 = by", "SQL_KEYWORD_IS_RESERVED", "16 by"),
    ("select case when 1 then 2 else 3 end from select", "SQL_KEYWORD_IS_RESERVED", "43 select"),
    ("alter table t enable check check", "SQL_KEYWORD_IS_RESERVED", "28 check"),
    ("; [", "SQL_UNKNOWN_TOKEN", "3 ["),
    ("select 1\u0662", "SQL_UNKNOWN_TOKEN", "8 1\u0662"),
    ("select 'ä' else", "SQL_KEYWORD_IS_RESERVED", "13 else"),
    ("select 1 + /* c */ ", "SQL_SYNTAX_NEAR_TOKEN", " "),
    ("select 1 + -- c", "SQL_SYNTAX_NEAR_TOKEN", "-- c"),
    (
        "create trigger a after insert on t for each row begin select 1 end",
        "SQL_KEYWORD_IS_RESERVED",
        "70 end",
    ),
]
"""The text, the code, and the part of the message with the place; all are from Tarantool 2.8.1."""


def message(code: str, place: str) -> str:
    """Return the whole message of an error from its code and the part that names the place."""
    number, _, word = place.partition(" ")
    return {
        "SQL_STATEMENT_EMPTY": "Failed to execute an empty SQL statement",
        "SQL_SYNTAX_NEAR_TOKEN": f"Syntax error at line 1 near '{place}'",
        "SQL_UNKNOWN_TOKEN": f"At line 1 at or near position {number}: unrecognized token '{word}'",
        "SQL_KEYWORD_IS_RESERVED": f"At line 1 at or near position {number}: keyword '{word}' is reserved. "
        f"Please use double quotes if '{word}' is an identifier.",
    }[code]


@pytest.mark.parametrize(("text", "code", "place"), WRONG)
def test_a_wrong_text_is_reported_where_it_is_wrong(text: str, code: str, place: str) -> None:
    try:
        error = parse_statement(text).trailing
    except BoxError as raised:
        error = raised
    assert error is not None
    assert (error.code.name, error.message) == (code, message(code, place))


def test_lines_are_counted() -> None:
    with pytest.raises(BoxError, match="Syntax error at line 3 near 'foo'"):
        parse_statement("insert into t\nvalues (1,\n2 foo)")
    with pytest.raises(BoxError, match="Syntax error at line 1 near 'foo'"):
        parse_statement("insert into t \nvalues (1,\r\n2 foo)")  # spaces before a line feed swallow it


def test_what_is_deep_is_refused() -> None:
    """A text that nests too deeply is an error and does not end the process."""
    with pytest.raises(BoxError, match="parser stack limit reached"):
        parse_statement("select " + "(" * 100_000)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("DROP TABLE END", 15),
        ("END", 1),
        ("RENAME", 1),
        ("CREATE TABLE END (a INT PRIMARY KEY)", 18),
        ("SELECT END.a FROM t", 11),
        ("SELECT 1 AS RENAME FROM t", 20),
    ],
)
def test_a_word_that_the_grammar_takes_for_a_name_is_reported_behind_it(text: str, position: int) -> None:
    with pytest.raises(BoxError, match=f"At line 1 at or near position {position}: keyword '[A-Z]+' is reserved"):
        parse_statement(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT a FROM t ON a = 1", 25),
        ("SELECT a FROM t AS x USING (a), t", 31),
        ("SELECT 1 FROM t, (t AS y ON 1 = 1)", 34),
    ],
)
def test_the_first_table_has_no_condition(text: str, position: int) -> None:
    expected = f"Syntax error at line 1 at or near position {position}: a JOIN clause is required before ON and USING"
    with pytest.raises(BoxError, match=expected):
        parse_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT 1 AS "{}"',
        'SAVEPOINT "{}"',
        'CREATE TABLE "{}" (id INT PRIMARY KEY)',
        'CREATE INDEX "{}" ON nosuch (a)',
        'CREATE VIEW "{}" AS SELECT 1',
        'CREATE TRIGGER "{}" AFTER INSERT ON nosuch FOR EACH ROW BEGIN SELECT 1; END',
        'UPDATE nosuch SET "{}" = 1',
    ],
)
def test_a_new_name_has_at_most_65000_bytes(db: Session, text: str) -> None:
    problem = "(expected printable symbols only or it is too long)"
    assert db.error(text.format("y" * 65001)) == ("IDENTIFIER", f"Invalid identifier '{'y' * 64}' {problem}")
