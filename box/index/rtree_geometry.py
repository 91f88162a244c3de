"""Rectangles of an R-tree: their keys, and the comparisons of many of them at once, compiled for a number of dimensions.

```
key     (code, primary key, a0, a1, ..., b0, b1, ...)       lower corner, then upper corner; equal for a point
row     (a0, a1, ..., b0, b1, ..., node)                    of a node that others are below
box     (a0, a1, ..., b0, b1, ...)
```

`code` puts what is near beside each other: the leading bits of the middle's coordinates, as they are stored, in turns
(the curve of Morton). Signs and exponents come first, so it needs no bounds, and numbers of any size have their place.

A search with a rectangle `q` selects keys by one condition, and nodes, below which such keys may be, by another. If a
node's box satisfies a third one, all below it are selected.

Sources: `mp_decode_rect` of `memtx_rtree.c`, `rtree_rect_*` of `lib/salad/rtree.c` of the 2.8 line.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from math import inf
from typing import Any, Final

from box.data.keydef import SortKey
from box.data.types import compiled_source, type_name_of
from box.errors import ErrorCode, client_error
from box.index.base import Entry, IteratorType

MAX_DIMENSION: Final = 20
FIRST: Final = 2
"""The place of the coordinates in a key."""
Box = tuple[float, ...]
_NAN: Final = float("nan")
"""The only one in keys: it is equal to itself there."""

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
    numbers = [number if number == number else _NAN for number in numbers]
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


class Selection:
    """The functions of one iterator. They take a rectangle as their last argument."""

    __slots__ = ("entries", "is_inside", "matches", "nodes", "pairs")

    entries: Selector
    """From pages to the entries of the keys that are selected."""
    pairs: Selector
    """The same, (key, entry)."""
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
            "pack": struct.Struct(f">{dimension}d").pack,
            "take": struct.Struct(">" + (letter * words + "x" * (8 - size * words)) * dimension).unpack,
        }
        exec(compiled_source(_code_source(dimension, width, words) + _source(dimension)), names)
        self.key: Callable[[SortKey, list[Any]], SortKey] = names["key"]
        """From a primary key and a tuple's value to the key. Raises the errors of `read_rectangle`."""
        self.extend: Callable[[Box, SortKey], Box] = names["extend"]
        """The box with a key's rectangle in it; the same object if it is in it already."""
        self.is_on_edge: Callable[[Box, SortKey], bool] = names["is_on_edge"]
        """Whether the box may be smaller without the key."""
        self.bound: Callable[[list[SortKey]], Box] = names["bound"]
        """The box of some keys, at least one."""
        self.unite: Callable[[list[Any]], Box] = names["unite"]
        """The box of some rows, at least one."""
        self.unite_two: Callable[[Box, Box], Box] = names["unite_two"]
        """The box of two boxes."""
        self._selections: dict[IteratorType, Selection] = {}

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

    __slots__ = ("of_boxes", "of_key", "of_pairs", "of_rows")

    of_boxes: Callable[[list[Box], Box], list[float]]
    """Of the nearest points of boxes."""
    of_key: Callable[[SortKey, Box], float]
    of_pairs: Callable[[Iterable[tuple[SortKey, Entry]], Box], list[tuple[float, SortKey, Entry]]]
    """From (key, entry) to (distance, key, entry)."""
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


def _source(dimension: int) -> str:
    numbers = range(dimension)
    a, b, p, q = (_names(letter, dimension) for letter in "abpq")
    corners = _listed(a + b)
    lesser = [f"a{n} if a{n} < p{n} else p{n}" for n in numbers]
    greater = [f"b{n} if b{n} > q{n} else q{n}" for n in numbers]
    checks = [f"        if type({name}) is not float: {name} = read_number({name}, {n})" for n, name in enumerate(a + b)]
    least = [f"min([item[{{0}} + {n}] for item in items])" for n in numbers]
    greatest = [f"max([item[{{0}} + {dimension + n}] for item in items])" for n in numbers]
    union = _tuple(least + greatest)
    lines = "\n".join
    return f"""
def key(primary, value):
    if len(value) == {dimension}:
        {_listed(a)}, = value
{lines(checks[:dimension])}
        if {" and ".join(f"a{n} == a{n}" for n in numbers)}:
            return (code({_listed(a)}), primary, {_listed(a)}, {_listed(a)})
    elif len(value) == {2 * dimension}:
        {corners}, = value
{lines(checks)}
        if {" and ".join(f"a{n} <= b{n}" for n in numbers)}:
            return (code({_listed([f"a{n} + (b{n} - a{n}) * 0.5" for n in numbers])}), primary, {corners})
    {corners}, = read_rectangle(value, {dimension}, "Field")
    return (code({_listed(a)}), primary, {corners})

def extend(box, key):
    {_listed(p + q)}, = box
    _, _, {corners}, = key
    if {" and ".join(f"p{n} <= a{n} and b{n} <= q{n}" for n in numbers)}:
        return box
    return {_tuple(lesser + greater)}

def is_on_edge(box, key):
    {_listed(p + q)}, = box
    _, _, {corners}, = key
    return {" or ".join(f"a{n} <= p{n} or b{n} >= q{n}" for n in numbers)}

def bound(items):
    return {union.format(FIRST)}

def unite(items):
    return {union.format(0)}

def unite_two(one, other):
    {_listed(p + q)}, = one
    {corners}, = other
    return {_tuple(lesser + greater)}
"""


