"""Rectangles of an R-tree: boxes, conditions and distances, compiled for a number of dimensions.

```
row     (a0, a1, ..., b0, b1, ..., node)        of a node that others are below
box     (a0, a1, ..., b0, b1, ...)              lower corner, then upper corner
```

The keys are those of `box.index.rtree_keys`.

Sources: `mp_decode_rect` of `memtx_rtree.c`, `rtree_rect_*` of `lib/salad/rtree.c` of the 2.8 line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import inf, isnan
from typing import Any, Final, cast

from box.data.keydef import SortKey
from box.data.types import compiled_source, type_name_of
from box.errors import ErrorCode, client_error
from box.index.iterator_type import IteratorType
from box.index.rtree_columns import Box, are_finite, formats, listed, names_of, tuple_of
from box.index.rtree_conditions import CONDITIONS, Selection, selection_of
from box.index.rtree_distances import Distances, distances_of
from box.index.rtree_keys import KeyLayout, PrimaryForm, unusual

MAX_DIMENSION: Final = 20
"""Tarantool's limit of dimensions."""


def read_rectangle(values: list[Any], dimension: int, what: str) -> Box:
    """Return the rectangle that a list of numbers describes, with its corners in order; `what` names the numbers in
    errors.

    Raises:
        ClientError: RTREE_RECT or FIELD_TYPE.
    """
    count = len(values)
    if count not in (dimension, 2 * dimension):
        raise client_error(ErrorCode.RTREE_RECT, what, dimension, 2 * dimension)
    numbers = [read_number(value, place) for place, value in enumerate(values)]
    if count == dimension:
        return tuple(numbers * 2)
    # As in Tarantool, NaN changes places with the other corner.
    pairs = [(a, b) if a <= b else (b, a) for a, b in zip(numbers[:dimension], numbers[dimension:], strict=True)]
    return (*[a for a, _ in pairs], *[b for _, b in pairs])


def read_number(value: Any, place: int) -> float:
    """Return a coordinate as a float; `place` is its index in the list, counted from 0.

    Raises:
        ClientError: FIELD_TYPE, the value is not a number, or is an integer that no `double` equals.
    """
    if type(value) is int:
        number = float(value)
        if number == value:
            return number
    elif isinstance(value, float):
        return float(value)
    raise client_error(ErrorCode.FIELD_TYPE, str(place + 1), "number", type_name_of(value))


class Geometry:
    """The compiled functions for a number of dimensions, a distance and a form of the primary key."""

    def __init__(self, dimension: int, distance: str, tail: PrimaryForm) -> None:
        self.dimension = dimension
        self._distance = distance
        self.empty: Box = (inf,) * dimension + (-inf,) * dimension
        """The box that contains nothing; it is where the union of boxes begins."""
        self._names: dict[str, Any] = {"read_rectangle": read_rectangle, "read_number": read_number}
        self._names |= {"INF": inf, "MINUS_INF": -inf}
        self._names |= formats(dimension)
        self.layout = KeyLayout(dimension, tail, self._names)
        self._selections: dict[IteratorType, Selection] = {}

    def _compiled(self, source: str) -> dict[str, Any]:
        exec(compiled_source(source), self._names)
        return self._names

    # Each group of functions is compiled at its first use, so that they do not take one turn all together: with 20
    # dimensions that is ten milliseconds.

    @cached_property
    def _of_boxes(self) -> dict[str, Any]:
        return self._compiled(_source_of_boxes(self.dimension, self.layout.unpacked))

    @cached_property
    def extend(self) -> Callable[[Box, SortKey], Box]:
        """The function that returns the smallest box around a box and a key's rectangle; the same object if it contains
        the rectangle already. If a corner is NaN, both may be anywhere.
        """
        return cast("Callable[[Box, SortKey], Box]", self._of_boxes["extend"])

    @cached_property
    def is_on_edge(self) -> Callable[[Box, SortKey], bool]:
        """The function that tells whether the box may shrink when the key is removed."""
        return cast("Callable[[Box, SortKey], bool]", self._of_boxes["is_on_edge"])

    @cached_property
    def unite(self) -> Callable[[list[Any]], Box]:
        """The function that returns the smallest box around some rows, of which there must be at least one."""
        return cast("Callable[[list[Any]], Box]", self._of_boxes["unite"])

    @cached_property
    def unite_two(self) -> Callable[[Box, Box], Box]:
        """The function that returns the smallest box around two boxes."""
        return cast("Callable[[Box, Box], Box]", self._of_boxes["unite_two"])

    @cached_property
    def usual_box(self) -> Callable[[Sequence[Any]], Box | None]:
        """The function that returns what `read_rectangle` does for a list of usual numbers with its corners in order,
        else None. NaN is not usual.
        """
        names = self._compiled(_source_of_usual_box(self.dimension))
        return cast("Callable[[Sequence[Any]], Box | None]", names["usual_box"])

    def box_of(self, columns: Sequence[array[float]]) -> Box:
        """Return the bounding box of columns, which must not be empty. If a corner is NaN, both may be anywhere."""
        lower, upper = columns[: self.dimension], columns[-self.dimension :]
        if are_finite(columns):
            return (*map(min, lower), *map(max, upper))
        are_numbers = [not any(map(isnan, (*low, *high))) for low, high in zip(lower, upper, strict=True)]
        return (
            *[min(column) if are else -inf for column, are in zip(lower, are_numbers, strict=True)],
            *[max(column) if are else inf for column, are in zip(upper, are_numbers, strict=True)],
        )

    def bound(self, keys: list[SortKey]) -> Box:
        """Return the bounding box of some keys, of which there must be at least one."""
        return self.box_of(self.layout.columns(keys))

    def selection(self, kind: IteratorType) -> Selection | None:
        """Return the functions of an iterator, or None for an iterator without a condition (ALL and NEIGHBOR)."""
        found = self._selections.get(kind)
        if found is None and kind in CONDITIONS:
            found = self._selections[kind] = selection_of(self.dimension, kind, self.layout.unpacked)
        return found

    @cached_property
    def distances(self) -> Distances:
        """The functions that calculate distances for NEIGHBOR."""
        return distances_of(self.dimension, self._distance, self.layout.unpacked)


