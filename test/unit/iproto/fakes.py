"""A fake node with one space in a dict, to test the server alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from box.data.codec import pack, unpack
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.events import Events
from box.iproto.stats import Stats
from box.journal.threads import SystemThreads
from box.net.sockets import SocketNetwork
from box.schema.access import (
    ALL_PRIVILEGES,
    UNIVERSE,
    Credentials,
    Privilege,
    User,
    check_object,
    check_universe,
    decode_hash,
    password_hash,
    refresh,
)
from box.schema.ids import UserId
from box.session import Context, Sessions
from box.txn.pending import Outcome, Pending
from box.txn.reads import Page
from box.wire.ballot import Ballot
from box.wire.change import DELETE, INSERT, UPDATE, UPSERT, Request
from box.wire.constants import RequestType
from box.wire.vclock import VClock

INSTANCE_UUID = UUID("7170b4c0-a72c-4a07-8e55-3c7c9f1b2f3a")
SPACE_ID = 512


class FakeSpace:
    id = SPACE_ID
    is_local = False

    def __init__(self) -> None:
        self.is_temporary = False
        self.on_replace: list[Any] = []
        self.before_replace: list[Any] = []
        self.rows: dict[Any, bytes] = {}

    @property
    def has_triggers(self) -> bool:
        return bool(self.on_replace)

    def check_access(self, credentials: Credentials, privilege: int) -> None:
        check_object(credentials, privilege, "space", self.id, "test", 1)


class FakeSchema:
    def __init__(self) -> None:
        self.version = 77
        self.spaces = {SPACE_ID: FakeSpace()}
        self.users: dict[str, User] = {}
        for uid, name in ((UserId.GUEST, "guest"), (UserId.ADMIN, "admin"), (32, "alice")):
            user = User(uid, UserId.ADMIN, name)
            user.granted[UNIVERSE] = ALL_PRIVILEGES
            refresh(user)
            self.users[name] = user
        self.users["alice"].hash2 = decode_hash(password_hash("secret"))
        self.functions: dict[str, Any] = {}
        self.has_user_spaces = True

    @property
    def guest(self) -> Credentials:
        return self.users["guest"].credentials

    def space(self, space_id: int) -> FakeSpace:
        if space_id not in self.spaces:
            raise client_error(ErrorCode.NO_SUCH_SPACE, str(space_id))
        return self.spaces[space_id]

    def user_by_name(self, name: str) -> User:
        if name not in self.users:
            raise client_error(ErrorCode.NO_SUCH_USER, name)
        return self.users[name]

    def function_by_name(self, name: str) -> Any:
        return self.functions.get(name)


class FakeCommit(Pending):
    """A commit that completes when the test says so."""

    def __init__(self, result: bytes | None) -> None:
        self.error = None
        self.result = result
        self.done = False
        self._callbacks = None

    def complete(self, error: Any = None) -> None:
        self.error = error
        self.finish()


class FakeDml:
    """Writes to the fake space; while `is_slow` commits go to `waiting`, else they complete at once, after triggers
    next turn.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self.waiting: list[FakeCommit] = []
        self.counters = [0] * 15
        self.reads = self
        self.commit_now: Callable[[Any], None] = lambda ctx: None

    def store_now(self, ctx: Any, space: FakeSpace, kind: int, raw: bytes, request: Request | None = None) -> Outcome:
        return self.write(ctx, space, Request(kind, raw) if request is None else request)

    def write(self, ctx: Any, space: FakeSpace, request: Request) -> Outcome:
        result = self._write(space, request)
        if self.is_slow or space.has_triggers:
            commit = FakeCommit(result)
            if self.is_slow:
                self.waiting.append(commit)
            else:
                asyncio.get_running_loop().call_soon(commit.complete)
            return commit
        return result

    def _write(self, space: FakeSpace, request: Request) -> bytes | None:
        if request.type == DELETE:
            return space.rows.pop(request.key[0], None)
        key = request.key[0] if request.key else unpack(request.tuple)[0]
        old = space.rows.get(key)
        if request.type == INSERT and old is not None:
            raise client_error(ErrorCode.TUPLE_FOUND, "primary", "test", "[]", "[]")
        if request.type == UPDATE and old is None:
            return None
        new = request.tuple
        if request.ops and old is not None:
            fields = unpack(old)
            for _, field, value in request.ops:
                fields[field - request.index_base] = value
            new = pack(fields)
        space.rows[key] = new
        return None if request.type == UPSERT else new

    def select(
        self, ctx: Any, space: FakeSpace, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]:
        self.counters[RequestType.SELECT] += 1
        if key:
            found = space.rows.get(key[0])
            return [] if found is None else [found][:limit]
        return list(space.rows.values())[offset : offset + limit]

    def begin_long(self, ctx: Any, *arguments: Any) -> None:
        return None

    def begin_long_page(self, ctx: Any, *arguments: Any) -> None:
        return None

    def page(self, ctx: Any, space: FakeSpace, *arguments: Any) -> Page:
        return Page(self.select(ctx, space, *arguments[:-1]), None)

    def position(self, ctx: Any, *arguments: Any) -> bytes:
        return b""


class FakeTransaction:
    aborted_by_yield = False


