"""Decodes the rows of a block in Python: as lists of values first, then as Arrow columns. Needs only pyarrow.

It is used if numba is not installed, and for small files for which loading numba would take longer than reading them.
The compiled decoder returns equal batches and errors, which the tests verify.
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
    """A decoder of blocks into batches of `schema`, which has one field for each column; `conditions` name columns.

    With `misfits` values that do not fit become null and are noted there.
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
        """Return the tuples that pass the conditions as a batch; with `left` only those that are marked there.

        Raises:
            XlogError: a row cannot be decoded.
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """
        if left is None and not self._raw_fields:
            return self.batch(decode_tuples(rows, self._space_id))
        tuples = raw_tuples(rows, self._space_id)
        return self.raw_batch(tuples if left is None else compress(tuples, left))

    def raw_batch(self, tuples: Iterable[bytes]) -> pa.RecordBatch:
        """Return the tuples that pass the conditions as a batch; `tuples` are MessagePack.

        Raises:
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """
        return self.batch([decode_mixed(raw, self._raw_fields) for raw in tuples])

    def batch(self, tuples: Sequence[list[Any]]) -> pa.RecordBatch:
        """Return the tuples that pass the conditions as a batch; `tuples` are lists of decoded values.

        Raises:
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """
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
    """Return a batch of `count` rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def constant_array(text: str, count: int) -> pa.Array:
    """Return an array with the same text in all rows."""
    return pa.repeat(pa.scalar(text), count)


def to_array(column: Column, values: list[Any], misfits: Misfits | None = None) -> pa.Array:
    """Convert decoded values to an Arrow array.

    Raises:
        BoxError: ILLEGAL_PARAMS, a value does not fit and there is no `misfits`.
    """
    try:
        return _arrow(column, convert_values(column, values))
    except BoxError:
        if misfits is None:
            raise
    return _arrow(column, [_fitting(column, row, value, misfits) for row, value in enumerate(values)])


def _fitting(column: Column, row: int, value: Any, misfits: Misfits) -> Any:
    """Return the converted value; None for a misfit, which is noted."""
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
    """Return the arrays with that of the misfits added, if there is a column for them."""
    for column in columns:
        if column.kind is Kind.REJECTS:
            arrays[column.name] = pa.array([misfits and misfits.text(row) for row in range(count)], pa.string())
    return arrays


def to_batch(columns: Sequence[Column], arrays: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of the arrays, cast to the types of the schema where they differ.

    Raises:
        BoxError: ILLEGAL_PARAMS, a value would be lost by the cast.
    """
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
    """Return the Arrow type of a column; text for kinds without another type."""
    if column.kind is Kind.DECIMAL:
        return pa.decimal128(column.precision, column.scale)
    if column.kind is Kind.TYPED and column.arrow is not None:
        return column.arrow
    return _ARROW_TYPES.get(column.kind, pa.string())
