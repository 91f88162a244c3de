"""The connection to another instance, with a fake socket."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import msgpack
import pytest
import uvloop

from box.errors import BoxError, client_error
from box.errors import ErrorCode as Code
from box.journal.rows import insert_body_prefix
from box.net.peer_connection import DetachedSocket, PeerConnection
from box.net.uri import address_of
from box.wire.constants import RequestType
from box.wire.error import raise_if_error
from box.wire.greeting import encode_greeting
from box.wire.reply import reply_error, reply_ok
from box.wire.row import Row, decode_row, encode_packet
from box.wire.tuple_run import TupleRun

GREETING = encode_greeting(UUID(int=1), bytes(32))


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        self.sent = b""
        self.is_reading_paused = False
        self.is_closed = False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None


def opened(*, keeps_rows: bool = True) -> tuple[PeerConnection, FakeTransport]:
    connection, transport = PeerConnection(asyncio.get_running_loop(), keeps_rows=keeps_rows), FakeTransport()
    connection.connection_made(transport)
    connection.data_received(GREETING)
    return connection, transport


def row(lsn: int, **fields: Any) -> Row:
    return Row(RequestType.REPLACE, 1, lsn, 1.0, body=b"\x80", **fields)


async def fails(work: Any) -> BoxError:
    with pytest.raises(BoxError) as failure:
        await work
    return failure.value


def test_rows_are_read_one_by_one_or_together() -> None:
    async def main() -> None:
        connection, _ = opened()
        connection.data_received(b"".join(encode_packet(row(lsn)) for lsn in range(1, 40)))
        assert await connection.read_row() == decode_row(encode_packet(row(1))[5:])
        rest = await connection.read_rows()
        assert [each.lsn for each in rest] == list(range(2, 40))
        connection.put_back(rest[-2:])
        assert [each.lsn for each in await connection.read_rows()] == [38, 39]

    asyncio.run(main())


def test_replies_go_to_their_requests_and_rows_to_the_reader() -> None:
    """Replies in any order go to their requests and rows to the reader; an error fails its request; a second reply is
    dropped.
    """

    async def main() -> None:
        connection, transport = opened()
        first, second, third = (connection.send(Row(RequestType.PING)) for _ in range(3))
        assert [decode_row(transport.sent[at + 5 : at + 10]).sync for at in (0, 10, 20)] == [1, 2, 3]
        refusal = reply_error(1, 7, client_error(Code.READONLY))
        connection.data_received(reply_ok(3, 7) + encode_packet(row(5)) + refusal + reply_ok(2, 8))
        assert (third.result().sync, second.result().sync) == (3, 2)
        assert (await fails(first)).code == Code.READONLY
        assert connection.schema_version == 8
        connection.data_received(refusal)
        rows = await connection.read_rows()
        assert [each.lsn for each in rows] == [5, 0]
        with pytest.raises(BoxError, match="read-only"):
            raise_if_error(rows[1])

    asyncio.run(main())


def test_a_client_keeps_no_rows() -> None:
    """A client drops rows and late replies, so that they do not fill memory."""

    async def main() -> None:
        connection, transport = opened(keeps_rows=False)
        for _ in range(100):
            connection.data_received(reply_ok(99, 1) * 1000)
        assert (len(connection._rows), transport.is_reading_paused) == (0, False)
        ping = connection.send(Row(RequestType.PING))
        connection.data_received(reply_ok(1, 1))
        assert ping.done()

    asyncio.run(main())


def test_the_end() -> None:
    """Rows before the end are read, then reader, writer and requests get the error."""

    async def main() -> None:
        connection, _ = opened()
        ends: list[BoxError] = []
        connection.on_close = ends.append
        waiting = connection.send(Row(RequestType.PING))
        connection.data_received(encode_packet(row(1)))
        connection.connection_lost(None)
        assert (await connection.read_row()).lsn == 1
        error = await fails(connection.read_row())
        assert (error.type, error.message) == (
            "SocketError",
            "unexpected EOF when reading from socket, called on fd -1",
        )
        with pytest.raises(BoxError):
            connection.write_rows([row(1)])
        assert [await fails(waiting), await fails(connection.drain()), ends[0]] == [error] * 3
        connection.close()
        assert ends == [error]

    asyncio.run(main())


def test_silence_and_garbage() -> None:
    """A read timeout closes nothing; after garbage or a too large size the connection is closed."""

    async def main() -> None:
        connection, transport = opened()
        silence = await fails(connection.read_row(0.01))
        assert (silence.type, silence.errno > 0) == ("TimedOut", True)
        assert connection.error is None
        connection.data_received(encode_packet(row(1)) + b"\xcf" + (2**40).to_bytes(8, "big") + bytes(10_000))
        assert (await connection.read_row()).lsn == 1
        error = await fails(connection.read_row())
        assert error.message == f"Invalid MsgPack - too big packet size in the header: {2**40}"
        connection.data_received(bytes(1_000_000))
        assert (connection._input.size, transport.is_closed) == (0, True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("packet", "count"),
    [(encode_packet(row(1)), 25_000), (encode_packet(Row(0, body=b"\x81\x21\xc5\x40\x00" + bytes(0x4000))), 38)],
)
def test_a_fast_writer_is_held(packet: bytes, count: int) -> None:
    """Too many unread rows or bytes pause the transport until all are read."""

    async def main() -> None:
        connection, transport = opened()
        connection.data_received(packet * (count // 2))
        assert not transport.is_reading_paused
        connection.data_received(packet * (count // 2))
        assert transport.is_reading_paused
        await connection.read_row()
        assert transport.is_reading_paused
        found = 1
        while found < count:
            assert transport.is_reading_paused
            found += len(await connection.read_rows())
        assert found == count
        assert not transport.is_reading_paused

    asyncio.run(main())


def test_a_turn_does_not_bring_megabytes() -> None:
    """A turn reads a limited number of bytes, though a C loop would go on reading."""
    packets = encode_packet(row(1)) * 400_000

    async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING + packets)
        await writer.drain()

    async def main() -> int:
        server = await asyncio.start_server(send, "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        port = server.sockets[0].getsockname()[1]
        _, connection = await loop.create_connection(lambda: PeerConnection(loop, keeps_rows=True), "127.0.0.1", port)
        most, until = 0, loop.time() + 30
        while connection._input.size < 400_000 and loop.time() < until:
            await asyncio.sleep(0)
        for _ in range(100):
            most = max(most, connection._input.size)
            await asyncio.sleep(0.001)
        connection.close()
        server.close()
        return most

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert 400_000 <= runner.run(main()) < 1_200_000


def test_rows_come_in_turns() -> None:
    """Rows that came together are decoded a turn's worth at a time, and others run in between."""

    async def main() -> None:
        connection, _ = opened()
        connection.data_received(b"".join(encode_packet(row(lsn)) for lsn in range(1, 5001)) + b"\xc1")
        turns, found = 0, []

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count_turns())
        while len(found) < 5000:
            rows = await connection.read_rows()
            assert len(rows) <= 256
            found += [each.lsn for each in rows]
        assert found == list(range(1, 5001))
        assert turns > 15
        assert (await fails(connection.read_rows())).message == "Invalid MsgPack - packet length"
        counting.cancel()

    asyncio.run(main())


