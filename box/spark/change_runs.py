"""Holds the changes of a space sorted by key, in memory up to a limit and in sorted files beyond it.

```
add        changes in the order of the log      -> held in memory
held > BUDGET                                   -> sorted by key and written to a file, called a run
sixteen runs of a level                         -> merged into one run of the next level
until(key) all changes of keys up to this one   <- the runs and the changes in memory, merged piece by piece
```

Changes of one key stay in the order of the log. Those that a later INSERT, REPLACE or DELETE overrides are dropped.
So a reader needs at most `BUDGET` bytes and one piece of each run, however long the log is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from box.wire.constants import RequestType

CHANGES: Final = pa.schema([("key", pa.binary()), ("kind", pa.uint8()), ("format", pa.int32()), ("body", pa.binary())])
"""The columns: encoded key, request type, number of the tuple format at the time of the change, and the request's
body."""

BUDGET: Final = 4 << 20
"""The bytes of changes that are held in memory before they are written to a run."""
_PIECE_BYTES: Final = 1 << 17
"""The size of the pieces in which runs are written and read, in bytes. A merge holds one piece of each run."""
_ROWS_HELD: Final = 1 << 12
"""The number of single changes that are collected before they become a batch."""
_RUNS_A_LEVEL: Final = 16
"""The number of runs of one level that are merged into one run, so that few files are open at a time."""
_MODIFICATIONS: Final = np.array([RequestType.UPDATE, RequestType.UPSERT], np.uint8)
"""The requests whose result depends on the tuple before them."""


class KeyGroups(NamedTuple):
    """The rows of each key in a sorted batch, as three arrays with one element for each key.

    `starts` has the first row of the key, `ends` the row after the last one, and `definite` the last row whose result
    does not depend on the tuple before it (INSERT, REPLACE or DELETE), -1 if there is none.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    definite: NDArray[np.int64]


def key_groups(changes: pa.RecordBatch) -> KeyGroups:
    """Return the rows of each key in a sorted batch, which must not be empty."""
    keys = changes.column(0)
    count = len(keys)
    is_other = pc.not_equal(keys.slice(1), keys.slice(0, count - 1)).to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.flatnonzero(is_other) + 1)).astype(np.int64)
    kinds = changes.column(1).to_numpy()
    definite = np.where(np.isin(kinds, _MODIFICATIONS), -1, np.arange(count))
    return KeyGroups(starts, np.append(starts[1:], count), np.maximum.reduceat(definite, starts))


class MergedPiece(NamedTuple):
    """A batch of sorted changes.

    If `is_open` is true, all of its changes are of one key, and the next piece continues this key.
    """

    changes: pa.RecordBatch
    is_open: bool


class _Run:
    """A sequence of sorted batches that are read one after another; `batch` is the rest of the current one."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._next = next(self._batches, None)
        self.batch: pa.RecordBatch | None = None
        self._advance()

    def _advance(self) -> None:
        self.batch, self._next = self._next, None if self._next is None else next(self._batches, None)

    @property
    def has_more(self) -> bool:
        """True if there are batches after the current one."""
        return self._next is not None

    def key(self, row: int) -> bytes:
        """Return the key of a row of the current batch."""
        assert self.batch is not None
        found: bytes = self.batch.column(0)[row].as_py()
        return found

    @property
    def last(self) -> bytes:
        """The last key of the current batch."""
        assert self.batch is not None
        return self.key(self.batch.num_rows - 1)

    def take(self, bound: bytes | None, *, inclusive: bool) -> pa.RecordBatch:
        """Remove and return the rows of the current batch before the key `bound` (with `inclusive` also those of this
        key).

        For None all rows are returned.
        """
        assert self.batch is not None
        count = self.batch.num_rows if bound is None else self._rows_before(bound, inclusive=inclusive)
        found = self.batch.slice(0, count)
        self.batch = self.batch.slice(count)
        if not self.batch.num_rows:
            self._advance()
        return found

    def _rows_before(self, bound: bytes, *, inclusive: bool) -> int:
        assert self.batch is not None
        low, high = 0, self.batch.num_rows
        while low < high:
            middle = (low + high) // 2
            key = self.key(middle)
            if key < bound or (inclusive and key == bound):
                low = middle + 1
            else:
                high = middle
        return low


class MergedRuns:
    """Several runs, the oldest first, read as one sorted sequence."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._runs = runs

    def until(self, last: bytes | None) -> Iterator[MergedPiece]:
        """Return the changes of all keys up to `last` that were not returned before; for None all remaining changes."""
        while (piece := self._piece(last)) is not None:
            yield piece

    def _piece(self, last: bytes | None) -> MergedPiece | None:
        runs = [run for run in self._runs if run.batch is not None and (last is None or run.key(0) <= last)]
        if not runs:
            return None
        # The next batch of a run may continue with the last key of this one. So only the keys before it are complete.
        bound = min((run.last for run in runs if run.has_more), default=None)
        if bound is None or (last is not None and last < bound):
            return MergedPiece(_merged([run.take(last, inclusive=True) for run in runs]), False)
        found = [run.take(bound, inclusive=False) for run in runs if run.key(0) < bound]
        if found:
            return MergedPiece(_merged(found), False)
        oldest = next(run for run in runs if run.key(0) == bound)
        piece = oldest.take(bound, inclusive=True)
        return MergedPiece(piece, any(run.batch is not None and run.key(0) == bound for run in runs))


