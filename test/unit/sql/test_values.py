# ruff: noqa: E501  a message is one line
"""Arithmetic, conversions, comparison and functions as in Tarantool 2.8.1."""

from __future__ import annotations

import pytest

from .conftest import Session

BIG = 2**63


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("5 / 2", 2), ("-5 / 2", -2), ("5.0 / 2", 2.5), ("-5 % 3", -2), ("1 << 2", 4), ("6 & 3", 2), ("6 | 1", 7),
        ("~1", -2), ("2 + 3 * 4", 14), ("9223372036854775807 + 1", BIG), ("18446744073709551615", 2 * BIG - 1),
        ("'5' + 1", 6), ("'5.5' + 1", 6.5), ("null + 1", None), ("'a' || 'b'", "ab"), ("x'61' || x'62'", b"ab"),
        ("null = null", None), ("null is null", True), ("null and false", False), ("null or true", True),
        ("not null", None), ("1 < 2.5", True), ("1 = 1.0", True), ("1 < '2'", True), ("'a' < 'b'", True),
        ("(1, 2) < (1, 3)", True), ("1 in (1, 2)", True), ("1 not in (2, null)", None),
        ("'a' collate \"unicode_ci\" = 'A'", True), ("'abc' like 'A%'", False), ("'50%' like '50!%' escape '!'", True),
        ("cast('12' as integer)", 12), ("cast(12 as string)", "12"), ("cast(1.9 as integer)", 1),
        ("cast(true as string)", "TRUE"), ("cast('true' as boolean)", True), ("cast('1.5' as number)", 1.5),
        ("cast(x'31' as string)", "1"), ("cast('abc' as varbinary)", b"abc"),
        ("upper('aä')", "AÄ"), ("length('äb')", 2), ("replace('aba', 'a', 'c')", "cbc"), ("trim('  a ')", "a"),
        ("trim(leading 'x' from 'xxa')", "a"), ("abs(-5)", 5), ("round(2.567, 2)", 2.57), ("hex('ab')", "6162"),
        ("quote('it''s')", "'it''s'"), ("char(65, 66)", "AB"), ("unicode('A')", 65), ("coalesce(null, 1)", 1),
        ("nullif(1, 1)", None), ("greatest(1, 3)", 3), ("least(2, 'a')", 2), ("position('b', 'abc')", 2),
        ("printf('%d-%s', 1, 'x')", "1-x"), ("typeof(1.5)", "double"), ("zeroblob(2)", b"\0\0"),
        ("1 + x'00'", 1), ("1 + x'3100'", 2), ("1 * x'0031'", 0), ("1 + x'310061'", 2), ("1.5 + x'3100'", 2.5),
        ("1 + char(49, 0)", 2), ("1 & x'00'", 0), ("cast(x'2000' as integer)", 0), ("cast(x'00' as number)", 0),
        ("soundex('Robert')", "R163"), ("version()", "2.8.1-0-g0000000"),
    ],
)  # fmt: skip
def test_an_expression_has_its_value(db: Session, expression: str, value: object) -> None:
    found = db.value(f"select {expression}")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("place", "length", "part"),
    [
        (1, None, "abc"), (2, None, "bc"), (-1, None, "c"), (9, None, ""), (-9, None, "abc"),
        (0, 2, "a"), (1, 2, "ab"), (3, -2, "ab"), (-1, -1, "b"), (-4, 2, "a"), (2, 0, ""),
    ],
)  # fmt: skip
def test_substr_takes_a_window(db: Session, place: int, length: int | None, part: str) -> None:
    rest = "" if length is None else f", {length}"
    assert db.value(f"select substr('abc', {place}{rest})") == part


