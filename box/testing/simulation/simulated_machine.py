"""The machine that the Lua modules of a simulated node reach: the disk, the network and the clock of its process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.loop import SimulatedLoop
from box.testing.simulation.simulated_files import SimulatedFiles
from box.testing.simulation.simulated_network import SimulatedHost
from box.testing.simulation.simulated_sockets import SimulatedSockets
from lua.machine import Machine
from lua.machine.clocks import MONOTONIC, REALTIME

_FIRST_PROCESS = 100


class SimulatedClocks:
    """The clock on the wall, and simulated time; work takes none, so that a process has used all that has passed."""

    are_of_system = False

    def __init__(self, loop: SimulatedLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._started = loop.time()

    def read(self, name: str) -> int:
        """Nanoseconds."""
        if name == REALTIME:
            seconds = self._now()
        else:
            seconds = self._loop.time() - (0.0 if name == MONOTONIC else self._started)
        return round(seconds * 1e9)

    def utc_offset(self, epoch: int) -> int:
        """None: the local time is UTC."""
        return 0


class SimulatedIdentity:
    """The number of a process follows from how many its node has had."""

    def __init__(self, start: int, random: Random) -> None:
        self._process_id = _FIRST_PROCESS + start
        self._random = random

    def process_id(self) -> int:
        """The same for equal runs."""
        return self._process_id

    def random_bytes(self, size: int) -> bytes:
        """Of the seed."""
        return self._random.randbytes(size)


def simulated_machine(
    disk: SimulatedDisk, host: SimulatedHost, loop: SimulatedLoop, now: Callable[[], float], start: int, random: Random
) -> Machine:
    """The machine of one process: the one that its node starts for the `start`-th time."""
    return Machine(
        files=SimulatedFiles(disk, random),
        sockets=SimulatedSockets(host, loop),
        clocks=SimulatedClocks(loop, now),
        identity=SimulatedIdentity(start, random),
        has_outside=False,
    )
