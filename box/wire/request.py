"""Bodies of client requests that change nothing themselves: their mandatory keys and their checks.

A raw value (key, arguments) is passed on as the slice of the packet that holds it.

```
SELECT  0x10 space, 0x12 limit, 0x20 key        [0x11 index, 0x13 offset, 0x14 iterator]
        [0x1f fetch position, 0x2e after position, 0x2f after tuple]
CALL    0x22 function name                      [0x21 arguments]
EVAL    0x27 expression                         [0x21 arguments]
AUTH    0x23 user name, 0x21 [mechanism, scramble]
EXECUTE 0x40 text or 0x43 statement id          [0x41 parameters, 0x2b options]
PREPARE as EXECUTE; with an id it forgets the statement
```

Changes are in `box.wire.change`. Source: the protocol's reference document; texts and their order as observed on
Tarantool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from box.data.codec import unpack
from box.data.deep import skip_one
from box.data.marks import FIXARRAY, FIXMAP, TRUE, UINT8, UINT16, UINT32
from box.errors import BoxError, ErrorCode, client_error
from box.wire.body import invalid, is_array, is_bool, is_str, is_uint, missing, pairs, walk
from box.wire.change import U32, checked_values
from box.wire.constants import KEY_NAMES, Key, RequestType

_EMPTY_ARRAY: Final = bytes((FIXARRAY,))
_TRUE: Final = bytes((TRUE,))
_TWO_PAIRS: Final = FIXMAP | 2
_PAGE_KEYS: Final[dict[int, Callable[[int], bool]]] = {
    Key.FETCH_POSITION: is_bool,
    Key.AFTER_POSITION: is_str,
    Key.AFTER_TUPLE: is_array,
}


@dataclass(slots=True)
class SelectRequest:
    """A SELECT request; `key` is one encoded array. `page` holds the options of pages, or None if the request has
    none.
    """

    space_id: int
    index_id: int
    iterator: int
    offset: int
    limit: int
    key: bytes
    page: PageRequest | None = None


@dataclass(slots=True)
class PageRequest:
    """The options of pages in a SELECT: the position or the encoded tuple to begin after, and whether to reply with a
    position.
    """

    after: bytes
    after_tuple: bytes
    fetches: bool


def decode_select(body: bytes) -> SelectRequest:
    """Decode the body of a SELECT.

    Raises:
        ClientError: INVALID_MSGPACK, or MISSING_REQUEST_FIELD with the name of the first missing key.
    """
    values = checked_values(body, _PAGE_KEYS)
    for key in (Key.SPACE_ID, Key.LIMIT, Key.KEY):
        if key not in values:
            raise missing(key)
    return SelectRequest(
        values[Key.SPACE_ID],
        values.get(Key.INDEX_ID, 0),
        values.get(Key.ITERATOR, 0),
        values.get(Key.OFFSET, 0),
        values[Key.LIMIT],
        values[Key.KEY],
        None if _PAGE_KEYS.keys().isdisjoint(values) else _page_of(values),
    )


def _page_of(values: dict[int, Any]) -> PageRequest:
    after = values.get(Key.AFTER_POSITION)
    return PageRequest(
        b"" if after is None else msgpack.unpackb(after, raw=True),
        values.get(Key.AFTER_TUPLE, b""),
        values.get(Key.FETCH_POSITION) == _TRUE,
    )


@dataclass(slots=True)
class CallRequest:
    """A CALL, CALL_16 or EVAL request: `text` is the function's name or the expression, `args` one encoded array."""

    type: int
    text: str
    args: bytes


def decode_call(request_type: int, body: bytes) -> CallRequest:
    """Decode the body of a CALL, CALL_16 or EVAL.

    Raises:
        ClientError: INVALID_MSGPACK (`missing request body`, `packet body`) or MISSING_REQUEST_FIELD.
    """
    texts: dict[int, str] = {}
    args = _EMPTY_ARRAY
    for key, raw in pairs(body):
        if key in (Key.FUNCTION_NAME, Key.EXPR):
            texts[key] = _text(raw)
        elif key == Key.TUPLE:
            if not is_array(raw[0]):
                raise invalid()
            args = raw
    wanted = Key.EXPR if request_type == RequestType.EVAL else Key.FUNCTION_NAME
    if wanted not in texts:
        raise missing(wanted)
    return CallRequest(request_type, texts[wanted], args)


@dataclass(slots=True)
class AuthRequest:
    """An AUTH request: `proof` is the decoded list of mechanism and scramble, with texts as bytes."""

    user: str
    proof: list[Any]


