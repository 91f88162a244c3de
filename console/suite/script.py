"""Reads a test script line by line and decides what is echoed to the result and what is sent to the node; pure.

    version    ScriptReader.version: 2 (replies are prefixed by ` | `) or 1 (replies are unchanged)
    echo       lines that were read and are not yet in the result
    command    text collected for the next command
    delimiter  ends a command if it is set (`setopt delimiter`); otherwise every line is a command

Source: the rules 1-6 of the runner's contract ("From test file to result file").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

RESULT_HEADER = "-- test-run result file version "
REPLY_PREFIX = " | "
NEWEST_VERSION = 2


@dataclass(frozen=True, slots=True)
class Echo:
    """An action: put `text` into the result."""

    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """An action: send `command` and put its reply into the result."""

    command: str


Action = Echo | Run


class ScriptReader:
    """Turns source lines into actions. `delimiter` may change between two lines."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.delimiter = ""
        self._echo = ""
        self._command = ""

    def header(self) -> str:
        """Return the first line of a result file of this version."""
        return f"{RESULT_HEADER}{self.version}\n" if self.version >= 2 else ""

    def feed(self, line: str) -> Iterator[Action]:
        """Yield the actions for one source line, which is given without its line end."""
        if line.startswith("-- tags:"):
            return
        if not line.strip() or line.startswith("--"):
            yield from self._feed_comment(line)
            return
        if not self._collect(line):
            return
        yield from self._flush_echo()
        command, self._command = self._command, ""
        yield Run(command)

    def finish(self) -> Iterator[Action]:
        """Yield the actions after the last line: an unfinished command is echoed but never sent."""
        yield from self._flush_echo()

    def reply(self, text: str) -> str:
        """Return a reply in the form of the result file."""
        if self.version < 2:
            return text
        lines = text.rstrip("\n").split("\n")
        return "".join(f"{REPLY_PREFIX}{line}\n" for line in lines)

    def _feed_comment(self, line: str) -> Iterator[Action]:
        if self.version >= 2:
            self._echo += line + "\n"
            yield from self._flush_echo()
        elif line.strip():
            yield Echo(line + "\n")
        elif self._echo:
            self._echo += line + "\n"

    def _collect(self, line: str) -> bool:
        """Add a line of code. Returns True if the command is complete."""
        self._echo += line + "\n"
        if self.delimiter:
            complete = line.endswith(self.delimiter)
            self._command += line[: -len(self.delimiter)] if complete else line + " "
            return complete
        if line.endswith("\\"):
            self._command += line[:-1] + " "
            return False
        self._command += line + "\n"
        return True

    def _flush_echo(self) -> Iterator[Action]:
        if self._echo:
            echo, self._echo = self._echo, ""
            yield Echo(echo)


def result_version(result: str | None) -> int:
    """Return the version of a result file's text; without a file (None) it is 2. Raises ValueError for an unknown
    version.
    """
    if result is None:
        return NEWEST_VERSION
    first = result.partition("\n")[0]
    if not first.startswith(RESULT_HEADER):
        return 1
    version = first[len(RESULT_HEADER) :]
    if version != str(NEWEST_VERSION):
        raise ValueError(f"unknown version of a result file: {version}")
    return NEWEST_VERSION


def wire_command(command: str) -> bytes:
    """Encode a command for the console's text protocol: one line."""
    return command.replace("\n", " ").encode(errors="surrogateescape") + b"\n"
