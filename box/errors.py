"""Errors of the node: one table of codes and texts, one exception class whose `type` names the family.

A `BoxError` travels unchanged from the core to every front: Lua sees it as a `box.error` object, a
client as an IPROTO error packet, Python as this exception. `prev` chains the cause, as in the peer.
"""

from __future__ import annotations

import os
from errno import ETIMEDOUT
from typing import Any

from box.error_codes import ErrorCode

__all__ = [
    "BoxError",
    "ErrorCode",
    "access_denied",
    "client_error",
    "fiber_is_cancelled",
    "illegal_params",
    "system_error",
    "timed_out",
    "unsupported",
]

_MESSAGE_SIZE = 511
_CODES = frozenset(int(code) for code in ErrorCode)
_CLIENT_ERRORS = frozenset({"ClientError", "AccessDeniedError"})
_SYSTEM_ERRORS = frozenset({"SystemError", "SocketError", "TimedOut", "OutOfMemory"})


class BoxError(Exception):
    """An error with the peer's code and text.

    `type` is the class name that the peer shows (`ClientError`, `AccessDeniedError`, `XlogError`,
    `SystemError`, `CustomError`, `LuajitError`, `TimedOut`, `FiberIsCancelled`, `OutOfMemory`, ...).
    `fields` holds extra attributes of the object (AccessDeniedError: object_type, object_name, access_type).
    """

    __slots__ = ("code", "custom_type", "errno", "fields", "file", "line", "message", "prev", "type")

    def __init__(
        self,
        code: int,
        message: str,
        *,
        type: str = "ClientError",
        file: str = "",
        line: int = 0,
        custom_type: str | None = None,
        errno: int = 0,
        prev: BoxError | None = None,
        fields: dict[str, Any] | None = None,
    ) -> None:
        # The peer's errors hold 511 bytes; a longer text is cut there.
        if len(message) > _MESSAGE_SIZE // 4:
            message = message.encode("utf-8", "surrogateescape")[:_MESSAGE_SIZE].decode("utf-8", "surrogateescape")
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.type = type
        self.file = file
        self.line = line
        self.custom_type = custom_type
        self.errno = errno
        self.prev = prev
        self.fields = fields

    @property
    def name(self) -> str:
        """The code's name with the peer's prefix: `ER_TUPLE_FOUND`."""
        return f"ER_{ErrorCode(self.code).name}" if self.code in _CODES else "ER_UNKNOWN"

    @property
    def log_text(self) -> str:
        """As the peer's log has it: `ER_CFG: ...`, `XlogGapError: ...`, `SystemError ...: Connection refused`."""
        if self.custom_type is not None:
            return f"Custom type {self.custom_type}: {self.message}"
        if self.type in _SYSTEM_ERRORS:
            return f"SystemError {self.message}" + (f": {os.strerror(self.errno)}" if self.errno else "")
        return f"{self.name if self.type in _CLIENT_ERRORS else self.type}: {self.message}"

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}: {self.message}>"


def client_error(code: int, *args: object) -> BoxError:
    """A ClientError with the text of the table: `raise client_error(ErrorCode.NO_SUCH_SPACE, name)`."""
    template = ErrorCode(code).template
    return BoxError(code, template % args if args else template)


def illegal_params(message: str) -> BoxError:
    """`Illegal parameters, <message>`."""
    return client_error(ErrorCode.ILLEGAL_PARAMS, message)


def access_denied(access_type: str, object_type: str, object_name: str, user: str) -> BoxError:
    """`Read access to space 'x' is denied for user 'guest'`."""
    error = client_error(ErrorCode.ACCESS_DENIED, access_type, object_type, object_name, user)
    error.type = "AccessDeniedError"
    error.fields = {"access_type": access_type, "object_type": object_type, "object_name": object_name}
    return error


def unsupported(what: str, feature: str) -> BoxError:
    """`<what> does not support <feature>`: the error of every known gap."""
    return client_error(ErrorCode.UNSUPPORTED, what, feature)


def system_error(message: str, errno: int = 0) -> BoxError:
    """An operating-system failure: type SystemError, code ER_SYSTEM."""
    return BoxError(ErrorCode.SYSTEM, message, type="SystemError", errno=errno)


def out_of_memory(size: int, allocator: str, what: str) -> BoxError:
    """`Failed to allocate <size> bytes in <allocator> for <what>`."""
    error = client_error(ErrorCode.MEMORY_ISSUE, size, allocator, what)
    error.type = "OutOfMemory"
    return error


def timed_out() -> BoxError:
    """`timed out`, as fiber waits with a deadline and silent connections report it."""
    return BoxError(ErrorCode.SYSTEM, "timed out", type="TimedOut", errno=ETIMEDOUT)


def fiber_is_cancelled() -> BoxError:
    """`fiber is cancelled`."""
    return BoxError(ErrorCode.UNKNOWN, "fiber is cancelled", type="FiberIsCancelled")
