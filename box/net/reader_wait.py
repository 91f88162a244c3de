"""The wait of a reader for data, with a time limit.

A busy connection is waited for thousands of times a second, mostly for a moment, and each wait has a limit, so one
timer serves them all. A wait that is over leaves the timer armed. When it fires, it ends the current wait if its time
is over, and is armed for that wait's limit otherwise.
"""

from __future__ import annotations

import asyncio
from math import inf


class ReaderWait:
    """The wait of one reader at a time, with a shared timer."""

    __slots__ = ("_armed_for", "_deadline", "_loop", "_reader", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader: asyncio.Future[bool] | None = None
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf

    async def wait(self, timeout: float | None) -> bool:
        """Wait for `wake`. Returns False if it does not come within `timeout` seconds; None means no limit."""
        reader: asyncio.Future[bool] = self._loop.create_future()
        self._reader = reader
        if timeout is not None:
            self._deadline = self._loop.time() + timeout
            if self._deadline < self._armed_for:
                self._arm()
        try:
            return await reader
        finally:
            self._reader, self._deadline = None, inf

    def wake(self) -> None:
        """End the wait, because data has come."""
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(True)

    def stop(self) -> None:
        """End the current wait and disarm the timer."""
        self.wake()
        self._disarm()

    def _arm(self) -> None:
        self._disarm()
        self._armed_for = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._fire)

    def _disarm(self) -> None:
        timer, self._timer = self._timer, None
        self._armed_for = inf
        if timer is not None:
            timer.cancel()

    def _fire(self) -> None:
        # Compares with the time that was armed, not with the clock, because timers may fire a moment early.
        is_over = self._deadline <= self._armed_for
        self._timer, self._armed_for = None, inf
        reader = self._reader
        if reader is None or reader.done() or self._deadline == inf:
            return
        if is_over:
            reader.set_result(False)
        else:
            self._arm()
