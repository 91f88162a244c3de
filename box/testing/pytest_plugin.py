"""Fixtures for pytest, which finds them by itself if this package is installed.

```
box_node         a running `box.sync.Node` in memory
box_server       a running `box.sync.Node` in memory, for clients of the 2.11 line
async_box_node   a running `box.Node` in memory, for pytest-asyncio or anyio
box_cluster      makes a `Cluster` whose files are below `tmp_path`
simulation       a `Simulation`; the test runs once for each seed
```

Clients find a `box_server` at `box_server.info["listen"]`. A cluster is made with
`async with box_cluster(3, synchronous=True) as c`. `--simulation-seeds N` runs simulations with the seeds 1 to N,
`--simulation-seed N` repeats one seed. An uncaught exception in the simulation fails the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from box.embed import Node as AsyncNode
    from box.sync import Node
    from box.testing.local_cluster import Cluster
    from box.testing.simulation.simulation import Simulation

_ASYNCIO = ("asyncio", "pytest_asyncio", "pytest_asyncio.plugin")
_ANYIO = ("anyio", "anyio.pytest_plugin")
"""The names of plugins for asynchronous tests: as pytest finds them by itself, and as `-p` names them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lunabox")
    group.addoption("--simulation-seeds", type=int, default=5, metavar="N", help="run simulations with seeds 1 to N")
    group.addoption("--simulation-seed", type=int, metavar="N", help="run simulations with this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "simulation" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--simulation-seed")
        seeds = range(1, metafunc.config.getoption("--simulation-seeds") + 1) if seed is None else [seed]
        metafunc.parametrize("simulation", seeds, indirect=True, ids="seed={}".format)


def pytest_configure(config: pytest.Config) -> None:
    """Register `async_box_node` as a fixture of the kind that the plugin for asynchronous tests accepts.

    pytest-asyncio has its own kind of fixtures, anyio accepts those of pytest.
    """
    fixture: Any = pytest.fixture
    function: Callable[..., Any] = _async_box_node
    if any(map(config.pluginmanager.has_plugin, _ASYNCIO)):
        from pytest_asyncio import fixture
    elif not any(map(config.pluginmanager.has_plugin, _ANYIO)):
        function = _no_plugin
    fixtures = ModuleType("box.testing.async_fixtures")
    fixtures.async_box_node = fixture(name="async_box_node")(function)  # type: ignore[attr-defined]
    config.pluginmanager.register(fixtures, fixtures.__name__)


async def _async_box_node() -> AsyncIterator[AsyncNode]:
    """Yield a running node in memory, on the loop of the test."""
    from box.embed import Node

    async with Node() as node:
        yield node


def _no_plugin() -> None:
    """Fail with a clear message: without a plugin for asynchronous tests nothing would run the fixture."""
    raise pytest.UsageError("async_box_node needs pytest-asyncio, or anyio")


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Yield a simulation with one of the seeds, and fail the test if an exception in it was not caught."""
    from box.testing.simulation.simulation import Simulation  # loaded only by tests that use the fixture

    with Simulation(request.param) as simulation:
        yield simulation
        assert not simulation.errors, "\n".join(simulation.errors)


@pytest.fixture
def box_node() -> Iterator[Node]:
    """Yield a running node in memory, for tests without a loop."""
    from box.sync import Node

    with Node() as node:
        yield node


@pytest.fixture
def box_server() -> Iterator[Node]:
    """Yield a running node in memory for clients of the 2.11 line, at a free port of this host.

    It greets as 2.11.0 and keeps transactions open between requests. The user guest has all rights.
    """
    from box.sync import Node

    with Node(listen="127.0.0.1:0", iproto_greeting_version="2.11.0", memtx_use_mvcc_engine=True) as node:
        node.schema.grant("guest", "super")
        yield node


@pytest.fixture
def box_cluster(tmp_path: Path) -> Callable[..., Cluster]:
    """Return a function that makes a cluster for `async with`: `box_cluster(size=3, **options)`.

    The cluster runs on the loop of the test, and its files stay in the test's temporary directory.
    """
    from box.testing.local_cluster import Cluster

    def make(size: int = 3, **options: Any) -> Cluster:
        return Cluster(size, directory=tmp_path / "cluster", **options)

    return make
