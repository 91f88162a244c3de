"""The real world of workloads: a cluster of processes with roads between them, and time as it passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from box.testing.simulation.run import Scenario
from box.testing.simulation.simulation import USUAL_OPTIONS, Simulation, let_guests_in
from test.soak.reality.node import RealNode
from test.soak.reality.roads import Roads

_T = TypeVar("_T")

_LOOK: Final = 0.05
"""Seconds between two looks for a condition."""
_START: Final = 60.0
"""Seconds in which a cluster comes about, on a busy machine."""


class RealWorld:
    """Time and chance."""

    def __init__(self, seed: int) -> None:
        self.loop = asyncio.get_running_loop()
        self._seed = seed

    def random(self, purpose: str) -> Random:
        return Simulation.random_of(self._seed, purpose)

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Nobody reads it."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        async with asyncio.timeout(seconds):
            return await work

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
        """Wait for a condition. TimeoutError."""
        deadline = self.loop.time() + seconds
        while not await condition():
            if self.loop.time() > deadline:
                raise TimeoutError(f"{what} did not come about in {seconds:g} s")
            await asyncio.sleep(_LOOK)


class RealCluster:
    """Nodes that follow each other over roads. All files are in `directory`."""

    def __init__(self, scenario: Scenario, world: RealWorld, directory: Path) -> None:
        self.world = world
        self.directory = directory
        options = USUAL_OPTIONS | scenario.node_options
        names = [f"node{number + 1}" for number in range(scenario.nodes)]
        self.nodes = [RealNode(directory, name, **options) for name in names]
        self.roads = Roads(directory, {node.name: node.uri for node in self.nodes}, world.random("roads"))

    async def start(self) -> None:
        """Start all nodes. TimeoutError."""
        await self.roads.open()
        async with asyncio.timeout(_START):
            await self._start_nodes()

    async def _start_nodes(self) -> None:
        """The first founds the replica set; who joins does not wait for those that are not there."""
        founder = self.nodes[0]
        await founder.start()
        await founder.transaction(let_guests_in)
        for node in self.nodes[1:]:
            await node.start(replication=[node.uri, self.roads.uri(node.name, founder.name)])
        for node in self.nodes:
            node.options["replication_connect_quorum"] = 0
            await node.configure(replication=[node.uri, *self.roads.sources(node.name)])

        async def is_running() -> bool:
            return all(node.standing.status == "running" for node in self.nodes)

        await self.world.until(is_running, _START, "a running cluster")

    async def close(self) -> None:
        """End everything at once."""
        await asyncio.gather(*(node.kill() for node in self.nodes), return_exceptions=True)
        await self.roads.close()


@asynccontextmanager
async def real_cluster(scenario: Scenario, directory: Path) -> AsyncIterator[RealCluster]:
    """A cluster that has started. Nothing is left of it at the end but its files."""
    cluster = RealCluster(scenario, RealWorld(scenario.seed), directory)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


def is_at_rest(nodes: Sequence[RealNode], *, has_elections: bool) -> bool:
    """The same as of simulated nodes (`box.testing.simulation.checks`), by what they have told last."""
    standings = [node.standing for node in nodes]
    if not all(node.is_running for node in nodes) or any(standing.waiting for standing in standings):
        return False
    vclocks = [_without_zero(standing.vclock) for standing in standings]
    if not has_elections:
        return all(vclock == vclocks[0] for vclock in vclocks)
    leaders = [number for number, standing in enumerate(standings) if not standing.is_read_only]
    if len(leaders) != 1 or any(one.leader_id != standings[leaders[0]].instance_id for one in standings):
        return False
    wanted = vclocks[leaders[0]]
    return all(vclock.get(origin, 0) >= lsn for vclock in vclocks for origin, lsn in wanted.items())


def _without_zero(vclock: dict[int, int]) -> dict[int, int]:
    return {origin: lsn for origin, lsn in vclock.items() if origin}
