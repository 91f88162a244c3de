"""Rows over a connection: what an applier reads and a relay writes after the request/response phase is over.

A packet is MP_UINT length, header map, body map (see `box.wire.row`). The stream hands out every row that has
arrived at once, because one wake-up of the event loop usually brings many.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Iterable
from typing import cast

from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import TYPE_ERROR
from box.wire.error import decode_error_body, encode_error_body, wire_code
from box.wire.row import Row, decode_row, encode_packet

_LENGTH_SIZE = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_HIGH_WATER = 4 * 1024 * 1024
"""Bytes of unprocessed input at which the peer is asked to wait."""


def socket_error(text: str, number: int = errno.EPIPE) -> BoxError:
    """A failure of the connection; appliers try again after it. `number` is what the system calls it."""
    return BoxError(ErrorCode.SYSTEM, text, type="SocketError", errno=number)


def error_row(error: BoxError, sync: int = 0) -> Row:
    """The answer that reports an error."""
    return Row(TYPE_ERROR | wire_code(error), sync=sync, body=encode_error_body(error))


def raise_if_error(row: Row) -> None:
    """Raise the error that an answer carries."""
    if row.type & TYPE_ERROR:
        raise decode_error_body(row.type, row.body)


class RowStream(asyncio.Protocol):
    """Both directions of one connection. A client's stream begins with the server's greeting (`prologue` bytes)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, prologue: int = 0) -> None:
        self._loop = loop
        self._prologue_size = prologue
        self._prologue = b""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._rows: deque[Row] = deque()
        self._error: BoxError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_paused = False

    # -- asyncio.Protocol ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def take_over(self, transport: asyncio.Transport, received: bytes = b"") -> None:
        """Become the protocol of a live connection; `received` is input that came after its last request."""
        self._transport = transport
        transport.set_protocol(self)
        transport.resume_reading()
        if received:
            self.data_received(received)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._prologue_size and not self._take_prologue():
            return
        try:
            self._parse()
        except BoxError as error:
            self._fail(error)
            return
        self._wake_reader()
        if len(self._rows) > _HIGH_WATER // 64 and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        number = exc.errno if isinstance(exc, OSError) and exc.errno else errno.EPIPE
        self._fail(socket_error("unexpected EOF when reading from socket", number))

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _take_prologue(self) -> bool:
        size = self._prologue_size
        if len(self._buffer) < size:
            return False
        self._prologue, self._prologue_size = bytes(self._buffer[:size]), 0
        del self._buffer[:size]
        self._wake_reader()
        return True

    # -- reading ------------------------------------------------------------------------------------

    def _parse(self) -> None:
        buffer, pos, end = self._buffer, 0, len(self._buffer)
        while pos < end:
            mark = buffer[pos]
            if mark < 0x80:
                start, size = pos + 1, mark
            else:
                width = _LENGTH_SIZE.get(mark)
                if width is None:
                    raise client_error(ErrorCode.INVALID_MSGPACK, "packet length")
                start = pos + 1 + width
                if start > end:
                    break
                size = int.from_bytes(buffer[pos + 1 : start], "big")
            if start + size > end:
                break
            self._rows.append(decode_row(bytes(buffer[start : start + size])))
            pos = start + size
        del buffer[:pos]

    def _fail(self, error: BoxError) -> None:
        if self._error is None:
            self._error = error
        self._wake_reader()
        self.resume_writing()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read_prologue(self, timeout: float | None = None) -> bytes:
        """The greeting."""
        while not self._prologue:
            if self._error is not None:
                raise self._error
            await self._wait_for_input(timeout)
        return self._prologue

    async def read_rows(self, timeout: float | None = None) -> list[Row]:
        """All rows that are here, at least one. Raises a SocketError at the end of the stream, `timed out` after
        `timeout` seconds of silence."""
        while not self._rows:
            if self._error is not None:
                raise self._error
            await self._wait_for_input(timeout)
        rows = list(self._rows)
        self._rows.clear()
        self._resume()
        return rows

    async def read_row(self, timeout: float | None = None) -> Row:
        """The next row; see `read_rows`."""
        while not self._rows:
            if self._error is not None:
                raise self._error
            await self._wait_for_input(timeout)
        row = self._rows.popleft()
        if not self._rows:
            self._resume()
        return row

    def put_back(self, rows: list[Row]) -> None:
        """Return rows that were read too far."""
        self._rows.extendleft(reversed(rows))

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    async def _wait_for_input(self, timeout: float | None) -> None:
        self._reader = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._reader
        except TimeoutError:
            raise BoxError(ErrorCode.SYSTEM, "timed out", type="TimedOut") from None
        finally:
            self._reader = None

    # -- writing ------------------------------------------------------------------------------------

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Queue rows for sending; `drain` waits while the peer is slow."""
        self.write(b"".join([encode_packet(row) for row in rows]))

    def write(self, data: bytes) -> None:
        """Queue encoded packets. Raises the stream's error once the connection is gone."""
        if self._error is not None:
            raise self._error
        if self._transport is None or self._transport.is_closing():
            raise socket_error("the connection is closing")
        self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was written."""
        if self._drained is not None:
            await self._drained
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Close the connection; a waiting reader gets an error."""
        self._fail(socket_error("connection is closed"))
        if self._transport is not None:
            self._transport.close()

    @property
    def is_closed(self) -> bool:
        return self._error is not None
