"""What one client costs the others: unsent replies are limited, turns are short, large replies come in pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.iproto.connection import ServerConnection
from box.iproto.output import LargeReply, Output
from box.iproto.server import IprotoServer
from box.iproto.stop import Stop
from box.wire.constants import GREETING_SIZE, RequestType
from box.wire.row import Row
from test.support import until

from .fakes import FakeNode
from .serving import SELECT_1, RawClient, body, client, data_of, request, row, run, serving

SELECT_ALL = {"limit": 0xFFFFFFFF, "key": []}


def fill(node: FakeNode, count: int, size: int = 10) -> None:
    for number in range(count):
        node.space.rows[number] = pack([number, "x" * size])


def selected(node: FakeNode) -> int:
    return node.stats.show_box()["SELECT"]["total"]


def unsent(server: IprotoServer) -> int:
    """Return the bytes of replies that the server keeps."""
    return sum(
        connection._output.size
        + (connection._transport.get_write_buffer_size() if connection._transport else 0)
        + sum(len(large._rows) * 8 for large in connection._output.larges if isinstance(large, LargeReply))
        for connection in server.connections
    )


@asynccontextmanager
async def deaf(address: str) -> AsyncIterator[RawClient]:
    """A client that does not read until it is told to."""
    raw = await RawClient.connect(address)
    raw.writer.transport.pause_reading()
    try:
        yield raw
    finally:
        raw.writer.transport.abort()


def test_a_client_that_never_reads_is_not_served() -> None:
    """100,000 requests for 30 KB each, of a client that does not read, take less than a megabyte; later all are
    answered.
    """

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw:
            fill(node, 300, 90)
            one = request(RequestType.SELECT, 1000, body(**SELECT_ALL))
            raw.send(one * 2000)
            (connection,) = server.connections
            most = 0
            before = -1
            while before != selected(node) or not connection._stopped & Stop.OUTPUT:
                before = selected(node)
                most = max(most, unsent(server))
                await asyncio.sleep(0.02)
            assert 0 < selected(node) < 1500
            assert most < 1_000_000
            raw.writer.transport.resume_reading()
            for _ in range(2000):
                assert len(data_of(await raw.read_row())) == 300
            assert selected(node) == 2000
            assert not connection._stopped

    run(scenario())


def test_a_quiet_client_is_answered_before_the_queue() -> None:
    """A single request is answered at once while others have seconds of work queued."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            original = node.dml.select

            def slow(*arguments: Any) -> list[bytes]:
                time.sleep(0.0002)  # the processor's time of a costly request
                return original(*arguments)

            node.dml.select = slow  # type: ignore[method-assign]
            crowd = [await RawClient.connect(address) for _ in range(10)]
            async with client(address) as quiet:
                for raw in crowd:
                    raw.send(request(RequestType.SELECT, 1, body(**SELECT_1)) * 1000)
                await until(lambda: selected(node) > 100)
                waits = []
                for _ in range(20):
                    begin = selected(node)
                    await quiet.request(Row(RequestType.PING))
                    waits.append(selected(node) - begin)
                assert sorted(waits)[10] < 100
                assert selected(node) < 8000
                shares = sorted(connection._served for connection in server.connections)[1:]
                assert shares[0] > shares[-1] / 3
            for raw in crowd:
                raw.writer.transport.abort()

    run(scenario())


