"""Processes that a script has forked by itself (`ffi.C.fork()`), as test frameworks do.

Nobody here waits for them, so that they would stay in the list of processes after their end, and `kill(pid, 0)` would
find them. Tarantool's loop reaps every child. Here those that somebody waits for are left to them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class ForkedChildren:
    """Reaps children that are not `owned()` by parts of the instance. Only for the main thread of a program."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owned: Callable[[], set[int]]) -> None:
        self._loop = loop
        self._owned = owned

    def watch(self) -> None:
        """From now on. The loop cannot be asked to: it keeps this signal for itself."""
        signal.signal(signal.SIGCHLD, lambda *_: self._loop.call_soon_threadsafe(self._reap))

    def _reap(self) -> None:
        for pid in _children() - self._owned():
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    """Of all threads of this process; none where the kernel does not tell."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found
