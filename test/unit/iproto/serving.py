"""A server with a fake node on a free port, and raw sockets to talk to it byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import uvloop

from box.data.codec import pack
from box.errors import BoxError
from box.iproto.server import IprotoServer
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.wire.constants import GREETING_SIZE, Key
from box.wire.error import decode_error_body
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row
from test.support import until

from .fakes import SPACE_ID, FakeNode

SPACE = {int(Key.SPACE_ID): SPACE_ID}


def body(**fields: Any) -> bytes:
    """Encode a body with the space and the named keys."""
    return pack(SPACE | {int(Key[name.upper()]): value for name, value in fields.items()})


def row(request_type: int, **fields: Any) -> Row:
    return Row(request_type, body=body(**fields))


SELECT_1 = {"limit": 10, "key": [1]}


def error_of(reply: Row) -> BoxError:
    assert reply.type & 0x8000
    return decode_error_body(reply.type, reply.body)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a test on the kind of loop that nodes use."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario)


@asynccontextmanager
async def serving(address: str = "127.0.0.1:0") -> AsyncIterator[tuple[FakeNode, IprotoServer, str]]:
    """Yield the fake node, its server and the address."""
    node = FakeNode(asyncio.get_running_loop())
    server = IprotoServer(node)
    await server.listen(address)
    bound = server.bound_address or ""
    try:
        yield node, server, address if bound.startswith("unix") else bound
    finally:
        await server.close()
        await until(lambda: not server.connections)


@asynccontextmanager
async def client(address: str, **options: Any) -> AsyncIterator[PeerConnection]:
    """Yield a connected client."""
    loop = asyncio.get_running_loop()
    connection = await connect(loop, SocketNetwork(loop), address, timeout=5, **options)
    try:
        yield connection
    finally:
        connection.close()


class RawClient:
    """A client that sends bytes unchanged and reads packets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.greeting = b""

    @classmethod
    async def connect(cls, address: str) -> RawClient:
        host, _, port = address.rpartition(":")
        raw = cls(*await asyncio.open_connection(host, int(port)))
        raw.greeting = await raw.reader.readexactly(GREETING_SIZE)
        return raw

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read_row(self) -> Row:
        async with asyncio.timeout(5):
            head = await self.reader.readexactly(5)
            start, stop = packet_bounds(head, 0)
            return decode_row(await self.reader.readexactly(stop - start))

    async def ask(self, data: bytes) -> Row:
        self.send(data)
        return await self.read_row()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def packet(header: dict[int, Any], body: dict[int, Any] | bytes | None = None) -> bytes:
    """Encode a packet in a form that no usual client sends."""
    raw = msgpack.packb(header) + (body if isinstance(body, bytes) else b"" if body is None else msgpack.packb(body))
    return b"\xce" + len(raw).to_bytes(4, "big") + raw


def request(request_type: int, sync: int, body: dict[int, Any] | bytes | None = None) -> bytes:
    """Encode a request in the form that usual clients send."""
    return packet({0: request_type, 1: sync}, body)


def data_of(row: Row) -> Any:
    """Return the decoded data of a reply."""
    return msgpack.unpackb(row.body, strict_map_key=False)[Key.DATA]
