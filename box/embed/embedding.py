"""A running instance as its program sees it: contexts of calls, rows, Lua in and out. `Node` is one."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from box.data.codec import unpack
from box.embed.named_rows import RowCodec, encode_values
from box.errors import ErrorCode, client_error

if TYPE_CHECKING:
    from box.embed.lua_instance import LuaInstance
    from box.embed.task_contexts import TaskContexts
    from box.instance.node import Instance
    from box.schema.space import Space
    from box.session import Context


class Watcher(Protocol):
    """Something that watches the node as long as it runs."""

    def close(self) -> None:
        """Stop watching."""


class Embedding:
    """The instance, its contexts and the codecs of its spaces: shared by handles, transactions and functions."""

    def __init__(self) -> None:
        self._instance: LuaInstance | None = None
        self._contexts: TaskContexts | None = None
        self.watchers: dict[Watcher, None] = {}
        """Streams of changes that are open."""
        self._codecs: dict[Space, RowCodec] = {}

    @property
    def instance(self) -> LuaInstance:
        """The node's parts. Raises LOADING before the start and after the stop."""
        if self._instance is None:
            raise client_error(ErrorCode.LOADING)
        return self._instance

    @property
    def is_running(self) -> bool:
        """True between the start and the stop."""
        return self._instance is not None

    @property
    def core(self) -> Instance:
        """The instance without its Lua runtime. Raises as `instance`."""
        return self.instance.node

    @property
    def contexts(self) -> TaskContexts:
        """The contexts of calls. Raises as `instance`."""
        if self._contexts is None:
            raise client_error(ErrorCode.LOADING)
        return self._contexts

    def new_context(self, caller: str) -> Context:
        """The context of one call, in the node's own session: admin's. RuntimeError in another thread than the node's,
        LOADING before the start and after the stop."""
        return self.contexts.current(caller)

    def codec(self, space: Space) -> RowCodec:
        """The codec of a space's tuples."""
        found = self._codecs.get(space)
        if found is None:
            found = self._codecs[space] = RowCodec(space)
            if len(self._codecs) > 2 * len(self.core.schema.spaces):
                alive = set(self.core.schema.spaces.values())
                self._codecs = {space: codec for space, codec in self._codecs.items() if space in alive}
        return found

    async def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source, `...` being the arguments. Returns None, the value, or a list of several values.

        Inside a transaction of Python it is part of that. A transaction that it leaves open itself is rolled back; that
        is FUNCTION_TX_ACTIVE, unless there is an error already.
        """
        ctx, instance = self.new_context("eval()"), self.instance
        return await self._outcome(ctx, instance.runtime.eval(source.encode(), encode_values(list(args)), ctx))

    async def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name (`a.b`, `a.b:method`). Results and transactions as `eval`."""
        ctx, instance = self.new_context("call()"), self.instance
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
