"""The Python half of `require('console')`, `require('yaml')` and `require('test_run')`.

`Consoles` belongs to one instance: it holds the listening sockets, the connections by number (as Lua names them)
and the terminal of an interactive session. See the text of lua.bindings.binding for what bound methods return.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from box.errors import BoxError, fiber_is_cancelled
from box.net import uri as uris
from box.session import Context, Session
from console.server import GREETING, GREETING_SIZE, ConsoleConnection, ConsoleServer, ListenError
from console.stored_imports import StoredImports
from console.terminal import Terminal
from lua.standard_output import OUTPUT

if TYPE_CHECKING:
    from box.embed import LuaInstance
    from console.interactive.interruption import Interruption
    from lua.runtime import Runtime

DIAL_TIMEOUT = 10.0
_END_OF_REPLY = b"\n...\n"


class Consoles:
    """Consoles of an instance. Makes `require('console')` work in it."""

    def __init__(self, instance: LuaInstance, terminal: Callable[[], Terminal] | None = None) -> None:
        self._node = instance.node
        self._runtime = instance.runtime
        self._make_terminal = terminal
        self._terminal: Terminal | None = None
        self._interruption: Interruption | None = None
        self._last_number = 0
        self._connections: dict[int, ConsoleConnection] = {}
        self.servers: dict[int, ConsoleServer] = {}
        self._bind()
        self._serve_handle = self._runtime.compile(b"return require('console')._serve", "=console")
        self._node.on_shutdown.append(self.close)

    def _bind(self) -> None:
        bind, drive = self._runtime.bind, self._runtime.drive

        def bind_waiting(name: str, method: Callable[..., Coroutine[Any, Any, Any]]) -> None:
            bind(name, lambda *args: drive(method(*args)))

        bind_waiting("console_listen", self._listen)
        bind_waiting("console_dial", self._dial)
        bind_waiting("console_prompt", self._prompt)
        bind_waiting("console_exchange", self._exchange)
        bind("console_unlisten", self._unlisten)
        bind("console_read", self._read)
        bind("console_write", self._write)
        bind("console_close", self._close_connection)
        bind("console_peer", self._peer)
        bind("console_print", self._print)
        bind("console_begin_repl", self._begin_repl)
        bind("console_push", self._push)
        bind("console_failed", self._failed)
        bind("console_limit", self._limit)
        bind("console_output", self._output)
        bind("console_compiles", self._compiles)
        bind("console_table", self._table)
        bind("console_source", self._source)

    @property
    def is_serving(self) -> bool:
        """Whether anybody could come: a reason for a program to stay up."""
        return bool(self.servers)

    @property
    def owns_interrupt(self) -> bool:
        """Whether a SIGINT belongs to the statement of the interactive session, and not to the program."""
        return self._interruption is not None and self._interruption.owns_signal()

    async def close(self) -> None:
        """End every session and stop listening."""
        if self._interruption is not None:
            self._interruption.close()
        servers = list(self.servers.values())
        self.servers.clear()
        for server in servers:
            await server.close()
        for connection in list(self._connections.values()):
            connection.abort()
        self._connections.clear()

    async def ask(self, function: str, *arguments: Any) -> Any:
        """A question of the terminal's, such as what begins with `box.sp`: to this node, or to the one that the
        session is connected to. None where it cannot tell."""
        from box.data.codec import pack, unpack

        try:
            answer = await self._runtime.call(
                self._runtime.handle_of("console.ask"), pack([function, *arguments]), name="completion"
            )
        except BoxError:
            return None
        values = unpack(answer)
        return values[0] if values else None

    # -- sessions ----------------------------------------------------------------------------------------

    async def _serve(self, connection: ConsoleConnection) -> None:
        """One accepted connection from its greeting to its end."""
        node = self._node
        session = node.sessions.open("console", node.schema.admin, peer=connection.peer, fd=connection.fd)
        ctx = Context(session)
        number = self._keep(connection)
        try:
            await node.sessions.run_on_connect(ctx)
            await node.sessions.run_on_auth(ctx, session.user, True)
            connection.write(GREETING)
            self._push_to(session, connection.write)
            await self._runtime.call_raw(self._serve_handle, number, ctx=ctx, name=f"console/{connection.peer}")
        finally:
            self._connections.pop(number, None)
            if ctx.txn is not None:
                node.txns.rollback_open(ctx, ctx.txn)
            await node.sessions.close(session)

    @staticmethod
    def _push_to(session: Session, write: Callable[[bytes], bool | int | None]) -> None:
        """Pushed values are written as text. `write` gives True, None, or a token if the reader is slow."""

        def push(shown: bytes, _sync: int) -> int | None:
            outcome = write(shown)
            return None if outcome is True else outcome

        session.push, session.pushes_text = push, True

    def _keep(self, connection: ConsoleConnection) -> int:
        self._last_number += 1
        self._connections[self._last_number] = connection
        return self._last_number

    # -- servers -------------------------------------------------------------------------------------------

    async def _listen(self, address: bytes) -> tuple[int, bytes, bytes] | tuple[None, bytes]:
        server = ConsoleServer(self._node.log, self._runtime, self._serve)
        try:
            await server.listen(address.decode(errors="surrogateescape"))
        except ListenError as error:
            return None, str(error).encode(errors="surrogateescape")
        self._last_number += 1
        self.servers[self._last_number] = server
        return self._last_number, server.host.encode(), server.port.encode()

    def _unlisten(self, number: float) -> bool | None:
        server = self.servers.pop(int(number), None)
        if server is None:
            return None
        server.stop_listening()
        return True

    # -- connections ---------------------------------------------------------------------------------------

    def _read(self, number: float, *marks: bytes) -> bytes | int | None:
        connection = self._connections.get(int(number))
        return None if connection is None else connection.read(marks)

    def _write(self, number: float, data: bytes) -> bool | int | None:
        connection = self._connections.get(int(number))
        return None if connection is None else connection.write(data)

    def _close_connection(self, number: float) -> None:
        connection = self._connections.get(int(number))
        if connection is not None:
            connection.close()

    def _peer(self, number: float) -> bytes:
        connection = self._connections.get(int(number))
        return b"" if connection is None else connection.peer.encode()

    async def _dial(self, address: bytes, timeout: float | None = None) -> tuple[Any, ...]:
        """(number, protocol, host, port), where the protocol is `text` or `binary`; (None, reason)."""
        uri = uris.parse(address.decode(errors="surrogateescape"))
        if uri is None or uri.service is None:
            return None, b"usage"
        try:
            async with asyncio.timeout(DIAL_TIMEOUT if timeout is None else timeout):
                connection, greeting = await self._open(uri)
        except (OSError, TimeoutError) as error:
            return None, (str(error) or "Connection timed out").encode()
        protocol = b"text" if b"Lua console" in greeting[:64] else b"binary"
        number = self._keep(connection)
        connection.on_lost = lambda: self._forget(number)
        return number, protocol, (uri.host or "localhost").encode(), uri.service.encode()

    def _forget(self, number: int) -> None:
        self._connections.pop(number, None)

    async def _open(self, uri: uris.Uri) -> tuple[ConsoleConnection, bytes]:
        loop = self._node.loop
        greeting: asyncio.Future[bytes] = loop.create_future()

        def make() -> _Dialed:
            return _Dialed(self._runtime, greeting)

        if uri.unix is not None:
            _, connection = await loop.create_unix_connection(make, uri.unix)
        else:
            _, connection = await loop.create_connection(make, uri.host or "localhost", int(uri.service or 0))
        try:
            return connection, await greeting
        except BaseException:
            connection.abort()
            raise

    async def _exchange(self, host: bytes, port: float, line: bytes) -> bytes | None:
        """Send one line to a test runner's inspector; its reply, None without one."""
        try:
            reader, writer = await asyncio.open_connection(host.decode(), int(port), limit=1 << 26)
        except OSError:
            return None
        try:
            writer.write(line)
            return await reader.readuntil(_END_OF_REPLY)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    # -- the interactive session ---------------------------------------------------------------------------

    def _open_terminal(self) -> Terminal:
        if self._terminal is None:
            self._terminal = self._make_terminal() if self._make_terminal is not None else self._open_own()
        return self._terminal

    def _open_own(self) -> Terminal:
        with StoredImports("prompt"):
            from console.interactive.interruption import Interruption
            from console.prompt import open_terminal

        self._interruption = Interruption(self._runtime, self._tell)
        self._interruption.start()
        return open_terminal(self.ask, self._interruption, self._node.progress.text)

    def _tell(self, text: str) -> None:
        """A line on the terminal, from any thread, while a statement runs."""
        if self._terminal is not None:
            self._terminal.write(text)

    async def _prompt(self, prompt: bytes, delimiter: bytes, language: bytes, completion: bool) -> bytes | None:
        line = await self._open_terminal().read(
            prompt.decode(errors="replace"),
            delimiter=delimiter.decode(errors="surrogateescape"),
            language=language.decode(),
            completion=bool(completion),
        )
        return None if line is None else line.encode(errors="surrogateescape")

    def _begin_repl(self) -> None:
        """The running fiber becomes the interactive session."""
        ctx: Context = self._runtime.ctx
        ctx.session.type = "repl"
        ctx.session.fd = 1
        self._push_to(ctx.session, self._push)

    def _print(self, text: bytes) -> bool | int:
        """An answer: True, or a token that wakes with it, while a long answer or a slow reader has its own session
        wait."""
        terminal, shown = self._open_terminal(), text.decode(errors="surrogateescape")
        return self._show(terminal.answer, shown, terminal.is_quick(shown))

    def _push(self, text: bytes) -> bool | int:
        """As an answer, of what comes before it."""
        terminal, shown = self._open_terminal(), text.decode(errors="surrogateescape")
        return self._show(terminal.write, shown, OUTPUT.takes_at_once(len(text)))

    def _show(self, show: Callable[[str], None], text: str, is_quick: bool) -> bool | int:
        if is_quick:
            show(text)
            return True
        runtime = self._runtime
        token: int = runtime.new_token(lambda: runtime.fail(token, fiber_is_cancelled()))

        def write() -> None:
            show(text)
            with suppress(RuntimeError):  # the loop has ended
                runtime.loop.call_soon_threadsafe(runtime.wake, token, True)

        # Not one of the loop's own threads: those are waited for at its end, and a terminal may stand still for good.
        threading.Thread(target=write, name="terminal", daemon=True).start()
        return token

    def _failed(self, stack: bytes, position: bytes) -> None:
        """The statement of the interactive session has failed."""
        self._open_terminal().failed(stack.decode(errors="replace"), position.decode(errors="replace"))

    # -- tables --------------------------------------------------------------------------------------------------------

    def _compiles(self) -> bool:
        """Whether statements of the session may become machine code, which Ctrl-C cannot end."""
        return self._open_terminal().compiles

    @staticmethod
    def _source(name: bytes) -> bytes:
        from console.sent_modules import source_of

        return source_of(name)

    def _output(self) -> bytes:
        """The format that the user's settings choose."""
        return self._open_terminal().output.encode()

    def _limit(self) -> int:
        """The number of rows of a table that the session shows, 0: all."""
        return self._terminal.table_rows if self._terminal is not None else 0

    def _table(self, described: bytes, is_interactive: bool) -> bytes:
        """The text of a statement's values, as `internal/console_rows.lua` describes them."""
        from box.data.codec import unpack
        from console.interactive.text_table import UNICODE, groups_of, render

        groups = groups_of(unpack(described))
        terminal = self._terminal if is_interactive else None
        text = render(groups, terminal.table_width, terminal.table_lines) if terminal else render(groups, 0, UNICODE)
        return text.encode(errors="surrogateescape")


class _Dialed(ConsoleConnection):
    """A connection made by us: the greeting comes first and is not a part of the conversation."""

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
        """Nobody waits for commands there any more."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if not self._greeting.done():
            self._greeting.set_exception(ConnectionResetError("no greeting"))
        super().connection_lost(error)
