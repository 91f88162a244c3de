"""Waiting in tests: for a condition, with a deadline, never for a time. An address at which nobody is."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 20.0
"""Until a condition counts as one that does not come true, on a machine with other things to do."""
_SHORT, _LONG = 0.0005, 0.005
"""Pauses between two looks grow from one to the other, in seconds."""


async def until(condition: Callable[[], object], what: str = "the condition", seconds: float = SECONDS) -> None:
    """Let the loop run until the condition holds. It may be a coroutine function. AssertionError at the deadline."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, 0.0
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert loop.time() < deadline, f"{what} did not come true within {seconds} s"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONG) or _SHORT


def wait_until(condition: Callable[[], object], what: str = "the condition", seconds: float = SECONDS) -> None:
    """Look again and again, without a loop, until the condition holds. AssertionError at the deadline."""
    deadline, pause = time.monotonic() + seconds, _SHORT
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(pause)
        pause = min(pause * 1.5, _LONG)


@contextmanager
def refusing_address() -> Iterator[str]:
    """`127.0.0.1:PORT` that refuses connections: the port is taken, and nobody listens.

    A low number will not do: tests that call everything with every argument listen there, where they may.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
