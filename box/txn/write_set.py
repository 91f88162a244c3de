"""Writes of one transaction where tuples have versions, and their meaning to others that have read.

Two questions decide what the commit of a transaction costs. Which of its slots have writes of others (`shared`)? If
another with such writes has been prepared meanwhile, or rolled back after that, what is below them is gathered again.
And what have others read that it changes? The answer for a large transaction is gathered while it grows, as sets and
sorted keys, so that each reader is compared with them as a whole; for one whose write has failed it is gathered before
the failure is told:

```
reader                    writer, prepared                        writer, rolled back
tuples, by space          tuples that it replaces                 tuples that it has put
points without a tuple    points where it puts one                points where it left none
ranges                    sorted keys of these points, a list for every some thousand statements
```
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.read_set import Range, ReadSet
    from box.txn.transaction import Transaction
    from box.txn.versions import Slot, Write


class Places:
    """Tuples and points of the table above."""

    __slots__ = ("_keys", "_points", "_tuples")

    def __init__(self) -> None:
        self._tuples: dict[int, set[bytes]] = {}
        self._points: dict[Index, set[SortKey]] = {}
        self._keys: dict[Index, list[list[SortKey]]] = {}

    # -- gathering

    def add_done(self, writes: Iterable[Write]) -> None:
        """Take in what further writes take the place of, if they are prepared. For slots without writes of others."""
        self._add((write.slot, write.slot.base) for write in writes if write.slot.base or write.value)

    def add_undone(self, writes: Iterable[Write]) -> None:
        """Take in what is gone if further writes are rolled back."""
        self._add((write.slot, write.value) for write in writes)

    def _add(self, gone: Iterable[tuple[Slot, bytes | None]]) -> None:
        keys: dict[Index, list[SortKey]] = {}
        for slot, value in gone:
            index = slot.index
            if value is not None:
                self._tuples.setdefault(index.definition.space_id, set()).add(value)
            else:
                keys.setdefault(index, []).append(slot.key)
        for index, found in keys.items():
            self._points.setdefault(index, set()).update(found)
            found.sort()
            self._keys.setdefault(index, []).append(found)

    def add_below(self, txn: Transaction, slots: Iterable[Slot]) -> None:
        """Take in what is below the writes of a transaction, if it is prepared. For slots with writes of others."""
        self._add((slot, slot.below(txn)) for slot in slots if slot.has_writes_of(txn))

    def containers(self) -> list[list[Any] | set[Any]]:
        """Everything that it is made of, for whoever lets it go in slices."""
        lists = [keys for parts in self._keys.values() for keys in parts]
        return [*self._tuples.values(), *self._points.values(), *lists]

    # -- questions

    def meet(self, reads: ReadSet, has_changed: Callable[[Index, SortKey], bool]) -> bool:
        """Whether something that was read is different now. `has_changed` says whether there is a tuple at a point of
        these now: a later statement may have made it as before."""
        for space_id, tuples in self._tuples.items():
            read = reads.tuples.get(space_id)
            if read is not None and not read.isdisjoint(tuples):
                return True
        for index, points in self._points.items():
            read = reads.points.get(index)
            if read is not None and any(has_changed(index, key) for key in read & points):
                return True
        return any(self._meet_range(place, has_changed) for place in reads.ranges if place.index in self._keys)

    def _meet_range(self, place: Range, has_changed: Callable[[Index, SortKey], bool]) -> bool:
        low, high = place.span()
        for keys in self._keys[place.index]:
            first = 0 if low is None else bisect_left(keys, low)
            last = len(keys) if high is None else bisect_right(keys, high)
            for number in range(first, last):
                if place.covers(keys[number]) and has_changed(place.index, keys[number]):
                    return True
        return False


class WriteSet:
    """See the module's text. `shared`: slots that others wrote to as well, at some time; `rivals` are these others."""

    __slots__ = ("gathered", "indexes", "is_blind", "known", "overtaken", "places", "rivals", "shared")

    def __init__(self) -> None:
        self.shared: dict[Slot, None] = {}
        self.rivals: dict[Transaction, None] = {}
        self.is_blind = False
        """Has replaced tuples without asking which."""
        self.indexes: dict[Index, None] = {}
        """All that have slots of it."""
        self.overtaken = 0
        """The number of times that a rival was found to have a place in the order of commits, got one, or lost it."""
        self.known = 0
        """The same when what is below shared slots was taken into `places`."""
        self.gathered = 0
        """The number of the first statements that are in `places`."""
        self.places = Places()
        """The change that others see when it is prepared, but for shared slots if it is overtaken."""

    def share(self, slot: Slot, other: Transaction) -> None:
        """Another has written to a slot."""
        self.shared[slot] = None
        self.rivals[other] = None
        if other.psn:
            self.overtaken += 1

    def gather(self, writes: Iterable[Write], statements: int) -> None:
        """Take in the writes of further statements; there are so many then."""
        self.places.add_done(writes)
        self.gathered = statements

    @property
    def is_overtaken(self) -> bool:
        """Whether a rival has got its place in the order of commits, or lost it, so that other values may be below
        shared slots than `places` has."""
        return self.overtaken != self.known

    def forget(self) -> None:
        """Statements were taken back."""
        if self.gathered:
            self.gathered, self.known, self.places = 0, 0, Places()
