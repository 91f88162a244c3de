"""A terminal for tests: runs a program on a pseudo-terminal (pexpect) and keeps the screen that it draws (pyte).

Most consoles are forks of a process that has imported other packages (`warm_terminals`).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pyte

from test.unit.console.warm_terminals import ROOT, WarmTerminal

LUNABOX = (sys.executable, "-m", "console")
PROMPT = "lunabox> "
PATIENCE = 15.0
_NOT_INHERITED = ("NO_COLOR", "PAGER", "LESS", "LINES", "COLUMNS")
_OF_INTERPRETER = ("LANG", "LC_", "PYTHON")
"""Beginnings of the names of variables that the interpreter reads at its start, so that no fork can have others."""
UP, DOWN, RIGHT, TAB, ENTER = "\x1b[A", "\x1b[B", "\x1b[C", "\t", "\r"


def dense(text: str) -> str:
    """Remove white space from a text: where lines break depends on the width."""
    return re.sub(r"\s+", "", text)


def drawn(line: Mapping[int, pyte.screens.Char], columns: int) -> str:
    """Return the text of a screen line; the empty cell after a character of two columns is left out."""
    end = min(max(line, default=-1) + 1, columns)
    return "".join(line[column].data for column in range(end)).rstrip()


class Emulator:
    """A terminal that runs a program, draws its output and answers queries of the cursor's position."""

    def __init__(
        self,
        directory: Path,
        command: Sequence[str] = LUNABOX,
        *,
        columns: int = 80,
        lines: int = 24,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=5000, ratio=0.5)
        self.screen.write_process_input = self._reply
        self._stream = pyte.ByteStream(self.screen)
        self._lines: list[str] = []
        self._width = 0
        self.raw = b""
        variables = {
            **{name: value for name, value in os.environ.items() if name not in _NOT_INHERITED},
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / ".config"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
        }
        own = len(LUNABOX)
        if tuple(command[:own]) == LUNABOX and not any(name.startswith(_OF_INTERPRETER) for name in environment or ()):
            self.process: Any = WarmTerminal(
                command[own:], cwd=directory, env=variables, dimensions=(lines, columns), timeout=PATIENCE
            )
        else:
            self.process = pexpect.spawn(
                command[0],
                list(command[1:]),
                cwd=str(directory),
                env=variables,
                dimensions=(lines, columns),
                timeout=PATIENCE,
            )
            self.process.ptyproc.delayafterclose = 0
        self.process.delaybeforesend = None

    def _reply(self, data: str) -> None:
        if self.process.isalive():
            self.process.send(data)

    # -- the screen

    @property
    def text(self) -> str:
        """The lines of the screen as one text."""
        return "\n".join(self._drawn_lines()).rstrip()

    @property
    def cursor_line(self) -> str:
        return self._drawn_lines()[self.screen.cursor.y]

    def _drawn_lines(self) -> list[str]:
        """Return the lines of the screen without trailing spaces.

        Only changed lines are drawn again: tests look often, and `display` is slower than the program under test.
        """
        screen = self.screen
        if self._width != screen.columns:
            self._lines, self._width = [""] * screen.lines, screen.columns
            screen.dirty.update(range(screen.lines))
        for number in screen.dirty:
            self._lines[number] = drawn(screen.buffer[number], screen.columns)
        screen.dirty.clear()
        return self._lines

    def read(self, seconds: float = 0.05) -> bool:
        """Draw what the program has written; return False when it has ended."""
        try:
            data = self.process.read_nonblocking(65536, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def wait(self, is_there: str | Callable[[str], bool], seconds: float = PATIENCE) -> str:
        """Read until the screen has a text or a condition is true, and return the screen."""
        seen = (lambda text: is_there in text) if isinstance(is_there, str) else is_there
        deadline = time.monotonic() + seconds
        while not seen(self.text):
            if not self.read() or time.monotonic() > deadline:
                assert seen(self.text), f"{is_there!r} is not on the screen:\n{self.text}"
        return self.text

    def wait_for(self, pattern: str, seconds: float = PATIENCE) -> re.Match[str]:
        """Read until a regular expression matches lines of the screen, and return the screen."""
        self.wait(lambda text: re.search(pattern, text, re.MULTILINE) is not None, seconds)
        found = re.search(pattern, self.text, re.MULTILINE)
        assert found is not None
        return found

    def wait_prompt(self, prompt: str = PROMPT) -> None:
        """Read until there is an empty prompt on the cursor's line."""
        self.wait(lambda _: self.cursor_line == prompt.rstrip())

    # -- the keyboard

    def type(self, keys: str) -> None:
        self.process.send(keys)

    def enter(self, statement: str, prompt: str = PROMPT) -> str:
        """Enter a statement, wait for the next prompt, and return the screen."""
        self.wait_prompt(prompt)
        self.type(statement)
        wanted = dense(statement)
        # Behind the prompt: short ones are elsewhere on the screen, and the prompt is empty until it is drawn again.
        self.wait(lambda text: wanted in dense(text.rpartition(prompt.rstrip())[2]))
        self.type(ENTER)
        self.wait_prompt(prompt)
        return self.text

    def recall(self, prompt: str = PROMPT) -> None:
        """Press Up at an empty prompt until the newest statement of the history is shown.

        prompt_toolkit loads the history one turn of its loop after it has drawn the prompt, and an Up before finds
        nothing.
        """
        self.wait_prompt(prompt)
        self.type("z")
        self.wait(lambda _: self.cursor_line == prompt + "z")
        self.type("\x7f" + UP)

    def interrupt(self) -> None:
        """Press Ctrl-C until there is an empty prompt: the statement may not run yet, or catch one and go on."""
        for _ in range(40):
            self.process.sendintr()
            try:
                self.wait(lambda _: self.cursor_line == PROMPT.rstrip(), seconds=1)
                return
            except AssertionError:
                continue
        raise AssertionError(f"Ctrl-C ends nothing:\n{self.text}")

    def answer(self, statement: str, prompt: str = PROMPT) -> str:
        """Enter a statement and return the lines between it and the next prompt."""
        before, _, _ = self.enter(statement, prompt).rpartition("\n" + prompt.rstrip())
        lines = before.split("\n")
        wanted = dense(statement)[-20:]
        last = max((i for i in range(len(lines)) if dense("".join(lines[: i + 1])).endswith(wanted)), default=-1)
        return "\n".join(lines[last + 1 :]).strip("\n")

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self) -> int:
        """Wait for the end of the program and return its exit code, negative for a signal."""
        deadline = time.monotonic() + PATIENCE
        while self.read() and time.monotonic() < deadline:
            pass
        self.process.wait()
        if self.process.signalstatus is not None:
            return -int(self.process.signalstatus)
        return int(self.process.exitstatus or 0)

    def close(self) -> None:
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
            self.process.wait()
        self.process.close(force=True)
