"""Errors as bytes: how a BoxError crosses between Python and Lua.

Layout, one MessagePack array, the same in `lua/modules/internal/error.lua`:

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
    """The bytes that Lua's `internal.error` understands.

    What the error has passed on its way is let go: it stays as the last error of a context, and the frames know that
    context, with the transaction and the tuples that they worked on.
    """
    note_place(error)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    packed: bytes = msgpack.packb(_to_list(error), unicode_errors=_TEXT_ERRORS, default=str)
    return packed


def decode_error(raw: bytes) -> BoxError:
    """The BoxError that Lua encoded. Errors of Lua itself have the code PROC_LUA and the type LuajitError."""
    return _from_list(msgpack.unpackb(raw, unicode_errors=_TEXT_ERRORS, strict_map_key=False))


def error_from_exception(error: BaseException) -> BoxError:
    """A BoxError as it is; any other exception as a LuajitError with the text that users are told."""
    if isinstance(error, BoxError):
        return error
    return BoxError(ErrorCode.PROC_LUA, text_of_exception(error), type="LuajitError")


def error_of_program(error: BaseException) -> BoxError:
    """A BoxError as it is; an exception of a program's own function that Lua has called with its type and text."""
    if isinstance(error, BoxError):
        return error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return BoxError(ErrorCode.PROC_LUA, text, type="LuajitError")


class NoAccess(AttributeError):
    """Raised for an attribute of a bound function; its text is for users."""


def text_of_exception(error: BaseException) -> str:
    """The text for users of Lua of an exception that is no BoxError: nothing that only makes sense in Python."""
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
    """The name of the bound function that an exception comes from: the innermost."""
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