def decode_auth(body: bytes) -> AuthRequest:
    """Decode the body of an AUTH.

    Raises:
        ClientError: INVALID_MSGPACK (`missing request body`, `packet body`) or MISSING_REQUEST_FIELD.
    """
    user: str | None = None
    proof: list[Any] | None = None
    for key, raw in pairs(body):
        if key == Key.USER_NAME:
            user = _text(raw)
        elif key == Key.TUPLE:
            if not is_array(raw[0]):
                raise invalid()
            proof = _proof(raw)
    if user is None:
        raise missing(Key.USER_NAME)
    if proof is None:
        raise missing(Key.TUPLE)
    return AuthRequest(user, proof)


def _proof(raw: bytes) -> list[Any]:
    try:
        proof: list[Any] = msgpack.unpackb(raw, raw=True, strict_map_key=False)
    except (ValueError, TypeError):
        # TypeError is raised for a map that has a container as a key.
        raise invalid() from None
    return proof


_PREPARED: Final = bytes((_TWO_PAIRS, Key.STMT_ID))
_BIND: Final = bytes((Key.SQL_BIND,))


@dataclass(slots=True)
class SqlRequest:
    """An EXECUTE or PREPARE request: the text of a statement or the id of a prepared one, and its parameter values.

    `params` may be any value: `box.iproto.sql_requests.check_params` tells whether they are right.
    """

    text: str | None
    statement_id: int | None
    params: Any


def decode_sql(body: bytes) -> SqlRequest:
    """Decode the body of an EXECUTE or PREPARE.

    Raises:
        ClientError: INVALID_MSGPACK, or MISSING_REQUEST_FIELD.
    """
    usual = _usual_sql(body)
    if usual is not None:
        return usual
    if not body:
        raise invalid("missing request body")
    values = dict(walk(body, short=True))
    if Key.SQL_TEXT in values and Key.STMT_ID in values:
        both = "SQL text and statement id are incompatible options in one request: choose one"
        raise invalid(both)
    if Key.SQL_TEXT not in values and Key.STMT_ID not in values:
        raise client_error(ErrorCode.MISSING_REQUEST_FIELD, f"{KEY_NAMES[Key.SQL_TEXT]} or {KEY_NAMES[Key.STMT_ID]}")
    params = unpack(values[Key.SQL_BIND]) if Key.SQL_BIND in values else []
    if Key.STMT_ID in values:
        if not is_uint(values[Key.STMT_ID][0]):
            raise invalid()
        return SqlRequest(None, unpack(values[Key.STMT_ID]) & U32, params)
    return SqlRequest(_text(values[Key.SQL_TEXT]), None, params)


_ID_SIZES: Final = {UINT8: 2, UINT16: 3, UINT32: 5}
"""The sizes of encoded unsigned integers by their first bytes. An id is a hash of 32 bits, so uint 64 is not usual."""


def _usual_sql(body: bytes) -> SqlRequest | None:
    """Decode a body with a statement id and parameters in the usual order, or return None.

    It is `82 43 <id> 41 <array>`.
    """
    if body[:2] != _PREPARED or len(body) < 3:
        return None
    end = 2 + _ID_SIZES.get(body[2], len(body))
    if body[end : end + 1] != _BIND:
        return None
    try:
        params = unpack(body[end + 1 :])
    except BoxError:  # the general path finds the exact error
        return None
    return None if type(params) is not list else SqlRequest(None, int.from_bytes(body[3:end], "big"), params)


def _text(raw: bytes) -> str:
    if not is_str(raw[0]):
        raise invalid()
    text: str = msgpack.unpackb(raw, unicode_errors="surrogateescape")
    return text


def split_array(array: bytes) -> list[bytes]:
    """Split one encoded array into its raw elements."""
    unpacker: Any = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(array)
    elements = []
    for _ in range(unpacker.read_array_header()):
        start = unpacker.tell()
        unpacker = skip_one(unpacker, array)
        elements.append(array[start : unpacker.tell()])
    return elements


_ARRAY_OF_ONE: Final = bytes((FIXARRAY | 1,))


def results_as_tuples(array: bytes) -> list[bytes]:
    """Convert the results of a function to the tuples that CALL_16 promises.

    A single result that is an array of arrays is a list of tuples; any other array is one tuple. A scalar or a map
    becomes a tuple with one field.
    """
    results = split_array(array)
    if len(results) == 1 and is_array(results[0][0]):
        elements = split_array(results[0])
        if not elements or not is_array(elements[0][0]):
            return results
        results = elements
    return [raw if is_array(raw[0]) else _ARRAY_OF_ONE + raw for raw in results]
