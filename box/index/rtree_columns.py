"""The columns of an R-tree's pages, and the parts of the source that is compiled to search them.

The rectangles of a page are columns, an array for each coordinate, because a million objects would be a million cache
misses, and since a condition most often ends with the first coordinate. A page of points has half of the columns. After
some searches the columns are sorted by the first coordinate: then a bisection finds the keys between two numbers, and
only those are compared further.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, Protocol

from box.index.untracked import untrack

Box = tuple[float, ...]
_MOST_RANKED: Final = 256
"""A page with more keys than this is not sorted, because the place of each key has to fit into a byte."""
_SEARCHES: Final = 4
"""The searches of a page after which its columns are sorted. That takes as long as ten searches, so it would be wasted
on pages that change again and again.
"""


class Rectangles(Protocol):
    """The rectangles of a page's keys, stored by columns."""

    are_points: bool
    columns: Sequence[array[float]]
    """The coordinates of all keys, one array for each of a0, a1, ..., followed by b0, b1, ... unless all keys are
    points. They are in the order of the keys until `rank` sorts them.
    """
    order: bytes | None
    """The places of the sorted columns' numbers among the keys, one byte each; None if the columns are not sorted."""
    searches: int
    """The number of searches before the columns were sorted."""


def are_finite(columns: Sequence[array[float]]) -> bool:
    """Return whether all numbers, and their sum, are finite."""
    total = sum(map(sum, columns))
    return total - total == 0


def rank(page: Rectangles) -> bool:
    """Sort the columns of a page by the first coordinate, after some searches since it was read. Returns whether the
    columns are sorted.
    """
    if page.searches < _SEARCHES:
        page.searches += 1
        return False
    first = page.columns[0]
    if len(first) > _MOST_RANKED or not are_finite(page.columns):  # what is not a number has no place in an order
        return False
    order = sorted(range(len(first)), key=first.__getitem__)
    page.columns = tuple([array("d", map(column.__getitem__, order)) for column in page.columns])
    untrack((*page.columns, page.columns))
    page.order = bytes(order)
    return True


def in_order(distances: list[float], order: bytes | None) -> list[float]:
    """Return the distances of a page's sorted columns in the order of its keys."""
    if order is None:
        return distances
    arranged = [0.0] * len(distances)
    for place, distance in zip(order, distances, strict=True):
        arranged[place] = distance
    return arranged


def searching() -> dict[str, Any]:
    """Return the functions that compiled searches call."""
    return {"bisect_left": bisect_left, "bisect_right": bisect_right, "rank": rank, "in_order": in_order}


def names_of(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def listed(names: list[str]) -> str:
    return ", ".join(names)


def tuple_of(items: list[str]) -> str:
    return "(" + "".join(item + ", " for item in items) + ")"


def formats(dimension: int) -> dict[str, Any]:
    point, rectangle = struct.Struct(f"<{dimension}d"), struct.Struct(f"<{2 * dimension}d")
    return {
        "pack": point.pack,
        "pack_box": rectangle.pack,
        "unpack": point.unpack_from,
        "unpack_box": rectangle.unpack_from,
    }
