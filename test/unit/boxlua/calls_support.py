"""What tests of called functions share: requests, a client that pipelines, and the general path without waves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import pytest

from box.embed import LuaInstance
from box.iproto.served_calls import ServedCalls
from box.wire.constants import GREETING_SIZE, RequestType
from box.wire.error import decode_error_body
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row, encode_packet


def call(name: str, *arguments: Any) -> Row:
    """Make a CALL of a function by its name."""
    return Row(RequestType.CALL, body=msgpack.packb({0x22: name, 0x21: list(arguments)}))


def evaluate(text: str, *arguments: Any) -> Row:
    """Make an EVAL of a text."""
    return Row(RequestType.EVAL, body=msgpack.packb({0x27: text, 0x21: list(arguments)}))


def numbered(rows: list[Row]) -> list[Row]:
    """Give requests the syncs from 1 on."""
    return [Row(row.type, sync=number, body=row.body) for number, row in enumerate(rows, 1)]


class Client:
    """A client that sends many requests at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._data = b""

    @classmethod
    async def connect(cls, instance: LuaInstance) -> Client:
        """Connect to the address where an instance listens."""
        host, port = str(instance.node.iproto.bound_address).rsplit(":", 1)
        client = cls(*await asyncio.open_connection(host, int(port)))
        await client._reader.readexactly(GREETING_SIZE)
        return client

    async def ask(self, rows: list[Row]) -> list[bytes]:
        """Return all packets that answer these requests, in order, pushed messages included."""
        self._writer.write(b"".join(encode_packet(row) for row in rows))
        replies: list[bytes] = []
        left = len(rows)
        while left:
            while len(self._data) < 5 or packet_bounds(self._data, 0)[1] > len(self._data):
                more = await asyncio.wait_for(self._reader.read(1 << 20), 20)
                assert more, "the server has closed the connection"
                self._data += more
            start, stop = packet_bounds(self._data, 0)
            replies.append(self._data[start:stop])
            left -= decode_row(replies[-1]).type != RequestType.CHUNK
            self._data = self._data[stop:]
        return replies

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@contextmanager
def general_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve each call by itself, without waves."""
    with monkeypatch.context() as patch:
        patch.setattr(ServedCalls, "serve", lambda self, connection, data, pos, deadline: (pos, 0))
        yield


def shown(packet: bytes) -> Any:
    """Return what a reply says: its sync and schema version, then the results or the parts of the error."""
    row = decode_row(packet)
    if row.type & 0x8000:
        error = decode_error_body(row.type, row.body)
        return row.sync, row.schema_version, row.type, error.message, error.type, error.file, error.line
    return row.sync, row.schema_version, row.type, row.body
