"""A select of so many tuples that finding them all at once would stop the loop: it reads slices, all of one moment.

```
nothing changes    the container's own iterator, from slice to slice
the first change   just before it is made, a view of the rest takes over (`box.index.view`)
order reversed     a view from the beginning; so with a condition, and with versions, whose view the caller makes
some are hidden    a view from the beginning, of which each slice leaves out what the reader may not see
container gone     all of it anew, at once: the index was emptied
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from box.data.keydef import SortKey
from box.index.base import Entry
from box.index.ordered import BackwardCursor, ForwardCursor, OrderedIndex
from box.index.view import IndexView, TupleView

LONG: Final = 65536
"""Selects of more tuples than this are split into turns; fewer are found within some milliseconds."""
_SLICE: Final = 16384
"""The number of tuples that are read in one turn."""
_VIEW_SLICE: Final = 4096
"""The number of tuples that are read from a view in one turn, in less than a millisecond."""
LONG_FILTERED: Final = 1024
"""Filtered selects of more tuples than this are split into turns."""
_FILTERED_SLICE: Final = 128
"""The number of tuples that are filtered in one turn; deciding whether the reader may see one takes some
microseconds."""


class LongRead:
    """A select in progress, on a fresh `cursor` or on a view. If the index was emptied, `again` runs the select anew.

    With a view, `visible` tells which tuples the reader may see. Call `close` to abandon the select.
    """

    def __init__(
        self,
        index: OrderedIndex,
        cursor: ForwardCursor | BackwardCursor | None,
        offset: int,
        limit: int,
        again: Callable[[], list[bytes]],
        view: TupleView | None = None,
        visible: Callable[[bytes], bool] | None = None,
        position_of: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.position_of = position_of
        """The function that makes a position of the last tuple, for a page that returns its position; else None."""
        index.settle()
        self._index = index
        self._tree = index.tree
        self._version = index.version
        self._cursor = cursor
        self._again = again
        self._at = offset
        self._left = limit
        self._skipped = 0
        """The number of tuples that are still to be skipped in the view, because of the offset."""
        self._view = view
        self._visible = visible
        self._walk: Iterator[Entry] = iter(())
        if view is not None or cursor is None or cursor.is_reverse or cursor.is_filtered:
            self._skipped = offset
            self._view = view or IndexView(index, (), cursor)
        else:
            found = self._tree.values(*cursor.bounds)
            self._walk = iter(found[offset:]) if offset else iter(found)
            index.listeners.append(self._changing)

    def _changing(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        """React to the first change, just before it is made: keep the unread rest in a view."""
        listeners = self._index.listeners
        listeners.remove(self._changing)
        assert self._cursor is not None
        if self._at:
            low, high, low_excluded, high_excluded = self._cursor.bounds
            keys = self._tree.keys(low, high, low_excluded, high_excluded)
            try:
                self._cursor.resume((keys[self._at - 1], high, True, high_excluded))
            except IndexError:  # the index has no more tuples
                self._left = 0
        self._view = IndexView(self._index, (), self._cursor)
        listeners[-1](key, old, new)

    def take(self, rows: list[bytes]) -> bool:
        """Add some tuples to `rows`. Returns False when the select is complete. Raises the errors of
        `Reader.select`.
        """
        if self._index.tree is not self._tree or (self._view is None and self._index.version != self._version):
            self.close()
            rows[:] = self._again()
            return False
        if self._view is not None:
            taken = self._view.take(_FILTERED_SLICE if self._visible else min(self._left, _VIEW_SLICE))
            is_end, found = taken is None, list(filter(self._visible, taken or ())) if self._visible else taken or []
        else:
            wanted = min(self._left, _SLICE)
            found = list(islice(self._walk, wanted))
            is_end = len(found) < wanted
        if self._skipped:
            skipped = min(self._skipped, len(found))
            self._skipped -= skipped
            del found[:skipped]
        del found[self._left :]  # a view may return more than was asked for
        rows += found
        self._at += len(found)
        self._left -= len(found)
        if is_end or not self._left:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Release everything; safe to call again."""
        if self._view is not None:
            self._view.close()
        elif self._changing in self._index.listeners:
            self._index.listeners.remove(self._changing)
        self._walk = iter(())
        self._left = 0
