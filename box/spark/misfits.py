"""Values that do not fit their columns, and values in a type that the user has asked for."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from box.spark.values import to_json


class Misfits:
    """Notes of one batch after another; `count` and `example` are of all of them."""

    def __init__(self) -> None:
        self.count = 0
        self.example = ""
        self._rows: dict[int, dict[str, str]] = {}

    def begin(self) -> None:
        """A new batch: rows are counted from 0."""
        self._rows.clear()

    def note(self, row: int, column: str, reason: str) -> None:
        """A value of a row does not fit."""
        reason = reason.removeprefix("Illegal parameters, ")
        self._rows.setdefault(row, {})[column] = reason
        self.count += 1
        self.example = self.example or reason

    def text(self, row: int) -> str | None:
        """The notes about a row as JSON; None where there are none."""
        found = self._rows.get(row)
        return None if found is None else to_json(found)


def shaped(value: Any, kind: pa.DataType) -> Any:
    """A decoded value as Arrow takes it for a type: maps as pairs, a struct of a map or, by position, of an array.

    Raises ValueError for one that does not fit.
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
