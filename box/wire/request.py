"""Bodies of client requests: which keys they have to have, and their checks.

A raw value (tuple, key, operations, arguments) is passed on as the slice of the packet that holds it.

```
SELECT  0x10 space, 0x12 limit, 0x20 key        [0x11 index, 0x13 offset, 0x14 iterator]
INSERT, REPLACE  0x10 space, 0x21 tuple
UPDATE  0x10 space, 0x20 key, 0x21 operations   [0x11 index, 0x15 index base]
DELETE  0x10 space, 0x20 key                    [0x11 index]
UPSERT  0x10 space, 0x21 tuple, 0x28 operations [0x15 index base]
CALL    0x22 function name                      [0x21 arguments]
EVAL    0x27 expression                         [0x21 arguments]
AUTH    0x23 user name, 0x21 [mechanism, scramble]
```

Source: the protocol's reference document; texts and their order as observed on the peer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import KEY_NAMES, Key, RequestType
from box.wire.row import value_type

_MANDATORY: Final[dict[int, tuple[Key, ...]]] = {
    RequestType.SELECT: (Key.SPACE_ID, Key.LIMIT, Key.KEY),
    RequestType.INSERT: (Key.SPACE_ID, Key.TUPLE),
    RequestType.REPLACE: (Key.SPACE_ID, Key.TUPLE),
    RequestType.UPDATE: (Key.SPACE_ID, Key.KEY, Key.TUPLE),
    RequestType.DELETE: (Key.SPACE_ID, Key.KEY),
    RequestType.UPSERT: (Key.SPACE_ID, Key.TUPLE, Key.OPS),
}
_UINT_KEYS: Final = frozenset({Key.SPACE_ID, Key.INDEX_ID, Key.LIMIT, Key.OFFSET, Key.ITERATOR, Key.INDEX_BASE})
_RAW_KEYS: Final = frozenset({Key.KEY, Key.TUPLE, Key.OPS, Key.TUPLE_META})
_EMPTY_ARRAY: Final = b"\x90"
_STR8: Final = 0xD9


@dataclass(slots=True)
class DmlRequest:
    """A data request; an absent raw value is empty bytes."""

    type: int
    space_id: int = 0
    index_id: int = 0
    limit: int = 0
    offset: int = 0
    iterator: int = 0
    index_base: int = 0
    key: bytes = b""
    tuple: bytes = b""
    ops: bytes = b""


_FIELD_OF_KEY: Final[dict[int, str]] = {
    Key.SPACE_ID: "space_id",
    Key.INDEX_ID: "index_id",
    Key.LIMIT: "limit",
    Key.OFFSET: "offset",
    Key.ITERATOR: "iterator",
    Key.INDEX_BASE: "index_base",
    Key.KEY: "key",
    Key.TUPLE: "tuple",
    Key.OPS: "ops",
}


def _invalid(what: str) -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def _missing(key: Key) -> BoxError:
    return client_error(ErrorCode.MISSING_REQUEST_FIELD, KEY_NAMES[key])


def _is_array(mark: int) -> bool:
    return 0x90 <= mark <= 0x9F or mark in (0xDC, 0xDD)


def _is_map(mark: int) -> bool:
    return 0x80 <= mark <= 0x8F or mark in (0xDE, 0xDF)


def _is_uint(mark: int) -> bool:
    return mark < 0x80 or 0xCC <= mark <= 0xCF


def _may_be_integer(mark: int) -> bool:
    return mark < 0x80 or 0xCC <= mark <= 0xD3 or mark >= 0xE0


def _is_str(mark: int) -> bool:
    return 0xA0 <= mark <= 0xBF or 0xD9 <= mark <= 0xDB


def walk(body: bytes) -> Iterator[tuple[Any, bytes]]:
    """The pairs of a body: decoded key, raw value. A key that is no integer means nothing to anyone: it is None.

    Raises INVALID_MSGPACK (`packet body`).
    """
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(body)
    try:
        for _ in range(unpacker.read_map_header()):
            if _may_be_integer(body[unpacker.tell()]):
                key = unpacker.unpack()
            else:
                key = unpacker.skip()
            start = unpacker.tell()
            unpacker.skip()
            yield key, body[start : unpacker.tell()]
    except (ValueError, IndexError, msgpack.exceptions.UnpackException):
        raise _invalid("packet body") from None
    if unpacker.tell() != len(body):
        raise _invalid("packet body")


def decode_dml(request_type: int, body: bytes) -> DmlRequest:
    """A data request. Raises INVALID_MSGPACK, or MISSING_REQUEST_FIELD with the name of the first missing key."""
    request = DmlRequest(request_type)
    missing = set(_MANDATORY[request_type])
    for key, raw in walk(body) if body else ():
        if key in _UINT_KEYS:
            if not _is_uint(raw[0]):
                raise _invalid("packet body")
            setattr(request, _FIELD_OF_KEY[key], msgpack.unpackb(raw))
        elif key in _RAW_KEYS:
            if not (_is_map if value_type(key) is dict else _is_array)(raw[0]):
                raise _invalid("packet body")
            if key != Key.TUPLE_META:
                setattr(request, _FIELD_OF_KEY[key], raw)
        missing.discard(key)
    if missing:
        raise _missing(min(missing))
    return request


def decode_change(request_type: int, body: bytes) -> tuple[int, int, list[Any], list[Any], int] | None:
    """Space, index, key, operations and index base of an UPDATE or a DELETE, all decoded in one call.

    None for any other body: `decode_dml` tells what is wrong with it.
    """
    try:
        values = unpack(body)
    except BoxError:
        return None
    if type(values) is not dict:
        return None
    get = values.get
    space_id, index_id, index_base = get(Key.SPACE_ID), get(Key.INDEX_ID, 0), get(Key.INDEX_BASE, 0)
    key, ops = get(Key.KEY), get(Key.TUPLE, None if request_type == RequestType.UPDATE else [])
    if not (type(space_id) is type(index_id) is type(index_base) is int and type(key) is type(ops) is list):
        return None
    return (space_id, index_id, key, ops, index_base) if min(space_id, index_id, index_base) >= 0 else None


@dataclass(slots=True)
class CallRequest:
    """CALL, CALL_16 or EVAL: `text` is the function's name or the expression, `args` one encoded array."""

    type: int
    text: str
    args: bytes


