"""Errors of the node: one table of codes and texts, one exception class for each family, whose name is in `type`.

```
type                     class                             raised for
ClientError              ClientError                       requests that are wrong or cannot be done: see `code`
  AccessDeniedError        AccessDeniedError               a privilege that is missing
SystemError              BoxSystemError                    a call of the operating system that failed: see `errno`
  SocketError, TimedOut,   SocketError, TimedOut,          connections, waits with a deadline, memory
  OutOfMemory              OutOfMemory
LuajitError              LuajitError                       errors of Lua code
FiberIsCancelled         FiberIsCancelled                  calls that ended before their outcome was known
IllegalParams            IllegalParams                     wrong arguments of Lua modules
CryptoError              CryptoError                       the library of ciphers and digests
XlogError, XlogGapError  box.journal.xlog_errors           files that are damaged or missing
CustomError, others      CustomError, BoxError             `box.error` of the user, types of other versions
```

A `BoxError` travels unchanged from the core to every front: Lua sees it as a `box.error` object, a
client as an IPROTO error packet, Python as this exception. `prev` chains the cause, as in Tarantool.
"""

from __future__ import annotations

import os
from errno import ETIMEDOUT
from typing import Any

from box.error_codes import ErrorCode

__all__ = [
    "AccessDeniedError",
    "BoxError",
    "BoxSystemError",
    "ClientError",
    "CryptoError",
    "CustomError",
    "ErrorCode",
    "FiberIsCancelled",
    "IllegalParams",
    "LuajitError",
    "OutOfMemory",
    "SocketError",
    "TimedOut",
    "access_denied",
    "client_error",
    "fiber_is_cancelled",
    "illegal_params",
    "system_error",
    "timed_out",
    "unsupported",
]

_MESSAGE_SIZE = 511
_CODES = {int(code): code for code in ErrorCode}
_CLIENT_ERRORS = frozenset({"ClientError", "AccessDeniedError"})
_SYSTEM_ERRORS = frozenset({"SystemError", "SocketError", "TimedOut", "OutOfMemory"})


class BoxError(Exception):
    """An error with Tarantool's code and text.

    `type` is the class name that Tarantool shows (`ClientError`, `AccessDeniedError`, `XlogError`,
    `SystemError`, `CustomError`, `LuajitError`, `TimedOut`, `FiberIsCancelled`, `OutOfMemory`, ...), and decides of
    which class below `BoxError(...)` makes an object. `code` is an ErrorCode, a plain number where the table has none.
    `errno` is the operating system's number or 0, `file` and `line` are the place, `prev` is the cause. Errors can be
    pickled; `fields` holds extra attributes of the object (AccessDeniedError: object_type, object_name, access_type).
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
        # Tarantool's errors hold 511 bytes; a longer text is cut there.
        if len(message) > _MESSAGE_SIZE // 4:
            message = message.encode("utf-8", "surrogateescape")[:_MESSAGE_SIZE].decode("utf-8", "surrogateescape")
        super().__init__(message)
        if self.__class__ is BoxError and type in _FAMILIES:
            self.__class__ = _FAMILIES[type]  # cheaper than a __new__, which would take all arguments apart as well
        self.code: int = _CODES.get(code, code)
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
        """The code's name with Tarantool's prefix: `ER_TUPLE_FOUND`."""
        code = _CODES.get(self.code)
        return "ER_UNKNOWN" if code is None else f"ER_{code.name}"

    @property
    def log_text(self) -> str:
        """As Tarantool's log has it: `ER_CFG: ...`, `XlogGapError: ...`, `SystemError ...: Connection refused`."""
        if self.custom_type is not None:
            return f"Custom type {self.custom_type}: {self.message}"
        if self.type in _SYSTEM_ERRORS:
            return f"SystemError {self.message}" + (f": {os.strerror(self.errno)}" if self.errno else "")
        return f"{self.name if self.type in _CLIENT_ERRORS else self.type}: {self.message}"

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}: {self.message}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), {name: getattr(self, name) for name in BoxError.__slots__})


