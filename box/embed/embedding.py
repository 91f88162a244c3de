"""A running instance as its program uses it: contexts of calls, rows, and calls of Lua. Each `Node` has one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from box.data.codec import unpack
from box.embed.arguments import checked_text
from box.embed.named_rows import RowCodec, encode_values
from box.embed.row_types import RecordCodec
from box.errors import BoxError, ErrorCode, client_error

if TYPE_CHECKING:
    from box.embed.commits import Commits
    from box.embed.lua_instance import LuaInstance
    from box.embed.task_contexts import TaskContexts
    from box.instance.node import Instance
    from box.schema.space import Space
    from box.session import Context


F = TypeVar("F")


class Watcher(Protocol):
    """Anything that watches the node and has to be closed when the node stops."""

    def close(self) -> None:
        """Stop watching."""


class ContextSource(Protocol):
    """Finds the context of a call, that is the transaction which the call is part of."""

    @property
    def commits(self) -> Commits:
        """Runs functions whose commits may be written at once."""

    def at_hand(self) -> Context | None:
        """Return the context of the open transaction, or the shared context for calls that belong to no transaction and
        are over when they return.

        None if that takes a closer look, or if the call comes from a wrong thread.
        """

    def current(self, caller: str) -> Context:
        """Return the context of one call; `caller` names the call in errors."""

    def new(self) -> Context:
        """Return a new context, for a separate transaction."""


class Embedding:
    """The instance, its contexts and the codecs of its spaces, shared by handles, transactions and functions."""

    def __init__(self) -> None:
        self._instance: LuaInstance | None = None
        self._contexts: TaskContexts | None = None
        self._codecs: dict[tuple[Space, Any], RowCodec] = {}
        self._was_started = False
        self.epoch: object = object()
        """An object that is replaced whenever the dictionary changes and when the node starts or stops."""
        self.watchers: dict[Watcher, None] = {}
        """The open streams of changes, in the order of their opening."""
        self.prepared: Counter[int] = Counter()
        """The number of the program's objects that use each prepared statement, by statement id."""
        self._background: set[asyncio.Future[Any]] = set()

    def __reduce__(self) -> str:
        """Refuse to be pickled or copied, as a part of a node, a handle or a transaction.

        Raises:
            TypeError: always.
        """
        remedy = "pass on rows, or the address of `listen` for a client"
        raise TypeError(f"a node, its spaces and its transactions cannot be pickled or copied: {remedy}")

    # -- life

    def prepare(self, contexts: TaskContexts) -> None:
        """Set the contexts of an instance that is about to start, because triggers may run before the start is
        complete.
        """
        self._contexts = contexts

    def begin(self, instance: LuaInstance) -> None:
        """Take the instance that has started; calls are accepted from now on."""
        self._instance = instance
        self._was_started = True
        self.epoch = object()
        instance.node.schema.on_alter_spaces.append(self._altered)

    def _altered(self, spaces: list[Space]) -> None:
        self.epoch = object()

    def end(self) -> LuaInstance | None:
        """Release the instance and refuse calls from now on. Returns the instance, for the caller to stop."""
        instance, self._instance = self._instance, None
        contexts, self._contexts = self._contexts, None
        self._codecs = {}
        self.prepared.clear()
        self.epoch = object()
        for watcher in list(self.watchers):
            watcher.close()
        if contexts is not None:
            contexts.stop()
        return instance

    @property
    def instance(self) -> LuaInstance:
        """The instance.

        Raises:
            NotReadyError: before the start and after the stop.
        """
        if self._instance is None:
            raise self._not_running()
        return self._instance

    def _not_running(self) -> BoxError:
        if self._was_started:
            return BoxError(ErrorCode.LOADING, "The node is stopped")
        remedy = "use `async with node`, or `await node.start()` before"
        return BoxError(ErrorCode.LOADING, f"The node is not started: {remedy}")

    @property
    def is_running(self) -> bool:
        """True between the start and the stop."""
        return self._instance is not None

    @property
    def core(self) -> Instance:
        """The instance without its Lua runtime.

        Raises:
            NotReadyError: before the start and after the stop.
        """
        return self.instance.node

    @property
    def contexts(self) -> TaskContexts:
        """The contexts of calls.

        Raises:
            NotReadyError: before the start and after the stop.
        """
        if self._contexts is None:
            raise self._not_running()
        return self._contexts

    @property
    def running_contexts(self) -> TaskContexts | None:
        """The contexts of calls, or None while the node does not run."""
        return self._contexts

    def new_context(self, caller: str) -> Context:
        """Return a context for one call in the node's own session, whose user is admin.

        Raises:
            RuntimeError: in another thread or event loop than the node's.
            NotReadyError: before the start and after the stop.
        """
        return self.contexts.current(caller)

    def keep(self, work: asyncio.Future[F]) -> asyncio.Future[F]:
        """Remember background work until it ends; the stop waits for it."""
        self._background.add(work)
        work.add_done_callback(self._background.discard)
        return work

    async def wait_background(self) -> None:
        """Wait until the background work, which was told to give up, has ended."""
        while self._background:
            await asyncio.wait(list(self._background))

    # -- rows

    def codec(self, space: Space, row: type | None = None) -> RowCodec:
        """Return the codec of a space's tuples; with `row`, a NamedTuple or a dataclass, rows are objects of that
        class.
        """
        found = self._codecs.get((space, row))
        if found is None:
            found = self._codecs[space, row] = RowCodec(space) if row is None else RecordCodec(space, row)
            # A changed schema has new spaces. The codecs of old ones are dropped now and then, when they may be many.
            if len(self._codecs) > 4 * len(self.core.schema.spaces):
                alive = set(self.core.schema.spaces.values())
                self._codecs = {key: codec for key, codec in self._codecs.items() if key[0] in alive}
        return found

    # -- Lua

    async def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source; see `Node.eval`."""
        ctx, instance = self.new_context("eval()"), self.instance
        checked_text("source", source)
        return await self._outcome(ctx, instance.runtime.eval(source.encode(), encode_values(list(args)), ctx))

    async def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function; see `Node.call`."""
        ctx, instance = self.new_context("call()"), self.instance
        checked_text("name", name)
        return await self._outcome(ctx, instance.runtime.call(name, encode_values(list(args)), ctx))

    async def _outcome(self, ctx: Context, work: Coroutine[Any, Any, bytes]) -> Any:
        txns, before = self.core.txns, ctx.txn
        try:
            raw = await work
        finally:
            is_left_open = ctx.txn is not None and ctx.txn is not before
            if is_left_open:
                txns.rollback(ctx)
        if is_left_open:
            raise client_error(ErrorCode.FUNCTION_TX_ACTIVE)
        return _result(raw)


def _result(raw: bytes) -> Any:
    values = unpack(raw)
    if not values:
        return None
    return values[0] if len(values) == 1 else values
