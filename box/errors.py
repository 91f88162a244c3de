"""Errors of the node: one table of codes and texts, and classes for the errors that programs handle differently.

```
BoxError                        all; `code` is an `ErrorCode`, `type` Tarantool's family
  ClientError                   a request that is wrong or cannot be done
    DuplicateKeyError           a unique index has the key already
    DataError                   a tuple, a key or an operation that does not fit the space
    ReadOnlyError               the instance accepts no changes
    AccessDeniedError           a privilege is missing
    ConfigError                 an option of `box.cfg` is wrong
    NotReadyError               the node is not started yet, or is stopped
    UnsupportedError            the node does not support the request
    DiskWriteError              the log could not be written
    SchemaError                 an object of the dictionary is missing or wrong
      NoSuchSpaceError          also a KeyError
      NoSuchIndexError          also a KeyError
      AlreadyExistsError
    TransactionError            a transaction was rolled back, or does not allow the request
      TransactionConflictError  another transaction came first: try again
      TransactionYieldError     the transaction has waited, without memtx_use_mvcc_engine
      QuorumTimeoutError        also a TimeoutError
    RequestTimeoutError         also a TimeoutError
  TimeoutError                  a deadline has passed
  BoxSystemError                a call of the operating system failed: see `errno`
    SocketError, TimedOut, OutOfMemory
  LuajitError                   Lua code has failed
  FiberIsCancelled              a call ended before its outcome was known
  IllegalParams                 a function of a Lua module was called with wrong arguments
  CryptoError                   the library of ciphers and digests has failed
  XlogError, XlogGapError       files that are damaged or missing
  CustomError                   a program has raised `box.error` with a type of its own
```

All of them can be imported from `box`, except XlogError (of `box.journal.xlog_errors`) and XlogGapError (of
`box.journal.log_gap`). The code determines the class below ClientError. Tarantool's `type` is ClientError for all
of these classes but AccessDeniedError. That of BoxSystemError is SystemError.

A `BoxError` travels unchanged from the core to every interface: Lua gets a `box.error` object, a client an IPROTO error
packet, and Python this exception. `prev` chains the cause, as in Tarantool.
"""

from __future__ import annotations

import os
from errno import ETIMEDOUT
from typing import Any

from box.error_codes import ErrorCode

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "BoxError",
    "BoxSystemError",
    "ClientError",
    "ConfigError",
    "CryptoError",
    "CustomError",
    "DataError",
    "DiskWriteError",
    "DuplicateKeyError",
    "ErrorCode",
    "FiberIsCancelled",
    "IllegalParams",
    "LuajitError",
    "NoSuchIndexError",
    "NoSuchSpaceError",
    "NotReadyError",
    "OutOfMemory",
    "QuorumTimeoutError",
    "ReadOnlyError",
    "RequestTimeoutError",
    "SchemaError",
    "SocketError",
    "TimedOut",
    "TimeoutError",
    "TransactionConflictError",
    "TransactionError",
    "TransactionYieldError",
    "UnsupportedError",
    "access_denied",
    "client_error",
    "fiber_is_cancelled",
    "illegal_params",
    "note_place",
    "system_error",
    "timed_out",
    "unsupported",
]

_MESSAGE_SIZE = 511
"""The bytes of a message after which Tarantool cuts it: its buffer has 512, one for the final zero."""
_ROOT = __file__.removesuffix("box/errors.py")
_CODES = {int(code): code for code in ErrorCode}
_CLIENT_ERRORS = frozenset({"ClientError", "AccessDeniedError"})
_SYSTEM_ERRORS = frozenset({"SystemError", "SocketError", "TimedOut", "OutOfMemory"})


