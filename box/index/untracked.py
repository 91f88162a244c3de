"""Keeps Python's cyclic garbage collector away from the nodes of the indexes' trees.

A node of a B-tree is a container to the collector, which looks at every entry of it in each full collection: with two
million tuples that takes a tenth of a second. The entries are bytes, and cycles do not go through a tree, so that
reference counts free it all. Python has no way to say so; the C interface has one, for types that know better.

Slots (`box.txn.versions`) are entries for as long as transactions are open, and name their index: these cycles end
with the transactions, or with `abandon` if nobody ends those any more.

Trees of other libraries in the process stay in its sight (`box.index.own_trees`).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from box.index.ordered import OrderedIndex
from box.index.own_trees import NODES

untrack_one: Any = ctypes.pythonapi.PyObject_GC_UnTrack
untrack_one.argtypes = [ctypes.py_object]
untrack_one.restype = None
"""Takes an object that is no part of a cycle out of the collector's lists."""


def untrack_nodes(generation: int) -> None:
    """Take the nodes of all own trees in a generation out of the collector's lists."""
    for found in gc.get_objects(generation=generation):
        if type(found) in NODES:
            untrack_one(found)


def untrack_index(index: OrderedIndex) -> Iterator[None]:
    """Take the nodes of one index out, a step for every thousand of them. Whoever makes millions of other objects while
    the collector is paused cannot look for nodes among them."""
    for number, node in enumerate(index.nodes(), 1):
        untrack_one(node)
        if number % 1024 == 0:
            yield


def untrack(objects: Iterable[Any]) -> None:
    """Take objects that are no part of a cycle out of the collector's lists: rows and statements by the hundred
    thousand, which it would look at again and again while they live."""
    for found in objects:
        untrack_one(found)


def untracked_list(entries: Iterable[Any] = ()) -> list[Any]:
    """A list that the collector does not look into: for millions of entries without cycles."""
    made: list[Any] = list(entries)
    untrack_one(made)
    return made


def _before_collection(phase: str, info: dict[str, int]) -> None:
    """Nodes are born tracked. Each collection begins with the youngest objects, so that none gets any older."""
    if phase == "start":
        untrack_nodes(0)


class CollectorWatch:
    """Looks for nodes before each collection of this process, from `begin` to `end`, as long as one watch is on."""

    _on: ClassVar[set[CollectorWatch]] = set()

    def begin(self) -> None:
        """Begin to look; safe to call again.

        Older generations are left alone: a walk over them takes as long as the program is large, and holds nothing of
        ours but the empty trees of system spaces.
        """
        if not self._on:
            gc.callbacks.append(_before_collection)
            untrack_nodes(0)
        self._on.add(self)

    def end(self) -> None:
        """End it; safe to call again. With the last watch the collector's callback goes."""
        if self in self._on:
            self._on.remove(self)
            if not self._on:
                gc.callbacks.remove(_before_collection)
