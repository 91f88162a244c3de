"""The input of an interactive session: keys, completion, history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from console.prompt import PromptTerminal
from console.syntax import Syntax


async def ask(_function: str, *_arguments: object) -> None:
    """Answer no question about names."""


def type_in(*keys: str, delimiter: str = "", language: str = "lua") -> list[str | None]:
    """Type keys at a prompt and return what it reads; the input ends with Ctrl-D."""

    async def run() -> list[str | None]:
        with create_pipe_input() as source:
            terminal = PromptTerminal(ask, InMemoryHistory(), source=source, sink=DummyOutput())
            statements: list[str | None] = []
            for text in keys:
                source.send_text(text)
                statements.append(
                    await terminal.read("lunabox", delimiter=delimiter, language=language, completion=True)
                )
            return statements

    return asyncio.run(run())


def test_statement_ends_when_it_is_complete() -> None:
    """Enter continues a statement on another line until Lua can compile it."""
    assert type_in("1 + 1\r", "function f()\rreturn 1\rend\r") == ["1 + 1", "function f()\nreturn 1\nend"]


def test_syntax_error_is_complete() -> None:
    """A syntax error that more lines cannot fix is sent at once."""
    assert type_in("x = = 1\r") == ["x = = 1"]


def test_control_c_drops_the_input() -> None:
    """Ctrl-C empties the prompt."""
    assert type_in("function f(\x031\r") == ["1"]


def test_control_d_ends_the_session() -> None:
    """Ctrl-D at an empty prompt ends the session."""
    assert type_in("\x04") == [None]


def test_delimiter() -> None:
    """Once a delimiter is set, statements end only at the delimiter; backslash commands end with their line."""
    assert type_in("1\r2;\r", "\\set delimiter\r", delimiter=";") == ["1\n2;", "\\set delimiter"]


def test_other_languages_are_read_by_lines() -> None:
    """In languages other than Lua each line is a statement."""
    assert type_in("select (\r", language="sql") == ["select ("]


def test_history_is_kept(tmp_path: Path) -> None:
    """The next session finds earlier statements in the history."""

    async def run() -> list[str]:
        path = str(tmp_path / "history")
        with create_pipe_input() as source:
            terminal = PromptTerminal(ask, FileHistory(path), source=source, sink=DummyOutput())
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
        ("x = [[a\nb", False),
        ("x = [[a\nb]]", True),
        ("--[[ a\nb", False),
        ("--[[ a\nb ]]", True),
        ("-- a note", True),
        ("x = { -- a note", False),
        ("[[abc", False),
        ("f(", False),
    ],
)
def test_completeness(text: str, complete: bool) -> None:
    """A text that more lines could complete is incomplete."""
    assert Syntax().is_complete(text) is complete
