"""Results of SQL as Arrow tables: `await node.arrow(sql, params)`.

The types are those of Spark's columns (`box.spark.columns`), with these differences:

| type in SQL        | type in the Arrow table                                                                     |
|---|---|
| unsigned           | uint64                                                                                      |
| integer            | int64; decimal128(20, 0) if a value is 2^63 or more                                         |
| decimal            | decimal128(38, 18); decimal256(76, 38) if a value does not fit                              |
| any                | the type that all values have, if it is an integer, double, decimal, string, boolean or     |
|                    | binary type; otherwise JSON text                                                            |

As in Tarantool, the values of some columns have another type than the declared one. Such columns are treated as `any`.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from box.data.times.points import Datetime
from box.errors import BoxError, illegal_params
from box.spark.columns import Column, ColumnChoice, Kind, column_of

if TYPE_CHECKING:
    import pyarrow as pa

    from box.embed.sql_statements import SqlColumn, SqlResult

_INT64_MAX: Final = 2**63 - 1
_WIDE: Final = (76, 38)
"""Precision and scale that hold every decimal of Tarantool."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def table_of(result: SqlResult) -> pa.Table:
    """Return the rows of a query as an Arrow table; each column of the query becomes a column of the table.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
        BoxError: ILLEGAL_PARAMS, the statement has no columns, or Arrow cannot represent a value, such as text that is
            not UTF-8.
    """
    arrow = pyarrow()
    if not result.columns:
        raise illegal_params("the statement gives no rows: only queries have an Arrow table")
    values = [[row[place] for row in result] for place in range(len(result.columns))]
    arrays = [_array(column, items) for column, items in zip(result.columns, values, strict=True)]
    fields = [
        arrow.field(column.name, array.type, column.is_nullable is not False)
        for column, array in zip(result.columns, arrays, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))


def pyarrow() -> Any:
    """Return the module pyarrow.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        text = "Arrow tables need pyarrow: pip install '.[spark]' in a clone of Lunabox"
        raise ModuleNotFoundError(text, name=error.name) from None
    return pyarrow


def _array(told: SqlColumn, values: list[Any]) -> pa.Array:
    """Return a column as an Arrow array. Its type is the declared one if all values fit, otherwise one that fits the
    values.
    """
    from box.spark.reference import to_array

    if told.type == "unsigned" and all(value is None or (type(value) is int and value >= 0) for value in values):
        return pyarrow().array(values, pyarrow().uint64())
    column = column_of(told.name, 0, _NAMES.get(told.type, told.type), True, ColumnChoice())
    values = [_moment(value) for value in values]
    if column.kind in (Kind.MIXED, Kind.RAW):
        return to_array(column if told.type != "any" else _of_values(told.name, values), values)
    if column.kind is Kind.INTEGER and any(type(value) is int and value > _INT64_MAX for value in values):
        column = Column(told.name, Kind.BIG_INTEGER)
    try:
        return to_array(column, values)
    except BoxError:
        pass
    if column.kind is Kind.DECIMAL and all(type(value) in _NUMBERS for value in values):
        return _wide_decimals(values)
    return to_array(_of_values(told.name, values), values)


def _of_values(name: str, values: list[Any]) -> Column:
    """Return the Arrow column for values of mixed or unexpected types."""
    types = {type(value) for value in values if value is not None}
    if types == {int}:
        is_big = any(value is not None and value > _INT64_MAX for value in values)
        return Column(name, Kind.BIG_INTEGER if is_big else Kind.INTEGER)
    if types and types <= {int, float}:
        return Column(name, Kind.DOUBLE)
    kinds = {_KINDS.get(kind, Kind.MIXED) for kind in types}
    return Column(name, kinds.pop() if len(kinds) == 1 else Kind.MIXED)


_KINDS: Final[dict[type, Kind]] = {
    str: Kind.STRING,
    bool: Kind.BOOLEAN,
    bytes: Kind.BINARY,
    UUID: Kind.UUID,
    datetime.datetime: Kind.DATETIME,
}
_NAMES: Final = {"text": "string"}
"""Other names of SQL types, which occur only for parameters."""
_NUMBERS: Final = frozenset((int, Decimal, type(None)))


def _wide_decimals(values: list[Any]) -> pa.Array:
    kind = pyarrow().decimal256(*_WIDE)
    return pyarrow().array([None if value is None else Decimal(value) for value in values], kind)


def _moment(value: Any) -> Any:
    """Convert a point in time to Python's `datetime`, cut to microseconds; return other values unchanged.

    Raises:
        BoxError: ILLEGAL_PARAMS, the year is outside Python's range.
    """
    if type(value) is not Datetime:
        return value
    try:
        return _EPOCH + datetime.timedelta(seconds=value.epoch, microseconds=value.nsec // 1000)
    except OverflowError:
        raise illegal_params(f"{value} is out of the range of timestamps") from None
