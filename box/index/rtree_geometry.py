"""Rectangles of an R-tree: their keys, codes and boxes, compiled for a number of dimensions.

```
key     (code, primary key, rectangle)          the rectangle as doubles: a0, a1, ..., b0, b1, ...; a point: a0, a1, ...
row     (a0, a1, ..., b0, b1, ..., node)        of a node that others are below
box     (a0, a1, ..., b0, b1, ...)              lower corner, then upper corner
```

`code` puts what is near beside each other: the leading bits of the middle's coordinates, as they are stored, in turns
(the curve of Morton). Signs and exponents come first, so it needs no bounds, and numbers of any size have their place.

Sources: `mp_decode_rect` of `memtx_rtree.c`, `rtree_rect_*` of `lib/salad/rtree.c` of the 2.8 line.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import inf, isnan
from typing import Any, Final, cast

from box.data.keydef import SortKey
from box.data.types import compiled_source, type_name_of
from box.errors import ErrorCode, client_error
from box.index.iterator_type import IteratorType
from box.index.rtree_columns import RECTANGLE, Box, are_finite, formats, listed, names_of, tuple_of, unpacked_key
from box.index.rtree_conditions import CONDITIONS, Selection, selection_of
from box.index.rtree_distances import Distances, distances_of

MAX_DIMENSION: Final = 20
"""Tarantool's limit of dimensions."""
_EXACT: Final = 2**53
"""A `double` represents every integer up to this one exactly."""


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
    """The compiled functions for a number of dimensions and a distance."""

    def __init__(self, dimension: int, distance: str) -> None:
        self.dimension = dimension
        self._distance = distance
        self.empty: Box = (inf,) * dimension + (-inf,) * dimension
        """The box that contains nothing; it is where the union of boxes begins."""
        self._names: dict[str, Any] = {"read_rectangle": read_rectangle, "read_number": read_number}
        self._names |= {"INF": inf, "MINUS_INF": -inf}
        self._names |= formats(dimension)
        self._selections: dict[IteratorType, Selection] = {}

    def _compiled(self, source: str) -> dict[str, Any]:
        exec(compiled_source(source), self._names)
        return self._names

    # Each group of functions is compiled at its first use, so that they do not take one turn all together: with 20
    # dimensions that is ten milliseconds.

    @cached_property
    def _of_keys(self) -> dict[str, Any]:
        width, words = _words(self.dimension)
        letter, size = ("B", 1) if width == 8 else ("H", 2)
        layout = ("x" * (8 - size * words) + letter * words) * self.dimension
        self._names["take"] = struct.Struct("<" + layout).unpack
        self._names["table"] = _LateTable(self._names, self.dimension, width)
        return self._compiled(_source_of_keys(self.dimension, width, words))

    @cached_property
    def _of_boxes(self) -> dict[str, Any]:
        return self._compiled(_source_of_boxes(self.dimension))

    @cached_property
    def key(self) -> Callable[[SortKey, list[Any]], SortKey]:
        """The function that makes the key of a tuple from its primary key and its indexed value. Raises the errors of
        `read_rectangle`.
        """
        return cast("Callable[[SortKey, list[Any]], SortKey]", self._of_keys["key"])

    @cached_property
    def _code(self) -> Callable[[bytes], int]:
        return cast("Callable[[bytes], int]", self._of_keys["code"])

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
    def equal(self) -> Callable[[Sequence[Any]], tuple[int, bytes] | None]:
        """The function that returns the code and the rectangle that keys of this point have, or None: the list is no
        usual point, or keys with equal rectangles may have different codes.
        """
        width, words = _words(self.dimension)
        assert self._of_keys
        names = self._compiled(_source_of_equal(self.dimension, width, words))
        return cast("Callable[[Sequence[Any]], tuple[int, bytes] | None]", names["equal"])

    @cached_property
    def usual_box(self) -> Callable[[Sequence[Any]], Box | None]:
        """The function that returns what `read_rectangle` does for a list of usual numbers with its corners in order,
        else None. NaN is not usual.
        """
        names = self._compiled(_source_of_usual_box(self.dimension))
        return cast("Callable[[Sequence[Any]], Box | None]", names["usual_box"])

    def columns(self, keys: list[SortKey]) -> list[array[float]]:
        """Return the coordinates of some keys as columns: only those of one corner if all keys are points and all
        coordinates are finite.
        """
        width, size = self.dimension, 8 * self.dimension
        joined = b"".join([key[RECTANGLE] for key in keys])
        if len(joined) != size * len(keys):
            width *= 2
            if len(joined) < 2 * size * len(keys):
                joined = b"".join(
                    [key[RECTANGLE] if len(key[RECTANGLE]) > size else key[RECTANGLE] * 2 for key in keys]
                )
        numbers = array("d", joined)
        columns = [numbers[place::width] for place in range(width)]
        return columns if width > self.dimension or are_finite(columns) else columns * 2

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
        return self.box_of(self.columns(keys))

    def code_of(self, box: Box) -> int | None:
        """Return the code of a key with this rectangle, or None if keys with equal rectangles may have different
        codes.
        """
        lower, upper = box[: self.dimension], box[self.dimension :]
        middle = [a + (b - a) * 0.5 for a, b in zip(lower, upper, strict=True)]
        # Zero has two signs, and infinities have no middle, so equal rectangles may have different codes.
        if not all(number and number - number == 0 for number in middle):
            return None
        return self._code(struct.pack(f"<{self.dimension}d", *middle))

    def selection(self, kind: IteratorType) -> Selection | None:
        """Return the functions of an iterator, or None for an iterator without a condition (ALL and NEIGHBOR)."""
        found = self._selections.get(kind)
        if found is None and kind in CONDITIONS:
            found = self._selections[kind] = selection_of(self.dimension, kind)
        return found

    @cached_property
    def distances(self) -> Distances:
        """The functions that calculate distances for NEIGHBOR."""
        return distances_of(self.dimension, self._distance)


