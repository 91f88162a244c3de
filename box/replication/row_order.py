"""The order between rows of different origins when each comes from another peer (`replication_fetch_once`).

A peer's whole log has every row behind those that it builds upon. Of a part of it that is no longer true: a row may
overtake rows of other origins, which come from other peers. Such a row is held until they are here:

```
held                                                      until
a transaction after a position (`white_list`)             everything up to the position is here
PROMOTE, which decides about rows of the former owner,    those rows are here
and the claim before it
a transaction that cannot be applied: a synchronous       some other rows have come with which it can
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
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.replication.applier_host import TransactionSink
    from box.session import Context

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.25
"""Seconds between two attempts to apply a transaction that conflicts: they grow from one to the other."""
_FINAL: Final = frozenset({ErrorCode.WAL_IO, ErrorCode.SYSTEM, ErrorCode.MEMORY_ISSUE})
"""Errors that other rows do not mend."""


class OutOfOrder(Exception):
    """The rows that have to come first have not come in time."""


class RowOrder:
    """Holds the transactions of one subscription. `patience` gives the seconds that one may be held, `is_over` whether
    the subscription has ended meanwhile."""

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
        """The next transaction has to be looked at before it is applied."""

    def learn(self, after: VClock) -> None:
        """Take note of rows that come before the next transaction."""
        self._after.merge_max(after)
        self._after.reset(self._own_id)
        self.must_wait = not self._sink.applied.covers(self._after)

    def look(self, row: Row) -> None:
        """Learn from the first row of a transaction itself."""
        if row.type == RequestType.PROMOTE or messages.is_claim(row):
            request = messages.decode_synchro(row)
            owner_id, lsn = (request.replica_id, request.lsn) if request.claim is None else request.claim[1:]
            if owner_id not in (0, row.replica_id, self._own_id):
                self.learn(VClock({owner_id: lsn} if lsn else {}))

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply a transaction if nothing keeps it back or makes it wait; False: use `apply`."""
        if self.must_wait:
            return False
        try:
            return self._sink.apply_now(ctx, rows)
        except BoxError as error:
            if error.code in _FINAL:
                raise
            return False

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        """Apply a transaction in its turn. OutOfOrder when that does not come; errors that no other row mends."""
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
        """Until some transaction has been applied. OutOfOrder at the deadline, and when the subscription is over."""
        if self._is_over():
            raise OutOfOrder
        try:
            async with asyncio.timeout_at(deadline):
                await changed
        except TimeoutError:
            raise OutOfOrder from None
        if self._is_over():
            raise OutOfOrder
