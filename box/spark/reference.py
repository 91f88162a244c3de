"""The decoder in Python: rows of a block as lists of values, columns from them. Needs pyarrow and nothing else.

It serves where numba is not installed and for files so small that loading numba would take longer than reading them.
The compiled decoder gives the same batches and errors; the tests hold one against the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

import pyarrow as pa

from box.errors import BoxError
from box.spark.columns import Column, Kind, conversion_error, convert_values, values_of
from box.spark.conditions import Condition, mask_of
from box.spark.misfits import Misfits, shaped
from box.spark.values import decode_mixed, decode_tuples, raw_tuples


class ReferenceDecoder:
    """Decodes blocks of rows into batches of `schema`, one field for each column; `conditions` name their columns.

    With `misfits` values that do not fit are null and noted there.
    """

    def __init__(
        self,
        space_id: int,
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        misfits: Misfits | None = None,
    ) -> None:
        self._space_id = space_id
        self._columns = list(columns)
        self._schema = schema
        self._conditions = conditions
        self._misfits = misfits
        self._raw_fields = [column.field for column in columns if column.kind is Kind.RAW]

    def decode(self, rows: bytes, left: Iterable[bool] | None = None) -> pa.RecordBatch:
        """The tuples that pass the conditions, of those that are marked in `left`.

        Raises XlogError, ILLEGAL_PARAMS for a value that does not fit.
        """
        if left is None and not self._raw_fields:
            return self.batch(decode_tuples(rows, self._space_id))
        tuples = raw_tuples(rows, self._space_id)
        return self.raw_batch(tuples if left is None else compress(tuples, left))

    def raw_batch(self, tuples: Iterable[bytes]) -> pa.RecordBatch:
        """The same for tuples."""
        return self.batch([decode_mixed(raw, self._raw_fields) for raw in tuples])

    def batch(self, tuples: Sequence[list[Any]]) -> pa.RecordBatch:
        """The same for decoded tuples."""
        if self._misfits is not None:
            self._misfits.begin()
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
            if column.name not in arrays and column.kind is not Kind.REJECTS:
                arrays[column.name] = self._array(column, tuples)
        return to_batch(self._columns, with_rejects(self._columns, arrays, self._misfits, len(tuples)), self._schema)

    def _array(self, column: Column, tuples: Sequence[list[Any]]) -> pa.Array:
        if column.kind is Kind.CONSTANT:
            return constant_array(column.text, len(tuples))
        return to_array(column, values_of(column, tuples), self._misfits)


def empty_columns(count: int) -> pa.RecordBatch:
    """A batch of `count` rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def constant_array(text: str, count: int) -> pa.Array:
    """The same text in every row."""
    return pa.repeat(pa.scalar(text), count)


def to_array(column: Column, values: list[Any], misfits: Misfits | None = None) -> pa.Array:
    """Decoded values as an Arrow array. Raises ILLEGAL_PARAMS for one that does not fit, or notes it in `misfits`."""
    try:
        return _arrow(column, convert_values(column, values))
    except BoxError:
        if misfits is None:
            raise
    return _arrow(column, [_fitting(column, row, value, misfits) for row, value in enumerate(values)])


def _fitting(column: Column, row: int, value: Any, misfits: Misfits) -> Any:
    """The converted value, None for a misfit."""
    try:
        (converted,) = convert_values(column, [value])
        _arrow(column, [converted])
    except BoxError as error:
        misfits.note(row, column.name, error.message)
        return None
    return converted


def _arrow(column: Column, values: list[Any]) -> pa.Array:
    kind = arrow_type(column)
    try:
        if column.kind is Kind.TYPED:
            values = [shaped(value, kind) for value in values]
        return pa.array(values, type=kind)
    except (pa.ArrowException, UnicodeError, TypeError, ValueError, OverflowError) as error:
        raise conversion_error(column.name, str(error), f"a value does not fit {kind}") from None


def with_rejects(
    columns: Sequence[Column], arrays: dict[str, pa.Array], misfits: Misfits | None, count: int
) -> dict[str, pa.Array]:
    """The arrays, and that of the rejects where a column asks for it."""
    for column in columns:
        if column.kind is Kind.REJECTS:
            arrays[column.name] = pa.array([misfits and misfits.text(row) for row in range(count)], pa.string())
    return arrays


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


_ARROW_TYPES: Final = {
    Kind.INTEGER: pa.int64(),
    Kind.BIG_INTEGER: pa.decimal128(20, 0),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BINARY: pa.binary(),
    Kind.RAW: pa.binary(),
    Kind.DATETIME: pa.timestamp("us", tz="UTC"),
    Kind.INTERVAL: pa.struct(
        [
            *((name, pa.int32()) for name in ("year", "month", "week")),
            *((name, pa.int64()) for name in ("day", "hour", "min", "sec")),
            ("nsec", pa.int32()),
            ("adjust", pa.string()),
        ]
    ),
}


def arrow_type(column: Column) -> pa.DataType:
    """The type that a column is made of; text where nothing else is said."""
    if column.kind is Kind.DECIMAL:
        return pa.decimal128(column.precision, column.scale)
    if column.kind is Kind.TYPED and column.arrow is not None:
        return column.arrow
    return _ARROW_TYPES.get(column.kind, pa.string())