def _merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else sorted_changes(parts)


def sorted_changes(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the parts as one batch sorted by key, without overridden changes; changes of a key keep their order."""
    whole = concatenated(parts)
    # Arrow's sort is stable, which keeps the order of changes of one key.
    whole = whole.take(pc.sort_indices(whole.column(0)))
    if not whole.num_rows:
        return whole
    groups = key_groups(whole)
    firsts = np.repeat(groups.definite, groups.ends - groups.starts)
    is_valid = np.arange(whole.num_rows) >= firsts
    return whole if is_valid.all() else whole.filter(pa.array(is_valid))


def concatenated(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the batches as one batch."""
    table = pa.Table.from_batches(parts, CHANGES).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], CHANGES)


class ChangeRuns:
    """A collection of changes, added in the order of the log and returned sorted by key."""

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, int, int, bytes]] = []
        self._rows_size = 0
        self._held: list[pa.RecordBatch] = []
        self._held_size = 0
        self._levels: list[list[_Run]] = []
        """The runs by level; level 0 has the newest runs, and in each level the oldest run is the first."""

    def __bool__(self) -> bool:
        return bool(self._rows or self._held or self._levels)

    @property
    def is_spilled(self) -> bool:
        """True if changes were written to files because they exceeded `BUDGET`."""
        return bool(self._levels)

    def clear(self) -> None:
        """Remove all changes."""
        self._rows, self._rows_size = [], 0
        self._held, self._held_size = [], 0
        self._levels = []

    def add_row(self, key: bytes, kind: int, number: int, body: bytes) -> None:
        """Add one change, given as the columns of `CHANGES`."""
        self._rows.append((key, kind, number, body))
        self._rows_size += len(key) + len(body)
        if len(self._rows) == _ROWS_HELD or self._rows_size > BUDGET:
            self._hold_rows()

    def add(self, changes: pa.RecordBatch) -> None:
        """Add a batch of changes."""
        self._hold_rows()
        self._hold(changes)

    def _hold_rows(self) -> None:
        rows, self._rows, self._rows_size = self._rows, [], 0
        if rows:
            columns = zip(zip(*rows, strict=True), CHANGES, strict=True)
            arrays = [pa.array(values, field.type) for values, field in columns]
            self._hold(pa.RecordBatch.from_arrays(arrays, schema=CHANGES))

    def _hold(self, changes: pa.RecordBatch) -> None:
        if not changes.num_rows:
            return
        self._held.append(changes)
        self._held_size += changes.nbytes
        if self._held_size > BUDGET:
            held, self._held, self._held_size = self._held, [], 0
            self._add_run([sorted_changes(held)])

    def _add_run(self, batches: Iterable[pa.RecordBatch]) -> None:
        number = 0
        run = _written(batches)
        while True:
            if number == len(self._levels):
                self._levels.append([])
            self._levels[number].append(run)
            if len(self._levels[number]) < _RUNS_A_LEVEL:
                return
            full, self._levels[number] = self._levels[number], []
            run = _written(piece.changes for piece in MergedRuns(full).until(None))
            number += 1

    def runs(self) -> list[_Run]:
        """Return all changes as runs, the oldest first, and remove them from this object."""
        self._hold_rows()
        found = [run for level in reversed(self._levels) for run in level]
        if self._held:
            found.append(_Run(_pieces(sorted_changes(self._held))))
        self.clear()
        return found


def merged(*changes: ChangeRuns) -> MergedRuns:
    """Return the changes of several collections, the oldest collection first, as one sequence; empties the
    collections."""
    return MergedRuns([run for item in changes for run in item.runs()])


def _written(batches: Iterable[pa.RecordBatch]) -> _Run:
    """Write the batches into an unnamed temporary file, which disappears when its last reader closes it."""
    file = tempfile.TemporaryFile(dir=_directory())  # noqa: SIM115
    try:
        with pa.ipc.new_stream(file, CHANGES) as writer:
            for batch in batches:
                for piece in _pieces(batch):
                    writer.write_batch(piece)
        file.seek(0)
        return _Run(_read(file))
    except BaseException:
        file.close()
        raise


def _read(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    with file:
        yield from pa.ipc.open_stream(file)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the batch in slices of about `_PIECE_BYTES`, so that a merge can hold a slice of each of many runs."""
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _directory() -> str | None:
    """Return Spark's directory for temporary files of a worker, None for the system's default."""
    return next((path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(path)), None)