class BoxError(Exception):
    """An error with Tarantool's code and text.

    `code` is an `ErrorCode`, or a plain number that the table does not have. `message` is the text. `type` is
    Tarantool's name of the family (`ClientError`, `AccessDeniedError`, `XlogError`, `SystemError`, `CustomError`,
    `LuajitError`, `TimedOut`, `FiberIsCancelled`, `OutOfMemory`, ...). `BoxError(...)` returns an object of the class
    below it that fits the type and the code. `errno` is the operating system's number or 0. `file` and `line` are the
    place where the error was raised; they are empty for errors that neither Lua nor a client has seen. `prev` is the
    cause. `fields` holds extra attributes, for AccessDeniedError object_type, object_name and access_type.
    Errors can be pickled.
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
        if self.__class__ is BoxError:
            # Cheaper than a __new__, which would take all arguments apart as well.
            if type == "ClientError":
                self.__class__ = _BY_CODE.get(code, ClientError)
            elif type in _FAMILIES:
                self.__class__ = _FAMILIES[type]
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
        """The name of the code with Tarantool's prefix: `ER_TUPLE_FOUND`."""
        code = _CODES.get(self.code)
        return "ER_UNKNOWN" if code is None else f"ER_{code.name}"

    @property
    def is_system(self) -> bool:
        """True if it is a failure of the operating system, which logs show at a level of its own."""
        return self.type in _SYSTEM_ERRORS

    @property
    def log_parts(self) -> tuple[str, str]:
        """Return the error as Tarantool logs it, a kind and a text: (`ER_CFG`, ...), (`XlogGapError`, ...),
        (`SystemError ...`, `Connection refused`).
        """
        if self.custom_type is not None:
            return "Custom type %s", self.message  # as in Tarantool, whose log forgets to put the type there
        if self.is_system:
            return f"SystemError {self.message}", os.strerror(self.errno) if self.errno else ""
        return self.name if self.type in _CLIENT_ERRORS else self.type, self.message

    @property
    def log_text(self) -> str:
        """Return the error as a line of the log shows it: `ER_CFG: ...`, `SystemError ...: Connection refused`."""
        kind, detail = self.log_parts
        return f"{kind}: {detail}" if detail or not self.is_system else kind

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}: {self.message}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), {name: getattr(self, name) for name in BoxError.__slots__})


class ClientError(BoxError):
    """A request that is wrong or cannot be done; `code` says why."""

    __slots__ = ()


class DuplicateKeyError(ClientError):
    """A unique index has a tuple with this key already (TUPLE_FOUND)."""

    __slots__ = ()


class DataError(ClientError):
    """A tuple, a key or an operation does not fit the space: a wrong type, a missing field, a wrong number of parts."""

    __slots__ = ()


class ReadOnlyError(ClientError):
    """The instance accepts no changes: it is configured as `read_only`, is an orphan, or does not lead (READONLY)."""

    __slots__ = ()


class AccessDeniedError(ClientError):
    """A privilege is missing. `fields` has `object_type`, `object_name` and `access_type`."""

    __slots__ = ()


class ConfigError(ClientError):
    """An option has a wrong value, or cannot be changed while the instance runs (CFG, RELOAD_CFG)."""

    __slots__ = ()


class NotReadyError(ClientError):
    """The node is not started yet, or is stopped (LOADING)."""

    __slots__ = ()


class UnsupportedError(ClientError):
    """The request needs something that this node or this engine does not support (UNSUPPORTED)."""

    __slots__ = ()


class DiskWriteError(ClientError):
    """The log could not be written; the change is undone (WAL_IO)."""

    __slots__ = ()


class SchemaError(ClientError):
    """An object of the dictionary is missing, or its definition is wrong or impossible."""

    __slots__ = ()


class AlreadyExistsError(SchemaError):
    """A space, index, user, role, function or sequence of this name exists, or a privilege is granted already."""

    __slots__ = ()


class NoSuchSpaceError(SchemaError, KeyError):
    """A space does not exist (NO_SUCH_SPACE). Also a KeyError, because `node.space[...]` is a mapping."""

    __slots__ = ()

    def __str__(self) -> str:  # KeyError shows the repr of its text
        return self.message


class NoSuchIndexError(SchemaError, KeyError):
    """An index does not exist (NO_SUCH_INDEX_NAME, NO_SUCH_INDEX_ID). Also a KeyError, like NoSuchSpaceError."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.message


class TransactionError(ClientError):
    """A transaction was rolled back, or does not allow what was asked for."""

    __slots__ = ()


class TransactionConflictError(TransactionError):
    """Another transaction has changed what this one has read: try it again (TRANSACTION_CONFLICT)."""

    __slots__ = ()


class TransactionYieldError(TransactionError):
    """The transaction was rolled back because it waited, without `memtx_use_mvcc_engine` (TRANSACTION_YIELD)."""

    __slots__ = ()


class TimeoutError(BoxError):
    """A deadline has passed."""

    __slots__ = ()


class RequestTimeoutError(ClientError, TimeoutError):
    """A request took too long (TIMEOUT, QUORUM_WAIT)."""

    __slots__ = ()


class QuorumTimeoutError(TransactionError, TimeoutError):
    """No quorum has confirmed a synchronous transaction in time (SYNC_QUORUM_TIMEOUT).

    The transaction is rolled back, unless `fields` has `outcome` "unknown": then the next leader decides about it.
    """

    __slots__ = ()


class BoxSystemError(BoxError):
    """A call of the operating system failed; `errno` says why. Its `type` is `SystemError`."""

    __slots__ = ()


class SocketError(BoxSystemError):
    """A connection failed."""

    __slots__ = ()


class TimedOut(BoxSystemError, TimeoutError):
    """A connection, or a wait in Lua, took too long."""

    __slots__ = ()


class OutOfMemory(BoxSystemError):
    """A tuple does not fit into `memtx_memory`, or the process gets no more memory."""

    __slots__ = ()


class LuajitError(BoxError):
    """Lua code has failed; the text is Lua's."""

    __slots__ = ()


