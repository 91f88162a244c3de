"""The quorum that `box.ctl.promote` asks before it takes over the limbo, if `replication_promote_quorum` is on.

Without the option an instance takes over the limbo with the rows that it has, and asks no other if its own limbo is
empty. Suppose the former owner and a quorum had confirmed a transaction that has not arrived here: the members without
its CONFIRM roll it back, and the others keep it. With the option:

```
collect    the present vclocks of enough members that any quorum of acknowledgements includes one of them
wait       until every row up to all of these vclocks is here
```

Then all rows that a quorum had acknowledged are in the limbo here, and the promotion confirms them. This does not stop
a former owner that is alive from writing meanwhile: that takes elections.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error
from box.net.dial import open_connection
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.replicaset import ReplicaSet
from box.waiters import end_all
from box.wire import messages
from box.wire.ballot import Ballot
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.net.network import Network
    from box.txn.limbo import Limbo

_PAUSE: Final = 0.1
"""Seconds between two attempts to ask the same member."""
_LOOK: Final = 0.005
"""Seconds between two checks whether the rows have arrived."""


class PromotionQuorum:
    """The collector of the members' vclocks. It asks the sources, the only members whose addresses are known."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        options: ReplicationOptions,
        replicaset: ReplicaSet,
        limbo: Limbo,
        network: Network,
    ) -> None:
        self._loop = loop
        self._instance = instance
        self._options = options
        self._replicaset = replicaset
        self._limbo = limbo
        self._network = network

    @property
    def size(self) -> int:
        """The number of vclocks to collect, this one included: at least a quorum, and one member of any quorum."""
        members, quorum = len(self._replicaset.registered), self._limbo.quorum
        return max(quorum, members - quorum + 1)

    async def catch_up(self) -> None:
        """Wait until the rows of a quorum are here; returns at once without the option.

        Raises:
            ClientError: QUORUM_WAIT, `replication_synchro_timeout` is over.
        """
        if not self._options.promotes_by_quorum:
            return
        size, timeout = self.size, self._limbo.timeout
        deadline = self._loop.time() + timeout
        clocks = await self._collect(size, deadline)
        if len(clocks) < size:
            text = f"timeout after {timeout:.2f} seconds, collected {len(clocks)} vclocks"
            raise client_error(ErrorCode.QUORUM_WAIT, size, text)
        wanted = VClock()
        for clock in clocks:
            wanted.merge_max(clock.without_zero())
        while not self._instance.vclock.covers(wanted):
            if self._loop.time() >= deadline:
                text = f"timeout after {timeout:.2f} seconds, rows up to {wanted} are not here"
                raise client_error(ErrorCode.QUORUM_WAIT, size, text)
            await asyncio.sleep(_LOOK)

    async def _collect(self, size: int, deadline: float) -> list[VClock]:
        """Return the vclocks of `size` members, or of fewer at the deadline."""
        clocks = [self._instance.vclock.copy()]
        sources = [
            replica.applier.uri
            for replica in self._replicaset.registered
            if replica.applier is not None and not replica.applier.is_self
        ]
        tasks = [self._loop.create_task(self._vclock_of(uri, deadline), name=f"promote/{uri}") for uri in sources]
        waiting = set(tasks)
        try:
            while waiting and len(clocks) < size:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                clocks += [clock for task in tasks if task in done and (clock := task.result()) is not None]
        finally:
            await end_all(tasks)
        return clocks

    async def _vclock_of(self, uri: str, deadline: float) -> VClock | None:
        """Ask a member until it answers, and return its vclock; None at the deadline."""
        while (left := deadline - self._loop.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    return await self._ask(uri, left)
            except TimeoutError:
                return None
            except BoxError:
                await asyncio.sleep(min(_PAUSE, max(deadline - self._loop.time(), 0)))
        return None

    async def _ask(self, uri: str, timeout: float) -> VClock:
        connection = await open_connection(self._loop, self._network, uri, timeout, keeps_rows=True)
        try:
            answer = await connection.request(messages.vote_row(), timeout=timeout)
            return Ballot.decode(answer.body).vclock
        finally:
            connection.close()
