"""Writes the CONFIRM rows of another instance, one behind the other, without waiting for each.

```
row of the owner          tx thread                          log                   limbo
transaction 1             append                             1                     1
CONFIRM 1                 goes to the log at once            1 CONFIRM             1
transaction 2             append                             1 CONFIRM 2           1 2
CONFIRM 2                 goes to the log at once            1 CONFIRM 2 CONFIRM   1 2
                          all of it is written                                     empty
```

A follower that waited for each CONFIRM would need one turn of the journal for every transaction, and on a busy machine
could not keep up with its leader. On the way to the log a CONFIRM holds the limbo's latch as a reader: it does not
change the owner, so transactions of the owner may follow it, as they do on the owner itself. A decision of any other
kind waits for it, and so does a transaction of another instance, which the limbo would refuse until the queue is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from box.errors import BoxError
from box.txn.latch import RWLatch
from box.txn.limbo import Decision, Limbo, LimboOutcome
from box.txn.promotion_record import PromotionRecord
from box.wire.constants import RequestType
from box.wire.entry import JournalEntry, JournalSink
from box.wire.messages import decode_synchro
from box.wire.row import Row

if TYPE_CHECKING:
    from box.wire.messages import SynchroRequest


class ConfirmHost(Protocol):
    """The driver of the limbo, as a CONFIRM on its way to the log needs it."""

    limbo: Limbo
    journal: JournalSink
    latch: RWLatch
    promotions: PromotionRecord

    def settle(self, outcome: LimboOutcome) -> None:
        """Tell transactions their outcome."""

    def go_on(self) -> None:
        """Write the row that the limbo asks for, or wait for its next deadline."""

    def go_on_later(self) -> None:
        """Continue after a delay, because the journal has failed."""


class IncomingConfirms:
    """The CONFIRM rows of another instance that are on their way to the log. `count` is their number."""

    def __init__(self, host: ConfirmHost) -> None:
        self._host = host
        self.count = 0

    def hinder(self, origin_id: int) -> bool:
        """Return True if a transaction of an instance has to wait for the rows on their way."""
        return self.count != 0 and origin_id != self._host.limbo.owner_id

    def submit(self, row: Row, on_end: Callable[[BoxError | None], None]) -> bool:
        """Hand a row over to the journal; returns False, with nothing done, if it has to wait or is something else.

        `on_end` is called after the write, with its error or None.

        Raises:
            ClientError: INVALID_MSGPACK; WAL_IO, the journal takes no rows.
        """
        host = self._host
        limbo = host.limbo
        if row.type != RequestType.CONFIRM or row.replica_id != limbo.owner_id or limbo.owner_id == limbo.instance_id:
            return False
        request = decode_synchro(row)
        if request.claim is not None or request.replica_id != limbo.owner_id or not host.latch.try_read():
            return False
        promotions = host.promotions
        if promotions.is_to_be_void(row) or promotions.contradiction_of(row, request) is not None:
            host.latch.release_read()
            return False
        self._begin(request)
        try:
            host.journal.submit(JournalEntry([row], lambda entry: self._written(row, request, entry.error, on_end)))
        except BoxError:
            self._end(written=False)
            host.latch.release_read()
            raise
        return True

    def _begin(self, request: SynchroRequest) -> None:
        self.count += 1
        self._host.limbo.begin(Decision(request.type, request.lsn), request.replica_id)

    def _end(self, *, written: bool) -> None:
        self.count -= 1
        if not self.count:
            self._host.limbo.end(written=written)

    def _written(
        self, row: Row, request: SynchroRequest, error: BoxError | None, on_end: Callable[[BoxError | None], None]
    ) -> None:
        host = self._host
        self._end(written=error is None)
        if error is None:
            host.settle(host.promotions.process(row, request))
        host.latch.release_read()
        on_end(error)
        if error is not None:
            host.go_on_later()
        elif not self.count:
            host.go_on()
