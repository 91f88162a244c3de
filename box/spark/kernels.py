"""Loops over the bytes of a block, compiled by numba: they find rows and field offsets, and read columns of each kind.

```
row    = header (any value), body map { 0x10 space id, 0x21 tuple, ... }    in any order, keys of any unsigned form
tuple  = array of fields
```

Every loop compares each position with the end of the block before it reads there. The loop of a column takes the
offset of its field in every row, -1 if the tuple has no such field. It returns the number of nulls, or -1 if a value
has an unusual form; then the caller decodes this column of the block in Python, which finds the value or the error.
Compiled code is cached on disk, beside this file or in the user's cache directory.

Bitmaps of Arrow have the bit of row `r` in byte `r >> 3` at position `r & 7`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from box.data.marks import (
    ARRAY16,
    BIN8,
    BIN32,
    EXT8,
    EXT32,
    FALSE,
    FIXARRAY,
    FIXEXT1,
    FIXEXT16,
    FIXMAP,
    FIXSTR,
    FLOAT32,
    FLOAT64,
    INT8,
    INT64,
    MAP16,
    MAP32,
    NEGATIVE_FIXINT,
    NIL,
    STR8,
    STR32,
    TRUE,
    UINT8,
    UINT64,
)
from box.wire.constants import Key

_Function = TypeVar("_Function", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

wide: Final = cast(Callable[[Any], int], np.int64)
"""Makes a signed 64-bit number, which is an int for the type checker.

