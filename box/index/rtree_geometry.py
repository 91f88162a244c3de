"""Rectangles of an R-tree: their keys, and comparisons of many at once, compiled for a number of dimensions.

```
key     (code, primary key, rectangle)          the rectangle as doubles: a0, a1, ..., b0, b1, ...; a point: a0, a1, ...
row     (a0, a1, ..., b0, b1, ..., node)        of a node that others are below
box     (a0, a1, ..., b0, b1, ...)              lower corner, then upper corner
```

The rectangles of a page are columns, an array for each coordinate, because a million objects would be a million cache
misses, and since a condition most often ends with the first coordinate. A page of points has half of the columns, and
its own functions.

`code` puts what is near beside each other: the leading bits of the middle's coordinates, as they are stored, in turns
(the curve of Morton). Signs and exponents come first, so it needs no bounds, and numbers of any size have their place.

A search with a rectangle `q` selects keys by one condition, and nodes, below which such keys may be, by another. If a
node's box satisfies a third one, all below it are selected.

Sources: `mp_decode_rect` of `memtx_rtree.c`, `rtree_rect_*` of `lib/salad/rtree.c` of the 2.8 line.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import inf
from typing import Any, Final, Protocol

from box.data.keydef import SortKey
from box.data.types import compiled_source, type_name_of
from box.errors import ErrorCode, client_error
from box.index.iterator_type import IteratorType

MAX_DIMENSION: Final = 20
"""Tarantool's limit of dimensions."""
_ROUNDED_UP: Final = 1 + 2**-48
"""A factor that is greater than the rounding error of a calculated distance."""
_EXACT: Final = 2**53
"""A `double` represents every integer up to this one exactly."""
RECTANGLE: Final = 2
"""The index of the rectangle in a key."""
Box = tuple[float, ...]
_OVERLAPS = ("{a} <= {qb}", "{b} >= {qa}")
_HOLDS = ("{a} <= {qa}", "{b} >= {qb}")
_WITHIN = ("{a} >= {qa}", "{b} <= {qb}")
CONDITIONS: Final = {
    IteratorType.OVERLAPS: (_OVERLAPS, _OVERLAPS, _WITHIN),
    IteratorType.EQ: (("{a} == {qa}", "{b} == {qb}"), _HOLDS, None),
    IteratorType.GE: (_HOLDS, _HOLDS, None),
    IteratorType.GT: (("{a} < {qa}", "{b} > {qb}"), ("{a} < {qa}", "{b} > {qb}"), None),
    IteratorType.LE: (_WITHIN, _OVERLAPS, _WITHIN),
    IteratorType.LT: (("{a} > {qa}", "{b} < {qb}"), _OVERLAPS, ("{a} > {qa}", "{b} < {qb}")),
}
"""For each iterator, the conditions on: a selected key; a node that may have selected keys below it; a node whose keys
are all selected (None if there is no such condition).
"""

Selector = Callable[[Any, Box], list[Any]]


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
    pairs = [(b, a) if a > b else (a, b) for a, b in zip(numbers[:dimension], numbers[dimension:], strict=True)]
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


class Rectangles(Protocol):
    """The rectangles of a page's keys, stored by columns."""

    are_points: bool
    columns: Sequence[array[float]]
    """The coordinates of all keys, one array for each of a0, a1, ..., followed by b0, b1, ... unless all keys are
    points.
    """


class Selection:
    """The compiled functions of one iterator. The last argument of each is the rectangle to search with."""

    __slots__ = ("is_inside", "kind", "matches", "nodes", "places")

    kind: IteratorType

    places: Callable[[Rectangles, Box], list[int]]
    """Returns the indexes, within a page, of the keys that are selected."""
    nodes: Selector
    """Returns the nodes, out of the given rows, that may have selected keys below them."""
    is_inside: Callable[[Box, Box], bool] | None
    """Returns whether all keys within a box are selected. None if the iterator has no such test."""
    matches: Callable[[SortKey, Box], bool]
    """Returns whether a key is selected."""


