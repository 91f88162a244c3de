"""`box.ctl.promote`: who takes over a limbo waits until a quorum has what is in it, then says so in a PROMOTE row.

With elections a claim goes before it, a row that announces the PROMOTE. That is written when a quorum has the claim,
and with it all that was in the log before: box.replication.raft tells why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from box.errors import ErrorCode, client_error, unsupported
from box.wire.constants import RequestType
from box.wire.messages import Claim, SynchroRequest

if TYPE_CHECKING:
    from box.txn.limbo import Limbo
    from box.txn.promotion_record import PromotionRecord


def _no_check() -> None:
    """Elections are off."""


class LimboAccess(Protocol):
    """The limbo's driver, as a promotion sees it."""

    voters_needed: Callable[[], int]
    """Instances, this one included, that elect a leader."""

    @property
    def own_vclock(self) -> Mapping[int, int]:
        """The rows that are in the WAL of this instance."""

    def now(self) -> float:
        """The clock that deadlines are told in, seconds."""

    async def wait_change(self, deadline: float) -> bool:
        """Wait for another state of the queue, of options or of acknowledgements; False at the deadline.
        FiberIsCancelled if the node closes."""

    async def write(self, make: Callable[[], SynchroRequest]) -> None:
        """Write the row that `make` gives when nobody else changes the limbo, and act on it. WAL_IO, and what `make`
        raises."""


class Promoter:
    """One per node."""

    def __init__(self, limbo: Limbo, promotions: PromotionRecord, access: LimboAccess) -> None:
        self._limbo = limbo
        self._promotions = promotions
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
            if check_leads is None:
                await self._promote_unelected(term)
            else:
                await self._promote_elected(term, check_leads)
        finally:
            self._is_promoting = False

    # -- without elections

    async def _promote_unelected(self, term: int) -> None:
        limbo, former = self._limbo, self._limbo.owner_id
        lsn = await self._promotable_lsn(former)
        await self._access.write(lambda: SynchroRequest(RequestType.PROMOTE, former, lsn, term, limbo.instance_id))

    async def _promotable_lsn(self, former: int) -> int:
        """Up to where the former owner's transactions can be confirmed, once a quorum has all of them."""
        limbo = self._limbo
        if not len(limbo):
            return limbo.confirmed_lsn
        deadline = self._access.now() + 2 * limbo.timeout
        while len(limbo) and await self._access.wait_change(deadline):
            pass
        if limbo.owner_id != former:
            raise client_error(ErrorCode.INTERFERING_PROMOTE, limbo.owner_id)
        if not len(limbo):
            return limbo.confirmed_lsn
        lsn = limbo.last_synchro_lsn
        await self._wait_confirmable(former, lsn, _no_check)
        if lsn < limbo.last_synchro_lsn:
            raise client_error(ErrorCode.QUORUM_WAIT, limbo.quorum, "new synchronous transactions appeared")
        return lsn

    # -- with elections

    async def _promote_elected(self, term: int, check_leads: Callable[[], None]) -> None:
        """Write a claim, unless it is in the log already; when those who elect a leader have it, the PROMOTE."""
        decision = await self._claimed(term, check_leads)
        if self._has_to_confirm(decision):
            await self._wait_confirmable(decision.owner_id, decision.lsn, check_leads)

        def promotion() -> SynchroRequest:
            check_leads()
            return SynchroRequest(RequestType.PROMOTE, decision.owner_id, decision.lsn, term, self._limbo.instance_id)

        await self._access.write(promotion)

    async def _claimed(self, term: int, check_leads: Callable[[], None]) -> Claim:
        """The decision that those who elect a leader know of."""
        own_id = self._limbo.instance_id
        if self._own_claim(term) is None:
            # An instance without elections may have been promoted in this term: a claim would look settled by that.
            if term <= self._promotions.log_term or self._access.voters_needed() <= 1:
                check_leads()
                return self._decide(term)

            def claim() -> SynchroRequest:
                check_leads()
                return self._claim_request(term)

            await self._access.write(claim)
            check_leads()
        decision, (_, lsn) = self._own_claim(term), self._promotions.claim_place
        if decision is None:
            raise client_error(ErrorCode.INTERFERING_PROMOTE, self._limbo.owner_id)
        await self._wait(lambda: self.voters_with(own_id, lsn), self._access.voters_needed, check_leads)
        return decision

    def _own_claim(self, term: int) -> Claim | None:
        """Our claim of a term, if it is in the log."""
        claim, (origin_id, _) = self._promotions.claim, self._promotions.claim_place
        is_ours = claim is not None and claim.term == term and origin_id == self._limbo.instance_id
        return claim if is_ours else None

    def _claim_request(self, term: int) -> SynchroRequest:
        """The row says nothing new to who knows no claims: what it confirms is decided already."""
        limbo, claim = self._limbo, self._decide(term)
        named = limbo.owner_id or limbo.instance_id
        known = limbo.entries[0].lsn - 1 if limbo.entries else self._access.own_vclock.get(named, 0)
        return SynchroRequest(RequestType.CONFIRM, named, max(known, 0), 0, limbo.instance_id, claim=claim)

    def _decide(self, term: int) -> Claim:
        """Up to where the transactions that wait are to be confirmed. A former leader's claim binds: it may have
        written its PROMOTE."""
        limbo, known = self._limbo, self._promotions.open_claim
        if known is not None:
            return known._replace(term=term)
        if not limbo.entries:
            lsn = limbo.confirmed_lsn
        elif limbo.proposal:
            # If a quorum has the proposal, too, its author may have rolled back what waits.
            lsn = max(limbo.entries[0].lsn - 1, 0)
        else:
            lsn = limbo.last_synchro_lsn
        return Claim(term, limbo.owner_id, lsn)

    def _has_to_confirm(self, claim: Claim) -> bool:
        limbo = self._limbo
        return limbo.owner_id == claim.owner_id and any(
            entry.wait_ack and entry.lsn <= claim.lsn for entry in limbo.entries
        )

    # -- quorums

    async def _wait_confirmable(self, origin_id: int, lsn: int, check_leads: Callable[[], None]) -> None:
        """Wait until a quorum has the origin's rows up to `lsn`."""
        limbo = self._limbo
        quorum = limbo.quorum
        await self._wait(lambda: self.holders(origin_id, lsn), lambda: quorum, check_leads)
        if quorum < limbo.quorum:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "quorum was increased while waiting")

    async def _wait(self, count: Callable[[], int], quorum: Callable[[], int], check_leads: Callable[[], None]) -> None:
        """Wait until so many instances have some rows; QUORUM_WAIT after `replication_synchro_timeout`."""
        timeout = self._limbo.timeout
        deadline = self._access.now() + timeout
        while count() < quorum():
            is_changed = await self._access.wait_change(deadline)
            check_leads()
            if not is_changed and (collected := count()) < quorum():
                text = f"timeout after {timeout:.2f} seconds, collected {collected} acks"
                raise client_error(ErrorCode.QUORUM_WAIT, quorum(), text)

    def voters_with(self, origin_id: int, lsn: int) -> int:
        """As `holders`, without anonymous replicas, which have no vote."""
        return self.holders(origin_id, lsn) - (self._acks.get(0, {}).get(origin_id, 0) >= lsn > 0)

    def holders(self, origin_id: int, lsn: int) -> int:
        """The number of instances, this one included, that have the origin's rows up to `lsn` in their logs."""
        own = self._access.own_vclock.get(origin_id, 0) >= lsn
        return own + sum(vclock.get(origin_id, 0) >= lsn for vclock in self._acks.values())
