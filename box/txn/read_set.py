"""The reads of a transaction under MVCC: tuples, and the places where it found none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index import IteratorType, TreeIndex
from box.index.ordered import EVERYTHING, is_within

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index


class Range:
    """A part of an index that a transaction has read: from the start of an iteration to the last tuple taken."""

    __slots__ = ("_bounds", "_selects", "complete", "index", "iterator", "last")

    def __init__(self, index: Index, iterator: int, key: list[Any], after: SortKey | None = None) -> None:
        self.index = index
        self.iterator = iterator
        kind = index.iterator_type(iterator)
        self._bounds = index.bounds_after(kind, key, after) if isinstance(index, TreeIndex) else EVERYTHING
        self._selects = index.selector(iterator, key)
        self.last: bytes | None = None
        """The last tuple taken, None before the first."""
        self.complete = False
        """True once the iteration has reached its end."""

    def covers(self, key: SortKey) -> bool:
        """Return True if the iteration would have returned a tuple under this key."""
        if not self.complete and self.last is None:
            return False
        if not isinstance(self.index, TreeIndex):
            return self._selects is None or self._selects(key)
        if not is_within(key, self._bounds):
            return False
        if self.complete:
            return True
        last = self._last_key()
        return last is None or bool(key >= last if IteratorType(self.iterator).is_reverse else key <= last)

    def span(self) -> tuple[SortKey | None, SortKey | None]:
        """Return the least and greatest key that the range may cover; None stands for no bound."""
        low, high, _, _ = self._bounds
        if self.complete or self.last is None or not isinstance(self.index, TreeIndex):
            return low, high
        last = self._last_key()
        if last is None:
            return low, high
        return (last, high) if IteratorType(self.iterator).is_reverse else (low, last)

    def _last_key(self) -> SortKey | None:
        """Return the key of the last tuple: of several keys the outermost one in the range, None if none is in it."""
        assert self.last is not None
        keys = self.index.stored_keys(self.last, unpack(self.last))
        found = [key for key in keys if is_within(key, self._bounds)]
        return (min if IteratorType(self.iterator).is_reverse else max)(found, default=None)


class ReadSet:
    """Everything that a transaction has read."""

    __slots__ = ("points", "ranges", "tuples")

    def __init__(self) -> None:
        self.tuples: dict[int, set[bytes]] = {}
        """The tuples read, by space id."""
        self.points: dict[Index, set[SortKey]] = {}
        """The full keys under which no tuple was found, by index."""
        self.ranges: list[Range] = []
        """The ranges read."""

    def add_point(self, index: Index, key: SortKey) -> None:
        """Record that no tuple was found under a full key."""
        points = self.points.get(index)
        if points is None:
            points = self.points[index] = set()
        points.add(key)

    def containers(self) -> list[list[Any] | set[Any]]:
        """Return all lists and sets of this object, so that they can be freed in slices."""
        return [*self.tuples.values(), *self.points.values(), self.ranges]

    def has_tuple(self, space_id: int, value: bytes) -> bool:
        """Return True if a tuple of a space was read."""
        return value in self.tuples.get(space_id, ())

    def has_place(self, index: Index, key: SortKey) -> bool:
        """Return True if the transaction has read a place, without finding a tuple, that contains this key."""
        if key in self.points.get(index, ()):
            return True
        return any(place.index is index and place.covers(key) for place in self.ranges)
