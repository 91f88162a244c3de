"""Changes of a space's indexes that count from one moment on, and are merged in slices afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from box.index.ordered import OrderedIndex
    from box.schema.space import Space

MERGED_KEYS: Final = 256
"""Merged in a few tenths of a millisecond."""


def lay_over(
    space: Space,
    changes: Iterable[tuple[OrderedIndex, Any, int, int]],
    add_work: Callable[[Callable[[], bool]], None],
) -> None:
    """Make changes of a space at once: for each index a tree for `OrderedIndex.lay_over`, and by how many entries and
    bytes of tuples it grows. `add_work` takes the merge, as steps that tell whether there is more."""
    _forget_plan(space)
    for index, tree, growth, size in changes:
        index.lay_over(tree, growth, size)
        add_work(partial(_merge, index))
    add_work(partial(_forget_plan, space))


def _merge(index: OrderedIndex) -> bool:
    return index.merge(MERGED_KEYS)


def _forget_plan(space: Space) -> bool:
    """The plan has the indexes' former ways to find a tuple."""
    space.write_plan = None
    return False
