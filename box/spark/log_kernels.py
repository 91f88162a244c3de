"""Finds the rows of a log block and reads their headers, in a loop compiled by numba.

```
header  map { 0 type, 1 sync, 2 replica id, 3 lsn, 4 timestamp, 7 group id, 8 lsn - tsn, 9 flags }
body    map { 0x10 space id, 0x20 key, 0x21 tuple or operations, ... }, absent after the header of a NOP
```

A block in which a row has any other form is left to the decoder in Python.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from box.data.marks import ARRAY16, FIXARRAY, FIXMAP, FLOAT64, MAP16
from box.spark.kernels import Bytes, compiled, count_of, skip, uint_at, wide
from box.wire.constants import Key, RequestType

BODY, END, TYPE, REPLICA, LSN, FLAGS, SPACE, START, KEY = range(9)
"""The lines of the array `numbers`, which has a column for each row.

They have the offset of the body, the offset of the row's end (equal to `BODY` if there is no body), the request type,
the replica id, the lsn, the flags, the space id and the offset of the header. The lines from `KEY` on have the offset
of each part of the primary key, -1 if the row does not have it.
"""

_SPACE_ID, _KEY, _TUPLE = int(Key.SPACE_ID), int(Key.KEY), int(Key.TUPLE)
_NOP = int(RequestType.NOP)
_UPDATE, _DELETE = int(RequestType.UPDATE), int(RequestType.DELETE)
"""The requests whose body has the primary key under the key 0x20; the others have a tuple under 0x21."""


@compiled
def find_log_rows(
    block: Bytes,
    position: int,
    key_fields: NDArray[np.int64],
    numbers: NDArray[np.int64],
    times: NDArray[np.uint64],
) -> tuple[int, int]:
    """Enter every row into `numbers`, and the bits of its timestamp into `times`; return the number of rows and the
    end.

    `key_fields` are the field numbers of the parts of the primary key. The search stops when the arrays are full; the
    returned position is where to continue, -1 for a block with an unusual form.
    """
    end = len(block)
    rows = 0
    while position < end and rows < numbers.shape[1]:
        start = position
        pairs, position = count_of(block, position, FIXMAP, MAP16)
        if pairs < 0:
            return rows, -1
        kind = replica = lsn = flags = 0
        times[rows] = 0
        for _ in range(pairs):
            # The key has to have one byte, and the first byte of the value has to be in the block.
            if position + 1 >= end or block[position] >= FIXMAP:
                return rows, -1
            key = block[position]
            value_at = position + 1
            position = skip(block, value_at, wide(1))
            if position < 0:
                return rows, -1
            # 4 is the timestamp, which is always a double; 0, 2, 3 and 9 are as in the module's text.
            if key == 4:
                if block[value_at] != FLOAT64:
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
            pairs, position = count_of(block, position, FIXMAP, MAP16)
            if pairs < 0:
                return rows, -1
            # An UPSERT has its tuple in TUPLE too, but an UPDATE has its operations there.
            with_key = _KEY if kind in (_UPDATE, _DELETE) else _TUPLE
            for _ in range(pairs):
                if position + 1 >= end or block[position] >= FIXMAP:
                    return rows, -1
                key = block[position]
                value_at = position + 1
                position = skip(block, value_at, wide(1))
                if position < 0:
                    return rows, -1
                if key == _SPACE_ID:
                    space = uint_at(block, value_at, position)
                    if space < 0:
                        return rows, -1
                elif key == with_key:
                    for part in range(len(key_fields)):
                        number = key_fields[part] if key == _TUPLE else wide(part)
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
    """Return the offset of an element of the array at `position`; -1 if there is none."""
    count, position = count_of(block, position, FIXARRAY, ARRAY16)
    if count <= number:
        return -1
    return skip(block, position, number)
