"""What the Lua modules of a simulated node reach: the disk, the network and the clock of its process."""

from __future__ import annotations

from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.simulated_network import SimulatedHost
from lua.machine import Machine


def simulated_machine(disk: SimulatedDisk, host: SimulatedHost) -> Machine:
    """The machine of one process."""
    return Machine()
