"""Finds the positions in a log where a batch may end: all transactions before the position are decided.

```
log        A1  A2  S3  A4  S5  CONFIRM(3)  A6         A: asynchronous, S: synchronous transactions
batch may ^   ^   ^       ^
end here  0   1   2       4
```

A batch may end before a synchronous transaction, or where none waits, but only if every transaction before this
position has its CONFIRM or ROLLBACK. In the example the last such position is after A4, because S5 waits. A transaction
after a waiting synchronous one (A4) is in the same batch as this one, because a ROLLBACK of S3 undoes both. A reader
that begins at such a position and knows nothing before it makes the same decisions: a CONFIRM or ROLLBACK of an earlier
transaction has no effect on the later ones.
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
"""The spaces whose rows change definitions."""


class CutPoint(NamedTuple):
    """A position in the log: the number of rows of the batch before it, and the vclock there."""

    rows: int
    vclock: VClock


class CutFinder:
    """Finds the last position where a batch may end, from the transactions after a position of the log.

    A batch has about `limit` rows, but at least one transaction if one is decided. `found` is the last position so far.
    """

    def __init__(self, since: VClock, synchronous: frozenset[int], limit: int | None) -> None:
        self.decisions = Decisions()
        self.synchronous = synchronous
        """The ids of the spaces that are synchronous now, for older logs whose rows do not say it."""
        self._limit = limit
        self._clock = since.copy()
        self._rows = 0
        self._open: deque[tuple[RowId, CutPoint]] = deque()
        """The positions before synchronous transactions, each with the id of the transaction's first row.

        They become possible ends when all transactions before them are decided.
        """
        self.found = CutPoint(0, since.copy())
        self.is_over = False
        """True if the limit is reached, so that no later transaction changes `found`."""

    @property
    def is_quiet(self) -> bool:
        """True if no transaction waits, so that a block without special rows can be taken as a whole."""
        return not (self.decisions.is_waiting or self.is_over)

    @property
    def vclock(self) -> VClock:
        """A copy of the vclock after all rows so far."""
        return self._clock.copy()

    def room(self) -> int | None:
        """Return the number of rows that the batch has room for, None without a limit."""
        return None if self._limit is None else max(0, self._limit - self._rows)

    def pass_rows(self, count: int, lsns: dict[int, int]) -> None:
        """Take rows of asynchronous transactions while none waits; `lsns` has the last lsn of each replica."""
        for replica_id, lsn in lsns.items():
            self._clock.reset(replica_id, max(lsn, self._clock[replica_id]))
        self._rows += count
        self._offer(CutPoint(self._rows, self._clock.copy()))

    def take(self, transaction: Sequence[Row]) -> None:
        """Take the next transaction."""
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
        """Offer the positions before which all transactions are decided."""
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
    """Return the id of the space that a row changes, -1 for none."""
    return decode_row(row)[0] if row.type in DML_TYPES and row.body else -1


def is_schema_change(row: Row) -> bool:
    """Return whether the row changes definitions."""
    return _space_of(row) in _SCHEMA_SPACES


def changed(definitions: Definitions, rows: Sequence[Row]) -> Definitions:
    """Return the definitions after some rows; the same object if no row changes definitions."""
    found = definitions
    for row in rows:
        if is_schema_change(row):
            found = found.copy() if found is definitions else found
            found.change(*decode_row(row))
    return found
