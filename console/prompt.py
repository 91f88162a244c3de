"""The interactive session's terminal: prompt-toolkit on a tty, plain lines elsewhere.

Enter ends the statement if it is complete and opens another line if not; Ctrl-C drops the input, Ctrl-D on an
empty input ends the session.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.scripting import LuaLexer

from console import streams
from console.syntax import Syntax
from console.terminal import Terminal

HISTORY = ".lunabox_history"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:]*$")

Complete = Callable[[str], Awaitable[list[str]]]


class MemberCompleter(Completer):
    """Completes the dotted name before the cursor with what the node's Lua knows."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Lua can only be asked asynchronously."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        match = _WORD.search(document.text_before_cursor)
        if match is None:
            return
        word = match[0]
        member = max(word.rfind("."), word.rfind(":")) + 1
        for name in await self._complete(word):
            yield Completion(name, start_position=-len(word), display=name[member:])


class PromptTerminal:
    """A tty. `source` and `sink` replace the process's own, for tests."""

    def __init__(
        self,
        complete: Complete,
        history: History | None = None,
        *,
        source: Input | None = None,
        sink: Output | None = None,
    ) -> None:
        self._syntax = Syntax()
        self._delimiter = ""
        self._language = "lua"
        self._completer = MemberCompleter(complete)
        self._session: PromptSession[str] = PromptSession(
            history=history or default_history(),
            lexer=PygmentsLexer(LuaLexer),
            key_bindings=self._bindings(),
            multiline=True,
            prompt_continuation=lambda width, _line, _wraps: " " * width,
            input=source,
            output=sink,
        )

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """One statement, or None after Ctrl-D and without a terminal."""
        self._delimiter, self._language = delimiter, language
        while True:
            try:
                with patch_stdout(raw=True):
                    text: str = await self._session.prompt_async(
                        f"{prompt}> ",
                        completer=self._completer if completion else None,
                        complete_while_typing=False,
                        handle_sigint=False,  # the program's own handler stays
                    )
                    return text
            except KeyboardInterrupt:
                continue
            except (EOFError, OSError):  # Ctrl-D, or the terminal is gone
                return None

    def write(self, text: str) -> None:
        """Print below what has been entered."""
        streams.write(text)

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter", filter=~completion_is_selected)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if self._syntax.is_complete(buffer.text, delimiter=self._delimiter, language=self._language):
                buffer.validate_and_handle()
            else:
                buffer.newline()

        @bindings.add("enter", filter=completion_is_selected)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        return bindings


class LineTerminal:
    """Standard input that is no tty: statements of as many lines as they need, no prompt."""

    def __init__(self) -> None:
        self._syntax = Syntax()

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """One statement, or None at the end of the input."""
        loop = asyncio.get_running_loop()
        text: str = ""
        while True:
            line: str = await loop.run_in_executor(None, streams.read_line)
            if not line:
                return text or None
            text += line.rstrip("\n")
            if self._syntax.is_complete(text, delimiter=delimiter, language=language):
                return text
            text += "\n"

    def write(self, text: str) -> None:
        """Print an answer."""
        streams.write(text)


def default_history() -> History:
    """The history in the home directory; in memory where there is none."""
    home = os.environ.get("HOME")
    if not home or not os.access(home, os.W_OK):
        return InMemoryHistory()
    return FileHistory(str(Path(home) / HISTORY))


def open_terminal(complete: Complete) -> Terminal:
    """The terminal of the process."""
    if sys.stdin.isatty():
        return PromptTerminal(complete)
    return LineTerminal()
