"""Decodes the rows of a block into Arrow columns by compiled code, without a Python object for each value.

It finds the rows first, with the offset of every field that a column or a condition needs. Then it reads the columns of
the conditions, and the other columns only for the rows that pass. Needs numba.
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
    """A decoder of blocks into batches of `schema`, which has one field for each column; `conditions` name columns."""

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
        """Return the tuples that pass the conditions as a batch; with `left` only those that are marked there.

        Raises:
            XlogError: a row cannot be decoded.
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
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


# --- columns; a reader returns None for values that the decoder in Python has to convert ------------------------------


def _raw_value(raw: bytes) -> bytes | None:
    """Return the MessagePack bytes of a value, None for nil."""
    return None if raw == b"\xc0" else raw  # c0 is nil


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
    # Arrow stores a decimal in 128 bits: the value in the low word, and copies of its sign bit in the high one.
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
    # A UUID has 36 characters as text.
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