class FiberIsCancelled(BoxError):
    """A call was cancelled, or the node was stopped, before the outcome was known."""

    __slots__ = ()


class IllegalParams(BoxError):
    """A function of a Lua module was called with wrong arguments."""

    __slots__ = ()


class CryptoError(BoxError):
    """The library of ciphers and digests has failed."""

    __slots__ = ()


class CustomError(BoxError):
    """An error that a program has made with `box.error` and its own type; `custom_type` is that type."""

    __slots__ = ()


_NAMES_BY_CLASS: dict[type[BoxError], str] = {
    DuplicateKeyError: "TUPLE_FOUND",
    DataError: """
        KEY_PART_TYPE EXACT_MATCH TUPLE_NOT_ARRAY FIELD_TYPE UPDATE_SPLICE UPDATE_ARG_TYPE UNKNOWN_UPDATE_OP
        UPDATE_FIELD KEY_PART_COUNT NO_SUCH_FIELD_NO EXACT_FIELD_COUNT FIELD_MISSING MORE_THAN_ONE_TUPLE
        ITERATOR_TYPE ITERATOR_POSITION CANT_UPDATE_PRIMARY_KEY UPDATE_INTEGER_OVERFLOW MEMTX_MAX_TUPLE_SIZE
        KEY_PART_IS_TOO_LONG
        PARTIAL_KEY NO_SUCH_FIELD_NAME_IN_SPACE UPDATE_DECIMAL_OVERFLOW NO_SUCH_FIELD_NAME TUPLE_METADATA_IS_TOO_BIG
        RTREE_RECT PROC_RET INVALID_MSGPACK FIELD_CONSTRAINT_FAILED TUPLE_CONSTRAINT_FAILED FOREIGN_KEY_INTEGRITY
        FIELD_FOREIGN_KEY_FAILED COMPLEX_FOREIGN_KEY_FAILED
    """,
    ReadOnlyError: "READONLY NONMASTER VIEW_IS_RO LOCAL_INSTANCE_ID_IS_READ_ONLY",
    AccessDeniedError: "ACCESS_DENIED",
    ConfigError: "CFG RELOAD_CFG",
    NotReadyError: "LOADING",
    UnsupportedError: "UNSUPPORTED UNSUPPORTED_INDEX_FEATURE",
    DiskWriteError: "WAL_IO",
    AlreadyExistsError: """
        SPACE_EXISTS USER_EXISTS FUNCTION_EXISTS TRIGGER_EXISTS ROLE_EXISTS INDEX_EXISTS PRIV_GRANTED ROLE_GRANTED
        SEQUENCE_EXISTS CONSTRAINT_EXISTS INDEX_EXISTS_IN_SPACE
    """,
    NoSuchSpaceError: "NO_SUCH_SPACE",
    NoSuchIndexError: "NO_SUCH_INDEX_ID NO_SUCH_INDEX_NAME",
    SchemaError: """
        CREATE_SPACE DROP_SPACE ALTER_SPACE INDEX_TYPE MODIFY_INDEX LAST_DROP TUPLE_FORMAT_LIMIT DROP_PRIMARY_KEY
        INDEX_PART_TYPE_MISMATCH FORMAT_MISMATCH_INDEX_PART CREATE_USER DROP_USER NO_SUCH_USER UNKNOWN_SCHEMA_OBJECT
        CREATE_FUNCTION NO_SUCH_FUNCTION USER_MAX NO_SUCH_ENGINE IDENTIFIER DROP_FUNCTION NO_SUCH_ROLE CREATE_ROLE
        ROLE_LOOP GRANT PRIV_NOT_GRANTED ROLE_NOT_GRANTED GUEST_USER_PASSWORD UNSUPPORTED_PRIV LOAD_FUNCTION
        FUNCTION_LANGUAGE UPSERT_UNIQUE_SECONDARY_KEY WRONG_INDEX_RECORD WRONG_INDEX_PARTS WRONG_INDEX_OPTIONS
        WRONG_SPACE_OPTIONS INDEX_FIELD_COUNT_LIMIT TRUNCATE_SYSTEM_SPACE WRONG_SPACE_FORMAT CREATE_SEQUENCE
        ALTER_SEQUENCE DROP_SEQUENCE NO_SUCH_SEQUENCE SPACE_FIELD_IS_DUPLICATE CANT_CREATE_COLLATION
        WRONG_COLLATION_OPTIONS NULLABLE_PRIMARY NO_SUCH_GROUP ACTION_MISMATCH VIEW_MISSING_SQL NO_SUCH_COLLATION
        NO_SUCH_CONSTRAINT CREATE_CONSTRAINT CREATE_FOREIGN_KEY DROP_COLLATION MULTIKEY_INDEX_MISMATCH FUNC_INDEX_FUNC
        FUNC_INDEX_FORMAT FUNC_INDEX_PARTS
    """,
    TransactionConflictError: "TRANSACTION_CONFLICT READ_VIEW_ABORTED",
    TransactionYieldError: "TRANSACTION_YIELD",
    TransactionError: """
        FUNCTION_TX_ACTIVE MULTISTATEMENT_TRANSACTION SAVEPOINT_EMPTY_TX NO_SUCH_SAVEPOINT ACTIVE_TRANSACTION
        CURSOR_NO_TRANSACTION CROSS_ENGINE_TRANSACTION NO_TRANSACTION SUB_STMT_MAX COMMIT_IN_SUB_STMT
        ROLLBACK_IN_SUB_STMT SYNC_ROLLBACK UNCOMMITTED_FOREIGN_SYNC_TXNS
    """,
    RequestTimeoutError: "TIMEOUT QUORUM_WAIT VY_QUOTA_TIMEOUT",
    QuorumTimeoutError: "SYNC_QUORUM_TIMEOUT",
}
"""The codes of each error class. All other codes belong to a plain `ClientError`."""
_BY_CODE: dict[int, type[BoxError]] = {
    int(ErrorCode[name]): family for family, names in _NAMES_BY_CLASS.items() for name in names.split()
}

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
    """Return the error that was pickled with this state."""
    error = family.__new__(family)
    for name, value in state.items():
        setattr(error, name, value)
    error.args = (error.message,)
    return error


