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

Where 3:1 has rolled back transactions that were there already, an instance differs from the others, as in the peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Promotion(NamedTuple):
    """A PROMOTE row. `before`: the term of the instance's promotion before, 0 if there was none."""

    term: int
    origin_id: int
    lsn: int
    before: int


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

    def unknown(self, term: int, vclock: Mapping[int, int]) -> list[Promotion]:
        """The leader of `term` was elected with these rows: the promotions of earlier terms that it had not, newest
        first."""
        found = []
        for promotion in reversed(self._known):
            is_known = vclock.get(promotion.origin_id, 0) >= promotion.lsn
            if is_known or promotion.term >= term:
                break
            found.append(promotion)
        return found

    def withdraw_unknown(self, term: int, vclock: Mapping[int, int]) -> list[Promotion]:
        """The same; they are taken out."""
        withdrawn = self.unknown(term, vclock)
        del self._known[len(self._known) - len(withdrawn) :]
        return withdrawn

    def withdraw_latest(self) -> Promotion | None:
        """Take out the one with the greatest term; None if none is known."""
        return self._known.pop() if self._known else None

    def __repr__(self) -> str:
        return f"<promotion history {self._known}>"
