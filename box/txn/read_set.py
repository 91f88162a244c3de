"""Reads of a transaction under MVCC: tuples, and the places where there was none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index import IteratorType, TreeIndex

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index


class Range:
    """A part of an index that a transaction has read: from the start of an iteration to the last tuple it took."""

    __slots__ = ("complete", "index", "iterator", "last", "prefix")

    def __init__(self, index: Index, iterator: int, key: list[Any]) -> None:
        self.index = index
        self.iterator = iterator
        self.prefix = _prefix(index, key)
        self.last: bytes | None = None
        self.complete = False

    def covers(self, key: SortKey) -> bool:
        """True if a tuple that appears under this key would have been read."""
        if not self.complete and self.last is None:
            return False
        if not isinstance(self.index, TreeIndex):
            return True
        whole = _whole(self.index, key)
        if not self._matches(whole[: len(self.prefix)]):
            return False
        if self.complete:
            return True
        assert self.last is not None
        last = _whole(self.index, self.index.key_of(unpack(self.last)))
        return whole >= last if IteratorType(self.iterator).is_reverse else whole <= last

    def _matches(self, part: tuple[Any, ...]) -> bool:
        iterator, prefix = self.iterator, self.prefix
        if iterator in (IteratorType.EQ, IteratorType.REQ):
            return part == prefix
        if iterator in (IteratorType.GE, IteratorType.ALL):
            return part >= prefix
        if iterator == IteratorType.LE:
            return part <= prefix
        if not prefix:
            return True  # GT and LT without a key read everything
        return part > prefix if iterator == IteratorType.GT else part < prefix


def _is_bare(index: Index) -> bool:
    """True if a full key of a TREE index is a bare value and not a tuple (see `box.index.tree`)."""
    assert isinstance(index, TreeIndex)
    return len(index.cmp_def) == 1 and not (index.is_unique and index.key_def.is_nullable)


def _prefix(index: Index, key: list[Any]) -> tuple[Any, ...]:
    """A user's key as the beginning of the index's keys."""
    parts = index.key_def.parse_parts(key)
    is_one_pair = index.is_unique and index.key_def.is_nullable and len(index.key_def) == 1
    return parts[0] if is_one_pair and parts else parts


def _whole(index: Index, key: SortKey) -> tuple[Any, ...]:
    """A full key of a TREE index as a tuple of its parts."""
    return (key,) if _is_bare(index) else key


class ReadSet:
    """Everything that a transaction has read."""

    __slots__ = ("points", "ranges", "tuples")

    def __init__(self) -> None:
        self.tuples: dict[int, set[bytes]] = {}
        """By space id."""
        self.points: set[tuple[Index, SortKey]] = set()
        """Full keys under which there was nothing."""
        self.ranges: list[Range] = []

    def has_tuple(self, space_id: int, value: bytes) -> bool:
        return value in self.tuples.get(space_id, ())

    def has_place(self, index: Index, key: SortKey) -> bool:
        """True if nothing was found where now something is."""
        if (index, key) in self.points:
            return True
        return any(place.index is index and place.covers(key) for place in self.ranges)
