"""The terminal of an interactive session, without the way statements are typed: settings, commands, answers."""

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
    """Ends statements at Ctrl-C: between `capture` and `release` it is not the program's end."""

    seconds: float | None
    """Time of the last statement, None if there was none."""

    def capture(self, on_idle: Callable[[], None]) -> None:
        """A statement has been read; `on_idle` is called at Ctrl-C while none runs (its answer is printed)."""

    def release(self) -> None:
        """The prompt is about to appear."""

    def hold(self, is_held: bool) -> None:
        """While another program has the terminal, Ctrl-C is that program's."""


class SessionTerminal:
    """The half of a terminal that is the same for every way to type."""

    def __init__(self, settings: TerminalSettings | None, interrupts: Interrupts | None, ask: Ask) -> None:
        self.settings = settings or TerminalSettings()
        self._interrupts = interrupts
        self._syntax = Syntax()
        self._delimiter = ""
        self._language = "lua"
        self.printer = Printer(self.settings, self._hold)
        self.commands = TerminalCommands(self.settings, self.printer, self._apply, ask)

    def _apply(self) -> None:
        """The settings have changed."""

    def _erase(self) -> None:
        """Something is about to be printed."""

    def _hold(self, is_held: bool) -> None:
        if self._interrupts is not None:
            self._interrupts.hold(is_held)

    def _leaves(self, text: str) -> bool:
        """Return whether the statement asks to leave: `quit` or `exit`, as in other consoles."""
        statement = text.removesuffix(self._delimiter) if self._delimiter else text
        return statement.strip().removesuffix(";") in LEAVE

    def _is_complete(self, text: str) -> bool:
        return self._syntax.is_complete(text, delimiter=self._delimiter, language=self._language)

    def write(self, text: str) -> None:
        """Print below what has been entered."""
        self._erase()
        streams.write(text)

    def answer(self, text: str) -> None:
        """Show the answer to a statement, where and how it is to be shown. May wait: see `is_quick`."""
        self._erase()
        self.printer.show(text, is_prose=self.commands.shows_help)
        seconds = self._interrupts.seconds if self._interrupts is not None else None
        self.commands.after(text, seconds, is_error(text))

    def is_quick(self, text: str) -> bool:
        """Whether `answer` will not wait, as far as one can know."""
        return self.printer.is_quick(text)

    def failed(self, stack: str, position: str) -> None:
        """The statement has failed; its answer follows."""
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
