"""The PROMOTE rows that are here, and those of them that had no effect.

```
log of 2    2:11 synchronous   (term 4) 2:12 PROMOTE up to 2:11
log of 3    (term 3) 3:1 PROMOTE                                    then cut off: nobody else has it
```

Whoever is elected has the rows of a quorum. So a leader without 3:1 shows that no quorum ever had it, and what it says
of 2:11 was never decided: instance 3 rolls back what it has written as a leader, and takes 2:11 as it comes, not as a
transaction that it has rolled back itself. Whoever gets 3:1 and then 2:11 from the log of instance 3 learns it in the
same way: a transaction that had been rolled back would come as a NOP.

Transactions of a third instance that wait, by the promotion that was none, are rolled back in the same way: who has got
them says so in its own log, where the next start finds it before the rows of the leader.

The row 3:1 stays in the log of 3 and goes to others with what comes behind it: it has no effect there either. Who has
it but not its effect says so when it asks for votes or leads (`Standing`): somebody who comes back only then, and for
whom 3:1 is the latest promotion, could not tell from a vclock that has 3:1. Tarantool's messages do not say it.
And who gets 3:1 from a leader that has said so writes it with a flag (`Flag.VOID`): it must not roll back what waits
here, and the next start must not either.

Where 3:1 has rolled back transactions that were there already, an instance differs from the others, as in Tarantool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Final, NamedTuple

_VOID_PROMOTIONS: Final = 64
"""So many are remembered, the newest ones."""


class Promotion(NamedTuple):
    """A PROMOTE row. `before`: the term of the instance's promotion before, 0 if there was none."""

    term: int
    origin_id: int
    lsn: int
    before: int


class Standing(NamedTuple):
    """The state of an instance when it was elected in `term`, or asked to be: its rows, and origin and lsn of PROMOTE
    rows among them that have no effect there."""

    term: int
    vclock: Mapping[int, int]
    void_promotions: Collection[tuple[int, int]] = ()

    def knows(self, origin_id: int, lsn: int) -> bool:
        """Whether it has a promotion, and that had an effect."""
        return self.vclock.get(origin_id, 0) >= lsn and (origin_id, lsn) not in self.void_promotions


class VoidPromotions:
    """Origin and lsn of PROMOTE rows that have no effect here, or will have none when they come; the newest ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], None] = {}

    @property
    def known(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._known)

    def note(self, promotions: Iterable[tuple[int, int]]) -> None:
        """Remember some."""
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
    """Those since the snapshot, and the last one before if that has kept it, in ascending terms."""

    def __init__(self) -> None:
        self._known: list[Promotion] = []

    @property
    def latest(self) -> tuple[int, int]:
        """Origin and lsn of the one with the greatest term; zeros if there is none."""
        return (self._known[-1].origin_id, self._known[-1].lsn) if self._known else (0, 0)

    def add(self, promotion: Promotion) -> None:
        """One in a later term than all before."""
        self._known.append(promotion)

    def unknown(self, leader: Standing) -> list[Promotion]:
        """The promotions of terms before the leader's that it had not, or not their effect, newest first."""
        found = []
        for promotion in reversed(self._known):
            if leader.knows(promotion.origin_id, promotion.lsn) or promotion.term >= leader.term:
                break
            found.append(promotion)
        return found

    def withdraw_unknown(self, leader: Standing) -> list[Promotion]:
        """The same; they are taken out."""
        withdrawn = self.unknown(leader)
        del self._known[len(self._known) - len(withdrawn) :]
        return withdrawn

    def withdraw_latest(self) -> Promotion | None:
        """Take out the one with the greatest term; None if none is known."""
        return self._known.pop() if self._known else None

    def since(self, term: int) -> Iterable[Promotion]:
        """Those of later terms, newest first."""
        return takewhile(lambda promotion: promotion.term > term, reversed(self._known))

    def __repr__(self) -> str:
        return f"<promotion history {self._known}>"
