"""Lunabox: a database node in Python with Tarantool's `box` API.

    from box import Node

The names below are the interface for programs; `box.sync` has it without a loop, `box.dbapi` is DB-API 2.0 for tools,
`box.testing` has clusters for tests.
`Node` and other names that need LuaJIT or take long to import are imported on first use, so that readers of files
(`box.spark`) work without LuaJIT.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from box.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    BoxError,
    BoxSystemError,
    ClientError,
    ConfigError,
    CryptoError,
    CustomError,
    DataError,
    DiskWriteError,
    DuplicateKeyError,
    ErrorCode,
    FiberIsCancelled,
    IllegalParams,
    LuajitError,
    NoSuchIndexError,
    NoSuchSpaceError,
    NotReadyError,
    OutOfMemory,
    QuorumTimeoutError,
    ReadOnlyError,
    RequestTimeoutError,
    SchemaError,
    SocketError,
    TimedOut,
    TimeoutError,
    TransactionConflictError,
    TransactionError,
    TransactionYieldError,
    UnsupportedError,
)
from box.version import VERSION as __version__

if TYPE_CHECKING:
    from box.data.times.points import Datetime, Interval
    from box.embed import (
        Change,
        ChangesLost,
        ChangeStream,
        GrantedPrivilege,
        IndexHandle,
        NamedRow,
        Node,
        NodeInfo,
        NodeOptions,
        PreparedStatement,
        RowPage,
        SchemaRequests,
        SequenceHandle,
        SessionInfo,
        SpaceHandle,
        SqlColumn,
        SqlResult,
        TransactionBlock,
    )

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "BoxError",
    "BoxSystemError",
    "Change",
    "ChangeStream",
    "ChangesLost",
    "ClientError",
    "ConfigError",
    "CryptoError",
    "CustomError",
    "DataError",
    "Datetime",
    "DiskWriteError",
    "DuplicateKeyError",
    "ErrorCode",
    "FiberIsCancelled",
    "GrantedPrivilege",
    "IllegalParams",
    "IndexHandle",
    "Interval",
    "LuajitError",
    "NamedRow",
    "NoSuchIndexError",
    "NoSuchSpaceError",
    "Node",
    "NodeInfo",
    "NodeOptions",
    "NotReadyError",
    "OutOfMemory",
    "PreparedStatement",
    "QuorumTimeoutError",
    "ReadOnlyError",
    "RequestTimeoutError",
    "RowPage",
    "SchemaError",
    "SchemaRequests",
    "SequenceHandle",
    "SessionInfo",
    "SocketError",
    "SpaceHandle",
    "SqlColumn",
    "SqlResult",
    "TimedOut",
    "TimeoutError",
    "TransactionBlock",
    "TransactionConflictError",
    "TransactionError",
    "TransactionYieldError",
    "UnsupportedError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "dbapi":
        return import_module("box.dbapi")
    if name in ("Datetime", "Interval"):
        return getattr(import_module("box.data.times.points"), name)
    if name in __all__:
        from box import embed

        return getattr(embed, name)
    raise AttributeError(f"module 'box' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
