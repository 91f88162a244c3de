"""Many rows to a running node over one connection, each as a request of its own and in its exact types.

```
in flight   up to `batch` requests without an answer; then the sender waits: a slow node holds Spark back
broken      the connection is made again for as long as `timeout` says, and what has no answer is sent again
refused     an error of the node about a row ends the writing
```

To send again is harmless for REPLACE and DELETE. An INSERT that finds its tuple there, equal in all fields, counts as
done: an earlier attempt has brought it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from box.data.codec import pack, unpack
from box.data.keydef import KeyDef
from box.errors import BoxError, ErrorCode
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.wire.constants import TYPE_ERROR, Key, RequestType
from box.wire.error import decode_error_body
from box.wire.row import Row

PASSING: Final = frozenset({ErrorCode.NO_CONNECTION, ErrorCode.SYSTEM, ErrorCode.LOADING, ErrorCode.TIMEOUT})
"""Errors of a node that is down or starts."""
_PAUSE: Final = 0.05
_HEADER: Final = struct.Struct(">BIBBBBBI").pack
_TYPES: Final = {
    "replace": int(RequestType.REPLACE),
    "insert": int(RequestType.INSERT),
    "delete": int(RequestType.DELETE),
}
_MAX_BYTES: Final = 16 << 20
"""Bytes in flight, whatever the number of rows."""


class NodeClient:
    """For one task, inside one loop: `write` as often as there are rows, then `close`."""

    def __init__(self, uri: str, batch: int, timeout: float) -> None:
        self._uri = uri
        self._batch = batch
        self._timeout = timeout
        self._connection: PeerConnection | None = None

    async def connected(self) -> PeerConnection:
        """A connection that lives; the last one, or a new one within `timeout` seconds. Raises what is in the way."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        while self._connection is None or self._connection.error is not None:
            try:
                network = SocketNetwork(loop)
                self._connection = await connect(loop, network, self._uri, timeout=self._timeout, keeps_rows=True)
            except BoxError as error:
                if error.code not in PASSING or loop.time() > deadline:
                    raise
                await asyncio.sleep(_PAUSE)
        return self._connection

    async def call(self, row: Row) -> Any:
        """A request that may be repeated, and its data."""
        while True:
            connection = await self.connected()
            try:
                reply = await connection.request(row, timeout=self._timeout)
            except BoxError as error:
                if error.code not in PASSING:
                    raise
                connection.close()
                await asyncio.sleep(_PAUSE)
            else:
                return unpack(reply.body).get(Key.DATA) if reply.body else None

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()

    async def write(self, operation: str, space_id: int, key: KeyDef, rows: Iterator[bytes]) -> int:
        """REPLACE, INSERT or DELETE of tuples or keys; returns how many. Raises the node's error about a row."""
        sending = _Sending(self, operation, space_id, key, self._batch, self._timeout)
        await sending.run(rows)
        return sending.count


class _Sending:
    """Rows on their way; `_open` are those without an answer, by their sync."""

    def __init__(
        self, client: NodeClient, operation: str, space_id: int, key: KeyDef, batch: int, timeout: float
    ) -> None:
        self._client = client
        self._type = _TYPES[operation]
        self._space_id = space_id
        self._key = key
        self._head = b"\x82\x10" + pack(space_id) + (b"\x20" if operation == "delete" else b"\x21")
        self._batch = batch
        self._timeout = timeout
        self._open: dict[int, bytes] = {}
        self._bytes = 0
        self._sync = 1 << 31
        """Above those of other requests of the connection."""
        self.count = 0

    async def run(self, rows: Iterator[bytes]) -> None:
        """Send all rows and wait for their answers."""
        while some := list(islice(rows, max(1, self._batch // 4))):
            while self._open and (len(self._open) + len(some) > self._batch or self._bytes > _MAX_BYTES):
                await self._with_patience(self._take_answers)
            fresh: dict[int, bytes] = {}
            for raw in some:
                self._sync += 1
                fresh[self._sync] = raw
                self._bytes += len(raw)
            self._open |= fresh
            await self._with_patience(partial(self._send, fresh))
        while self._open:
            await self._with_patience(self._take_answers)

    async def _with_patience(self, step: Callable[[], Any]) -> None:
        """Do a step; when the connection breaks send everything that is open over a new one instead."""
        await self._client.connected()
        try:
            await step()
            return
        except BoxError as error:
            if error.code not in PASSING:
                raise
        while True:
            (await self._client.connected()).close()
            await asyncio.sleep(_PAUSE)
            try:
                await self._send(dict(self._open))
                return
            except BoxError as error:
                if error.code not in PASSING:
                    raise

    async def _send(self, rows: dict[int, bytes]) -> None:
        connection = await self._client.connected()
        connection.write(b"".join([self._packet(sync, raw) for sync, raw in rows.items()]))
        await connection.drain()

    def _packet(self, sync: int, raw: bytes) -> bytes:
        size = 9 + len(self._head) + len(raw)
        return _HEADER(0xCE, size, 0x82, 0x00, self._type, 0x01, 0xCE, sync) + self._head + raw

    async def _take_answers(self) -> None:
        connection = await self._client.connected()
        for reply in await connection.read_rows(self._timeout):
            raw = self._open.get(reply.sync)
            if raw is None:
                continue
            if reply.type & TYPE_ERROR:
                await self._judge(decode_error_body(reply.type, reply.body), raw)
            del self._open[reply.sync]
            self._bytes -= len(raw)
            self.count += 1

    async def _judge(self, error: BoxError, raw: bytes) -> None:
        """Raise an error of the node about a row, unless the row is there already."""
        if error.code == ErrorCode.TUPLE_FOUND and self._type == RequestType.INSERT and await self._is_there(raw):
            return
        shown = repr(unpack(raw))
        text = f"{error.message} (row {shown[:200]}{'...' if len(shown) > 200 else ''})"
        raise BoxError(error.code, text, type=error.type)

    async def _is_there(self, raw: bytes) -> bool:
        fields = unpack(raw)
        body = b"\x83\x10" + pack(self._space_id) + b"\x12\x01\x20" + pack(self._key.extract_values(fields))
        other = NodeClient(self._client._uri, 1, self._timeout)
        try:
            found = await other.call(Row(RequestType.SELECT, body=body))
        finally:
            other.close()
        return bool(found) and found[0] == fields
