"""The reply packets of the server.

```
reply       ce <u32 length>  83  00 ce <u32 type>  01 cf <u64 sync>  05 ce <u32 schema version>  body
body        80                                      OK without data
            81 30 dd <u32 count> <tuples>           data
            82 30 dd <u32 count> <tuples> 35 <text>   a page with its position
            82 31 <message> 52 <error stack>        error, the type is 0x8000 | code
```

The fixed widths are Tarantool's own, so that a reply can be made in one step. Source: `xrow.c` of the 2.8 line.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgpack

from box.data.error_body import wire_code
from box.data.marks import ARRAY16, ARRAY32, FIXMAP, UINT32, UINT64
from box.errors import BoxError
from box.wire.constants import TYPE_ERROR, Key, RequestType
from box.wire.error import encode_error_body

HEADER_REST: Final = 23
"""The size of a reply's header, which stands between the packet length and the body, in bytes."""
_TUPLE_REST: Final = HEADER_REST + 7
"""The bytes between the packet length and the tuples: the header, then the map and the header of its array."""
_OK_AND_SYNC: Final = b"\x83\x00\xce\x00\x00\x00\x00\x01\xcf"
"""The beginning of the header of an OK reply: type 0 with four bytes, then the key and the type of `sync`."""
_ARRAY_OF_ONE: Final = b"\x81\x30\xdd\x00\x00\x00\x01"
"""The beginning of a body with one tuple: a map of one pair, the key DATA, and an array with a count of four bytes."""
_WITH_TUPLE = struct.Struct(">BI9sQ2sI7s").pack
_WITH_ROWS = struct.Struct(">BI9sQ2sI3sI").pack
_BEGIN = struct.Struct(">BI9sQ").pack
_HEADER = struct.Struct(">BI3sI2sQ2sI").pack
# The pieces of the layout above that precede a value: a map where one begins, the key, and the mark of a number.
_TYPE: Final = bytes((FIXMAP | 3, Key.REQUEST_TYPE, UINT32))
_SYNC: Final = bytes((Key.SYNC, UINT64))
_VERSION: Final = bytes((Key.SCHEMA_VERSION, UINT32))
_DATA: Final = bytes((FIXMAP | 1, Key.DATA))
_PAGE: Final = bytes((FIXMAP | 2, Key.DATA, ARRAY32))
_NO_PAIRS: Final = bytes((FIXMAP,))


def reply_header(sync: int, schema_version: int, body_size: int, reply_type: int = RequestType.OK) -> bytes:
    """Encode length and header of a reply whose body has `body_size` bytes."""
    return _HEADER(UINT32, HEADER_REST + body_size, _TYPE, reply_type, _SYNC, sync, _VERSION, schema_version)


def reply_ok(sync: int, schema_version: int) -> bytes:
    """Encode an OK reply without data, the answer to PING and AUTH."""
    return reply_header(sync, schema_version, 1) + _NO_PAIRS


def reply_body(sync: int, schema_version: int, body: bytes) -> bytes:
    """Encode an OK reply whose body is an encoded map."""
    return reply_header(sync, schema_version, len(body)) + body


def reply_bodies(syncs: Sequence[int], schema_version: int, head: bytes, rests: Sequence[bytes]) -> bytes:
    """Encode OK replies to the first requests of `syncs`: each body is `head` and one of `rests`, an encoded map."""
    begin, middle = _BEGIN, _VERSION + schema_version.to_bytes(4, "big") + head
    rest_size = HEADER_REST + len(head)
    parts: list[bytes] = []
    # ce is the mark of a uint 32, the length of the packet: a literal, as in `reply_tuple`.
    for sync, rest in zip(syncs, rests, strict=False):
        parts += (begin(0xCE, rest_size + len(rest), _OK_AND_SYNC, sync), middle, rest)
    return b"".join(parts)


def reply_tuple(sync: int, schema_version: int, raw: bytes) -> bytes:
    """Encode the usual reply to DML: one tuple."""
    # Literals, because this is the hottest reply and each name would have to be looked up: uint 32 (ce) for the length,
    # and for the schema version (05).
    return (
        _WITH_TUPLE(0xCE, _TUPLE_REST + len(raw), _OK_AND_SYNC, sync, b"\x05\xce", schema_version, _ARRAY_OF_ONE) + raw
    )


def reply_rows_header(sync: int, schema_version: int, count: int, size: int) -> bytes:
    """Encode the part of a DML reply before its `count` tuples, which have `size` bytes altogether (at most 2^32)."""
    # Literals as in `reply_tuple`: array 32 under the key DATA.
    return _WITH_ROWS(0xCE, _TUPLE_REST + size, _OK_AND_SYNC, sync, b"\x05\xce", schema_version, b"\x81\x30\xdd", count)


def reply_page_header(sync: int, schema_version: int, count: int, size: int, position: bytes) -> tuple[bytes, bytes]:
    """Encode the parts of a reply with a page before and after its `count` tuples, which have `size` bytes."""
    # A position is a string on the wire; the old format, without binaries, packs bytes as one.
    tail: bytes = bytes((Key.POSITION,)) + msgpack.Packer(use_bin_type=False).pack(position)
    rest = _TUPLE_REST + size + len(tail)
    header = _WITH_ROWS(UINT32, rest, _OK_AND_SYNC, sync, _VERSION, schema_version, _PAGE, count)
    return header, tail


def reply_tuples(sync: int, schema_version: int, tuples: Sequence[bytes]) -> bytes:
    """Encode a DML reply with any number of tuples, which are already packed."""
    body = b"".join(tuples)
    return reply_rows_header(sync, schema_version, len(tuples), len(body)) + body


def reply_array(sync: int, schema_version: int, array: bytes) -> bytes:
    """Encode the reply to CALL or EVAL: one encoded array of results, whose header is widened to five bytes."""
    mark = array[0]
    if mark < ARRAY16:  # a short array, with its count in the low half byte of its mark
        return reply_rows_header(sync, schema_version, mark & 0x0F, len(array) - 1) + array[1:]
    header, array, start = reply_array_header(sync, schema_version, array)
    return header + array[start:]


def reply_array_header(sync: int, schema_version: int, array: bytes) -> tuple[bytes, bytes, int]:
    """Encode the reply to CALL or EVAL without a copy of the results.

    Returns the bytes to send first, the array, and the position from which its bytes follow.
    """
    # Tarantool always sends a count of four bytes (array 32, dd). So a shorter header becomes one: `long` replaces the
    # mark, with zeros before the byte or the two bytes of the count.
    mark = array[0]
    if mark < ARRAY16:
        long, start = b"\xdd\x00\x00\x00%c" % (mark & 0x0F), 1
    elif mark == ARRAY16:
        long, start = b"\xdd\x00\x00", 1
    else:
        long, start = b"", 0
    header = reply_header(sync, schema_version, 2 + len(long) + len(array) - start)
    return header + _DATA + long, array, start


def reply_chunk(sync: int, schema_version: int, value: bytes) -> bytes:
    """Encode an out-of-band message (`box.session.push`) for the request `sync`, with one encoded value."""
    header = reply_header(sync, schema_version, len(_ARRAY_OF_ONE) + len(value), RequestType.CHUNK)
    return header + _ARRAY_OF_ONE + value


def reply_error(sync: int, schema_version: int, error: BoxError) -> bytes:
    """Encode an error reply, with the message and the error stack."""
    body = encode_error_body(error)
    return reply_header(sync, schema_version, len(body), TYPE_ERROR | wire_code(error)) + body
