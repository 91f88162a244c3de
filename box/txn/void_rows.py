"""Rows without an effect: NOPs, and rows of a limbo's owner that another instance has rolled back by a PROMOTE.

```
log of 1    1:13 synchronous, not confirmed    1:14 CONFIRM of 1:12    2:40 PROMOTE up to 1:12
void        1:13 to 1:14: 2:40 has decided about their transactions

log of 1    1:62 PROMOTE, which no other instance received     2:262 PROMOTE of a later term
void        1:62, for the same reason
```

They stay in the log, and in the vclocks of the instances that have them. An instance that has the PROMOTE does not need
them: a candidate that lacks them may lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from box.wire.constants import RequestType
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.wire.row import Row

_NOP: Final = int(RequestType.NOP)


class VoidRows:
    """The newest void rows of each origin, as far as the last snapshot and the log since then tell."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}

    def note(self, origin_id: int, first: int, last: int) -> None:
        """Record that the origin's rows from `first` to `last` are void. Known later ranges are kept."""
        known = self._ends.get(origin_id)
        if known is not None:
            if last + 1 < known[0]:
                return
            if first <= known[1] + 1:
                first, last = min(first, known[0]), max(last, known[1])
        self._ends[origin_id] = first, last

    @property
    def ends(self) -> Mapping[int, tuple[int, int]]:
        """The first and last void row of each origin, as far as known."""
        return self._ends

    def restore(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Restore what an earlier run knew."""
        self._ends = dict(ends)

    def note_nops(self, rows: list[Row]) -> None:
        """Record a transaction of the log, or of another instance, if all its rows are NOPs."""
        first, last = rows[0], rows[-1]
        if first.type == last.type == _NOP and first.replica_id and all(row.type == _NOP for row in rows):
            self.note(first.replica_id, first.lsn, last.lsn)

    def needed(self, vclock: Mapping[int, int]) -> VClock:
        """Return the rows of `vclock` that a leader must have: all but the void ones at the end of each origin."""
        needed = VClock(vclock)
        for origin_id, (first, last) in self._ends.items():
            if vclock.get(origin_id, 0) == last:
                needed[origin_id] = first - 1
        return needed

    def __repr__(self) -> str:
        return f"<void rows {self._ends}>"
