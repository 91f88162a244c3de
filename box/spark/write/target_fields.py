"""Maps the columns of a frame to the fields of a space, checks this before the first row, and makes tuples of rows.

| column | fields that it fits |
|---|---|
| integers | unsigned, integer, number, double, decimal |
| float, double | double, number |
| decimal | decimal, number; without a fraction also unsigned, integer |
| string | string, uuid (its text), array, map (JSON) |
| boolean / binary | boolean / varbinary |
| array / map, struct | array / map |
| timestamp | datetime, which Tarantool has since 2.10 |
| struct of parts of an interval | interval, which Tarantool has since 2.10 |

Fields of type scalar and any fit all of these columns, but scalar no arrays and maps. The node checks the values
themselves.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from box.data.codec import Ext, pack
from box.data.times.points import Interval
from box.errors import illegal_params
from box.spark.definitions import SpaceInfo

Convert = Callable[[Any], Any]

_DATETIME_EXT: Final = 4
"""The MessagePack extension type of datetimes."""
_DATETIME: Final = struct.Struct("<q").pack
"""Packs seconds since 1970."""
_DATETIME_LONG: Final = struct.Struct("<qihh").pack
"""Packs seconds since 1970, nanoseconds, offset in minutes, and zone."""


@dataclass(frozen=True, slots=True)
class TargetField:
    """A column of the frame and its field.

    `number` is the number of the field from 0 on, `column` the name of the column, and `convert` converts a value; None
    if the value is stored unchanged.
    """

    number: int
    column: str
    convert: Convert | None


def _datetime(micros: int) -> Ext:
    """Return a datetime: its seconds as a signed integer and, if it has a fraction, nanoseconds without a time zone."""
    seconds, rest = divmod(micros, 1_000_000)
    data = _DATETIME_LONG(seconds, rest * 1000, 0, 0) if rest else _DATETIME(seconds)
    return Ext(_DATETIME_EXT, data)


def _interval(parts: dict[str, Any]) -> Interval:
    """Return an interval made of its parts by name; a part that is null or absent is 0."""
    return Interval(**{name: part for name, part in parts.items() if part is not None})


def _integral(value: Decimal) -> int:
    if value != int(value):
        raise ValueError("has a fraction")
    return int(value)


def _plain(value: Any) -> Any:
    """Return a nested value of Arrow as MessagePack needs it; Arrow has maps as lists of pairs."""
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {_plain(key): _plain(item) for key, item in value}
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _as_map(value: Any) -> Any:
    return {_plain(key): _plain(item) for key, item in value} if isinstance(value, list) else _plain(value)


_KINDS: Final[dict[str, dict[str, Convert | None]]] = {
    "integer": {"unsigned": None, "integer": None, "number": None, "double": float, "decimal": Decimal},
    "double": {"double": None, "number": None},
    "decimal": {"decimal": None, "number": None, "unsigned": _integral, "integer": _integral},
    "string": {"string": None, "uuid": UUID, "array": json.loads, "map": json.loads},
    "boolean": {"boolean": None},
    "binary": {"varbinary": None},
    "array": {"array": _plain},
    "map": {"map": _as_map},
    "struct": {"map": _as_map, "interval": _interval},
    "timestamp": {"datetime": _datetime},
}
"""For each kind of column, the field types that it fits with the conversion of values, None if they are unchanged."""
_FREE: Final[dict[str, Convert]] = {"array": _plain, "map": _as_map, "struct": _as_map, "timestamp": _datetime}
"""The conversions for fields of any type, by kind of column; values of other kinds are unchanged."""
_CONTAINERS: Final = frozenset({"array", "map", "struct"})
_OLD_NAMES: Final = {"num": "unsigned", "str": "string", "*": "any"}
"""Names of field types in old versions."""


def kind_of(kind: pa.DataType) -> str | None:
    """Return the kind of a column, None if it fits no field."""
    tests: tuple[tuple[str, Callable[[Any], bool]], ...] = (
        ("integer", pa.types.is_integer),
        ("double", pa.types.is_floating),
        ("decimal", pa.types.is_decimal),
        ("string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t)),
        ("boolean", pa.types.is_boolean),
        ("binary", lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t)),
        ("map", pa.types.is_map),
        ("struct", pa.types.is_struct),
        ("array", pa.types.is_list),
        ("timestamp", pa.types.is_timestamp),
    )
    return next((name for name, test in tests if test(kind)), None)


class TargetFields:
    """The columns of a frame as fields of a space."""

    def __init__(self, fields: Sequence[TargetField]) -> None:
        self.fields = tuple(fields)
        self._width = max((field.number for field in fields), default=-1) + 1

    @classmethod
    def of(
        cls, space: SpaceInfo, schema: pa.Schema, json_columns: frozenset[str], *, key_only: bool = False
    ) -> TargetFields:
        """Return the fields for the columns of a frame.

        With `key_only` (for deletes) only the columns of the primary key count, in the order of its parts.

        Raises:
            BoxError: ILLEGAL_PARAMS, a column fits no field, or a field that must not be null has no column.
        """
        if space.primary is None:
            raise illegal_params(f"space '{space.name}' has no primary key")
        names = [str(field.get("name", f"field_{number + 1}")) for number, field in enumerate(space.format)]
        types = [str(field.get("type", "any")) for field in space.format]
        if not names:
            names, types = list(schema.names), ["any"] * len(schema.names)
        for name in json_columns - set(schema.names):
            raise illegal_params(f"option 'json': the frame has no column '{name}'")
        if key_only:
            return cls(_key_fields(space, schema, names, types, json_columns))
        found = []
        for column in schema:
            if column.name not in names:
                raise illegal_params(f"space '{space.name}' has no field '{column.name}'; it has: {', '.join(names)}")
            number = names.index(column.name)
            found.append(_target(number, column, types[number], json_columns))
        _check_missing(space, names, {field.number for field in found})
        return cls(sorted(found, key=lambda field: field.number))

    def rows(self, batch: pa.RecordBatch) -> Iterator[list[Any]]:
        """Return tuples as lists of values.

        Raises:
            BoxError: ILLEGAL_PARAMS, a value cannot be stored.
        """
        columns: list[list[Any]] = [[None] * batch.num_rows for _ in range(self._width)]
        for field in self.fields:
            columns[field.number] = _values(field, batch.column(batch.schema.get_field_index(field.column)))
        return map(list, zip(*columns, strict=True))

    def packed(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return tuples as MessagePack.

        Raises:
            BoxError: ILLEGAL_PARAMS, a value cannot be stored.
        """
        return [pack(row) for row in self.rows(batch)]


