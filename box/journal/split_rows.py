"""Splits a block of plain rows with one call: all headers are found by a pattern, all values decoded together.

A row of a space with an id from 256 to 65535 that changes by the primary key has one of these bodies:

```
INSERT, REPLACE   82  10 cd space             21 tuple              the start ends before the tuple, the rest is it
DELETE            82  10 cd space             20 key
UPDATE            83  10 cd space             20 key, 21 operations
UPSERT            83  10 cd space             28 operations, 21 tuple
                  one pair more: 15 base, the number of the first field for operations, between space and the rest
```

The pattern may also match inside a value. But then the values do not end where it says: each rest has to be exactly as
many values as its row has. So from the first row on every row begins where the block says.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import lt
from typing import Any, Final

import msgpack

from box.data.codec import unpack_many
from box.data.marks import FIXARRAY
from box.journal.plain_runs import PlainRun
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT
from box.wire.change_run import HEAD_SIZE
from box.wire.constants import Key
from box.wire.first_bytes import FIXMAP
from box.wire.vclock import VCLOCK_MAX

_LARGE: Final = 4096
"""The size of a body in bytes from which decoding may take longer than finding its end, see `TupleFormat.validate`."""
_NUMBERS: Final = {0xCC: (b"\\xcc(.)", "B"), 0xCD: (b"\\xcd(..)", "H"), 0xCE: (b"\\xce(....)", "I")}
_NUMBERS[0xCF] = (b"\\xcf(........)", "Q")
_SMALL_NUMBER: Final = (b"([\\x00-\\x7f])", "B")
"""Patterns of an lsn, and the letters of `struct` for its bytes, by its mark. A small number is its own mark."""
_START: Final = rb"(.\x10\xcd..(?:\x15[\x00-\x7f])?[\x20\x21\x28])"
"""The start of a body; the literals are keys of `box.wire.change`."""
_PLACE: Final = rb"(|\x08(?:[\x00-\x7f]|\xcc.|\xcd..|\xce....))(|\x09\x01)"
"""What follows the time in a transaction of several rows: the distance to its first lsn, and the flag COMMIT."""
_SINGLE: Final = 0x84
_MIDDLE: Final = 0x85
_LAST: Final = 0x86
"""The first bytes of the headers of `plain_runs`."""
_TIME_SIZE: Final = 8
_AT_TIME: Final = struct.Struct(">d").unpack_from
_KIND_CLASSES: Final = bytes(
    {INSERT: REPLACE, REPLACE: REPLACE, DELETE: DELETE, UPDATE: UPDATE, UPSERT: UPSERT}.get(kind, 0xFF)
    for kind in range(256)
)
"""The class of each type of row: that of all types whose bodies have the same pairs."""
_CLASSES: Final[dict[tuple[int, int], int]] = {
    (Key.TUPLE, 1): REPLACE,
    (Key.KEY, 1): DELETE,
    (Key.KEY, 2): UPDATE,
    (Key.OPS, 2): UPSERT,
}
"""The class by the key of the first array in a body and the number of arrays."""
_TWO_VALUES: Final = (UPDATE, UPSERT)
_TRIPLE: Final = bytes((FIXARRAY | 3,))
"""Before the two arrays of a body and the key between them, this makes an array of three of them."""
_TUPLE_KEY: Final = bytes((Key.TUPLE,))
_NONE_OPEN: Final = bytes((_MIDDLE, _SINGLE))
_PAIRS_OF_PLACE: Final = bytes.maketrans(bytes((_SINGLE, _MIDDLE, _LAST)), bytes((0, 1, 1)))
_SIZE_OF_COMMIT: Final = bytes.maketrans(bytes((_SINGLE, _MIDDLE, _LAST)), bytes((0, 0, 2)))


def split_block(block: bytes) -> PlainRun | None:
    """Return the rows of a block as one run with `starts`, or None if one of them is unusual or malformed."""
    if len(block) <= HEAD_SIZE or block[1] or block[3] != 2 or block[5] != 3 or not 0 < block[4] < VCLOCK_MAX:
        return None
    mark = block[HEAD_SIZE] if block[HEAD_SIZE] in _NUMBERS else 0
    if block[0] == _SINGLE and (run := _split(block, *_single_rows(block[4], mark))) is not None:
        return run
    return _split(block, *_all_rows(block[4], mark)) if _SINGLE <= block[0] <= _LAST else None


@lru_cache(256)
def _single_rows(replica_id: int, mark: int) -> tuple[re.Pattern[bytes], str]:
    """Return the pattern of transactions of one row, and the letter for an lsn with a mark."""
    number, letter = _NUMBERS.get(mark, _SMALL_NUMBER)
    head = rb"\x84\x00(.)\x02" + re.escape(bytes((replica_id,)))
    return re.compile(head + rb"\x03" + number + rb"\x04\xcb........" + _START, re.DOTALL), letter


@lru_cache(256)
def _all_rows(replica_id: int, mark: int) -> tuple[re.Pattern[bytes], str]:
    """Return the pattern of rows of any transactions, and the letter for an lsn with a mark."""
    number, letter = _NUMBERS.get(mark, _SMALL_NUMBER)
    head = rb"([\x84-\x86])\x00(.)\x02" + re.escape(bytes((replica_id,)))
    return re.compile(head + rb"\x03" + number + rb"\x04\xcb........" + _PLACE + _START, re.DOTALL), letter


def _split(block: bytes, pattern: re.Pattern[bytes], letter: str) -> PlainRun | None:
    parts = pattern.split(block)
    step = pattern.groups + 1
    if parts[0] or len(parts) == 1:
        return None
    starts, rests = parts[step - 1 :: step], parts[step::step]
    count = len(rests)
    is_single = pattern.groups == 3
    kinds = b"".join(parts[1::step] if is_single else parts[2::step])
    lsns = struct.unpack(f">{count}{letter}", b"".join(parts[2::step] if is_single else parts[3::step]))
    classes = {start: _class_of(start) for start in set(starts)}
    if (
        bytes(map(classes.__getitem__, starts)) != kinds.translate(_KIND_CLASSES)
        or not all(map(lt, lsns, lsns[1:]))
        or max(map(len, rests)) > _LARGE
    ):
        return None
    tail = len(starts[-1]) + len(rests[-1]) + _TIME_SIZE
    ends: Sequence[int] = range(1, count + 1)
    if not is_single:
        places, commits = parts[4::step], parts[5::step]
        found = _ends(b"".join(parts[1::step]), places, commits)
        if found is None:
            return None
        ends = found
        tail += len(places[-1]) + len(commits[-1])
    run = PlainRun(block[4])
    run.kinds, run.lsns, run.starts, run.rests, run.ends = list(kinds), lsns, starts, rests, ends
    run.tm = _AT_TIME(block, len(block) - tail)[0]
    if UPSERT in kinds and not all(map(_has_tuple, _doubtful(kinds, rests))):
        return None
    return run if _decode(run, {start for start in classes if classes[start] in _TWO_VALUES}) else None


def _class_of(start: bytes) -> int:
    """Return the class of a body by its start, 0 if the number of its pairs is wrong."""
    has_base = start[5] == Key.INDEX_BASE  # after the map, the key of the space, and its id in three bytes
    return _CLASSES.get((start[-1], start[0] - FIXMAP - 1 - has_base), 0)


def _ends(maps: bytes, places: list[bytes], commits: list[bytes]) -> list[int] | None:
    """Return the number of rows up to the end of each transaction; None if they are not all plain and complete.

    `maps` are the first bytes of the headers; the other columns are those of `_PLACE`.
    """
    if (
        bytes(map(bool, places)) != maps.translate(_PAIRS_OF_PLACE)
        or bytes(map(len, commits)) != maps.translate(_SIZE_OF_COMMIT)
        or _NONE_OPEN in maps
        or maps[-1] == _MIDDLE
    ):
        return None
    ends = [number for number, mark in enumerate(maps, 1) if mark != _MIDDLE]
    # The distance of a transaction's first row has to be 0.
    firsts = {places[number] for number in (0, *ends[:-1])}
    return ends if firsts <= {b"", b"\x08\x00"} else None


def _doubtful(kinds: bytes, rests: list[bytes]) -> list[bytes]:
    """Return the rests of UPSERTs that have a part of a number which is equal to the key of the tuple but takes more
    than one byte.

    Tarantool does not take such a number for a key, so that the UPSERT has no tuple. Usually the bytes are parts of
    something else.
    """
    # Marks of integers of 8 bits before 0x21, the end of larger ones, and the begin of 33 as a double and as a float.
    return [
        rest
        for kind, rest in zip(kinds, rests, strict=True)
        if kind == UPSERT
        and (
            b"\xcc\x21" in rest
            or b"\xd0\x21" in rest
            or b"\x00\x21" in rest
            or b"\x40\x40\x80\x00" in rest
            or b"\xca\x42\x04\x00" in rest
        )
    ]


def _has_tuple(rest: bytes) -> bool:
    """Return whether the key after the operations of an UPSERT is that of a tuple, in one byte."""
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False)
    unpacker.feed(rest)
    try:
        unpacker.skip()
    except (ValueError, msgpack.exceptions.UnpackException):
        return False
    return rest[unpacker.tell() : unpacker.tell() + 1] == _TUPLE_KEY


def _decode(run: PlainRun, two: set[bytes]) -> bool:
    """Decode the values of the rows. Returns False if one is not exactly what its row has to have.

    `two` are the starts of the rows with two arrays.
    """
    extensions: list[int] = []
    values = unpack_many(whole_values(run.starts, run.rests, two), lambda code, data: extensions.append(code))
    if values is None:
        return False
    if not extensions:
        run.values = values
    return True


def whole_values(starts: list[bytes], rests: list[bytes], two: set[bytes]) -> list[bytes]:
    """Return one MessagePack value for each row: the array of a body, or for a start in `two` an array of two arrays
    with the key between them.
    """
    if not two:
        return rests
    return [_TRIPLE + rest if start in two else rest for start, rest in zip(starts, rests, strict=True)]


def values_of(run: PlainRun, first: int, stop: int) -> list[Any] | None:
    """Decode the values of some rows again, with extensions. Returns None if one is malformed."""
    starts = run.starts[first:stop]
    two = {start for start in set(starts) if _class_of(start) in _TWO_VALUES}
    return unpack_many(whole_values(starts, run.rests[first:stop], two))


def space_id_of(start: bytes) -> int:
    """Return the id of the space in the start of a body."""
    return int.from_bytes(start[3:5], "big")


def index_base_of(start: bytes) -> int:
    """Return the number of the first field in the start of a body."""
    return start[6] if start[5] == Key.INDEX_BASE else 0
