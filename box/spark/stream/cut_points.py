"""Ends of batches: places in a log before which everything is decided and behind which nothing looks back.

```
log        A1  A2  S3  A4  S5  CONFIRM(3)  A6         A: asynchronous, S: synchronous transactions
places   ^   ^   ^       ^                       ^
           1   2   2'      4                       6
```

A batch may end before a synchronous transaction, or where none waits, and not before every transaction in front of it
has its CONFIRM or ROLLBACK: here at 4, because S5 waits. What waits behind a synchronous transaction (A4) is in one
batch with it: a ROLLBACK of S3 undoes both. From such a place a reader that knows nothing of the past comes to the
same decisions: CONFIRM and ROLLBACK of earlier transactions find nothing to decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from box.spark.definitions import INDEX_ID, SPACE_ID, Definitions
from box.spark.log_rows import Decisions, RowId
from box.wire.change import decode_row
from box.wire.constants import DML_TYPES
from box.wire.row import Row
from box.wire.vclock import VClock

_SCHEMA_SPACES = frozenset({SPACE_ID, INDEX_ID})


class CutPoint(NamedTuple):
    """A place after `rows` rows of the batch."""

    rows: int
    vclock: VClock


class CutFinder:
    """Fed with the transactions after a place of the log; tells the last place where a batch of about `limit` rows may
    end. A batch has at least one transaction, if one is decided."""

    def __init__(self, since: VClock, synchronous: frozenset[int], limit: int | None) -> None:
        self.decisions = Decisions()
        self.synchronous = synchronous
        """The spaces that are synchronous now, for logs whose rows do not tell."""
        self._limit = limit
        self._clock = since.copy()
        self._rows = 0
        self._open: deque[tuple[RowId, CutPoint]] = deque()
        """Places before synchronous transactions, which count once all before them is decided."""
        self.found = CutPoint(0, since.copy())
        self.is_over = False
        """The limit is reached: no later transaction changes `found`."""

    @property
    def is_quiet(self) -> bool:
        """Nothing waits: a block without anything special may be passed as a whole."""
        return not (self.decisions.is_waiting or self.is_over)

    @property
    def vclock(self) -> VClock:
        """A copy of the place behind all rows so far."""
        return self._clock.copy()

    def room(self) -> int | None:
        """The number of rows that the batch has room for; None without a limit."""
        return None if self._limit is None else max(0, self._limit - self._rows)

    def pass_rows(self, count: int, lsns: dict[int, int]) -> None:
        """Rows of asynchronous transactions while nothing waits; `lsns` has the last one of each replica."""
        for replica_id, lsn in lsns.items():
            self._clock.reset(replica_id, max(lsn, self._clock[replica_id]))
        self._rows += count
        self._offer(CutPoint(self._rows, self._clock.copy()))

    def take(self, transaction: Sequence[Row]) -> None:
        """The next transaction."""
        last = transaction[-1]
        is_synchronous = last.wait_ack or any(_space_of(row) in self.synchronous for row in transaction)
        if is_synchronous:
            first = transaction[0]
            self._open.append(((first.replica_id, first.lsn), CutPoint(self._rows, self._clock.copy())))
        self.decisions.take(transaction, is_synchronous=is_synchronous)
        for row in transaction:
            self._clock.reset(row.replica_id, max(row.lsn, self._clock[row.replica_id]))
        self._rows += len(transaction)
        self._settle()

    def _settle(self) -> None:
        """Offer the places before which everything is decided."""
        oldest = self.decisions.oldest
        if oldest is None:
            self._open.clear()
            self._offer(CutPoint(self._rows, self._clock.copy()))
            return
        while self._open and self._open[0][1].vclock[oldest[0]] < oldest[1]:
            self._offer(self._open.popleft()[1])

    def _offer(self, place: CutPoint) -> None:
        if self.is_over:
            return
        is_within = self._limit is None or place.rows <= self._limit
        if is_within or not self.found.rows:
            self.found = place
        self.is_over = self._limit is not None and place.rows >= self._limit


def _space_of(row: Row) -> int:
    """The space that a row changes; -1 for none."""
    return decode_row(row)[0] if row.type in DML_TYPES and row.body else -1


def is_schema_change(row: Row) -> bool:
    """Whether the row changes definitions."""
    return _space_of(row) in _SCHEMA_SPACES


def changed(definitions: Definitions, rows: Sequence[Row]) -> Definitions:
    """The definitions after some rows; the same object where none of them is about definitions."""
    found = definitions
    for row in rows:
        if is_schema_change(row):
            found = found.copy() if found is definitions else found
            found.change(*decode_row(row))
    return found
