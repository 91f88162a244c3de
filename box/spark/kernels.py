"""Loops over the bytes of a block, compiled by numba: rows, field offsets, and one loop for each kind of column.

```
row    = header (any value), body map { 0x10 space id, 0x21 tuple, ... }    in any order, keys of any unsigned form
tuple  = array of fields
```

Every loop checks each position against the end of the block before it reads there. A column loop takes the offset of
its field in every row, -1 where the tuple has no such field, and returns how many nulls it saw, or -1 for a value
that is not a usual one of its kind: then the caller decodes this column of this block in Python, which finds the value
or the error. Compiled code is kept on disk, beside this file or in the user's cache directory.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

wide: Final = cast(Callable[[Any], int], np.int64)
"""A number of 64 bits with a sign, for the checker an int. A constant handed to a function goes through it, or numba
would compile that function once more for this constant."""

IRREGULAR: Final = -1
_SPACE_ID: Final = 0x10
_TUPLE: Final = 0x21
_NIL: Final = 0xC0


def compiled(function: _Function) -> _Function:
    try:
        return cast(_Function, numba.njit(cache=True)(function))
    except RuntimeError:  # No directory that can be written to, as in an archive: compiled anew in each process.
        return cast(_Function, numba.njit(function))


def inlined(function: _Function) -> _Function:
    """For the small ones: a call costs more than what they do."""
    return cast(_Function, numba.njit(inline="always")(function))


@inlined
def _number(block: Bytes, position: int, size: int) -> int:
    """The big-endian number of `size` bytes (at most 4, or the low 63 bits); the caller has checked the end."""
    value = wide(0)
    for index in range(size):
        value = (value << 8) | wide(block[position + index])
    return value


def _skips() -> NDArray[np.int64]:
    """By the first byte of a value: its size and, times 64, the values inside; 0 where a length has to be read."""
    table = np.zeros(256, np.int64)
    for code in chain(range(0x80), (0xC0, 0xC2, 0xC3), range(0xE0, 0x100)):
        table[code] = 1
    for count in range(16):
        table[0x80 + count] = 1 + 64 * 2 * count
        table[0x90 + count] = 1 + 64 * count
    for length in range(32):
        table[0xA0 + length] = 1 + length
    for width in range(4):
        table[0xCC + width] = table[0xD0 + width] = 1 + (1 << width)
    table[0xCA], table[0xCB] = 5, 9
    for width in range(5):
        table[0xD4 + width] = 2 + (1 << width)
    return table


_SKIPS: Final = _skips()


@compiled
def _variable(block: Bytes, position: int) -> tuple[int, int]:
    """Size of a value whose length has to be read, without the values inside, and how many those are.

    The size is -1 for no MessagePack and for a length that is cut off.
    """
    code = wide(block[position])
    width, extra, factor = 0, 0, 0
    if 0xC4 <= code <= 0xC6:
        width = 1 << (code - 0xC4)
    elif 0xC7 <= code <= 0xC9:
        width, extra = 1 << (code - 0xC7), 1
    elif 0xD9 <= code <= 0xDB:
        width = 1 << (code - 0xD9)
    elif 0xDC <= code <= 0xDF:
        width, factor = (4 if code & 1 else 2), (2 if code >= 0xDE else 1)
    if width == 0 or position + 1 + width > len(block):
        return -1, 0
    length = _number(block, position + 1, width)
    if factor:
        return 1 + width, factor * length
    return 1 + width + extra + length, 0


@compiled
def skip(block: Bytes, position: int, pending: int) -> int:
    """The offset after `pending` values that follow each other from `position` on; -1 if they are no MessagePack."""
    end = len(block)
    while pending > 0:
        # Each value takes a byte at least, so that a damaged count cannot make this loop long.
        if pending > end - position:
            return -1
        known = wide(_SKIPS[block[position]])
        pending -= 1
        if known != 0:
            position += known & 63
            pending += known >> 6
        else:
            size, values = _variable(block, position)
            if size < 0:
                return -1
            position += size
            pending += values
    return position if position <= end else -1


@inlined
def uint_at(block: Bytes, position: int, end: int) -> int:
    """The integer in `block[position:end]` if it is in 0..2^63-1; -1 for another value."""
    code = wide(block[position])
    if code <= 0x7F:
        return code
    if not 0xCC <= code <= 0xD3:
        return -1
    size = 1 << (code & 3)
    if position + 1 + size > end or ((code >= 0xD0 or size == 8) and block[position + 1] > 0x7F):
        return -1
    return _number(block, position + 1, size)


@inlined
def _is_uint(block: Bytes, position: int) -> bool:
    """Whether an integer that is not negative starts there; the caller has checked the end."""
    code = block[position]
    return bool(code <= 0x7F or 0xCC <= code <= 0xCF or (0xD0 <= code <= 0xD3 and block[position + 1] <= 0x7F))


@inlined
def count_of(block: Bytes, position: int, small: int, large: int) -> tuple[int, int]:
    """The number of pairs or elements, and the offset of the first; -1 for another value than the container asked for.

    `small` is the first code of the short form, `large` that of the form with a count of two bytes.
    """
    code = wide(block[position])
    if small <= code <= small + 15:
        return code & 15, position + 1
    if code != large and code != large + 1:
        return -1, position
    size = 2 << (code - large)
    if position + 1 + size > len(block):
        return -1, position
    return _number(block, position + 1, size), position + 1 + size


@compiled
def find_rows(
    block: Bytes, position: int, space_id: int, slots: Offsets, starts: NDArray[np.int64], tuples: NDArray[np.int64]
) -> tuple[int, int]:
    """Offsets of tuples of one space and of their fields: how many, and the position to go on at.

    `slots` has for every field number of interest the line of `starts` that its offsets go to, or -1. `tuples` has two
    lines: offset of the tuple and of its end. Stops when these are full. After a damaged row the position is -1 less
    its offset.
    """
    end = len(block)
    rows = wide(0)
    while position < end and rows < tuples.shape[1]:
        first = position
        position = skip(block, position, wide(1))
        if position < 0 or position >= end:
            return rows, -1 - first
        pairs, position = count_of(block, position, 0x80, 0xDE)
        if pairs < 0:
            return rows, -1 - first
        found = tuple_start = tuple_end = wide(-1)
        has_space = False
        for _ in range(pairs):
            if position >= end:
                return rows, -1 - first
            value_at = position + 1 if block[position] <= 0x7F else skip(block, position, wide(1))
            if value_at < 0 or value_at >= end:
                return rows, -1 - first
            key = uint_at(block, position, value_at)
            if key == _TUPLE and found == space_id and tuple_start < 0:
                tuple_start, position = value_at, _find_fields(block, value_at, slots, starts, rows)
                tuple_end = position
            else:
                position = skip(block, value_at, wide(1))
            if position < 0:
                return rows, -1 - first
            if key == _SPACE_ID:
                if has_space or not _is_uint(block, value_at):
                    return rows, -1 - first
                has_space = True
                found = uint_at(block, value_at, position)
            elif key == _TUPLE and tuple_end != position:
                if tuple_start >= 0:
                    return rows, -1 - first
                tuple_start = value_at
        if found != space_id or tuple_start < 0:
            continue
        if tuple_end < 0:  # The tuple came before the space.
            tuple_end = _find_fields(block, tuple_start, slots, starts, rows)
            if tuple_end < 0:
                return rows, -1 - first
        tuples[0, rows] = tuple_start
        tuples[1, rows] = tuple_end
        rows += 1
    return rows, position


@compiled
def _find_fields(block: Bytes, position: int, slots: Offsets, starts: NDArray[np.int64], row: int) -> int:
    """Enter the offsets of one tuple's fields into `starts`; returns the tuple's end, -1 for no array."""
    count, position = count_of(block, position, 0x90, 0xDC)
    if count < 0:
        return -1
    for number in range(len(slots)):
        slot = slots[number]
        if slot >= 0:
            starts[slot, row] = position if number < count else -1
        if number < count:
            position = skip(block, position, wide(1))
            if position < 0:
                return -1
    return skip(block, position, count - len(slots)) if count > len(slots) else position


@compiled
def find_ends(block: Bytes, starts: Offsets, ends: Offsets) -> None:
    """The end of the value at each offset; a missing one ends where it starts."""
    for row in range(len(starts)):
        ends[row] = skip(block, starts[row], wide(1)) if starts[row] >= 0 else starts[row]


# --- columns ----------------------------------------------------------------------------------------------------------


@compiled
def read_integers(block: Bytes, starts: Offsets, values: NDArray[np.int64], valid: Bytes) -> int:
    """Whole numbers that fit 64 bits with a sign."""
    nulls = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(_NIL) if position < 0 else wide(block[position])
        value = wide(0)
        if code == _NIL:
            nulls += 1
            values[row] = 0
            continue
        if code <= 0x7F:
            value = code
        elif code >= 0xE0:
            value = code - 256
        elif 0xCC <= code <= 0xCF:
            value = uint_at(block, position, len(block))
            if value < 0:
                return IRREGULAR
        elif 0xD0 <= code <= 0xD3:
            size = 1 << (code - 0xD0)
            if position + 1 + size > len(block):
                return IRREGULAR
            value = _number(block, position + 1, size)
            if size < 8 and value >= wide(1) << (8 * size - 1):
                value -= wide(1) << (8 * size)
        else:
            return IRREGULAR
        values[row] = value
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls


@compiled
def read_doubles(
    block: Bytes,
    starts: Offsets,
    values: NDArray[np.float64],
    bits: NDArray[np.uint64],
    words: NDArray[np.uint32],
    singles: NDArray[np.float32],
    valid: Bytes,
) -> int:
    """Numbers as doubles. `bits`, `words` and `singles` are the same memory as `values`."""
    nulls = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(_NIL) if position < 0 else wide(block[position])
        if code == _NIL:
            nulls += 1
            values[row] = 0.0
            continue
        if code == 0xCB:
            if position + 9 > len(block):
                return IRREGULAR
            whole = np.uint64(0)
            for index in range(8):
                whole = (whole << np.uint64(8)) | np.uint64(block[position + 1 + index])
            bits[row] = whole
        elif code == 0xCA:
            if position + 5 > len(block):
                return IRREGULAR
            words[2 * row] = _number(block, position + 1, 4)
            values[row] = singles[2 * row]
        elif code <= 0x7F:
            values[row] = code
        elif code >= 0xE0:
            values[row] = code - 256
        elif 0xCC <= code <= 0xCF:
            value = uint_at(block, position, len(block))
            if value < 0:
                return IRREGULAR
            values[row] = value
        elif 0xD0 <= code <= 0xD3:
            size = 1 << (code - 0xD0)
            if position + 1 + size > len(block):
                return IRREGULAR
            value = _number(block, position + 1, size)
            if size < 8 and value >= wide(1) << (8 * size - 1):
                value -= wide(1) << (8 * size)
            values[row] = value
        else:
            return IRREGULAR
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls


@compiled
def read_booleans(block: Bytes, starts: Offsets, values: Bytes, valid: Bytes) -> int:
    """True and false, a bit each."""
    nulls = 0
    for row in range(len(starts)):
        code = _NIL if starts[row] < 0 else wide(block[starts[row]])
        if code == _NIL:
            nulls += 1
            continue
        if code != 0xC2 and code != 0xC3:
            return IRREGULAR
        bit = np.uint8(1 << (row & 7))
        valid[row >> 3] |= bit
        if code == 0xC3:
            values[row >> 3] |= bit
    return nulls


@compiled
def text_at(block: Bytes, position: int, is_binary: bool) -> tuple[int, int]:
    """Start and end of the body of a string (or a binary value); the start is -1 for another value."""
    code = wide(block[position])
    size = 0
    length = wide(0)
    if is_binary:
        if not 0xC4 <= code <= 0xC6:
            return -1, 0
        size = 1 << (code - 0xC4)
    elif 0xA0 <= code <= 0xBF:
        length = code & 31
    elif 0xD9 <= code <= 0xDB:
        size = 1 << (code - 0xD9)
    else:
        return -1, 0
    start = position + 1 + size
    if start > len(block):
        return -1, 0
    if size:
        length = _number(block, position + 1, size)
    return (start, start + length) if start + length <= len(block) else (-1, 0)


@compiled
def measure_text(
    block: Bytes, starts: Offsets, is_binary: bool, bodies: Offsets, ends: NDArray[np.int32], valid: Bytes
) -> int:
    """Strings (or binary values): where each body starts, and where it ends in the column's data."""
    nulls = 0
    total = wide(0)
    ends[0] = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(_NIL) if position < 0 else wide(block[position])
        if code == _NIL:
            nulls += 1
            bodies[row] = 0
            ends[row + 1] = total
            continue
        start, end = text_at(block, position, is_binary)
        if start < 0:
            return IRREGULAR
        bodies[row] = start
        total += end - start
        if total > 0x7FFFFFFF:
            return IRREGULAR
        ends[row + 1] = total
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls


