"""Columns of a space and the values in them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from box.errors import BoxError
from box.spark.columns import Column, ColumnChoice, Kind, choose_columns, columns_of, convert_values, values_of
from box.spark.definitions import IndexInfo, Part, SpaceInfo

from .files import FORMAT


def space(fields: list[dict[str, Any]], *parts: Part) -> SpaceInfo:
    return SpaceInfo(512, "goods", "memtx", tuple(fields), (IndexInfo(0, "pk", "tree", parts),))


def converted(column: Column, tuples: list[list[Any]]) -> list[Any]:
    return convert_values(column, values_of(column, tuples))


def test_columns_follow_the_format() -> None:
    columns = columns_of(
        space([{"name": "id", "type": "unsigned"}, {"name": "x", "type": "any"}]), ColumnChoice(rest="more")
    )
    assert [(column.name, column.type) for column in columns] == [("id", "bigint"), ("x", "string"), ("more", "string")]
    tuples: list[list[Any]] = [[1, {"a": [1, "b"]}, 2.5, None], [2]]
    assert [converted(column, tuples) for column in columns] == [
        [1, 2],
        ['{"a": [1, "b"]}', None],
        ["[2.5, null]", None],
    ]


def test_a_space_without_format_has_columns_for_its_keys() -> None:
    parts = (Part(0, "unsigned"), Part(2, "string", is_nullable=True))
    columns = columns_of(space([], *parts))
    assert [(column.name, column.type, column.is_nullable) for column in columns] == [
        ("field_1", "bigint", False),
        ("field_2", "string", True),
        ("field_3", "string", True),
    ]
    assert [column.kind for column in columns_of(SpaceInfo(512, "goods", "memtx", (), ()))] == [Kind.TUPLE]


def test_a_key_inside_a_field_does_not_give_the_field_its_type() -> None:
    (column,) = columns_of(space([], Part(0, "unsigned", path="a.b")))
    assert column.kind is Kind.MIXED


def test_names_of_types_in_old_formats_are_known() -> None:
    columns = columns_of(space([{"name": "a", "type": "NUM"}, {"name": "b", "type": "STR"}]))
    assert [column.type for column in columns] == ["bigint", "string"]


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(BoxError, match="two columns 'id'"):
        columns_of(space(FORMAT), ColumnChoice(rest="id"))


def test_an_unknown_column_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(BoxError, match="no column 'cost'; it has: id, name, price"):
        choose_columns(columns_of(space(FORMAT)), ["id", "cost"])


def test_a_number_beyond_a_bigint_needs_the_decimal_option() -> None:
    with pytest.raises(BoxError, match="does not fit a bigint"):
        converted(columns_of(space(FORMAT))[0], [[2**63, "", 0.0]])
    assert converted(columns_of(space(FORMAT), ColumnChoice(unsigned="decimal"))[0], [[2**63, "", 0.0]]) == [2**63]


@pytest.mark.parametrize("text", ["99999999999999999999.999999999999999999", "-0.000000000000000001", "0", "1e19"])
def test_decimals_keep_every_digit(text: str) -> None:
    assert converted(Column("d", Kind.DECIMAL), [[Decimal(text)]]) == [Decimal(text)]


@pytest.mark.parametrize("text", ["100000000000000000000", "0.0000000000000000001", "NaN"])
def test_a_decimal_that_does_not_fit_is_an_error(text: str) -> None:
    with pytest.raises(BoxError, match="column 'd': does not fit"):
        converted(Column("d", Kind.DECIMAL), [[Decimal(text)]])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.INTEGER, 1.5),
        (Kind.STRING, 1),
        (Kind.BOOLEAN, 0),
        (Kind.BINARY, "x"),
        (Kind.DOUBLE, "1"),
        (Kind.UUID, None),
    ],
)
def test_a_value_of_another_type_names_its_column(kind: Kind, value: object) -> None:
    with pytest.raises(BoxError, match="column 'c': "):
        converted(Column("c", kind, is_nullable=False), [[value]])
