"""Helpers for tests: waiting for a condition with a deadline, and an address that refuses connections."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 20.0
"""The default deadline in seconds, long enough for a machine that is busy with other work."""
_SHORT, _LONG = 0.0005, 0.005
"""The shortest and the longest pause between two checks, in seconds; pauses grow from one to the other."""


async def until(
    condition: Callable[[], object], what: str = "the condition", seconds: float = SECONDS, longest: float = _LONG
) -> None:
    """Wait on the running loop until a condition holds. It may be a coroutine function.

    `longest` is the longest pause between two checks, in seconds. A check that asks another process wants a long one,
    because its questions keep that process from what the test waits for.

    Raises:
        AssertionError: it does not hold within `seconds`.
    """
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
        pause = min(pause * 1.5, longest) or _SHORT


def wait_until(condition: Callable[[], object], what: str = "the condition", seconds: float = SECONDS) -> None:
    """Wait without a loop until a condition holds.

    Raises:
        AssertionError: it does not hold within `seconds`.
    """
    deadline, pause = time.monotonic() + seconds, _SHORT
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(pause)
        pause = min(pause * 1.5, _LONG)


@contextmanager
def refusing_address() -> Iterator[str]:
    """Yield `127.0.0.1:PORT`, an address that refuses connections because the port is bound but not listened on.

    A low port number would not do: tests that call every function with every argument may listen there.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
