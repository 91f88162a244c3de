"""Distances of rectangles from a point, compiled for a number of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from box.data.keydef import SortKey
from box.data.types import compiled_source
from box.index.rtree_columns import Box, Rectangles, formats, listed, names_of, searching, tuple_of

_ROUNDED_UP: Final = 1 + 2**-48
"""A factor that is greater than the rounding error of a calculated distance."""


class Distances:
    """Functions that calculate distances from the lower corner of a rectangle, their last argument. Euclidean distances
    are squared.
    """

    __slots__ = ("box_within", "exponent", "near", "of_boxes", "of_key", "of_page", "of_rows")

    near: Callable[[Rectangles, float, Box, Box], list[tuple[float, int]]]
    """Returns (distance, index in the page) for the keys of a page that are not farther than a distance. The third
    argument is the `box_within` of the distance.
    """
    exponent: float
    """The power of a number of neighbours to which the distance of the last one is proportional, if they are evenly
    spread.
    """
    box_within: Callable[[float, Box], Box]
    """Returns a box that contains everything up to a distance, which must not be tiny."""
    of_boxes: Callable[[list[Box], Box], list[float]]
    """Returns the distances of the nearest points of some boxes."""
    of_key: Callable[[SortKey, Box], float]
    of_page: Callable[[Rectangles, Box], list[float]]
    """Returns the distances of the keys of a page, in the order of its columns: see `in_order`."""
    of_rows: Callable[[list[Any], Box], list[tuple[float, int, Any]]]
    """Returns (distance, id, node) for each of some rows."""


def distances_of(dimension: int, distance: str, unpacked: str) -> Distances:
    """Compile the functions of a kind of distance; `unpacked` are the lines that unpack a key."""
    a, b = names_of("a", dimension), names_of("b", dimension)
    far, far_point = _distance(dimension, distance), _distance_of_points(dimension, distance)
    point = f"{listed(names_of('p', dimension))}, *_ = point"
    sides = " and ".join([f"l{n} <= {'a1' if n == 1 else f'c{n}[n]'} <= h{n}" for n in range(1, dimension)])
    far_place = _distance_of_points(dimension, distance, [f"c{n}[n]" if n != 1 else "a1" for n in range(dimension)])
    if dimension == 1:
        sides, far_place = "True", far_point
    source = f"""
def of_rows(rows, point):
    {point}
    return [({far}, id(node), node) for {listed(a + b)}, node in rows]

def of_page(page, point):
    {point}
    columns = page.columns
    if page.are_points:
        if {" and ".join(f"p{n} - p{n} == 0" for n in range(dimension))}:
            return [{far_point} for {listed(a)}, in zip(*columns)]
        columns = (*columns, *columns)  # no difference of infinities
    return [{far} for {listed(a + b)} in zip(*columns)]

def near(page, most, point, box):
    if not page.are_points or page.order is None and not rank(page):
        return [(d, n) for n, d in enumerate(in_order(of_page(page, point), page.order)) if d <= most]
    {point}
    {listed(names_of("l", dimension) + names_of("h", dimension))}, = box
    order, ({listed(names_of("c", dimension))},) = page.order, page.columns
    low, high = bisect_left(c0, l0), bisect_right(c0, h0)
    return [
        (d, order[n])
        for n, a{min(1, dimension - 1)} in enumerate(c{min(1, dimension - 1)}[low:high], low)
        if {sides} and (d := {far_place}) <= most
    ]

def box_within(most, point):
    {point}
    r = {"most ** 0.5" if distance == "euclid" else "most"} * {_ROUNDED_UP}
    return {tuple_of([f"p{n} - r" for n in range(dimension)] + [f"p{n} + r" for n in range(dimension)])}

def of_boxes(items, point):
    {point}
    return [{far} for {listed(a + b)}, in items]

def of_key(key, point):
    {point}
{unpacked}
    return {far}
"""
    names = formats(dimension) | searching()
    exec(compiled_source(source), names)
    made = Distances()
    made.of_boxes, made.of_key = names["of_boxes"], names["of_key"]
    made.of_page, made.of_rows = names["of_page"], names["of_rows"]
    made.exponent = (2 if distance == "euclid" else 1) / dimension
    made.near, made.box_within = names["near"], names["box_within"]
    return made


def _distance(dimension: int, distance: str) -> str:
    term = "a{0} - p{0} if p{0} < a{0} else p{0} - b{0} if p{0} > b{0} else 0.0"
    whole = "(t := {0}) * t" if distance == "euclid" else "({0})"
    # Tarantool adds from the last dimension to the first, which decides how the sum is rounded.
    return " + ".join(whole.format(term.format(number)) for number in reversed(range(dimension)))


def _distance_of_points(dimension: int, distance: str, names: list[str] | None = None) -> str:
    term = "(t := {0} - p{1}) * t" if distance == "euclid" else "abs({0} - p{1})"
    names = names or names_of("a", dimension)
    return " + ".join(term.format(names[number], number) for number in reversed(range(dimension)))
