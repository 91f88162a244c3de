"""Parameters of statements, by place and by name."""

from __future__ import annotations

import pytest

from box.errors import BoxError

from .conftest import Session


def test_values_stand_for_places(db: Session) -> None:
    """A repeated name is one parameter, and a parameter without a value is nil."""
    assert db.sql("select ?, :a, @b, :a", 1, {":a": 2}, {"@b": 3}) == [[1, 2, 3, 2]]
    assert db.sql("select $2, $1", "x", "y") == [["y", "x"]]
    assert db.sql("select ?, ?", 1) == [[1, None]]


def test_a_value_keeps_its_type(db: Session) -> None:
    for value in (None, True, False, 0, -1, 2**64 - 1, 1.5, "ä", "", b"", b"\0\xff"):
        found = db.value("select ?", value)
        assert (type(found), found) == (type(value), value)


def test_columns_tell_the_types_of_parameters(db: Session) -> None:
    assert db.types("select ?, ?, ?, ?", 1, "x", True, 2.5) == ["integer", "text", "boolean", "numeric"]


def test_parameters_are_compared_by_their_values(db: Session) -> None:
    """Parameters are compared by their values' types; other types cause a new analysis."""
    db.sql("create table t (id int primary key, b boolean, s text)")
    db.sql("insert into t values (1, true, 'a'), (?, ?, ?)", 2, False, "b")
    for value, found in ((1, [[1]]), (1.5, []), (2.0, [[2]]), (None, [])):
        assert db.sql("select id from t where id = ?", value) == found
    assert db.sql("select id from t where b = ? and s > ?", False, "a") == [[2]]
    assert db.error("select id from t where b = ?", 1)[0] == "SQL_TYPE_MISMATCH"


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ([{":b": 1}], "SQL_BIND_NOT_FOUND", "Parameter ':b' was not found in the statement"),
        ([1, 2], "SQL_EXECUTE", "Failed to execute SQL statement: The number of parameters is too large"),
        ([[1]], "SQL_BIND_TYPE", "Bind value type ARRAY for parameter 1 is not supported"),
        ([{":a": {}}], "SQL_BIND_TYPE", "Bind value type MAP for parameter ':a' is not supported"),
        ([{":a": 1, ":b": 2}], "INVALID_MSGPACK", "Invalid MsgPack - SQL bind parameter"),
    ],
)
def test_a_wrong_parameter_is_refused(db: Session, params: list[object], code: str, message: str) -> None:
    assert db.error("select :a", *params) == (code, message)


def test_the_number_of_values_has_a_limit(db: Session) -> None:
    text = "SQL bind parameter limit reached: 65001"
    assert db.error("select 1", *range(65001)) == ("SQL_BIND_PARAMETER_MAX", text)


def test_statements_are_counted(db: Session) -> None:
    totals = db.node.stats.show_box
    db.sql("select 1")
    with pytest.raises(BoxError):
        db.sql("selec")
    db.node.sql.prepare(db.ctx, "select 2")
    assert [totals()[name]["total"] for name in ("EXECUTE", "PREPARE")] == [1, 1]


def test_the_type_of_a_value_is_that_of_its_place(db: Session) -> None:
    """The n-th value determines the type of the n-th column that is a parameter alone."""
    assert db.types("select :a, :b, :a", {":a": 1}, {":b": "x"}) == ["integer", "text", "boolean"]
    assert db.types("select $2, $1", "x", 1) == ["text", "integer"]
    assert db.types("values (?, ?)", "x", 1) == ["text", "integer"]
    assert db.types("select * from (select ?, 1)", "x") == ["boolean", "integer"]
