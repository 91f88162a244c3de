"""The body of a packet: one map with unsigned keys, read pair by pair.

```
8n  <key> <value>  <key> <value> ...
```

A value is passed on as the slice of the body that holds it, not decoded. Source: the protocol's reference document;
texts as observed on Tarantool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgpack

from box.data.deep import skip_one
from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import KEY_NAMES, Key

_KEY_BYTE_MAX: Final = 0x7F
"""The greatest integer that MessagePack encodes as one byte, the number itself."""


def invalid(what: str = "packet body") -> BoxError:
    """Make the error INVALID_MSGPACK, with the name of the wrong part."""
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def missing(key: Key) -> BoxError:
    """Make the error MISSING_REQUEST_FIELD for a key."""
    return client_error(ErrorCode.MISSING_REQUEST_FIELD, KEY_NAMES[key])


# Types of one family have neighbouring marks, so a range tells a family. The numbers stand here without the names of
# `box.data.marks` because several of these tests run for each request.
def is_array(mark: int) -> bool:
    """True for the first byte of an array."""
    return 0x90 <= mark <= 0x9F or mark in (0xDC, 0xDD)


def is_map(mark: int) -> bool:
    """True for the first byte of a map."""
    return 0x80 <= mark <= 0x8F or mark in (0xDE, 0xDF)


def is_uint(mark: int) -> bool:
    """True for the first byte of an unsigned integer; Tarantool refuses a signed one in its place."""
    return mark < 0x80 or 0xCC <= mark <= 0xCF


def is_str(mark: int) -> bool:
    """True for the first byte of a string."""
    return 0xA0 <= mark <= 0xBF or 0xD9 <= mark <= 0xDB


def is_bool(mark: int) -> bool:
    """True for the first byte of a boolean."""
    return mark in (0xC2, 0xC3)


def is_float64(mark: int) -> bool:
    """True for the first byte of a double; Tarantool refuses a float in its place."""
    return mark == 0xCB


def walk(body: bytes, short: bool = False) -> Iterator[tuple[int | None, bytes]]:
    """Yield the pairs of a body: key and raw value. A key that is not an unsigned integer is None.

    All keys of the protocol take one byte. With `short`, any other key is None, also a known number in a longer form:
    data requests and SQL recognize keys by their first byte.

    Raises:
        ClientError: INVALID_MSGPACK (`packet body`), also for bytes after the map.
    """
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(body)
    try:
        for _ in range(unpacker.read_map_header()):
            at = unpacker.tell()
            mark = body[at]
            key: int | None = mark
            if mark <= _KEY_BYTE_MAX:
                unpacker.skip()
            else:
                unpacker = skip_one(unpacker, body)
                # The low two bits of the marks of longer unsigned integers are the logarithm of their size.
                is_known = not short and is_uint(mark)
                key = int.from_bytes(body[at + 1 : at + 1 + (1 << (mark & 3))], "big") if is_known else None
            start = unpacker.tell()
            unpacker = skip_one(unpacker, body)
            yield key, body[start : unpacker.tell()]
    except (ValueError, IndexError, msgpack.exceptions.UnpackException):
        raise invalid() from None
    if unpacker.tell() != len(body):
        raise invalid()


def pairs(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the pairs of a body that is mandatory and has unsigned keys.

    Raises:
        ClientError: INVALID_MSGPACK (`missing request body`, `packet body`).
    """
    if not body:
        raise invalid("missing request body")
    for key, raw in walk(body):
        if key is None:
            raise invalid()
        yield key, raw
