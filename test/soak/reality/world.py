"""The environment of workloads that run on real processes: a cluster with links, real time and random numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from box.testing.simulation.run import Scenario
from box.testing.simulation.simulation import USUAL_OPTIONS, Simulation, let_guests_in
from test.soak.reality.links import Links
from test.soak.reality.node import RealNode

_T = TypeVar("_T")

_LOOK: Final = 0.05
"""Seconds between two checks of a condition."""
_START: Final = 60.0
"""Seconds within which a cluster must start, on a busy machine."""


class RealWorld:
    """Real time and seeded random numbers, with the interface of the simulation's world."""

    def __init__(self, seed: int) -> None:
        self.loop = asyncio.get_running_loop()
        self._seed = seed

    def random(self, purpose: str) -> Random:
        return Simulation.random_of(self._seed, purpose)

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Do nothing: only the simulation keeps notes."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        async with asyncio.timeout(seconds):
            return await work

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
        """Wait until a condition is true.

        Raises:
            TimeoutError: it is not true within `seconds`; the text names `what`.
        """
        deadline = self.loop.time() + seconds
        while not await condition():
            if self.loop.time() > deadline:
                raise TimeoutError(f"{what} did not come about in {seconds:g} s")
            await asyncio.sleep(_LOOK)


class RealCluster:
    """Nodes that follow each other over links, with all files in `directory`."""

    def __init__(self, scenario: Scenario, world: RealWorld, directory: Path) -> None:
        self.world = world
        self.directory = directory
        options = USUAL_OPTIONS | scenario.node_options
        names = [f"node{number + 1}" for number in range(scenario.nodes)]
        self.nodes = [RealNode(directory, name, **options) for name in names]
        self.links = Links(directory, {node.name: node.uri for node in self.nodes}, world.random("links"))

    async def start(self) -> None:
        """Start all nodes and wait until they follow each other.

        Raises:
            TimeoutError: that takes longer than `_START` seconds.
        """
        await self.links.open()
        async with asyncio.timeout(_START):
            await self._start_nodes()

    async def _start_nodes(self) -> None:
        """Start the first node, let each other one join it, then have all follow all."""
        founder = self.nodes[0]
        await founder.start()
        await founder.transaction(let_guests_in)
        for node in self.nodes[1:]:
            await node.start(replication=[node.uri, self.links.uri(node.name, founder.name)])
        for node in self.nodes:
            node.options["replication_connect_quorum"] = 0
            await node.configure(replication=[node.uri, *self.links.sources(node.name)])

        async def is_running() -> bool:
            return all(node.state.status == "running" for node in self.nodes)

        await self.world.until(is_running, _START, "a running cluster")

    async def close(self) -> None:
        """Kill all nodes and close the links."""
        await asyncio.gather(*(node.kill() for node in self.nodes), return_exceptions=True)
        await self.links.close()


@asynccontextmanager
async def real_cluster(scenario: Scenario, directory: Path) -> AsyncIterator[RealCluster]:
    """Start a cluster for this context, and kill it at the end; its files stay."""
    cluster = RealCluster(scenario, RealWorld(scenario.seed), directory)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


def is_at_rest(nodes: Sequence[RealNode], *, has_elections: bool) -> bool:
    """Return whether all nodes run with empty limbos and equal vclocks, by their last reports.

    With elections there is one writable node, which all take for the leader, and all have its rows. The check for
    simulated nodes is in `box.testing.simulation.checks`.
    """
    states = [node.state for node in nodes]
    if not all(node.is_running for node in nodes) or any(state.waiting for state in states):
        return False
    vclocks = [_without_zero(state.vclock) for state in states]
    if not has_elections:
        return all(vclock == vclocks[0] for vclock in vclocks)
    leaders = [number for number, state in enumerate(states) if not state.is_read_only]
    if len(leaders) != 1 or any(one.leader_id != states[leaders[0]].instance_id for one in states):
        return False
    wanted = vclocks[leaders[0]]
    return all(vclock.get(origin, 0) >= lsn for vclock in vclocks for origin, lsn in wanted.items())


def _without_zero(vclock: dict[int, int]) -> dict[int, int]:
    return {origin: lsn for origin, lsn in vclock.items() if origin}
