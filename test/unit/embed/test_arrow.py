"""Rows of SQL as tables of pyarrow."""

from __future__ import annotations

import asyncio
import builtins
import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from box import BoxError, Datetime, NamedRow, Node, SqlColumn, SqlResult
from box.embed.arrow_tables import table_of
from box.errors import ErrorCode
from box.sync import Node as BlockingNode

pa = pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

FORMAT = [
    ("id", "unsigned"),
    ("i", "integer"),
    ("n", "number"),
    ("b", "boolean"),
    ("v", "varbinary"),
    ("sc", "scalar"),
    ("d", "decimal"),
    ("u", "uuid"),
    ("t", "datetime"),
    ("m", "map"),
    ("a", "array"),
]
UTC = datetime.UTC
NUMBER = UUID("4750b471-8346-45db-8d61-4170fd51be33")
ROW = [1, -1, 1.5, True, b"\xff", "x", Decimal("1.25"), NUMBER, Datetime(1, 999), {"a": 1}, [1, "two"]]
GREAT = [2**64 - 1, 2**64 - 1, 2, False, b"", 7, Decimal("1e-37"), NUMBER, Datetime(2), {}, []]


def tables(*queries: str, rows: list[Any]) -> list[Any]:
    """Return the tables of queries over a space `t` with these rows."""

    async def run() -> list[Any]:
        async with Node(wal_mode="none") as node:
            space = await node.schema.create_space("t", format=FORMAT)
            await space.create_index("pk")
            for row in rows:
                await space.insert(row)
            return [await node.arrow(query) for query in queries]

    return asyncio.run(run())


def types(table: Any) -> list[str]:
    return [str(field.type) for field in table.schema]


def test_each_type_has_one_in_arrow() -> None:
    (table, empty) = tables('SELECT * FROM "t"', 'SELECT * FROM "t" WHERE "id" = 7', rows=[ROW])
    assert types(table) == [
        *("uint64", "int64", "double", "bool", "binary", "string", "decimal128(38, 18)", "string"),
        *("timestamp[us, tz=UTC]", "string", "string"),
    ]
    assert table.schema == empty.schema
    assert empty.num_rows == 0
    assert list(table.to_pylist()[0].values()) == [
        *(1, -1, 1.5, True, b"\xff", '"x"', Decimal("1.25"), str(NUMBER)),
        *(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), '{"a": 1}', '[1, "two"]'),
    ]
    assert not table.schema.field("id").nullable


def test_columns_are_as_wide_as_their_values() -> None:
    """Integers above 2^63 and decimals with many digits get columns that hold them exactly."""
    (table,) = tables('SELECT "id", "i", "d" FROM "t" ORDER BY "id"', rows=[ROW, GREAT])
    assert types(table) == ["uint64", "decimal128(20, 0)", "decimal256(76, 38)"]
    assert table.column("id").to_pylist() == [1, 2**64 - 1]
    assert table.column("i").to_pylist() == [-1, 2**64 - 1]
    assert table.column("d").to_pylist() == [Decimal("1.25"), Decimal("1e-37")]


def test_values_of_no_one_type_are_text() -> None:
    (table,) = tables('SELECT MAX("sc"), COUNT(*), AVG("n"), NULL, 1, 1.5, \'x\' FROM "t"', rows=[ROW, GREAT])
    assert types(table)[1:3] + types(table)[4:] == ["int64", "double", "int64", "double", "string"]
    assert list(table.to_pylist()[0].values()) == ['"x"', 2, 1.75, None, 1, 1.5, "x"]


def test_names_may_be_equal() -> None:
    (table,) = tables('SELECT "id", "id" FROM "t"', rows=[ROW])
    assert table.column_names == ["id", "id"]


def test_without_a_loop() -> None:
    with BlockingNode(wal_mode="none") as node:
        table = node.arrow("SELECT :a, ?", [{":a": "x"}, b"\x01"])
        assert types(table) == ["string", "binary"]
        assert [column.to_pylist() for column in table.columns] == [["x"], [b"\x01"]]
        with pytest.raises(BoxError, match="Syntax error at line 1 near 'x'"):
            node.arrow("SELECT 1 x x")


@pytest.mark.parametrize("text", ["CREATE TABLE a (id INT PRIMARY KEY)", "SELECT CAST(x'ff' AS STRING)"])
def test_what_has_no_table_is_refused(text: str) -> None:
    """A statement without rows, and text that is not UTF-8, are errors."""
    with BlockingNode(wal_mode="none") as node, pytest.raises(BoxError) as caught:
        node.arrow(text)
    assert caught.value.code == ErrorCode.ILLEGAL_PARAMS


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing pyarrow is reported before the statement runs."""
    whole = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return whole(name, *args, **kwargs)

    with BlockingNode(wal_mode="none") as node:
        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ModuleNotFoundError, match="pip install"):
            node.arrow("no statement at all")


def column(kind: str, *values: Any) -> Any:
    """Return the Arrow column of a column that a query declares to be of this type."""
    table = table_of(SqlResult([NamedRow((value,)) for value in values], [SqlColumn("x", kind)]))
    return table.column("x")


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("integer", (2**63 - 1, -(2**63)), "int64"),
        ("integer", (2**63,), "decimal128(20, 0)"),
        ("unsigned", (2**64 - 1, None), "uint64"),
        ("unsigned", (-1, 1), "int64"),
        ("any", (1, 2), "int64"),
        ("any", (1, 2**63), "decimal128(20, 0)"),
        ("any", (1, 1.5, None), "double"),
        ("any", (True, False), "bool"),
        ("integer", (1, 1.5), "double"),
        ("string", ("x", None), "string"),
    ],
)
def test_the_type_fits_all_values(kind: str, values: tuple[Any, ...], expected: str) -> None:
    made = column(kind, *values)
    assert (str(made.type), made.to_pylist()) == (expected, list(values))


def test_values_of_several_types_are_json() -> None:
    made = column("any", "x", True, 1, None)
    assert (str(made.type), made.to_pylist()) == ("string", ['"x"', "true", "1", None])


def test_only_what_cannot_be_null_is_not_nullable() -> None:
    """Of an expression it is not known."""
    (table,) = tables('SELECT "id", "i", 1 FROM "t"', rows=[ROW])
    assert [field.nullable for field in table.schema] == [False, False, True]