class ClientError(BoxError):
    """A request that is wrong or cannot be done; `code` says why."""

    __slots__ = ()


class AccessDeniedError(ClientError):
    """A privilege is missing. `fields` has `object_type`, `object_name` and `access_type`."""

    __slots__ = ()


class BoxSystemError(BoxError):
    """A call of the operating system failed; `errno` says why. Its `type` is `SystemError`."""

    __slots__ = ()


class SocketError(BoxSystemError):
    """A connection failed."""

    __slots__ = ()


class TimedOut(BoxSystemError):
    """A wait with a deadline was too long."""

    __slots__ = ()


class OutOfMemory(BoxSystemError):
    """There is no memory for a tuple."""

    __slots__ = ()


class LuajitError(BoxError):
    """Lua code has failed; the text is Lua's."""

    __slots__ = ()


class FiberIsCancelled(BoxError):
    """A call ended before its outcome was known."""

    __slots__ = ()


class IllegalParams(BoxError):
    """A function of a Lua module was called with wrong arguments."""

    __slots__ = ()


class CryptoError(BoxError):
    """The library of ciphers and digests has failed."""

    __slots__ = ()


class CustomError(BoxError):
    """An error of the user's own type; `custom_type` is its name."""

    __slots__ = ()


_FAMILIES: dict[str, type[BoxError]] = {
    "SystemError": BoxSystemError,
    **{
        family.__name__: family
        for family in (
            ClientError,
            AccessDeniedError,
            SocketError,
            TimedOut,
            OutOfMemory,
            LuajitError,
            FiberIsCancelled,
            IllegalParams,
            CryptoError,
            CustomError,
        )
    },
}


def _restored(family: type[BoxError], state: dict[str, Any]) -> BoxError:
    """An error that was pickled."""
    error = family.__new__(family)
    for name, value in state.items():
        setattr(error, name, value)
    error.args = (error.message,)
    return error


def client_error(code: int, *args: object) -> BoxError:
    """A ClientError with the text of the table: `raise client_error(ErrorCode.NO_SUCH_SPACE, name)`."""
    template = ErrorCode(code).template
    return BoxError(code, template % args if args else template)


def illegal_params(message: str) -> BoxError:
    """`Illegal parameters, <message>`."""
    return client_error(ErrorCode.ILLEGAL_PARAMS, message)


def access_denied(access_type: str, object_type: str, object_name: str, user: str) -> BoxError:
    """`Read access to space 'x' is denied for user 'guest'`."""
    text = ErrorCode.ACCESS_DENIED.template % (access_type, object_type, object_name, user)
    fields = {"access_type": access_type, "object_type": object_type, "object_name": object_name}
    return BoxError(ErrorCode.ACCESS_DENIED, text, type="AccessDeniedError", fields=fields)


def unsupported(what: str, feature: str) -> BoxError:
    """`<what> does not support <feature>`: the error of every known gap."""
    return client_error(ErrorCode.UNSUPPORTED, what, feature)


def system_error(message: str, errno: int = 0) -> BoxError:
    """An operating-system failure: type SystemError, code ER_SYSTEM."""
    return BoxError(ErrorCode.SYSTEM, message, type="SystemError", errno=errno)


def out_of_memory(size: int, allocator: str, what: str) -> BoxError:
    """`Failed to allocate <size> bytes in <allocator> for <what>`."""
    text = ErrorCode.MEMORY_ISSUE.template % (size, allocator, what)
    return BoxError(ErrorCode.MEMORY_ISSUE, text, type="OutOfMemory")


def timed_out() -> BoxError:
    """`timed out`, as fiber waits with a deadline and silent connections report it."""
    return BoxError(ErrorCode.SYSTEM, "timed out", type="TimedOut", errno=ETIMEDOUT)


def fiber_is_cancelled() -> BoxError:
    """`fiber is cancelled`."""
    return BoxError(ErrorCode.UNKNOWN, "fiber is cancelled", type="FiberIsCancelled")