def _values(field: TargetField, array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us")).cast(pa.int64())
    values: list[Any] = array.to_pylist()
    convert = field.convert
    if convert is None:
        return values
    try:
        return [None if value is None else convert(value) for value in values]
    except (ValueError, ArithmeticError, TypeError) as error:
        raise illegal_params(f"column '{field.column}': a value cannot be stored: {error}") from None


def _key_fields(
    space: SpaceInfo, schema: pa.Schema, names: list[str], types: list[str], json_columns: frozenset[str]
) -> list[TargetField]:
    assert space.primary is not None
    found = []
    for place, part in enumerate(space.primary.parts):
        name = names[part.field] if part.field < len(names) else f"field_{part.field + 1}"
        if part.path or name not in schema.names:
            raise illegal_params(f"a delete needs the primary key: the frame has no column '{name}{part.path}'")
        kind = types[part.field] if part.field < len(types) else part.type
        found.append(_target(place, schema.field(name), kind, json_columns))
    return found


def _target(number: int, column: pa.Field, field_type: str, json_columns: frozenset[str]) -> TargetField:
    kind, wanted = kind_of(column.type), _OLD_NAMES.get(field_type.lower(), field_type.lower())
    if kind is not None and column.name in json_columns and kind == "string":
        return TargetField(number, column.name, json.loads)
    if kind is not None and (wanted == "any" or (wanted == "scalar" and kind not in _CONTAINERS)):
        return TargetField(number, column.name, _FREE.get(kind))
    if kind is None or wanted not in _KINDS[kind]:
        raise illegal_params(f"column '{column.name}' of type {column.type} does not fit a field of type {field_type}")
    return TargetField(number, column.name, _KINDS[kind][wanted])


def _check_missing(space: SpaceInfo, names: list[str], given: set[int]) -> None:
    needed = {number for number, field in enumerate(space.format) if not field.get("is_nullable", False)}
    needed |= {part.field for index in space.indexes for part in index.parts if not part.is_nullable}
    missing = sorted(needed - given)
    if missing:
        text = ", ".join(names[number] if number < len(names) else f"field_{number + 1}" for number in missing)
        raise illegal_params(f"the frame lacks columns of space '{space.name}' that cannot be null: {text}")
