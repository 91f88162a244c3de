"""JOIN, FETCH_SNAPSHOT, REGISTER and SUBSCRIBE of unknown clients on a real node, byte by byte."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.errors import ErrorCode
from box.schema.ids import SpaceId
from box.wire import messages
from box.wire.constants import GREETING_SIZE, RequestType
from box.wire.row import Row, encode_packet
from box.wire.vclock import VClock
from test.support import until
from test.unit.iproto.serving import RawClient, data_of, error_of

from .cluster import Member, cluster

STRANGER = UUID(int=77)
SYNC = 9
SELECT = Row(RequestType.SELECT, sync=5, body=pack({0x10: SpaceId.VSPACE, 0x12: 1, 0x20: []}))


def request_row(kind: RequestType, **fields: Any) -> Row:
    """Encode a request with an unknown UUID."""
    uuid = fields.pop("uuid", STRANGER)
    match kind:
        case RequestType.JOIN:
            row = messages.join_row(uuid)
        case RequestType.REGISTER:
            row = messages.register_row(uuid, VClock())
        case RequestType.FETCH_SNAPSHOT:
            row = messages.fetch_snapshot_row()
        case _:
            row = messages.subscribe_row(UUID(int=1), uuid, VClock(), **fields)
    row.sync = SYNC
    return row


@asynccontextmanager
async def stranger(member: Member) -> AsyncIterator[RawClient]:
    """Open a raw connection to the member as guest."""
    client = RawClient(*await asyncio.open_unix_connection(member.uri.removeprefix("unix/:")))
    client.greeting = await client.reader.readexactly(GREETING_SIZE)
    try:
        yield client
    finally:
        client.writer.close()


@pytest.mark.parametrize("kind", [RequestType.JOIN, RequestType.FETCH_SNAPSHOT, RequestType.REGISTER])
def test_a_refused_request_leaves_an_ordinary_connection(kind: RequestType) -> None:
    """A refused request gets an error with its sync, and later requests on the connection are served."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            async with stranger(member) as client:
                for _ in range(3):
                    client.send(encode_packet(request_row(kind)) + encode_packet(Row(RequestType.PING, sync=4)))
                    refusal = await client.read_row()
                    assert (error_of(refusal).code, refusal.sync) == (ErrorCode.ACCESS_DENIED, SYNC)
                    assert (await client.read_row()).sync == 4
                reply = await client.ask(encode_packet(SELECT))
                assert (reply.sync, len(data_of(reply))) == (5, 1)
            await until(lambda: not member.node.iproto.connections)

    asyncio.run(main())


def test_a_refused_subscription_ends_the_connection() -> None:
    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            async with stranger(member) as client:
                refusal = await client.ask(encode_packet(request_row(RequestType.SUBSCRIBE)))
                assert (error_of(refusal).code, refusal.sync) == (ErrorCode.ACCESS_DENIED, SYNC)
                assert await client.reader.read() == b""

    asyncio.run(main())


@pytest.mark.parametrize("version", [0, 0x020A00])
def test_metadata_of_a_join(version: int) -> None:
    """A JOIN that names a version gets the term and the limbo's owner before the rows; another one gets the rows alone."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            await member.grant_guest()
            await member.node.elections.promote()
            async with stranger(member) as client:
                row = messages.join_row(STRANGER, version)
                row.sync = SYNC
                client.send(encode_packet(row))
                rows = [await client.read_row() for _ in range(6)]
                assert [row.sync for row in rows] == [SYNC] * 6
                if not version:
                    assert {row.type for row in rows[1:]} == {RequestType.INSERT}
                    return
                kinds = [RequestType.OK, 71, RequestType.RAFT, RequestType.PROMOTE, 72, RequestType.INSERT]
                assert [row.type for row in rows] == kinds
                assert messages.decode_raft(rows[2]) == messages.RaftRequest(1, log_term=1)
                wanted = messages.SynchroRequest(RequestType.PROMOTE, 1, 0, 1, 1)
                assert messages.decode_synchro(rows[3]) == wanted

    asyncio.run(main())


@pytest.mark.parametrize("kind", [RequestType.JOIN, RequestType.FETCH_SNAPSHOT, RequestType.REGISTER])
def test_requests_go_on_after_one_that_succeeds(kind: RequestType) -> None:
    """After a JOIN that succeeds, the connection accepts SUBSCRIBE and any other request."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            await member.grant_guest()
            async with stranger(member) as client:
                client.send(encode_packet(request_row(kind)) + encode_packet(Row(RequestType.PING, sync=4)))
                rows = [await client.read_row()]
                while rows[-1].sync != 4:
                    rows.append(await client.read_row())
                assert {row.sync for row in rows[:-1]} == {SYNC}
                assert rows[-2].type == RequestType.OK
                reply = await client.ask(encode_packet(SELECT))
                assert reply.sync == 5

    asyncio.run(main())