def decode_call(request_type: int, body: bytes) -> CallRequest:
    """Raises INVALID_MSGPACK (`missing request body`, `packet body`) or MISSING_REQUEST_FIELD."""
    request = _decode_usual_call(request_type, body)
    if request is not None:
        return request
    texts: dict[int, str] = {}
    args = _EMPTY_ARRAY
    for key, raw in _pairs(body):
        if key in (Key.FUNCTION_NAME, Key.EXPR):
            texts[key] = _text(raw)
        elif key == Key.TUPLE:
            if not _is_array(raw[0]):
                raise _invalid("packet body")
            args = raw
    wanted = Key.EXPR if request_type == RequestType.EVAL else Key.FUNCTION_NAME
    if wanted not in texts:
        raise _missing(wanted)
    return CallRequest(request_type, texts[wanted], args)


def _decode_usual_call(request_type: int, body: bytes) -> CallRequest | None:
    """A body with a short text followed by the arguments, as clients send it: `82 22 <text> 21 <array>`."""
    wanted = Key.EXPR if request_type == RequestType.EVAL else Key.FUNCTION_NAME
    try:
        start = 4 if body[2] == _STR8 else 3
        end = start + (body[3] if start == 4 else body[2] & 0x1F)
        if not (body[0] == 0x82 and body[1] == wanted and _is_str(body[2]) and body[2] <= _STR8):
            return None
        if body[end] != Key.TUPLE or not _is_array(body[end + 1]):
            return None
        msgpack.unpackb(body, raw=True, strict_map_key=False)  # whether all of it is well-formed
    except (IndexError, ValueError, TypeError, msgpack.exceptions.UnpackException):
        return None
    return CallRequest(request_type, body[start:end].decode("utf-8", "surrogateescape"), body[end + 1 :])


@dataclass(slots=True)
class AuthRequest:
    """AUTH: `proof` is the decoded list of mechanism and scramble; texts in it stay bytes."""

    user: str
    proof: list[Any]


def decode_auth(body: bytes) -> AuthRequest:
    """Raises INVALID_MSGPACK (`missing request body`, `packet body`) or MISSING_REQUEST_FIELD."""
    user: str | None = None
    proof: list[Any] | None = None
    for key, raw in _pairs(body):
        if key == Key.USER_NAME:
            user = _text(raw)
        elif key == Key.TUPLE:
            if not _is_array(raw[0]):
                raise _invalid("packet body")
            proof = _proof(raw)
    if user is None:
        raise _missing(Key.USER_NAME)
    if proof is None:
        raise _missing(Key.TUPLE)
    return AuthRequest(user, proof)


def _proof(raw: bytes) -> list[Any]:
    try:
        proof: list[Any] = msgpack.unpackb(raw, raw=True, strict_map_key=False)
    except (ValueError, TypeError):
        # TypeError: a map whose key is a container.
        raise _invalid("packet body") from None
    return proof


def check_sql(body: bytes) -> None:
    """The checks of EXECUTE and PREPARE that come before SQL itself."""
    keys = {key for key, _ in _pairs(body)}
    if Key.SQL_TEXT in keys and Key.STMT_ID in keys:
        both = "SQL text and statement id are incompatible options in one request: choose one"
        raise _invalid(both)
    if Key.SQL_TEXT not in keys and Key.STMT_ID not in keys:
        raise client_error(ErrorCode.MISSING_REQUEST_FIELD, f"{KEY_NAMES[Key.SQL_TEXT]} or {KEY_NAMES[Key.STMT_ID]}")


def _pairs(body: bytes) -> Iterator[tuple[Any, bytes]]:
    """As `walk`; a body has to be there, and its keys have to be unsigned."""
    if not body:
        raise _invalid("missing request body")
    for key, raw in walk(body):
        if type(key) is not int or key < 0:
            raise _invalid("packet body")
        yield key, raw


def _text(raw: bytes) -> str:
    if not _is_str(raw[0]):
        raise _invalid("packet body")
    text: str = msgpack.unpackb(raw, unicode_errors="surrogateescape")
    return text


def split_array(array: bytes) -> list[bytes]:
    """The raw elements of one encoded array."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(array)
    elements = []
    for _ in range(unpacker.read_array_header()):
        start = unpacker.tell()
        unpacker.skip()
        elements.append(array[start : unpacker.tell()])
    return elements


def results_as_tuples(array: bytes) -> list[bytes]:
    """Results of a function in the shape that CALL_16 promises: only tuples.

    One returned array of arrays is a list of tuples, any other array a tuple; a scalar or a map becomes a tuple of
    one field.
    """
    results = split_array(array)
    if len(results) == 1 and _is_array(results[0][0]):
        elements = split_array(results[0])
        if not elements or not _is_array(elements[0][0]):
            return results
        results = elements
    return [raw if _is_array(raw[0]) else b"\x91" + raw for raw in results]
