"""Writes of one transaction where tuples have versions, and their meaning to others that have read.

Two questions decide what the commit of a transaction costs. Which of its slots have writes of others? Only these have
an order (`shared`), and mostly there are none. And what have others read that it changes? The answer for a large
transaction is gathered while it grows, as sets and sorted keys, so that each reader is compared with them as a whole:

```
reader                    writer
tuples, by space          tuples that it replaces
points without a tuple    points where it puts one
ranges                    sorted keys of these points, a list for every some thousand statements
```
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from box.txn.versions import Slot

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.read_set import Range, ReadSet
    from box.txn.transaction import Transaction
    from box.txn.versions import Write


class WriteSet:
    """See the module's text. `shared`: slots that others wrote to as well, at some time."""

    __slots__ = ("_keys", "_points", "_tuples", "_txn", "gathered", "indexes", "shared")

    def __init__(self, txn: Transaction) -> None:
        self.shared: dict[Slot, None] = {}
        self.indexes: dict[Index, None] = {}
        """All that have slots of it."""
        self.gathered = 0
        """The number of the first statements of which `hides` knows."""
        self._txn = txn
        self._tuples: dict[int, set[bytes]] = {}
        self._points: dict[Index, set[SortKey]] = {}
        self._keys: dict[Index, list[list[SortKey]]] = {}

    # -- gathering

    def gather(self, writes: Iterable[Write], statements: int) -> None:
        """Take in the writes of further statements; there are so many then."""
        keys: dict[Index, list[SortKey]] = {}
        for write in writes:
            slot = write.slot
            index, base = slot.index, slot.base
            if base is not None:
                self._tuples.setdefault(index.definition.space_id, set()).add(base)
            elif write.value is not None:
                keys.setdefault(index, []).append(slot.key)
        for index, found in keys.items():
            self._points.setdefault(index, set()).update(found)
            found.sort()
            self._keys.setdefault(index, []).append(found)
        self.gathered = statements

    def forget(self) -> None:
        """Statements were taken back."""
        self.gathered, self._tuples, self._points, self._keys = 0, {}, {}, {}

    # -- questions

    def hides(self, reads: ReadSet) -> bool:
        """Whether something that was read is different with what was gathered. For slots that are not shared."""
        for space_id, tuples in self._tuples.items():
            read = reads.tuples.get(space_id)
            if read is not None and not read.isdisjoint(tuples):
                return True
        for index, points in self._points.items():
            read = reads.points.get(index)
            if read is not None and any(self._has_put(index, key) for key in read & points):
                return True
        return any(self._has_put_into(place) for place in reads.ranges if place.index in self._keys)

    def _has_put_into(self, place: Range) -> bool:
        low, high = place.span()
        for keys in self._keys[place.index]:
            first = 0 if low is None else bisect_left(keys, low)
            last = len(keys) if high is None else bisect_right(keys, high)
            for number in range(first, last):
                if place.covers(keys[number]) and self._has_put(place.index, keys[number]):
                    return True
        return False

    def _has_put(self, index: Index, key: SortKey) -> bool:
        """A later statement may have taken the tuple away again."""
        slot = index.find(key)
        return type(slot) is Slot and slot.last_of(self._txn) is not None and slot.below(self._txn) is None
