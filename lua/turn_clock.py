"""The clocks of fibers, which stand still during a turn of the loop, as in Tarantool.

Programs rely on it: a deadline that is due immediately is not late within the same turn.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

from lua.fiber import CLOCKS_READ

WALL, MONOTONIC, CLOCKS = range(3)
"""The places in the memory that is shared with Lua: seconds since the epoch, monotonic seconds, and their number."""


class TurnClock:
    """Reads the clocks on the first request in a turn, and forgets them at the turn's end."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        times: memoryview[float],
        cells: memoryview[int],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._times = times
        self._cells = cells
        self._clock = clock
        self._monotonic = monotonic

    def read(self) -> None:
        """Read the clocks; Lua calls it on the first request in a turn."""
        times = self._times
        times[WALL] = self._clock()
        times[MONOTONIC] = self._monotonic()
        if not self._loop.is_closed():  # a closed loop has no turns any more
            self._cells[CLOCKS_READ] = 1
            self._loop.call_soon(self._forget)

    def _forget(self) -> None:
        self._cells[CLOCKS_READ] = 0
