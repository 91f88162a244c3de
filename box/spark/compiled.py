"""The compiled decoder: rows of a block as Arrow columns, without a Python object for each value.

Rows are found first, with the offset of every field that a column or a condition wants. Columns that conditions
look at are read next; the others only for the rows that are left. Needs numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from box.spark import kernels
from box.spark.columns import Column, Kind
from box.spark.compiled_tuples import RowFinder
from box.spark.conditions import Condition, mask_of
from box.spark.misfits import Misfits
from box.spark.reference import constant_array, empty_columns, to_array, to_batch, with_rejects
from box.spark.values import decode_fields, decode_value

_Offsets: TypeAlias = NDArray[np.int64]
_WHOLE: Final = frozenset({Kind.TUPLE, Kind.REST})


class CompiledDecoder:
    """Decodes blocks of rows into batches of `schema`, one field for each column; `conditions` name their columns."""

    def __init__(
        self,
        space_id: int,
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        misfits: Misfits | None = None,
    ) -> None:
        self._misfits = misfits
        self._columns = list(columns)
        self._schema = schema
        self._conditions = conditions
        wanted = sorted(
            {column.field for column in columns if column.kind not in (*_WHOLE, Kind.CONSTANT, Kind.REJECTS)}
        )
        self._lines = {field: line for line, field in enumerate(wanted)}
        self._rows = RowFinder(space_id, wanted)

    def decode(self, rows: bytes, left: NDArray[np.bool_] | None = None) -> pa.RecordBatch:
        """The tuples that pass the conditions, of those that are marked in `left`.

        Raises XlogError, ILLEGAL_PARAMS for a value that does not fit.
        """
        if self._misfits is not None:
            self._misfits.begin()
        block = np.frombuffer(rows, np.uint8)
        starts, tuples = self._rows.find(block)
        if left is not None:
            starts, tuples = starts[:, left], tuples[:, left]
        arrays: dict[str, pa.Array] = {}
        named = {column.name: column for column in self._columns}
        for name in dict.fromkeys(item.column for item in self._conditions):
            arrays[name] = self._array(named[name], rows, block, starts, tuples)
        if arrays:
            mask = mask_of(self._conditions, arrays)
            chosen = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            if len(chosen) < tuples.shape[1]:
                starts, tuples = starts[:, chosen], tuples[:, chosen]
                arrays = {name: array.filter(mask) for name, array in arrays.items()}
        for column in self._columns:
            if column.name not in arrays and column.kind is not Kind.REJECTS:
                arrays[column.name] = self._array(column, rows, block, starts, tuples)
        if not self._columns:
            return empty_columns(tuples.shape[1])
        arrays = with_rejects(self._columns, arrays, self._misfits, tuples.shape[1])
        return to_batch(self._columns, arrays, self._schema)

    def _array(
        self, column: Column, rows: bytes, block: NDArray[np.uint8], starts: _Offsets, tuples: _Offsets
    ) -> pa.Array:
        if column.kind is Kind.CONSTANT:
            return constant_array(column.text, tuples.shape[1])
        if column.kind in _WHOLE:
            lists = [decode_fields(rows[start:end]) for start, end in tuples.T.tolist()]
            if column.kind is Kind.TUPLE:
                return to_array(column, lists, self._misfits)
            return to_array(column, [fields[column.field :] or None for fields in lists], self._misfits)
        line = np.ascontiguousarray(starts[self._lines[column.field]])
        read = READERS.get(column.kind)
        array = None if read is None else read(block, line, column.kind)
        if array is None or (array.null_count and not column.is_nullable):
            ends = np.empty_like(line)
            kernels.find_ends(block, line, ends)
            decode = _raw_value if column.kind is Kind.RAW else decode_value
            values = [
                None if start < 0 else decode(rows[start:end])
                for start, end in zip(line.tolist(), ends.tolist(), strict=True)
            ]
            array = to_array(column, values, self._misfits)
        return array


# --- columns; None stands for a value that is not usual, for which Python is asked ------------------------------------


def _raw_value(raw: bytes) -> bytes | None:
    """The MessagePack of a value that is not nil."""
    return None if raw == b"\xc0" else raw


def _bits(count: int) -> NDArray[np.uint8]:
    return np.zeros((count + 7) // 8, np.uint8)


def _assemble(arrow_type: pa.DataType, count: int, nulls: int, valid: NDArray[np.uint8], *data: Any) -> pa.Array:
    bitmap = pa.py_buffer(valid) if nulls else None
    return pa.Array.from_buffers(arrow_type, count, [bitmap, *map(pa.py_buffer, data)], nulls)


def _integers(block: NDArray[np.uint8], starts: _Offsets, kind: Kind) -> pa.Array | None:
    values, valid = np.empty(len(starts), np.int64), _bits(len(starts))
    nulls = kernels.read_integers(block, starts, values, valid)
    if nulls < 0:
        return None
    if kind is Kind.INTEGER:
        return _assemble(pa.int64(), len(starts), nulls, valid, values)
    wide = np.stack((values, values >> 63), axis=1)
    return _assemble(pa.decimal128(20, 0), len(starts), nulls, valid, wide)


def _doubles(block: NDArray[np.uint8], starts: _Offsets, kind: Kind) -> pa.Array | None:
    values, valid = np.empty(len(starts), np.float64), _bits(len(starts))
    bits, words, singles = values.view(np.uint64), values.view(np.uint32), values.view(np.float32)
    nulls = kernels.read_doubles(block, starts, values, bits, words, singles, valid)
    return None if nulls < 0 else _assemble(pa.float64(), len(starts), nulls, valid, values)


def _booleans(block: NDArray[np.uint8], starts: _Offsets, kind: Kind) -> pa.Array | None:
    values, valid = _bits(len(starts)), _bits(len(starts))
    nulls = kernels.read_booleans(block, starts, values, valid)
    return None if nulls < 0 else _assemble(pa.bool_(), len(starts), nulls, valid, values)


def _text(block: NDArray[np.uint8], starts: _Offsets, kind: Kind) -> pa.Array | None:
    is_binary = kind is Kind.BINARY
    bodies, ends, valid = np.empty(len(starts), np.int64), np.empty(len(starts) + 1, np.int32), _bits(len(starts))
    nulls = kernels.measure_text(block, starts, is_binary, bodies, ends, valid)
    if nulls < 0:
        return None
    data = np.empty(ends[-1], np.uint8)
    is_ascii = kernels.copy_text(block, bodies, ends, data)
    array = _assemble(pa.binary() if is_binary else pa.string(), len(starts), nulls, valid, ends, data)
    if not (is_binary or is_ascii):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return None
    return array


def _uuids(block: NDArray[np.uint8], starts: _Offsets, kind: Kind) -> pa.Array | None:
    ends, valid = np.empty(len(starts) + 1, np.int32), _bits(len(starts))
    data = np.empty(36 * len(starts), np.uint8)
    nulls = kernels.read_uuids(block, starts, ends, data, valid)
    return None if nulls < 0 else _assemble(pa.string(), len(starts), nulls, valid, ends, data)


READERS: Final = {
    Kind.INTEGER: _integers,
    Kind.BIG_INTEGER: _integers,
    Kind.DOUBLE: _doubles,
    Kind.BOOLEAN: _booleans,
    Kind.STRING: _text,
    Kind.BINARY: _text,
    Kind.UUID: _uuids,
}
