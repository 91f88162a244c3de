r"""Destinations of answers: the terminal, a pager for long ones, a file (`\o`), a command (`\|`)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Final

from console import streams
from console.interactive.settings import TerminalSettings
from console.interactive.styles import painted
from lua.standard_output import OUTPUT
from lua.text_console.text_table import ASCII, UNICODE, Lines

_PIECE: Final = 65536
"""The characters that are written at once; after each piece the user may have given up the output."""
_CHOPPED, _WRAPPED = "RSX", "RX"  # options of less: tables and data scroll sideways, text does not
_ERROR = re.compile(r"---\n- error: |\{error = |error: ")
_MARK = re.compile(r"^(---\n)(.*?)(\n\.\.\.\n+)?$", re.DOTALL)


class Printer:
    """Shows the answers of one session. Its methods may run in a thread, but only one at a time."""

    def __init__(self, settings: TerminalSettings, hold_interrupts: Callable[[bool], None]) -> None:
        self.settings = settings
        self._hold = hold_interrupts
        self._file: IO[str] | None = None
        self._command: str | None = None
        self._abandoned = threading.Event()

    @property
    def is_redirected(self) -> bool:
        return self._file is not None or self._command is not None

    @property
    def width(self) -> int:
        """The number of columns for tables; 0 means no limit."""
        if self.settings.width != "auto":
            return int(self.settings.width)
        return 0 if self.is_redirected else terminal_size()[0]

    @property
    def rows(self) -> int:
        """The number of table rows to show; 0 means all."""
        return 0 if self.is_redirected else self.settings.rows

    @property
    def lines(self) -> Lines:
        return UNICODE if is_unicode() else ASCII

    def is_quick(self, text: str) -> bool:
        """Return whether `show` will probably not wait."""
        return (
            not self.is_redirected
            and not self._needs_pager(text)
            and OUTPUT.takes_at_once(len(text.encode(errors="replace")))
        )

    def abandon(self) -> None:
        """Stop showing the current answer, after Ctrl-C."""
        self._abandoned.set()

    # -- an answer -------------------------------------------------------------------------------------------------

    def show(self, text: str, *, is_prose: bool = False) -> None:
        """Show an answer or a part of one. Long lines of prose are wrapped; the pager chops those of data."""
        self._abandoned.clear()
        if self._command is not None:
            self._to_command(text)
        elif self._file is not None:
            self._to_file(text)
        elif self._needs_pager(text):
            self._to_pager(text, _WRAPPED if is_prose else _CHOPPED)
        else:
            self._to_terminal(coloured(text, self.settings.style))

    def note(self, text: str) -> None:
        """Print a remark on an answer to the terminal."""
        self._say(text, "quiet")

    def complain(self, text: str) -> None:
        """Print an error about a command of the terminal itself."""
        self._say(text, "error")

    def _say(self, text: str, part: str) -> None:
        has_colours = is_terminal() and not is_dumb()
        streams.write((painted(text, part, self.settings.style) if has_colours else text) + "\n")

    def _to_terminal(self, text: str) -> None:
        for start in range(0, len(text), _PIECE):
            if self._abandoned.is_set():
                streams.write("\n")
                return
            streams.write(text[start : start + _PIECE])

    def _to_file(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self.complain(f"{self._file.name}: {error.strerror}")
            self.close()

    def _to_command(self, text: str) -> None:
        command, self._command = self._command, None
        assert command is not None
        self._run(command, text, shell=True)

    def _needs_pager(self, text: str) -> bool:
        if self.settings.pager == "off" or not is_terminal() or is_dumb():
            return False
        columns, lines = terminal_size()
        return takes_lines(text, columns, lines - 1) > lines - 1 and self._pager() is not None

    def _pager(self) -> list[str] | None:
        chosen = self.settings.pager
        command = chosen if chosen != "on" else os.environ.get("PAGER") or "less"
        try:
            words = shlex.split(command)
        except ValueError:
            return None
        return words if words and shutil.which(words[0]) else None

    def _to_pager(self, text: str, options: str) -> None:
        words = self._pager()
        if words is not None:
            self._run(words, coloured(text, self.settings.style), shell=False, options=options)

    def _run(self, command: str | list[str], text: str, *, shell: bool, options: str = _CHOPPED) -> None:
        """Run a program that reads the text and has the terminal meanwhile, Ctrl-C included."""
        self._hold(True)
        try:
            with subprocess.Popen(
                command,
                shell=shell,
                stdin=subprocess.PIPE,
                env={"LESS": options, **os.environ},
            ) as process:
                assert process.stdin is not None
                with suppress(BrokenPipeError):
                    process.stdin.write(text.encode(errors="surrogateescape"))
                with suppress(BrokenPipeError):
                    process.stdin.close()
                process.wait()
        except OSError as error:
            self.complain(f"{command}: {error.strerror}")
        finally:
            self._hold(False)

    # -- commands --------------------------------------------------------------------------------------------------

    def open_file(self, path: str) -> None:
        """Write answers to a file from now on; an empty name means the terminal. Raises OSError."""
        self.close()
        if path:
            self._file = open(os.path.expanduser(path), "a", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115

    def send_next_to(self, command: str) -> None:
        self._command = command or None

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


# -- the terminal ----------------------------------------------------------------------------------------


def terminal_size() -> tuple[int, int]:
    """Return the size of the terminal: (columns, lines)."""
    size = shutil.get_terminal_size((80, 24))
    return max(1, size.columns), max(1, size.lines)


def is_terminal() -> bool:
    with suppress(OSError, ValueError):
        return os.isatty(1)
    return False


def is_dumb() -> bool:
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")


def is_unicode() -> bool:
    """Return whether the locale's characters are UTF-8, as the locale itself tells and not as the interpreter
    assumes.
    """
    kind = "" if _has_coerced_locale() else os.environ.get("LC_CTYPE")
    chosen = os.environ.get("LC_ALL") or kind or os.environ.get("LANG") or ""
    return "utf" in chosen.lower()


@cache
def _has_coerced_locale() -> bool:
    """Return whether the interpreter has set LC_CTYPE itself (PEP 538), so that the process was not started with it."""
    try:
        variables = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return not any(variable.startswith(b"LC_CTYPE=") for variable in variables)


def takes_lines(text: str, columns: int, enough: int) -> int:
    """Return the number of screen lines that a text takes; counting stops above `enough`."""
    count, start = 0, 0
    while count <= enough:
        end = text.find("\n", start)
        length = (len(text) if end < 0 else end) - start
        count += max(1, -(-length // columns))
        if end < 0 or end == len(text) - 1:
            break
        start = end + 1
    return count


def coloured(text: str, style: str) -> str:
    """Return an answer in red if it is an error; the YAML marks stay plain."""
    if not is_terminal() or is_dumb() or not is_error(text):
        return text
    parts = _MARK.match(text)
    if parts is None:
        return painted(text, "error", style)
    return parts[1] + painted(parts[2], "error", style) + (parts[3] or "")


def is_error(text: str) -> bool:
    return _ERROR.match(text) is not None
