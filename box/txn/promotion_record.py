"""What is known of promotions: the latest PROMOTE row, those before it, the rows they made void, the claim.

It is kept in step with the log: each CONFIRM, ROLLBACK and PROMOTE row is recorded once it is in the log, after the
limbo has processed it.

A claim announces a PROMOTE (`box.wire.messages.Claim`). It is open until a PROMOTE of its term or a later one arrives,
and the next leader writes the PROMOTE that an open claim announces. `box.replication.raft` has the argument.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from box.txn.decisions import DecisionRecord
from box.txn.limbo import LimboOutcome
from box.txn.promotion_history import Promotion, PromotionHistory, Standing, VoidPromotions
from box.txn.void_rows import VoidRows
from box.wire.constants import PROMOTION_TYPES, RequestType
from box.wire.messages import Claim, Promotions, RaftRequest, SynchroRequest, decode_synchro

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.txn.limbo import Limbo
    from box.txn.transaction import LimboEntry
    from box.wire.row import Row


class PromotionRecord:
    """The promotions and decisions that this node knows."""

    def __init__(self, limbo: Limbo) -> None:
        self._limbo = limbo
        self.void = VoidRows()
        """Rows that promotions have rolled back."""
        self.latest = (0, 0)
        """Origin and lsn of the PROMOTE row of the latest term; zeros if the row is older than a snapshot that has not
        kept it.
        """
        self.history = PromotionHistory()
        self.void_promotions = VoidPromotions()
        self.claim: Claim | None = None
        """The claim of the latest term in the log; None if there is none, or it is older than the snapshot."""
        self.claim_place = (0, 0)
        """Origin and lsn of the row of `claim`; zeros if the row is older than the snapshot."""
        self._restored_log_term = 0
        self._decisions = DecisionRecord()
        self.contradiction: BoxError | None = None
        """The error of the first decision that contradicts one that has taken effect here: this instance has diverged.
        """
        self.diverged: dict[int, BoxError] = {}
        """By instance id: the error of a decision that this instance took after it was deposed. It contradicts one that
        has taken effect here, so that instance has diverged.
        """
        self._decided: dict[int, tuple[int, int]] = {}
        """For each origin, the lsns of its newest unbroken run of CONFIRM, ROLLBACK and PROMOTE rows: (first, last)."""

    @property
    def log_term(self) -> int:
        """The term of the newest claim or promotion in the log; 0 if none is known."""
        claimed = self.claim.term if self.claim is not None else 0
        return max(self._limbo.greatest_term, claimed, self._restored_log_term)

    @property
    def open_claim(self) -> Claim | None:
        """The claim that binds the next leader: no PROMOTE has settled it."""
        claim = self.claim
        return claim if claim is not None and claim.term > self._limbo.greatest_term else None

    def process(self, row: Row, request: SynchroRequest) -> LimboOutcome:
        """Process a row that is in the log. Returns the outcome of the limbo's entries."""
        limbo = self._limbo
        if request.claim is not None:
            self._note_claim(row, request.claim)
            return LimboOutcome([], [])
        if request.is_void:
            self.void.note(row.replica_id, row.lsn, row.lsn)
            self.void_promotions.note([(row.replica_id, row.lsn)])
            return LimboOutcome([], [])
        owner_id, latest = limbo.owner_id, limbo.greatest_term
        before = limbo.replica_term(request.origin_id) if request.type == RequestType.PROMOTE else 0
        outcome = limbo.process(request)
        if outcome.has_effect:
            self._decisions.note(row, request, outcome)
        self._note_decided(row)
        if request.type != RequestType.PROMOTE:
            return outcome
        if request.term == limbo.greatest_term:
            self.latest = row.replica_id, row.lsn
            if request.term > latest:
                self.history.add(Promotion(request.term, row.replica_id, row.lsn, before))
            self._note_void(row.replica_id, owner_id, outcome.rolled_back[::-1])
        elif before < request.term and row.lsn:
            # A term that is not new to the instance comes from a snapshot, which has kept its effect; a request
            # without an lsn is not a row of a log.
            self.void_promotions.note([(row.replica_id, row.lsn)])
        return outcome

    def _note_decided(self, row: Row) -> None:
        first, last = self._decided.get(row.replica_id, (0, 0))
        self._decided[row.replica_id] = first if last + 1 == row.lsn else row.lsn, row.lsn

    def _note_claim(self, row: Row, claim: Claim) -> None:
        """Record a claim. Each later leader has it, so the rows it rolls back and older claims are no longer needed."""
        if claim.term <= self.log_term:
            self.void.note(row.replica_id, row.lsn, row.lsn)
            return
        self._note_decided(row)
        self.claim, self.claim_place = claim, (row.replica_id, row.lsn)
        promotion = SynchroRequest(RequestType.PROMOTE, claim.owner_id, claim.lsn, claim.term, row.replica_id)
        self._note_void(row.replica_id, self._limbo.owner_id, self._limbo.rolled_back_by(promotion))

    def contradiction_of(self, row: Row, request: SynchroRequest) -> BoxError | None:
        """Return the error of a row that is about to take effect but contradicts an earlier decision, or None.

        Records who has diverged: the author of the row if it decided after it was deposed, this instance otherwise.
        """
        contradiction = self._find_contradiction(row, request)
        if contradiction is None:
            return None
        if self.is_of_deposed(row):
            self.diverged.setdefault(row.replica_id, contradiction)
        else:
            self.contradiction = self.contradiction or contradiction
        return contradiction

    def contradicts(self, row: Row) -> bool:
        """Return True if a CONFIRM, ROLLBACK or PROMOTE contradicts an earlier decision.

        Raises:
            ClientError: INVALID_MSGPACK.
        """
        return self._find_contradiction(row, decode_synchro(row)) is not None

    def is_of_deposed(self, row: Row) -> bool:
        """Return True if a row is a CONFIRM or ROLLBACK whose author was deposed by a promotion that is known here."""
        return row.type in (RequestType.CONFIRM, RequestType.ROLLBACK) and self._limbo.is_outdated(row.replica_id)

    def _find_contradiction(self, row: Row, request: SynchroRequest) -> BoxError | None:
        if request.claim is not None:
            return None
        if request.is_void or self.is_to_be_void(row) or self._limbo.is_outdated_promotion(request):
            return None
        return self._decisions.contradiction_of(row, request)

    def note_nops(self, rows: list[Row]) -> None:
        """Record an applied transaction, if all its rows are NOPs."""
        self.void.note_nops(rows)
        self._decisions.note_nops(rows)

    def note_recovered(self, origin_id: int, seen: Container[tuple[int, int]], ends: Mapping[int, int]) -> None:
        """Record promotions as void that a recovered synchronous transaction of `origin_id` contradicts.

        It is in the log with its effect, after promotions that would make it outdated; their (origin, lsn) are in
        `seen`. So these promotions were found to have no effect, and what their instances have written since is void;
        `ends` has the newest lsn of each instance. A snapshot of an earlier version may know promotions that come later
        in the log, hence the test by `seen`.
        """
        if self._limbo.is_outdated(origin_id):
            for promotion in self.history.since(self._limbo.replica_term(origin_id)):
                place = promotion.origin_id, promotion.lsn
                if place in seen:
                    self._note_none(promotion, ends)

    def _note_void(self, leader_id: int, owner_id: int, undone: list[LimboEntry]) -> None:
        """Record what a promotion, or the claim of one, makes void.

        These are `undone`, the owner's entries that it rolls back, oldest first, and earlier decisions of others.
        """
        if undone and undone[0].place[0] > 0:
            last = max(undone[-1].place[1], self._decided.get(owner_id, (0, 0))[1])
            self.void.note(owner_id, undone[0].place[0], last)
        for origin_id, (first, last) in self._decided.items():
            if origin_id != leader_id:
                self.void.note(origin_id, first, last)

    def coming_void(self, leader: Standing, own_vclock: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return origin and lsn of promotions without effect at a leader that are neither here nor recorded as void."""
        named, known = leader.void_promotions, self.void_promotions
        return [one for one in named if one[1] > own_vclock.get(one[0], 0) and one not in known]

    def is_to_be_void(self, row: Row) -> bool:
        """Return True if a row is a PROMOTE or DEMOTE that had no effect at the leader."""
        return row.type in PROMOTION_TYPES and (row.replica_id, row.lsn) in self.void_promotions

    def withdraw_unknown(self, leader: Standing, own_vclock: Mapping[int, int]) -> None:
        """Withdraw the promotions that a leader did not have: they had no effect."""
        for promotion in self.history.withdraw_unknown(leader):
            self._withdraw(promotion, own_vclock)

    def withdraw_latest(self, own_vclock: Mapping[int, int]) -> bool:
        """Withdraw the latest promotion, which had no effect; returns False if none is known."""
        promotion = self.history.withdraw_latest()
        if promotion is not None:
            self._withdraw(promotion, own_vclock)
        return promotion is not None

    def _withdraw(self, promotion: Promotion, own_vclock: Mapping[int, int]) -> None:
        """Undo the effects of a promotion that was removed from the history."""
        self._limbo.withdraw(promotion.origin_id, promotion.before)
        self._note_none(promotion, own_vclock)
        self.latest = self.history.latest

    def _note_none(self, promotion: Promotion, ends: Mapping[int, int]) -> None:
        """Record that a withdrawn promotion, and the rows that its instance has written since, are void."""
        self.void.note(promotion.origin_id, promotion.lsn, ends.get(promotion.origin_id, 0))
        self.void_promotions.note([(promotion.origin_id, promotion.lsn)])

    def kept(self) -> Promotions | None:
        """Return what a snapshot keeps, or None if no instance was ever promoted."""
        limbo = self._limbo
        if not limbo.terms:
            return None
        known, void = self._decisions, dict(self.void.ends)
        return Promotions(limbo.owner_id, dict(limbo.terms), self.latest, void, known.confirmed, known.without_effect)

    def restore(self, kept: Promotions) -> None:
        """Restore what a snapshot has kept."""
        self._limbo.restore(kept.owner_id, kept.terms)
        self.latest = kept.latest
        if kept.latest[1]:
            self.history.add(Promotion(self._limbo.greatest_term, *kept.latest, 0))
        self.void.restore(kept.void)
        self._decisions.restore(kept.confirmed, kept.without_effect)

    def restore_claim(self, log_term: int, claim: Claim | None) -> None:
        """Restore the term of the log and its open claim from a snapshot, or from the instance that was joined."""
        self._restored_log_term = log_term
        self.claim, self.claim_place = claim, (0, 0)

    def with_log(self, state: RaftRequest, void_promotions: tuple[tuple[int, int], ...]) -> RaftRequest:
        """Return the election state for a snapshot or a join, completed with the log's term, open claim and void
        promotions.
        """
        return replace(state, void_promotions=void_promotions, log_term=self.log_term, claim=self.open_claim)

    def __repr__(self) -> str:
        return f"<promotion record: latest {self.latest}, {self.history}, {self.void}>"
