"""Bodies of changes in two parts: the *start*, which many rows share, and the rest, which is decoded for many at once.

```
INSERT, REPLACE   82  10 cd space             21 tuple              the start ends before the tuple, the rest is it
DELETE            82  10 cd space             20 key
UPDATE            83  10 cd space             20 key, 21 operations
UPSERT            83  10 cd space             28 operations, 21 tuple
                  one pair more: 15 base, the number of the first field for operations, between space and the rest
```

These are the usual bodies (`box.wire.change`) of a space whose id takes two bytes; other spaces have other bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from box.data.codec import decode_ext, unpack_many
from box.data.marks import FIXARRAY, FIXMAP
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT
from box.wire.constants import Key

START: Final = rb"(.\x10\xcd..(?:\x15[\x00-\x7f])?[\x20\x21\x28])"
"""The pattern of a start."""
KIND_CLASSES: Final = bytes(
    {INSERT: REPLACE, REPLACE: REPLACE, DELETE: DELETE, UPDATE: UPDATE, UPSERT: UPSERT}.get(kind, 0xFF)
    for kind in range(256)
)
"""The class of each type of row, as a table of `bytes.translate`: types whose starts have the same pairs share one."""
_CLASSES: Final[dict[tuple[int, int], int]] = {
    (Key.TUPLE, 1): REPLACE,
    (Key.KEY, 1): DELETE,
    (Key.KEY, 2): UPDATE,
    (Key.OPS, 2): UPSERT,
}
"""The class by the key of the first array in a body and the number of arrays."""
_TRIPLE: Final = bytes((FIXARRAY | 3,))
"""Before the two arrays of a body and the key between them, this makes an array of the three."""


def class_of(start: bytes) -> int:
    """Return the class of the rows that have a start; 0 if the number of its pairs is wrong."""
    has_base = start[5] == Key.INDEX_BASE  # after the map, the key of the space, and its id in three bytes
    return _CLASSES.get((start[-1], start[0] - FIXMAP - 1 - has_base), 0)


def space_id_of(start: bytes) -> int:
    """Return the id of the space."""
    return int.from_bytes(start[3:5], "big")


def index_base_of(start: bytes) -> int:
    """Return the number that operations use for the first field."""
    return start[6] if start[5] == Key.INDEX_BASE else 0


def decode_rests(
    starts: Sequence[bytes], rests: list[bytes], ext_hook: Callable[[int, bytes], Any] = decode_ext
) -> list[Any] | None:
    """Decode many rests. A row with two arrays gives a list of them and the key between.

    Returns None if one of the rests is not exactly what follows its start, or has to be decoded separately.
    """
    two = {start for start in set(starts) if class_of(start) in (UPDATE, UPSERT)}
    if two:
        rests = [_TRIPLE + rest if start in two else rest for start, rest in zip(starts, rests, strict=True)]
    return unpack_many(rests, ext_hook)


def is_doubtful(rest: bytes) -> bool:
    """Return whether the key between the two arrays of a rest may be an integer that takes more than one byte.

    Tarantool does not take such a number for a key, but decoded it looks the same. Usually what is found here is a part
    of something else.
    """
    # Wider forms of 0x21: integers of 8 bits have these marks, larger ones end so.
    return b"\xcc\x21" in rest or b"\xd0\x21" in rest or b"\x00\x21" in rest
