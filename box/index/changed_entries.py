"""The entries of an index that have changed since a moment, for a copy of them that lies elsewhere."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from box.data.keydef import SortKey

if TYPE_CHECKING:
    from box.index.base import Entry
    from box.index.ordered import OrderedIndex

Changes = dict[SortKey, tuple["Entry | None", "Entry | None"]]
"""By key: the entry at the beginning and the entry now; None for none."""


class ChangedEntries:
    """The changed entries of an index, up to a limit. They end with the limit or with `close`.

    The index must not be emptied meanwhile. Code that replaces the index calls `close` first.
    """

    __slots__ = ("_changes", "_index", "_limit")

    def __init__(self, index: OrderedIndex, limit: int) -> None:
        index.settle()
        self._index: Callable[[], OrderedIndex | None] = weakref.ref(index)
        self._limit = limit
        self._changes: Changes | None = {}
        index.listeners.append(self._changing)

    def _changing(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        changes = self._changes
        assert changes is not None
        known = changes.get(key)
        changes[key] = (old if known is None else known[0], new)
        if len(changes) > self._limit:
            self.close()

    def are_whole(self) -> bool:
        """Return whether all changes until now are known."""
        index = self._index()
        if index is not None and index.is_layered:
            index.settle()
        return self._changes is not None

    def take(self) -> Changes:
        """Return the changes, which must be whole, and begin anew."""
        changes = self._changes
        assert changes is not None
        self._changes = {}
        return changes

    def close(self) -> None:
        """Stop recording changes and drop those recorded; safe to call again."""
        index = self._index()
        if index is not None and self._changes is not None:
            index.listeners.remove(self._changing)
        self._changes = None
