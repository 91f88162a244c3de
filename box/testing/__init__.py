"""Test helpers for applications and for the node itself.

```
Cluster      local_cluster.py   a replica set in the test's process, over real sockets and files
Simulation   simulation/        a replica set in simulated time, with failures at any moment, all drawn from one seed
```

`box.testing.pytest_plugin` offers both as fixtures; docs/simulation.md is a tutorial.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.testing.local_cluster import Cluster, KillableNode
    from box.testing.simulation.injector import storm
    from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
    from box.testing.simulation.simulation import Simulation

__all__ = ["Cluster", "KillableNode", "NodeDied", "SimulatedNode", "Simulation", "storm"]

_MODULES = {
    "Cluster": "local_cluster",
    "KillableNode": "local_cluster",
    "NodeDied": "simulation.simulated_node",
    "SimulatedNode": "simulation.simulated_node",
    "Simulation": "simulation.simulation",
    "storm": "simulation.injector",
}
"""The module of each public name. They load on first use, because pytest imports this package when it starts."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"box.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'box.testing' has no attribute {name!r}")