@lru_cache(64)
def geometry_of(dimension: int, distance: str, tail: PrimaryForm) -> Geometry:
    """Return the compiled functions for a number of dimensions, a kind of distance (`euclid` or `manhattan`) and a form
    of the primary key.
    """
    return Geometry(dimension, distance, tail)


def _source_of_usual_box(dimension: int) -> str:
    a, b = names_of("a", dimension), names_of("b", dimension)
    return f"""
def usual_box(value):
    if len(value) == {dimension}:
        {listed(a)}, = value
        if {unusual(a)} or {" or ".join(f"{name} != {name}" for name in a)}:
            return None
        return (*map(float, value),) * 2
    if len(value) != {2 * dimension}:
        return None
    {listed(a + b)}, = value
    if {unusual(a + b)} or not ({" and ".join(f"a{n} <= b{n}" for n in range(dimension))}):
        return None
    return (*map(float, value),)
"""


def _source_of_boxes(dimension: int, unpacked: str) -> str:
    numbers = range(dimension)
    a, b, p, q = (names_of(letter, dimension) for letter in "abpq")
    lesser = [f"a{n} if a{n} < p{n} else p{n}" for n in numbers]
    greater = [f"b{n} if b{n} > q{n} else q{n}" for n in numbers]
    are_numbers = [f"a{n} == a{n} and b{n} == b{n}" for n in numbers]
    lowest = [f"{term} if {condition} else MINUS_INF" for condition, term in zip(are_numbers, lesser, strict=True)]
    highest = [f"{term} if {condition} else INF" for condition, term in zip(are_numbers, greater, strict=True)]
    least = [f"min([item[{n}] for item in items])" for n in numbers]
    greatest = [f"max([item[{dimension + n}] for item in items])" for n in numbers]
    return f"""
def extend(box, key):
    {listed(p + q)}, = box
{unpacked}
    if {" and ".join(f"p{n} <= a{n} and b{n} <= q{n}" for n in numbers)}:
        return box
    return {tuple_of(lowest + highest)}

def is_on_edge(box, key):
    {listed(p + q)}, = box
{unpacked}
    return {" or ".join(f"a{n} <= p{n} or b{n} >= q{n}" for n in numbers)}

def unite(items):
    return {tuple_of(least + greatest)}

def unite_two(one, other):
    {listed(p + q)}, = one
    {listed(a + b)}, = other
    return {tuple_of(lesser + greater)}
"""