def _distances(dimension: int, distance: str) -> Distances:
    corners = _listed(_names("a", dimension) + _names("b", dimension))
    term = "a{0} - p{0} if p{0} < a{0} else p{0} - b{0} if p{0} > b{0} else 0.0"
    whole = "(t := {0}) * t" if distance == "euclid" else "({0})"
    far = " + ".join(whole.format(term.format(number)) for number in range(dimension))
    point = f"{_listed(_names('p', dimension))}, *_ = point"
    source = f"""
def of_rows(rows, point):
    {point}
    return [({far}, id(node), node) for {corners}, node in rows]

def of_pairs(pairs, point):
    {point}
    return [({far}, key, entry) for key, entry in pairs for _, _, {corners} in (key,)]

def of_boxes(boxes, point):
    {point}
    return [{far} for {corners}, in boxes]

def of_key(key, point):
    {point}
    _, _, {corners}, = key
    return {far}
"""
    names: dict[str, Any] = {}
    exec(compiled_source(source), names)
    made = Distances()
    made.of_boxes, made.of_key = names["of_boxes"], names["of_key"]
    made.of_pairs, made.of_rows = names["of_pairs"], names["of_rows"]
    return made


def _code_source(dimension: int, width: int, words: int) -> str:
    names = [[f"w{number}_{word}" for word in range(words)] for number in range(dimension)]
    terms = []
    for word in range(words):
        for number in range(dimension):
            shift = dimension - 1 - number + width * dimension * (words - 1 - word)
            terms.append(f"table[{names[number][word]}]" + (f" << {shift}" if shift else ""))
    taken = _listed([name for each in names for name in each])
    arguments = _listed(_names("a", dimension))
    return f"""
def code({arguments}):
    {taken}, = take(pack({arguments}))
    return {" | ".join(terms)}
"""


def _condition(forms: tuple[str, str], lows: list[str], highs: list[str]) -> str:
    terms = []
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        terms += [form.format(a=low, b=high, qa=f"qa{number}", qb=f"qb{number}") for form in forms]
    return " and ".join(terms)


def _selection(dimension: int, kind: IteratorType) -> Selection:
    of_keys, of_nodes, of_inside = CONDITIONS[kind]
    a, b = _names("a", dimension), _names("b", dimension)
    corners = _listed(a + b)
    low = [f"key[{FIRST + number}]" for number in range(dimension)]
    high = [f"key[{FIRST + dimension + number}]" for number in range(dimension)]
    query = f"{_listed(_names('qa', dimension) + _names('qb', dimension))}, = q"
    loops = "for page in pages for {} in zip(page.keys, page.entries)"
    source = f"""
def entries(pages, q):
    {query}
    return [entry {loops.format(f"(_, _, {corners}), entry")} if {_condition(of_keys, a, b)}]

def pairs(pages, q):
    {query}
    return [(key, entry) {loops.format("key, entry")} if {_condition(of_keys, low, high)}]

def nodes(rows, q):
    {query}
    return [node for {corners}, node in rows if {_condition(of_nodes, a, b)}]

def matches(key, q):
    {query}
    return {_condition(of_keys, low, high)}

def is_inside(box, q):
    {query}
    {corners}, = box
    return {_condition(of_inside or of_keys, a, b)}
"""
    names: dict[str, Any] = {}
    exec(compiled_source(source), names)
    selection = Selection()
    selection.entries, selection.pairs = names["entries"], names["pairs"]
    selection.nodes, selection.matches = names["nodes"], names["matches"]
    selection.is_inside = names["is_inside"] if of_inside else None
    return selection
