"""Lays prepared changes over the indexes of a space in one turn, and merges them in slices afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from box.index.ordered import OrderedIndex
    from box.schema.space import Space

MERGED_KEYS: Final = 256
"""The number of keys merged in one turn, which takes a few tenths of a millisecond."""


def lay_over(
    space: Space,
    changes: Iterable[tuple[OrderedIndex, Any, int, int]],
    add_work: Callable[[Callable[[], bool]], None],
) -> None:
    """Make prepared changes of a space visible at once.

    `changes` has for each index a tree for `OrderedIndex.lay_over`, and the numbers of entries and of tuple bytes by
    which the index grows. `add_work` receives the merge as steps that return True while there is more to do.
    """
    _forget_plan(space)
    for index, tree, growth, size in changes:
        index.lay_over(tree, growth, size)
        add_work(partial(_merge, index))
    add_work(partial(_forget_plan, space))


def _merge(index: OrderedIndex) -> bool:
    """Merge a slice of what is laid over an index; returns True if there is more."""
    return index.merge(MERGED_KEYS)


def _forget_plan(space: Space) -> bool:
    """Drop the write plan of a space, which holds bound methods of its indexes that no longer apply."""
    space.write_plan = None
    return False
