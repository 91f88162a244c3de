"""A connection of the text protocol, on either side, and the greeting for clients.

A session is a Lua fiber (`serve` in lua/modules/console.lua) that reads lines through `ConsoleConnection.read`. The
greeting consists of two lines of 63 characters, padded with spaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from box.net.sockets import address_text

if TYPE_CHECKING:
    from lua.runtime import Runtime

_VERSION: Final = "2.8.1"
# Two lines of 64 bytes, as the greeting of the binary protocol has them, so that a client reads 128 bytes of either.
GREETING: Final = b"%-63s\n%-63s\n" % (
    f"Tarantool {_VERSION} (Lua console)".encode(),
    b"type 'help' for interactive help",
)
GREETING_SIZE: Final = len(GREETING)
_MAX_BUFFER: Final = 1 << 20
"""The bytes of waiting commands above which nothing is read from a client."""
_MAX_RUN: Final = 16
"""The number of commands of a client that run in a row, before other clients have their turn."""
_MAX_COMMAND: Final = 1 << 26
"""The bytes of a command above which the connection is aborted, because its client is probably not a console."""


class ConsoleConnection(asyncio.Protocol):
    """A connection of the text protocol, on either side.

    `read` waits for one of several marks and returns the text before it; only one reader at a time. The waiting fiber
    is woken through the runtime's tokens.
    """

    def __init__(self, runtime: Runtime, on_made: Callable[[ConsoleConnection], None] | None = None) -> None:
        self._runtime = runtime
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0  # the bytes at the beginning of the buffer that contain none of the marks
        self._marks: tuple[bytes, ...] = ()
        self._reader: int | None = None
        self._writers: list[int] = []
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_at_end = False  # true if the client sends no more, although it may wait for answers
        self._run = 0  # the number of commands in a row that were in the buffer already
        self.is_closed = False
        self.on_lost: Callable[[], None] | None = None

    # -- asyncio.Protocol --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted, because uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._on_made is not None:
            self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._wake_reader()
        if self._transport is None or len(self._buffer) <= _MAX_BUFFER:
            return
        if self._reader is None:
            self._is_reading_paused = True
            self._transport.pause_reading()
        elif len(self._buffer) > _MAX_COMMAND:
            self.abort()

    def eof_received(self) -> bool:
        self._is_at_end = True
        self._wake_reader()
        return True

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._wake_writers(True)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._wake_writers(False)
        self._wake_reader()
        if self.on_lost is not None:
            self.on_lost()

    # -- for Lua -------------------------------------------------------------------------------------------

    def read(self, marks: tuple[bytes, ...]) -> bytes | int | None:
        """Return the text before the nearest mark, None at the end of the connection, or a token to wait for."""
        if marks != self._marks:
            self._marks, self._scanned = marks, 0
        if self._run < _MAX_RUN or self.is_closed:
            taken = self._take()
            if taken is not None or self._is_over:
                self._run += 1
                return taken
            self._run = 0
        else:
            # Other clients have their turn after this number of commands that were sent at once.
            self._run = 0
            self._runtime.loop.call_soon(self._wake_reader)
        if self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            self._transport.resume_reading()
        self._reader = self._runtime.new_token(self._cancel_read)
        return self._reader

    def write(self, data: bytes) -> bool | int | None:
        """Write to the connection. Returns True, None on a closed connection, or a token that wakes with one of
        them.
        """
        if self._transport is None or self._transport.is_closing():
            return None
        self._transport.write(data)
        if not self._is_writing_paused:
            return True
        token = self._runtime.new_token(lambda: self._runtime.wake(token, None))
        self._writers.append(token)
        return token

    def close(self) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.abort()

    @property
    def _is_over(self) -> bool:
        return self.is_closed or self._is_at_end

    @property
    def fd(self) -> int:
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return -1 if sock is None else sock.fileno()

    @property
    def peer(self) -> str:
        """The address of the other side for `box.session.peer()`: `unix/:(socket)` or host:port."""
        return "" if self._transport is None else address_text(self._transport.get_extra_info("peername"))

    @property
    def fiber_name(self) -> str:
        """The name of the fiber that serves the connection: `console/` and host:port, or `unix/:` and the path."""
        name = "" if self._transport is None else self._transport.get_extra_info("peername")
        return f"console/{name[0]}:{name[1]}" if isinstance(name, tuple) else f"console/unix/:{name}"

    # -- details -------------------------------------------------------------------------------------------

    def _take(self) -> bytes | None:
        """Return the bytes before the nearest mark, and remove them and the mark from the buffer."""
        at, nearest = len(self._buffer), b""
        for mark in self._marks:
            start = max(0, self._scanned - len(mark) + 1)
            found = self._buffer.find(mark, start, at + len(mark) - 1)
            if found >= 0:
                at, nearest = found, mark
        if not nearest:
            self._scanned = at
            return None
        text = bytes(self._buffer[:at])
        del self._buffer[: at + len(nearest)]
        self._scanned = 0
        return text

    def _wake_reader(self) -> None:
        if self._reader is None:
            return
        taken = self._take()
        if taken is not None or self._is_over:
            token, self._reader = self._reader, None
            self._runtime.wake(token, taken)

    def _cancel_read(self) -> None:
        if self._reader is not None:
            token, self._reader = self._reader, None
            self._runtime.wake(token, None)

    def _wake_writers(self, outcome: bool) -> None:
        writers, self._writers = self._writers, []
        for token in writers:
            self._runtime.wake(token, outcome or None)


class DialedConnection(ConsoleConnection):
    """A connection that this instance makes: the greeting comes first and is not part of the conversation."""

    def __init__(self, runtime: Runtime, greeting: asyncio.Future[bytes]) -> None:
        super().__init__(runtime)
        self._greeting = greeting
        self._head = bytearray()

    def data_received(self, data: bytes) -> None:
        if self._greeting.done():
            super().data_received(data)
            return
        self._head += data
        if len(self._head) >= GREETING_SIZE:
            self._greeting.set_result(bytes(self._head[:GREETING_SIZE]))
            if len(self._head) > GREETING_SIZE:
                super().data_received(bytes(self._head[GREETING_SIZE:]))

    def eof_received(self) -> bool:
        """Close the connection when the other side does, because no command can be answered any more."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if not self._greeting.done():
            self._greeting.set_exception(ConnectionResetError("no greeting"))
        super().connection_lost(error)
