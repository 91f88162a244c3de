"""Builds an index from entries in ascending order of their keys: whole leaves, from left to right.

```
append     [k e k e | k e k e | k e ...]     a leaf takes its entries with one call, and knows the next one
finish     nodes above the leaves, level by level; the index's own tree becomes the root
```

Single insertions would search each key's place and leave every node half full. The pickling state, from which nodes are
made, is documented and kept stable by the `BTrees` package.

Nodes and lists of nodes are hidden from the garbage collector, which would visit all of them again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Any, Final

from box.data.keydef import SortKey
from box.index.base import Entry
from box.index.ordered import OrderedIndex
from box.index.own_trees import NumberLeaf, NumberTree, ObjectLeaf, ObjectTree
from box.index.untracked import untrack_one, untracked_list

_LEAVES: Final[dict[type, Any]] = {ObjectTree: ObjectLeaf, NumberTree: NumberLeaf}
_FULL: Final = 0.8
"""The share of a node that is filled, so that later insertions find room."""


class SortedBuild:
    """Fills one empty index that is not in use yet. `count` is the number of entries so far, `last` the greatest
    key.
    """

    def __init__(self, index: OrderedIndex) -> None:
        self.count = 0
        self.last: SortKey | None = None
        tree = index.tree
        self._index = index
        self._tree_type = type(tree)
        self._leaf_type = _LEAVES[self._tree_type]
        self._width = 2 * int(tree.max_leaf_size * _FULL)
        self._fan = int(tree.max_internal_size * _FULL)
        self._rest: tuple[Any, ...] = ()
        """Alternating keys and entries that are in no leaf yet. The last leaf is made of them, so that they never run
        out."""
        self._leaf = _new_node(self._leaf_type)
        """The next leaf to be filled."""
        self._leaves: list[Any] = untracked_list()
        self._firsts: list[SortKey] = untracked_list()
        """The first key of each leaf."""

    def append(self, keys: Sequence[SortKey], entries: Sequence[Entry]) -> bool:
        """Append entries. Returns False, and appends nothing, if their keys do not ascend."""
        if not keys:
            return True
        if (self.count and not self.last < keys[0]) or not all(map(lt, keys, islice(keys, 1, None))):
            return False
        self.count += len(keys)
        self.last = keys[-1]
        added: list[Any] = [None] * (2 * len(keys))
        added[::2], added[1::2] = keys, entries
        rest, width = (*self._rest, *added), self._width
        whole = (len(rest) - 1) // width * width
        leaf_type = self._leaf_type
        for start in range(0, whole, width):
            following = _new_node(leaf_type)
            self._leaf.__setstate__((rest[start : start + width], following))
            self._leaves.append(self._leaf)
            self._firsts.append(rest[start])
            self._leaf = following
        self._rest = rest[whole:]
        return True

    def finish(self) -> Iterator[None]:
        """Give the tree to the index, one turn's share with each step. The caller then calls
        `OrderedIndex.end_load`.
        """
        rest = self._rest
        if not self._leaves:
            for place in range(0, len(rest), 2):
                self._index.insert(rest[place], rest[place + 1])
            return
        self._leaf.__setstate__((rest,))
        nodes, keys = self._leaves, self._firsts
        nodes.append(self._leaf)
        keys.append(rest[0])
        leaves = nodes
        while len(nodes) > self._fan:
            above, first_keys, first_leaves = untracked_list(), untracked_list(), untracked_list()
            starts = range(0, len(nodes) - 1, self._fan)  # a single node left at the end joins the group before it
            for start, stop in zip(starts, [*starts[1:], len(nodes)], strict=True):
                node = _new_node(self._tree_type)
                node.__setstate__((_alternating(nodes[start:stop], keys[start:stop]), leaves[start]))
                above.append(node)
                first_keys.append(keys[start])
                first_leaves.append(leaves[start])
                # Each step releases its own nodes, because releasing all of them at once would take long.
                nodes[start:stop] = keys[start:stop] = [None] * (stop - start)
                yield
            nodes, keys, leaves = above, first_keys, first_leaves
        self._index.tree.__setstate__((_alternating(nodes, keys), leaves[0]))


def _new_node(kind: Any) -> Any:
    node = kind()
    untrack_one(node)
    return node


def _alternating(nodes: list[Any], keys: list[SortKey]) -> tuple[Any, ...]:
    """Return nodes and keys in alternation, as the state of their parent has them; the first key is left out."""
    state: list[Any] = [None] * (2 * len(nodes) - 1)
    state[::2], state[1::2] = nodes, keys[1:]
    return tuple(state)