Constant arguments of compiled functions go through it; otherwise numba would compile the function again for every such
constant.
"""

IRREGULAR: Final = -1
"""The result of a loop for a value that the decoder in Python has to read."""
# Named constants cost nothing here, because numba compiles them as numbers.
_SPACE_ID: Final = int(Key.SPACE_ID)
_TUPLE: Final = int(Key.TUPLE)
_OFFSET_MAX: Final = 2**31 - 1
"""The greatest offset of Arrow's strings, which has 32 bits with a sign."""


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called, with a cache on disk."""
    try:
        return cast(_Function, numba.njit(cache=True)(function))
    except RuntimeError:  # No directory is writable, as in an archive: the function is compiled in each process
        return cast(_Function, numba.njit(function))


def inlined(function: _Function) -> _Function:
    """Compile a small function into its callers, because a call would cost more than its body."""
    return cast(_Function, numba.njit(inline="always")(function))


@inlined
def _number(block: Bytes, position: int, size: int) -> int:
    """Return the big-endian number of `size` bytes, of 8 bytes as a signed number; the caller has checked the end."""
    value = wide(0)
    for index in range(size):
        value = (value << 8) | wide(block[position + index])
    return value


def _skips() -> NDArray[np.int64]:
    """Return a table by first byte: the size of the value in the low 6 bits, the number of values inside above.

    The size is without the values inside, and 0 means that a length has to be read.
    """
    table = np.zeros(256, np.int64)
    for code in chain(range(FIXMAP), (NIL, FALSE, TRUE), range(NEGATIVE_FIXINT, 256)):
        table[code] = 1
    for count in range(16):
        table[FIXMAP + count] = 1 + 64 * 2 * count
        table[FIXARRAY + count] = 1 + 64 * count
    for length in range(32):
        table[FIXSTR + length] = 1 + length
    for width in range(4):
        table[UINT8 + width] = table[INT8 + width] = 1 + (1 << width)
    table[FLOAT32], table[FLOAT64] = 5, 9
    for width in range(5):
        table[FIXEXT1 + width] = 2 + (1 << width)
    return table


_SKIPS: Final = _skips()


@compiled
def _variable(block: Bytes, position: int) -> tuple[int, int]:
    """Return the size of a value whose length has to be read, without the values inside it, and the number of these.

    The size is -1 if the value is not MessagePack or its length is cut off.
    """
    code = wide(block[position])
    width, extra, factor = 0, 0, 0
    # bin 8, 16 and 32.
    if BIN8 <= code <= BIN32:
        width = 1 << (code - BIN8)
    # ext 8, 16 and 32: one more byte for the type.
    elif EXT8 <= code <= EXT32:
        width, extra = 1 << (code - EXT8), 1
    # str 8, 16 and 32.
    elif STR8 <= code <= STR32:
        width = 1 << (code - STR8)
    # array 16 and 32, map 16 and 32; a map has two values per element.
    elif ARRAY16 <= code <= MAP32:
        width, factor = (4 if code & 1 else 2), (2 if code >= MAP16 else 1)
    if width == 0 or position + 1 + width > len(block):
        return -1, 0
    length = _number(block, position + 1, width)
    if factor:
        return 1 + width, factor * length
    return 1 + width + extra + length, 0


@compiled
def skip(block: Bytes, position: int, pending: int) -> int:
    """Return the offset after `pending` consecutive values from `position` on; -1 if they are not MessagePack."""
    end = len(block)
    while pending > 0:
        # Each value takes at least a byte. So a damaged count cannot make this loop long.
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
    """Return the integer in `block[position:end]` if it is in 0..2^63-1; -1 for any other value."""
    code = wide(block[position])
    if code < FIXMAP:
        return code
    # The codes of uint 8 to 64 and of int 8 to 64; the low two bits are the logarithm of the size.
    if not UINT8 <= code <= INT64:
        return -1
    size = 1 << (code & 3)
    # The highest bit is the sign of a signed number; an unsigned one of 8 bytes with it is beyond 2^63 - 1.
    if position + 1 + size > end or ((code >= INT8 or size == 8) and block[position + 1] > 0x7F):
        return -1
    return _number(block, position + 1, size)


@inlined
def _is_uint(block: Bytes, position: int) -> bool:
    """Return whether a non-negative integer starts at `position`; the caller has checked the end."""
    code = block[position]
    # A signed number is one if its sign, the highest bit, is not set.
    return bool(code < FIXMAP or UINT8 <= code <= UINT64 or (INT8 <= code <= INT64 and block[position + 1] <= 0x7F))


@inlined
def count_of(block: Bytes, position: int, small: int, large: int) -> tuple[int, int]:
    """Return the number of pairs or elements, and the offset of the first; the number is -1 for another kind of value.

    `small` is the first code of the form whose code includes the count, `large` the code of the form with two bytes for
    it.
    """
    code = wide(block[position])
    if small <= code <= small + 15:
        return code & 15, position + 1
    if code != large and code != large + 1:
        return -1, position
    size = 2 << (code - large)  # two bytes, or four for the next code
    if position + 1 + size > len(block):
        return -1, position
    return _number(block, position + 1, size), position + 1 + size


@compiled
def find_rows(
    block: Bytes, position: int, space_id: int, slots: Offsets, starts: NDArray[np.int64], tuples: NDArray[np.int64]
) -> tuple[int, int]:
    """Find the tuples of one space and their fields; return the number of tuples, and the position to continue at.

    `slots` has, for each field number, the line of `starts` for its offsets, or -1. `tuples` has two lines: the offset
    of each tuple and of its end. The search stops when these arrays are full. After a damaged row the returned position
    is -1 minus the offset of the row.
    """
    end = len(block)
    rows = wide(0)
    while position < end and rows < tuples.shape[1]:
        first = position
        position = skip(block, position, wide(1))
        if position < 0 or position >= end:
            return rows, -1 - first

        pairs, position = count_of(block, position, FIXMAP, MAP16)
        if pairs < 0:
            return rows, -1 - first
        found = tuple_start = tuple_end = wide(-1)
        has_space = False
        for _ in range(pairs):
            if position >= end:
                return rows, -1 - first
            value_at = position + 1 if block[position] < FIXMAP else skip(block, position, wide(1))
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
        if tuple_end < 0:  # The tuple came before the space id, so its fields were not looked up yet
            tuple_end = _find_fields(block, tuple_start, slots, starts, rows)
            if tuple_end < 0:
                return rows, -1 - first
        tuples[0, rows] = tuple_start
        tuples[1, rows] = tuple_end
        rows += 1
    return rows, position


@compiled
def _find_fields(block: Bytes, position: int, slots: Offsets, starts: NDArray[np.int64], row: int) -> int:
    """Enter the offsets of a tuple's fields into `starts`; return the end of the tuple, -1 if it is not an array."""
    count, position = count_of(block, position, FIXARRAY, ARRAY16)
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
    """Enter the end of the value at each offset into `ends`; for a missing value (-1) this is -1."""
    for row in range(len(starts)):
        ends[row] = skip(block, starts[row], wide(1)) if starts[row] >= 0 else starts[row]


# --- columns ----------------------------------------------------------------------------------------------------------