def test_a_turn_brings_one_run_of_tuples() -> None:
    """A turn gives at most one run of tuples, however often the socket is read in it."""

    async def main() -> None:
        connection, _ = opened()
        connection.begin_snapshot()
        tuples = [msgpack.packb([number]) for number in range(3000)]
        packets = [encode_packet(Row(RequestType.INSERT, body=insert_body_prefix(512) + raw)) for raw in tuples]
        for start in range(0, 3000, 500):
            connection.data_received(b"".join(packets[start : start + 500]))
        found: list[bytes] = []
        while len(found) < 3000:
            (run,) = await connection.read_tuples()
            assert isinstance(run, TupleRun)
            assert len(run.tuples) <= 2048
            found += run.tuples
        assert found == tuples

    asyncio.run(main())


def test_a_large_packet_does_not_hold_itself() -> None:
    """An incomplete large packet does not count as unread, so it does not pause itself."""

    async def main() -> None:
        connection, transport = opened()
        size = 6_000_000
        packet = encode_packet(Row(0, body=b"\x81\x21\xc6" + size.to_bytes(4, "big") + bytes(size)))
        connection.data_received(encode_packet(row(1)))
        await connection.read_rows()
        for start in range(0, len(packet), 1_000_000):
            connection.data_received(packet[start : start + 1_000_000])
            assert not transport.is_reading_paused
        assert len((await connection.read_row()).body) > size

    asyncio.run(main())


def test_writers_wait_for_a_slow_reader() -> None:
    async def main() -> None:
        connection, _ = opened()
        connection.pause_writing()
        waits = [asyncio.ensure_future(connection.drain()) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.sleep(0)
        assert not waits[1].done()
        connection.resume_writing()
        await waits[1]
        await connection.drain()

    asyncio.run(main())


def test_a_socket_that_is_lent() -> None:
    """A lent socket comes and goes with its unread input and its full output."""

    async def main() -> None:
        transport = FakeTransport()
        transport.pause_reading()
        connection = PeerConnection(asyncio.get_running_loop(), keeps_rows=True)
        connection.take_over(DetachedSocket(transport, b"unread", True))
        assert (transport.protocol, transport.is_reading_paused) == (connection, True)
        wait = asyncio.ensure_future(connection.drain())
        await asyncio.sleep(0)
        assert not wait.done()
        connection.resume_writing()
        await wait
        connection.write_rows([row(1)])
        assert connection.give_back() == DetachedSocket(transport, b"unread", False)
        assert (transport.is_closed, connection.error is None) == (False, False)

    asyncio.run(main())


def test_a_socket_that_is_read_from() -> None:
    """Input that came before a connection took the socket is read first."""

    async def main() -> None:
        transport = FakeTransport()
        transport.pause_reading()
        connection = PeerConnection(asyncio.get_running_loop(), keeps_rows=True)
        packet = encode_packet(row(1))
        connection.take_over(DetachedSocket(transport, packet[:7], False))
        connection.start_reading()
        assert not transport.is_reading_paused
        connection.data_received(packet[7:])
        assert (await connection.read_row()).lsn == 1
        assert connection.give_back().received == b""
        assert transport.is_reading_paused

    asyncio.run(main())


def test_addresses_for_the_log() -> None:
    assert address_of("user:secret@host:3301") == "host:3301"
    assert address_of("3301") == "localhost:3301"
    assert address_of("user:secret@unix/:/tmp/x.sock") == "unix/:/tmp/x.sock"


def test_a_greeting_that_nobody_waits_for_any_more() -> None:
    """A greeting that arrives just after its timeout is dropped."""

    async def main() -> None:
        connection = PeerConnection(asyncio.get_running_loop(), keeps_rows=True)
        connection._greeting.cancel()
        connection.data_received(encode_greeting(UUID(int=1), bytes(32)))
        assert connection.error is None

    asyncio.run(main())