@lru_cache(64)
def geometry_of(dimension: int, distance: str) -> Geometry:
    """Return the compiled functions for a number of dimensions and a kind of distance, `euclid` or `manhattan`."""
    return Geometry(dimension, distance)


def _words(dimension: int) -> tuple[int, int]:
    """Return how many bits of a coordinate are looked up at once, and how often for a code.

    32 bits order a million values of one exponent, 48 bits many more.
    """
    return (16, 3) if dimension <= 2 else (16, 2) if dimension == 3 else (8, 4)


class _LateTable:
    """Stands for the table of `_table` until the first code is made, so that `create_index` takes no longer for it.

    Compiled functions find the table among their global names, where the first use replaces this object.
    """

    def __init__(self, names: dict[str, Any], dimension: int, width: int) -> None:
        self._names, self._dimension, self._width = names, dimension, width

    def __getitem__(self, bits: int) -> int:
        table = self._names["table"] = _table(self._dimension, self._width)
        return table[bits]


def _table(dimension: int, width: int) -> list[int]:
    """Return a table that spreads bits: each number of `width` bits with `dimension` - 1 zeros before each bit."""
    # Each bit doubles the table: a table of 16 bits takes two milliseconds so, and three times that bit by bit.
    spread = [0]
    for bit in range(width):
        high = 1 << bit * dimension
        spread += [high | number for number in spread]
    return spread


def _unusual(names: list[str]) -> str:
    """Return the source of the condition that one of some variables is no float, nor an integer that a float equals."""
    return " or ".join(
        f"(type({name}) is not int or not -{_EXACT} <= {name} <= {_EXACT}) and type({name}) is not float"
        for name in names
    )


def _source_of_keys(dimension: int, width: int, words: int) -> str:
    a, b = names_of("a", dimension), names_of("b", dimension)
    checks = [
        f"        if type({name}) is not float and (type({name}) is not int or not -{_EXACT} <= {name} <= {_EXACT}): "
        f"{name} = read_number({name}, {n})"
        for n, name in enumerate(a + b)
    ]
    middles = listed([f"a{n} + (b{n} - a{n}) * 0.5" for n in range(dimension)])
    taken, combined = _code_parts(dimension, width, words)
    lines = "\n".join
    return f"""
def code(packed):
    {taken}
    return {combined}

def key(primary, value):
    if len(value) == {dimension}:
        {listed(a)}, = value
{lines(checks[:dimension])}
        packed = pack({listed(a)})
        {taken}
        return {combined}, primary, packed
    if len(value) == {2 * dimension}:
        {listed(a + b)}, = value
{lines(checks)}
        if {" and ".join(f"a{n} <= b{n}" for n in range(dimension))}:
            return code(pack({middles})), primary, pack_box({listed(a + b)})
    {listed(a + b)}, = read_rectangle(value, {dimension}, "Field")
    return code(pack({middles})), primary, pack_box({listed(a + b)})
"""


def _source_of_equal(dimension: int, width: int, words: int) -> str:
    a = names_of("a", dimension)
    taken, combined = _code_parts(dimension, width, words)
    return f"""
def equal(value):
    if len(value) != {dimension}:
        return None
    {listed(a)}, = value
    if {_unusual(a)}:
        return None
    if not ({" and ".join(f"{name} and {name} - {name} == 0" for name in a)}):
        return None  # zero has two signs
    packed = pack({listed(a)})
    {taken}
    return {combined}, packed
"""


def _source_of_usual_box(dimension: int) -> str:
    a, b = names_of("a", dimension), names_of("b", dimension)
    return f"""
def usual_box(value):
    if len(value) == {dimension}:
        {listed(a)}, = value
        if {_unusual(a)} or {" or ".join(f"{name} != {name}" for name in a)}:
            return None
        return (*map(float, value),) * 2
    if len(value) != {2 * dimension}:
        return None
    {listed(a + b)}, = value
    if {_unusual(a + b)} or not ({" and ".join(f"a{n} <= b{n}" for n in range(dimension))}):
        return None
    return (*map(float, value),)
"""


def _source_of_boxes(dimension: int) -> str:
    numbers = range(dimension)
    a, b, p, q = (names_of(letter, dimension) for letter in "abpq")
    lesser = [f"a{n} if a{n} < p{n} else p{n}" for n in numbers]
    greater = [f"b{n} if b{n} > q{n} else q{n}" for n in numbers]
    are_numbers = [f"a{n} == a{n} and b{n} == b{n}" for n in numbers]
    lowest = [f"{term} if {condition} else MINUS_INF" for condition, term in zip(are_numbers, lesser, strict=True)]
    highest = [f"{term} if {condition} else INF" for condition, term in zip(are_numbers, greater, strict=True)]
    least = [f"min([item[{n}] for item in items])" for n in numbers]
    greatest = [f"max([item[{dimension + n}] for item in items])" for n in numbers]
    unpacked = unpacked_key(dimension)
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


def _code_parts(dimension: int, width: int, words: int) -> tuple[str, str]:
    """Return the source of a statement that reads `packed`, and of an expression that makes the code of it."""
    names = [[f"w{number}_{word}" for word in range(words)] for number in range(dimension)]
    terms = []
    for word in range(words):
        for number in range(dimension):
            shift = dimension - 1 - number + width * dimension * word
            terms.append(f"table[{names[number][word]}]" + (f" << {shift}" if shift else ""))
    return f"{listed([name for each in names for name in each])}, = take(packed)", " | ".join(terms)
