"""`box.ctl.promote`: waits until a quorum has the limbo's transactions, then takes over the limbo by a PROMOTE row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from box.errors import ErrorCode, client_error, unsupported
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest

if TYPE_CHECKING:
    from box.txn.limbo import Limbo


def _no_check() -> None:
    """Check nothing, because elections are off."""


class LimboAccess(Protocol):
    """The methods of the limbo's driver that a promotion needs."""

    @property
    def own_vclock(self) -> Mapping[int, int]:
        """The vclock of the WAL of this instance."""

    def now(self) -> float:
        """Return the time in seconds, by the clock of the deadlines."""

    async def wait_change(self, deadline: float) -> bool:
        """Wait until the queue, an option or an acknowledgement changes; returns False at the deadline.

        Raises:
            FiberIsCancelled: the node closes.
        """

    async def write(self, request: SynchroRequest, check: Callable[[], None]) -> None:
        """Take the latch, call `check`, write a row and process it.

        Raises:
            BoxError: the error of `check`; nothing is written.
            DiskWriteError: WAL_IO.
        """


class Promoter:
    """Runs the promotions of one node."""

    def __init__(self, limbo: Limbo, access: LimboAccess) -> None:
        self._limbo = limbo
        self._access = access
        self._acks: dict[int, Mapping[int, int]] = {}
        """The vclock that each follower has acknowledged."""
        self._is_promoting = False

    def on_ack(self, replica_id: int, vclock: Mapping[int, int]) -> None:
        """Record the rows of all origins that a follower has."""
        self._acks[replica_id] = dict(vclock)

    def forget(self, replica_id: int) -> None:
        """Forget the acknowledgements of a follower: they do not count for later promotions."""
        self._acks.pop(replica_id, None)

    async def promote(self, term: int, check_leads: Callable[[], None] | None = None) -> None:
        """Confirm what a quorum has and roll back the rest.

        `check_leads` raises an error if the elected leader must not continue: an instance that no longer leads takes
        nothing over, and the rows that others acknowledge then may be rolled back there. It is None without elections;
        then the former owner first gets some time to decide itself.

        Raises:
            UnsupportedError: UNSUPPORTED, another call is running.
            ClientError: INTERFERING_PROMOTE, QUORUM_WAIT or WAL_IO.
            FiberIsCancelled: the node closes.
        """
        if self._is_promoting:
            raise unsupported("box.ctl.promote", "simultaneous invocations")
        self._is_promoting = True
        try:
            former = self._limbo.owner_id
            lsn = await self._promotable_lsn(former, check_leads)
            request = SynchroRequest(RequestType.PROMOTE, former, lsn, term, self._limbo.instance_id)
            await self._access.write(request, check_leads or _no_check)
        finally:
            self._is_promoting = False

    async def _promotable_lsn(self, former: int, check_leads: Callable[[], None] | None) -> int:
        """Return the lsn up to which the former owner's transactions can be confirmed; waits until a quorum has all."""
        limbo = self._limbo
        if not len(limbo):
            return limbo.confirmed_lsn
        if check_leads is None:
            deadline = self._access.now() + 2 * limbo.timeout
            while len(limbo) and await self._access.wait_change(deadline):
                pass
            if limbo.owner_id != former:
                raise client_error(ErrorCode.INTERFERING_PROMOTE, limbo.owner_id)
            if not len(limbo):
                return limbo.confirmed_lsn
        quorum, lsn = limbo.quorum, limbo.last_synchro_lsn
        if limbo.proposal and check_leads is not None:
            # Confirm nothing: if a quorum has the proposal, its author may have rolled back what waits.
            return limbo.entries[0].lsn - 1
        await self._wait_quorum(former, lsn, quorum, check_leads or _no_check)
        if quorum < limbo.quorum:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "quorum was increased while waiting")
        if lsn < limbo.last_synchro_lsn:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "new synchronous transactions appeared")
        return lsn

    async def _wait_quorum(self, origin_id: int, lsn: int, quorum: int, check_leads: Callable[[], None]) -> None:
        """Wait until `quorum` instances, including this one, have the origin's rows up to `lsn`.

        Raises:
            RequestTimeoutError: QUORUM_WAIT, the synchro timeout is over.
        """
        timeout = self._limbo.timeout
        deadline = self._access.now() + timeout
        while self.holders(origin_id, lsn) < quorum:
            is_changed = await self._access.wait_change(deadline)
            check_leads()
            if not is_changed and (count := self.holders(origin_id, lsn)) < quorum:
                text = f"timeout after {timeout:.2f} seconds, collected {count} acks"
                raise client_error(ErrorCode.QUORUM_WAIT, quorum, text)

    def voters_with(self, origin_id: int, lsn: int) -> int:
        """Return the number of instances like `holders`, without anonymous replicas, which have no vote."""
        return self.holders(origin_id, lsn) - (self._acks.get(0, {}).get(origin_id, 0) >= lsn > 0)

    def holders(self, origin_id: int, lsn: int) -> int:
        """Return the number of instances, including this one, that have the origin's rows up to `lsn` in their logs."""
        own = self._access.own_vclock.get(origin_id, 0) >= lsn
        return own + sum(vclock.get(origin_id, 0) >= lsn for vclock in self._acks.values())
