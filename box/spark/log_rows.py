"""Decides which rows of a log took effect, from the rows that confirm or roll back synchronous transactions.

A transaction that changes a synchronous space, and each one written after it, waits for a CONFIRM row. It has no
effect if a ROLLBACK row undid it, or if none of the rows that are read decides about it.

```
row                                   effect on the waiting transactions
of a synchronous transaction,         the transaction joins them
or of any while others wait
CONFIRM(lsn)                          synchronous ones up to lsn take effect, and all others before the next one
ROLLBACK(lsn)                         synchronous ones from lsn on are undone, with everything after the first of them
PROMOTE(lsn)                          both, the second from lsn + 1 on; then another instance owns the queue
```

A CONFIRM or ROLLBACK for another instance than the owner of the waiting transactions has no effect. A PROMOTE for
another instance undoes them all. Transactions of local spaces alone never wait. Since Tarantool 2.8 flags of the row
show whether it waits; in older logs the definition of the space does. Source: Tarantool's replication documents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from box.wire.constants import GROUP_LOCAL, SYNCHRO_TYPES, RequestType
from box.wire.messages import SynchroRequest, decode_synchro
from box.wire.row import Row

RowId = tuple[int, int]
"""A replica id and an lsn."""


@dataclass(slots=True)
class _Waiting:
    """A transaction without a decision: the lsn of its last row, whether it is synchronous, and the ids of its rows."""

    lsn: int
    is_synchronous: bool
    rows: list[RowId]


class Decisions:
    """The waiting transactions and those undone, from all rows of a log after some snapshot."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._owner = 0
        self._term = 0
        self._terms: dict[int, int] = {}
        self._undone: set[RowId] = set()

    @property
    def is_waiting(self) -> bool:
        """True if a transaction waits."""
        return bool(self._waiting)

    @property
    def oldest(self) -> RowId | None:
        """The id of the first row of the oldest waiting transaction, None if none waits."""
        return self._waiting[0].rows[0] if self._waiting else None

    def without_effect(self) -> frozenset[RowId]:
        """Return the ids of the rows that were undone or that wait for a decision."""
        return frozenset(self._undone.union(*(item.rows for item in self._waiting)))

    def take(self, transaction: Sequence[Row], *, is_synchronous: bool = False) -> None:
        """Take the next transaction of the log; `is_synchronous` tells that it changes a synchronous space."""
        last = transaction[-1]
        if last.type in SYNCHRO_TYPES:
            self._decide(decode_synchro(last))
            return
        is_synchronous = is_synchronous or last.wait_ack
        if is_synchronous or ((self._waiting or last.wait_sync) and not all(map(_is_local, transaction))):
            if not self._waiting:
                self._owner = last.replica_id
            rows = [(row.replica_id, row.lsn) for row in transaction]
            self._waiting.append(_Waiting(last.lsn, is_synchronous, rows))

    def _decide(self, request: SynchroRequest) -> None:
        if request.is_void:
            return
        if request.term > self._terms.get(request.origin_id, 0):
            self._terms[request.origin_id] = request.term
            if request.term > self._term:
                self._term = request.term
            elif request.type == RequestType.PROMOTE:
                return  # another instance was promoted in a later term
        lsn = request.lsn
        if request.replica_id not in (0, self._owner):
            if request.type != RequestType.PROMOTE:
                return
            lsn = 0
        if request.type != RequestType.ROLLBACK:
            self._confirm(lsn)
        if request.type != RequestType.CONFIRM:
            self._roll_back(lsn if request.type == RequestType.ROLLBACK else lsn + 1)
        if request.type == RequestType.PROMOTE:
            self._owner = 0 if request.is_demotion else request.origin_id

    def _confirm(self, lsn: int) -> None:
        while self._waiting and not (self._waiting[0].is_synchronous and self._waiting[0].lsn > lsn):
            self._waiting.popleft()

    def _roll_back(self, lsn: int) -> None:
        first = next(
            (number for number, item in enumerate(self._waiting) if item.is_synchronous and item.lsn >= lsn),
            len(self._waiting),
        )
        while len(self._waiting) > first:
            self._undone.update(self._waiting.pop().rows)


def _is_local(row: Row) -> bool:
    return row.group_id == GROUP_LOCAL


def transactions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Return the rows of a block as transactions, which never extend over two blocks."""
    transaction: list[Row] = []
    for row in rows:
        transaction.append(row)
        if row.is_commit:
            yield transaction
            transaction = []
