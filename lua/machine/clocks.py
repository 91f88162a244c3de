"""The clocks of a process, for the Lua modules `clock`, `datetime` and `os`."""

from __future__ import annotations

import time
from typing import Final, Protocol

REALTIME: Final = "realtime"
MONOTONIC: Final = "monotonic"
PROCESS: Final = "process"
THREAD: Final = "thread"

_SYSTEM: Final = {
    REALTIME: time.CLOCK_REALTIME,
    MONOTONIC: time.CLOCK_MONOTONIC,
    PROCESS: time.CLOCK_PROCESS_CPUTIME_ID,
    THREAD: time.CLOCK_THREAD_CPUTIME_ID,
}


class Clocks(Protocol):
    """The clocks of one process."""

    @property
    def are_of_system(self) -> bool:
        """True if they are the clocks of this process, which Lua can read itself, and faster."""

    def read(self, name: str) -> int:
        """Return the nanoseconds of a clock."""

    def utc_offset(self, epoch: int) -> int:
        """Return by how many seconds the local time is ahead of UTC at a moment, in seconds since 1970."""


class SystemClocks:
    """The operating system's clocks."""

    are_of_system = True

    def read(self, name: str) -> int:
        """Return the nanoseconds of a clock: since the epoch, since the machine's start, or of processor time."""
        return time.clock_gettime_ns(_SYSTEM[name])

    def utc_offset(self, epoch: int) -> int:
        """Return by how many seconds the local time is ahead of UTC."""
        return time.localtime(epoch).tm_gmtoff
