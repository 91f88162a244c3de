"""The machine that the Lua modules of a simulated node see: the disk, the network and the clock of its process."""

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
"""The first process number; small ones belong to the system on a real machine."""


class SimulatedClocks:
    """The wall clock of a node, and simulated time.

    Computation takes no simulated time, so the processor time of a process equals the time since its start.
    """

    are_of_system = False

    def __init__(self, loop: SimulatedLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._started = loop.time()

    def read(self, name: str) -> int:
        """Return the nanoseconds of a clock."""
        if name == REALTIME:
            seconds = self._now()
        else:
            seconds = self._loop.time() - (0.0 if name == MONOTONIC else self._started)
        return round(seconds * 1e9)

    def utc_offset(self, epoch: int) -> int:
        """Return 0: the local time is UTC."""
        return 0


class SimulatedIdentity:
    """The number of a process, which counts the starts of its node, and its random bytes."""

    def __init__(self, start: int, random: Random) -> None:
        self._process_id = _FIRST_PROCESS + start
        self._random = random

    def process_id(self) -> int:
        """Return the process number, which is equal in equal runs."""
        return self._process_id

    def random_bytes(self, size: int) -> bytes:
        """Return random bytes, which are drawn from the seed."""
        return self._random.randbytes(size)


def simulated_machine(
    disk: SimulatedDisk, host: SimulatedHost, loop: SimulatedLoop, now: Callable[[], float], start: int, random: Random
) -> Machine:
    """Return the machine of the process that a node starts for the `start`-th time."""
    return Machine(
        files=SimulatedFiles(disk, random, host.remove_socket_file),
        sockets=SimulatedSockets(host, loop),
        clocks=SimulatedClocks(loop, now),
        identity=SimulatedIdentity(start, random),
        has_outside=False,
    )
