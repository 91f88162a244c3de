"""Columns of a space: names and types from its format, values from decoded tuples.

| field type                  | column                | why                                                        |
|---|---|---|
| unsigned, integer           | bigint                | 2^63 and more raise an error; see `unsigned=decimal`        |
| number, double              | double                | decimals of a number field become doubles                  |
| decimal                     | decimal(38, 18)       | a value that does not fit raises an error                  |
| string, uuid                | string                |                                                            |
| boolean / varbinary         | boolean / binary      |                                                            |
| scalar, any, array, map     | string                | JSON text, because Spark columns have one type             |

Fields that the format does not name but an index uses are called `field_N` (N from 1). A space with neither has one
column `tuple` with the JSON text of the whole tuple. Further fields go to the column named by the option `rest`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from box.data.codec import Ext, decode_ext
from box.errors import BoxError, ErrorCode
from box.spark.snapshot import SpaceInfo

_INT64_MAX: Final = 2**63 - 1
_SCALE: Final = Decimal(1).scaleb(-18)


@dataclass(frozen=True, slots=True)
class Column:
    """`field` is the 0-based number in the tuple, None for the rest column; `type` a Spark SQL type name."""

    name: str
    field: int | None
    type: str
    is_nullable: bool
    convert: Callable[[Any], Any] | None


def conversion_error(name: str, value: Any, reason: str) -> BoxError:
    """The error for a value that its column cannot hold."""
    return BoxError(ErrorCode.ILLEGAL_PARAMS, f"column '{name}': {reason}: {value!r}", type="ClientError")


def _json_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def to_json(value: Any) -> str:
    """JSON text as a column of mixed values holds it; binary data as base64."""
    if isinstance(value, dict):
        value = {str(key): item for key, item in value.items()}
    return json.dumps(value, ensure_ascii=False, default=_json_default, separators=(", ", ": "))


def _bigint(name: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is not None and value > _INT64_MAX:
            raise conversion_error(name, value, "does not fit a bigint (set the option unsigned to decimal)")
        return value

    return convert


def _decimal(name: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        number = Decimal(value)
        scaled = number.quantize(_SCALE) if number.adjusted() < 20 else None
        if scaled is None or scaled != number:
            raise conversion_error(name, value, "does not fit a decimal(38, 18)")
        return scaled

    return convert


def _text(value: Any) -> Any:
    return value if value is None else str(value)


def _double(value: Any) -> Any:
    return value if value is None else float(value)


def _mixed(value: Any) -> Any:
    return value if value is None else to_json(value)


def _column(name: str, field: int, kind: str, is_nullable: bool, unsigned: str) -> Column:
    match kind:
        case "unsigned" | "integer" if unsigned == "decimal":
            return Column(name, field, "decimal(20,0)", is_nullable, lambda value: value and Decimal(value))
        case "unsigned" | "integer":
            return Column(name, field, "bigint", is_nullable, _bigint(name))
        case "number" | "double":
            return Column(name, field, "double", is_nullable, _double)
        case "decimal":
            return Column(name, field, "decimal(38,18)", is_nullable, _decimal(name))
        case "string":
            return Column(name, field, "string", is_nullable, None)
        case "uuid":
            return Column(name, field, "string", is_nullable, _text)
        case "boolean":
            return Column(name, field, "boolean", is_nullable, None)
        case "varbinary":
            return Column(name, field, "binary", is_nullable, None)
    return Column(name, field, "string", True, _mixed)


def columns_of(space: SpaceInfo, *, unsigned: str = "long", rest: str | None = None) -> list[Column]:
    """The columns of a space; `unsigned` is `long` or `decimal`, `rest` names a column for fields beyond them."""
    columns = [
        _column(
            str(field.get("name", f"field_{number + 1}")),
            number,
            str(field.get("type", "any")).lower(),
            bool(field.get("is_nullable", False)),
            unsigned,
        )
        for number, field in enumerate(space.format)
    ]
    kinds = {number: kind.lower() for number, kind in space.parts}
    for number in range(len(columns), max(kinds, default=-1) + 1):
        name = f"field_{number + 1}"
        columns.append(_column(name, number, kinds.get(number, "any"), number not in kinds, unsigned))
    if not columns:
        return [Column("tuple", None, "string", False, to_json)]
    if rest is not None:
        columns.append(Column(rest, None, "string", True, _mixed))
    return columns


def values_by_column(columns: list[Column], tuples: list[list[Any]]) -> list[list[Any]]:
    """Tuples turned into one list of converted values for each column; missing fields are None."""
    named = sum(column.field is not None for column in columns)
    return [_values(column, tuples, named) for column in columns]


def _values(column: Column, tuples: Iterable[list[Any]], named: int) -> list[Any]:
    field = column.field
    if field is None:
        values = [fields[named:] or None for fields in tuples]
    else:
        values = [fields[field] if len(fields) > field else None for fields in tuples]
    return values if column.convert is None else [column.convert(value) for value in values]


def decode_extension(code: int, data: bytes) -> Any:
    """Decimals and UUIDs of the peer; anything else stays bytes."""
    value = decode_ext(code, data)
    return data if isinstance(value, Ext) else value
