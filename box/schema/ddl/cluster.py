"""`_schema` and `_cluster`: the replica set's UUID and its registered instances."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from box.data.codec import unpack
from box.errors import ErrorCode, client_error, unsupported
from box.schema.access import Credentials
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.ids import REPLICA_MAX, SpaceId
from box.schema.schema import Schema

REPLICASET_UUID_KEYS: Final = ("cluster", "replicaset_uuid")
"""The keys of `_schema` with the UUID of the replica set: up to Tarantool 2.11, and from 3.0 on."""


def _is_under_another_key(schema: Schema, name: str) -> bool:
    """Return whether the UUID is there under the other key as well: an upgrade to 3.0 moves it."""
    primary = schema.space(SpaceId.SCHEMA).primary
    return primary is not None and any(primary.get([key]) for key in REPLICASET_UUID_KEYS if key != name)


def on_replace_schema(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Follow the replica set's UUID and the version of the dictionary; other keys have no effect here."""
    fields = Fields(stmt.last)
    if fields.string(0) == "version":
        _follow_version(schema, stmt)
    if fields.string(0) not in REPLICASET_UUID_KEYS:
        return
    if stmt.new is None:
        if _is_under_another_key(schema, fields.string(0)):
            return
        raise client_error(ErrorCode.REPLICASET_UUID_IS_RO)
    before, schema.replicaset_uuid = schema.replicaset_uuid, fields.uuid(1)

    def undo() -> None:
        schema.replicaset_uuid = before

    stmt.on_rollback.append(undo)
    for hook in schema.on_replicaset_uuid:
        hook(schema.replicaset_uuid)


def _follow_version(schema: Schema, stmt: DdlStatement) -> None:
    before = schema.is_of_3
    major = unpack(stmt.last)[1:2]
    schema.is_of_3 = stmt.new is not None and major >= [3]

    def undo() -> None:
        schema.is_of_3 = before

    stmt.on_rollback.append(undo)


def on_replace_cluster(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Register or remove an instance, with effect from the commit on."""
    fields = Fields(stmt.last)
    replica_id = fields.u32(0)
    if schema.is_of_3 and stmt.old is not None and stmt.new is not None and fields.uuid(1) == Fields(stmt.old).uuid(1):
        return  # instances have names there
    _check_replica_id(schema, replica_id)
    uuid = fields.uuid(1)
    if stmt.new is None:
        stmt.on_commit.append(lambda: _set_replica(schema, replica_id, uuid, False))
        return
    if uuid.int == 0:
        raise client_error(ErrorCode.INVALID_UUID, str(uuid))
    if stmt.old is None:
        stmt.on_commit.append(lambda: _set_replica(schema, replica_id, uuid, True))
    elif Fields(stmt.old).uuid(1) != uuid:
        # Refused because appliers and relays identify an instance by its UUID.
        raise unsupported("Space _cluster", "updates of instance uuid")


def _check_replica_id(schema: Schema, replica_id: int) -> None:
    if replica_id == 0:
        raise client_error(ErrorCode.REPLICA_ID_IS_RESERVED, replica_id)
    if replica_id >= REPLICA_MAX:
        raise client_error(ErrorCode.REPLICA_MAX, replica_id)
    if replica_id == schema.instance_id and not schema.is_joining:
        raise client_error(ErrorCode.LOCAL_INSTANCE_ID_IS_READ_ONLY, replica_id)


def _set_replica(schema: Schema, replica_id: int, uuid: UUID, is_registered: bool) -> None:
    if is_registered:
        schema.replicas[replica_id] = uuid
    else:
        schema.replicas.pop(replica_id, None)
    for hook in schema.on_cluster_change:
        hook(replica_id, uuid, is_registered)
