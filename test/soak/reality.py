"""The simulation checked against reality: the same workloads, faults and checks on instances with the loop of the
operating system, its sockets and a proxy between them, and the shares of outcomes beside those of the simulation.

```
fault       simulated                            real
kill        the process ends                     the disk is copied, and the instance goes on from the copy
restart     an orderly end and a start           the same
isolate     all ways from and to a node are cut  its proxies hold what comes
reset       all connections of a node break      its proxies break them
snapshot    a checkpoint                         the same
write       the disk fails                       ERRINJ_WAL_IO
```
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

from box.errors import BoxError
from box.testing.simulation.faults import Fault, plan
from box.testing.simulation.run import Scenario, play
from box.testing.simulation.simulated_node import NodeDied, transact
from box.testing.simulation.simulation import Simulation
from box.testing.simulation.workload import Workload
from box.testing.simulation.workloads import WORKLOADS
from test.support import until
from test.unit.replication.cluster import Cluster, Member, Proxy, cluster

_T = TypeVar("_T")

KINDS: Final = ("kill", "restart", "isolate", "reset", "snapshot", "write")
COMPARED: Final = ("register", "unique", "bank", "set", "async")
_SECONDS: Final = 10.0
_PATIENCE: Final = 30.0


class RealWorld:
    """Time as it passes."""

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


class RealNode:
    """A member of a cluster, as workloads see nodes."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.name = member.name
        self.is_running = True
        self.lives = 0
        self.failing = 0
        """Faults that keep its disk from writing, whichever instance is there."""

    @property
    def instance_id(self) -> int:
        return self.member.id

    @property
    def leader_id(self) -> int:
        return 0

    async def transaction(self, body: Callable[[Any], Any]) -> Any:
        """Nobody hears what comes of it once the instance has ended."""
        life = self.lives
        try:
            result = await transact(self.member.node, body)
        except BoxError:
            if self.lives != life:
                raise NodeDied(self.name) from None
            raise
        if self.lives != life:
            raise NodeDied(self.name)
        return result

    def rows(self, space: int) -> list[Any]:
        return self.member.rows(space)

    def has(self, space: int, key: Any) -> bool:
        return key in self.member.keys(space)


class RealFaults:
    """Lets planned faults happen. `roads` lead from the follower to the one it follows."""

    def __init__(self, nodes: Sequence[RealNode], roads: dict[tuple[int, int], Proxy]) -> None:
        self._nodes = {f"node{number + 1}": node for number, node in enumerate(nodes)}
        self._numbers = {name: number for number, name in enumerate(self._nodes)}
        self._roads = roads

    async def happen(self, fault: Fault) -> None:
        node = self._nodes[fault.node]
        if node.is_running or fault.kind == "write":
            await getattr(self, f"_{fault.kind}")(fault, node)

    def _roads_of(self, fault: Fault) -> list[Proxy]:
        return [road for ends, road in self._roads.items() if self._numbers[fault.node] in ends]

    async def _isolate(self, fault: Fault, node: RealNode) -> None:
        for road in self._roads_of(fault):
            road.hold()
        await asyncio.sleep(fault.seconds)
        for road in self._roads_of(fault):
            road.release()

    async def _reset(self, fault: Fault, node: RealNode) -> None:
        for road in self._roads_of(fault):
            road.cut()

    async def _snapshot(self, fault: Fault, node: RealNode) -> None:
        try:
            await node.member.node.checkpoints.make()
        except BoxError:
            return  # a write failed meanwhile, or the instance has ended

    async def _write(self, fault: Fault, node: RealNode) -> None:
        node.failing += 1
        self._inject(node)
        await asyncio.sleep(fault.seconds)
        node.failing -= 1
        self._inject(node)

    def _inject(self, node: RealNode) -> None:
        if node.is_running:
            node.member.inject("WAL_IO", node.failing > 0)

    async def _restart(self, fault: Fault, node: RealNode) -> None:
        node.is_running = False
        await node.member.stop()
        await asyncio.sleep(fault.seconds)
        await self._start(node)

    async def _kill(self, fault: Fault, node: RealNode) -> None:
        """Nothing leaves the instance after the moment at which its disk is copied."""
        node.is_running = False
        node.lives += 1
        roads = self._roads_of(fault)
        for road in roads:
            road.refuse = True
            road.cut()
        disk = node.member.copy_disk()
        await node.member.stop()
        node.member.disk = disk
        await asyncio.sleep(fault.seconds)
        for road in roads:
            road.refuse = False
        await self._start(node)

    async def _start(self, node: RealNode) -> None:
        await node.member.start()
        node.is_running = True
        self._inject(node)


