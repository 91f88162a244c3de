"""Registration: gives a joining replica its id in `_cluster`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from box.data.codec import pack
from box.errors import ErrorCode, client_error
from box.replication.local import LocalInstance
from box.replication.replicaset import ReplicaSet
from box.schema.access import Privilege
from box.schema.ids import SpaceId
from box.session import Context, Sessions
from box.wire.change import Request

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.txn.dml import Dml


class Registration:
    """The writer of `_cluster`: registers one replica after another, so that no two get the same id."""

    def __init__(
        self, instance: LocalInstance, replicaset: ReplicaSet, *, schema: Schema, dml: Dml, sessions: Sessions
    ) -> None:
        self._instance = instance
        self._replicaset = replicaset
        self._schema = schema
        self._dml = dml
        self._sessions = sessions
        self._latch = asyncio.Lock()

    def check(self, ctx: Context) -> None:
        """Check that a user may register a replica here.

        Raises:
            ClientError: READONLY.
            AccessDeniedError: the user may not write `_cluster`.
        """
        self._check_writable()
        self._schema.space(SpaceId.CLUSTER).check_access(ctx.credentials, Privilege.W)

    def _check_writable(self) -> None:
        if self._instance.is_read_only:
            raise client_error(ErrorCode.READONLY)

    async def register(self, uuid: UUID) -> None:
        """Give a replica an id, unless it has one.

        Raises:
            ClientError: READONLY, or the error of the write.
        """
        async with self._latch:
            replica = self._replicaset.by_uuid.get(uuid)
            if replica is None or not replica.id:
                self._check_writable()
                await self._insert(self._replicaset.free_id(), uuid)

    async def _insert(self, replica_id: int, uuid: UUID) -> None:
        ctx = Context(self._sessions.open("relay", self._schema.admin))
        try:
            request = Request.insert(pack([replica_id, str(uuid)]))
            await self._dml.execute(ctx, self._schema.space(SpaceId.CLUSTER), request)
        finally:
            await self._sessions.close(ctx.session)
