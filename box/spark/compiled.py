"""The compiled decoder: rows of a block as Arrow columns, without a Python object for each value.

Rows are found first, with the offset of every field that a column or a condition wants. Columns that conditions
look at are read next; the others only for the rows that are left. Needs numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from box.journal.xlog_errors import XlogError
from box.spark import kernels
from box.spark.columns import Column, Kind
from box.spark.conditions import Condition, mask_of
from box.spark.misfits import Misfits
from box.spark.overlay import Overlay
from box.spark.reference import constant_array, empty_columns, to_array, to_batch, with_rejects
from box.spark.values import decode_fields, decode_value

_ROWS: Final = 1 << 15
_Offsets: TypeAlias = NDArray[np.int64]
_WHOLE: Final = frozenset({Kind.TUPLE, Kind.REST})


class CompiledDecoder:
    """Decodes blocks of rows into batches of `schema`, one field for each column; `conditions` name their columns.

    `key_field` is a field that overlays compare.
    """

    def __init__(
        self,
        space_id: int,
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        key_field: int | None = None,
        misfits: Misfits | None = None,
    ) -> None:
        self._misfits = misfits
        self._space_id = space_id
        self._columns = list(columns)
        self._schema = schema
        self._conditions = conditions
        wanted = sorted(
            {column.field for column in columns if column.kind not in (*_WHOLE, Kind.CONSTANT, Kind.REJECTS)}
            | ({key_field} if key_field is not None else set())
        )
        self._lines = {field: line for line, field in enumerate(wanted)}
        self._slots = np.full(wanted[-1] + 1 if wanted else 0, -1, np.int64)
        self._slots[wanted] = range(len(wanted))
        self._starts = np.empty((len(wanted), _ROWS), np.int64)
        self._tuples = np.empty((2, _ROWS), np.int64)

    def decode(self, rows: bytes, overlay: Overlay | None = None) -> pa.RecordBatch:
        """The tuples that pass the conditions, without those that an overlay takes.

        Raises XlogError, ILLEGAL_PARAMS for a value that does not fit.
        """
        if self._misfits is not None:
            self._misfits.begin()
        block = np.frombuffer(rows, np.uint8)
        starts, tuples = self._find(block)
        if overlay is not None:
            left = self._untaken(overlay, rows, block, starts, tuples)
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

    def _find(self, block: NDArray[np.uint8]) -> tuple[_Offsets, _Offsets]:
        """Offsets of the fields by line and row, and of start and end of every tuple."""
        found = position = 0
        while True:
            rows, position = kernels.find_rows(
                block, position, self._space_id, self._slots, self._starts[:, found:], self._tuples[:, found:]
            )
            found += rows
            if position < 0:
                raise XlogError(f"can't parse row at byte {-1 - position} of the block's rows")
            if position == len(block):
                return self._starts[:, :found], self._tuples[:, :found]
            self._starts = np.concatenate((self._starts, np.empty_like(self._starts)), axis=1)
            self._tuples = np.concatenate((self._tuples, np.empty_like(self._tuples)), axis=1)

    def _untaken(
        self, overlay: Overlay, rows: bytes, block: NDArray[np.uint8], starts: _Offsets, tuples: _Offsets
    ) -> NDArray[np.bool_]:
        """A mask of the tuples that the overlay leaves. Only those are asked for whose key may be changed."""
        candidates = np.arange(tuples.shape[1])
        if overlay.key_field is not None and overlay.key_field in self._lines:
            line = np.ascontiguousarray(starts[self._lines[overlay.key_field]])
            array = READERS[overlay.key_kind](block, line, overlay.key_kind)
            if array is not None:
                found = pc.is_in(array, value_set=overlay.first_parts)
                candidates = np.flatnonzero(found.to_numpy(zero_copy_only=False))
        left = np.ones(tuples.shape[1], np.bool_)
        for row in candidates.tolist():
            left[row] = not overlay.takes(rows[tuples[0, row] : tuples[1, row]])
        return left

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