async def _play(running: Cluster, seed: int, workload_class: type[Workload]) -> tuple[Counter[str], list[str]]:
    world = RealWorld(seed)
    members, roads = await _start(running)
    nodes = [RealNode(member) for member in members]
    workload = workload_class(world, nodes, has_elections=False)
    await workload.prepare()
    await until(lambda: _are_equal(members), "equal spaces", _PATIENCE)
    faults, begin = RealFaults(nodes, roads), world.loop.time()
    workload.stop_at = begin + _SECONDS
    clients = workload.start()
    names = [f"node{number + 1}" for number in range(len(nodes))]
    happening = []
    for fault in plan(world.random("faults"), names, KINDS, _SECONDS):
        await asyncio.sleep(max(0.0, begin + fault.at - world.loop.time()))
        happening.append(asyncio.ensure_future(faults.happen(fault)))
    await asyncio.gather(*clients, *happening)
    await _come_to_rest(members)
    endings = Counter(call.ending.value for call in workload.history.operations)
    return endings, list(workload.verdict())


async def _start(running: Cluster) -> tuple[list[Member], dict[tuple[int, int], Proxy]]:
    options = {
        "replication_connect_quorum": 0,
        "replication_connect_timeout": 1,
        "replication_sync_timeout": 1,
        "replication_timeout": 0.25,
        "replication_synchro_quorum": 2,
        "replication_synchro_timeout": 2,
        "wal_max_size": 50_000,
    }
    members = [await running.member().start(**options)]
    await members[0].grant_guest()
    while len(members) < 3:
        members.append(await running.member().start(members[0], **options))
    ends = [(one, other) for one in range(3) for other in range(3) if one != other]
    roads = {(one, other): await running.proxy(members[other]) for one, other in ends}
    for one, member in enumerate(members):
        await member.replicate(*_sources(members, roads, one))
    return members, roads


def _sources(members: Sequence[Member], roads: dict[tuple[int, int], Proxy], one: int) -> list[Member | Proxy]:
    return [members[one], *(road for (follower, _), road in roads.items() if follower == one)]


def _are_equal(members: Sequence[Member]) -> bool:
    clocks = [member.node.state.vclock.without_zero() for member in members]
    return all(clock == clocks[0] for clock in clocks) and all(member.node.limbo.is_empty for member in members)


async def _come_to_rest(members: Sequence[Member]) -> None:
    """What the administrator of a simulated cluster does, too: appliers that gave up are started again."""
    for member in members:
        sources = member.options["replication"]
        await member.replicate()
        await member.replicate(*sources)
    await until(lambda: _are_equal(members), "equal instances", _PATIENCE)


async def _really(seed: int, workload_class: type[Workload]) -> tuple[Counter[str], list[str]]:
    async with cluster() as running:
        return await _play(running, seed, workload_class)


def _simulated(seed: int, workload: str) -> tuple[Counter[str], list[str]]:
    options = {"wal_mode": "write", "wal_max_size": 50_000, "checkpoint_count": 2, "memtx_use_mvcc_engine": False}
    outcome = play(Scenario(seed, workload=workload, seconds=_SECONDS, kinds=KINDS, options=options))
    return Counter(outcome.calls), outcome.violations


def run_campaign(seed: int, size: int) -> bool:
    """Play `size` seeds of each workload in both worlds; print a table. False if a check has found something."""
    good = True
    print("| workload | world | runs | calls a second | ok | failed | unknown |\n|---|---|---:|---:|---:|---:|---:|")
    for workload in COMPARED:
        for world in ("simulated", "real"):
            total: Counter[str] = Counter()
            for number in range(seed, seed + size):
                if world == "real":
                    endings, violations = asyncio.run(_really(number, WORKLOADS[workload]))
                else:
                    endings, violations = _simulated(number, workload)
                total += endings
                if violations:
                    good = False
                    print(f"{world} {workload}, seed {number}: {violations[:3]}", flush=True)
            calls = max(total.total(), 1)
            shares = " | ".join(f"{total[ending] / calls:.1%}" for ending in ("ok", "failed", "unknown"))
            print(f"| {workload} | {world} | {size} | {calls / size / _SECONDS:.0f} | {shares} |", flush=True)
    return good
