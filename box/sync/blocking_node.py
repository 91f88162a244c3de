"""The blocking node: `from box.sync import Node`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from box.embed import Node as AsynchronousNode
from box.embed import NodeInfo, NodeOptions
from box.embed.arguments import checked_text
from box.embed.declarations import name_of
from box.errors import BoxError, ErrorCode, unsupported
from box.sync.blocking_prepared import BlockingPrepared
from box.sync.blocking_schema import BlockingSchema, BlockingSpaces
from box.sync.blocking_transaction import BlockingTransaction
from box.sync.loop_thread import LoopThread
from box.sync.thread_contexts import ThreadContexts

if TYPE_CHECKING:
    import pyarrow as pa

    from box.embed.callables import PythonFunction
    from box.embed.declarations import NodeTrigger
    from box.embed.sql_statements import Parameters, SqlResult

F = TypeVar("F", bound=Callable[..., Any])


class BlockingNode:
    """A node for programs without a loop: `with Node(directory, **options) as node`; see `box.Node`.

    Transactions need `memtx_use_mvcc_engine`, because other threads may run requests between two calls of a
    transaction; the option is on unless set otherwise. A stopped node can be started again.
    """

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        logger: logging.Logger | None = None,
        **options: Unpack[NodeOptions],
    ) -> None:
        options.setdefault("memtx_use_mvcc_engine", True)
        self._has_versions = bool(options.get("memtx_use_mvcc_engine"))
        self.asynchronous = AsynchronousNode(directory, logger=logger, **options)
        """The node of `box.embed`, for coroutines on its loop."""
        self._contexts: ThreadContexts | None = None

    def __repr__(self) -> str:
        return repr(self.asynchronous)

    @property
    def _running(self) -> ThreadContexts:
        if self._contexts is None:
            remedy = "use `with node`, or `node.start()` before"
            raise BoxError(ErrorCode.LOADING, f"The node is not started: {remedy}")
        return self._contexts

    @property
    def is_running(self) -> bool:
        """True between the start and the stop."""
        return self.asynchronous.is_running

    @property
    def space(self) -> BlockingSpaces:
        """The spaces by name: `node.space["goods"]` or `node.space.goods`."""
        return BlockingSpaces(self._running, self.asynchronous)

    @property
    def schema(self) -> BlockingSchema:
        """Creates and lists spaces, sequences, users, roles, grants and functions."""
        return BlockingSchema(self._running, self.asynchronous.schema)

    def start(self) -> None:
        """Start the node and its thread; `with` calls it.

        Raises:
            ClientError: ALREADY_RUNNING, the node is running already. See `box.Node` for the other errors of a start.
        """
        if self._contexts is not None:
            raise BoxError(ErrorCode.ALREADY_RUNNING, "The node is running already")
        thread = LoopThread("box")
        try:
            self._contexts = thread.call(lambda: self._start(thread))
        except BaseException:
            thread.stop()
            raise

    async def _start(self, thread: LoopThread) -> ThreadContexts:
        await self.asynchronous.start()
        return ThreadContexts(self.asynchronous._embedding, thread)

    def stop(self) -> None:
        """Stop the node and its thread; safe to call again. Waiting calls of other threads raise FiberIsCancelled.

        Raises:
            RuntimeError: the call comes from the thread of the node, or from a forked process.
        """
        contexts = self._contexts
        if contexts is None:
            return
        contexts.thread.check_call()
        self._contexts = None
        contexts.thread.stop(self.asynchronous.stop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def transaction(self) -> BlockingTransaction:
        """Open a transaction: `with node.transaction() as tx`; see `BlockingTransaction`.

        Raises:
            UnsupportedError: `memtx_use_mvcc_engine` is off.
        """
        if not self._has_versions:
            raise unsupported("box.sync.Node", "transactions without memtx_use_mvcc_engine: leave it on")
        return BlockingTransaction(self._running, self.asynchronous._embedding)

    def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source; see `box.Node.eval`."""
        return self._running.call(lambda: self.asynchronous.eval(source, *args))

    def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name; see `box.Node.call`."""
        return self._running.call(lambda: self.asynchronous.call(name, *args))

    def execute(self, sql: str, params: Parameters = ()) -> SqlResult:
        """Run a statement of SQL; see `box.Node.execute`."""
        contexts = self._running
        if sql.__class__ is not str:
            checked_text("sql", sql)
        try:
            result = contexts.execute(lambda ctx: contexts.statements.run_now(ctx, sql, params))
        except UnicodeEncodeError:
            checked_text("sql", sql)
            raise
        return contexts.call(lambda: self.asynchronous.execute(sql, params)) if result is None else result

    def arrow(self, sql: str, params: Parameters = ()) -> pa.Table:
        """Run a query of SQL and return its rows as a table of pyarrow; see `box.Node.arrow`."""
        return self._running.call(lambda: self.asynchronous.arrow(sql, params))

    def prepare(self, sql: str) -> BlockingPrepared:
        """Analyse a statement that will run many times; see `box.Node.prepare`."""
        contexts = self._running
        return BlockingPrepared(contexts, contexts.call(lambda: self.asynchronous.prepare(sql)))

    def configure(self, **options: Unpack[NodeOptions]) -> None:
        """Change options while the node runs; see `box.Node.configure`."""
        self._running.call(lambda: self.asynchronous.configure(**options))

    @overload
    def function(self, function: F) -> F: ...

    @overload
    def function(self, function: str) -> Callable[[F], F]: ...

    def function(self, function: F | str) -> F | Callable[[F], F]:
        """Make a Python function a global of Lua; see `box.Node.function`. The function runs in the node's thread."""
        if isinstance(function, str):
            name = function

            def declare(function: F) -> F:
                self._declare(name, function)
                return function

            return declare
        self._declare(name_of(function), function)
        return function

    def _declare(self, name: str, function: F) -> None:
        if self._contexts is None:
            self.asynchronous.function(name)(function)
            return

        async def declare() -> None:
            self.asynchronous.function(name)(function)

        self._contexts.call(declare)

    def on_connect(self, function: PythonFunction) -> NodeTrigger:
        """Call `function(SessionInfo)` whenever a client connects; an exception refuses the client. See
        `box.Node.on_connect`. The function runs in the node's thread.
        """
        return self.asynchronous.on_connect(function)

    def on_disconnect(self, function: PythonFunction) -> NodeTrigger:
        """Call `function(SessionInfo)` whenever a client's session ends; see `box.Node.on_disconnect`. The function
        runs in the node's thread.
        """
        return self.asynchronous.on_disconnect(function)

    def on_shutdown(self, function: PythonFunction) -> NodeTrigger:
        """Call `function()` when `stop` begins, while the node still works; all such functions share a limit of 3
        seconds. See `box.Node.on_shutdown`. The function runs in the node's thread.
        """
        return self.asynchronous.on_shutdown(function)

    @property
    def info(self) -> NodeInfo:
        """Status, ids, vclock and read-only mode of the node, as in `box.info`."""
        return self._running.thread.run(lambda: self.asynchronous.info)
