"""MessagePack nested deeper than the 1,024 levels of the C extension: its functions again, in Python.

Code that reads users' tuples tries the extension first and comes here after a StackError. Nothing here is recursive.
MAX_NESTING is the limit of the whole node: deeper values are refused on entry, so that everything stored can be read
again everywhere, even by Lua's decoder, which ends at about 5,450 levels.
"""

from __future__ import annotations

import msgpack
from msgpack import StackError

from box.errors import ErrorCode, client_error, unsupported

__all__ = ["MAX_NESTING", "DeepUnpacker", "StackError", "skip", "skip_one"]

MAX_NESTING = 5100
"""The greatest number of arrays and maps inside each other, the tuple itself included. Tarantool is known to accept
5,000."""
_MAX_AROUND = 8
"""Further levels around a tuple or one of its fields: a row's body, a list of operations, a reply. They are allowed
because code that skips such bytes must not refuse a tuple that was accepted alone."""

# The layout of a value follows from its first byte. Here are first bytes of a fixed size: byte -> whole size.
FIXED_SIZES = dict.fromkeys([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3], 1)
FIXED_SIZES |= {0xA0 + length: 1 + length for length in range(32)}
FIXED_SIZES |= {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
FIXED_SIZES |= {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
FIXED = [FIXED_SIZES.get(byte, 0) for byte in range(256)]

# Strings, binaries and extensions: first byte -> (width of the length, bytes between the length and the payload).
SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
SIZED |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}

# Containers: first byte -> (width of the count, values per element: 1 in an array, 2 in a map).
COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def read_container(raw: bytes, pos: int = 0) -> tuple[str, int, int]:
    """Return the container at `pos`: ("array" | "map" | "", number of elements or pairs, offset of the first)."""
    byte = raw[pos]
    if 0x80 <= byte < 0xA0:
        return ("map" if byte < 0x90 else "array"), byte & 0x0F, pos + 1
    if byte not in COUNTED:
        return "", 0, pos
    width, factor = COUNTED[byte]
    kind = "array" if factor == 1 else "map"
    return kind, int.from_bytes(raw[pos + 1 : pos + 1 + width], "big"), pos + 1 + width


def end_of_scalar(raw: bytes, pos: int) -> int:
    """Return the offset after a value that is neither an array nor a map.

    Raises ValueError for a reserved byte and for missing bytes.
    """
    byte = raw[pos]
    if size := FIXED[byte]:
        end = pos + size
    else:
        if byte not in SIZED:  # MessagePack gives a meaning to every other byte; containers never come here
            raise ValueError("reserved byte 0xc1")
        width, extra = SIZED[byte]
        end = pos + 1 + width + extra + int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
    if end > len(raw):
        raise ValueError("cut short")
    return end


def too_deep() -> Exception:
    """Return the error for a value that is nested too deep."""
    return unsupported("MessagePack", f"more than {MAX_NESTING} arrays and maps inside each other")


def end_of(raw: bytes, pos: int) -> int:
    """Return the offset after the value at `pos`.

    Raises ValueError or IndexError for missing bytes, and the error of `too_deep`.
    """
    open_counts: list[int] = []  # for each open container, how many of its values are still to come
    while True:
        kind, count, start = read_container(raw, pos)
        if kind and count:
            open_counts.append(count if kind == "array" else 2 * count)
            if len(open_counts) > MAX_NESTING + _MAX_AROUND:
                raise too_deep()
            pos = start
            continue
        pos = start if kind else end_of_scalar(raw, pos)
        while open_counts and open_counts[-1] == 1:
            open_counts.pop()
        if not open_counts:
            return pos
        open_counts[-1] -= 1


class DeepUnpacker:
    """A replacement for `msgpack.Unpacker` over complete bytes, without its limit of depth."""

    def __init__(self, raw: bytes, pos: int = 0) -> None:
        self._raw = raw
        self._pos = pos

    def tell(self) -> int:
        return self._pos

    def skip(self) -> None:
        self._pos = end_of(self._raw, self._pos)

    def unpack(self) -> object:
        """Return the next value, with texts as bytes: a key, a header or another value that is not the user's."""
        start = self._pos
        self.skip()
        return msgpack.unpackb(self._raw[start : self._pos], raw=True, strict_map_key=False)

    def read_bytes(self, count: int) -> bytes:
        start = self._pos
        self._pos = start + count
        return self._raw[start : self._pos]

    def read_map_header(self) -> int:
        return self._read_header("map")

    def read_array_header(self) -> int:
        return self._read_header("array")

    def _read_header(self, expected: str) -> int:
        kind, count, start = read_container(self._raw, self._pos)
        if kind != expected:
            raise ValueError(f"no {expected} header")
        self._pos = start
        return count


def skip_one(unpacker: msgpack.Unpacker | DeepUnpacker, raw: bytes) -> msgpack.Unpacker | DeepUnpacker:
    """Skip the next value of `raw`, of which the unpacker was made. Returns the unpacker to continue with."""
    start = unpacker.tell()
    try:
        unpacker.skip()
    except StackError:
        unpacker = DeepUnpacker(raw, start)
        unpacker.skip()
    return unpacker


def skip(raw: bytes, pos: int) -> int:
    """Return the offset after the value that starts at `pos`.

    Raises:
        ClientError: INVALID_MSGPACK, the value is truncated or malformed.
    """
    pending = 1
    try:
        while pending:
            byte = raw[pos]
            if size := FIXED[byte]:
                pos += size
            elif byte in SIZED:
                width, extra = SIZED[byte]
                pos += 1 + width + extra + int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
            elif byte < 0xA0:
                # A map or an array with the number of its pairs or elements in the mark; a pair is two values.
                pending += (byte & 0x0F) << (byte < 0x90)
                pos += 1
            else:
                width, factor = COUNTED[byte]
                pending += factor * int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
                pos += 1 + width
            pending -= 1
    except (IndexError, KeyError):
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body") from None
    if pos > len(raw):
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
    return pos