def memory() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def send_until_refused(client: RawClient, total: int) -> int:
    """Send zeros until the server closes the connection; return how many were sent."""
    sent = 0
    try:
        while sent < total:
            client.send(bytes(1_000_000))
            await client.writer.drain()
            sent += 1_000_000
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize("is_subscriber", [False, True])
def test_a_giant_packet_is_refused_before_it_is_stored(is_subscriber: bool) -> None:
    """A packet that announces 2^40 bytes closes the connection before they are stored, of a client and of a subscriber."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            if is_subscriber:
                await member.grant_guest()
            async with stranger(member) as client:
                if is_subscriber:
                    row = request_row(RequestType.SUBSCRIBE, anon=True)
                    assert (await client.ask(encode_packet(row))).type == RequestType.OK
                else:
                    refusal = await client.ask(encode_packet(request_row(RequestType.JOIN)))
                    assert error_of(refusal).code == ErrorCode.ACCESS_DENIED
                before = memory()
                client.send(b"\xcf" + (2**40).to_bytes(8, "big"))
                sent = await send_until_refused(client, 200_000_000)
                assert sent < 200_000_000
                assert memory() - before < 30_000_000
            await until(lambda: "too big packet size in the header: 1099511627776" in member.log)
            await until(lambda: not member.node.iproto.connections)

    asyncio.run(main())


def test_a_join_that_is_left_in_the_middle() -> None:
    """A replica that leaves while it waits for its registration leaves no session and no consumer of logs behind."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            await member.grant_guest()
            member.inject("REPLICA_JOIN_DELAY", True)
            async with stranger(member) as client:
                client.send(encode_packet(request_row(RequestType.JOIN)))
                await until(lambda: 2 in member.node.replication.replicaset.by_id)
            member.inject("REPLICA_JOIN_DELAY", False)
            await until(lambda: not member.node.iproto.connections)
            await until(lambda: not member.node.checkpoints.collector.consumers)

    asyncio.run(main())


def test_a_replica_that_does_not_tell_who_it_is() -> None:
    """A request without a UUID counts as one with the nil UUID, which is unknown."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            await member.grant_guest()
            async with stranger(member) as client:
                refusal = await client.ask(encode_packet(Row(RequestType.SUBSCRIBE, sync=SYNC, body=pack({}))))
                error = error_of(refusal)
                assert (error.code, str(UUID(int=0)) in error.message) == (ErrorCode.TOO_EARLY_SUBSCRIBE, True)

    asyncio.run(main())


@pytest.mark.parametrize("id_filter", [frozenset(), frozenset({1})])
def test_the_first_heartbeat_follows_what_there_is(id_filter: frozenset[int]) -> None:
    """The first heartbeat follows the rows that were written before, sent or filtered; an up-to-date replica gets it at
    once.
    """

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start(replication_timeout=5)
            await member.grant_guest()
            await member.make_space()
            last = member.node.state.vclock[1]
            for vclock in (VClock(), VClock({1: last})):
                async with stranger(member) as client:
                    row = messages.subscribe_row(UUID(int=1), STRANGER, vclock, anon=True, id_filter=id_filter)
                    answer = await client.ask(encode_packet(row))
                    assert (answer.type, answer.replica_id) == (RequestType.OK, 1)
                    wanted = [] if id_filter else list(range(vclock[1] + 1, last + 1))
                    assert [(await client.read_row()).lsn for _ in wanted] == wanted
                    heartbeat = await client.read_row()
                    assert (heartbeat.type, heartbeat.lsn, heartbeat.tm > 0) == (RequestType.OK, 0, True)
                await until(lambda: not member.node.iproto.connections)

    asyncio.run(main())


def test_rows_that_come_while_others_are_sent_go_before_the_first_heartbeat() -> None:
    """The first heartbeat also follows rows that are written while others are sent: a replica with too large a lag is
    not in sync.
    """

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start(replication_timeout=5)
            await member.grant_guest()
            await member.make_space()
            last = member.node.state.vclock[1]
            member.inject("RELAY_TIMEOUT", 0.02)
            async with stranger(member) as client:
                await client.ask(encode_packet(messages.subscribe_row(UUID(int=1), STRANGER, VClock(), anon=True)))
                assert (await client.read_row()).lsn == 1
                await member.put([1])
                assert [(await client.read_row()).lsn for _ in range(last)] == list(range(2, last + 2))
                assert (await client.read_row()).type == RequestType.OK

    asyncio.run(main())


def test_a_delay_of_relays_holds_for_snapshots_too() -> None:
    """ERRINJ_RELAY_SEND_DELAY delays a join, too: the replica is not registered while no row can be sent."""

    async def main() -> None:
        async with cluster() as running:
            member = await running.member().start()
            await member.grant_guest()
            member.inject("RELAY_SEND_DELAY", True)
            async with stranger(member) as client:
                client.send(encode_packet(request_row(RequestType.JOIN)))
                await until(lambda: "joining replica" in member.log)
                await member.make_space()
                for key in range(100):
                    await member.put([key])
                    await asyncio.sleep(0)
                assert "initial data sent" not in member.log
                member.inject("RELAY_SEND_DELAY", False)
                await until(lambda: 2 in member.node.replication.replicaset.by_id)

    asyncio.run(main())
