"""An index as it was at one moment, with look-ups and scans, while the index itself changes.

```
before    key -> entry, or GONE    what was there until the first change of a key since that moment
base      key -> entry             the tree of the index as it is now
```

A reader finds what is in `before`, and else what is in the tree. A view (`box.index.view`) is read once from end to end
and forgets what it has passed. A frozen index may be asked anything again, so it keeps the former entry of every key
that has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from box.data.keydef import SortKey
from box.index.layered import GONE, merged

if TYPE_CHECKING:
    from box.index.base import Entry

_Bounds = tuple[Any, Any, bool, bool]
_EMPTY: tuple[tuple[SortKey, Any], ...] = ()


class FrozenTree:
    """The methods of a BTree that cursors use, over a tree and what was there before its changes."""

    __slots__ = ("base", "before")

    def __init__(self, base: Any, before: Any) -> None:
        self.base = base
        self.before = before

    def get(self, key: SortKey) -> Any:
        """Return the entry that a key had, or None."""
        entry = self.before.get(key)
        if entry is None:
            return self.base.get(key)
        return None if entry is GONE else entry

    def items(self, *bounds: Any) -> Iterable[tuple[SortKey, Any]]:
        """Return the pairs of a range in order; the tree must not change while they are taken."""
        items: Iterable[tuple[SortKey, Any]] = self.base.items(*bounds)
        return merged(items, self.before.items(*bounds)) if self.before else items

    def pieces(self, leaves: Iterator[Any]) -> Iterator[FrozenLeaf]:
        """Yield a piece for each leaf of the base, from the last to the first, and one for what was below them all."""
        above: SortKey | None = None
        for leaf in leaves:
            if len(leaf):
                piece = FrozenLeaf(self.before, leaf, leaf.minKey(), above)
                above = piece.minKey()
                yield piece
        yield FrozenLeaf(self.before, None, None, above)


class FrozenLeaf:
    """A leaf with what was there before, from its least key up to, and without, the least key of the next leaf."""

    __slots__ = ("_above", "_before", "_leaf", "_low")

    def __init__(self, before: Any, leaf: Any, low: SortKey | None, above: SortKey | None) -> None:
        self._before = before
        self._leaf = leaf
        self._low = low
        self._above = above

    def __len__(self) -> int:
        return 0 if self._leaf is None else len(self._leaf)

    def minKey(self) -> Any:
        """Return the least key of the leaf."""
        return self._low

    def items(self, low: Any, high: Any, low_excluded: bool, high_excluded: bool) -> Iterator[tuple[SortKey, Any]]:
        """Yield the pairs of a range in order."""
        if self._low is not None and (low is None or low < self._low):
            low, low_excluded = self._low, False
        if self._above is not None and (high is None or high >= self._above):
            high, high_excluded = self._above, True
        bounds: _Bounds = (low, high, low_excluded, high_excluded)
        return merged(_EMPTY if self._leaf is None else self._leaf.items(*bounds), self._before.items(*bounds))


class FrozenIndex:
    """What cursors of an `OrderedIndex` read instead of it after `adopt`. Call `close` at the end.

    `before` has entries by key that differ from the index's at this moment, None for an absent one.
    """

    __slots__ = ("_base", "_index", "_tree", "find", "version")

    def __init__(self, index: Any, before: Iterable[tuple[SortKey, bytes | None]] = ()) -> None:
        index.settle()
        self._index = index
        kept = index.new_tree()
        for key, entry in before:
            kept[key] = GONE if entry is None else entry
        self._base = self._tree = FrozenTree(index.tree, kept)
        self.find = self._tree.get
        self.version = 0
        index.listeners.append(self._changing)

    def _changing(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        self._tree.before.insert(key, GONE if old is None else old)
        self.version += 1

    def items(self) -> Iterable[tuple[SortKey, Any]]:
        """Return all pairs in the order of the keys; the index must not change while they are taken."""
        return self._tree.items()

    def adopt(self, cursor: Any) -> None:
        """Let a cursor of the index, also one that has read some entries, read from here."""
        cursor.read_from(self)

    def close(self) -> None:
        """Stop recording the changes of the index."""
        self._index.listeners.remove(self._changing)
