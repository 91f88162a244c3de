"""The PROMOTE rows of the log, and those that turned out to have no effect.

```
log of 2    2:11 synchronous   (term 4) 2:12 PROMOTE up to 2:11
log of 3    (term 3) 3:1 PROMOTE                                    then cut off: no other instance has it
```

An elected leader has the rows of a quorum. So a leader without 3:1 shows that no quorum ever had 3:1, and what it says
about 2:11 was never decided. Instance 3 then rolls back what it has written as a leader, and accepts 2:11 as it comes,
not as a transaction that it has rolled back itself. An instance that receives 3:1 and then 2:11 from the log of
instance 3 finds this out in the same way: a transaction that had been rolled back would come as a NOP.

Another instance on which transactions of instance 3 wait rolls them back in the same way: it writes a ROLLBACK to its
own log, where the next start finds it before the rows of the leader.

The row 3:1 stays in the log of 3 and is sent to others with the rows after it; it has no effect there either. An
instance that has the row but not its effect says so when it asks for votes or leads (`Standing`). Otherwise an instance
that returns only then, and for which 3:1 is the latest promotion, could not tell: the leader's vclock covers 3:1.
Tarantool's messages do not contain this. An instance that receives 3:1 from a leader that has said so writes it with a
flag (`Flag.VOID`), so that it rolls back nothing that waits here, now and after a restart.

If 3:1 has already rolled back transactions, the instance has diverged from the others, as in Tarantool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Final, NamedTuple

_VOID_PROMOTIONS: Final = 64
"""The number of void promotions remembered, the newest ones."""


class Promotion(NamedTuple):
    """A PROMOTE row. `before` is the term of the instance's previous promotion, 0 if there was none."""

    term: int
    origin_id: int
    lsn: int
    before: int


class Standing(NamedTuple):
    """The state of an instance when it was elected in `term` or asked for votes.

    `vclock` tells its rows, `void_promotions` the origin and lsn of PROMOTE rows among them that have no effect there.
    """

    term: int
    vclock: Mapping[int, int]
    void_promotions: Collection[tuple[int, int]] = ()

    def knows(self, origin_id: int, lsn: int) -> bool:
        """Return True if a promotion is in the instance's log and had an effect on the instance."""
        return self.vclock.get(origin_id, 0) >= lsn and (origin_id, lsn) not in self.void_promotions


class VoidPromotions:
    """Origin and lsn of the newest PROMOTE rows that have no effect here, or will have none when they arrive."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], None] = {}

    @property
    def known(self) -> tuple[tuple[int, int], ...]:
        """The void promotions as (origin, lsn), the oldest first."""
        return tuple(self._known)

    def note(self, promotions: Iterable[tuple[int, int]]) -> None:
        """Remember promotions, given as (origin, lsn)."""
        for promotion in promotions:
            self._known.pop(promotion, None)
            self._known[promotion] = None
        while len(self._known) > _VOID_PROMOTIONS:
            del self._known[next(iter(self._known))]

    def __contains__(self, promotion: tuple[int, int]) -> bool:
        return promotion in self._known

    def __repr__(self) -> str:
        return f"<void promotions {list(self._known)}>"


class PromotionHistory:
    """The promotions since the last snapshot, after the last one that the snapshot has kept, in ascending terms."""

    def __init__(self) -> None:
        self._known: list[Promotion] = []

    @property
    def latest(self) -> tuple[int, int]:
        """Origin and lsn of the promotion with the greatest term; zeros if none is known."""
        return (self._known[-1].origin_id, self._known[-1].lsn) if self._known else (0, 0)

    def add(self, promotion: Promotion) -> None:
        """Add a promotion of a later term than all before."""
        self._known.append(promotion)

    def unknown(self, leader: Standing) -> list[Promotion]:
        """Return the promotions of earlier terms that a leader does not know, newest first (`Standing.knows`)."""
        found = []
        for promotion in reversed(self._known):
            if leader.knows(promotion.origin_id, promotion.lsn) or promotion.term >= leader.term:
                break
            found.append(promotion)
        return found

    def withdraw_unknown(self, leader: Standing) -> list[Promotion]:
        """Remove the promotions that `unknown` finds, and return them."""
        withdrawn = self.unknown(leader)
        del self._known[len(self._known) - len(withdrawn) :]
        return withdrawn

    def withdraw_latest(self) -> Promotion | None:
        """Remove and return the promotion with the greatest term; None if none is known."""
        return self._known.pop() if self._known else None

    def since(self, term: int) -> Iterable[Promotion]:
        """Return the promotions of later terms, newest first."""
        return takewhile(lambda promotion: promotion.term > term, reversed(self._known))

    def __repr__(self) -> str:
        return f"<promotion history {self._known}>"
