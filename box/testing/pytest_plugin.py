"""Fixtures for pytest, which finds them by itself where this package is installed.

```
box_node      a running `box.sync.Node` in memory
box_cluster   makes a `Cluster` whose files are below `tmp_path`: `async with box_cluster(3, synchronous=True) as c`
simulation    a `Simulation`; the test runs once for each seed
```

`--simulation-seeds N` runs simulations with the seeds 1 to N, `--simulation-seed N` plays one again. An exception that
nobody caught in the simulation fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from box.sync import Node
    from box.testing.local_cluster import Cluster
    from box.testing.simulation.simulation import Simulation


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lunabox")
    group.addoption("--simulation-seeds", type=int, default=5, metavar="N", help="run simulations with seeds 1 to N")
    group.addoption("--simulation-seed", type=int, metavar="N", help="run simulations with this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "simulation" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--simulation-seed")
        seeds = range(1, metafunc.config.getoption("--simulation-seeds") + 1) if seed is None else [seed]
        metafunc.parametrize("simulation", seeds, indirect=True, ids="seed={}".format)


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """A simulation with one of the seeds."""
    from box.testing.simulation.simulation import Simulation  # what is not used is not loaded

    with Simulation(request.param) as simulation:
        yield simulation
        assert not simulation.errors, "\n".join(simulation.errors)


@pytest.fixture
def box_node() -> Iterator[Node]:
    """A running node in memory, for tests without a loop."""
    from box.sync import Node

    with Node() as node:
        yield node


@pytest.fixture
def box_cluster(tmp_path: Path) -> Callable[..., Cluster]:
    """`box_cluster(size=3, **options)`: a cluster for `async with`; its files stay where pytest keeps those of tests.

    The loop is the test's own.
    """
    from box.testing.local_cluster import Cluster

    def make(size: int = 3, **options: Any) -> Cluster:
        return Cluster(size, directory=tmp_path / "cluster", **options)

    return make