class FakeTransactions:
    """Transactions without contents; `log` has what was done with them."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def begin_limited(self, ctx: Any, timeout: float | None, isolation: int) -> Any:
        if ctx.txn is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        self.log.append(f"begin {timeout} {isolation}")
        ctx.txn = FakeTransaction()
        return ctx.txn

    def commit(self, ctx: Any) -> None:
        self.log.append(f"commit {ctx.txn is not None}")
        ctx.txn = None

    def on_yield(self, ctx: Any) -> None:
        self.log.append("yield")

    def rollback_open(self, ctx: Any, txn: Any) -> None:
        self.rollback(ctx)

    def rollback(self, ctx: Any) -> None:
        self.log.append("rollback")
        ctx.txn = None


class FakeFunctions:
    """Functions: `echo` returns its arguments, `wait` waits for `gate`, `fail` raises, `push` sends its
    first argument.
    """

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] | None = None
        self.wave = None
        self.contexts: list[Any] = []

    def call(self, ctx: Any, name: str, args: bytes, ended: Callable[[Any], None], is_16: bool = False) -> None:
        check_universe(ctx.credentials, Privilege.X, "function", name)
        self.contexts.append(ctx)
        if name == "wait":
            self.gate = asyncio.get_running_loop().create_future()
            self.gate.add_done_callback(lambda _: ended(args))
            return
        if name == "fail":
            raise client_error(ErrorCode.PROC_LUA, "as you wish")
        if name == "bug":
            raise ZeroDivisionError("a bug")
        if name == "begin":
            ctx.txn = object()
        elif name == "push":
            ctx.session.push(pack(unpack(args)[0]), ctx.sync)
        elif name != "echo":
            raise client_error(ErrorCode.NO_SUCH_PROC, name)
        ended(args)

    def eval(self, ctx: Any, expression: str, args: bytes, ended: Callable[[Any], None], is_16: bool = False) -> None:
        ended(pack([expression, unpack(args)]))


class FakeReplication:
    """Replication whose `handle` fails unless `behaviour` is set."""

    def __init__(self) -> None:
        self.requests = self
        self.behaviour: Callable[[Any, Any], Any] | None = None

    def ballot(self) -> Ballot:
        return Ballot(is_ro=True, vclock=VClock({1: 5, 2: 7}), gc_vclock=VClock({1: 1}))

    async def handle(self, connection: Any, row: Any) -> None:
        if self.behaviour is None:
            raise client_error(ErrorCode.UNSUPPORTED, "Replication", "wal_mode = 'none'")
        await self.behaviour(connection, row)


class FakeLog:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.of_iproto: list[str] = []
        """The lines under the name of Tarantool's network thread, which are in `lines`, too."""

    def error(self, text: str) -> None:
        self.lines.append(text)

    def problem(self, error: BoxError) -> None:
        self.lines.append(error.log_text)

    def of_cord(self, origin: str) -> FakeLog:
        return self if origin != "iproto" else FakeCordLog(self)

    def of_fiber(self, name: str) -> FakeLog:
        return self

    warn = info = error


class FakeCordLog(FakeLog):
    """The log of the network thread; its lines go to another log, too."""

    def __init__(self, log: FakeLog) -> None:
        super().__init__()
        self.lines, self.of_iproto = log.lines, log.of_iproto

    def error(self, text: str) -> None:
        self.lines.append(text)
        self.of_iproto.append(text)

    def problem(self, error: BoxError) -> None:
        self.error(error.log_text)

    warn = info = error


class FakeState:
    def __init__(self) -> None:
        self.is_configured = True
        self.instance_uuid = INSTANCE_UUID
        self.vclock = VClock({0: 3, 1: 12})


class FakeSql:
    """SQL that accepts no statement."""

    async def execute(self, ctx: Context, text: str, params: list[Any]) -> Any:
        raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, 1, text)

    def prepare(self, ctx: Context, text: str) -> Any:
        raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, 1, text)

    def point(self, ctx: Context, text: str, params: list[Any]) -> tuple[None, list[Any]]:
        """Return None: no statement has a fast path."""
        return None, params

    def prepared_point(self, ctx: Context, statement_id: int) -> None:
        """Return None: no statement has a fast path."""

    def known_point(self, ctx: Context, statement_id: int) -> None:
        """Return None: no statement has a fast path."""


class FakeNode:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.network = SocketNetwork(loop)
        self.monotonic = SystemThreads.clock
        self.dml = FakeDml()
        self.txns = FakeTransactions()
        self.dml.commit_now = self.txns.commit
        self.schema: Any = FakeSchema()
        self.config: dict[str, Any] = {"net_msg_max": 768, "readahead": 16320, "iproto_greeting_version": None}
        self.errinj = ErrorInjections()
        self.random = Random(1)
        self.log = FakeLog()
        self.functions = FakeFunctions()
        self.sql: Any = FakeSql()
        self.replication = FakeReplication()
        self.sessions = Sessions()
        self.events = Events(loop)
        self.stats = Stats()
        self.dml.counters = self.stats.box.totals
        self.state = FakeState()

    @property
    def space(self) -> FakeSpace:
        return self.schema.spaces[SPACE_ID]