@compiled
def read_integers(block: Bytes, starts: Offsets, values: NDArray[np.int64], valid: Bytes) -> int:
    """Read integers from -2^63 to 2^63-1; return the number of nulls or `IRREGULAR`."""
    nulls = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(NIL) if position < 0 else wide(block[position])
        value = wide(0)
        if code == NIL:
            nulls += 1
            values[row] = 0
            continue
        if code < FIXMAP:
            value = code
        elif code >= NEGATIVE_FIXINT:
            value = code - 256
        elif UINT8 <= code <= UINT64:
            value = uint_at(block, position, len(block))
            if value < 0:
                return IRREGULAR
        elif INT8 <= code <= INT64:
            size = 1 << (code - INT8)
            if position + 1 + size > len(block):
                return IRREGULAR
            value = _number(block, position + 1, size)
            # `_number` has the sign only for eight bytes.
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
    """Read numbers as doubles; return the number of nulls or `IRREGULAR`.

    `bits`, `words` and `singles` are views of the memory of `values` with other types.
    """
    nulls = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(NIL) if position < 0 else wide(block[position])
        if code == NIL:
            nulls += 1
            values[row] = 0.0
            continue
        # A double: its bits are written as an integer into the memory of the result.
        if code == FLOAT64:
            if position + 9 > len(block):
                return IRREGULAR
            whole = np.uint64(0)
            for index in range(8):
                whole = (whole << np.uint64(8)) | np.uint64(block[position + 1 + index])
            bits[row] = whole
        # A float: its bits are written into the memory of the result, read there as a float, and replaced by the
        # double.
        elif code == FLOAT32:
            if position + 5 > len(block):
                return IRREGULAR
            words[2 * row] = _number(block, position + 1, 4)
            values[row] = singles[2 * row]
        elif code < FIXMAP:
            values[row] = code
        elif code >= NEGATIVE_FIXINT:
            values[row] = code - 256
        elif UINT8 <= code <= UINT64:
            value = uint_at(block, position, len(block))
            if value < 0:
                return IRREGULAR
            values[row] = value
        elif INT8 <= code <= INT64:
            size = 1 << (code - INT8)
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
    """Read booleans into a bitmap; return the number of nulls or `IRREGULAR`."""
    nulls = 0
    for row in range(len(starts)):
        code = NIL if starts[row] < 0 else wide(block[starts[row]])
        if code == NIL:
            nulls += 1
            continue
        if code != FALSE and code != TRUE:
            return IRREGULAR
        bit = np.uint8(1 << (row & 7))
        valid[row >> 3] |= bit
        if code == TRUE:
            values[row >> 3] |= bit
    return nulls


@compiled
def text_at(block: Bytes, position: int, is_binary: bool) -> tuple[int, int]:
    """Return the start and the end of the content of a string (or binary value); the start is -1 for any other
    value."""
    code = wide(block[position])
    size = 0
    length = wide(0)
    if is_binary:
        if not BIN8 <= code <= BIN32:
            return -1, 0
        size = 1 << (code - BIN8)
    elif FIXSTR <= code < NIL:
        length = code & 31
    elif STR8 <= code <= STR32:
        size = 1 << (code - STR8)
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
    """Enter the start of the content of each string (or binary value), and its end in the column; return the nulls."""
    nulls = 0
    total = wide(0)
    ends[0] = 0
    for row in range(len(starts)):
        position = starts[row]
        code = wide(NIL) if position < 0 else wide(block[position])
        if code == NIL:
            nulls += 1
            bodies[row] = 0
            ends[row + 1] = total
            continue
        start, end = text_at(block, position, is_binary)
        if start < 0:
            return IRREGULAR
        bodies[row] = start
        total += end - start
        if total > _OFFSET_MAX:
            return IRREGULAR
        ends[row + 1] = total
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls


@compiled
def copy_text(block: Bytes, bodies: Offsets, ends: NDArray[np.int32], data: Bytes) -> bool:
    """Copy the strings that `measure_text` has found into `data`; return whether they are all ASCII."""
    seen = np.uint8(0)
    for row in range(len(bodies)):
        target = ends[row]
        source = bodies[row] - target
        for index in range(target, ends[row + 1]):
            byte = block[source + index]
            seen |= byte
            data[index] = byte
    return bool(seen < 0x80)  # ASCII has seven bits, and `seen` has every bit that any byte had


@compiled
def read_uuids(block: Bytes, starts: Offsets, ends: NDArray[np.int32], data: Bytes, valid: Bytes) -> int:
    """Read UUIDs (`d8 02` and 16 bytes) as text of 36 characters; return the number of nulls or `IRREGULAR`.

    `data` has room for the text of all rows.
    """
    nulls = 0
    total = 0
    ends[0] = 0
    for row in range(len(starts)):
        position = starts[row]
        if position < 0 or block[position] == NIL:
            nulls += 1
            ends[row + 1] = total
            continue
        # 2 is the extension type of UUIDs.
        if position + 18 > len(block) or block[position] != FIXEXT16 or block[position + 1] != 2:
            return IRREGULAR
        for index in range(16):
            if index == 4 or index == 6 or index == 8 or index == 10:
                # A hyphen, which stands before these bytes of a UUID's text.
                data[total] = 0x2D
                total += 1
            byte = wide(block[position + 2 + index])
            for half in (byte >> 4, byte & 15):
                # The digits 0 to 9 begin at 0x30, the letters a to f at 0x61, which is 0x57 + 10.
                data[total] = half + (0x30 if half < 10 else 0x57)
                total += 1
        ends[row + 1] = total
        valid[row >> 3] |= np.uint8(1 << (row & 7))
    return nulls
