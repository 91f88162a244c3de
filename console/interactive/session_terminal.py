"""The terminal of an interactive session except for the input of statements: settings, commands, answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from console import streams
from console.interactive.commands import StatementFailure, TerminalCommands
from console.interactive.completer import Ask
from console.interactive.hints import LEAVE
from console.interactive.printer import Printer, is_error
from console.interactive.settings import TerminalSettings
from console.syntax import Syntax
from lua.text_console.text_table import Lines


class Interrupts(Protocol):
    """Ends statements at Ctrl-C, which does not end the program between `capture` and `release`."""

    seconds: float | None
    """The seconds that the last statement took, None if there was none."""

    def capture(self, on_idle: Callable[[], None]) -> None:
        """Capture Ctrl-C, because a statement was read; `on_idle` is called if none runs (its answer is printed)."""

    def release(self) -> None:
        """Release Ctrl-C, because the prompt is about to appear."""

    def hold(self, is_held: bool) -> None:
        """Leave Ctrl-C to another program while it has the terminal."""


class SessionTerminal:
    """The common base of all terminals of interactive sessions."""

    name = "lunabox"

    def __init__(self, settings: TerminalSettings | None, interrupts: Interrupts | None, ask: Ask) -> None:
        self.settings = settings or TerminalSettings()
        self._interrupts = interrupts
        self._syntax = Syntax()
        self._delimiter = ""
        self._language = "lua"
        self.printer = Printer(self.settings, self._hold)
        self.commands = TerminalCommands(self.settings, self.printer, self._apply, ask)

    def _apply(self) -> None:
        """Apply settings that have changed."""

    def _erase(self) -> None:
        """Make room for something that is about to be printed."""

    def _hold(self, is_held: bool) -> None:
        if self._interrupts is not None:
            self._interrupts.hold(is_held)

    def _leaves(self, text: str) -> bool:
        """Return whether the statement is `quit` or `exit`, which other consoles use to leave."""
        statement = text.removesuffix(self._delimiter) if self._delimiter else text
        return statement.strip().removesuffix(";") in LEAVE

    def _is_complete(self, text: str) -> bool:
        return self._syntax.is_complete(text, delimiter=self._delimiter, language=self._language)

    def write(self, text: str) -> None:
        """Print text below what has been entered."""
        self._erase()
        streams.write(text)

    def answer(self, text: str) -> None:
        """Show the answer to a statement where the settings say. May wait; see `is_quick`."""
        self._erase()
        self.printer.show(text, is_prose=self.commands.shows_help)
        seconds = None
        if self._interrupts is not None:
            # Read once: a command such as \help has an answer too, but runs no statement.
            seconds, self._interrupts.seconds = self._interrupts.seconds, None
        self.commands.after(text, seconds, is_error(text), language=self._language)

    def is_quick(self, text: str) -> bool:
        """Return whether `answer` will probably not wait."""
        return self.printer.is_quick(text)

    def failed(self, stack: str, position: str) -> None:
        """Note that the statement has failed; its answer follows."""
        self.commands.failure = StatementFailure(stack, position)

    @property
    def compiles(self) -> bool:
        return self.settings.compile

    @property
    def output(self) -> str:
        return self.settings.output

    @property
    def table_rows(self) -> int:
        return self.printer.rows

    @property
    def table_width(self) -> int:
        return self.printer.width

    @property
    def table_lines(self) -> Lines:
        return self.printer.lines
