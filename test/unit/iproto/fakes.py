"""A node of a few lines: one space in a dictionary, so that the server can be tested without the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from box.data.codec import pack, unpack
from box.errinj import ErrorInjections
from box.errors import ErrorCode, client_error
from box.iproto.stats import Stats
from box.schema.access import ALL_PRIVILEGES, UNIVERSE, Credentials, User, decode_hash, password_hash, refresh
from box.schema.ids import UserId
from box.session import Sessions
from box.wire.ballot import Ballot
from box.wire.constants import RequestType
from box.wire.vclock import VClock

INSTANCE_UUID = UUID("7170b4c0-a72c-4a07-8e55-3c7c9f1b2f3a")
SPACE_ID = 512


class FakeSpace:
    def __init__(self) -> None:
        self.has_triggers = False
        self.rows: dict[Any, bytes] = {}


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


class FakeCommit:
    """A commit that completes when the test says so."""

    def __init__(self) -> None:
        self.error: Any = None
        self.callbacks: list[Callable[[Any], None]] = []
        self.done = asyncio.Event()

    def on_done(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    async def wait(self) -> None:
        await self.done.wait()
        if self.error is not None:
            raise self.error

    def complete(self, error: Any = None) -> None:
        self.error = error
        self.done.set()
        for callback in self.callbacks:
            callback(self)


class FakeDml:
    """`waiting` collects commits when `is_slow`; otherwise writes complete at once."""

    def __init__(self) -> None:
        self.is_slow = False
        self.waiting: list[FakeCommit] = []
        self.counters = [0] * 15

    def _done(self, ctx: Any) -> None:
        if self.is_slow:
            ctx.pending = FakeCommit()
            self.waiting.append(ctx.pending)

    def quick_plan(self, ctx: Any, space: FakeSpace, request_type: int) -> None:
        return None

    def quick_store(self, ctx: Any, space: FakeSpace, plan: Any, raw: bytes, request_type: int) -> bytes:
        raise AssertionError("there is no plan")

    def insert(self, ctx: Any, space: FakeSpace, raw: bytes) -> bytes:
        key = unpack(raw)[0]
        if key in space.rows:
            raise client_error(ErrorCode.TUPLE_FOUND, "primary", "test", "[]", "[]")
        return self.replace(ctx, space, raw)

    def replace(self, ctx: Any, space: FakeSpace, raw: bytes) -> bytes:
        space.rows[unpack(raw)[0]] = raw
        self._done(ctx)
        return raw

    def update(
        self, ctx: Any, space: FakeSpace, iid: int, key: list[Any], ops: list[Any], index_base: int
    ) -> bytes | None:
        old = space.rows.get(key[0])
        if old is None:
            return None
        fields = unpack(old)
        for _, field, value in ops:
            fields[field - index_base] = value
        return self.replace(ctx, space, pack(fields))

    def upsert(self, ctx: Any, space: FakeSpace, raw: bytes, ops: list[Any], index_base: int) -> None:
        key = unpack(raw)[0]
        if key in space.rows:
            self.update(ctx, space, 0, [key], ops, index_base)
        else:
            self.replace(ctx, space, raw)

    def delete(self, ctx: Any, space: FakeSpace, iid: int, key: list[Any]) -> bytes | None:
        self._done(ctx)
        return space.rows.pop(key[0], None)

    def select(
        self, ctx: Any, space: FakeSpace, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]:
        self.counters[RequestType.SELECT] += 1
        if key:
            found = space.rows.get(key[0])
            return [] if found is None else [found][:limit]
        return list(space.rows.values())[offset : offset + limit]

    async def execute(self, ctx: Any, op_name: str, *args: Any) -> Any:
        await asyncio.sleep(0)
        return getattr(self, op_name)(ctx, *args)


class FakeTransactions:
    def rollback(self, ctx: Any) -> None:
        ctx.txn = None


class FakeFunctions:
    """`echo` returns its arguments, `wait` waits for `gate`, `fail` raises, `push` sends its first argument."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] | None = None
        self.contexts: list[Any] = []

    def call(self, ctx: Any, name: str, args: bytes, ended: Callable[[Any], None]) -> None:
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

    def eval(self, ctx: Any, expression: str, args: bytes, ended: Callable[[Any], None]) -> None:
        ended(pack([expression, unpack(args)]))


class FakeReplication:
    """`handle` fails unless `behaviour` is set."""

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

    def error(self, text: str) -> None:
        self.lines.append(text)

    warn = info = error


class FakeState:
    def __init__(self) -> None:
        self.is_configured = True
        self.instance_uuid = INSTANCE_UUID
        self.vclock = VClock({0: 3, 1: 12})


class FakeNode:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.dml = FakeDml()
        self.txns = FakeTransactions()
        self.schema: Any = FakeSchema()
        self.config: dict[str, Any] = {"net_msg_max": 768}
        self.errinj = ErrorInjections()
        self.random = Random(1)
        self.log = FakeLog()
        self.functions = FakeFunctions()
        self.replication = FakeReplication()
        self.sessions = Sessions()
        self.stats = Stats()
        self.state = FakeState()

    @property
    def space(self) -> FakeSpace:
        return self.schema.spaces[SPACE_ID]
