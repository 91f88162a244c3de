"""The decoder in Python: rows of a block as lists of values, columns from them. Needs pyarrow and nothing else.

It serves where numba is not installed and for files so small that loading numba would take longer than reading them.
The compiled decoder gives the same batches and errors; the tests hold one against the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from box.spark.columns import Column, Kind, conversion_error, convert_values, values_of
from box.spark.conditions import Condition, mask_of
from box.spark.overlay import Overlay
from box.spark.values import decode_fields, decode_tuples, raw_tuples


class ReferenceDecoder:
    """Decodes blocks of rows into batches of `schema`, one field for each column; `conditions` name their columns."""

    def __init__(
        self, space_id: int, columns: Sequence[Column], schema: pa.Schema, conditions: Sequence[Condition]
    ) -> None:
        self._space_id = space_id
        self._columns = list(columns)
        self._schema = schema
        self._conditions = conditions

    def decode(self, rows: bytes, overlay: Overlay | None = None) -> pa.RecordBatch:
        """The tuples that pass the conditions, without those that an overlay takes.

        Raises XlogError, ILLEGAL_PARAMS for a value that does not fit.
        """
        if overlay is None:
            return self.batch(decode_tuples(rows, self._space_id))
        return self.raw_batch([raw for raw in raw_tuples(rows, self._space_id) if not overlay.takes(raw)])

    def raw_batch(self, tuples: Iterable[bytes]) -> pa.RecordBatch:
        """The same for tuples."""
        return self.batch([decode_fields(raw) for raw in tuples])

    def batch(self, tuples: Sequence[list[Any]]) -> pa.RecordBatch:
        """The same for decoded tuples."""
        named = {column.name: column for column in self._columns}
        arrays = {
            name: self._array(named[name], tuples) for name in dict.fromkeys(item.column for item in self._conditions)
        }
        if arrays:
            mask = mask_of(self._conditions, arrays)
            arrays = {name: array.filter(mask) for name, array in arrays.items()}
            tuples = [fields for fields, is_kept in zip(tuples, mask.to_pylist(), strict=True) if is_kept]
        if not self._columns:
            return empty_columns(len(tuples))
        for column in self._columns:
            if column.name not in arrays:
                arrays[column.name] = self._array(column, tuples)
        return to_batch(self._columns, arrays, self._schema)

    def _array(self, column: Column, tuples: Sequence[list[Any]]) -> pa.Array:
        if column.kind is Kind.CONSTANT:
            return constant_array(column.text, len(tuples))
        return _arrow(column, values_of(column, tuples))


def empty_columns(count: int) -> pa.RecordBatch:
    """A batch of `count` rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def constant_array(text: str, count: int) -> pa.Array:
    """The same text in every row."""
    return pa.repeat(pa.scalar(text), count)


def to_array(column: Column, values: list[Any]) -> pa.Array:
    """Decoded values as an Arrow array. Raises ILLEGAL_PARAMS for one that does not fit."""
    return _arrow(column, convert_values(column, values))


def _arrow(column: Column, values: list[Any]) -> pa.Array:
    arrow_type = ARROW_TYPES.get(column.kind, pa.string())
    try:
        return pa.array(values, type=arrow_type)
    except (pa.ArrowException, UnicodeError, TypeError, ValueError, OverflowError) as error:
        raise conversion_error(column.name, str(error), f"a value does not fit {arrow_type}") from None


def to_batch(columns: Sequence[Column], arrays: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The arrays by name as a batch; those whose type is another than the schema's are cast, if no value is lost."""
    fitting = []
    for column, wanted in zip(columns, schema, strict=True):
        array = arrays[column.name]
        if array.type != wanted.type:
            try:
                array = array.cast(wanted.type)
            except pa.ArrowException as error:
                raise conversion_error(column.name, str(error), f"a value does not fit {wanted.type}") from None
        fitting.append(array)
    return pa.RecordBatch.from_arrays(fitting, schema=schema)


ARROW_TYPES: Final = {
    Kind.INTEGER: pa.int64(),
    Kind.BIG_INTEGER: pa.decimal128(20, 0),
    Kind.DOUBLE: pa.float64(),
    Kind.DECIMAL: pa.decimal128(38, 18),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BINARY: pa.binary(),
}
"""The types that a column of each kind is made of; text for the others."""
