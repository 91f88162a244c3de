"""Asks a running node for its replica set, its vclock and the definitions of its spaces."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgpack

from box.data.codec import pack, unpack
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.spark.definitions import INDEX_ID, SPACE_ID, Definitions
from box.wire.ballot import Ballot
from box.wire.constants import Key, RequestType
from box.wire.messages import vote_row
from box.wire.row import Row
from box.wire.vclock import VClock

_SCHEMA_ID: Final = 272
"""The id of `_schema`."""
_VIEWS: Final = {SPACE_ID: 281, INDEX_ID: 289}
"""The ids of the views `_vspace` and `_vindex`, which every user may read; they show the definitions a user may see."""
_ALL: Final = 2
"""The iterator type ALL; 0 is EQ."""


@dataclass(slots=True)
class NodeFacts:
    """What a node tells a client: its replica set, its vclock, the oldest vclock from which it has rows, and
    definitions."""

    replicaset: UUID
    vclock: VClock
    oldest: VClock
    definitions: Definitions


async def _select(connection: PeerConnection, space_id: int, key: list[Any], timeout: float) -> list[Any]:
    """Return the decoded tuples of a space."""
    fields = {
        Key.SPACE_ID: space_id,
        Key.INDEX_ID: 0,
        Key.LIMIT: 0xFFFFFFFF,
        Key.OFFSET: 0,
        Key.ITERATOR: 0 if key else _ALL,
    }
    body = msgpack.packb({int(name): value for name, value in fields.items()} | {int(Key.KEY): key})
    reply = await connection.request(Row(RequestType.SELECT, body=body), timeout=timeout)
    tuples: list[Any] = unpack(reply.body).get(Key.DATA, [])
    return tuples


async def ask_facts(connection: PeerConnection, timeout: float) -> NodeFacts:
    ballot = Ballot.decode((await connection.request(vote_row(), timeout=timeout)).body)
    cluster = await _select(connection, _SCHEMA_ID, ["cluster"], timeout)
    if not cluster:  # from Tarantool 3.0 on it has another key
        cluster = await _select(connection, _SCHEMA_ID, ["replicaset_uuid"], timeout)
    definitions = Definitions()
    for space_id, view_id in _VIEWS.items():
        for fields in await _select(connection, view_id, [], timeout):
            definitions.put(space_id, pack(fields))
    return NodeFacts(UUID(str(cluster[0][1])) if cluster else UUID(int=0), ballot.vclock, ballot.gc_vclock, definitions)


async def look_at(uri: str, timeout: float) -> NodeFacts:
    """Connect to a node and return its facts.

    Raises:
        BoxError: the connection fails, or ACCESS_DENIED.
    """
    loop = asyncio.get_running_loop()
    connection = await connect(loop, SocketNetwork(loop), uri, timeout=timeout)
    try:
        return await ask_facts(connection, timeout)
    finally:
        connection.close()
