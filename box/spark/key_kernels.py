"""Loops that encode the primary keys in a block as described in `primary_keys`, compiled by numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from box.data.marks import FIXEXT16, FIXMAP, INT8, INT64, NEGATIVE_FIXINT, UINT8
from box.spark.kernels import IRREGULAR, Bytes, compiled, text_at, wide
from box.spark.primary_keys import KeyKind

_INTEGER = int(KeyKind.INTEGER)
_BINARY = int(KeyKind.BINARY)
_UUID = int(KeyKind.UUID)


@compiled
def measure_keys(block: Bytes, starts: NDArray[np.int64], kinds: NDArray[np.int64], ends: NDArray[np.int32]) -> int:
    """Enter the end of each encoded key into `ends`; `starts` has a line of offsets for each part.

    Returns 0, or `IRREGULAR` if a part is missing or has another type.
    """
    total = wide(0)
    ends[0] = 0
    for row in range(starts.shape[1]):
        for part in range(len(kinds)):
            position = starts[part, row]
            if position < 0:
                return IRREGULAR
            if kinds[part] == _INTEGER:
                if _integer_size(block, position) < 0:
                    return IRREGULAR
                # One byte for the sign and eight for the number.
                total += 9
            elif kinds[part] == _UUID:
                # `d8 02` is the head of an extension of 16 bytes and type 2, a UUID.
                if position + 18 > len(block) or block[position] != FIXEXT16 or block[position + 1] != 2:
                    return IRREGULAR
                total += 16
            else:
                start, end = text_at(block, position, kinds[part] == _BINARY)
                if start < 0:
                    return IRREGULAR
                # Two bytes end a string, and each zero byte in it takes two.
                total += end - start + 2
                for index in range(start, end):
                    if block[index] == 0:
                        total += 1
        # Arrow's offsets have 32 bits with a sign.
        if total > 2**31 - 1:
            return IRREGULAR
        ends[row + 1] = total
    return 0


@compiled
def _integer_size(block: Bytes, position: int) -> int:
    """Return the number of bytes after the first byte of an integer; -1 for any other value."""
    code = wide(block[position])
    if code < FIXMAP or code >= NEGATIVE_FIXINT:
        return 0
    size = 1 << (code & 3)  # the low two bits of uint 8 to int 64 are the logarithm of the size
    return size if UINT8 <= code <= INT64 and position + 1 + size <= len(block) else -1


@compiled
def write_keys(block: Bytes, starts: NDArray[np.int64], kinds: NDArray[np.int64], data: Bytes) -> None:
    """Write the encoded keys that `measure_keys` has measured."""
    target = 0
    for row in range(starts.shape[1]):
        for part in range(len(kinds)):
            position = starts[part, row]
            if kinds[part] == _INTEGER:
                target = _write_integer(block, position, data, target)
            elif kinds[part] == _UUID:
                for index in range(16):
                    data[target + index] = block[position + 2 + index]
                target += 16
            else:
                start, end = text_at(block, position, kinds[part] == _BINARY)
                for index in range(start, end):
                    data[target] = block[index]
                    target += 1
                    if block[index] == 0:  # so that it sorts after the end, which is two zeros
                        data[target] = 0xFF
                        target += 1
                data[target] = 0
                data[target + 1] = 0
                target += 2


@compiled
def _write_integer(block: Bytes, position: int, data: Bytes, target: int) -> int:
    """Write an encoded integer; return the offset of its end."""
    code = wide(block[position])
    size = _integer_size(block, position)
    # The highest bit of a signed number is its sign; e0 to ff are the integers from -32 to -1.
    is_negative = code >= NEGATIVE_FIXINT or (code >= INT8 and block[position + 1] >= 0x80)
    # The sign comes first, inverted, so that negative numbers sort before others; then 64 bits in two's complement.
    data[target] = 0 if is_negative else 1
    for index in range(1, 9):
        data[target + index] = 0xFF if is_negative else 0
    if size == 0:
        data[target + 8] = code
    for index in range(size):
        data[target + 9 - size + index] = block[position + 1 + index]
    return target + 9