class Geometry:
    """The compiled functions for a number of dimensions and a distance."""

    def __init__(self, dimension: int, distance: str) -> None:
        self.dimension = dimension
        self._distance = distance
        self.empty: Box = (inf,) * dimension + (-inf,) * dimension
        """The box that contains nothing; it is where the union of boxes begins."""
        width, words = _words(dimension)
        letter, size = ("B", 1) if width == 8 else ("H", 2)
        names: dict[str, Any] = {
            "read_rectangle": read_rectangle,
            "read_number": read_number,
            "table": _table(dimension, width),
            "take": struct.Struct("<" + ("x" * (8 - size * words) + letter * words) * dimension).unpack,
        } | _formats(dimension)
        exec(compiled_source(_code_source(dimension, width, words) + _source(dimension, width, words)), names)
        self.key: Callable[[SortKey, list[Any]], SortKey] = names["key"]
        """Makes the key of a tuple from its primary key and its indexed value. Raises the errors of `read_rectangle`.
        """
        self.extend: Callable[[Box, SortKey], Box] = names["extend"]
        """Returns the smallest box around a box and a key's rectangle; the same object if it contains the rectangle
        already.
        """
        self.is_on_edge: Callable[[Box, SortKey], bool] = names["is_on_edge"]
        """Returns whether the box may shrink when the key is removed."""
        self.unite: Callable[[list[Any]], Box] = names["unite"]
        """Returns the smallest box around some rows, of which there must be at least one."""
        self.unite_two: Callable[[Box, Box], Box] = names["unite_two"]
        """Returns the smallest box around two boxes."""
        self._code: Callable[[bytes], int] = names["code"]
        self._selections: dict[IteratorType, Selection] = {}

    def columns(self, keys: list[SortKey]) -> list[array[float]]:
        """Return the coordinates of some keys as columns: only those of one corner if all keys are points."""
        width, size = self.dimension, 8 * self.dimension
        joined = b"".join([key[RECTANGLE] for key in keys])
        if len(joined) != size * len(keys):
            width *= 2
            if len(joined) < 2 * size * len(keys):
                joined = b"".join(
                    [key[RECTANGLE] if len(key[RECTANGLE]) > size else key[RECTANGLE] * 2 for key in keys]
                )
        numbers = array("d", joined)
        return [numbers[place::width] for place in range(width)]

    def box_of(self, columns: Sequence[array[float]]) -> Box:
        """Return the bounding box of columns, which must not be empty."""
        return (*map(min, columns[: self.dimension]), *map(max, columns[-self.dimension :]))

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
            found = self._selections[kind] = _selection(self.dimension, kind)
        return found

    @cached_property
    def distances(self) -> Distances:
        """The functions that calculate distances for NEIGHBOR."""
        return _distances(self.dimension, self._distance)


class Distances:
    """Functions that calculate distances from the lower corner of a rectangle, their last argument. Euclidean distances
    are squared.
    """

    __slots__ = ("box_within", "near", "of_boxes", "of_key", "of_page", "of_rows")

    near: Callable[[Rectangles, float, Box], list[tuple[float, int]]]
    """Returns (distance, index in the page) for the keys of a page that are not farther than a distance."""
    box_within: Callable[[float, Box], Box]
    """Returns a box that contains everything up to a distance, which must not be tiny."""

    of_boxes: Callable[[list[Box], Box], list[float]]
    """Returns the distances of the nearest points of some boxes."""
    of_key: Callable[[SortKey, Box], float]
    of_page: Callable[[Rectangles, Box], list[float]]
    """Returns the distances of the keys of a page, in order."""
    of_rows: Callable[[list[Any], Box], list[tuple[float, int, Any]]]
    """Returns (distance, id, node) for each of some rows."""


@lru_cache(64)
def geometry_of(dimension: int, distance: str) -> Geometry:
    """Return the compiled functions for a number of dimensions and a kind of distance, `euclid` or `manhattan`."""
    return Geometry(dimension, distance)


def _words(dimension: int) -> tuple[int, int]:
    """Return how many bits of a coordinate are looked up at once, and how often for a code.

    32 bits order a million values of one exponent, 48 bits many more.
    """
    return (16, 3) if dimension <= 2 else (16, 2) if dimension == 3 else (8, 4)


def _table(dimension: int, width: int) -> list[int]:
    """Return a table that spreads bits: each number of `width` bits with `dimension` - 1 zeros before each bit."""
    # Each bit doubles the table: a table of 16 bits takes two milliseconds so, and three times that bit by bit.
    spread = [0]
    for bit in range(width):
        high = 1 << bit * dimension
        spread += [high | number for number in spread]
    return spread


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _tuple(items: list[str]) -> str:
    return "(" + "".join(item + ", " for item in items) + ")"


