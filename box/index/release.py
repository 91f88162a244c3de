"""Frees the trees of discarded indexes, a little in every turn of the loop.

If two million tuples lost their last reference in one call, everything would stop for the better part of a second.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from box.index.base import Index
from box.index.ordered import OrderedIndex, children

LEAVES_A_TURN: Final = 32
"""The number of leaves that are emptied in one turn: one or two thousand entries, a few tenths of a millisecond."""
_PAUSE: Final = 0.01
"""The pause between two checks whether views have been closed, in seconds."""


class Releaser:
    """Frees indexes that are no longer used; one for each instance."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[OrderedIndex] = deque()
        self._leaves: Iterator[Any] | None = None
        self._turn: Handle | None = None

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to be freed."""
        return self._turn is None

    def release(self, index: Index) -> None:
        """Empty an index whose layout was replaced for good. It stays whole while views are open on it."""
        if isinstance(index, OrderedIndex) and len(index):
            self._waiting.append(index)
            if self._turn is None:
                self._turn = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._turn = None
        left = LEAVES_A_TURN
        while left:
            if self._leaves is None:
                self._leaves = self._next_tree()
                if self._leaves is None:
                    break
            leaf = next(self._leaves, None)
            if leaf is None:
                self._leaves = None
            else:
                leaf.clear()
            left -= 1
        if self._leaves is not None or self._waiting:
            # There is no hurry if everything left waits for views.
            self._turn = self._loop.call_later(0 if left == 0 else _PAUSE, self._go_on)

    def _next_tree(self) -> Iterator[Any] | None:
        for _ in range(len(self._waiting)):
            index = self._waiting.popleft()
            if not index.listeners:
                return chain.from_iterable(map(_taken_apart, index.detach()))
            self._waiting.append(index)
        return None

    def finish(self, indexes: Iterable[Index]) -> Iterator[None]:
        """Free these indexes and all others, one turn's share with every step. Indexes with open views stay whole."""
        self.pause()
        self._waiting += (index for index in indexes if isinstance(index, OrderedIndex))
        freed = 0
        while (leaves := self._leaves or self._next_tree()) is not None:
            self._leaves = None
            for leaf in leaves:
                leaf.clear()
                freed += 1
                if freed % LEAVES_A_TURN == 0:
                    yield
        self._waiting.clear()

    def pause(self) -> None:
        """Stop freeing; the next `release` resumes it."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None


def _taken_apart(tree: Any) -> Iterator[Any]:
    """Yield the leaves of a tree from the last to the first, detached from the nodes above. The pages of an R-tree are
    a list; each counts as one leaf, because it may be the last owner of as many keys.

    The caller empties each leaf, which releases the next one; a chain of leaves would otherwise be freed in one call.
    """
    if isinstance(tree, list):
        while tree:
            part = tree[-1:]
            del tree[-1:]
            yield part
        return
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        below, _ = children(node)
        if below:
            node.clear()
            nodes += below
        else:
            yield node