def test_a_large_reply_is_of_one_moment() -> None:
    """A large reply has the rows of one moment, and other clients are served and write while it is sent."""

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw, client(address) as other:
            fill(node, 200_000, 20)
            raw.send(request(RequestType.SELECT, 5, body(**SELECT_ALL)) + request(RequestType.PING, 6))
            await until(lambda: any(connection._output.larges for connection in server.connections))
            assert data_of(await other.request(row(RequestType.REPLACE, tuple=[7, "new"]))) == [[7, "new"]]
            node.space.rows.clear()
            raw.writer.transport.resume_reading()
            async with asyncio.timeout(20):
                size = int.from_bytes((await raw.reader.readexactly(5))[1:], "big")
                unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
                unpacker.feed(await raw.reader.readexactly(size))
            header, found = unpacker.unpack(), unpacker.unpack()
            assert header[1] == 5
            assert found[0x30] == [[number, "x" * 20] for number in range(200_000)]
            assert (await raw.read_row()).sync == 6
            assert (await raw.ask(request(RequestType.PING, 7))).sync == 7

    run(scenario())


def test_rows_are_found_in_turns() -> None:
    """While the rows of a large reply are still read in slices, others are served; an error becomes an error reply."""

    class Long:
        """A read that gives a thousand rows a step."""

        position_of = None

        def __init__(self, error: BoxError | None = None) -> None:
            self.error = error
            self.steps = 0

        def take(self, rows: list[bytes]) -> bool:
            self.steps += 1
            time.sleep(0.0005)
            rows += [pack([self.steps, number]) for number in range(1000)]
            if self.steps == 50 and self.error is not None:
                raise self.error
            return self.steps < 100

        def close(self) -> None:
            self.is_closed = True

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as reader, client(address) as other:
            for error in (None, client_error(ErrorCode.NO_SUCH_SPACE, "gone")):
                long = Long(error)
                node.dml.begin_long = lambda *arguments, long=long: long  # type: ignore[method-assign]
                answer = reader.send(row(RequestType.SELECT, **SELECT_ALL))
                await until(lambda long=long: long.steps > 0)
                await other.request(Row(RequestType.PING))
                assert long.steps < 50
                if error is None:
                    assert data_of(await answer) == [[step, number] for step in range(1, 101) for number in range(1000)]
                else:
                    with pytest.raises(BoxError, match="Space 'gone' does not exist"):
                        await answer
                await reader.request(Row(RequestType.PING))

    run(scenario())


def test_large_replies_follow_each_other() -> None:
    """Two large replies at once, with delayed requests, are sent one after the other."""

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw:
            fill(node, 20_000, 20)
            (connection,) = server.connections
            for sync in (1, 2):
                connection.reply_rows(sync, list(node.space.rows.values()))
            raw.writer.transport.resume_reading()
            for sync in (1, 2):
                reply = await raw.read_row()
                assert (reply.sync, len(data_of(reply))) == (sync, 20_000)
            await until(lambda: not connection._stopped)

    run(scenario())


def test_a_client_leaves_in_the_middle_of_a_large_reply() -> None:
    async def scenario() -> None:
        async with serving() as (node, server, address):
            fill(node, 200_000, 20)
            async with deaf(address) as raw:
                raw.send(request(RequestType.SELECT, 5, body(**SELECT_ALL)))
                await until(lambda: any(connection._output.larges for connection in server.connections))
                (connection,) = server.connections
            await until(lambda: not server.connections and not connection._output.larges)

    run(scenario())


