"""Loops over the rows of a log block, compiled by numba: where each row is and what its header says.

```
header  map { 0 type, 1 sync, 2 replica id, 3 lsn, 4 timestamp, 7 group id, 8 lsn - tsn, 9 flags }
body    map { 0x10 space id, 0x20 key, 0x21 tuple or operations, ... }, absent after the header of a NOP
```

A block with anything else in it is left to the decoder in Python.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from box.spark.kernels import Bytes, compiled, count_of, skip, uint_at, wide

BODY, END, TYPE, REPLICA, LSN, FLAGS, SPACE, START, KEY = range(9)
"""The lines of `numbers`; from `KEY` on there is one for each part of the primary key with its offset, -1 if it is not
there. `BODY` and `END` are equal where there is no body."""

_NOP = 12
_UPDATE, _DELETE = 4, 5


@compiled
def find_log_rows(
    block: Bytes,
    position: int,
    key_fields: NDArray[np.int64],
    numbers: NDArray[np.int64],
    times: NDArray[np.uint64],
) -> tuple[int, int]:
    """Enter every row into `numbers`, and the bits of its timestamp into `times`: how many rows, and where to go on.

    `key_fields` are the numbers of the fields that the parts of the primary key are in tuples. Stops when the arrays
    are full. The position is -1 for a block that is not usual.
    """
    end = len(block)
    rows = 0
    while position < end and rows < numbers.shape[1]:
        start = position
        pairs, position = count_of(block, position, 0x80, 0xDE)
        if pairs < 0:
            return rows, -1
        kind = replica = lsn = flags = 0
        times[rows] = 0
        for _ in range(pairs):
            # A key of one byte, and a value of which the first byte is there.
            if position + 1 >= end or block[position] > 0x7F:
                return rows, -1
            key = block[position]
            value_at = position + 1
            position = skip(block, value_at, wide(1))
            if position < 0:
                return rows, -1
            if key == 4:
                if block[value_at] != 0xCB:
                    return rows, -1
                bits = np.uint64(0)
                for index in range(8):
                    bits = (bits << np.uint64(8)) | np.uint64(block[value_at + 1 + index])
                times[rows] = bits
            elif key == 0 or key == 2 or key == 3 or key == 9:
                value = uint_at(block, value_at, position)
                if value < 0:
                    return rows, -1
                if key == 0:
                    kind = value
                elif key == 2:
                    replica = value
                elif key == 3:
                    lsn = value
                else:
                    flags = value
        space = -1
        for part in range(len(key_fields)):
            numbers[KEY + part, rows] = -1
        body = position
        if kind != _NOP:
            if position >= end:
                return rows, -1
            pairs, position = count_of(block, position, 0x80, 0xDE)
            if pairs < 0:
                return rows, -1
            with_key = 0x20 if kind in (_UPDATE, _DELETE) else 0x21
            for _ in range(pairs):
                if position + 1 >= end or block[position] > 0x7F:
                    return rows, -1
                key = block[position]
                value_at = position + 1
                position = skip(block, value_at, wide(1))
                if position < 0:
                    return rows, -1
                if key == 0x10:
                    space = uint_at(block, value_at, position)
                    if space < 0:
                        return rows, -1
                elif key == with_key:
                    for part in range(len(key_fields)):
                        number = key_fields[part] if key == 0x21 else wide(part)
                        numbers[KEY + part, rows] = _element(block, value_at, number)
        numbers[START, rows] = start
        numbers[END, rows] = position
        numbers[TYPE, rows] = kind
        numbers[REPLICA, rows] = replica
        numbers[LSN, rows] = lsn
        numbers[FLAGS, rows] = flags
        numbers[SPACE, rows] = space
        numbers[BODY, rows] = body
        rows += 1
    return rows, position


@compiled
def _element(block: Bytes, position: int, number: int) -> int:
    """The offset of an element of the array at `position`; -1 if there is none."""
    count, position = count_of(block, position, 0x90, 0xDC)
    if count <= number:
        return -1
    return skip(block, position, number)