def _formats(dimension: int) -> dict[str, Any]:
    point, rectangle = struct.Struct(f"<{dimension}d"), struct.Struct(f"<{2 * dimension}d")
    return {
        "pack": point.pack,
        "pack_box": rectangle.pack,
        "unpack": point.unpack,
        "unpack_box": rectangle.unpack,
    }


def _source(dimension: int, width: int, words: int) -> str:
    numbers = range(dimension)
    a, b, p, q = (_names(letter, dimension) for letter in "abpq")
    corners = _listed(a + b)
    lesser = [f"a{n} if a{n} < p{n} else p{n}" for n in numbers]
    greater = [f"b{n} if b{n} > q{n} else q{n}" for n in numbers]
    checks = [
        f"        if type({name}) is not float and (type({name}) is not int or not -{_EXACT} <= {name} <= {_EXACT}): "
        f"{name} = read_number({name}, {n})"
        for n, name in enumerate(a + b)
    ]
    least = [f"min([item[{n}] for item in items])" for n in numbers]
    greatest = [f"max([item[{dimension + n}] for item in items])" for n in numbers]
    middles = _listed([f"a{n} + (b{n} - a{n}) * 0.5" for n in numbers])
    lines = "\n".join
    unpacked = _unpacked(dimension)
    taken, combined = _code_parts(dimension, width, words)
    taken = f"        {taken}"
    return f"""
def key(primary, value):
    if len(value) == {dimension}:
        {_listed(a)}, = value
{lines(checks[:dimension])}
        packed = pack({_listed(a)})
{taken}
        return {combined}, primary, packed
    if len(value) == {2 * dimension}:
        {corners}, = value
{lines(checks)}
        if {" and ".join(f"a{n} <= b{n}" for n in numbers)}:
            return code(pack({middles})), primary, pack_box({corners})
    {corners}, = read_rectangle(value, {dimension}, "Field")
    return code(pack({middles})), primary, pack_box({corners})

def extend(box, key):
    {_listed(p + q)}, = box
{unpacked}
    if {" and ".join(f"p{n} <= a{n} and b{n} <= q{n}" for n in numbers)}:
        return box
    return {_tuple(lesser + greater)}

def is_on_edge(box, key):
    {_listed(p + q)}, = box
{unpacked}
    return {" or ".join(f"a{n} <= p{n} or b{n} >= q{n}" for n in numbers)}

def unite(items):
    return {_tuple(least + greatest)}

def unite_two(one, other):
    {_listed(p + q)}, = one
    {corners}, = other
    return {_tuple(lesser + greater)}
"""


def _unpacked(dimension: int) -> str:
    """Return source lines that unpack the coordinates of `key`."""
    a, b = _names("a", dimension), _names("b", dimension)
    return f"""
    packed = key[{RECTANGLE}]
    if len(packed) == {8 * dimension}:
        {_listed(a)}, = {_listed(b)}, = unpack(packed)
    else:
        {_listed(a + b)}, = unpack_box(packed)"""


def _distances(dimension: int, distance: str) -> Distances:
    a, b = _names("a", dimension), _names("b", dimension)
    far, far_point = _distance(dimension, distance), _distance_of_points(dimension, distance)
    point = f"{_listed(_names('p', dimension))}, *_ = point"
    whole = _sum_of_points(dimension, distance)
    first = "(t := a0 - p0) * t" if distance == "euclid" else "abs(a0 - p0)"
    source = f"""
def of_rows(rows, point):
    {point}
    return [({far}, id(node), node) for {_listed(a + b)}, node in rows]

def of_page(page, point):
    {point}
    columns = page.columns
    if page.are_points:
        if {" and ".join(f"p{n} - p{n} == 0" for n in range(dimension))}:
            return [{far_point} for {_listed(a)}, in zip(*columns)]
        columns = (*columns, *columns)  # no difference of infinities
    return [{far} for {_listed(a + b)} in zip(*columns)]

def near(page, most, point):
    {point}
    if page.are_points:
        {_listed([f"c{n}" for n in range(dimension)])}, = page.columns
        return [(d, n) for n, a0 in enumerate(c0) if {first} <= most and (d := {whole}) <= most]
    return [(d, n) for n, d in enumerate(of_page(page, point)) if d <= most]

def box_within(most, point):
    {point}
    r = {"most ** 0.5" if distance == "euclid" else "most"} * {_ROUNDED_UP}
    return {_tuple([f"p{n} - r" for n in range(dimension)] + [f"p{n} + r" for n in range(dimension)])}

def of_boxes(items, point):
    {point}
    return [{far} for {_listed(a + b)}, in items]

def of_key(key, point):
    {point}
{_unpacked(dimension)}
    return {far}
"""
    names = _formats(dimension)
    exec(compiled_source(source), names)
    made = Distances()
    made.of_boxes, made.of_key = names["of_boxes"], names["of_key"]
    made.of_page, made.of_rows = names["of_page"], names["of_rows"]
    made.near, made.box_within = names["near"], names["box_within"]
    return made


