"""Rows without an effect: NOPs, and those of a limbo's owner that another instance rolled back when it took over.

```
log of 1    1:13 synchronous, not confirmed    1:14 CONFIRM of 1:12    2:40 PROMOTE up to 1:12
void        1:13 to 1:14: what they were about is decided by 2:40

log of 1    1:62 PROMOTE, which nobody else got        2:262 PROMOTE of a later term
void        1:62, for the same reason
```

They stay in the log, and in the vclock of those who have them. But whoever has the PROMOTE does without them: a
candidate that lacks them may lead.
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
    """The newest rows of some origins, as far as the log tells since the last snapshot, and the snapshot itself."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}

    def note(self, origin_id: int, first: int, last: int) -> None:
        """The origin's rows from `first` to `last` are void. What is known of later ones is kept."""
        known = self._ends.get(origin_id)
        if known is not None:
            if last + 1 < known[0]:
                return
            if first <= known[1] + 1:
                first, last = min(first, known[0]), max(last, known[1])
        self._ends[origin_id] = first, last

    @property
    def ends(self) -> Mapping[int, tuple[int, int]]:
        """The first and last void row of each origin, as far as they are known."""
        return self._ends

    def restore(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Take over what an earlier run knew."""
        self._ends = dict(ends)

    def note_nops(self, rows: list[Row]) -> None:
        """A transaction, whose rows may all be NOPs."""
        first, last = rows[0], rows[-1]
        if first.type == last.type == _NOP and first.replica_id and all(row.type == _NOP for row in rows):
            self.note(first.replica_id, first.lsn, last.lsn)

    def needed(self, vclock: Mapping[int, int]) -> VClock:
        """The rows of `vclock` that somebody has to have who is to lead: those but void ones at the end."""
        needed = VClock(vclock)
        for origin_id, (first, last) in self._ends.items():
            if vclock.get(origin_id, 0) == last:
                needed[origin_id] = first - 1
        return needed

    def __repr__(self) -> str:
        return f"<void rows {self._ends}>"
