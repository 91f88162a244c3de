"""The interactive session's terminal: prompt-toolkit on a tty, plain lines elsewhere.

Enter ends the statement if it is complete and opens another line if not; Ctrl-C drops the input, Ctrl-D on an
empty input ends the session.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app_session
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.scripting import LuaLexer

from console import streams
from console.syntax import Syntax
from console.terminal import Terminal
from console.terminal_stream import own_stream

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
            input=source or _own_terminal(),
            output=sink or _own_output(),
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


def _own_terminal() -> Input | None:
    """The terminal of standard input, with flags of its own.

    The event loop makes what it reads non-blocking, and a terminal's standard input and output are mostly one: what
    does not fit its buffer would be lost to whatever writes there. None where the terminal's file is out of reach.
    """
    try:
        descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    return create_input(open(descriptor))  # it is open as long as the session


def _own_output() -> Output | None:
    """The terminal of standard output, drawn by a thread; None where there is none."""
    stream = own_stream()
    if stream is None:
        return None
    output = create_output(stdout=cast(TextIO, stream))
    # What is printed above the prompt goes the same way. `create_app_session` would set it for one context only, and a
    # prompt runs in several.
    get_app_session()._output = output
    return output


class PrivateHistory(FileHistory):
    """A history that nobody else may read: passwords are entered at consoles. Raises OSError for what is no file.

    A file that cannot be read or written later on costs the history, nothing more.
    """

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a file", path)
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        super().__init__(path)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError:
            return ()

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class LineTerminal:
    """Standard input that is no tty: statements of as many lines as they need, no prompt."""

    def __init__(self) -> None:
        self._lines = streams.InputLines()
        self._syntax = Syntax()

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """One statement, or None at the end of the input."""
        text: str = ""
        while True:
            line = await self._lines.next()
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
    """The history in the home directory; in memory where there can be none."""
    home = os.environ.get("HOME")
    if not home or not os.access(home, os.W_OK):
        return InMemoryHistory()
    try:
        return PrivateHistory(str(Path(home) / HISTORY))
    except OSError:
        return InMemoryHistory()


def open_terminal(complete: Complete) -> Terminal:
    """The terminal of the process."""
    if sys.stdin.isatty():
        return PromptTerminal(complete)
    return LineTerminal()
