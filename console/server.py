"""The admin console over sockets: listening, connections, and their sessions.

A session is a Lua fiber (`serve` in lua/modules/console.lua) that reads lines through `ConsoleConnection.read`. The
greeting, on accept: two lines of 63 characters, filled up with spaces.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from box.log import Level, Log
from box.net import uri as uris
from box.net.sockets import BACKLOG, address_text, host_of, is_abandoned, remove_socket_file
from lua.boundary import error_from_exception

if TYPE_CHECKING:
    from lua.runtime import Runtime

VERSION = "2.8.1"
GREETING = b"%-63s\n%-63s\n" % (f"Tarantool {VERSION} (Lua console)".encode(), b"type 'help' for interactive help")
GREETING_SIZE = len(GREETING)
_MAX_BUFFER = 1 << 20  # bytes of commands that wait, above which a client is not read from
_MAX_RUN = 16  # commands that are carried out in a row, without a look at other clients
_MAX_COMMAND = 1 << 26  # bytes of one command, above which its client is taken for something else


class ListenError(Exception):
    """An address that cannot be listened on; the text is the one that Lua raises."""


class ConsoleConnection(asyncio.Protocol):
    """One socket, either side of the text protocol.

    `read` waits for one of several marks and gives the text before it; one reader at a time. Wakes the waiting
    fiber through the runtime's tokens.
    """

    def __init__(self, runtime: Runtime, on_made: Callable[[ConsoleConnection], None] | None = None) -> None:
        self._runtime = runtime
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0  # so much of the buffer has been searched for the marks, in vain
        self._marks: tuple[bytes, ...] = ()
        self._reader: int | None = None
        self._writers: list[int] = []
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_at_end = False  # the other side sends no more, but may wait for answers
        self._run = 0  # commands in a row that were there already
        self.is_closed = False
        self.on_lost: Callable[[], None] | None = None

    # -- asyncio.Protocol --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are no subclasses of asyncio's.
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
        """The text up to the nearest mark, None at the end of the connection, or a token to wait for."""
        if marks != self._marks:
            self._marks, self._scanned = marks, 0
        if self._run < _MAX_RUN or self.is_closed:
            taken = self._take()
            if taken is not None or self._is_over:
                self._run += 1
                return taken
            self._run = 0
        else:
            # Others have their turn between so many commands that were sent at once.
            self._run = 0
            self._runtime.loop.call_soon(self._wake_reader)
        if self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            self._transport.resume_reading()
        self._reader = self._runtime.new_token(self._cancel_read)
        return self._reader

    def write(self, data: bytes) -> bool | int | None:
        """True, None on a closed connection, or a token that wakes with one of them."""
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
        """`unix/:(socket)` or host:port of the other side."""
        if self._transport is None:
            return ""
        name = self._transport.get_extra_info("peername")
        return address_text(name) if isinstance(name, tuple) else "unix/:(socket)"

    # -- details -------------------------------------------------------------------------------------------

    def _take(self) -> bytes | None:
        """The bytes before the nearest mark; they leave the buffer with the mark."""
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
        if nearest.endswith(b"\r") and self._buffer.startswith(b"\n"):
            del self._buffer[:1]
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


class ConsoleServer:
    """One listening address. `serve` runs the session of an accepted connection."""

    def __init__(
        self, log: Log, runtime: Runtime, serve: Callable[[ConsoleConnection], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop = runtime.loop
        self._log = log
        self._runtime = runtime
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._path: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[ConsoleConnection] = set()
        self.host = ""
        self.port = ""

    async def listen(self, address: str) -> None:
        """Raises ListenError."""
        uri = uris.parse(address)
        if uri is None or uri.service is None:
            raise ListenError("usage")
        self.host, self.port = uri.host or "0.0.0.0", uri.service
        try:
            if uri.unix is not None:
                await self._listen_unix(uri.unix)
            else:
                await self._listen_tcp(uri)
        except OSError as error:
            # asyncio has sentences of its own; those of the resolver have other numbers.
            number = None if isinstance(error, socket.gaierror) else error.errno
            reason = error.strerror or str(error) if number is None else os.strerror(number)
            raise ListenError(f"failed to create server {self.host}:{self.port}: {reason}") from error
        self._say(f"console/{self.host}:{self.port}", "started")

    async def _listen_unix(self, path: str) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            self._bind_unix(sock, path)
            self._server = await self._loop.create_unix_server(self._accept, sock=sock, backlog=BACKLOG)
        except OSError:
            sock.close()
            raise
        self._path = path

    def _bind_unix(self, sock: socket.socket, path: str) -> None:
        try:
            sock.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not is_abandoned(path):
                raise
            self._say("main", f"tcp_server: remove dead UNIX socket: {path}")
            os.unlink(path)
            sock.bind(path)

    async def _listen_tcp(self, uri: uris.Uri) -> None:
        self._server = await self._loop.create_server(
            self._accept, host_of(uri), int(uri.service or 0), backlog=BACKLOG, reuse_address=True
        )

    def _accept(self) -> ConsoleConnection:
        return ConsoleConnection(self._runtime, self._on_made)

    def _on_made(self, connection: ConsoleConnection) -> None:
        self._connections.add(connection)
        task = self._loop.create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: ConsoleConnection) -> None:
        try:
            await self._serve(connection)
        except Exception as error:
            # A session's failure is the session's own: on_connect that refuses, a hook that raises.
            self._log.error(f"console: {error_from_exception(error).message}")
        finally:
            connection.close()
            self._connections.discard(connection)

    def _say(self, fiber: str, text: str) -> None:
        self._log.say(Level.INFO, text, fiber=fiber)

    def stop_listening(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._path is not None:
                remove_socket_file(self._path)

    async def close(self) -> None:
        """Stop listening and end every session."""
        self.stop_listening()
        for connection in list(self._connections):
            connection.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