def note_place(error: BoxError) -> None:
    """Set `file` and `line` to the statement that raised the error, unless they are known already.

    Files of Lunabox are named from its root on, such as `box/txn/storage.py`, as Tarantool names its sources. An error
    that was not raised keeps an empty name.
    """
    trace = error.__traceback__
    if error.file or trace is None:
        return
    while trace.tb_next is not None:
        trace = trace.tb_next
    error.file = trace.tb_frame.f_code.co_filename.removeprefix(_ROOT)
    error.line = trace.tb_lineno


def client_error(code: int, *args: object) -> BoxError:
    """Return an error with the text of the table: `raise client_error(ErrorCode.NO_SUCH_SPACE, name)`."""
    template = ErrorCode(code).template
    return BoxError(code, template % tuple(map(_ended, args)) if args else template)


def _ended(value: object) -> object:
    """Return a text up to its first zero byte, where strings of C end; any other value as it is."""
    return value.partition("\0")[0] if isinstance(value, str) and "\0" in value else value


def illegal_params(message: str) -> BoxError:
    """Return the error for a wrong argument: `Illegal parameters, <message>`."""
    return client_error(ErrorCode.ILLEGAL_PARAMS, message)


def access_denied(access_type: str, object_type: str, object_name: str, user: str) -> BoxError:
    """Return the error for a missing privilege: `Read access to space 'x' is denied for user 'guest'`."""
    object_name = object_name.partition("\0")[0]  # see `_ended`
    text = ErrorCode.ACCESS_DENIED.template % (access_type, object_type, object_name, user)
    fields = {"access_type": access_type, "object_type": object_type, "object_name": object_name}
    return BoxError(ErrorCode.ACCESS_DENIED, text, type="AccessDeniedError", fields=fields)


def unsupported(what: str, feature: str) -> BoxError:
    """Return the error for something that Lunabox lacks: `<what> does not support <feature>`."""
    return client_error(ErrorCode.UNSUPPORTED, what, feature)


def system_error(message: str, errno: int = 0) -> BoxError:
    """Return the error for a failed call of the operating system: type SystemError, code ER_SYSTEM."""
    return BoxError(ErrorCode.SYSTEM, message, type="SystemError", errno=errno)


def out_of_memory(size: int, allocator: str, what: str) -> BoxError:
    """Return the error for a full arena: `Failed to allocate <size> bytes in <allocator> for <what>`."""
    text = ErrorCode.MEMORY_ISSUE.template % (size, allocator, what)
    return BoxError(ErrorCode.MEMORY_ISSUE, text, type="OutOfMemory")


def timed_out() -> BoxError:
    """Return the error `timed out` of a wait in a fiber with a deadline, or of a silent connection."""
    return BoxError(ErrorCode.SYSTEM, "timed out", type="TimedOut", errno=ETIMEDOUT)


def fiber_is_cancelled() -> BoxError:
    """Return the error `fiber is cancelled` of a call that ended before its outcome was known."""
    return BoxError(ErrorCode.UNKNOWN, "fiber is cancelled", type="FiberIsCancelled")
