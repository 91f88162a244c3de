"""Tuples of one space in the blocks of a snapshot, with their primary keys, found in Python or by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from box.spark.primary_keys import PrimaryKeys
from box.spark.values import raw_tuples


class BaseTuples(Protocol):
    """The tuples of one space in some blocks of a snapshot: their number, their encoded primary keys, and their
    bytes."""

    def __len__(self) -> int:
        """The number of tuples."""

    def last_key(self) -> bytes:
        """Return the encoded primary key of the last tuple."""

    def keys(self) -> pa.Array:
        """Return the encoded primary keys of all tuples as an array of binary values."""

    def tuple_at(self, row: int) -> bytes:
        """Return the MessagePack bytes of the tuple with this number."""


FindTuples = Callable[[bytes], BaseTuples]
"""A function that finds the tuples in the rows of blocks. It raises XlogError for rows that cannot be decoded."""


class _PythonTuples:
    """Tuples that are held as a list of bytes."""

    def __init__(self, tuples: list[bytes], keys: PrimaryKeys) -> None:
        self._tuples = tuples
        self._keys = keys

    def __len__(self) -> int:
        return len(self._tuples)

    def last_key(self) -> bytes:
        return self._keys.of_tuple(self._tuples[-1])

    @cached_property
    def _key_array(self) -> pa.Array:
        return pa.array(map(self._keys.of_tuple, self._tuples), pa.binary())

    def keys(self) -> pa.Array:
        return self._key_array

    def tuple_at(self, row: int) -> bytes:
        return self._tuples[row]


def tuple_finder(space_id: int, keys: PrimaryKeys, *, compiled: bool) -> FindTuples:
    """Return a function that finds the tuples of a space in rows, compiled by numba if `compiled`."""
    if compiled:
        from box.spark.compiled_tuples import CompiledFinder

        return CompiledFinder(space_id, keys).find

    def find(rows: bytes) -> BaseTuples:
        return _PythonTuples(raw_tuples(rows, space_id), keys)

    return find
