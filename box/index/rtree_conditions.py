"""The conditions of an R-tree's iterators, compiled for a number of dimensions.

A search with a rectangle `q` selects keys by one condition, and nodes, below which such keys may be, by another. If a
node's box satisfies a third one, all below it are selected.

A coordinate of a key may be NaN, which violates no comparison but equality, as in Tarantool. So a condition is compiled
as: none of its comparisons is violated. The boxes of nodes and `q` contain no NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from box.data.keydef import SortKey
from box.data.types import compiled_source
from box.index.iterator_type import IteratorType
from box.index.rtree_columns import Box, Rectangles, formats, listed, names_of, searching

_OVERLAPS = ("{a} <= {qb}", "{b} >= {qa}")
_HOLDS = ("{a} <= {qa}", "{b} >= {qb}")
_WITHIN = ("{a} >= {qa}", "{b} <= {qb}")
CONDITIONS: Final = {
    IteratorType.OVERLAPS: (_OVERLAPS, _OVERLAPS, _WITHIN),
    IteratorType.EQ: (("{a} == {qa}", "{b} == {qb}"), _HOLDS, None),
    IteratorType.GE: (_HOLDS, _HOLDS, None),
    IteratorType.GT: (("{a} < {qa}", "{b} > {qb}"), _HOLDS, None),
    IteratorType.LE: (_WITHIN, _OVERLAPS, _WITHIN),
    IteratorType.LT: (("{a} > {qa}", "{b} < {qb}"), _OVERLAPS, ("{a} > {qa}", "{b} < {qb}")),
}
"""For each iterator, the conditions on: a selected key; a node that may have selected keys below it; a node whose keys
are all selected (None if there is no such condition).
"""
_OPPOSITES: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
Selector = Callable[[Any, Box], list[Any]]
_BISECTIONS: Final = {
    "<": ("high", "bisect_left"),
    "<=": ("high", "bisect_right"),
    ">": ("low", "bisect_right"),
    ">=": ("low", "bisect_left"),
}
"""For each comparison, the end of the range of sorted numbers that satisfy it, and the function that finds it."""


class Selection:
    """The compiled functions of one iterator. The last argument of each is the rectangle to search with."""

    __slots__ = ("count", "is_inside", "kind", "matches", "nodes", "places")

    kind: IteratorType

    places: Callable[[Rectangles, Box], list[int]]
    """Returns the indexes, within a page, of the keys that are selected, in ascending order."""
    count: Callable[[Any, Box, Callable[[Any], None], Callable[..., Any]], int]
    """Returns the number of selected keys below a node. Further arguments: a function that reads a page, and one that
    returns the keys of a range.
    """
    nodes: Selector
    """Returns the nodes, out of the given rows, that may have selected keys below them."""
    is_inside: Callable[[Box, Box], bool] | None
    """Returns whether all keys within a box are selected. None if the iterator has no such test."""
    matches: Callable[[SortKey, Box], bool]
    """Returns whether a key is selected."""


def selection_of(dimension: int, kind: IteratorType, unpacked: str) -> Selection:
    """Compile the functions of an iterator; `unpacked` are the lines that unpack a key."""
    of_keys, of_nodes, of_inside = CONDITIONS[kind]
    a, b = names_of("a", dimension), names_of("b", dimension)
    query = f"{listed(names_of('qa', dimension) + names_of('qb', dimension))}, = q"
    condition = _condition(of_keys, a, b)
    low, high = ["a0", *[f"c{name}[n]" for name in a[1:]]], [f"c{name}[n]" for name in b]
    (point_range, points), (range_, rectangles) = (
        _ranked(of_keys, dimension, are_points=each) for each in (True, False)
    )
    inside = ""
    if of_inside:
        inside = (
            f"        {listed(a + b)}, = node.box\n        if {_condition(of_inside, a, b)}:\n"
            "            total += len(keys(*node.range))\n            continue"
        )
    source = f"""
def unsorted(page, q):
    {query}
    if page.are_points:
        {listed([f"c{name}" for name in a])}, = page.columns
        return [n for n, a0 in enumerate(ca0) if {_condition(of_keys, low, low)}]
    {listed([f"c{name}" for name in a + b])} = page.columns
    return [n for n, a0 in enumerate(ca0) if {_condition(of_keys, low, high)}]

