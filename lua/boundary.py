"""Errors as bytes, the form in which a BoxError crosses between Python and Lua.

The layout is one MessagePack array, which `lua/modules/internal/error.lua` shares:

    [type: str, code: int, message: str, file: str, line: int, custom type: str | nil, errno: int,
     fields: map | nil, previous error: array | nil]
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import msgpack

from box.errors import BoxError, ErrorCode, note_place

_TEXT_ERRORS = "surrogateescape"


def encode_error(error: BoxError) -> bytes:
    """Encode an error for Lua's `internal.error`, and drop its traceback.

    The error stays in a context as its last error, and the frames of a traceback refer to that context, with its
    transaction and tuples, so that these would never be freed.
    """
    note_place(error)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    packed: bytes = msgpack.packb(_to_list(error), unicode_errors=_TEXT_ERRORS, default=str)
    return packed


def decode_error(raw: bytes) -> BoxError:
    """Decode an error from Lua. Errors of Lua itself have the code PROC_LUA and the type LuajitError."""
    return _from_list(msgpack.unpackb(raw, unicode_errors=_TEXT_ERRORS, strict_map_key=False))


def error_from_exception(error: BaseException) -> BoxError:
    """Convert an exception to an error for Lua: a BoxError unchanged, any other as a LuajitError with a text for
    users.
    """
    if isinstance(error, BoxError):
        return error
    return BoxError(ErrorCode.PROC_LUA, text_of_exception(error), type="LuajitError")


def error_of_program(error: BaseException) -> BoxError:
    """Convert an exception of a program's function that Lua has called.

    A BoxError is unchanged; any other exception has its type and text.
    """
    if isinstance(error, BoxError):
        return error
    return BoxError(ErrorCode.PROC_LUA, description_of(error), type="LuajitError")


def description_of(error: BaseException) -> str:
    """Return the type and the text of an exception; the type alone if there is no text, or if making it fails."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the program's own `__str__`
        return name
    return f"{name}: {text}" if text else name


class NoAccess(AttributeError):
    """Raised for an attribute of a bound function; its text is for users."""


def text_of_exception(error: BaseException) -> str:
    """Return the text of an exception for users of Lua, without anything that only makes sense in Python."""
    if isinstance(error, NoAccess):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, RecursionError):
        return "stack overflow"
    name = _bound_function(error)
    return f"internal error in {name}, see the log" if name else "internal error, see the log"


def _bound_function(error: BaseException) -> str | None:
    """Return the name of the innermost bound function in an exception's traceback, or None."""
    trace, name = error.__traceback__, None
    while trace is not None:
        name = trace.tb_frame.f_code.co_name if _is_bound(trace) else name
        trace = trace.tb_next
    return name


def _is_bound(trace: TracebackType) -> bool:
    return f"lua{os.sep}bindings{os.sep}" in trace.tb_frame.f_code.co_filename


def _to_list(error: BoxError) -> list[Any]:
    return [
        error.type,
        error.code,
        error.message,
        error.file,
        error.line,
        error.custom_type,
        error.errno,
        error.fields or None,
        None if error.prev is None else _to_list(error.prev),
    ]


def _from_list(parts: list[Any]) -> BoxError:
    kind, code, message, file, line, custom_type, errno, fields, prev = parts
    return BoxError(
        code,
        message,
        type=kind,
        file=file,
        line=line,
        custom_type=custom_type,
        errno=errno,
        fields=fields,
        prev=None if prev is None else _from_list(prev),
    )
