"""Statements for another instance that are interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from console.interactive.settings import TerminalSettings
from console.prompt import LineTerminal
from console.remote.nodes import OnPush, dial
from console.remote.remote_console import AwaitInterrupts, RemoteConsole, _plain
from test.unit.console.conftest import listening


class Node:
    """A remote node that connects after some turns of the loop, and never answers."""

    name = "elsewhere"

    def __init__(self, turns: int) -> None:
        self.statements: list[str] = []
        self._turns = turns

    async def open(self) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)

    async def execute(self, statement: str, on_push: OnPush) -> str:
        self.statements.append(statement)
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def call(self, module: str, function: str, *arguments: Any) -> Any:
        raise AssertionError

    async def ask(self, module: str, function: str, *arguments: Any) -> Any:
        raise AssertionError

    def close(self) -> None: ...


async def _interrupted(node: Node, yields: int) -> str | None:
    """Return the answer to a statement that a signal interrupts so many turns of the loop after it was read."""
    interrupts = AwaitInterrupts()
    interrupts.capture(lambda: None)
    console = RemoteConsole(node, interrupts, TerminalSettings())
    console.terminal = LineTerminal()

    async def interrupt() -> None:
        for _ in range(yields):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)

    task = asyncio.create_task(interrupt())
    if not yields:
        await task
    async with asyncio.timeout(10):
        answer = await console.execute("sleep()")
    await task
    return answer


@pytest.mark.parametrize("yields", range(8))
@pytest.mark.parametrize("turns", [0, 3])
def test_no_interruption_is_lost(yields: int, turns: int) -> None:
    """A statement is interrupted before it is sent, while the node reconnects, and while the node runs it."""
    node = Node(turns)
    answer = asyncio.run(_interrupted(node, yields))
    fate = "; elsewhere may go on with the statement" if node.statements else ""
    assert answer == f"---\n- error: interrupted{fate}\n...\n"


def test_the_end_of_the_program_is_no_interruption() -> None:
    async def main() -> None:
        node = Node(3)
        console = RemoteConsole(node, AwaitInterrupts(), TerminalSettings())
        task = asyncio.create_task(console.execute("sleep()"))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert node.statements == []

    asyncio.run(main())


def test_a_question_that_is_given_up_keeps_the_connection(short_path: Path) -> None:
    """A completion question that is dropped keeps the connection with its transaction, and its answer is not mistaken
    for another.
    """

    async def main() -> None:
        async with listening(short_path) as (_, path):
            node = await dial(f"unix/:{path}")
            console = RemoteConsole(node, AwaitInterrupts(), TerminalSettings())
            console.terminal = LineTerminal()
            await console.execute("fiber = require('fiber') id = fiber.id()")
            for waits in range(6):
                question = asyncio.create_task(console.ask("names", "module", "", 10, []))
                last = asyncio.create_task(console.ask("names", "module", "", 10, []))
                for _ in range(waits):
                    await asyncio.sleep(0)
                question.cancel()
                last.cancel()
                assert await console.execute(f"{waits}, fiber.id() == id") == f"---\n- {waits}\n- true\n...\n"
                assert await console.ask("spaces", 10) is not None
            node.close()

    asyncio.run(main())


def test_prose_is_shown_as_text() -> None:
    """A text of several lines is shown as text, in any form that YAML gives it; other values stay YAML."""
    assert _plain("---\n- - |\n    one\n      two\n...\n") == "one\n  two\n"
    assert _plain("---\n- |2\n   1  one\n  end\n...\n") == " 1  one\nend\n"
    for answer in ("---\n- error: no\n...\n", "---\n- one\n...\n", "---\n- 1\n- 2\n...\n", "---\n...\n", "x: ]"):
        assert _plain(answer) == answer
