"""Sends many rows to a running node over one connection, each as a request of its own.

```
in flight   up to `batch` requests wait for answers; then the sender waits too, so that a slow node slows down Spark
broken      the connection is made again for up to `timeout` seconds, and rows without an answer are sent again
refused     an error of the node about a row ends the writing
```

REPLACE and DELETE can be repeated without harm. If an INSERT finds a tuple that is equal in all fields, it counts as
done, because an earlier attempt has inserted it.
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
"""The errors of a node that is down or starting."""
_PAUSE: Final = 0.05
"""Seconds between two attempts."""
_HEADER: Final = struct.Struct(">BIBBBBBI").pack
"""Packs the size of a packet and its header, a map of two pairs with type and sync."""
_TYPES: Final = {
    "replace": int(RequestType.REPLACE),
    "insert": int(RequestType.INSERT),
    "delete": int(RequestType.DELETE),
}
_MAX_BYTES: Final = 16 << 20
"""The bytes in flight above which the sender waits, whatever the number of rows."""


class NodeClient:
    """A client for one task, in one event loop: call `write` any number of times, then `close`."""

    def __init__(self, uri: str, batch: int, timeout: float) -> None:
        self._uri = uri
        self._batch = batch
        self._timeout = timeout
        self._connection: PeerConnection | None = None

    async def connected(self) -> PeerConnection:
        """Return an open connection: the last one, or a new one within `timeout` seconds.

        Raises:
            BoxError: the connection fails.
        """
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
        """Send a request that may be repeated; return its data.

        Raises:
            BoxError: the node's error, or the connection fails.
        """
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
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    async def write(self, operation: str, space_id: int, key: KeyDef, rows: Iterator[bytes]) -> int:
        """Write tuples by REPLACE or INSERT, or delete keys; return their number.

        Raises:
            BoxError: the node's error about a row, or the connection fails.
        """
        sending = _Sending(self, operation, space_id, key, self._batch, self._timeout)
        await sending.run(rows)
        return sending.count


class _Sending:
    """Rows that are being sent; `_open` has those without an answer by sync."""

    def __init__(
        self, client: NodeClient, operation: str, space_id: int, key: KeyDef, batch: int, timeout: float
    ) -> None:
        self._client = client
        self._type = _TYPES[operation]
        self._space_id = space_id
        self._key = key
        # A body of two pairs (0x82): the space id (0x10), and the key (0x20) or the tuple (0x21).
        self._head = b"\x82\x10" + pack(space_id) + (b"\x20" if operation == "delete" else b"\x21")
        self._batch = batch
        self._timeout = timeout
        self._open: dict[int, bytes] = {}
        self._bytes = 0
        self._sync = 1 << 31
        """The last sync; the first one is above those of other requests on this connection."""
        self.count = 0

    async def run(self, rows: Iterator[bytes]) -> None:
        """Send all rows and wait for their answers."""
        # A quarter of the batch at a time, so that answers are read while most of the batch is in flight.
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
        """Do a step; if the connection breaks, send all rows without an answer again over a new one.

        Raises:
            BoxError: an error that is not temporary, or the connection cannot be made within `timeout` seconds.
        """
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
        # A packet: its size as a uint32 (ce), then the header, a map of two pairs (82): the type (key 0), and the sync
        # (key 1) as another uint32. The header has nine bytes.
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
        """Raise the node's error about a row, unless the row was inserted by an earlier attempt."""
        if error.code == ErrorCode.TUPLE_FOUND and self._type == RequestType.INSERT and await self._is_there(raw):
            return
        shown = repr(unpack(raw))  # cut, because a row may have megabytes
        text = f"{error.message} (row {shown[:200]}{'...' if len(shown) > 200 else ''})"
        raise BoxError(error.code, text, type=error.type)

    async def _is_there(self, raw: bytes) -> bool:
        fields = unpack(raw)
        # A body of three pairs (0x83): the space id, the limit (0x12) 1 and the key (0x20).
        body = b"\x83\x10" + pack(self._space_id) + b"\x12\x01\x20" + pack(self._key.extract_values(fields))
        other = NodeClient(self._client._uri, 1, self._timeout)
        try:
            found = await other.call(Row(RequestType.SELECT, body=body))
        finally:
            other.close()
        return bool(found) and found[0] == fields
