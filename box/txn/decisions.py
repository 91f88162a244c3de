"""Finds CONFIRM, ROLLBACK and PROMOTE rows that contradict an earlier decision.

```
decided here                        a later row                                        verdict
rows m..n of 2 are rolled back      PROMOTE or CONFIRM of a row between m and n        a contradiction
rows m..n of 2 came as NOPs         PROMOTE or CONFIRM of a row between m and n        a contradiction
rows of 2 are confirmed up to c     PROMOTE of 2 up to n with 0 < n < c                a contradiction
rows of 2 are confirmed up to c     ROLLBACK of 2 from m on with m <= c                a contradiction
```

A decision that has taken effect cannot be reverted: later transactions may build on it, and callers know the outcome.
So an instance that finds a contradiction reports that it has diverged and applies no more rows, instead of silently
choosing one of the two decisions. If the author of the later row was deposed before, the author has diverged: this
instance has the decision of a later leader, applies no more rows of the author, and does not vote for it.

The lsn of a PROMOTE is that of a synchronous row. If it falls between the rows of a ROLLBACK, its author had not
received the ROLLBACK: otherwise these rows would have left its limbo.

The record has at most the newest 64 ranges of each instance. A snapshot keeps it, unless `replication_keep_promotions`
is `false`: then the record covers the decisions since the last snapshot. Tarantool 2.10 and later refuse such rows as
well, with the same text; 2.8.1 accepts them silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from box.errors import BoxError
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from box.txn.limbo import LimboOutcome
    from box.wire.messages import SynchroRequest
    from box.wire.row import Row

SPLIT_BRAIN: Final = 244
"""The error code that Tarantool 2.11 uses; the table of 2.8.1, which `box.error` lists, has no such code."""
_RANGES: Final = 64
"""The number of ranges remembered for each instance; a contradiction concerns the newest rows of a former leader."""


_BEFORE: Final = "a decision before the snapshot"


class _Range(NamedTuple):
    """Rows `first` to `last` of one instance that have no effect here, and the decision that is the reason."""

    first: int
    last: int
    reason: str


def decision_text(row: Row, request: SynchroRequest) -> str:
    """Return a decision as text: `PROMOTE {replica 2, lsn 5711, term 7} of instance 1, lsn 40`."""
    term = f", term {request.term}" if request.term else ""
    about = f"{{replica {request.replica_id}, lsn {request.lsn}{term}}}"
    return f"{RequestType(request.type).name} {about} of instance {row.replica_id}, lsn {row.lsn}"


class _Decision(NamedTuple):
    """A decision that has confirmed rows. Its text is made only on request, because there is such an object for each
    CONFIRM.
    """

    row: Row
    request: SynchroRequest

    def __str__(self) -> str:
        return decision_text(self.row, self.request)


class DecisionRecord:
    """The decisions that have taken effect on this node. Pure: no clock, no files."""

    def __init__(self) -> None:
        self._without_effect: dict[int, list[_Range]] = {}
        """The newest ranges of rows without an effect, by the id of the instance that wrote them."""
        self._confirmed: dict[int, tuple[int, _Decision | str]] = {}
        """By instance id: the lsn up to which its rows are confirmed, and the decision that confirmed them or its text.
        """

    def note(self, row: Row, request: SynchroRequest, outcome: LimboOutcome) -> None:
        """Record a decision that has taken effect."""
        owner_id = request.replica_id
        if outcome.rolled_back:
            first, last = outcome.rolled_back[-1].place[0], outcome.rolled_back[0].place[1]
            if first > 0:  # rows with lsn 0 are not written yet, so no other instance has them
                reason = decision_text(row, request)
                self._add(outcome.rolled_back[0].origin_id or row.replica_id, _Range(first, last, reason))
        if request.type != RequestType.ROLLBACK and request.lsn > self._confirmed.get(owner_id, (0, ""))[0]:
            self._confirmed[owner_id] = request.lsn, _Decision(row, request)

    @property
    def confirmed(self) -> dict[int, int]:
        """The lsn up to which the rows of an instance are confirmed, by its id."""
        return {owner_id: lsn for owner_id, (lsn, _) in self._confirmed.items()}

    @property
    def without_effect(self) -> dict[int, list[tuple[int, int]]]:
        """The ranges (first lsn, last lsn) of rows that have no effect here, by the id of the rows' instance."""
        ranges = self._without_effect.items()
        return {origin_id: [(one.first, one.last) for one in found] for origin_id, found in ranges}

    def restore(
        self, confirmed: Mapping[int, int], without_effect: Mapping[int, Sequence[tuple[int, int]]] | None = None
    ) -> None:
        """Restore the confirmed lsns, and the ranges of rows without an effect, that a snapshot has kept."""
        for owner_id, lsn in confirmed.items():
            self._confirmed[owner_id] = lsn, _BEFORE
        for origin_id, places in ({} if without_effect is None else without_effect).items():
            self._without_effect[origin_id] = [_Range(first, last, _BEFORE) for first, last in places]

    def note_nops(self, rows: list[Row]) -> None:
        """Record a transaction of the log, or of another instance, if all its rows are NOPs."""
        first, last = rows[0], rows[-1]
        if last.type == RequestType.NOP and first.replica_id and all(row.type == RequestType.NOP for row in rows):
            self._add(first.replica_id, _Range(first.lsn, last.lsn, "an earlier decision (it made the row a NOP)"))

    def _add(self, origin_id: int, added: _Range) -> None:
        ranges = self._without_effect.setdefault(origin_id, [])
        if ranges and ranges[-1].last + 1 == added.first and ranges[-1].reason == added.reason:
            ranges[-1] = ranges[-1]._replace(last=added.last)
            return
        ranges.append(added)
        del ranges[:-_RANGES]

    def contradiction_of(self, row: Row, request: SynchroRequest) -> BoxError | None:
        """Return the error for a decision that would contradict an earlier one, or None."""
        owner_id, lsn = request.replica_id, request.lsn
        confirmed, decision = self._confirmed.get(owner_id, (0, ""))
        if request.type == RequestType.ROLLBACK:
            is_contrary = 0 < lsn <= confirmed
            return _split_brain(row, request, f"rolls back what {decision} has confirmed here") if is_contrary else None
        for known in self._without_effect.get(owner_id, ()):
            if known.first <= lsn <= known.last:
                return _split_brain(row, request, f"confirms what {known.reason} has rolled back here")
        if request.type == RequestType.PROMOTE and 0 < lsn < confirmed:
            return _split_brain(row, request, f"does not have what {decision} has confirmed here")
        return None


def _split_brain(row: Row, request: SynchroRequest, what: str) -> BoxError:
    return BoxError(SPLIT_BRAIN, f"Split-Brain discovered: {decision_text(row, request)} {what}")