def places(page, q):
    if page.order is None and not rank(page):
        return unsorted(page, q)
    {query}
    order = page.order
    if page.are_points:
        {listed([f"c{name}" for name in a])}, = page.columns
        {point_range}
        found = {points}
    else:
        {listed([f"c{name}" for name in a + b])} = page.columns
        {range_}
        found = {rectangles}
    found.sort()
    return found

def count(node, q, read, keys):
    {query}
    waiting, total = [node], 0
    while waiting:
        node = waiting.pop()
{inside}
        found = [child for {listed(a + b)}, child in node.rows if {_condition(of_nodes, a, b)}]
        if not node.is_bottom:
            waiting += found
            continue
        for page in found:
            if page.keys is None:
                read(page)
            order = page.order
            if order is None and not rank(page):
                total += len(unsorted(page, q))
            elif page.are_points:
                order, ({listed([f"c{name}" for name in a])},) = page.order, page.columns
                {point_range}
                total += len({points})
            else:
                order, ({listed([f"c{name}" for name in a + b])},) = page.order, page.columns
                {range_}
                total += len({rectangles})
    return total

def nodes(rows, q):
    {query}
    return [node for {listed(a + b)}, node in rows if {_condition(of_nodes, a, b)}]

def matches(key, q):
    {query}
{unpacked}
    return {condition}

def is_inside(box, q):
    {query}
    {listed(a + b)}, = box
    return {_condition(of_inside or of_keys, a, b)}
"""
    names = formats(dimension) | searching()
    exec(compiled_source(source), names)
    selection = Selection()
    selection.kind = kind
    selection.count = names["count"]
    selection.places, selection.nodes, selection.matches = names["places"], names["nodes"], names["matches"]
    selection.is_inside = names["is_inside"] if of_inside else None
    return selection


def _ranked(of_keys: tuple[str, str], dimension: int, *, are_points: bool) -> tuple[str, str]:
    """Return the source of a statement that finds the range [low, high) of a page's sorted columns, to which the
    conditions on a0 limit the selected keys, and of an expression that lists their places, in any order.
    """
    names = names_of("a", dimension)
    lows, highs = names, names if are_points else names_of("b", dimension)
    ends, rest = {"low": ["0"], "high": ["len(ca0)"]}, []
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        for form in of_keys:
            name, operator, other = form.format(a=low, b=high, qa=f"qa{number}", qb=f"qb{number}").split()
            if name != "a0":
                rest.append((name, f"{operator} {other}"))
            elif operator == "==":
                ends["low"].append(f"bisect_left(ca0, {other})")
                ends["high"].append(f"bisect_right(ca0, {other})")
            else:
                end, bisection = _BISECTIONS[operator]
                ends[end].append(f"{bisection}(ca0, {other})")
    low, high = (
        f"{most}({listed(found)})" if len(found := ends[end][1:]) > 1 else ends[end][-1]
        for end, most in (("low", "max"), ("high", "min"))
    )
    statement = f"low, high = {low}, {high}"
    if not rest:
        return statement, "list(order[low:high])"
    first = rest[0][0]
    condition = " and ".join(f"{name if name == first else f'c{name}[n]'} {compared}" for name, compared in rest)
    return statement, f"[order[n] for n, {first} in enumerate(c{first}[low:high], low) if {condition}]"


def _condition(forms: tuple[str, str], lows: list[str], highs: list[str]) -> str:
    """Return the source of an expression that is true if no comparison is violated for these names of coordinates."""
    equalities, violations = [], []
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        for form in forms:
            name, operator, other = form.format(a=low, b=high, qa=f"qa{number}", qb=f"qb{number}").split()
            if operator == "==":
                equalities.append(f"{name} == {other}")
            else:
                violations.append(f"{name} {_OPPOSITES[operator]} {other}")
    return " and ".join(equalities) or f"not ({' or '.join(violations)})"


def without_nan(kind: IteratorType, box: Box) -> Box:
    """Return a rectangle to search with that selects what the given one does. A corner that is NaN excludes nothing:
    such a rectangle contains everything, or nothing where a key has to contain it. No key equals it.
    """
    half = len(box) // 2
    low, high = (inf, -inf) if kind in (IteratorType.GE, IteratorType.GT) else (-inf, inf)
    lower = [low if number != number else number for number in box[:half]]
    upper = [high if number != number else number for number in box[half:]]
    return box if kind in (IteratorType.EQ, IteratorType.NEIGHBOR) else (*lower, *upper)
