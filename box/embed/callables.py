"""Python callables that the instance calls: functions for Lua and clients, and triggers of spaces, sessions and
shutdown.

```
called by                                    runs in
a Lua fiber, CALL of the binary protocol     the fiber's context: its transaction, its user
a write (on_replace, before_replace)         the write's transaction
a commit or rollback                         after the outcome is decided
a session's begin and end, the shutdown      a context of its own, with the rights of admin
```

A callable is a function or a coroutine function. Requests that it makes through the node belong to whoever called it. A
callable that waits yields as a Lua function would: without `memtx_use_mvcc_engine` that rolls back an open transaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from box.data.codec import unpack
from box.embed.change_stream import Change, change_of
from box.embed.commit_listener import place_of
from box.embed.named_rows import NamedRow, encode_values
from box.errors import BoxError
from box.schema.space import NOTHING
from lua.boundary import description_of, encode_error, error_of_program

if TYPE_CHECKING:
    from box.embed.embedding import Embedding
    from box.embed.named_rows import RowCodec
    from box.schema.space import Space
    from box.session import Context
    from box.txn.transaction import Statement, TransactionHook
    from lua.runtime import Runtime

_DEFINE = b"""
    local msgpack, python = require('internal.msgpack'), require('internal.python')
    local wait = require('internal.wait')
    local encode, decode, call = msgpack.encode_args, msgpack.decode_args, python.embed_call
    return function(name, number)
        local function stub(...)
            return decode(wait(call(number, encode(...))))
        end
        local place, last = _G, name
        for part, rest in name:gmatch('([^.]+)%.()') do
            if type(place[part]) ~= 'table' then
                place[part] = {}
            end
            place, last = place[part], name:sub(rest)
        end
        place[last] = stub
    end
"""

PythonFunction = Callable[..., Any]
"""A function or a coroutine function of the program."""


class SessionInfo(NamedTuple):
    """The session that an on_connect or on_disconnect trigger is called for.

    Its fields are the number, the kind ("binary", "console"), the user and the remote address.
    """

    id: int
    type: str
    user: str
    peer: str | None


class FunctionTable:
    """The Python functions of one instance that Lua can call by name."""

    def __init__(self, embedding: Embedding, runtime: Runtime) -> None:
        self._embedding = embedding
        self._runtime = runtime
        self._functions: list[PythonFunction] = []
        runtime.bind("embed_call", self._call)
        self._define = runtime.compile(_DEFINE, "=embed")

    def define(self, name: str, function: PythonFunction) -> None:
        """Make the function the global `name` of Lua; for `a.b` it becomes the field `b` of the global table `a`."""
        self._functions.append(function)
        self._runtime.invoke_now(self._define, name.encode(), len(self._functions) - 1)

    def _call(self, number: float, args: bytes) -> Any:
        """Run a function for Lua: arguments and results are MessagePack arrays.

        Returns the token of a wait for a coroutine function, and `(False, error)` for an exception.
        """
        contexts, ctx = self._embedding.contexts, self._runtime.ctx
        function = self._functions[int(number)]
        try:
            result = contexts.run_inside(ctx, lambda: function(*unpack(args)))
            if inspect.iscoroutine(result):
                return self._runtime.drive(self._finish(ctx, result))
            return _packed(result)
        except Exception as error:
            return False, encode_error(as_box_error(error))

    async def _finish(self, ctx: Context, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return _packed(await self._embedding.contexts.drive_inside(ctx, work))
        except Exception as error:
            raise as_box_error(error) from error


def _packed(result: Any) -> bytes:
    """Pack the results of a function; a plain Python tuple is several results, a row is one."""
    if isinstance(result, tuple) and not isinstance(result, NamedRow):
        return encode_values(list(result))
    return encode_values([] if result is None else [result])


def as_box_error(error: Exception) -> BoxError:
    """Convert an exception of the program to a BoxError: PROC_LUA with its type and text, unless it is a BoxError
    already.
    """
    return error_of_program(error)


def transaction_hook(embedding: Embedding, function: PythonFunction, kind: str) -> TransactionHook:
    """Make a hook for the end of a transaction that calls `function(changes)`; the function may wait.

    An error of the function comes too late to change anything: it is logged.
    """
    core, contexts = embedding.core, embedding.contexts
    codec = embedding.codec

    def changes_of(statements: list[Statement]) -> list[Change]:
        return [
            change_of(codec(item.space).decode, item.old, item.new, *place_of(item))
            for item in statements
            if item.space is not None and not (item.old is None and item.new is None)
        ]

    async def finish(work: Coroutine[Any, Any, Any], ctx: Context) -> None:
        try:
            await contexts.drive_inside(ctx, work)
        except Exception as error:
            failed(error)

    def failed(error: Exception) -> None:
        core.log.error(f"{kind} trigger in Python failed: {description_of(error)}")

    def hook(statements: list[Statement]) -> Awaitable[None] | None:
        ctx = contexts.new()
        try:
            result = contexts.run_inside(ctx, function, changes_of(statements))
        except Exception as error:
            failed(error)
            return None
        return finish(result, ctx) if inspect.iscoroutine(result) else None

    return hook


class SpaceTrigger:
    """A Python trigger of one space: `function(old, new)`, where each is a row or None."""

    def __init__(
        self, embedding: Embedding, space: Space, kind: str, function: PythonFunction, codec: RowCodec
    ) -> None:
        self._embedding = embedding
        self._space = space
        self._codec = codec
        self._function = function
        self._list = space.before_replace if kind == "before_replace" else space.on_replace
        self._may_change = kind == "before_replace"
        self._list.insert(0, self)

    def remove(self) -> None:
        """Remove the trigger; a second call does nothing."""
        if self in self._list:
            self._list.remove(self)

    async def call(self, ctx: Context, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        """Call the function for one change. Returns the tuple to store, for before_replace."""
        contexts, decode = self._embedding.contexts, self._codec.decode
        before = None if old is None else decode(old)
        after = None if new is None else decode(new)
        try:
            result = contexts.run_inside(ctx, self._function, before, after)
            if inspect.iscoroutine(result):
                result = await contexts.drive_inside(ctx, result)
        except Exception as error:
            raise as_box_error(error) from error
        if not self._may_change or result is NOTHING:
            return NOTHING
        if result is after:
            return new
        if result is before:
            return old
        return self._codec.encode(result)


def session_hook(embedding: Embedding, function: PythonFunction) -> Any:
    """Make a session hook that calls `function(SessionInfo)`; an exception of the function refuses the client."""

    async def hook(ctx: Context) -> None:
        if not embedding.is_running:
            # A node that stops closes its own sessions last, when no function can be told any more.
            return
        session = ctx.session
        info = SessionInfo(session.id, session.type, session.user, session.peer)
        try:
            own = embedding.contexts.new()
            result = embedding.contexts.run_inside(own, function, info)
            if inspect.iscoroutine(result):
                await embedding.contexts.drive_inside(own, result)
        except Exception as error:
            raise as_box_error(error) from error

    return hook
