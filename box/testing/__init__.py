"""Help for tests of instances and of applications: a replica set in simulated time.

`box.testing.pytest_plugin` has it as a fixture; docs/simulation.md is a tutorial.
"""

from box.testing.simulation.faults import storm
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

__all__ = ["NodeDied", "SimulatedNode", "Simulation", "storm"]
