"""Nodes for Python programs: `from box import Node`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Self

from box.embed.embedding import Embedding
from box.embed.handles import Spaces
from box.embed.lua_instance import LuaInstance
from box.embed.task_contexts import TaskContexts
from box.embed.transaction_block import TransactionBlock
from box.errors import ErrorCode, client_error


class Node(Embedding):
    """A node for a Python program: `async with Node(directory, **options) as node`.

    `directory` None keeps everything in memory. `options` are those of `box.cfg`. Raises BoxError where `box.cfg`
    would.
    """

    def __init__(self, directory: str | PathLike[str] | None = None, **options: Any) -> None:
        super().__init__()
        self._directory = directory
        self._options = options
        self.space = Spaces(self)

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
        self._contexts = TaskContexts(instance.node)

    async def stop(self) -> None:
        """Stop the node; safe to call again.

        Calls that have not ended are cancelled. Writes of `space` that wait end as they would; one that has no quorum
        yet raises `fiber is cancelled` (type FiberIsCancelled): it is in the log, and the next start decides.
        Transactions that are open are rolled back.
        """
        instance, self._instance = self._instance, None
        contexts, self._contexts = self._contexts, None
        self._codecs = {}
        if contexts is not None:
            contexts.stop()
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

    def transaction(self) -> TransactionBlock:
        """`async with node.transaction() as tx`: see `TransactionBlock`."""
        return TransactionBlock(self)

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
