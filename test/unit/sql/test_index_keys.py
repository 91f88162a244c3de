"""A column that leads an index beside constants of other types: what Tarantool 2.8.1 finds, and its errors."""

from __future__ import annotations

import pytest

from test.unit.sql.conftest import Session

_ROWS = {
    "integer": "(0, 1), (1, -2)",
    "number": "(0, 1), (1, 1.5)",
    "double": "(0, 1e0), (1, 1.5e0)",
    "string": "(0, '1'), (1, 'b')",
    "varbinary": "(0, x'31'), (1, x'00')",
    "scalar": "(0, 1), (1, 'b')",
}


def _filled(db: Session, type_name: str) -> Session:
    db.sql(f"create table t (id int primary key, v {type_name})")
    db.sql(f"insert into t values {_ROWS[type_name]}")
    db.sql("create index iv on t (v)")
    return db


@pytest.mark.parametrize(
    ("type_name", "condition", "ids"),
    [
        ("integer", "v = '1'", [0]),
        ("integer", "v = 'z'", []),
        ("integer", "v = true", []),
        ("integer", "v in ('z', 1, x'31', true)", [0]),
        ("integer", "v in (true, x'31')", []),
        ("number", "v in ('1', 1.5)", [0, 1]),
        ("string", "v <= true", []),
        ("string", "v <= x'31'", [0, 1]),
        ("string", "v in (1, 2)", [0]),
        ("varbinary", "v < 'z'", []),
        ("scalar", "v = '1'", []),
        ("scalar", "v > true", [0, 1]),
        ("scalar", "v > 'a'", [1]),
        ("scalar", "v <= x'31'", [0, 1]),
        ("scalar", "v in ('z', 1)", [0]),
        ("scalar", "v in (1, 2)", [0]),
        ("scalar", "v between true and 'a'", [0]),
        ("integer", "v = '1' and id = 0", [0]),
        ("number", "v = '1' and id = 0", [0]),
    ],
)
def test_what_is_found(db: Session, type_name: str, condition: str, ids: list[int]) -> None:
    rows = _filled(db, type_name).sql(f"select id from t where {condition}")
    assert sorted(number for (number,) in rows) == ids


@pytest.mark.parametrize(
    ("type_name", "condition", "message"),
    [
        ("integer", "v > '1'", "Type mismatch: can not convert 1 to integer"),
        ("integer", "true < v", "Type mismatch: can not convert TRUE to integer"),
        ("number", "v = '1'", "Type mismatch: can not convert 1 to number"),
        ("number", "v in ('z', 1)", "Type mismatch: can not convert z to number"),
        ("number", "v in (1, true)", "Type mismatch: can not convert TRUE to number"),
        ("double", "v in ('1', 1)", "Type mismatch: can not convert 1 to double"),
        ("double", "v <= x'31'", "Type mismatch: can not convert varbinary to double"),
        ("string", "v = true", "Type mismatch: can not convert TRUE to string"),
        ("string", "v > true", "Supplied key type of part 0 does not match index part type: expected string"),
        ("string", "v in (true, 1)", "Type mismatch: can not convert TRUE to string"),
        ("string", "-1 < v", "Type mismatch: can not convert b to numeric"),
        ("varbinary", "v = 'z'", "Type mismatch: can not convert z to varbinary"),
        ("varbinary", "v >= 'z'", "Supplied key type of part 0 does not match index part type: expected varbinary"),
        ("varbinary", "v in ('z', 1)", "Type mismatch: can not convert 1 to varbinary"),
        ("scalar", "v = 1", "Type mismatch: can not convert b to numeric"),
        ("integer", "v = true and id = 0", "Type mismatch: can not convert unsigned to boolean"),
    ],
)
def test_what_is_refused(db: Session, type_name: str, condition: str, message: str) -> None:
    assert _filled(db, type_name).error(f"select id from t where {condition}")[1] == message


def test_a_key_is_refused_without_rows(db: Session) -> None:
    db.sql("create table t (id int primary key)")
    assert db.error("select id from t where id > 'z'")[1] == "Type mismatch: can not convert z to integer"


@pytest.mark.parametrize(("value", "ids"), [("1", [0]), (True, []), (None, [])])
def test_a_parameter_is_a_key(db: Session, value: object, ids: list[int]) -> None:
    rows = _filled(db, "integer").sql("select id from t where v = ?", value)
    assert [number for (number,) in rows] == ids


def test_a_number_as_a_parameter_is_a_key_of_any_index(db: Session) -> None:
    _filled(db, "string")
    assert db.error("select id from t where v = ?", 1)[1] == "Type mismatch: can not convert 1 to string"
    assert db.error("select id from t where v > ?", 1)[0] == "KEY_PART_TYPE"
    assert db.sql("select id from t where v <= ?", 1) == []


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("sum(v) = 1 and nope = 2", "misuse of aggregate function SUM()"),
        ("v + first = 2 and nope = 1", "resolve field 'FIRST'"),
        ("id = 1 and nope = 1", "resolve field 'NOPE'"),
    ],
)
def test_the_first_wrong_term_is_told(db: Session, condition: str, message: str) -> None:
    assert _filled(db, "integer").error(f"select id from t where {condition}")[1].endswith(message)
