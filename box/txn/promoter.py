"""`box.ctl.promote`: waits until a quorum has the limbo's transactions, then takes over the limbo by a PROMOTE row.

With elections the instance first writes a claim, a row that announces the PROMOTE. It writes the PROMOTE once a quorum
has the claim, and with it everything that was in the log before; `box.replication.raft` has the argument.
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
    """Check nothing, because elections are off."""


class LimboAccess(Protocol):
    """The methods of the limbo's driver that a promotion needs."""

    voters_needed: Callable[[], int]
    """Instances, this one included, that elect a leader."""

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

    async def write(self, make: Callable[[], SynchroRequest]) -> None:
        """Take the latch, call `make`, write the row that it returns and process it.

        Raises:
            BoxError: the error of `make`; nothing is written.
            DiskWriteError: WAL_IO.
        """


class Promoter:
    """Runs the promotions of one node."""

    def __init__(self, limbo: Limbo, promotions: PromotionRecord, access: LimboAccess) -> None:
        self._limbo = limbo
        self._promotions = promotions
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
        """Return the lsn up to which the former owner's transactions can be confirmed; waits until a quorum has all."""
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
        """Write a claim unless the log has ours; return its decision once a quorum has the row."""
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
        """Return our claim of a term if it is in the log, else None."""
        claim, (origin_id, _) = self._promotions.claim, self._promotions.claim_place
        is_ours = claim is not None and claim.term == term and origin_id == self._limbo.instance_id
        return claim if is_ours else None

    def _claim_request(self, term: int) -> SynchroRequest:
        """Make the row of a claim. It confirms only what is confirmed already, so Tarantool 2.8.1 takes it for an
        ordinary CONFIRM.
        """
        limbo, claim = self._limbo, self._decide(term)
        named = limbo.owner_id or limbo.instance_id
        known = limbo.entries[0].lsn - 1 if limbo.entries else self._access.own_vclock.get(named, 0)
        return SynchroRequest(RequestType.CONFIRM, named, max(known, 0), 0, limbo.instance_id, claim=claim)

    def _decide(self, term: int) -> Claim:
        """Decide up to which lsn the waiting transactions are confirmed.

        An open claim of a former leader is binding, because that leader may have written its PROMOTE.
        """
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
        """Wait until a quorum has the origin's rows up to `lsn`.

        Raises:
            RequestTimeoutError: QUORUM_WAIT.
        """
        limbo = self._limbo
        quorum = limbo.quorum
        await self._wait(lambda: self.holders(origin_id, lsn), lambda: quorum, check_leads)
        if quorum < limbo.quorum:
            raise client_error(ErrorCode.QUORUM_WAIT, quorum, "quorum was increased while waiting")

    async def _wait(self, count: Callable[[], int], quorum: Callable[[], int], check_leads: Callable[[], None]) -> None:
        """Wait until the function `count` returns at least `quorum`.

        Raises:
            RequestTimeoutError: QUORUM_WAIT, after `replication_synchro_timeout`.
        """
        timeout = self._limbo.timeout
        deadline = self._access.now() + timeout
        while count() < quorum():
            is_changed = await self._access.wait_change(deadline)
            check_leads()
            if not is_changed and (collected := count()) < quorum():
                text = f"timeout after {timeout:.2f} seconds, collected {collected} acks"
                raise client_error(ErrorCode.QUORUM_WAIT, quorum(), text)

    def voters_with(self, origin_id: int, lsn: int) -> int:
        """Return how many instances with a vote have the origin's rows up to `lsn` in their logs; anonymous replicas
        have no vote.
        """
        return self.holders(origin_id, lsn) - (self._acks.get(0, {}).get(origin_id, 0) >= lsn > 0)

    def holders(self, origin_id: int, lsn: int) -> int:
        """Return the number of instances, including this one, that have the origin's rows up to `lsn` in their logs."""
        own = self._access.own_vclock.get(origin_id, 0) >= lsn
        return own + sum(vclock.get(origin_id, 0) >= lsn for vclock in self._acks.values())
