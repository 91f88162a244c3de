"""The keys of an R-tree, compiled for a number of dimensions and a kind of primary key.

```
key     head + primary key              one bytes object, if the primary key can be packed (`box.index.packed`)
        (head, primary key)             otherwise
head    code, kind, rectangle           kind is 0 for a point, 1 for another rectangle, and zeros follow it up to a
                                        multiple of eight bytes
```

`code` puts what is near beside each other: the leading bits of the middle's coordinates, as they are stored, in turns
(the curve of Morton). Signs and exponents come first, so it needs no bounds, and numbers of any size have their place.
It is big-endian, so that keys are in its order. The rectangle is doubles of this machine: a0, a1, ..., b0, b1, ...; a
point has only the first half of them.

A tree compares two bytes objects several times as fast as two tuples. The coordinates of a page's points are cut out of
its joined keys without an object for each number.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast

from box.data.json_path import Path, follow
from box.data.keydef import KeyDef, SortKey
from box.data.types import FieldType, compiled_source
from box.index.packed import after_all, are_packable, packer
from box.index.rtree_columns import are_finite, listed, names_of

EXACT: Final = 2**53
"""A `double` represents every integer up to this one exactly."""

_LETTERS: Final = {16: "H", 32: "I", 64: "Q"}
"""The formats of integers by their bits."""


class PrimaryForm(NamedTuple):
    """The form of the primary key in keys."""

    is_packed: bool
    size: int | None
    """The bytes that it adds to the head; None if they vary."""


_APART: Final = PrimaryForm(False, 0)


def tail_of(primary: KeyDef) -> PrimaryForm:
    """Return the form that a primary key has in keys."""
    if not are_packable(primary):
        return _APART
    is_fixed = all(part.type is FieldType.UNSIGNED for part in primary.parts)
    return PrimaryForm(True, 8 * len(primary) if is_fixed else None)


class KeyLayout:
    """The places of a key's parts, and the compiled functions that make keys. `names` are names in their source."""

    def __init__(self, dimension: int, tail: PrimaryForm, names: dict[str, Any]) -> None:
        self.dimension = dimension
        self.tail = tail
        width, words = _words(dimension)
        self._width, self._words = width, words
        self.code_size: Final = width * words * dimension // 8
        self.start: Final = (self.code_size + 8) // 8 * 8
        """Where the rectangle begins."""
        self.lowest: SortKey = b"" if tail.is_packed else ()
        """A value that sorts before every key."""
        self._names = names | {"LOW": b"\0" * (self.start - self.code_size)}
        self._names["HIGH"] = b"\1" + b"\0" * (self.start - self.code_size - 1)
        letter, size = ("B", 1) if width == 8 else ("H", 2)
        layout = ("x" * (8 - size * words) + letter * words) * dimension
        self._names["take"] = struct.Struct("<" + layout).unpack
        self._letter = _LETTERS.get(width * dimension)
        """The format of a word of the code; None if no integer has its size."""
        if self._letter:
            self._names["pack_code"] = struct.Struct(f">{words}{self._letter}").pack

    def _compiled(self, source: str, name: str, names: dict[str, Any]) -> Any:
        """Return a function of a source that makes codes; `names` are further names in it."""
        names = self._names | names
        names["table"] = _LateTable(names, self.dimension, self._width)
        exec(compiled_source(source), names)
        # Remove the function from its own namespace, which would otherwise form a reference cycle.
        return names.pop(name)

    @property
    def unpacked(self) -> str:
        """Source lines that unpack the coordinates of `key`; its functions are those of `formats`."""
        a, b = names_of("a", self.dimension), names_of("b", self.dimension)
        return f"""
    head = {"key" if self.tail.is_packed else "key[0]"}
    if head[{self.code_size}]:
        {listed(a + b)}, = unpack_box(head, {self.start})
    else:
        {listed(a)}, = {listed(b)}, = unpack(head, {self.start})"""

    def key_of(self, primary: KeyDef, field: int, path: Path) -> Callable[[list[Any]], SortKey]:
        """Return the function that makes the key of the decoded fields of a tuple. Its form of the primary key must be
        that of the layout. The function raises the errors of `read_rectangle`.
        """
        names: dict[str, Any] = {"follow": follow, "PATH": path}
        if self.tail.size and not any(part.path for part in primary.parts):
            tail = f"tail({listed([f'f[{part.fieldno}]' for part in primary.parts])})"
            names["tail"] = struct.Struct(f">{len(primary)}Q").pack
        else:
            tail = "tail(f)"
            names["tail"] = packer(primary) if self.tail.is_packed else primary.extract
        value = f"follow(f[{field}], PATH)" if path else f"f[{field}]"
        return cast("Callable[[list[Any]], SortKey]", self._compiled(self._source_of_keys(value, tail), "key", names))

    @cached_property
    def equal(self) -> Callable[[Any], tuple[SortKey, SortKey] | None]:
        """The function that returns the range of the keys of a point, without the end, or None: the list is no usual
        point.
        """
        if not self.tail.is_packed:
            result = '(head,), (head + b"\\0",)'
        elif self.tail.size is None:
            result = "head, after_all(head)"
        else:
            result = "head, head + AFTER"
        names = {"after_all": after_all, "AFTER": b"\xff" * ((self.tail.size or 0) + 1)}
        compiled = self._compiled(self._source_of_equal(result), "equal", names)
        return cast("Callable[[Any], tuple[SortKey, SortKey] | None]", compiled)

    def code(self, key: SortKey) -> int:
        """Return the code of a key, 0 for the value that sorts before every key."""
        head = (key if self.tail.is_packed else key[0]) if key else b""
        return int.from_bytes(head[: self.code_size], "big")

    def least_key(self, code: int) -> SortKey:
        """Return a value that sorts before the keys of a code, and after those of lesser codes."""
        head = code.to_bytes(self.code_size, "big")
        return head if self.tail.is_packed else (head,)

    def columns(self, keys: list[SortKey]) -> list[array[float]]:
        """Return the coordinates of some keys as columns: only those of one corner if all keys are points and all
        coordinates are finite.
        """
        dimension, start, count = self.dimension, self.start, len(keys)
        if not count:
            return [array("d") for _ in range(dimension)]
        first, size = start // 8, self.tail.size or 0
        heads: list[bytes] = keys if self.tail.is_packed else [key[0] for key in keys]
        joined = b"" if self.tail.size is None else b"".join(heads)
        if len(joined) != count * (start + 8 * dimension + size):  # the least length: only points have it
            kind, point, box = self.code_size, start + 8 * dimension, start + 16 * dimension
            first, size = 0, 0
            if any(head[kind] for head in heads):
                joined = b"".join([head[start:box] if head[kind] else head[start:point] * 2 for head in heads])
            else:
                joined = b"".join([head[start:point] for head in heads])
        numbers = array("d", joined)
        step = len(numbers) // count
        columns = [numbers[place::step] for place in range(first, step - size // 8)]
        return columns if len(columns) > dimension or are_finite(columns) else columns * 2

    def _head(self, kind: str, packed: str) -> str:
        """Return the source of a head, after a statement that reads the middle."""
        if self._letter:  # one integer for each word takes two thirds of the time of a large one
            code = [
                " | ".join(
                    _shifted(f"table[w{number}_{word}]", self.dimension - 1 - number)
                    for number in range(self.dimension)
                )
                for word in reversed(range(self._words))
            ]
            return f"pack_code({listed(code)}) + {kind} + {packed}"
        terms = []
        for word in range(self._words):
            for number in range(self.dimension):
                shift = self.dimension - 1 - number + self._width * self.dimension * word
                terms.append(_shifted(f"table[w{number}_{word}]", shift))
        return f'({" | ".join(terms)}).to_bytes({self.code_size}, "big") + {kind} + {packed}'

    def _taken(self, packed: str) -> str:
        """Return the source of a statement that reads the middle of a rectangle, packed like a point."""
        names = [f"w{number}_{word}" for number in range(self.dimension) for word in range(self._words)]
        return f"{listed(names)}, = take({packed})"

    def _source_of_keys(self, value: str, tail: str) -> str:
        dimension, lines = self.dimension, "\n".join
        a, b = names_of("a", dimension), names_of("b", dimension)
        checks = [
            f"        if type({name}) is not float and (type({name}) is not int or not -{EXACT} <= {name} <= {EXACT}): "
            f"{name} = read_number({name}, {n})"
            for n, name in enumerate(a + b)
        ]
        without_sign = listed([f"{name} + 0.0" for name in a])  # of two zeros that are equal
        middles = listed([f"a{n} + (b{n} - a{n}) * 0.5" for n in range(dimension)])
        point, box = self._head("LOW", "packed"), self._head("HIGH", f"pack_box({listed(a + b)})")
        if self.tail.is_packed:
            point, box = f"{point} + {tail}", f"{box} + {tail}"
        else:
            point, box = f"({point}, {tail})", f"({box}, {tail})"
        return f"""
def key(f):
    value = {value}
    if len(value) == {dimension}:
        {listed(a)}, = value
{lines(checks[:dimension])}
        packed = pack({without_sign})
        {self._taken("packed")}
        return {point}
    if len(value) == {2 * dimension}:
        {listed(a + b)}, = value
{lines(checks)}
        if not ({" and ".join(f"a{n} <= b{n}" for n in range(dimension))}):
            {listed(a + b)}, = read_rectangle(value, {dimension}, "Field")
    else:
        {listed(a + b)}, = read_rectangle(value, {dimension}, "Field")
    if {" and ".join(f"a{n} == b{n}" for n in range(dimension))}:
        packed = pack({without_sign})
        {self._taken("packed")}
        return {point}
    {self._taken(f"pack({middles})")}
    return {box}
"""

    def _source_of_equal(self, result: str) -> str:
        a = names_of("a", self.dimension)
        return f"""
def equal(value):
    if len(value) != {self.dimension}:
        return None
    {listed(a)}, = value
    if {unusual(a)}:
        return None
    if {" or ".join(f"{name} != {name}" for name in a)}:
        return None
    packed = pack({listed([f"{name} + 0.0" for name in a])})
    {self._taken("packed")}
    head = {self._head("LOW", "packed")}
    return {result}
"""


def unusual(names: list[str]) -> str:
    """Return the source of the condition that one of some variables is no float, nor an integer that a float equals."""
    return " or ".join(
        f"(type({name}) is not int or not -{EXACT} <= {name} <= {EXACT}) and type({name}) is not float"
        for name in names
    )


def _shifted(term: str, bits: int) -> str:
    return f"{term} << {bits}" if bits else term


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


@lru_cache(8)
def _table(dimension: int, width: int) -> list[int]:
    """Return a table that spreads bits: each number of `width` bits with `dimension` - 1 zeros before each bit."""
    # Each bit doubles the table: a table of 16 bits takes two milliseconds so, and three times that bit by bit.
    spread = [0]
    for bit in range(width):
        high = 1 << bit * dimension
        spread += [high | number for number in spread]
    return spread
