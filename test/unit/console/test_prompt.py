"""The interactive session: keys, completion, history, and a whole session on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from console.prompt import MemberCompleter, PromptTerminal
from console.syntax import Syntax

NAMES = ["box.space", "box.schema"]


async def complete(text: str) -> list[str]:
    return [name for name in NAMES if name.startswith(text)]


def type_in(*keys: str, delimiter: str = "", language: str = "lua") -> list[str | None]:
    """What the terminal reads while the keys are typed; the end of the input is Ctrl-D."""

    async def run() -> list[str | None]:
        with create_pipe_input() as source:
            terminal = PromptTerminal(complete, InMemoryHistory(), source=source, sink=DummyOutput())
            statements: list[str | None] = []
            for text in keys:
                source.send_text(text)
                statements.append(
                    await terminal.read("lunabox", delimiter=delimiter, language=language, completion=True)
                )
            return statements

    return asyncio.run(run())


def test_statement_ends_when_it_is_complete() -> None:
    """Enter opens another line until Lua can compile the text."""
    assert type_in("1 + 1\r", "function f()\rreturn 1\rend\r") == ["1 + 1", "function f()\nreturn 1\nend"]


def test_syntax_error_is_complete() -> None:
    """An error that more lines cannot mend is handed over at once."""
    assert type_in("x = = 1\r") == ["x = = 1"]


def test_control_c_drops_the_input() -> None:
    """After Ctrl-C the prompt is empty again."""
    assert type_in("function f(\x031\r") == ["1"]


def test_control_d_ends_the_session() -> None:
    """Ctrl-D on an empty input is the end."""
    assert type_in("\x04") == [None]


def test_delimiter() -> None:
    """With a delimiter a statement ends where it stands; backslash commands end at once."""
    assert type_in("1\r2;\r", "\\set delimiter\r", delimiter=";") == ["1\n2;", "\\set delimiter"]


def test_other_languages_are_read_by_lines() -> None:
    """Only Lua is asked whether it is complete."""
    assert type_in("select (\r", language="sql") == ["select ("]


def test_completions_show_the_member_alone() -> None:
    """The whole dotted word is replaced, the menu shows its last part."""

    async def run() -> list[tuple[str, int, str]]:
        completer = MemberCompleter(complete)
        found = completer.get_completions_async(Document("return box.s"), CompleteEvent())
        return [(item.text, item.start_position, item.display_text) async for item in found]

    assert asyncio.run(run()) == [("box.space", -5, "space"), ("box.schema", -5, "schema")]


def test_history_is_kept(tmp_path: Path) -> None:
    """Statements are found again by the next session."""

    async def run() -> list[str]:
        path = str(tmp_path / "history")
        with create_pipe_input() as source:
            terminal = PromptTerminal(complete, FileHistory(path), source=source, sink=DummyOutput())
            source.send_text("first = 1\r")
            await terminal.read("lunabox", delimiter="", language="lua", completion=True)
        return list(FileHistory(path).load_history_strings())

    assert asyncio.run(run()) == ["first = 1"]


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("1", True),
        ("for i = 1, 2 do", False),
        ("(42\n)", True),
        ("", True),
        ("'abc", False),
        ("[[abc", False),
        ("f(", False),
    ],
)
def test_completeness(text: str, complete: bool) -> None:
    """What more lines could finish is not complete."""
    assert Syntax().is_complete(text) is complete


class Screen:
    """A program on a pseudo-terminal: `expect` reads until a pattern appears, without escape sequences."""

    def __init__(self, directory: Path) -> None:
        self._controller, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=directory,
            env={**os.environ, "HOME": str(directory), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            close_fds=True,
        )
        os.close(terminal)
        self._seen = ""

    def send(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def expect(self, pattern: str, seconds: float = 20.0) -> str:
        deadline = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self._seen, re.DOTALL)
            if match:
                self._seen = self._seen[match.end() :]
                return match[0]
            ready, _, _ = select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {pattern!r} in {self._seen!r}")
            try:
                data = os.read(self._controller, 65536)
            except OSError:
                raise AssertionError(f"ended before {pattern!r}: {self._seen!r}") from None
            self._seen += re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()=>][0-9A-B]?)", "", data.decode(errors="replace"))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._controller)


def test_whole_session(tmp_path: Path) -> None:
    """Configure, create, insert, select, an error, a function of several lines; leave; the data is there again."""
    screen = Screen(tmp_path)
    try:
        screen.expect("Lunabox .*type 'help' for interactive help.*lunabox>")
        for command, answer in [
            ("box.cfg{log_level = 1}", r"---\r?\n\.\.\."),
            ("s = box.schema.space.create('goods')", r"---\r?\n\.\.\."),
            ("_ = s:create_index('pk')", r"---\r?\n\.\.\."),
            ("s:insert{1, 'pear'}", r"- \[1, 'pear'\]\r?\n\.\.\."),
            ("s:insert{1, 'plum'}", "- error: .*Duplicate key"),
            ("function double(x)\rreturn x * 2\rend", r"---\r?\n\.\.\."),
            ("double(21)", r"- 42\r?\n\.\.\."),
            ("double(4) -- \x03double(5)", r"- 10\r?\n\.\.\."),
        ]:
            screen.send(command + "\r")
            screen.expect(answer)
            screen.expect("lunabox>")
        screen.send("box.session.push({1}) return 2\r")
        screen.expect(r"%TAG !push! .*- 1\r?\n\.\.\..*- 2\r?\n\.\.\..*lunabox>")
        screen.send("box.spac\t")
        screen.expect("box.space")
        screen.send(".goods:len()\r")
        screen.expect(r"- 1\r?\n\.\.\..*lunabox>")
        screen.send("\x04")
        assert screen.process.wait(timeout=20) == 0
    finally:
        screen.close()
    screen = Screen(tmp_path)
    try:
        screen.expect("lunabox>")
        screen.send("box.cfg{log_level = 1}\r")
        screen.expect(r"---\r?\n\.\.\..*lunabox>")
        screen.send("box.space.goods:select{}\r")
        screen.expect(r"- - \[1, 'pear'\].*lunabox>")
        screen.send("\x04")
        assert screen.process.wait(timeout=20) == 0
    finally:
        screen.close()
