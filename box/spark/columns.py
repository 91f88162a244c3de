"""Columns of a space: names and types from its format, values from decoded fields.

| field type                  | column                | why                                                        |
|---|---|---|
| unsigned, integer           | bigint                | 2^63 and more raise an error; see `unsigned=decimal`        |
| number, double              | double                | decimals of a number field become doubles                  |
| decimal                     | decimal(38,18)        | option `decimal`; a value that does not fit is a misfit    |
| string, uuid                | string                |                                                            |
| boolean / varbinary         | boolean / binary      |                                                            |
| datetime (Tarantool 2.10)   | timestamp             | microseconds; nanoseconds and time zones are dropped       |
| interval (Tarantool 2.10)   | struct of its parts   | Spark's own intervals hold months or days, never both      |
| scalar, any, array, map     | string                | JSON text, because Spark columns have one type; see below  |

The options `any_as` (also for scalar), `array_as` and `map_as` choose the type for the last line: `json`, `binary`
(unchanged MessagePack) or a Spark type such as `map<string,bigint>`. A schema given by the user does so for one column.
A value that does not fit its column is a misfit: an error, or null (option `misfits`), and it may be reported in a
column of its own (option `rejects`).

Fields that the format does not name but an index uses are called `field_N` (N from 1). A space with neither has one
column `tuple` with the JSON text of the whole tuple. Further fields go to the column named by the option `rest`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Context, Decimal
from enum import Enum
from itertools import chain
from typing import Any, Final

from box.data.times.points import Interval
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, illegal_params
from box.spark.definitions import SpaceInfo
from box.spark.values import UnreadValue, to_json

_INT64_MAX: Final = 2**63 - 1
"""The greatest value of a bigint; an unsigned field may have up to 2^64 - 1."""
_EXACT: Final = Context(prec=76)
"""A decimal context that rounds nothing: twice the 38 digits that Tarantool and Spark have at most."""
_NONE: Final = type(None)


class Kind(Enum):
    """The kinds of columns: where their values come from and what they are converted to."""

    INTEGER = "integer"
    BIG_INTEGER = "big integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    UUID = "uuid"
    BOOLEAN = "boolean"
    BINARY = "binary"
    MIXED = "mixed"
    """The JSON text of one field."""
    TUPLE = "tuple"
    """The JSON text of all fields."""
    REST = "rest"
    """The JSON text of the fields from number `field` on; null if the tuple has none of them."""
    CONSTANT = "constant"
    """The text of `Column.text`, equal in all rows."""
    DATETIME = "datetime"
    INTERVAL = "interval"
    """The parts of an interval, each as it is stored."""
    RAW = "raw"
    """The MessagePack bytes of one field."""
    TYPED = "typed"
    """A field of mixed types, converted to the Spark type that the user has chosen."""
    REJECTS = "rejects"
    """The misfits of the row as JSON with column and reason; null if there are none."""


SQL_TYPES: Final = {
    Kind.INTEGER: "bigint",
    Kind.BIG_INTEGER: "decimal(20,0)",
    Kind.DOUBLE: "double",
    Kind.DECIMAL: "decimal(38,18)",
    Kind.BOOLEAN: "boolean",
    Kind.BINARY: "binary",
    Kind.RAW: "binary",
    Kind.DATETIME: "timestamp",
    Kind.INTERVAL: (
        "struct<year:int,month:int,week:int,day:bigint,hour:bigint,min:bigint,sec:bigint,nsec:int,adjust:string>"
    ),
}
"""The Spark SQL type for each kind of column; other kinds are `string`. `Column.type` has the exact type of a
column."""

_KINDS: Final = {
    FieldType.UNSIGNED: Kind.INTEGER,
    FieldType.INTEGER: Kind.INTEGER,
    FieldType.NUMBER: Kind.DOUBLE,
    FieldType.DOUBLE: Kind.DOUBLE,
    FieldType.DECIMAL: Kind.DECIMAL,
    FieldType.STRING: Kind.STRING,
    FieldType.UUID: Kind.UUID,
    FieldType.BOOLEAN: Kind.BOOLEAN,
    FieldType.VARBINARY: Kind.BINARY,
    FieldType.DATETIME: Kind.DATETIME,
    FieldType.INTERVAL: Kind.INTERVAL,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a space: its name and kind, and the fields that its values come from.

    `field` is the 0-based number of the field in the tuple. `text` is the value of a constant column or the Spark SQL
    type of a typed one. `precision` and `scale` concern decimals. `arrow` is the Arrow type, None until a schema sets
    it.
    """

    name: str
    kind: Kind
    field: int = 0
    is_nullable: bool = True
    text: str = ""
    precision: int = 38
    scale: int = 18
    arrow: Any = None

    @property
    def type(self) -> str:
        """The name of the Spark SQL type."""
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return self.text if self.kind is Kind.TYPED else SQL_TYPES.get(self.kind, "string")


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The user's options about columns.

    `unsigned` is the type of integers (`long` or `decimal`), `precision` and `scale` those of decimals. `any_as`,
    `array_as` and `map_as` are the forms of mixed values (`json`, `binary` or a Spark type). `rest` and `rejects` name
    the columns for further fields and for misfits, None for no such column. With `misfits_are_null` misfits become
    null.
    """

    unsigned: str = "long"
    # Spark's own default; 38 digits are the most that either of Spark and Tarantool has.
    precision: int = 38
    scale: int = 18
    any_as: str = "json"
    array_as: str = "json"
    map_as: str = "json"
    rest: str | None = None
    rejects: str | None = None
    misfits_are_null: bool = False


def conversion_error(name: str, value: Any, reason: str) -> BoxError:
    """Return the error for a value that its column cannot hold."""
    return BoxError(ErrorCode.ILLEGAL_PARAMS, f"column '{name}': {reason}: {value!r}", type="ClientError")


def columns_of(space: SpaceInfo, choice: ColumnChoice | None = None) -> list[Column]:
    """Return the columns of a space.

    Raises:
        BoxError: ILLEGAL_PARAMS, two columns have the same name.
    """
    choice = choice or ColumnChoice()
    columns = [
        column_of(
            str(item.get("name", f"field_{number + 1}")),
            number,
            str(item.get("type", "any")),
            bool(item.get("is_nullable", False)),
            choice,
        )
        for number, item in enumerate(space.format)
    ]
    parts = {part.field: part for index in reversed(space.indexes) for part in index.parts}
    for number in range(len(columns), max(parts, default=-1) + 1):
        part = parts.get(number)
        kind = "any" if part is None or part.path else part.type
        columns.append(column_of(f"field_{number + 1}", number, kind, part is None or part.is_nullable, choice))
    if not columns:
        return [Column("tuple", Kind.TUPLE, is_nullable=False)]
    if choice.rest is not None:
        columns.append(Column(choice.rest, Kind.REST, len(columns)))
    if choice.misfits_are_null:
        columns = [replace(column, is_nullable=True) for column in columns]
    if choice.rejects is not None:
        columns.append(Column(choice.rejects, Kind.REJECTS))
    _check_names(columns)
    return columns


def column_of(name: str, number: int, type_name: str, is_nullable: bool, choice: ColumnChoice) -> Column:
    """Return the column for a field of a type."""
    field_type = FieldType.by_name(type_name) or FieldType.ANY
    kind = _KINDS.get(field_type)
    if kind is None:
        form = {FieldType.ARRAY: choice.array_as, FieldType.MAP: choice.map_as}.get(field_type, choice.any_as)
        return _mixed(name, number, form)
    if kind is Kind.INTEGER and choice.unsigned == "decimal":
        kind = Kind.BIG_INTEGER
    return Column(name, kind, number, is_nullable, precision=choice.precision, scale=choice.scale)


def _mixed(name: str, number: int, form: str) -> Column:
    if form in ("json", "binary"):
        return Column(name, Kind.MIXED if form == "json" else Kind.RAW, number)
    return Column(name, Kind.TYPED, number, text=form)


def adopted(column: Column, sql_type: str, arrow: Any) -> Column:
    """Return the column with the type that a user's schema has for it: mixed values as bytes or as a Spark type,
    decimals with another precision."""
    if column.kind is Kind.DECIMAL and sql_type.startswith("decimal("):
        precision, scale = map(int, sql_type.removeprefix("decimal(").rstrip(")").split(","))
        return replace(column, precision=precision, scale=scale)
    if column.kind in (Kind.MIXED, Kind.RAW, Kind.TYPED) and sql_type != "string":
        if sql_type == "binary":
            return replace(column, kind=Kind.RAW)
        return replace(column, kind=Kind.TYPED, text=sql_type, arrow=arrow)
    return column


def _check_names(columns: Sequence[Column]) -> None:
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise illegal_params(f"the space has two columns '{name}': give the further one another name")


def choose_columns(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with these names, in the order of the names.

    Raises:
        BoxError: ILLEGAL_PARAMS, there is no column with a name.
    """
    by_name = {column.name: column for column in columns}
    for name in names:
        if name not in by_name:
            raise illegal_params(f"the space has no column '{name}'; it has: {', '.join(by_name)}")
    return [by_name[name] for name in names]


