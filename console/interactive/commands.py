r"""Commands of the terminal itself, such as settings, output and timing, wherever statements run.

`take` tells whether a line was such a command. `\set language`, `\quit` and the others in `_SESSION` belong to the
session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from console.interactive import settings
from console.interactive.completer import COMMANDS, Ask
from console.interactive.hints import hint, suggestion
from console.interactive.printer import Printer
from console.interactive.settings import SettingError, TerminalSettings
from console.interactive.spaces import SpacesError, list_text, space_text

_SESSION: Final = frozenset({"help", "h", "set", "s", "quit", "q"})
_SESSION_SETTINGS: Final = frozenset({"language", "lang", "l", "output", "o", "delimiter", "delim", "d"})
_HELP: Final = "\nCommands of this terminal:\n\n  \\set output table          -- rows as a table\n" + "".join(
    f"  \\{name + ' ' + parameter:<25} -- {COMMANDS[name]}\n"
    for name, parameter in (
        ("dt", ""),
        ("d", "<space>"),
        ("set", "[<name> [<value>]]"),
        ("timing", "[on|off]"),
        ("o", "[<file>]"),
        ("|", "<command>"),
        ("stack", ""),
    )
) + """
  quit or exit leaves, and so does Ctrl-D. Ctrl-C ends a statement that runs.
  Tab completes, Right takes the suggestion, Ctrl-R searches the history,
  Ctrl-X Ctrl-E opens an editor. Pasted lines are run one by one.
"""  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatementFailure:
    """The last error of the session: its stack as text, and its place in the source if the text does not show it."""

    stack: str
    position: str


class TerminalCommands:
    """Runs the commands. `changed` is called after a setting has changed."""

    def __init__(self, chosen: TerminalSettings, printer: Printer, changed: Callable[[], None], ask: Ask) -> None:
        self._settings = chosen
        self._printer = printer
        self._changed = changed
        self._ask = ask
        self.statement = ""
        """The last line that was entered, whose answer comes next."""
        self.failure: StatementFailure | None = None
        self.shows_help = False

    async def take(self, line: str) -> bool:
        """Run a line if it is a command of the terminal. Returns whether it is one."""
        self.statement = line
        if not line.startswith("\\"):
            self.shows_help = line.strip() in ("help", "help()")
            return False
        if line.startswith("\\|"):
            self._printer.send_next_to(line[2:].strip())
            return True
        name, _, rest = line[1:].strip().partition(" ")
        rest = rest.strip()
        match name:
            case "timing":
                self._set("timing", rest or ("off" if self._settings.timing else "on"))
            case "o":
                self._open(rest)
            case "stack":
                self._show_stack()
            case "dt":
                await self._show_spaces(rest)
            case "d":
                await self._show_spaces(rest)
            case "set" | "s" if self._is_setting(rest):
                setting, _, value = rest.partition(" ")
                self._set(setting, value.strip())
            case "set" | "s" if not rest:
                self._printer.show(self._settings.shown())
            case "help" | "h" if not rest:
                self.shows_help = True
                return False
            case "set" | "s" if self._is_unknown(rest):
                self._complain_about_setting(rest.partition(" ")[0])
            case _ if name and name not in _SESSION:
                self._printer.complain(f"unknown command \\{name}; {suggestion(name, (*COMMANDS, *_SESSION))}")
            case _:
                return False
        return True

    @staticmethod
    def _is_setting(rest: str) -> bool:
        name = rest.partition(" ")[0]
        return name in settings.names() and name not in _SESSION_SETTINGS

    @staticmethod
    def _is_unknown(rest: str) -> bool:
        """Return whether neither the terminal nor the session has such a setting."""
        name = rest.partition(" ")[0]
        return name not in settings.names() and name not in _SESSION_SETTINGS

    def _complain_about_setting(self, name: str) -> None:
        close = get_close_matches(name, (*settings.names(), *_SESSION_SETTINGS), 1)
        advice = f"did you mean {close[0]}?" if close else "\\set lists them"
        self._printer.complain(f"unknown setting {name}; {advice}")

    async def _show_spaces(self, name: str) -> None:
        width, lines = self._printer.width, self._printer.lines
        try:
            if name:
                text = await space_text(self._ask, name, width, lines)
            else:
                text = await list_text(self._ask, width, lines)
        except SpacesError as error:
            self._printer.complain(str(error))
            return
        # In a thread, because a pager has the terminal until the user leaves it.
        await asyncio.to_thread(self._printer.show, text)

    def _set(self, name: str, value: str) -> None:
        try:
            if value:
                self._settings.set(name, value)
                self._changed()
            else:
                self._printer.show(f"{name} {getattr(self._settings, name)}\n")
        except SettingError as error:
            self._printer.complain(str(error))

    def _open(self, path: str) -> None:
        try:
            self._printer.open_file(path)
        except OSError as error:
            self._printer.complain(f"{path}: {error.strerror}")

    def _show_stack(self) -> None:
        if self.failure is None:
            self._printer.complain("no error so far")
        else:
            self._printer.show(self.failure.stack.rstrip("\n") + "\n")

    # -- answers -----------------------------------------------------------------------------------------------------

    def after(self, answer: str, seconds: float | None, is_error: bool, *, language: str = "lua") -> None:
        """Print what belongs below an answer: help, the stack of an error, a hint for statements of Lua, the time."""
        if self.shows_help:
            self.shows_help = False
            self._printer.show(_HELP, is_prose=True)
        if is_error and self.failure is not None:
            if self._settings.stack:
                self._show_stack()
            elif self.failure.position:
                self._printer.note(f"at {self.failure.position}; \\stack shows the stack")
        advice = hint(self.statement, answer, is_error=is_error) if language == "lua" else None
        if advice is not None:
            self._printer.note(advice)
        if self._settings.timing and seconds is not None:
            self._printer.note(f"Time: {spelled_time(seconds)}")


def spelled_time(seconds: float) -> str:
    """Format a duration: `0.123 ms`, `12.3 ms`, `1.234 s`, `2 min 3.4 s`."""
    if seconds < 1:
        return f"{seconds * 1e3:.3f} ms"
    if seconds < 60:
        return f"{seconds:.3f} s"
    return f"{int(seconds // 60)} min {seconds % 60:.1f} s"
