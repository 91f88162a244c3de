"""The tuples of one space in blocks of a snapshot, with their primary keys, found in Python or by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from box.spark.primary_keys import PrimaryKeys
from box.spark.values import raw_tuples


class BaseTuples(Protocol):
    """The tuples of one space in some blocks of a snapshot: their number, their keys, and the bytes of each."""

    def __len__(self) -> int: ...

    def last_key(self) -> bytes: ...

    def keys(self) -> pa.Array: ...

    def tuple_at(self, row: int) -> bytes: ...


FindTuples = Callable[[bytes], BaseTuples]
"""Tuples in the rows of blocks. Raises XlogError."""


class _PythonTuples:
    """Tuples as a list."""

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
    """Finds the tuples of a space."""
    if compiled:
        from box.spark.compiled_tuples import CompiledFinder

        return CompiledFinder(space_id, keys).find

    def find(rows: bytes) -> BaseTuples:
        return _PythonTuples(raw_tuples(rows, space_id), keys)

    return find
