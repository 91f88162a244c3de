"""The Python half of `require('console')`: servers of the text protocol, their sessions, and connections to other
consoles.

Lua knows servers and connections by number. The interactive session of a terminal is in `console/`, which binds the
remaining functions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.errors import BoxError
from box.net import uri as uris
from box.session import Context, Session
from lua.bindings.binding import Binding, Outcome, exported, waiting

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime
    from lua.text_console.console_connection import ConsoleConnection
    from lua.text_console.server import ConsoleServer
    from lua.text_console.text_table import Screen

_DIAL_TIMEOUT: Final = 10.0
"""The seconds that a connection may take if the caller sets no limit."""


def write_pushes(session: Session, write: Callable[[bytes], bool | int | None]) -> None:
    """Write values pushed in a session as text. `write` returns True, None, or a token if the reader is slow."""

    def push(shown: bytes, _sync: int) -> int | None:
        outcome = write(shown)
        return None if outcome is True else outcome

    session.push, session.pushes_text = push, True


class ConsoleBinding(Binding):
    """Servers of the text protocol and connections to other consoles, for Lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self.servers: dict[int, ConsoleServer] = {}
        self.screen: Callable[[], Screen] | None = None
        """Returns the width and the line style of tables in the interactive session; None if there is no such
        session."""
        self._connections: dict[int, ConsoleConnection] = {}
        self._last_number = 0
        self._serve_handle: Any = None
        node.on_shutdown.append(self.close)

    async def close(self) -> None:
        """End every session and stop listening."""
        servers = list(self.servers.values())
        self.servers.clear()
        for server in servers:
            await server.close()
        for connection in list(self._connections.values()):
            connection.abort()
        self._connections.clear()

    # -- servers

    @waiting("console_listen")
    async def listen(self, address: bytes) -> tuple[int, int, bytes] | tuple[None, bytes]:
        """Listen on an address. Returns (number, descriptor, the socket's address as a map), or (None, reason)."""
        from box.data.codec import pack
        from lua.text_console.server import ConsoleServer, ListenError

        if self._serve_handle is None:
            self._serve_handle = self.runtime.compile(b"return require('console')._serve", "=console")
        server = ConsoleServer(self.node, self.runtime, self._serve)
        try:
            await server.listen(address.decode(errors="surrogateescape"))
        except ListenError as error:
            return None, str(error).encode(errors="surrogateescape")
        self._last_number += 1
        self.servers[self._last_number] = server
        return self._last_number, server.fd, pack(server.name)

    @exported("console_unlisten")
    def unlisten(self, number: float) -> Outcome:
        """Accept no more clients on a server."""
        server = self.servers.pop(int(number), None)
        if server is None:
            return None
        server.stop_listening()
        return True

    async def _serve(self, connection: ConsoleConnection) -> None:
        """Serve an accepted connection from its greeting to its end."""
        from lua.text_console.console_connection import GREETING

        node = self.node
        session = node.sessions.open("console", node.schema.admin, peer=connection.peer, fd=connection.fd)
        ctx = Context(session)
        number = self._keep(connection)
        try:
            await node.sessions.run_on_connect(ctx)
            await node.sessions.run_on_auth(ctx, session.user, True)
            connection.write(GREETING)
            write_pushes(session, connection.write)
            await self.runtime.call_raw(self._serve_handle, number, ctx=ctx, name=connection.fiber_name)
        finally:
            self._connections.pop(number, None)
            if ctx.txn is not None:
                node.txns.rollback_open(ctx, ctx.txn)
            await node.sessions.close(session)

    def _keep(self, connection: ConsoleConnection) -> int:
        self._last_number += 1
        self._connections[self._last_number] = connection
        return self._last_number

    # -- connections

    @exported("console_read")
    def read(self, number: float, *marks: bytes) -> Outcome:
        """Return the text before the next mark, or None at the end."""
        connection = self._connections.get(int(number))
        return None if connection is None else connection.read(marks)

    @exported("console_write")
    def write(self, number: float, data: bytes) -> Outcome:
        """Write to a connection. Returns True, or None if the client has gone."""
        connection = self._connections.get(int(number))
        return None if connection is None else connection.write(data)

    @exported("console_close")
    def close_connection(self, number: float) -> None:
        """Close a connection."""
        connection = self._connections.get(int(number))
        if connection is not None:
            connection.close()

    @exported("console_fiber_name")
    def fiber_name(self, number: float) -> bytes:
        """Return the name of the fiber that serves a connection."""
        connection = self._connections.get(int(number))
        return b"console/" if connection is None else connection.fiber_name.encode()

    @waiting("console_dial")
    async def dial(self, address: bytes, timeout: float | None = None) -> tuple[Any, ...]:
        """Connect to another console. Returns (number, protocol, host, port), or (None, reason).

        The protocol is `text` or `binary`.
        """
        uri = uris.parse(address.decode(errors="surrogateescape"))
        if uri is None or uri.service is None:
            return None, b"usage"
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT if timeout is None else timeout):
                connection, greeting = await self._open(uri)
        except (OSError, BoxError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            return None, (reason or "Connection timed out").encode()
        # The name of the protocol is in the first line of the greeting, which has 64 bytes.
        protocol = b"text" if b"Lua console" in greeting[:64] else b"binary"
        number = self._keep(connection)
        connection.on_lost = lambda: self._forget(number)
        return number, protocol, (uri.host or "localhost").encode(), uri.service.encode()

    def _forget(self, number: int) -> None:
        self._connections.pop(number, None)

    async def _open(self, uri: uris.Uri) -> tuple[ConsoleConnection, bytes]:
        from lua.text_console.console_connection import DialedConnection

        greeting: asyncio.Future[bytes] = self.runtime.loop.create_future()
        connection = DialedConnection(self.runtime, greeting)
        try:
            await self.node.network.connect(uri, lambda: connection)
            return connection, await greeting
        except BaseException:
            connection.abort()
            raise

    # -- answers

    @exported("console_table")
    def table(self, described: bytes, is_interactive: bool) -> bytes:
        """Return the table for a statement's values, which `internal/console_rows.lua` has described."""
        from box.data.codec import unpack
        from lua.text_console.text_table import UNICODE, Screen, groups_of, render

        screen = self.screen() if is_interactive and self.screen is not None else Screen(0, UNICODE)
        return render(groups_of(unpack(described)), screen.width, screen.lines).encode(errors="surrogateescape")
