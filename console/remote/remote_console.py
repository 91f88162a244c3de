"""A console whose statements run on another instance: interactive, or a script.

```
exit code   0   all statements succeeded      2   a wrong command line
            1   one has failed                3   there is no connection
```
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import yaml

from box.errors import BoxError
from console import streams
from console.interactive.interruption import keys_make_signals
from console.interactive.printer import is_error
from console.interactive.settings import TerminalSettings
from console.remote.nodes import Lost, RemoteNode, reason_of
from console.terminal import Terminal
from lua.text_console.text_table import UNICODE, groups_of, render

FINE: Final = 0
LUA_ERROR: Final = 1
USAGE: Final = 2
CONNECTION: Final = 3

_RECONNECT: Final = 3.0
"""The seconds for which a lost connection is tried again."""
_PAUSE: Final = 0.2
"""The seconds between two attempts."""
_QUESTION_TIMEOUT: Final = 2.0
"""The seconds that completion waits for a node: the user goes on typing."""
_ASKS_FOR_TEXT: Final = re.compile(r"(help|tutorial)\s*(\(|$)")


class AwaitInterrupts:
    """Makes Ctrl-C give up the wait for an answer. The other instance may continue with the statement."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._main = asyncio.current_task()
        self._is_held = self._is_at_prompt = self._is_pending = False
        self._on_idle: Callable[[], None] = lambda: None
        with suppress(ValueError, RuntimeError):
            self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def capture(self, on_idle: Callable[[], None]) -> None:
        self._on_idle, self._is_at_prompt = on_idle, False

    def release(self) -> None:
        self._is_at_prompt = True
        self._is_pending = False
        self.seconds = None

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held

    def _interrupt(self) -> None:
        if self._is_held:
            return
        if self._task is not None and not self._task.done():
            self._task.cancel()
        elif not self._is_at_prompt:
            self._is_pending = True
            self._on_idle()
        elif not keys_make_signals() and self._main is not None:
            self._main.cancel()  # the signal comes from another process and means the program

    async def run(self, work: Any) -> Any:
        """Run a coroutine and return its result. Raises CancelledError after Ctrl-C, even if it was pressed since the
        statement was read.
        """
        if self._is_pending:
            self._is_pending = False
            work.close()
            raise asyncio.CancelledError
        began = time.perf_counter()
        self._task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(self._task)
        finally:
            self._task = None
            self.seconds = time.perf_counter() - began