def test_readahead_is_the_size_of_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`readahead` is the size of a read and may change; a large packet is read in larger pieces."""
    sizes: list[int] = []
    original = ServerConnection.data_received

    def data_received(connection: ServerConnection, data: bytes) -> None:
        sizes.append(len(data))
        original(connection, data)

    monkeypatch.setattr(ServerConnection, "data_received", data_received)

    async def scenario() -> None:
        async with serving() as (_, server, address):
            raw = await RawClient.connect(address)
            for readahead in (128, 1000, 16320):
                server.set_readahead(readahead)
                sizes.clear()
                raw.send(b"".join(request(RequestType.PING, sync) for sync in range(3000)))
                assert [(await raw.read_row()).sync for _ in range(3000)] == list(range(3000))
                assert max(sizes) == readahead
            sizes.clear()
            big = "x" * 3_000_000
            reply = await raw.ask(request(RequestType.REPLACE, 1, body(tuple=[1, big])))
            assert data_of(reply) == [[1, big]]
            assert 16320 < max(sizes) <= 262144
            await raw.close()

    run(scenario())


def test_room_goes_to_those_who_need_it() -> None:
    """Of clients that wait for `net_msg_max`, one that leaves and one without requests delay nobody."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            server.set_limit(2)
            node.dml.is_slow = True
            async with client(address) as busy:
                writes = [busy.send(row(RequestType.REPLACE, tuple=[key])) for key in range(3)]
                await until(lambda: server.in_flight == 3)
                others = [await RawClient.connect(address) for _ in range(4)]
                for raw in others:
                    raw.send(request(RequestType.PING, 1))
                await until(lambda: len(server._waiting) == 4)
                others[0].writer.transport.abort()
                node.dml.waiting[0].complete()
                for raw in others[1:]:
                    assert (await raw.read_row()).sync == 1
                assert server.in_flight == 2
                await until(lambda: len(server.connections) == 4)
                for commit in node.dml.waiting[1:]:
                    commit.complete()
                for write in writes:
                    await write
                for raw in others[1:]:
                    await raw.close()
            warnings = [line for line in node.log.lines if "net_msg_max limit is reached" in line]
            assert len(warnings) == 4

    run(scenario())


def test_the_log_is_not_flooded_by_a_limit() -> None:
    """The warning about the limit is logged ten times in five seconds at most."""

    async def scenario() -> None:
        async with serving() as (node, server, address), client(address) as connection:
            server.set_limit(2)
            node.dml.is_slow = True
            writes = [connection.send(row(RequestType.REPLACE, tuple=[key])) for key in range(100)]
            for done in range(100):
                await until(lambda done=done: len(node.dml.waiting) > done)
                node.dml.waiting[done].complete()
            for write in writes:
                await write
            assert len([line for line in node.log.lines if "limit is reached" in line]) == 10

    run(scenario())


def test_input_before_the_end_is_answered() -> None:
    """A client may send everything, close its sending side and read all replies."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            fill(node, 300, 90)
            raw = await RawClient.connect(address)
            raw.send(request(RequestType.SELECT, 1, body(**SELECT_ALL)) * 500)
            raw.writer.write_eof()
            data = await raw.reader.read()
            assert len(data) == 500 * len(await reply_to(address, request(RequestType.SELECT, 1, body(**SELECT_ALL))))
            await raw.close()

    run(scenario())


async def reply_to(address: str, data: bytes) -> bytes:
    """Return the bytes of one reply."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await reader.readexactly(GREETING_SIZE)
    writer.write(data)
    head = await reader.readexactly(5)
    rest = await reader.readexactly(int.from_bytes(head[1:], "big"))
    writer.close()
    return head + rest


def test_replies_gather_over_turns_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies gather over several turns, up to a hundred milliseconds, and leave in a few writes."""
    now = 100.0
    written: list[float] = []
    write = Output._write

    def tell(output: Output, data: bytes) -> None:
        written.append(now)
        write(output, data)

    async def scenario() -> None:
        async with serving() as (node, server, address):
            original = node.dml.select

            def costly(*arguments: Any) -> list[bytes]:
                nonlocal now
                now += 0.0001
                return original(*arguments)

            node.dml.select = costly  # type: ignore[method-assign]
            server.turns.clock = lambda: now
            raw = await RawClient.connect(address)
            monkeypatch.setattr(Output, "_write", tell)
            raw.send(request(RequestType.SELECT, 1, body(**SELECT_1)) * 1000)
            for _ in range(1000):
                assert not (await raw.read_row()).type & 0x8000
            assert now == pytest.approx(100.1)
            assert len(written) <= 20
            pauses = [after - before for before, after in pairwise([100.0, *written])]
            assert max(pauses) <= 0.012  # the time to gather and two turns
            raw.writer.close()

    run(scenario())
