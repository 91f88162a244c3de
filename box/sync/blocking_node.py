"""Nodes for programs without a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from os import PathLike
from typing import Any, Self, TypeVar, Unpack

from box.embed import Node as AsynchronousNode
from box.embed import NodeInfo, NodeOptions
from box.embed.loop_thread import LoopThread
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sync.blocking_schema import BlockingSchema, BlockingSpaces
from box.sync.blocking_transaction import BlockingTransaction

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
        self._thread: LoopThread | None = None

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            remedy = "use `with node`, or `node.start()` before"
            raise BoxError(ErrorCode.LOADING, f"The node is not started: {remedy}")
        return self._thread

    @property
    def space(self) -> BlockingSpaces:
        """The spaces by name: `node.space["goods"]` or `node.space.goods`."""
        return BlockingSpaces(self._running, self.asynchronous)

    @property
    def schema(self) -> BlockingSchema:
        """Makes and lists spaces, sequences, users, roles, grants and functions."""
        return BlockingSchema(self._running, self.asynchronous.schema)

    def start(self) -> None:
        """Start the node and its thread; `with` does it."""
        if self._thread is not None:
            raise client_error(ErrorCode.ALREADY_RUNNING, repr(self))
        thread = LoopThread("box")
        try:
            thread.call(self.asynchronous.start)
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Stop the node and its thread; safe to call again. Calls of other threads that wait get FiberIsCancelled."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.call(self.asynchronous.stop)
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def transaction(self) -> BlockingTransaction:
        """`with node.transaction() as tx`: see `BlockingTransaction`. UNSUPPORTED without memtx_use_mvcc_engine."""
        if not self._has_versions:
            raise unsupported("box.sync.Node", "transactions without memtx_use_mvcc_engine")
        return BlockingTransaction(self._running, self.asynchronous.transaction())

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

        async def look() -> NodeInfo:
            return self.asynchronous.info

        return self._running.call(look)
