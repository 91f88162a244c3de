"""Views: the entries of an index at the moment when the view was opened, read in slices while the index changes.

```
            read already          not read yet
tree        |----- any change ----|------ k: old -> new ------|
before                            |       k: old              |      the first change of a key keeps what was there
slice                             [ tree, with `before` over it )
```

A listener of the index keeps the first old entry of every key that changes ahead of the reader. The reader puts the
kept entry in the place of the tree's, and forgets it. So opening costs nothing, a change costs one look-up and one
insertion while a view is open, and memory is needed only for the changes ahead. Entries are tuples' bytes: for an index
with other entries, `before` tells what they mean.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Protocol

from box.data.keydef import SortKey
from box.index.base import Entry, Index
from box.index.iterator_type import IteratorType
from box.index.ordered import (
    EVERYTHING,
    BackwardCursor,
    Bounds,
    ForwardCursor,
    OrderedIndex,
    is_within,
    leaves_backwards,
)
from box.index.placed import PlacedCursor, PlacedIndex, PlacedView
from box.index.sliced_view import SLICE, SlicedView


class TupleView(Protocol):
    """Tuples that do not change while they are read."""

    def take(self, limit: int = SLICE) -> list[bytes] | None:
        """Return the next tuples after a short turn, or None at the end, where the view closes itself.

        The list may be empty if many tuples of the slice were removed or added since.
        """

    def fetch(self, limit: int = SLICE) -> list[bytes]:
        """Return the next tuples; [] only at the end."""

    def close(self) -> None:
        """Close the view; afterwards `fetch` returns nothing."""


class ListView:
    """A view of tuples that are in a list already."""

    def __init__(self, tuples: Iterable[bytes]) -> None:
        self._rest = iter(list(tuples))

    def take(self, limit: int = SLICE) -> list[bytes] | None:
        return list(islice(self._rest, limit)) or None

    def fetch(self, limit: int = SLICE) -> list[bytes]:
        return list(islice(self._rest, limit))

    def close(self) -> None:
        self._rest = iter(())


class IndexView(SlicedView):
    """A view of an index. No changes may lie over the index when it is opened.

    `before` has entries by key that differ from the index's, None for an absent one. `cursor`, a fresh one over the
    index, selects what is read and in which order; without it everything is read.
    """

    def __init__(
        self,
        index: OrderedIndex,
        before: Iterable[tuple[SortKey, bytes | None]] = (),
        cursor: ForwardCursor | BackwardCursor | None = None,
    ) -> None:
        self._index = index
        self._cursor = cursor or ForwardCursor(index, EVERYTHING)
        self._cursor.reads_base = True  # changes that lie over the base reach `_changed` when they are merged into it
        self._before: Any = index.new_tree()
        self._is_closed = False
        for key, entry in before:
            if self._cursor.selects(key):
                self._before.insert(key, entry)
        index.listeners.append(self._changed)

    def _changed(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        if is_within(key, self._cursor.bounds) and self._cursor.selects(key):
            self._before.insert(key, old)

    def take(self, limit: int = SLICE) -> list[bytes] | None:
        if self._is_closed:
            return None
        cursor, start = self._cursor, self._cursor.bounds
        if not self._before and not cursor.is_filtered:
            unchanged = cursor.pass_over(limit)
            if len(unchanged) < limit:
                self.close()
            return unchanged
        is_end = cursor.step(limit)
        pairs = cursor.pairs
        kept = self._kept(start if is_end else _passed(start, cursor), limit)
        if len(kept) == limit:
            # The earlier entries alone reach the limit: go no further than the last of them.
            last, is_end = kept[-1][0], False
            cursor.resume(_after(start, last, cursor.is_reverse))
            pairs = pairs[: _count_up_to(pairs, last, cursor.is_reverse)]
        for key, _ in kept:
            del self._before[key]
        if is_end:
            self.close()
        return _merged(pairs, kept, cursor.is_reverse)

    def _kept(self, bounds: Bounds, limit: int) -> list[tuple[SortKey, bytes | None]]:
        if not self._cursor.is_reverse:
            return list(islice(self._before.items(*bounds), limit))
        kept: list[tuple[SortKey, bytes | None]] = []
        for leaf in leaves_backwards(self._before, bounds[1]):
            found = list(leaf.items(*bounds))
            if not found and kept:
                break
            kept += reversed(found)
            if len(kept) >= limit:
                break
        return kept[:limit]

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._index.listeners.remove(self._changed)
            self._before = self._index.new_tree()


def open_view(index: Index, before: Iterable[tuple[SortKey, bytes | None]] = (), cursor: Any = None) -> TupleView:
    """Open a view of an index, or of what a fresh cursor over it selects."""
    if index.has_slots and cursor is None:
        cursor = index.cursor(IteratorType.ALL, [])
    is_in_order = cursor is None or isinstance(cursor, (ForwardCursor, BackwardCursor))
    if isinstance(index, OrderedIndex) and not isinstance(index, PlacedIndex):
        index.settle()
        if is_in_order:
            return IndexView(index, before, cursor)
        if (view := cursor.open_view(before)) is not None:
            return view  # type: ignore[no-any-return]
    if isinstance(index, PlacedIndex) and (cursor is None or isinstance(cursor, PlacedCursor)):
        return PlacedView(index, before, cursor)
    return ListView(index.values_list() if cursor is None else _rest_of(cursor))


def _rest_of(cursor: Any) -> Iterator[bytes]:
    while chunk := cursor.fetch(SLICE):
        yield from chunk


_key_of: Final = itemgetter(0)


def _merged(
    pairs: list[tuple[SortKey, Entry]], kept: list[tuple[SortKey, bytes | None]], is_reverse: bool
) -> list[bytes]:
    """Merge the entries of two sorted lists; kept ones replace those of the tree."""
    merged: dict[SortKey, bytes | None] = dict(pairs)
    count = len(merged)
    merged.update(kept)
    if len(merged) > count:  # keys that are no longer in the index were added at the end
        merged = dict(sorted(merged.items(), key=_key_of, reverse=is_reverse))
    return [entry for entry in merged.values() if entry is not None]


def _count_up_to(pairs: list[tuple[SortKey, Entry]], last: SortKey, is_reverse: bool) -> int:
    """Return the number of pairs, in the reader's order, that are not after a key."""
    if is_reverse:
        return len(pairs) - bisect_left(pairs[::-1], last, key=_key_of)
    return bisect_right(pairs, last, key=_key_of)


def _passed(start: Bounds, cursor: ForwardCursor | BackwardCursor) -> Bounds:
    """Return the range that the last `step` of a cursor has read."""
    low, high, low_excluded, high_excluded = start
    next_low, next_high, next_low_excluded, next_high_excluded = cursor.bounds
    if cursor.is_reverse:
        return next_high, high, not next_high_excluded, high_excluded
    return low, next_low, low_excluded, not next_low_excluded


def _after(start: Bounds, key: SortKey, is_reverse: bool) -> Bounds:
    low, high, low_excluded, high_excluded = start
    return (low, key, low_excluded, True) if is_reverse else (key, high, True, high_excluded)
