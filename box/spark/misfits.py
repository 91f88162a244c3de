"""Records values that do not fit their columns, and converts values to the types that the user has chosen."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from box.spark.values import to_json


class Misfits:
    """The misfits of the current batch by row; `count` and `example` concern all batches."""

    def __init__(self) -> None:
        self.count = 0
        self.example = ""
        self._rows: dict[int, dict[str, str]] = {}

    def begin(self) -> None:
        """Begin a new batch, whose rows count from 0."""
        self._rows.clear()

    def note(self, row: int, column: str, reason: str) -> None:
        """Note that a value of a row does not fit."""
        reason = reason.removeprefix("Illegal parameters, ")
        self._rows.setdefault(row, {})[column] = reason
        self.count += 1
        self.example = self.example or reason

    def text(self, row: int) -> str | None:
        """Return the misfits of a row as JSON text, None if it has none."""
        found = self._rows.get(row)
        return None if found is None else to_json(found)


def shaped(value: Any, kind: pa.DataType) -> Any:
    """Return a decoded value in the form in which Arrow takes it for a type.

    Maps become lists of pairs; structs are made of maps or, by position, of arrays.

    Raises:
        ValueError: the value does not fit the type.
    """
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [shaped(item, kind.value_type) for item in _of(value, list, kind)]
    if pa.types.is_map(kind):
        items = _of(value, dict, kind).items()
        return [(shaped(key, kind.key_type), shaped(item, kind.item_type)) for key, item in items]
    if pa.types.is_struct(kind):
        return _struct(value, kind)
    return _scalar(value, kind)


def _of(value: Any, wanted: type | tuple[type, ...], kind: pa.DataType) -> Any:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise ValueError(f"{value!r} is no {kind}")
    return value


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    if isinstance(value, list):
        value = {field.name: item for field, item in zip(fields, value, strict=False)}
    found = _of(value, dict, kind)
    return {field.name: shaped(found.get(field.name), field.type) for field in fields}


def _scalar(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return _of(value, bool, kind)
    if pa.types.is_integer(kind):
        return _of(value, int, kind)
    if pa.types.is_floating(kind):
        return float(_of(value, (int, float, Decimal), kind))
    if pa.types.is_decimal(kind):
        return Decimal(_of(value, (int, float, Decimal), kind))
    if pa.types.is_binary(kind):
        return _of(value, bytes, kind)
    if pa.types.is_timestamp(kind):
        return _of(value, datetime.datetime, kind)
    return value if isinstance(value, str) else str(_of(value, str, kind))
