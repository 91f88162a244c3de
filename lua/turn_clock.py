"""The clocks of fibers, which stand still during a turn of the loop, as those of Tarantool's loop do.

Programs count on it: what is due at once is not late in the same turn.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

from lua.fiber import CLOCKS_READ

WALL, MONOTONIC, CLOCKS = range(3)
"""Places in the memory that is shared with Lua: seconds since the epoch, seconds."""


class TurnClock:
    """Reads the clocks for the first that asks in a turn, and forgets them at the turn's end."""

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
        """From Lua: nobody has asked in this turn."""
        times = self._times
        times[WALL] = self._clock()
        times[MONOTONIC] = self._monotonic()
        if not self._loop.is_closed():  # else there are no turns any more
            self._cells[CLOCKS_READ] = 1
            self._loop.call_soon(self._forget)

    def _forget(self) -> None:
        self._cells[CLOCKS_READ] = 0