@compiled
def copy_text(block: Bytes, bodies: Offsets, ends: NDArray[np.int32], data: Bytes) -> bool:
    """Copy what `measure_text` found; whether all of it is ASCII."""
    seen = np.uint8(0)
    for row in range(len(bodies)):
        target = ends[row]
        source = bodies[row] - target
        for index in range(target, ends[row + 1]):
            byte = block[source + index]
            seen |= byte
            data[index] = byte
    return bool(seen < 0x80)


@compiled
def read_uuids(block: Bytes, starts: Offsets, ends: NDArray[np.int32], data: Bytes, valid: Bytes) -> int:
    """UUIDs (`d8 02`, 16 bytes) as text of 36 characters; `data` has room for all rows."""
    nulls = 0
    total = 0
    ends[0] = 0
    for row in range(len(starts)):
        position = starts[row]
        if position < 0 or block[position] == _NIL:
            nulls += 1
            ends[row + 1] = total
            continue
        if position + 18 > len(block) or block[position] != 0xD8 or block[position + 1] != 2:
            return IRREGULAR
        for index in range(16):
            if index == 4 or index == 6 or index == 8 or index == 10:
                data[total] = 0x2D
                total += 1
            byte = wide(block[position + 2 + index])
            for half in (byte >> 4, byte & 15):
                data[total] = half + (0x30 if half < 10 else 0x57)
                total += 1
        ends[row + 1] = total
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls
