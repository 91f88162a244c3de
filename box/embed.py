"""Nodes inside a Python program: `from box import Node`.

    async with Node("data", listen=3301) as node:
        await node.eval("box.schema.space.create('goods'):create_index('pk')")
        await node.space["goods"].insert([1, "pear"])
        await node.space["goods"].select()          # [[1, 'pear']]

`LuaInstance` joins a node of `box.instance.node` with a Lua runtime of its own; consoles and the command line use it.
`Node` is the same for programs: an asynchronous context manager with Python values in and out. Several may live in one
process and on one loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error
from box.index import IteratorType
from box.index.view import TupleView
from box.instance.node import Instance
from box.log import Level
from box.schema.space import Space
from box.session import Context, Session
from box.wire.change import Request
from lua.bindings.box import BoxBindings
from lua.bindings.modules import bind_modules
from lua.runtime import Runtime

_SLICE: Final = 256
"""Tuples that are read without giving way to others: less than a millisecond."""
_LEVELS = {
    "crit": Level.CRIT,
    "error": Level.ERROR,
    "warn": Level.WARN,
    "info": Level.INFO,
    "debug": Level.DEBUG,
}


_NAME_OF_FIBER = b"""
    local fiber = require('fiber')
    return function(id)
        local found = fiber.find(id)
        return found and found:name() or 'lua'
    end
"""


class LuaInstance:
    """A node and its Lua runtime. Nothing is configured until Lua or Python calls `box.cfg`.

    `directory` is where the node's files are, None for a node in memory; `write` takes what Lua prints, `on_exit` the
    code of `os.exit()`.
    """

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        flavour: str | None = None,
        write: Callable[[bytes], None] | None = None,
        on_exit: Callable[[int], None] | None = None,
        node: Instance | None = None,
    ) -> None:
        self.loop = loop or asyncio.get_running_loop()
        self.node = node or Instance(directory, loop=self.loop)
        self.runtime = Runtime(
            self.loop,
            flavour=flavour,
            new_context=self.node.new_context,
            end_context=self._end_context,
            log=self._log,
            write=write,
            on_exit=on_exit,
            clock=self.node.clock,
            fiber_round=self.node.round,
        )
        bind_modules(self.runtime, self.node)
        self.box = BoxBindings(self.runtime, self.node)
        self._name_of_fiber = self.runtime.compile(_NAME_OF_FIBER, "=embed")
        self.node.log.fiber = self._current_fiber

    def _current_fiber(self) -> tuple[int, str]:
        """Id and name for the log of what is at work: a Lua fiber, or a task of the node such as an applier's."""
        fiber_id = self.runtime.fiber_id
        if fiber_id and not self.runtime.closed:
            (found,) = self.runtime.invoke_now(self._name_of_fiber, fiber_id)
            return fiber_id, found.decode("utf-8", "replace") if isinstance(found, bytes) else "lua"
        task = asyncio.current_task(self.loop) if asyncio._get_running_loop() is self.loop else None
        name = "main" if task is None or task.get_name().startswith("Task-") else task.get_name()
        return 1, name

    def _log(self, level: str, text: str) -> None:
        self.node.log.say(_LEVELS[level], text)

    def _end_context(self, ctx: Context) -> None:
        """A fiber has ended: an open transaction ends with it, and its session if it had one of its own."""
        self.node.txns.fiber_stopped(ctx)
        if ctx.session.type == "background":
            self.node.sessions.by_id.pop(ctx.session.id, None)

    async def configure(self, options: Mapping[str, Any]) -> None:
        """`box.cfg` from Python; the table `box` follows."""
        await self.runtime.eval(b"box.cfg((...))", pack([dict(options)]), self.node.new_context())

    async def stop(self) -> None:
        """Stop the node, then Lua. Acknowledged changes are on disk; nothing is left behind."""
        await self.node.close()
        await self.runtime.close()


class SpaceHandle:
    """One space of an embedded node. Tuples and keys are Python sequences, results lists.

    A key of one part may be given as it is; `index` is a name or a number. Every method raises BoxError with the code
    that Lua would see: NO_SUCH_SPACE once the space is dropped, NO_SUCH_INDEX_ID, KEY_PART_TYPE, READONLY, ...

    Each call is a transaction of its own, whatever other calls wait for. In another thread than the node's it raises
    RuntimeError.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self.name = name

    @property
    def _space(self) -> Space:
        return self._node.instance.node.schema.space_by_name(self.name)

    def _context(self) -> Context:
        return self._node.new_context(f"the handle of space {self.name!r}")

    async def _write(self, request: Request) -> Any:
        ctx = self._context()
        raw = await self._node.instance.node.dml.execute(ctx, self._space, request)
        return None if raw is None else unpack(raw)

    async def insert(self, row: Sequence[Any]) -> list[Any]:
        """Add a tuple; TUPLE_FOUND if its key exists."""
        result: list[Any] = await self._write(Request.insert(pack(list(row))))
        return result

    async def replace(self, row: Sequence[Any]) -> list[Any]:
        """Add a tuple or replace the one with its primary key."""
        result: list[Any] = await self._write(Request.replace(pack(list(row))))
        return result

    async def update(self, key: Any, operations: Sequence[Sequence[Any]], index: str | int = 0) -> list[Any] | None:
        """Apply operations such as `["=", "name", "x"]` to a tuple; fields are counted from 1. None without it."""
        request = Request.update(_key(key), [list(operation) for operation in operations], self._iid(index))
        result: list[Any] | None = await self._write(request)
        return result

    async def upsert(self, row: Sequence[Any], operations: Sequence[Sequence[Any]]) -> None:
        """Insert the tuple, or apply the operations to the one with its key."""
        await self._write(Request.upsert(pack(list(row)), [list(operation) for operation in operations]))

    async def delete(self, key: Any, index: str | int = 0) -> list[Any] | None:
        """Remove a tuple and return it; None without it."""
        result: list[Any] | None = await self._write(Request.delete(_key(key), self._iid(index)))
        return result

    async def get(self, key: Any, index: str | int = 0) -> list[Any] | None:
        """The tuple with a full key of a unique index."""
        core = self._node.instance.node
        raw = core.dml.reads.get(self._context(), self._space, self._iid(index), _key(key))
        return None if raw is None else list(unpack(raw))

    async def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: str | IteratorType | None = None,
        offset: int = 0,
        limit: int = 0xFFFFFFFF,
    ) -> list[list[Any]]:
        """At most `limit` tuples by a (partial) key, without the first `offset`.

        `iterator` is EQ (the default with a key), ALL (the default without), REQ, LT, LE, GE or GT, in either case; a
        HASH index knows EQ, ALL and GT. ITERATOR_TYPE.

        All tuples are those of the moment of the call: when they are many, others run in between, whose changes are
        not among them.
        """
        values = _key(key)
        kind, iid, reads = _iterator(iterator, values), self._iid(index), self._node.instance.node.dml.reads
        ctx, space = self._context(), self._space
        rows = reads.select(ctx, space, iid, kind, offset, min(limit, _SLICE), values)
        if limit <= _SLICE or len(rows) < _SLICE:
            return [unpack(raw) for raw in rows]
        found: list[list[Any]] = []
        async for part in _slices(reads.view(ctx, space, iid, kind, values), offset, limit):
            found += part
        return found

    async def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None
    ) -> AsyncIterator[list[Any]]:
        """The tuples of `select` one by one, without a list of them all: `async for row in space.pairs()`.

        It sees the space as it was at the first step, and gives way to others every few hundred tuples.
        """
        values = _key(key)
        kind, reads = _iterator(iterator, values), self._node.instance.node.dml.reads
        view = reads.view(self._context(), self._space, self._iid(index), kind, values)
        async with aclosing(_slices(view, 0, 1 << 64)) as slices:
            async for part in slices:
                for row in part:
                    yield row

    async def count(self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None) -> int:
        """The number of tuples that `select` would give."""
        core = self._node.instance.node
        values = _key(key)
        kind = _iterator(iterator, values)
        return core.dml.reads.count(self._context(), self._space, self._iid(index), kind, values)

    async def len(self) -> int:
        """The number of tuples."""
        core = self._node.instance.node
        return core.dml.reads.len(self._context(), self._space, 0)

    async def truncate(self) -> None:
        """Remove all tuples."""
        await self._node.eval("box.space[...]:truncate()", self.name)

    def _iid(self, index: str | int) -> int:
        return index if isinstance(index, int) else self._space.index_by_name(index).iid


async def _slices(view: TupleView, offset: int, limit: int) -> AsyncGenerator[list[list[Any]], None]:
    """Tuples of a view from number `offset` on, at most `limit`; others run in between."""
    try:
        while limit > 0 and (rows := view.fetch(_SLICE)):
            wanted = rows[offset : offset + limit]
            offset = max(0, offset - len(rows))
            limit -= len(wanted)
            if wanted:
                yield [unpack(raw) for raw in wanted]
            await asyncio.sleep(0)
    finally:
        view.close()


def _key(key: Any) -> list[Any]:
    return list(key) if isinstance(key, (list, tuple)) else [key]


def _iterator(iterator: str | IteratorType | None, key: list[Any]) -> IteratorType:
    if iterator is None:
        return IteratorType.EQ if key else IteratorType.ALL
    if isinstance(iterator, IteratorType):
        return iterator
    try:
        return IteratorType[iterator.upper()]
    except KeyError:
        raise client_error(ErrorCode.ITERATOR_TYPE, iterator) from None


class _Spaces:
    """`node.space["name"]`: a SpaceHandle. NO_SUCH_SPACE."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getitem__(self, name: str) -> SpaceHandle:
        self._node.instance.node.schema.space_by_name(name)
        return SpaceHandle(self._node, name)

    def __contains__(self, name: str) -> bool:
        return any(space.name == name for space in self._node.instance.node.schema.spaces.values())


class Node:
    """A node for a Python program: `async with Node(directory, **options) as node`.

    `directory` None keeps everything in memory. `options` are those of `box.cfg`. Raises BoxError where `box.cfg`
    would.
    """

    def __init__(self, directory: str | PathLike[str] | None = None, **options: Any) -> None:
        self._directory = directory
        self._options = options
        self._instance: LuaInstance | None = None
        self._session: Session | None = None
        self._thread = 0
        self.space = _Spaces(self)

    @property
    def instance(self) -> LuaInstance:
        """The node's parts. Raises LOADING before the start and after the stop."""
        if self._instance is None:
            raise client_error(ErrorCode.LOADING)
        return self._instance

    def new_context(self, caller: str) -> Context:
        """The context of one call, in the node's own session: admin's. RuntimeError in another thread than the node's,
        LOADING before the start and after the stop."""
        if self._session is None:
            raise client_error(ErrorCode.LOADING)
        if threading.get_ident() != self._thread:
            remedy = "use asyncio.run_coroutine_threadsafe with the node's loop"
            raise RuntimeError(f"{caller} is used outside of the thread of its node: {remedy}")
        return Context(self._session)

    async def start(self) -> None:
        """Start the node; `async with` does it."""
        if self._instance is not None:
            raise client_error(ErrorCode.ALREADY_RUNNING, str(self._directory))
        instance = LuaInstance(self._directory)
        try:
            await instance.configure(self._options)
        except BaseException:
            await instance.stop()
            raise
        self._instance = instance
        self._session = instance.node.new_context().session
        self._thread = threading.get_ident()

    async def stop(self) -> None:
        """Stop the node; safe to call again.

        Calls that have not ended are cancelled. Writes of `space` that wait end as they would; one that has no quorum
        yet raises `fiber is cancelled` (type FiberIsCancelled): it is in the log, and the next start decides.
        """
        instance, self._instance, self._session = self._instance, None, None
        if instance is not None:
            await instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def configure(self, **options: Any) -> None:
        """Change options: `box.cfg{...}`."""
        self.new_context("configure()")
        await self.instance.configure(options)

    async def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source, `...` being the arguments. Returns None, the value, or a list of several values.

        A transaction that it leaves open is rolled back; that is FUNCTION_TX_ACTIVE, unless there is an error already.
        """
        ctx, instance = self.new_context("eval()"), self.instance
        return await _outcome(instance, ctx, instance.runtime.eval(source.encode(), pack(list(args)), ctx))

    async def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name (`a.b`, `a.b:method`). Results and transactions as `eval`."""
        ctx, instance = self.new_context("call()"), self.instance
        return await _outcome(instance, ctx, instance.runtime.call(name, pack(list(args)), ctx))

    @property
    def info(self) -> Mapping[str, Any]:
        """Status, ids, vclock and read-only mode, as in `box.info`."""
        node = self.instance.node
        return {
            "id": node.state.instance_id,
            "uuid": str(node.state.instance_uuid),
            "cluster": {"uuid": str(node.state.replicaset_uuid)},
            "status": node.status,
            "ro": node.mode.is_read_only,
            "lsn": node.state.vclock[node.state.instance_id],
            "vclock": dict(node.state.vclock),
            "listen": node.iproto.bound_address,
        }


async def _outcome(instance: LuaInstance, ctx: Context, work: Coroutine[Any, Any, bytes]) -> Any:
    try:
        raw = await work
    finally:
        is_open = ctx.txn is not None
        if is_open:
            instance.node.txns.rollback(ctx)
    if is_open:
        raise client_error(ErrorCode.FUNCTION_TX_ACTIVE)
    return _result(raw)


def _result(raw: bytes) -> Any:
    values = unpack(raw)
    if not values:
        return None
    return values[0] if len(values) == 1 else values


__all__ = ["BoxError", "LuaInstance", "Node", "SpaceHandle"]
