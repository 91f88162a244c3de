"""The writes of one transaction where tuples have versions, and which reads of others they affect.

The cost of a commit depends on two questions. First: which of its slots have writes of other transactions (`shared`)?
If one of these has been prepared meanwhile, or rolled back after that, what is below the shared slots is gathered
again. Second: which reads of others does it change? A large transaction gathers the answer while it grows, as sets and
sorted keys, so that each reader is compared with them as a whole. If its write has failed, the answer is gathered
before the failure is reported:

```
reader                    writer, prepared                        writer, rolled back
tuples, by space          tuples that it replaces                 tuples that it has put
points without a tuple    points where it puts one                points where it left none
ranges                    sorted keys of these points, a list for every few thousand statements
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
    """The tuples and points of the table in the module."""

    __slots__ = ("_keys", "_points", "_tuples")

    def __init__(self) -> None:
        self._tuples: dict[int, set[bytes]] = {}
        self._points: dict[Index, set[SortKey]] = {}
        self._keys: dict[Index, list[list[SortKey]]] = {}

    # -- gathering

    def add_done(self, writes: Iterable[Write]) -> None:
        """Add what further writes replace when they are prepared. Their slots must have no writes of others."""
        self._add((write.slot, write.slot.base) for write in writes if write.slot.base or write.value)

    def add_undone(self, writes: Iterable[Write]) -> None:
        """Add what vanishes if further writes are rolled back."""
        self._add((write.slot, write.value) for write in writes)

    def _add(self, gone: Iterable[tuple[Slot, bytes | None]]) -> None:
        """Add tuples, and the keys of slots without one."""
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
        """Add what is below the writes of a transaction when it is prepared. Slots may have writes of others."""
        self._add((slot, slot.below(txn)) for slot in slots if slot.has_writes_of(txn))

    def containers(self) -> list[list[Any] | set[Any]]:
        """Return all lists and sets of this object, so that they can be freed in slices."""
        lists = [keys for parts in self._keys.values() for keys in parts]
        return [*self._tuples.values(), *self._points.values(), *lists]

    # -- questions

    def meet(self, reads: ReadSet, has_changed: Callable[[Index, SortKey], bool]) -> bool:
        """Return True if any of the reads would have another result now.

        `has_changed` checks a point: a later statement may have restored it.
        """
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
        """Return True if a range that was read has a changed point."""
        low, high = place.span()
        for keys in self._keys[place.index]:
            first = 0 if low is None else bisect_left(keys, low)
            last = len(keys) if high is None else bisect_right(keys, high)
            for number in range(first, last):
                if place.covers(keys[number]) and has_changed(place.index, keys[number]):
                    return True
        return False


class WriteSet:
    """The writes of one transaction.

    `shared` has the slots that others have written to as well at some time; `rivals` are these others.
    """

    __slots__ = ("gathered", "indexes", "is_blind", "known", "overtaken", "places", "rivals", "shared")

    def __init__(self) -> None:
        self.shared: dict[Slot, None] = {}
        self.rivals: dict[Transaction, None] = {}
        self.is_blind = False
        """True if it has replaced tuples without reading them."""
        self.indexes: dict[Index, None] = {}
        """The indexes in which it has written to slots."""
        self.overtaken = 0
        """The number of times that a rival had, got or lost a place in the order of commits."""
        self.known = 0
        """The value of `overtaken` when what is below shared slots was added to `places`."""
        self.gathered = 0
        """The number of the first statements that are in `places`."""
        self.places = Places()
        """The change that others see when the transaction is prepared, except in shared slots if it was overtaken."""

    def share(self, slot: Slot, other: Transaction) -> None:
        """Record that another transaction has written to a slot."""
        self.shared[slot] = None
        self.rivals[other] = None
        if other.psn:
            self.overtaken += 1

    def gather(self, writes: Iterable[Write], statements: int) -> None:
        """Add the writes of further statements, of which `statements` is the new total number."""
        self.places.add_done(writes)
        self.gathered = statements

    @property
    def is_overtaken(self) -> bool:
        """True if a rival has got or lost its place in the order of commits since `places` was gathered.

        Then shared slots may have other values below than `places` has.
        """
        return self.overtaken != self.known

    def forget(self) -> None:
        """Discard what was gathered, because statements were undone."""
        if self.gathered:
            self.gathered, self.known, self.places = 0, 0, Places()
