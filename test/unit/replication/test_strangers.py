"""Masters that break the protocol: a real node shows the error and skips no row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgpack
import pytest

from box.errors import ErrorCode
from box.replication.state import ApplierState
from box.schema.ids import SpaceId
from box.wire.constants import OwnKey, RequestType
from box.wire.messages import RaftRequest, raft_row, subscribe_response_row
from box.wire.row import Row
from box.wire.vclock import VClock
from test.support import until

from .cluster import Cluster, Member, cluster
from .test_parts import UUIDS, Script

STRANGER = UUIDS[0]


def subscribed(uuid: UUID, source: int = 2) -> Row:
    answer = subscribe_response_row(uuid, VClock())
    answer.replica_id = source
    return answer


async def fed(running: Cluster, member: Member, *rows: Row, source: int = 2, end: Callable[[], bool]) -> None:
    """Let a member follow a script that sends rows, until a condition is true."""
    answer = subscribed(member.node.state.replicaset_uuid, source)
    async with Script(f"{running.directory}/script", [[answer, *rows]]) as script:
        await member.replicate(f"unix/:{script.path}")
        await until(end, f"the end: {member.only_applier()}\n{member.log}")


def is_stopped(member: Member) -> bool:
    return member.only_applier().state is ApplierState.STOPPED


def raft(**fields: Any) -> Row:
    return raft_row(RaftRequest(**fields))


ROW = Row(RequestType.REPLACE, 2, 1, 1.0, body=msgpack.packb({0x10: 512, 0x21: [1, "one"]}))


@pytest.mark.parametrize(
    ("rows", "source", "code", "text"),
    [
        (
            [raft(term=5, vote=1, state=1)],
            0,
            ErrorCode.PROTOCOL,
            "Can't apply a Raft request from an instance without an ID",
        ),
        ([raft(term=0, state=1)], 2, None, "Invalid term or state"),
        ([raft(term=3, state=9)], 2, None, "Invalid term or state"),
        ([raft(term=3, vote=1, state=2)], 2, None, "Candidate should always vote for self and provide its vclock"),
        (
            [Row(RequestType.RAFT, group_id=1)],
            2,
            ErrorCode.INVALID_MSGPACK,
            "Invalid MsgPack - malformed raft request",
        ),
        ([Row(77, 2, 1, 1.0, body=b"\x80")], 2, ErrorCode.UNKNOWN_REQUEST_TYPE, "Unknown request type 77"),
        ([Row(RequestType.NOP, 32, 1, 1.0)], 2, ErrorCode.UNKNOWN_REPLICA, "Replica 32 is not registered with"),
        (
            [Row(RequestType.OK, body=msgpack.packb({int(OwnKey.AFTER): [1]}))],
            2,
            ErrorCode.INVALID_MSGPACK,
            "Invalid MsgPack - invalid VCLOCK",
        ),
    ],
)
def test_what_breaks_the_protocol_stops_the_applier(
    rows: list[Row], source: int, code: ErrorCode | None, text: str
) -> None:
    """After a violation of the protocol box.info.replication and the log have the error, and later rows are not
    applied.
    """

    async def main() -> None:
        async with cluster() as running:
            member = await running.master()
            await member.node.configure({"election_mode": "voter"})
            term = member.node.elections.raft.term
            await fed(running, member, *rows, ROW, source=source, end=lambda: is_stopped(member))
            error = member.only_applier().error
            assert error is not None
            assert error.message.startswith(text)
            assert code is None or error.code == code
            assert text in member.log
            assert member.rows() == []
            assert member.node.elections.raft.term == term

    asyncio.run(main())


def test_rows_of_another_replica_set() -> None:
    """Rows of another replica set are not requested: the reply to VOTE names its UUID."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.master()
            async with Script(f"{running.directory}/script", [[subscribed(UUIDS[3]), ROW]]) as script:
                await member.replicate(f"unix/:{script.path}")
                await until(lambda: member.only_applier().state is ApplierState.STOPPED)
            error = member.only_applier().error
            assert error is not None
            assert error.code == ErrorCode.REPLICASET_UUID_MISMATCH
            here = member.node.state.replicaset_uuid
            assert error.message == f"Replica set UUID mismatch: expected {UUIDS[3]}, got {here}"
            assert error.message in member.log
            assert member.rows() == []

    asyncio.run(main())


@pytest.mark.parametrize("is_registered", [False, True])
def test_votes_of_strangers_do_not_count(is_registered: bool) -> None:
    """A vote counts only if its sender's id is in `_cluster`."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.master(replication_synchro_quorum=2)
            await member.put([2, str(UUIDS[1])], space=SpaceId.CLUSTER)
            if is_registered:
                await member.put([3, str(STRANGER)], space=SpaceId.CLUSTER)
            await member.node.configure({"election_mode": "candidate", "election_timeout": 1000})
            raft_of = member.node.elections.raft
            await until(lambda: raft_of.vote == member.id)
            vote = raft(term=raft_of.term, vote=member.id, state=1)
            told = "RAFT: the vote of 3, which is not registered, is skipped"
            await fed(running, member, vote, source=3, end=lambda: told in member.log or raft_of.leader_id > 0)
            assert (raft_of.leader_id == member.id) == is_registered
            assert (told in member.log) != is_registered

    asyncio.run(main())
