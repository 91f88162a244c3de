"""Errors as values: MessagePack extension 3, whose body is also what an error reply has under 0x52.

```
{ 0: [ {0: type, 2: line, 1: file, 3: message, 4: errno, 5: code,
        6: {"object_type"...} or {"custom_type"...}}, cause, cause of the cause, ... ] }
```

Source: `mp_error.cc` of the 2.8 line, which 2.11 has extended by any fields under 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgpack

from box.errors import BoxError, ErrorCode, client_error, note_place

ERROR_EXT: Final = 3
"""The type of the MessagePack extension that holds an error."""
_NAMES: Final = ("type", "file", "line", "message", "errno", "code", "fields")
_TYPE, _FILE, _LINE, _MESSAGE, _ERRNO, _CODE, _FIELDS = range(7)
_ACCESS_FIELDS: Final = ("object_type", "object_name", "access_type")
_CODES_OF_TYPES: Final[dict[str, int]] = {
    "OutOfMemory": ErrorCode.MEMORY_ISSUE,
    "SystemError": ErrorCode.SYSTEM,
    "SocketError": ErrorCode.SYSTEM,
    "TimedOut": ErrorCode.SYSTEM,
    "CollationError": ErrorCode.CANT_CREATE_COLLATION,
    "XlogGapError": ErrorCode.XLOG_GAP,
}
_CLIENT_TYPES: Final = frozenset({"ClientError", "CustomError", "AccessDeniedError", "LoggedError"})


def wire_code(error: BoxError) -> int:
    """Return the 32-bit code of an error reply; errors other than ClientErrors have one code for each type."""
    if error.type in _CLIENT_TYPES:
        return error.code & 0xFFFFFFFF
    return _CODES_OF_TYPES.get(error.type, ErrorCode.PROC_LUA)


def encode_error_stack(error: BoxError) -> bytes:
    """Encode an error and its causes as the map under 0x52."""
    for link in _chain(error):
        note_place(link)
    return _pack({0: [_one(link) for link in _chain(error)]})


def _chain(error: BoxError | None) -> Iterator[BoxError]:
    """Yield an error, its cause, the cause of that."""
    while error is not None:
        yield error
        error = error.prev


def _one(error: BoxError) -> dict[int, Any]:
    fields: dict[int, Any] = {
        _TYPE: error.type,
        # The line is -1 for C functions, and Tarantool sends it as an unsigned number of 32 bits.
        _LINE: error.line & 0xFFFFFFFF,
        _FILE: error.file,
        _MESSAGE: error.message,
        _ERRNO: error.errno,
        _CODE: wire_code(error),
    }
    if error.type == "AccessDeniedError":
        known = error.fields or {}
        fields[_FIELDS] = {name: str(known.get(name, "")) for name in _ACCESS_FIELDS}
    elif error.type == "CustomError":
        fields[_FIELDS] = {"custom_type": error.custom_type or ""}
    elif error.fields:  # our own fields, which Tarantool ignores
        fields[_FIELDS] = error.fields
    return fields


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, unicode_errors="surrogateescape")
    return packed


def _malformed() -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, "Invalid MP_ERROR MsgPack format")


def _incomplete() -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, "Missing mandatory error fields")


def decode_error_stack(raw: bytes) -> BoxError:
    """Decode an error stack; the causes of the returned error are in `prev`.

    Raises:
        ClientError: INVALID_MSGPACK, the stack is malformed.
    """
    try:
        value = msgpack.unpackb(raw, strict_map_key=False, unicode_errors="surrogateescape")
    except (ValueError, msgpack.exceptions.UnpackException):
        raise _malformed() from None
    return error_of_stack(value)


def error_of_stack(value: Any) -> BoxError:
    """Make the error of an error stack whose map is decoded already; the causes are in `prev`.

    Raises:
        ClientError: INVALID_MSGPACK, the stack is malformed.
    """
    stack = value.get(0) if isinstance(value, dict) else None
    if not isinstance(stack, list) or not stack:
        raise _malformed()
    errors = [_error_of_map(item) for item in stack]
    for effect, cause in pairwise(errors):
        effect.prev = cause
    return errors[0]


def _error_of_map(item: Any) -> BoxError:
    if not isinstance(item, dict):
        raise _malformed()
    kind, file, message = item.get(_TYPE), item.get(_FILE), item.get(_MESSAGE)
    line, errno, code = item.get(_LINE, 0), item.get(_ERRNO, 0), item.get(_CODE, 0)
    for number in (line, errno, code):
        if type(number) is not int or number < 0:
            raise _malformed()
    if kind is None or file is None or message is None:
        raise _incomplete()
    if not (isinstance(kind, str) and isinstance(file, str) and isinstance(message, str)):
        raise _malformed()
    error = BoxError(code, message, type=kind, file=file, line=line, errno=errno)
    _add_fields(error, kind, item.get(_FIELDS, {}))
    return error


def _add_fields(error: BoxError, kind: str, fields: Any) -> None:
    if not isinstance(fields, dict):
        raise _malformed()
    if kind == "CustomError":
        error.custom_type = fields.get("custom_type")
        if not isinstance(error.custom_type, str):
            raise _incomplete()
    elif kind == "AccessDeniedError":
        error.code = ErrorCode.ACCESS_DENIED
        error.fields = {name: fields.get(name) for name in _ACCESS_FIELDS}
        if not all(isinstance(text, str) for text in error.fields.values()):
            raise _incomplete()
    elif fields:
        error.fields = {name: value for name, value in fields.items() if isinstance(name, str)}


def error_tree(error: BoxError) -> dict[str, list[dict[str, Any]]]:
    """Return an error and its causes with the names that Tarantool shows: `{"stack": [{"type": ...}, ...]}`."""
    return {"stack": [{_NAMES[key]: value for key, value in _one(link).items()} for link in _chain(error)]}
