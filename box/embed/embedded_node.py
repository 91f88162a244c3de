"""Nodes for Python programs: `from box import Node`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from box.embed.declarations import Declarations
from box.embed.embedding import Embedding
from box.embed.handles import Spaces
from box.embed.log_forwarding import forward_to
from box.embed.lua_instance import LuaInstance
from box.embed.schema_requests import SchemaRequests
from box.embed.task_contexts import TaskContexts
from box.embed.transaction_block import TransactionBlock
from box.errors import ErrorCode, client_error
from box.log import Level

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.declarations import NodeTrigger

F = TypeVar("F", bound=Callable[..., Any])


def _leave_soon(code: int) -> None:
    """`os.exit` of an embedded node: SystemExit out of the loop, which `asyncio.run` passes on once it has cancelled
    the program's tasks and with that has stopped the node."""
    asyncio.get_running_loop().call_soon(_leave, code)


def _leave(code: int) -> None:
    raise SystemExit(code)


class Node(Embedding):
    """A node for a Python program: `async with Node(directory, **options) as node`.

    `directory` None keeps everything in memory. `options` are those of `box.cfg`. Without `log` the node logs to
    `logger`, the one called `box` by default. Raises BoxError where `box.cfg` would. `os.exit(code)` in Lua
    raises SystemExit out of the program's loop.
    """

    def __init__(
        self, directory: str | PathLike[str] | None = None, *, logger: logging.Logger | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._directory = directory
        self._logger = logger or logging.getLogger("box")
        self._is_stopping = False
        self._options = options
        self._declarations = Declarations(self)
        self.space = Spaces(self)
        """The spaces by name: `node.space["goods"]`."""
        self.schema = SchemaRequests(self)
        """Makes and lists spaces, users, roles, grants and functions."""

    async def start(self) -> None:
        """Start the node; `async with` does it."""
        if self._instance is not None:
            raise client_error(ErrorCode.ALREADY_RUNNING, str(self._directory))
        instance = self._make_instance()
        try:
            if not self._options.get("log"):
                instance.node.log.forward = self._log_lines()
            self._declarations.apply(instance)
            self._contexts = TaskContexts(instance.node)
            await instance.configure(self._options)
        except BaseException:
            self._contexts = None
            self._declarations.release()
            await instance.stop()
            raise
        self._instance = instance

    def _log_lines(self) -> Callable[[Level, str], None]:
        """Takes the lines of the log: a simulation keeps them, too."""
        return forward_to(self._logger)

    def _make_instance(self) -> LuaInstance:
        """An instance that is not configured: a simulation makes others."""
        return LuaInstance(self._directory, on_exit=_leave_soon)

    async def stop(self) -> None:
        """Stop the node; safe to call again.

        Calls that have not ended are cancelled. Writes of `space` that wait end as they would; one that has no quorum
        yet raises `fiber is cancelled` (type FiberIsCancelled): it is in the log, and the next start decides.
        Transactions that are open are rolled back. RuntimeError in another thread than the node's.
        """
        if self._contexts is not None:
            self._contexts.check_thread("stop()")
        if self._instance is not None and not self._is_stopping:
            self._is_stopping = True
            try:
                await self._declarations.shut_down()
            finally:
                self._is_stopping = False
        instance, self._instance = self._instance, None
        contexts, self._contexts = self._contexts, None
        self._codecs = {}
        self._declarations.release()
        for watcher in list(self.watchers):
            watcher.close()
        if contexts is not None:
            contexts.stop()
        if instance is not None:
            await instance.stop()
            await instance.node.let_go()

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

    def transaction(self) -> TransactionBlock:
        """`async with node.transaction() as tx`: see `TransactionBlock`."""
        return TransactionBlock(self)

    # -- functions and triggers, which stay declared when the node stops and starts

    @overload
    def function(self, function: F) -> F: ...

    @overload
    def function(self, function: str) -> Callable[[F], F]: ...

    def function(self, function: F | str) -> F | Callable[[F], F]:
        """Make a Python function a global of Lua: `@node.function`, or `@node.function("module.name")`.

        Lua and, with the privilege, clients call it by name; arguments and results are values as of `eval`, a tuple
        being several results. It belongs to its caller: its requests are part of the fiber's transaction. A coroutine
        function may wait. Exceptions are errors in Lua: BoxErrors as they are, others with their type and text.
        """
        if isinstance(function, str):
            name = function

            def declare(function: F) -> F:
                self._declarations.function(name, function)
                return function

            return declare
        self._declarations.function(function.__name__, function)
        return function

    def on_connect(self, function: PythonFunction) -> NodeTrigger:
        """Have `function(SessionInfo)` called when a client has connected; an exception refuses it."""
        return self._declarations.trigger("on_connect", function)

    def on_disconnect(self, function: PythonFunction) -> NodeTrigger:
        """Have `function(SessionInfo)` called when a client's session is over."""
        return self._declarations.trigger("on_disconnect", function)

    def on_shutdown(self, function: PythonFunction) -> NodeTrigger:
        """Have `function()` called when `stop` begins, while the node still works; all together may take 3 s."""
        return self._declarations.trigger("on_shutdown", function)

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
