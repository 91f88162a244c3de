"""The clocks of a process, as `clock` and `os` read them."""

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
        """Whether they are those of this process: Lua reads these itself, which is faster."""

    def read(self, name: str) -> int:
        """Nanoseconds of one of the clocks above."""


class SystemClocks:
    """The operating system's."""

    are_of_system = True

    def read(self, name: str) -> int:
        """Nanoseconds: since the epoch, since the machine's start, of the processor."""
        return time.clock_gettime_ns(_SYSTEM[name])