def _distance(dimension: int, distance: str) -> str:
    term = "a{0} - p{0} if p{0} < a{0} else p{0} - b{0} if p{0} > b{0} else 0.0"
    whole = "(t := {0}) * t" if distance == "euclid" else "({0})"
    return " + ".join(whole.format(term.format(number)) for number in range(dimension))


def _distance_of_points(dimension: int, distance: str) -> str:
    term = "(t := a{0} - p{0}) * t" if distance == "euclid" else "abs(a{0} - p{0})"
    return " + ".join(term.format(number) for number in range(dimension))


def _sum_of_points(dimension: int, distance: str) -> str:
    """Return the source of an expression for the distance of key `n` of a page of points; the first difference is
    calculated already.
    """
    first = "t * t" if distance == "euclid" else "abs(a0 - p0)"
    term = "(t := c{0}[n] - p{0}) * t" if distance == "euclid" else "abs(c{0}[n] - p{0})"
    return " + ".join([first, *[term.format(number) for number in range(1, dimension)]])


def _code_parts(dimension: int, width: int, words: int) -> tuple[str, str]:
    """Return the source of a statement that reads `packed`, and of an expression that makes the code of it."""
    names = [[f"w{number}_{word}" for word in range(words)] for number in range(dimension)]
    terms = []
    for word in range(words):
        for number in range(dimension):
            shift = dimension - 1 - number + width * dimension * word
            terms.append(f"table[{names[number][word]}]" + (f" << {shift}" if shift else ""))
    return f"{_listed([name for each in names for name in each])}, = take(packed)", " | ".join(terms)


def _code_source(dimension: int, width: int, words: int) -> str:
    taken, combined = _code_parts(dimension, width, words)
    return f"""
def code(packed):
    {taken}
    return {combined}
"""


def _condition(forms: tuple[str, str], lows: list[str], highs: list[str]) -> str:
    terms = []
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        terms += [form.format(a=low, b=high, qa=f"qa{number}", qb=f"qb{number}") for form in forms]
    return " and ".join(terms)


def _selection(dimension: int, kind: IteratorType) -> Selection:
    of_keys, of_nodes, of_inside = CONDITIONS[kind]
    a, b = _names("a", dimension), _names("b", dimension)
    query = f"{_listed(_names('qa', dimension) + _names('qb', dimension))}, = q"
    condition = _condition(of_keys, a, b)
    low, high = ["a0", *[f"c{name}[n]" for name in a[1:]]], [f"c{name}[n]" for name in b]
    source = f"""
def places(page, q):
    {query}
    if page.are_points:
        {_listed([f"c{name}" for name in a])}, = page.columns
        return [n for n, a0 in enumerate(ca0) if {_condition(of_keys, low, low)}]
    {_listed([f"c{name}" for name in a + b])} = page.columns
    return [n for n, a0 in enumerate(ca0) if {_condition(of_keys, low, high)}]

def nodes(rows, q):
    {query}
    return [node for {_listed(a + b)}, node in rows if {_condition(of_nodes, a, b)}]

def matches(key, q):
    {query}
{_unpacked(dimension)}
    return {condition}

def is_inside(box, q):
    {query}
    {_listed(a + b)}, = box
    return {_condition(of_inside or of_keys, a, b)}
"""
    names = _formats(dimension)
    exec(compiled_source(source), names)
    selection = Selection()
    selection.kind = kind
    selection.places, selection.nodes, selection.matches = names["places"], names["nodes"], names["matches"]
    selection.is_inside = names["is_inside"] if of_inside else None
    return selection
