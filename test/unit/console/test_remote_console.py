"""Statements for another instance that are given up."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from console.interactive.settings import TerminalSettings
from console.prompt import LineTerminal
from console.remote.nodes import OnPush
from console.remote.remote_console import AwaitInterrupts, RemoteConsole


class Node:
    """Connected after some turns of the loop, and never done with a statement."""

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

    def close(self) -> None: ...


async def _interrupted(node: Node, yields: int) -> str | None:
    """The answer to a statement; the signal comes so many turns of the loop after the statement has been read."""
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
    """Whether the statement is to be sent, the node is reached again, or has the statement."""
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
