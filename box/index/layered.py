"""A container with changes laid over it, which are merged into it slice by slice.

```
over    key -> entry, or GONE           newer: what a reader finds here counts
base    key -> entry                    the container itself
```

So a large transaction is in an index at once, and the work is done later. Look-ups and scans in order read both layers;
a write goes to the base and removes its key from the upper layer. Any other operation first completes the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from box.data.keydef import SortKey

GONE: Final = object()
"""Stands for an entry in the upper layer whose key was removed."""


def merged(base: Iterable[tuple[SortKey, Any]], over: Iterable[tuple[SortKey, Any]]) -> Iterator[tuple[SortKey, Any]]:
    """Yield the pairs of two layers in order; those of `over` count."""
    upper = iter(over)
    newer = next(upper, None)
    for pair in base:
        while newer is not None and newer[0] < pair[0]:
            if newer[1] is not GONE:
                yield newer
            newer = next(upper, None)
        if newer is not None and newer[0] == pair[0]:
            if newer[1] is not GONE:
                yield newer
            newer = next(upper, None)
        else:
            yield pair
    while newer is not None:
        if newer[1] is not GONE:
            yield newer
        newer = next(upper, None)


class LayeredTree:
    """A tree of two layers with the methods of a BTree that indexes use. `settle` ends the merge; then only the base is
    left.
    """

    __slots__ = ("_settle", "base", "over")

    def __init__(self, base: Any, over: Any, settle: Callable[[], None]) -> None:
        self.base = base
        self.over = over
        self._settle = settle

    # -- at any time

    def get(self, key: SortKey) -> Any:
        """Return the entry of a key, or None."""
        entry = self.over.get(key)
        if entry is None:
            return self.base.get(key)
        return None if entry is GONE else entry

    def insert(self, key: SortKey, entry: Any) -> int:
        """Add an entry. Returns 0 if its key has one."""
        if self.get(key) is not None:
            return 0
        self[key] = entry
        return 1

    def __setitem__(self, key: SortKey, entry: Any) -> None:
        self.over.pop(key, None)
        self.base[key] = entry

    def __delitem__(self, key: SortKey) -> None:
        """Remove a key. Raises KeyError if it has no entry."""
        if self.get(key) is None:
            raise KeyError(key)
        self.over.pop(key, None)
        self.base.pop(key, None)

    def pop(self, key: SortKey, default: Any) -> Any:
        """Remove the entry of a key and return it, or `default`."""
        entry = self.get(key)
        if entry is None:
            return default
        self.over.pop(key, None)
        self.base.pop(key, None)
        return entry

    def items(self, *bounds: Any) -> Iterator[tuple[SortKey, Any]]:
        """Return the pairs of a range in order; the tree must not change while they are taken."""
        return merged(self.base.items(*bounds), self.over.items(*bounds))

    # -- when all is merged

    def _whole(self) -> Any:
        self._settle()
        return self.base

    def __getitem__(self, key: SortKey) -> Any:
        return self._whole()[key]

    def __len__(self) -> int:
        return len(self._whole())

    def __getstate__(self) -> Any:
        return self._whole().__getstate__()

    def keys(self, *bounds: Any) -> Any:
        """Return the keys of a range, after completing the merge."""
        return self._whole().keys(*bounds)

    def values(self, *bounds: Any) -> Any:
        """Return the entries of a range, after completing the merge."""
        return self._whole().values(*bounds)

    def minKey(self) -> SortKey:
        """Return the least key, after completing the merge."""
        return self._whole().minKey()

    def maxKey(self) -> SortKey:
        """Return the greatest key, after completing the merge."""
        return self._whole().maxKey()

    def clear(self) -> None:
        """Remove everything."""
        self._whole().clear()
