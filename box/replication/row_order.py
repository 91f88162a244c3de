"""Restores the order of rows whose origins are fetched from different peers (`replication_fetch_once`).

In the whole log of a peer, every row follows the rows that it depends on. In a part of the log it may not: a row can
overtake rows of other origins, which come from other peers. Such a row is held until they have arrived:

```
held                                                      until
a transaction after a position (`white_list`)             everything up to the position is here
PROMOTE, which decides about rows of the former owner,    those rows are here
and the claim before it
a transaction that cannot be applied: a synchronous       it can be applied after other rows have come
one while the limbo waits for another instance's
CONFIRM, a change of a space that is not here yet
any of them, too long                                     the peer is asked for everything, which is in order
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode
from box.wire import messages
from box.wire.constants import PROMOTION_TYPES
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.replication.applier_host import TransactionSink
    from box.session import Context

_FIRST_PAUSE: Final = 0.002
"""Seconds between the first two attempts to apply a transaction that conflicts; each further pause is twice as long."""
_LONGEST_PAUSE: Final = 0.25
"""The longest pause in seconds between two attempts to apply a transaction that conflicts."""
_FINAL: Final = frozenset({ErrorCode.WAL_IO, ErrorCode.SYSTEM, ErrorCode.MEMORY_ISSUE})
"""Errors that the arrival of other rows cannot resolve."""


class OutOfOrder(Exception):
    """Raised when the rows that a transaction depends on have not arrived in time."""


class RowOrder:
    """The order of one subscription's transactions.

    `patience` returns the seconds that a transaction may be held, `is_over` whether the subscription has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: TransactionSink,
        own_id: int,
        *,
        patience: Callable[[], float],
        is_over: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._sink = sink
        self._own_id = own_id
        self._patience = patience
        self._is_over = is_over
        self._after = VClock()
        self.must_wait = False
        """True if the next transaction depends on rows that are not here yet, so that `apply` has to hold it."""

    def learn(self, after: VClock) -> None:
        """Note the rows that the next transaction depends on."""
        self._after.merge_max(after)
        self._after.reset(self._own_id)
        self.must_wait = not self._sink.applied.covers(self._after)

    def look(self, row: Row) -> None:
        """Note the rows that a PROMOTE or a claim depends on; other rows name none."""
        if row.type in PROMOTION_TYPES or messages.is_claim(row):
            request = messages.decode_synchro(row)
            owner_id, lsn = (request.replica_id, request.lsn) if request.claim is None else request.claim[1:]
            if owner_id not in (0, row.replica_id, self._own_id):
                self.learn(VClock({owner_id: lsn} if lsn else {}))

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply a transaction without waiting; returns False, with nothing done, if `apply` is needed.

        Raises:
            BoxError: an error that the arrival of other rows cannot resolve.
        """
        if self.must_wait:
            return False
        try:
            return self._sink.apply_now(ctx, rows)
        except BoxError as error:
            if error.code in _FINAL:
                raise
            return False

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        """Wait until a transaction can be applied, and apply it.

        Raises:
            OutOfOrder: the rows that it depends on have not come in time, or the subscription has ended.
            BoxError: an error that the arrival of other rows cannot resolve.
        """
        self.look(rows[0])
        deadline = self._loop.time() + self._patience()
        while not self._sink.applied.covers(self._after):
            await self._wait(self._sink.progress.next(), deadline)
        self.must_wait = False
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._sink.apply(ctx, rows)
                return
            except BoxError as error:
                if error.code in _FINAL:
                    raise
            changed = self._sink.progress.next()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            await self._wait(changed, deadline)

    async def _wait(self, changed: asyncio.Future[None], deadline: float) -> None:
        """Wait until another transaction was applied.

        Raises:
            OutOfOrder: the deadline has passed, or the subscription has ended.
        """
        if self._is_over():
            raise OutOfOrder
        try:
            async with asyncio.timeout_at(deadline):
                await changed
        except TimeoutError:
            raise OutOfOrder from None
        if self._is_over():
            raise OutOfOrder
