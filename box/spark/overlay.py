"""Changes of a log laid over the tuples of a snapshot, block by block.

| the share's tuples | its changes | way |
|---|---|---|
| sorted by key | any number | both in the order of their keys, side by side |
| in another order | as many as memory is to hold | all of them are looked up for each block |
| in another order | more | the tuples become the oldest changes, and all are sorted |
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


class Overlay(Protocol):
    """Takes changed tuples out, and gives what they have become as rows for a decoder."""

    def find(self, rows: bytes) -> BaseTuples:
        """The tuples of blocks. Raises XlogError."""

    def lay(self, tuples: BaseTuples, left: NDArray[np.bool_]) -> Iterator[bytes]:
        """The outcomes that belong to these tuples; those that are changed are marked in `left`."""

    def rest(self) -> Iterator[bytes]:
        """The outcomes of keys that the snapshot does not have."""


def _no_tuple(row: int) -> bytes:
    raise LookupError(row)


class SortedOverlay:
    """Tuples come in the order of their keys."""

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
    """Tuples come in any order; `changes` are all of the share, sorted by key."""

    def __init__(self, find: FindTuples, folder: Folder, changes: pa.RecordBatch) -> None:
        self.find = find
        self._folder = folder
        self._changes = changes
        self._groups = key_groups(changes) if changes.num_rows else None
        self._left = np.ones(0 if self._groups is None else len(self._groups.starts), np.bool_)
        """The keys that no tuple has had so far."""
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
