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
from box.index.base import IteratorType

MAX_DIMENSION: Final = 20
_ROUNDED_UP: Final = 1 + 2**-48
"""More than the error of a distance."""
_EXACT: Final = 2**53
"""Integers up to this one are equal to a `double`."""
RECTANGLE: Final = 2
"""The place of the rectangle in a key."""
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
"""Of an iterator: of keys, of nodes, and of nodes below which every key is selected."""

Selector = Callable[[Any, Box], list[Any]]


def read_rectangle(values: list[Any], dimension: int, what: str) -> Box:
    """Return the rectangle that numbers stand for, with its corners in order; `what` names the numbers in errors.

    Raises:
        ClientError: RTREE_RECT, FIELD_TYPE.
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
    """Return number `place`, counted from 0, as a coordinate.

    Raises:
        ClientError: FIELD_TYPE, it is none, or an integer that no `double` is equal to.
    """
    if type(value) is int:
        number = float(value)
        if number == value:
            return number
    elif isinstance(value, float):
        return float(value)
    raise client_error(ErrorCode.FIELD_TYPE, str(place + 1), "number", type_name_of(value))


class Rectangles(Protocol):
    """The keys of a page."""

    are_points: bool
    columns: Sequence[array[float]]
    """Of all keys, in order: a0, a1, ..., and unless all of them are points b0, b1, ..."""


class Selection:
    """The functions of one iterator. They take a rectangle as their last argument."""

    __slots__ = ("is_inside", "kind", "matches", "nodes", "places")

    kind: IteratorType

    places: Callable[[Rectangles, Box], list[int]]
    """From a page to the places of the keys that are selected."""
    nodes: Selector
    """From rows to the nodes below which there may be some."""
    is_inside: Callable[[Box, Box], bool] | None
    """Whether all keys within a box are selected; None: that does not follow."""
    matches: Callable[[SortKey, Box], bool]
    """Whether a key is selected."""


class Geometry:
    """The compiled functions for a number of dimensions and a distance."""

    def __init__(self, dimension: int, distance: str) -> None:
        self.dimension = dimension
        self._distance = distance
        self.empty: Box = (inf,) * dimension + (-inf,) * dimension
        """The box of nothing."""
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
        """From a primary key and a tuple's value to the key. Raises the errors of `read_rectangle`."""
        self.extend: Callable[[Box, SortKey], Box] = names["extend"]
        """The box with a key's rectangle in it; the same object if it is in it already."""
        self.is_on_edge: Callable[[Box, SortKey], bool] = names["is_on_edge"]
        """Whether the box may be smaller without the key."""
        self.unite: Callable[[list[Any]], Box] = names["unite"]
        """The box of some rows, at least one."""
        self.unite_two: Callable[[Box, Box], Box] = names["unite_two"]
        """The box of two boxes."""
        self._code: Callable[[bytes], int] = names["code"]
        self._selections: dict[IteratorType, Selection] = {}

    def columns(self, keys: list[SortKey]) -> list[array[float]]:
        """Return the columns of some keys' rectangles: half of them if all are points."""
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
        """Return the box of columns, which are not empty."""
        return (*map(min, columns[: self.dimension]), *map(max, columns[-self.dimension :]))

    def bound(self, keys: list[SortKey]) -> Box:
        """Return the box of some keys, at least one."""
        return self.box_of(self.columns(keys))

    def code_of(self, box: Box) -> int | None:
        """Return the code of a key with this rectangle; None if equal rectangles may have another one."""
        lower, upper = box[: self.dimension], box[self.dimension :]
        middle = [a + (b - a) * 0.5 for a, b in zip(lower, upper, strict=True)]
        # Zero has two signs, and infinities have no middle.
        if not all(number and number - number == 0 for number in middle):
            return None
        return self._code(struct.pack(f"<{self.dimension}d", *middle))

    def selection(self, kind: IteratorType) -> Selection | None:
        """Return the functions of an iterator, or None if it does not select by a condition."""
        found = self._selections.get(kind)
        if found is None and kind in CONDITIONS:
            found = self._selections[kind] = _selection(self.dimension, kind)
        return found

    @cached_property
    def distances(self) -> Distances:
        """The functions of NEIGHBOR."""
        return _distances(self.dimension, self._distance)


class Distances:
    """Distances from the lower corner of a rectangle, their last argument; Euclidean ones are squared."""

    __slots__ = ("box_within", "near", "of_boxes", "of_key", "of_page", "of_rows")

    near: Callable[[Rectangles, float, Box], list[tuple[float, int]]]
    """From a page to (distance, place) of the keys that are not farther than a distance."""
    box_within: Callable[[float, Box], Box]
    """The box of everything that is not farther than a distance, which is no tiny one."""

    of_boxes: Callable[[list[Box], Box], list[float]]
    """Of the nearest points of boxes."""
    of_key: Callable[[SortKey, Box], float]
    of_page: Callable[[Rectangles, Box], list[float]]
    """Of the keys of a page, in order."""
    of_rows: Callable[[list[Any], Box], list[tuple[float, int, Any]]]
    """From rows to (distance, id, node)."""


@lru_cache(64)
def geometry_of(dimension: int, distance: str) -> Geometry:
    """Return the functions for a number of dimensions and `euclid` or `manhattan`."""
    return Geometry(dimension, distance)


def _words(dimension: int) -> tuple[int, int]:
    """Return how many bits of a coordinate are looked up at once, and how often for a code.

    32 bits order a million values of one exponent, 48 bits many more.
    """
    return (16, 3) if dimension <= 2 else (16, 2) if dimension == 3 else (8, 4)


def _table(dimension: int, width: int) -> list[int]:
    """Return the numbers of `width` bits with `dimension` - 1 zeros before each bit."""
    spread = [sum((byte >> bit & 1) << bit * dimension for bit in range(8)) for byte in range(256)]
    if width == 8:
        return spread
    return [one << 8 * dimension | other for one in spread for other in spread]


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
    """Return the lines that unpack `key`."""
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
    """Return the distance of key `n` of a page, whose first difference is known."""
    first = "t * t" if distance == "euclid" else "abs(a0 - p0)"
    term = "(t := c{0}[n] - p{0}) * t" if distance == "euclid" else "abs(c{0}[n] - p{0})"
    return " + ".join([first, *[term.format(number) for number in range(1, dimension)]])


def _code_parts(dimension: int, width: int, words: int) -> tuple[str, str]:
    """Return the statement that looks at `packed`, and the code as an expression."""
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
