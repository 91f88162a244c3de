"""Changes of a space in the order of their keys, in memory up to a limit and in sorted files beyond it.

```
add        changes in the order of the log      -> held
held > BUDGET                                   -> sorted by key, written as a run
sixteen runs of a level                         -> merged into one of the next level
until(key) all changes of keys up to this one   <- the runs and what is held, merged piece by piece
```

Changes of one key stay in the order of the log, and what a later INSERT, REPLACE or DELETE makes void is dropped.
So a reader holds a part of `BUDGET` bytes and a piece of each run, however long the log is.
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
"""The key's bytes, the type of the request, the number of the format of its time, and the request's body."""

BUDGET: Final = 4 << 20
"""Bytes of changes that stay in memory."""
_PIECE_BYTES: Final = 1 << 17
_ROWS_HELD: Final = 1 << 12
"""Rows that come one by one become a batch at so many."""
_RUNS_A_LEVEL: Final = 16
_MODIFICATIONS: Final = np.array([RequestType.UPDATE, RequestType.UPSERT], np.uint8)


class KeyGroups(NamedTuple):
    """The changes of each key in a sorted batch: the row of the first one, the row behind the last one, and the row of
    the last that does not look at the tuple before it, -1 where there is none."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    definite: NDArray[np.int64]


def key_groups(changes: pa.RecordBatch) -> KeyGroups:
    """The groups of a batch that is not empty."""
    keys = changes.column(0)
    count = len(keys)
    is_other = pc.not_equal(keys.slice(1), keys.slice(0, count - 1)).to_numpy(zero_copy_only=False)
    starts = np.concatenate(([0], np.flatnonzero(is_other) + 1)).astype(np.int64)
    kinds = changes.column(1).to_numpy()
    definite = np.where(np.isin(kinds, _MODIFICATIONS), -1, np.arange(count))
    return KeyGroups(starts, np.append(starts[1:], count), np.maximum.reduceat(definite, starts))


class MergedPiece(NamedTuple):
    """Sorted changes. With `is_open` they all are of one key, and the next piece begins with it."""

    changes: pa.RecordBatch
    is_open: bool


class _Run:
    """Sorted batches that are read one after another; `batch` is what is left of the present one."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._next = next(self._batches, None)
        self.batch: pa.RecordBatch | None = None
        self._advance()

    def _advance(self) -> None:
        self.batch, self._next = self._next, None if self._next is None else next(self._batches, None)

    @property
    def has_more(self) -> bool:
        """There are batches after the present one."""
        return self._next is not None

    def key(self, row: int) -> bytes:
        """The key of a row of the present batch."""
        assert self.batch is not None
        found: bytes = self.batch.column(0)[row].as_py()
        return found

    @property
    def last(self) -> bytes:
        """The last key of the present batch."""
        assert self.batch is not None
        return self.key(self.batch.num_rows - 1)

    def take(self, bound: bytes | None, *, inclusive: bool) -> pa.RecordBatch:
        """Remove the rows of the present batch before a key (and those of the key), all for None."""
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
    """Several runs, the oldest first, as one sequence."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._runs = runs

    def until(self, last: bytes | None) -> Iterator[MergedPiece]:
        """The changes of keys up to `last` that were not asked for yet, all that are left for None."""
        while (piece := self._piece(last)) is not None:
            yield piece

    def _piece(self, last: bytes | None) -> MergedPiece | None:
        runs = [run for run in self._runs if run.batch is not None and (last is None or run.key(0) <= last)]
        if not runs:
            return None
        # Behind its last key a run may go on with that very key: only what is before it is whole.
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
    """One batch sorted by key, without void changes; those of one key stay in their order."""
    whole = concatenated(parts)
    whole = whole.take(pc.sort_indices(whole.column(0)))  # a stable sort
    if not whole.num_rows:
        return whole
    groups = key_groups(whole)
    firsts = np.repeat(groups.definite, groups.ends - groups.starts)
    is_valid = np.arange(whole.num_rows) >= firsts
    return whole if is_valid.all() else whole.filter(pa.array(is_valid))


def concatenated(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of changes as one."""
    table = pa.Table.from_batches(parts, CHANGES).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], CHANGES)


class ChangeRuns:
    """Takes changes in the order of the log."""

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, int, int, bytes]] = []
        self._rows_size = 0
        self._held: list[pa.RecordBatch] = []
        self._held_size = 0
        self._levels: list[list[_Run]] = []
        """The newest first; runs of a level are older the further they stand at the front."""

    def __bool__(self) -> bool:
        return bool(self._rows or self._held or self._levels)

    @property
    def is_spilled(self) -> bool:
        """There are more changes than memory is to hold."""
        return bool(self._levels)

    def clear(self) -> None:
        """Forget all changes."""
        self._rows, self._rows_size = [], 0
        self._held, self._held_size = [], 0
        self._levels = []

    def add_row(self, key: bytes, kind: int, number: int, body: bytes) -> None:
        """One change, in the order of `CHANGES`."""
        self._rows.append((key, kind, number, body))
        self._rows_size += len(key) + len(body)
        if len(self._rows) == _ROWS_HELD or self._rows_size > BUDGET:
            self._hold_rows()

    def add(self, changes: pa.RecordBatch) -> None:
        """A batch of changes."""
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
        """All changes, the oldest first; the object is used up."""
        self._hold_rows()
        found = [run for level in reversed(self._levels) for run in level]
        if self._held:
            found.append(_Run(_pieces(sorted_changes(self._held))))
        self.clear()
        return found


def merged(*changes: ChangeRuns) -> MergedRuns:
    """All of them as one sequence, the oldest first; they are used up."""
    return MergedRuns([run for item in changes for run in item.runs()])


def _written(batches: Iterable[pa.RecordBatch]) -> _Run:
    """The batches in a file without a name, which goes with the last who reads it."""
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
    """The batch in parts that many runs can have in memory at a time."""
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _directory() -> str | None:
    """The place that Spark has for files of a worker; None for the system's."""
    return next((path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(path)), None)
