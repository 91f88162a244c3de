"""Promotions that are known: the latest PROMOTE row, those before it, and the rows that they made void.

Kept in step with the log: each CONFIRM, ROLLBACK and PROMOTE row is noted when it is in it, after the limbo has
acted on it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from box.txn.decisions import DecisionRecord
from box.txn.limbo import LimboOutcome
from box.txn.promotion_history import Promotion, PromotionHistory, Standing, VoidPromotions
from box.txn.void_rows import VoidRows
from box.wire.constants import PROMOTION_TYPES, RequestType
from box.wire.messages import Promotions, SynchroRequest

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.txn.limbo import Limbo
    from box.wire.row import Row


class PromotionRecord:
    """One per node, beside its limbo."""

    def __init__(self, limbo: Limbo) -> None:
        self._limbo = limbo
        self.void = VoidRows()
        """Rows that promotions have rolled back."""
        self.latest = (0, 0)
        """Origin and lsn of the PROMOTE row of the latest term; zeros if it is older than the snapshot, which
        has not kept it."""
        self.history = PromotionHistory()
        self.void_promotions = VoidPromotions()
        self._decisions = DecisionRecord()
        self.contradiction: BoxError | None = None
        """The first decision that contradicts one which had its effect here: this instance differs from others."""
        self._decided: dict[int, tuple[int, int]] = {}
        """The newest CONFIRM, ROLLBACK or PROMOTE row of each origin, and the first of those right before it."""

    def process(self, row: Row, request: SynchroRequest) -> LimboOutcome:
        """A row is in the log: what becomes of the limbo's entries."""
        limbo = self._limbo
        if request.is_void:
            self.void.note(row.replica_id, row.lsn, row.lsn)
            self.void_promotions.note([(row.replica_id, row.lsn)])
            return LimboOutcome([], [])
        owner_id, latest, before = limbo.owner_id, limbo.greatest_term, limbo.replica_term(request.origin_id)
        has_effect = limbo.has_effect(request)
        outcome = limbo.process(request)
        if has_effect:
            self._decisions.note(row, request, outcome)
        first, last = self._decided.get(row.replica_id, (0, 0))
        self._decided[row.replica_id] = first if last + 1 == row.lsn else row.lsn, row.lsn
        if request.type == RequestType.PROMOTE and request.term == limbo.greatest_term:
            self.latest = row.replica_id, row.lsn
            if request.term > latest:
                self.history.add(Promotion(request.term, row.replica_id, row.lsn, before))
            self._note_void(owner_id, outcome)
        elif request.type == RequestType.PROMOTE and before < request.term and row.lsn:
            # Otherwise a snapshot has kept what it was, or it is no row of a log.
            self.void_promotions.note([(row.replica_id, row.lsn)])
        return outcome

    def contradiction_of(self, row: Row, request: SynchroRequest) -> BoxError | None:
        """The error of a row, which is about to have its effect, if it contradicts a decision that has had its own."""
        if request.is_void or self.is_to_be_void(row) or self._limbo.is_outdated_promotion(request):
            return None
        contradiction = self._decisions.contradiction_of(row, request)
        self.contradiction = self.contradiction or contradiction
        return contradiction

    def note_nops(self, rows: list[Row]) -> None:
        """A transaction that was applied, whose rows may all be NOPs."""
        self.void.note_nops(rows)
        self._decisions.note_nops(rows)

    def note_recovered(self, origin_id: int, seen: Container[tuple[int, int]], ends: Mapping[int, int]) -> None:
        """The log has promotions, `seen` by origin and lsn, and behind them a synchronous transaction of an instance
        that they make outdated, with its effect: they were found out to be none, and void is what their instances have
        written since; `ends` tells their newest rows. A snapshot of an earlier version may know of promotions that come
        later in the log."""
        if self._limbo.is_outdated(origin_id):
            for promotion in self.history.since(self._limbo.replica_term(origin_id)):
                place = promotion.origin_id, promotion.lsn
                if place in seen:
                    self._note_none(promotion, ends)

    def _note_void(self, owner_id: int, outcome: LimboOutcome) -> None:
        """After a promotion: what it has rolled back, and what others have decided before it."""
        if outcome.rolled_back:
            first, last = outcome.rolled_back[-1].place[0], outcome.rolled_back[0].place[1]
            if first > 0:
                self.void.note(owner_id, first, max(last, self._decided.get(owner_id, (0, 0))[1]))
        for origin_id, (first, last) in self._decided.items():
            if origin_id != self.latest[0]:
                self.void.note(origin_id, first, last)

    def coming_void(self, leader: Standing, own_vclock: Mapping[int, int]) -> list[tuple[int, int]]:
        """Origin and lsn of promotions without an effect at a leader that are not here and not known as such."""
        named, known = leader.void_promotions, self.void_promotions
        return [one for one in named if one[1] > own_vclock.get(one[0], 0) and one not in known]

    def is_to_be_void(self, row: Row) -> bool:
        """Whether a row that comes from a leader is a promotion that has no effect there."""
        return row.type in PROMOTION_TYPES and (row.replica_id, row.lsn) in self.void_promotions

    def withdraw_unknown(self, leader: Standing, own_vclock: Mapping[int, int]) -> None:
        """Promotions that a leader had not were none."""
        for promotion in self.history.withdraw_unknown(leader):
            self._withdraw(promotion, own_vclock)

    def withdraw_latest(self, own_vclock: Mapping[int, int]) -> bool:
        """The latest promotion was none; False if none is known."""
        promotion = self.history.withdraw_latest()
        if promotion is not None:
            self._withdraw(promotion, own_vclock)
        return promotion is not None

    def _withdraw(self, promotion: Promotion, own_vclock: Mapping[int, int]) -> None:
        """One that is not in the history any more."""
        self._limbo.withdraw(promotion.origin_id, promotion.before)
        self._note_none(promotion, own_vclock)
        self.latest = self.history.latest

    def _note_none(self, promotion: Promotion, ends: Mapping[int, int]) -> None:
        self.void.note(promotion.origin_id, promotion.lsn, ends.get(promotion.origin_id, 0))
        self.void_promotions.note([(promotion.origin_id, promotion.lsn)])

    def kept(self) -> Promotions | None:
        """For a snapshot; None where nobody was promoted."""
        limbo = self._limbo
        if not limbo.terms:
            return None
        return Promotions(limbo.owner_id, dict(limbo.terms), self.latest, dict(self.void.ends))

    def restore(self, kept: Promotions) -> None:
        """Take over what a snapshot has kept."""
        self._limbo.restore(kept.owner_id, kept.terms)
        self.latest = kept.latest
        if kept.latest[1]:
            self.history.add(Promotion(self._limbo.greatest_term, *kept.latest, 0))
        self.void.restore(kept.void)

    def __repr__(self) -> str:
        return f"<promotion record: latest {self.latest}, {self.history}, {self.void}>"
