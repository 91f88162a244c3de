"""Nodes for programs without a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from os import PathLike
from typing import Any, Self, TypeVar, Unpack

from box.embed import Node as AsynchronousNode
from box.embed import NodeInfo, NodeOptions
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sync.blocking_schema import BlockingSchema, BlockingSpaces
from box.sync.blocking_transaction import BlockingTransaction
from box.sync.loop_thread import LoopThread
from box.sync.thread_contexts import ThreadContexts

F = TypeVar("F", bound=Callable[..., Any])


class BlockingNode:
    """A node for programs without a loop: `with Node(directory, **options) as node`; see `box.Node`.

    Transactions need `memtx_use_mvcc_engine`, which is on unless the options say otherwise: between two blocking calls
    others have their turn. It may be started and stopped again.
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

    @property
    def _running(self) -> ThreadContexts:
        if self._contexts is None:
            remedy = "use `with node`, or `node.start()` before"
            raise BoxError(ErrorCode.LOADING, f"The node is not started: {remedy}")
        return self._contexts

    @property
    def space(self) -> BlockingSpaces:
        """The spaces by name: `node.space["goods"]` or `node.space.goods`."""
        return BlockingSpaces(self._running, self.asynchronous)

    @property
    def schema(self) -> BlockingSchema:
        """Makes and lists spaces, sequences, users, roles, grants and functions."""
        return BlockingSchema(self._running, self.asynchronous.schema)

    def start(self) -> None:
        """Start the node and its thread; `with` does it.

        Raises:
            ClientError: ALREADY_RUNNING, it runs; and what `box.Node` lists.
        """
        if self._contexts is not None:
            raise client_error(ErrorCode.ALREADY_RUNNING, repr(self))
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
        """Stop the node and its thread; safe to call again. Calls of other threads that wait get FiberIsCancelled.

        Raises:
            RuntimeError: in the thread of the node, after a fork.
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
            UnsupportedError: without `memtx_use_mvcc_engine`.
        """
        if not self._has_versions:
            raise unsupported("box.sync.Node", "transactions without memtx_use_mvcc_engine")
        return BlockingTransaction(self._running, self.asynchronous._embedding.core)

    def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source; see `box.Node.eval`."""
        return self._running.call(lambda: self.asynchronous.eval(source, *args))

    def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name; see `box.Node.call`."""
        return self._running.call(lambda: self.asynchronous.call(name, *args))

    def configure(self, **options: Unpack[NodeOptions]) -> None:
        """Change options while the node runs; see `box.Node.configure`."""
        self._running.call(lambda: self.asynchronous.configure(**options))

    def function(self, function: F) -> F:
        """Make a Python function a global of Lua; see `box.Node.function`. It runs in the thread of the node."""

        async def declare() -> None:
            self.asynchronous.function(function)

        self._running.call(declare)
        return function

    @property
    def info(self) -> NodeInfo:
        """Status, ids, vclock and read-only mode, as in `box.info`."""
        return self._running.thread.run(lambda: self.asynchronous.info)