@pytest.mark.parametrize(
    ("expression", "code", "message"),
    [
        ("1 / 0", "SQL_EXECUTE", "Failed to execute SQL statement: division by zero"),
        ("18446744073709551615 + 1", "SQL_EXECUTE", "Failed to execute SQL statement: integer is overflowed"),
        ("'a' + 1", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert a to numeric"),
        ("true and 1", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert 1 to boolean"),
        ("x'31' = '1'", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert text to varbinary"),
        ("'a' like 1", "INCONSISTENT_TYPES", "Inconsistent types: expected text got unsigned"),
        ("cast('a' as int)", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert a to integer"),
        ("cast(-1 as unsigned)", "SQL_TYPE_MISMATCH", "Type mismatch: can not convert -1 to unsigned"),
        ("abs(1, 2)", "FUNC_WRONG_ARG_COUNT", "Wrong number of arguments is passed to ABS(): expected 1, got 2"),
        ("18446744073709551616", "INT_LITERAL_MAX", "Integer literal 18446744073709551616 exceeds the supported range [-9223372036854775808, 18446744073709551615]"),
    ],
)  # fmt: skip
def test_what_has_no_value_is_an_error(db: Session, expression: str, code: str, message: str) -> None:
    assert db.error(f"select {expression}") == (code, message)


COLUMNS = {
    "unsigned": {1: 1, 1.5: 1, 2**64 - 1: 2**64 - 1},
    "integer": {-1: -1, 1.5: 1},
    "double": {1: 1.0, 1.5: 1.5},
    "number": {1: 1, 1.5: 1.5},
    "string": {"a": "a"},
    "boolean": {True: True},
    "varbinary": {b"1": b"1"},
    "scalar": {2: 2, 1.5: 1.5, "a": "a", True: True, b"1": b"1"},
}


@pytest.mark.parametrize("type_name", COLUMNS)
def test_a_column_takes_what_fits_its_type(db: Session, type_name: str) -> None:
    """A value that does not fit a column's type is refused with an error that shows it, not converted silently."""
    db.sql(f"create table t (id int primary key, v {type_name})")
    for given in (1, -1, 1.5, 2, "a", True, b"1", 2**64 - 1):
        fitting = {(type(key), key): value for key, value in COLUMNS[type_name].items()}
        if (type(given), given) in fitting:
            db.sql("replace into t values (1, ?)", given)
            stored = db.value("select v from t")
            assert (type(stored), stored) == (type(fitting[type(given), given]), fitting[type(given), given])
        elif type_name in ("string", "boolean", "varbinary"):
            assert db.error("replace into t values (1, ?)", given)[0] == "SQL_TYPE_MISMATCH"


def test_scalars_are_ordered_by_their_types(db: Session) -> None:
    db.sql("create table t (v scalar primary key)")
    db.sql("insert into t values ('a'), (1), (true), (x'00'), (2.5), (false)")
    expected = [[False], [True], [1], [2.5], ["a"], [b"\0"]]
    assert db.sql("select v from t order by v") == expected
    assert db.sql("select v from t order by v desc") == expected[::-1]


def test_nil_is_like_nothing_whatever_the_other_is(db: Session) -> None:
    assert db.sql("select x'00' like null, null like 5") == [[None, None]]


@pytest.mark.parametrize(
    ("args", "greatest", "least"),
    [
        ("u, i", ["unsigned", "unsigned"], ["integer", "integer"]),
        ("i, d", ["double", "integer"], ["integer", "double"]),
        ("n, u", ["number", "unsigned"], ["unsigned", "number"]),
        ("1, 2", ["integer", "integer"], ["integer", "integer"]),
        ("i, s", ["string", "string"], ["integer", "integer"]),
        ("b, null", ["boolean", "boolean"], ["boolean", "boolean"]),
    ],
)
def test_typeof_the_greatest_is_that_of_the_argument(
    db: Session, args: str, greatest: list[str], least: list[str]
) -> None:
    db.sql("create table t (id int primary key, i int, u unsigned, d double, n number, s string, b boolean)")
    db.sql("insert into t values (1, -5, 5, 1.5, 7, 'abc', true), (2, 6, 7, 2.5, -8, 'd', false)")
    assert [row[0] for row in db.sql(f"select typeof(greatest({args})) from t order by id")] == greatest
    assert [row[0] for row in db.sql(f"select typeof(least({args})) from t order by id")] == least


def test_typeof_tells_the_type_of_columns_and_operators(db: Session) -> None:
    """typeof() of a column or operator is its type, of a plain value the value's; nil is boolean."""
    db.sql("create table t (id int primary key, u unsigned, n number, s text, v scalar)")
    db.sql("insert into t values (1, 1, 1, 'a', 1), (2, null, null, null, null)")
    columns = [
        ["integer", "unsigned", "number", "string", "integer"],
        ["integer", "unsigned", "number", "string", "boolean"],
    ]
    assert db.sql("select typeof(id), typeof(u), typeof(n), typeof(s), typeof(v) from t") == columns
    operators = ["number", "integer", "string", "number", "unsigned"]
    assert (
        db.sql("select typeof(u + 1), typeof(u & 1), typeof(s || 'a'), typeof(-u), typeof(+u) from t")
        == [operators] * 2
    )
    assert db.sql("select typeof(length(s)), typeof(coalesce(u, 1)), typeof(nullif(u, 1)) from t") == [
        ["unsigned", "unsigned", "boolean"], ["boolean", "integer", "unsigned"]
    ]  # fmt: skip
    assert db.sql("select typeof(max(u)), typeof(sum(u)), typeof(count(*)) from t") == [
        ["unsigned", "integer", "unsigned"]
    ]
    assert db.sql("select typeof(cast(1 as number)), typeof(1), typeof(-1), typeof((select 1))") == [
        ["number", *["integer"] * 3]
    ]


def test_an_aggregate_raises_its_first_error(db: Session) -> None:
    db.sql("create table t (id int primary key, f boolean, s text)")
    db.sql("insert into t values (1, true, 'a'), (2, false, 'b'), (3, null, null)")
    for name in ("sum", "avg", "total"):
        assert db.error(f"select {name}(f) from t") == (
            "SQL_TYPE_MISMATCH",
            "Type mismatch: can not convert TRUE to number",
        )
        assert db.error(f"select {name}(s) from t") == (
            "SQL_TYPE_MISMATCH",
            "Type mismatch: can not convert a to number",
        )


def test_both_sides_of_or_are_looked_at(db: Session) -> None:
    for text in ("true or 2", "2 or true", "2 or 2"):
        assert db.error(f"select {text}") == ("SQL_TYPE_MISMATCH", "Type mismatch: can not convert 2 to boolean")
    assert db.types("select 1 >= 1, 1 > 1") == ["any", "boolean"]
