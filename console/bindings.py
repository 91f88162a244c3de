"""The terminal's part of `require('console')`, and the connection of `require('test_run')` to the test runner's
inspector.

Commands add it to an instance. Servers and their sessions belong to every instance: `lua.bindings.console`. The results
of bound methods are described in `lua.bindings.binding`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from box.errors import BoxError, fiber_is_cancelled
from box.session import Context
from console.terminal import Terminal
from lua.bindings.console import write_pushes
from lua.standard_output import OUTPUT

if TYPE_CHECKING:
    from box.embed import LuaInstance
    from console.interactive.interruption import Interruption
    from lua.text_console.text_table import Screen

_END_OF_REPLY = b"\n...\n"
"""The end of a YAML document, which ends each answer of a text console."""


class TerminalConsole:
    """The console of an instance on the terminal of this process."""

    def __init__(self, instance: LuaInstance, terminal: Callable[[], Terminal] | None = None) -> None:
        self._node = instance.node
        self._runtime = instance.runtime
        self._make_terminal = terminal
        self._terminal: Terminal | None = None
        self._interruption: Interruption | None = None
        self._bind()
        instance.text_consoles.screen = self._screen
        self._node.on_shutdown.append(self.close)

    def _bind(self) -> None:
        bind, drive = self._runtime.bind, self._runtime.drive

        def bind_waiting(name: str, method: Callable[..., Coroutine[Any, Any, Any]]) -> None:
            bind(name, lambda *args: drive(method(*args)))

        bind_waiting("console_prompt", self._prompt)
        bind_waiting("console_exchange", self._exchange)
        bind("console_print", self._print)
        bind("console_begin_repl", self._begin_repl)
        bind("console_push", self._push)
        bind("console_failed", self._failed)
        bind("console_limit", self._limit)
        bind("console_output", self._output)
        bind("console_name", self._name)
        bind("console_compiles", self._compiles)
        bind("console_source", self._source)

    @property
    def owns_interrupt(self) -> bool:
        """True if a SIGINT is for the statement of the interactive session, and not for the program."""
        return self._interruption is not None and self._interruption.owns_signal()

    async def close(self) -> None:
        """Stop interrupting statements."""
        if self._interruption is not None:
            self._interruption.close()

    @cached_property
    def _ask_handle(self) -> int:
        """The handle of the function that answers questions of the terminal, which `require('console')` registers."""
        self._runtime.release(self._runtime.compile(b"return require('console')", "=console"))
        return self._runtime.handle_of("console.ask")

    async def ask(self, function: str, *arguments: Any) -> Any:
        """Answer a question of the terminal, such as which names begin with `box.sp`.

        The question goes to this node, or to the node that the session is connected to. Returns None without an answer.
        """
        from box.data.codec import pack, unpack

        try:
            answer = await self._runtime.call(self._ask_handle, pack([function, *arguments]), name="completion")
        except BoxError:
            return None
        values = unpack(answer)
        return values[0] if values else None

    # -- the test runner's inspector --

    async def _exchange(self, host: bytes, port: float, line: bytes) -> bytes | None:
        """Send one line to a test runner's inspector. Returns its reply, or None without one."""
        try:
            # The reply is read as a whole, for which asyncio's limit is 64 KB.
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
        from console.interactive.interruption import Interruption
        from console.prompt import open_terminal

        self._interruption = Interruption(self._runtime, self._tell)
        self._interruption.start()
        return open_terminal(self.ask, self._interruption, self._node.progress.text)

    def _tell(self, text: str) -> None:
        """Write a line to the terminal while a statement runs. Any thread may call this."""
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
        """Make the running fiber the interactive session."""
        ctx: Context = self._runtime.ctx
        ctx.session.type = "repl"
        ctx.session.fd = 1
        write_pushes(ctx.session, self._push)

    def _print(self, text: bytes) -> bool | int:
        """Print an answer. Returns True, or, while a long answer or a slow reader delays the session, a token of that
        wait.
        """
        terminal, shown = self._open_terminal(), text.decode(errors="surrogateescape")
        return self._show(terminal.answer, shown, terminal.is_quick(shown))

    def _push(self, text: bytes) -> bool | int:
        """Print text that a statement pushes before its answer. Returns True, or the token of a wait."""
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

        # Not one of the event loop's own threads, which the loop waits for at its end: a terminal may block forever.
        threading.Thread(target=write, name="terminal", daemon=True).start()
        return token

    def _failed(self, stack: bytes, position: bytes) -> None:
        """Note that the statement of the interactive session has failed."""
        self._open_terminal().failed(stack.decode(errors="replace"), position.decode(errors="replace"))

    # -- tables --------------------------------------------------------------------------------------------------------

    def _compiles(self) -> bool:
        """Return whether statements of the session may become machine code, which Ctrl-C cannot end."""
        return self._open_terminal().compiles

    @staticmethod
    def _source(name: bytes) -> bytes:
        from console.sent_modules import source_of

        return source_of(name)

    def _output(self) -> bytes:
        """Return the output format in the user's settings."""
        return self._open_terminal().output.encode()

    def _name(self) -> bytes:
        """Return the prompt of a session on this node."""
        return self._open_terminal().name.encode()

    def _limit(self) -> int:
        """Return the number of table rows that the session shows; 0 means all."""
        return self._terminal.table_rows if self._terminal is not None else 0

    def _screen(self) -> Screen:
        from lua.text_console.text_table import Screen

        terminal = self._open_terminal()
        return Screen(terminal.table_width, terminal.table_lines)
