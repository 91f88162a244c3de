"""`box.ctl.promote`: who takes over a limbo waits until a quorum has what is in it, then says so in a PROMOTE row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from box.errors import ErrorCode, client_error, unsupported
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest

if TYPE_CHECKING:
    from box.txn.limbo import Limbo


def _no_check() -> None:
    """Elections are off."""


class LimboAccess(Protocol):
    """The limbo's driver, as a promotion sees it."""

    @property
    def own_vclock(self) -> Mapping[int, int]:
        """The rows that are in the WAL of this instance."""

    def now(self) -> float:
        """The clock that deadlines are told in, seconds."""

    async def wait_change(self, deadline: float) -> bool:
        """Wait for another state of the queue, of options or of acknowledgements; False at the deadline.
        FiberIsCancelled if the node closes."""

    async def write(self, request: SynchroRequest, check: Callable[[], None]) -> None:
        """Write a row when nobody else changes the limbo, if `check` raises nothing then, and act on it. WAL_IO."""


class Promoter:
    """One per node."""

    def __init__(self, limbo: Limbo, access: LimboAccess) -> None:
        self._limbo = limbo
        self._access = access
        self._acks: dict[int, Mapping[int, int]] = {}
        self._is_promoting = False

    def on_ack(self, replica_id: int, vclock: Mapping[int, int]) -> None:
        """A follower told which rows it has, whoever's they are."""
        self._acks[replica_id] = dict(vclock)

    def forget(self, replica_id: int) -> None:
        """The acknowledgements of a follower do not count for a promotion that begins later."""
        self._acks.pop(replica_id, None)

    async def promote(self, term: int, check_leads: Callable[[], None] | None = None) -> None:
        """Confirm what a quorum has, roll back the rest.

        `check_leads` raises what keeps an elected leader from it now: who leads no longer takes nothing over, and what
        others acknowledge then may be rows that they have rolled back. Without elections the former owner gets some
        time to decide itself. UNSUPPORTED (two calls at once), INTERFERING_PROMOTE, QUORUM_WAIT, WAL_IO,
        FiberIsCancelled if the node closes meanwhile.
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
        """Up to where the former owner's transactions can be confirmed, once a quorum has all of them."""
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
            # If a quorum has the proposal, too, its author may have rolled back what waits.
            return limbo.entries[0].lsn - 1
        await self._wait_quorum(former, lsn, quorum, check_leads or _no_check)
        if quorum < limbo.quorum:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "quorum was increased while waiting")
        if lsn < limbo.last_synchro_lsn:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "new synchronous transactions appeared")
        return lsn

    async def _wait_quorum(self, origin_id: int, lsn: int, quorum: int, check_leads: Callable[[], None]) -> None:
        """Wait until so many instances, this one included, have the origin's rows up to `lsn`."""
        timeout = self._limbo.timeout
        deadline = self._access.now() + timeout
        while self.holders(origin_id, lsn) < quorum:
            is_changed = await self._access.wait_change(deadline)
            check_leads()
            if not is_changed and (count := self.holders(origin_id, lsn)) < quorum:
                text = f"timeout after {timeout:.2f} seconds, collected {count} acks"
                raise client_error(ErrorCode.QUORUM_WAIT, quorum, text)

    def voters_with(self, origin_id: int, lsn: int) -> int:
        """As `holders`, without anonymous replicas, which have no vote."""
        return self.holders(origin_id, lsn) - (self._acks.get(0, {}).get(origin_id, 0) >= lsn > 0)

    def holders(self, origin_id: int, lsn: int) -> int:
        """The number of instances, this one included, that have the origin's rows up to `lsn` in their logs."""
        own = self._access.own_vclock.get(origin_id, 0) >= lsn
        return own + sum(vclock.get(origin_id, 0) >= lsn for vclock in self._acks.values())
