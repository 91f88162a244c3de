"""Applies the changes of a log to the tuples of a snapshot, block by block.

| the tuples of a share | its changes | method |
|---|---|---|
| sorted by key | any number | both are read in the order of their keys, side by side |
| in another order | few enough for memory | the changes are looked up for each block |
| in another order | more | the tuples become the oldest changes, and all changes are sorted |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from box.spark.base_tuples import BaseTuples, FindTuples
from box.spark.change_runs import MergedRuns, concatenated, key_groups
from box.spark.outcomes import Folder

_GROUPS_AT_ONCE: Final = 10_000
"""The number of keys whose changes are applied at a time."""


class Overlay(Protocol):
    """Marks changed tuples and returns the new tuples as rows for a decoder."""

    def find(self, rows: bytes) -> BaseTuples:
        """Return the tuples in the rows of blocks.

        Raises:
            XlogError: a row is broken.
        """

    def lay(self, tuples: BaseTuples, left: NDArray[np.bool_]) -> Iterator[bytes]:
        """Return the new tuples for the keys of these tuples, as rows, and set the changed tuples to False in
        `left`."""

    def rest(self) -> Iterator[bytes]:
        """Return the new tuples whose keys the snapshot does not have, as rows."""


def _no_tuple(row: int) -> bytes:
    raise LookupError(row)


class SortedOverlay:
    """An overlay for tuples in the order of their keys."""

    def __init__(self, find: FindTuples, folder: Folder, changes: MergedRuns) -> None:
        self.find = find
        self._folder = folder
        self._changes = changes

    def lay(self, tuples: BaseTuples, left: NDArray[np.bool_]) -> Iterator[bytes]:
        if len(tuples):
            yield from self._outcomes(tuples.last_key(), tuples, left)

    def rest(self) -> Iterator[bytes]:
        yield from self._outcomes(None, None, None)

    def _outcomes(
        self, last: bytes | None, tuples: BaseTuples | None, left: NDArray[np.bool_] | None
    ) -> Iterator[bytes]:
        base: pa.Array | None = None
        carried: pa.RecordBatch | None = None
        for piece in self._changes.until(last):
            if tuples is not None and base is None:
                base = tuples.keys()
            changes = piece.changes if carried is None else concatenated([carried, piece.changes])
            found = self._folder.fold(changes, base, _no_tuple if tuples is None else tuples.tuple_at)
            if left is not None:
                left[found.taken] = False
            carried = self._folder.carried(changes.column(0)[0].as_py(), found) if piece.is_open else None
            if carried is None:
                yield self._folder.rows(found)


class LookupOverlay:
    """An overlay for tuples in any order; `changes` are all changes of the share, sorted by key."""

    def __init__(self, find: FindTuples, folder: Folder, changes: pa.RecordBatch) -> None:
        self.find = find
        self._folder = folder
        self._changes = changes
        self._groups = key_groups(changes) if changes.num_rows else None
        self._left = np.ones(0 if self._groups is None else len(self._groups.starts), np.bool_)
        """The keys, by number, that no tuple has had so far."""
        self._keys = changes.column(0).take(pa.array(self._groups.starts)) if self._groups is not None else None

    def lay(self, tuples: BaseTuples, left: NDArray[np.bool_]) -> Iterator[bytes]:
        if self._keys is None or not len(tuples):
            return
        base = tuples.keys()
        hit = np.unique(pc.index_in(base, value_set=self._keys).drop_null().to_numpy())
        if len(hit):
            self._left[hit] = False
            found = self._folder.fold(self._changes_of(hit), base, tuples.tuple_at)
            left[found.taken] = False
            yield self._folder.rows(found)

    def rest(self) -> Iterator[bytes]:
        unseen = np.flatnonzero(self._left)
        for start in range(0, len(unseen), _GROUPS_AT_ONCE):
            changes = self._changes_of(unseen[start : start + _GROUPS_AT_ONCE])
            yield self._folder.rows(self._folder.fold(changes, None, _no_tuple))

    def _changes_of(self, numbers: NDArray[np.integer[Any]]) -> pa.RecordBatch:
        assert self._groups is not None
        mask = np.zeros(len(self._left), np.bool_)
        mask[numbers] = True
        return self._changes.filter(pa.array(np.repeat(mask, self._groups.ends - self._groups.starts)))
