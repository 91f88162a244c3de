"""A connection to another instance: greeting, authentication, requests by their sync, and plain streams of rows.

```
connect     address -> socket -> greeting -> AUTH if the address or the caller names a user
request     a row with a sync of its own -> the reply of that sync; many may be on their way at once
stream      rows that answer no request here go to `read_row`, as a relay sends them
```

A failure of the socket ends every request that waits with the same error; after that the connection is dead.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from box.errors import BoxError, ErrorCode, client_error
from box.net.sockets import address_text
from box.net.uri import UNIX_HOST, Uri, parse, socket_error
from box.wire.auth import encode_auth
from box.wire.constants import GREETING_SIZE, TYPE_ERROR, RequestType
from box.wire.error import decode_error_body
from box.wire.greeting import Greeting, decode_greeting
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row, encode_packet

_MAX_QUEUED_ROWS = 16384
"""Rows nobody has read yet, above which the other side has to wait."""


def parse_address(address: str) -> Uri:
    """The address of a server; raises ILLEGAL_PARAMS for what is none."""
    uri = parse(address)
    if uri is None or uri.service is None:
        raise client_error(ErrorCode.ILLEGAL_PARAMS, f"invalid uri: {address}")
    return uri


class IprotoConnection(asyncio.Protocol):
    """One connection; made by `connect`. `schema_version` is that of the last reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, uri: Uri) -> None:
        self._loop = loop
        self.uri = uri
        self.schema_version = 0
        self.on_close: Callable[[BoxError], None] | None = None
        """Called once when the connection is gone, whoever ended it."""
        self._greeting: asyncio.Future[Greeting] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._last_sync = 0
        self._requests: dict[int, asyncio.Future[Row]] = {}
        self._pushes: dict[int, Callable[[Row], None]] = {}
        self._rows: deque[Row] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._error: BoxError | None = None

    # -- opening and closing ----------------------------------------------------------------------------------

    @classmethod
    async def connect(
        cls,
        loop: asyncio.AbstractEventLoop,
        address: str,
        *,
        timeout: float | None = None,
        user: str | None = None,
        password: str | None = None,
    ) -> IprotoConnection:
        """Connect and authenticate; `user` and `password` go before those of the address.

        Raises a SocketError, PROTOCOL (no such server), the server's refusal, or TIMEOUT after `timeout` seconds
        for everything together.
        """
        uri = parse_address(address)
        connection = cls(loop, uri)
        try:
            async with asyncio.timeout(timeout):
                await connection._open()
                login = user or uri.login
                if login is not None:
                    secret = password if user is not None else uri.password
                    await connection.authenticate(login, secret or "")
        except TimeoutError:
            connection.close()
            raise client_error(ErrorCode.TIMEOUT) from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open(self) -> None:
        uri = self.uri
        try:
            if uri.host == UNIX_HOST:
                await self._loop.create_unix_connection(lambda: self, uri.service)
            else:
                port = cast(int, uri.service)  # a service's name does as well
                await self._loop.create_connection(lambda: self, uri.host or "localhost", port)
        except OSError as error:
            raise socket_error(f"connect to {uri}", "fd -1", error.errno or 0) from error
        greeting = await self._greeting
        if greeting.protocol != "Binary":
            raise client_error(ErrorCode.PROTOCOL, f"Unsupported protocol: {greeting.protocol}")

    async def authenticate(self, user: str, password: str) -> None:
        """Become `user`; raises the server's refusal."""
        await self.request(Row(RequestType.AUTH, body=encode_auth(user, password, self.greeting.salt)))

    def close(self, error: BoxError | None = None) -> None:
        """End the connection; whoever waits gets `error`."""
        self._fail(error or client_error(ErrorCode.NO_CONNECTION))
        if self._transport is not None:
            self._transport.close()

    @property
    def greeting(self) -> Greeting:
        """What the server said first."""
        return self._greeting.result()

    @property
    def error(self) -> BoxError | None:
        """Why the connection is dead; None while it lives."""
        return self._error

    def _fail(self, error: BoxError) -> None:
        if self._error is not None:
            return
        self._error = error
        waiting: list[asyncio.Future[Row]] = list(self._requests.values())
        self._requests.clear()
        self._pushes.clear()
        for request in waiting:
            if not request.done():
                request.set_exception(error)
        if not self._greeting.done():
            self._greeting.set_exception(error)
            self._greeting.exception()  # whoever awaits it is told; nobody has to
        self._wake(self._reader)
        self._wake(self._drained)
        if self.on_close is not None:
            self.on_close(error)

    @staticmethod
    def _wake(future: asyncio.Future[None] | None) -> None:
        if future is not None and not future.done():
            future.set_result(None)

    # -- asyncio.Protocol -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            self._fail(socket_error("recv", "fd -1", exc.errno or 0))
        else:
            self._fail(socket_error("unexpected EOF when reading from socket", "fd -1"))

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        self._wake(self._drained)
        self._drained = None

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        try:
            if not self._greeting.done() and not self._take_greeting():
                return
            self._take_packets()
        except BoxError as error:
            self.close(error)

    def _take_greeting(self) -> bool:
        if len(self._buffer) < GREETING_SIZE:
            return False
        self._greeting.set_result(decode_greeting(self._buffer[:GREETING_SIZE]))
        self._buffer = self._buffer[GREETING_SIZE:]
        return True

    def _take_packets(self) -> None:
        data, pos, end = self._buffer, 0, len(self._buffer)
        while pos < end:
            start, stop = packet_bounds(data, pos)
            if stop > end:
                break
            self._take_row(decode_row(data[start:stop]))
            pos = stop
        self._buffer = data[pos:]
        if len(self._rows) > _MAX_QUEUED_ROWS and self._transport is not None:
            self._transport.pause_reading()

    def _take_row(self, row: Row) -> None:
        request = self._requests.get(row.sync)
        if request is None:
            self._rows.append(row)
            self._wake(self._reader)
            return
        self.schema_version = row.schema_version or self.schema_version
        if row.type == RequestType.CHUNK:
            on_push = self._pushes.get(row.sync)
            if on_push is not None:
                on_push(row)
            return
        del self._requests[row.sync]
        self._pushes.pop(row.sync, None)
        if request.done():
            return
        if row.type & TYPE_ERROR:
            request.set_exception(decode_error_body(row.type, row.body))
        else:
            request.set_result(row)

    # -- requests ---------------------------------------------------------------------------------------------

    def send(self, row: Row, on_push: Callable[[Row], None] | None = None) -> asyncio.Future[Row]:
        """Send a request under a new sync. The future gets the reply's row or its error as a BoxError.

        `on_push` is called with every out-of-band message that comes before the reply.
        """
        self._last_sync += 1
        row.sync = self._last_sync
        future: asyncio.Future[Row] = self._loop.create_future()
        if self._error is not None:
            future.set_exception(self._error)
            return future
        self._requests[row.sync] = future
        if on_push is not None:
            self._pushes[row.sync] = on_push
        self._write(encode_packet(row))
        return future

    async def request(
        self, row: Row, *, timeout: float | None = None, on_push: Callable[[Row], None] | None = None
    ) -> Row:
        """Send a request and wait for its reply. Raises its error, or TIMEOUT: the reply is then dropped."""
        future = self.send(row, on_push)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise client_error(ErrorCode.TIMEOUT) from None

    # -- streams ----------------------------------------------------------------------------------------------

    def write_row(self, row: Row) -> None:
        """Send a row as it is; its reply, if any, comes through `read_row`."""
        self.write_rows((row,))

    def write_rows(self, rows: tuple[Row, ...] | list[Row]) -> None:
        """Send rows with one write; raises the connection's error if it is dead."""
        if self._error is not None:
            raise self._error
        self._write(b"".join([encode_packet(row) for row in rows]))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the other side has taken enough of what was written."""
        if self._drained is not None:
            await asyncio.shield(self._drained)
        if self._error is not None:
            raise self._error

    async def read_row(self, timeout: float | None = None) -> Row:
        """The next row that answers no request; an error row raises its error.

        Raises the connection's error at the end of the stream, `timed out` after `timeout` seconds of silence.
        """
        while not self._rows:
            if self._error is not None:
                raise self._error
            await self._wait_for_row(timeout)
        row = self._rows.popleft()
        if not self._rows and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if row.type & TYPE_ERROR:
            raise decode_error_body(row.type, row.body)
        return row

    async def _wait_for_row(self, timeout: float | None) -> None:
        self._reader = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._reader
        except TimeoutError:
            raise BoxError(ErrorCode.SYSTEM, "timed out", type="TimedOut") from None
        finally:
            self._reader = None

    def detach(self) -> tuple[asyncio.Transport, bytes]:
        """Give the socket away: the transport, still with this protocol, and the input not looked at yet."""
        if self._transport is None or self._error is not None:
            raise self._error or client_error(ErrorCode.NO_CONNECTION)
        received, self._buffer = self._buffer, b""
        return self._transport, received

    @property
    def peer(self) -> str:
        """The address of the other side as text."""
        return "" if self._transport is None else address_text(self._transport.get_extra_info("peername"))

    @property
    def local(self) -> str:
        """The address of this side as text."""
        return "" if self._transport is None else address_text(self._transport.get_extra_info("sockname"))

    @property
    def socket(self) -> socket.socket | None:
        """The socket below, for its descriptor."""
        return None if self._transport is None else self._transport.get_extra_info("socket")
