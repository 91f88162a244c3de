"""Finds tuples in blocks, and their primary keys, by compiled code."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from box.journal.xlog_errors import XlogError
from box.spark import kernels
from box.spark.key_kernels import measure_keys, write_keys
from box.spark.primary_keys import PlainParts, PrimaryKeys

_ROWS: Final = 1 << 15
"""The rows for which there is room at first; it doubles when a block has more."""
_Offsets = NDArray[np.int64]


def encoded_keys(block: NDArray[np.uint8], starts: _Offsets, parts: PlainParts) -> pa.Array | None:
    """Return the encoded keys; None if a part needs the decoder in Python.

    `starts` has the offsets of the parts in `block`, with a line for each part and a column for each row.
    """
    kinds = np.array([kind for _, kind in parts], np.int64)
    ends = np.empty(starts.shape[1] + 1, np.int32)
    if measure_keys(block, starts, kinds, ends) < 0:
        return None
    data = np.empty(ends[-1], np.uint8)
    write_keys(block, starts, kinds, data)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


class RowFinder:
    """A finder for the tuples of a space in blocks, and for some of their fields."""

    def __init__(self, space_id: int, fields: list[int]) -> None:
        """Prepare to find `fields`, which are numbers in ascending order."""
        self._space_id = space_id
        self._slots = np.full(fields[-1] + 1 if fields else 0, -1, np.int64)
        self._slots[fields] = range(len(fields))
        self._starts = np.empty((len(fields), _ROWS), np.int64)
        self._tuples = np.empty((2, _ROWS), np.int64)

    def find(self, block: NDArray[np.uint8]) -> tuple[_Offsets, _Offsets]:
        """Return the offsets of the fields (line by field, column by row) and of the start and the end of every tuple.

        The arrays are valid until the next call.

        Raises:
            XlogError: a row cannot be decoded.
        """
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


class CompiledFinder:
    """A finder for the tuples of a space and their primary keys."""

    def __init__(self, space_id: int, keys: PrimaryKeys) -> None:
        self._keys = keys
        fields = sorted({field for field, _ in keys.plain or ()})
        self._lines = [fields.index(field) for field, _ in keys.plain or ()]
        self._rows = RowFinder(space_id, fields)

    def find(self, rows: bytes) -> _CompiledTuples:
        """Return the tuples in rows; they are valid until the next call.

        Raises:
            XlogError: a row cannot be decoded.
        """
        starts, tuples = self._rows.find(np.frombuffer(rows, np.uint8))
        return _CompiledTuples(rows, starts[self._lines], tuples, self._keys)


class _CompiledTuples:
    """Tuples that are held as offsets in `rows`."""

    def __init__(self, rows: bytes, starts: _Offsets, tuples: _Offsets, keys: PrimaryKeys) -> None:
        self._rows = rows
        self._starts = starts
        self._tuples = tuples
        self._keys = keys

    def __len__(self) -> int:
        count: int = self._tuples.shape[1]
        return count

    def last_key(self) -> bytes:
        return self._keys.of_tuple(self.tuple_at(len(self) - 1))

    @cached_property
    def _key_array(self) -> pa.Array:
        block, plain = np.frombuffer(self._rows, np.uint8), self._keys.plain
        array = None if plain is None else encoded_keys(block, self._starts, plain)
        if array is None:
            array = pa.array((self._keys.of_tuple(self.tuple_at(row)) for row in range(len(self))), pa.binary())
        return array

    def keys(self) -> pa.Array:
        return self._key_array

    def tuple_at(self, row: int) -> bytes:
        return self._rows[self._tuples[0, row] : self._tuples[1, row]]