class RemoteConsole:
    """Sends statements to a node and shows the answers on a terminal."""

    def __init__(self, node: RemoteNode, interrupts: AwaitInterrupts, settings: TerminalSettings) -> None:
        self._node = node
        self._interrupts = interrupts
        self._settings = settings
        self._delimiter = ""
        self._language = "lua"
        self._is_sent = False
        """True if the other instance may have received the current statement."""
        self.terminal: Terminal

    async def ask(self, function: str, *arguments: Any) -> Any:
        """Answer a question of the terminal; None if the other side does not answer soon."""
        with suppress(BoxError, Lost, TimeoutError, ValueError, KeyError):
            async with asyncio.timeout(_QUESTION_TIMEOUT):
                return await self._node.ask("console_names", function, *arguments)
        return None

    async def run(self, *, stops_at_error: bool) -> int:
        """Run statements until the end of the input. Returns the exit code."""
        if self._settings.output != "yaml":
            await self.execute(f"\\set output {self._settings.output}")
        while True:
            statement = await self.terminal.read(
                self._node.name, delimiter=self._delimiter, language=self._language, completion=True
            )
            if statement is None or statement.strip() in ("\\q", "\\quit"):
                return FINE
            if self._delimiter and not statement.startswith("\\"):
                statement = statement.removesuffix(self._delimiter)
            answer = await self.execute(statement)
            if answer is None:
                if stops_at_error:
                    return CONNECTION
                continue
            await asyncio.to_thread(self.terminal.answer, answer + self._gap(answer))
            if stops_at_error and is_error(answer):
                return LUA_ERROR

    def _gap(self, answer: str) -> str:
        return "" if self._settings.output == "table" or not answer else "\n"

    async def execute(self, statement: str) -> str | None:
        """Run a statement and return its answer; None without a connection, which has been reported."""
        own = self._own_command(statement)
        if own is not None:
            return own
        self._is_sent = False
        try:
            answer: str | None = await self._interrupts.run(self._send(statement))
            self._note_language(statement, answer or "")
            return answer
        except asyncio.CancelledError:
            if asyncio.current_task() is not None and asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            fate = f"; {self._node.name} may go on with the statement" if self._is_sent else ""
            return f"---\n- error: interrupted{fate}\n...\n"
        except Lost as error:
            self._say(f"the connection to {self._node.name} was lost: {error}; the next statement connects again")
            return None

    async def _send(self, statement: str) -> str | None:
        """Send a statement and return its answer: one piece of work, so that Ctrl-C always finds something to end."""
        if not await self._reconnect():
            return None
        self._is_sent = True
        return await self._execute(statement)

    async def _execute(self, statement: str) -> str:
        if self._settings.output != "table" or statement.startswith("\\"):
            return await self._node.execute(statement, self.terminal.write)
        is_sql = self._language == "sql"
        if not is_sql and _ASKS_FOR_TEXT.match(statement):
            return _plain(await self._node.execute(statement, self.terminal.write))
        try:
            function = "run_sql" if is_sql else "run"
            result = await self._node.call("console_rows", function, self.terminal.table_rows, statement)
        except BoxError as error:
            return f"error: {error.message}\n"
        if not isinstance(result, (list, tuple)):
            return await self._node.execute(statement, self.terminal.write)
        is_fine, value = result
        if not is_fine:
            return f"error: {value}\n"
        groups = groups_of(value or ())
        width = getattr(self.terminal, "table_width", 0)
        return render(groups, width, getattr(self.terminal, "table_lines", UNICODE)) if groups else ""

    def _own_command(self, statement: str) -> str | None:
        """Run a command that the terminal itself needs to know. Returns None for a statement to be sent."""
        words = statement.split()
        if len(words) < 2 or words[0] not in ("\\set", "\\s"):
            return None
        value = words[2] if len(words) > 2 else ""
        if words[1] in ("output", "o"):
            is_table = value == "table"
            self._settings.output = value.partition(",")[0] if is_table or value else self._settings.output
            return "" if is_table else None
        if words[1] in ("delimiter", "delim", "d"):
            self._delimiter = value
            return "---\n...\n"
        return None

    def _note_language(self, statement: str, answer: str) -> None:
        """Remember the language that the node has accepted, because lines of SQL are sent unchanged."""
        words = statement.split()
        is_chosen = len(words) == 3 and words[0] in ("\\set", "\\s") and words[1] in ("language", "lang", "l")
        if is_chosen and words[2] in ("lua", "sql") and not is_error(answer):
            self._language = words[2]

    async def _reconnect(self) -> bool:
        """Open the connection again, waiting a little for a server that restarts. Returns whether there is one."""
        deadline = time.monotonic() + _RECONNECT
        while True:
            try:
                await self._node.open()
                return True
            except BoxError as error:
                if time.monotonic() > deadline:
                    self._say(f"no connection to {self._node.name}: {reason_of(error)}")
                    return False
            await asyncio.sleep(_PAUSE)

    def _say(self, text: str) -> None:
        streams.complain(f"lunabox: {text}")


def _plain(answer: str) -> str:
    """Return the text of a YAML answer that is a list of one text with several lines, as `help` returns it."""
    try:
        values = yaml.safe_load(answer)
    except yaml.YAMLError:
        return answer
    while isinstance(values, list) and len(values) == 1:
        values = values[0]
    return values if isinstance(values, str) and "\n" in values else answer
