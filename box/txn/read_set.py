"""Reads of a transaction under MVCC: tuples, and the places where there was none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index import IteratorType, TreeIndex
from box.index.ordered import EVERYTHING, is_within

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index


class Range:
    """A part of an index that a transaction has read: from the start of an iteration to the last tuple it took."""

    __slots__ = ("_bounds", "_selects", "complete", "index", "iterator", "last")

    def __init__(self, index: Index, iterator: int, key: list[Any]) -> None:
        self.index = index
        self.iterator = iterator
        kind = index.iterator_type(iterator)
        self._bounds = index.bounds(kind, key) if isinstance(index, TreeIndex) else EVERYTHING
        self._selects = index.selector(iterator, key)
        self.last: bytes | None = None
        self.complete = False

    def covers(self, key: SortKey) -> bool:
        """True if a tuple that appears under this key would have been read."""
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
        """Keys that it covers are not below the first, and not above the second; None is no bound."""
        low, high, _, _ = self._bounds
        if self.complete or self.last is None or not isinstance(self.index, TreeIndex):
            return low, high
        last = self._last_key()
        if last is None:
            return low, high
        return (last, high) if IteratorType(self.iterator).is_reverse else (low, last)

    def _last_key(self) -> SortKey | None:
        """The key of the last tuple, the outermost one where it has several; None if it has none there."""
        assert self.last is not None
        keys = self.index.stored_keys(self.last, unpack(self.last))
        found = [key for key in keys if is_within(key, self._bounds)]
        return (min if IteratorType(self.iterator).is_reverse else max)(found, default=None)


class ReadSet:
    """Everything that a transaction has read."""

    __slots__ = ("points", "ranges", "tuples")

    def __init__(self) -> None:
        self.tuples: dict[int, set[bytes]] = {}
        """By space id."""
        self.points: dict[Index, set[SortKey]] = {}
        """Full keys under which there was nothing."""
        self.ranges: list[Range] = []

    def add_point(self, index: Index, key: SortKey) -> None:
        """There was nothing under this full key."""
        points = self.points.get(index)
        if points is None:
            points = self.points[index] = set()
        points.add(key)

    def containers(self) -> list[list[Any] | set[Any]]:
        """Everything that it is made of, for whoever lets it go in slices."""
        return [*self.tuples.values(), *self.points.values(), self.ranges]

    def has_tuple(self, space_id: int, value: bytes) -> bool:
        return value in self.tuples.get(space_id, ())

    def has_place(self, index: Index, key: SortKey) -> bool:
        """True if nothing was found where now something is."""
        if key in self.points.get(index, ()):
            return True
        return any(place.index is index and place.covers(key) for place in self.ranges)