def with_constant(columns: Sequence[Column], name: str, text: str) -> list[Column]:
    """Return the columns and a further one that has the same text in all rows.

    Raises:
        BoxError: ILLEGAL_PARAMS, there is a column with this name already.
    """
    more = [*columns, Column(name, Kind.CONSTANT, is_nullable=False, text=text)]
    _check_names(more)
    return more


def refill_constants(columns: Sequence[Column], text: str) -> list[Column]:
    """Return the columns with `text` as the value of the constant ones."""
    return [replace(column, text=text) if column.kind is Kind.CONSTANT else column for column in columns]


# --- values -----------------------------------------------------------------------------------------------------------


def values_of(column: Column, tuples: Sequence[list[Any]]) -> list[Any]:
    """Return the unconverted values of one column; a missing field is None."""
    number = column.field
    if column.kind is Kind.TUPLE:
        return list(tuples)
    if column.kind is Kind.REST:
        return [fields[number:] or None for fields in tuples]
    return [fields[number] if len(fields) > number else None for fields in tuples]


def convert_values(column: Column, values: list[Any]) -> list[Any]:
    """Convert decoded values to the type of the column.

    Raises:
        BoxError: ILLEGAL_PARAMS, a value does not fit.
    """
    _check_types(column, values)
    if not column.is_nullable and None in values:
        raise conversion_error(column.name, None, "is not nullable")
    if column.kind is Kind.DECIMAL:
        return [value if value is None else _decimal(column, value) for value in values]
    convert = _CONVERSIONS.get(column.kind)
    return values if convert is None else [value if value is None else convert(column.name, value) for value in values]


