"""Errors as programs see them: a class for each thing to catch, codes by name, pickled and copied."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest

from box import BoxError, Node
from box.embed import ChangesLost
from box.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    BoxSystemError,
    ClientError,
    ConfigError,
    DataError,
    DiskWriteError,
    DuplicateKeyError,
    ErrorCode,
    FiberIsCancelled,
    LuajitError,
    NoSuchIndexError,
    NoSuchSpaceError,
    NotReadyError,
    OutOfMemory,
    QuorumTimeoutError,
    ReadOnlyError,
    RequestTimeoutError,
    SchemaError,
    TimedOut,
    TimeoutError,
    TransactionConflictError,
    TransactionError,
    TransactionYieldError,
    UnsupportedError,
    access_denied,
    client_error,
    fiber_is_cancelled,
    out_of_memory,
    system_error,
    timed_out,
)
from box.journal.log_gap import XlogGapError
from box.journal.xlog_errors import XlogError
from box.wire.vclock import VClock


@pytest.mark.parametrize(
    ("error", "family", "base", "kind"),
    [
        (client_error(ErrorCode.PROTOCOL, "s"), ClientError, BoxError, "ClientError"),
        (client_error(ErrorCode.NO_SUCH_SPACE, "s"), NoSuchSpaceError, KeyError, "ClientError"),
        (client_error(ErrorCode.NO_SUCH_INDEX_NAME, "i", "s"), NoSuchIndexError, KeyError, "ClientError"),
        (client_error(ErrorCode.SPACE_EXISTS, "s"), AlreadyExistsError, SchemaError, "ClientError"),
        (client_error(ErrorCode.TUPLE_FOUND, "i", "s", "", ""), DuplicateKeyError, ClientError, "ClientError"),
        (client_error(ErrorCode.FIELD_MISSING, 1), DataError, ClientError, "ClientError"),
        (client_error(ErrorCode.READONLY), ReadOnlyError, ClientError, "ClientError"),
        (client_error(ErrorCode.CFG, "listen", "no"), ConfigError, ClientError, "ClientError"),
        (client_error(ErrorCode.LOADING), NotReadyError, ClientError, "ClientError"),
        (client_error(ErrorCode.UNSUPPORTED, "it", "that"), UnsupportedError, ClientError, "ClientError"),
        (client_error(ErrorCode.WAL_IO), DiskWriteError, ClientError, "ClientError"),
        (client_error(ErrorCode.TRANSACTION_CONFLICT), TransactionConflictError, TransactionError, "ClientError"),
        (client_error(ErrorCode.TRANSACTION_YIELD), TransactionYieldError, TransactionError, "ClientError"),
        (client_error(ErrorCode.TIMEOUT), RequestTimeoutError, TimeoutError, "ClientError"),
        (client_error(ErrorCode.SYNC_QUORUM_TIMEOUT), QuorumTimeoutError, TransactionError, "ClientError"),
        (client_error(ErrorCode.SYNC_QUORUM_TIMEOUT), QuorumTimeoutError, TimeoutError, "ClientError"),
        (access_denied("Read", "space", "s", "guest"), AccessDeniedError, ClientError, "AccessDeniedError"),
        (system_error("no", 5), BoxSystemError, BoxError, "SystemError"),
        (timed_out(), TimedOut, BoxSystemError, "TimedOut"),
        (timed_out(), TimedOut, TimeoutError, "TimedOut"),
        (out_of_memory(1, "slab", "tuple"), OutOfMemory, BoxSystemError, "OutOfMemory"),
        (fiber_is_cancelled(), FiberIsCancelled, BoxError, "FiberIsCancelled"),
        (BoxError(32, "no", type="Unheard"), BoxError, BoxError, "Unheard"),
        (XlogError("damaged"), XlogError, BoxError, "XlogError"),
        (XlogGapError(VClock({1: 1}), VClock({1: 5})), XlogGapError, XlogError, "XlogGapError"),
        (ChangesLost(ErrorCode.ILLEGAL_PARAMS, "slow"), ChangesLost, ClientError, "ClientError"),
    ],
)
def test_an_error_has_the_class_of_its_family_and_survives_a_pickle(
    error: BoxError, family: type[BoxError], base: type[Exception], kind: str
) -> None:
    assert type(error) is family
    assert isinstance(error, base)
    assert error.type == kind
    error.prev = client_error(ErrorCode.READONLY)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is family
        assert [getattr(twin, name) for name in ("code", "message", "type", "errno", "fields", "args")] == [
            getattr(error, name) for name in ("code", "message", "type", "errno", "fields", "args")
        ]
        assert (str(twin), repr(twin), twin.prev.code) == (str(error), repr(error), ErrorCode.READONLY)


def test_codes_have_names() -> None:
    """`ErrorCode` names the codes of the table; another number stays a number."""
    assert client_error(ErrorCode.NO_SUCH_SPACE, "s").code is ErrorCode.NO_SUCH_SPACE
    assert BoxError(36, "").code is ErrorCode.NO_SUCH_SPACE
    assert BoxError(0, "").code is ErrorCode.UNKNOWN
    assert (BoxError(123456, "").code, BoxError(123456, "").name) == (123456, "ER_UNKNOWN")


def test_errors_of_lua_have_the_classes() -> None:
    async def run() -> None:
        async with Node() as node:
            for source, family, code in (
                ("error('plain')", LuajitError, ErrorCode.PROC_LUA),
                ("box.space._space:insert{1}", DataError, ErrorCode.FIELD_MISSING),
                ("box.error(box.error.SPACE_EXISTS, 's')", AlreadyExistsError, ErrorCode.SPACE_EXISTS),
                ("box.session.su('guest', function() box.space._user:select() end)", AccessDeniedError, 42),
                ("require('fiber').self():cancel() require('fiber').testcancel()", FiberIsCancelled, 0),
            ):
                with pytest.raises(BoxError) as caught:
                    await node.eval(source)
                assert type(caught.value) is family, source
                assert caught.value.code is ErrorCode(code)

    asyncio.run(run())
