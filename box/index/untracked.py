"""Hides the nodes of the indexes' trees from Python's cyclic garbage collector.

For the collector a node of a B-tree is a container, whose every entry it visits in each full collection: with two
million tuples that takes a tenth of a second. The entries are bytes, and no cycle passes through a tree, so that
reference counts free everything. Python cannot express that, but the C interface can.

Slots (`box.txn.versions`) are entries while transactions are open, and refer to their index. These cycles end with the
transactions, or with `abandon` if nobody ends the transactions.

The collector still sees trees of other libraries in the process (`box.index.own_trees`).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import compress
from typing import Any, ClassVar

from box.index.ordered import OrderedIndex
from box.index.own_trees import NODES

untrack_one: Any = ctypes.pythonapi.PyObject_GC_UnTrack
untrack_one.argtypes = [ctypes.py_object]
untrack_one.restype = None
"""Removes an object that is not part of a cycle from the garbage collector's lists."""


def untrack_nodes(generation: int) -> None:
    """Hide the nodes of all own trees in a generation from the collector."""
    objects = gc.get_objects(generation=generation)
    for found in compress(objects, map(NODES.__contains__, map(type, objects))):
        untrack_one(found)


def untrack_index(index: OrderedIndex) -> Iterator[None]:
    """Hide the nodes of one index from the collector, a thousand with each step.

    Code that makes millions of other objects while the collector is paused cannot search for nodes among them.
    """
    for number, node in enumerate(index.nodes(), 1):
        untrack_one(node)
        if number % 1024 == 0:
            yield


def untrack(objects: Iterable[Any]) -> None:
    """Hide objects that are not part of a cycle from the collector.

    The objects are rows and statements by the hundred thousand, which the collector would visit again and again while
    they live.
    """
    for found in objects:
        untrack_one(found)


def untracked_list(entries: Iterable[Any] = ()) -> list[Any]:
    """Make a list that the collector does not visit, for millions of entries without cycles."""
    made: list[Any] = list(entries)
    untrack_one(made)
    return made


def _before_collection(phase: str, info: dict[str, int]) -> None:
    """Hide new nodes before a collection. They are born tracked, and each collection begins with the youngest
    objects.
    """
    if phase == "start":
        untrack_nodes(0)


class CollectorWatch:
    """Hides nodes before each collection of this process, from `begin` to `end`, as long as any watch is on."""

    _on: ClassVar[set[CollectorWatch]] = set()

    def begin(self) -> None:
        """Begin to hide nodes; safe to call again.

        Older generations are left alone: visiting them takes time proportional to the program's size, and of this
        package they contain only the empty trees of system spaces.
        """
        if not self._on:
            gc.callbacks.append(_before_collection)
            untrack_nodes(0)
        self._on.add(self)

    def end(self) -> None:
        """Stop hiding nodes; safe to call again. When the last watch ends, the collector's callback is removed."""
        if self in self._on:
            self._on.remove(self)
            if not self._on:
                gc.callbacks.remove(_before_collection)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector in this context, which makes many objects and frees them before it ends."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