def _check_types(column: Column, values: list[Any]) -> None:
    for value in values if column.kind not in (Kind.TUPLE, Kind.REST) else chain.from_iterable(filter(None, values)):
        if type(value) is UnreadValue:
            raise conversion_error(column.name, value.text, "a value cannot be decoded")
    allowed = _TYPES.get(column.kind)
    if allowed is None or set(map(type, values)) <= allowed:
        return
    wrong = next(value for value in values if type(value) not in allowed)
    raise conversion_error(column.name, wrong, f"does not fit {column.type}")


def _big_integer(name: str, value: int) -> Decimal:
    return Decimal(value)


def _bigint(name: str, value: int) -> int:
    if value > _INT64_MAX:
        raise conversion_error(name, value, "does not fit a bigint (set the option unsigned to decimal)")
    return value


def _decimal(column: Column, value: Any) -> Decimal:
    number = Decimal(value)
    is_small = number.is_finite() and number.adjusted() < column.precision - column.scale
    scaled = number.quantize(Decimal(1).scaleb(-column.scale), context=_EXACT) if is_small else None
    if scaled is None or scaled != number:
        raise conversion_error(column.name, value, f"does not fit a {column.type.replace(',', ', ')}")
    return scaled


_TYPES: Final[dict[Kind, set[type]]] = {
    Kind.INTEGER: {int, _NONE},
    Kind.BIG_INTEGER: {int, _NONE},
    Kind.DOUBLE: {int, float, Decimal, _NONE},
    Kind.DECIMAL: {int, float, Decimal, _NONE},
    Kind.STRING: {str, _NONE},
    Kind.BOOLEAN: {bool, _NONE},
    Kind.BINARY: {bytes, _NONE},
    Kind.DATETIME: {datetime.datetime, _NONE},
    Kind.INTERVAL: {Interval, _NONE},
}

_CONVERSIONS: Final[dict[Kind, Callable[[str, Any], Any]]] = {
    Kind.INTEGER: _bigint,
    Kind.BIG_INTEGER: _big_integer,
    Kind.DOUBLE: lambda name, value: float(value),
    Kind.UUID: lambda name, value: str(value),
    Kind.INTERVAL: lambda name, value: asdict(value),
    Kind.MIXED: lambda name, value: to_json(value),
    Kind.TUPLE: lambda name, value: to_json(value),
    Kind.REST: lambda name, value: to_json(value),
}
