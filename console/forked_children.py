"""Reaps processes that a script has forked itself (`ffi.C.fork()`), as test frameworks do.

Nobody waits for such processes. They would stay in the process list after their end, and `kill(pid, 0)` would find
them. Tarantool's loop reaps every child; here children that a part of the instance waits for are left to that part.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress


class ForkedChildren:
    """Reaps children that are not `owned()` by parts of the instance; for the main thread of a program."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owned: Callable[[], set[int]]) -> None:
        self._loop = loop
        self._owned = owned

    def watch(self) -> None:
        """Begin to reap children. The signal is handled here, because the loop keeps it for its own use."""
        signal.signal(signal.SIGCHLD, lambda *_: self._loop.call_soon_threadsafe(self._reap))
        # Otherwise the end of a child interrupts Lua's calls of the C library: a read from io.popen would fail.
        signal.siginterrupt(signal.SIGCHLD, False)

    def _reap(self) -> None:
        for pid in _children() - self._owned():
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    """Return the children of all threads of this process; none if the kernel does not tell."""
    found: set[int] = set()
    tasks = "/proc/self/task"
    with suppress(OSError):
        for thread in os.listdir(tasks):
            with suppress(OSError), open(f"{tasks}/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    return found
