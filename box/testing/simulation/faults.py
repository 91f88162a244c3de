"""Faults: what happens to a cluster and when, planned from a seed, so that a plan can be shortened and played again.

```
group     kinds
process   kill, crash (at some `await`), power (a kill unless every write is synced), halt, restart
network   isolate, split (in two parts), cut (one direction), reset, slow, corrupt
disk      write, sync, short, full, read, latency, flush (slow syncs), stuck (a failed write cannot be taken back), rot
          (a byte of a log file changes while the node is down: the start has to say so)
clock     jump, drift
files     snapshot
people    sources (replication is configured anew), promote (with manual elections)
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple

from box.errors import BoxError
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.disk import LATENCY, READ_FAILS, SHORT_WRITES, SYNC_FAILS, TRUNCATE_FAILS, WRITE_FAILS
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

GROUPS: Final = {
    "process": ("kill", "crash", "power", "halt", "restart"),
    "network": ("isolate", "split", "cut", "reset", "slow", "corrupt"),
    "disk": ("write", "sync", "short", "full", "read", "latency", "flush", "stuck", "rot"),
    "clock": ("jump", "drift"),
    "files": ("snapshot",),
    "people": ("sources", "promote"),
}
KINDS: Final = tuple(kind for kinds in GROUPS.values() for kind in kinds)

_PAUSE: Final = (0.1, 2.0)
"""Seconds between the beginnings of two faults."""
_LENGTH: Final = (0.05, 3.0)
"""Seconds that a fault takes."""
_CALLBACKS: Final = 2000
"""Callbacks after which a crash comes, at most."""


class Fault(NamedTuple):
    """One fault: it begins `at` a simulated second of the workload and takes `seconds`. `amount` is seconds of a slow
    way or of a clock, or a share."""

    at: float
    kind: str
    node: str
    other: str
    seconds: float
    amount: float

    def __str__(self) -> str:
        way = f"{self.node} -> {self.other}" if self.kind in ("cut", "slow") else self.node
        return f"{self.at:8.3f}  {self.kind:9} {way}  for {self.seconds:.3f} s, {self.amount:.3f}"


def kinds_of(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds that names of kinds and groups, `all` and `none` stand for. ValueError for an unknown name."""
    wanted: set[str] = set()
    for name in names:
        if name == "all":
            wanted.update(KINDS)
        elif name in GROUPS:
            wanted.update(GROUPS[name])
        elif name in KINDS:
            wanted.add(name)
        elif name != "none":
            known = ", ".join(["all", "none", *GROUPS, *KINDS])
            raise ValueError(f"unknown fault {name!r}: one of {known} is expected")
    return tuple(kind for kind in KINDS if kind in wanted)


def plan(random: Random, nodes: Sequence[str], kinds: Sequence[str], seconds: float) -> list[Fault]:
    """Faults for so many seconds."""
    faults: list[Fault] = []
    at = random.uniform(*_PAUSE)
    while kinds and at < seconds:
        node, other = random.choice(nodes), random.choice(nodes)
        faults.append(
            Fault(
                round(at, 6),
                random.choice(kinds),
                node,
                other,
                round(random.uniform(*_LENGTH), 6),
                round(random.random(), 6),
            )
        )
        at += random.uniform(*_PAUSE)
    return faults


async def storm(simulation: Simulation, seconds: float, faults: Iterable[str] = ("all",)) -> None:
    """Let faults happen at random for so many simulated seconds, then end them all. `faults` are kinds or groups of the
    module's table; ValueError for an unknown one."""
    planned = plan(simulation.random("storm"), list(simulation.nodes), kinds_of(faults), seconds)
    injector = Injector(simulation)
    end = simulation.loop.time() + seconds
    await injector.run(planned)
    await simulation.sleep(max(0.0, end - simulation.loop.time()))
    await injector.finish()


class Injector:
    """Lets faults happen in a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.violations: list[str] = []
        """Faults that ought to have been noticed, and were not."""
        self.administrator = Administrator(simulation)
        self._simulation = simulation
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def run(self, faults: Sequence[Fault]) -> None:
        """Let all faults begin at their times; those that take long go on."""
        simulation = self._simulation
        start = simulation.loop.time()
        for fault in sorted(faults):
            await simulation.sleep(max(0.0, start + fault.at - simulation.loop.time()))
            task = simulation.loop.create_task(self._happen(fault))
            self._tasks[task] = None
            task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def finish(self) -> None:
        """End every fault: all nodes run again, all ways and disks work."""
        simulation = self._simulation
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        simulation.network.heal()
        simulation.network.corruption = 0.0
        for node in simulation.nodes.values():
            node.go_on()
            node.disk.heal()
            node.clock.set_drift(0.0)
        for node in simulation.nodes.values():
            if not node.is_running:
                await self._revive(node)

    async def _revive(self, node: SimulatedNode) -> None:
        """Whoever is in the middle of a start gets some time for it."""
        deadline = self._simulation.loop.time() + 20
        while node.is_up and not node.is_running and self._simulation.loop.time() < deadline:
            await self._simulation.sleep(0.1)
        if not node.is_running:
            node.kill()
            await node.start()

    async def _happen(self, fault: Fault) -> None:
        node = self._simulation.nodes[fault.node]
        self._simulation.note(fault.node, f"+{fault.kind}", f"{fault.seconds:.3f} s")
        try:
            await getattr(self, f"_{fault.kind}")(fault, node)
        except (NodeDied, BoxError, TimeoutError) as error:
            self._simulation.note(fault.node, "error", f"of {fault.kind}: {error}")

    async def _between(self, fault: Fault, begin: Callable[[], object], end: Callable[[], object]) -> None:
        begin()
        try:
            await self._simulation.sleep(fault.seconds)
        finally:
            end()

    # -- processes

    async def _kill(self, fault: Fault, node: SimulatedNode) -> None:
        await self._end_and_start(fault, node, node.kill)

    async def _power(self, fault: Fault, node: SimulatedNode) -> None:
        is_synced = node.options.get("wal_mode") == "fsync"
        await self._end_and_start(fault, node, node.lose_power if is_synced else node.kill)

    async def _crash(self, fault: Fault, node: SimulatedNode) -> None:
        """A process that has nothing to do does not come to its last callback."""
        node.crash_after(1 + int(fault.amount * _CALLBACKS))
        await self._simulation.sleep(fault.seconds)
        await self._start(node)

    async def _end_and_start(self, fault: Fault, node: SimulatedNode, end: Callable[[], object]) -> None:
        if not node.is_up:
            return
        end()
        await self._simulation.sleep(fault.seconds)
        await self._start(node)

    async def _start(self, node: SimulatedNode) -> None:
        if not node.is_up:
            await node.start()

    async def _restart(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and not node.process.is_halted:
            await self._limited(node.stop())
            await self._simulation.sleep(fault.seconds)
            await self._start(node)

    async def _limited(self, work: Awaitable[Any]) -> None:
        await self._simulation.within(30, work)

    async def _halt(self, fault: Fault, node: SimulatedNode) -> None:
        await self._between(fault, node.halt, node.go_on)

    # -- the network

    async def _isolate(self, fault: Fault, node: SimulatedNode) -> None:
        network = self._simulation.network
        await self._between(fault, lambda: network.isolate(node.name), lambda: network.rejoin(node.name))

    async def _split(self, fault: Fault, node: SimulatedNode) -> None:
        """The node and some of the others, by the bits of the amount, on one side."""
        network, names = self._simulation.network, list(self._simulation.nodes)
        bits = int(fault.amount * 2 ** len(names))
        here = [name for number, name in enumerate(names) if name == node.name or bits >> number & 1]
        ways = [way for one in here for other in names if other not in here for way in ((one, other), (other, one))]

        def begin() -> None:
            for way in ways:
                network.cut(*way)

        def end() -> None:
            for way in ways:
                network.mend(*way)

        await self._between(fault, begin, end)

    async def _cut(self, fault: Fault, node: SimulatedNode) -> None:
        network = self._simulation.network
        way = (fault.node, fault.other)
        await self._between(fault, lambda: network.cut(*way), lambda: network.mend(*way))

    async def _reset(self, fault: Fault, node: SimulatedNode) -> None:
        self._simulation.network.reset_connections(node.name)

    async def _slow(self, fault: Fault, node: SimulatedNode) -> None:
        slow = self._simulation.network.slow
        way = (fault.node, fault.other)
        await self._between(fault, lambda: slow.update({way: fault.amount}), lambda: slow.pop(way, None))

    async def _corrupt(self, fault: Fault, node: SimulatedNode) -> None:
        network = self._simulation.network

        def set_share(share: float) -> None:
            network.corruption = share

        await self._between(fault, lambda: set_share(fault.amount / 10), lambda: set_share(0.0))

    # -- disks

    async def _with_disk_fault(self, fault: Fault, node: SimulatedNode, name: str) -> None:
        faults = node.disk.faults
        await self._between(fault, lambda: faults.add(name), lambda: faults.discard(name))

    async def _write(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, WRITE_FAILS)

    async def _sync(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, SYNC_FAILS)

    async def _short(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, SHORT_WRITES)

    async def _full(self, fault: Fault, node: SimulatedNode) -> None:
        def end() -> None:
            node.disk.capacity = None

        def begin() -> None:
            node.disk.capacity = node.disk.used + int(fault.amount * 2000)

        await self._between(fault, begin, end)

    async def _read(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, READ_FAILS)

    async def _stuck(self, fault: Fault, node: SimulatedNode) -> None:
        """The process ends by itself, and is started when it is over."""

        def begin() -> None:
            node.disk.faults |= {SYNC_FAILS, TRUNCATE_FAILS}

        def end() -> None:
            node.disk.faults -= {SYNC_FAILS, TRUNCATE_FAILS}

        await self._between(fault, begin, end)
        await self._start(node)

    async def _latency(self, fault: Fault, node: SimulatedNode) -> None:
        def set_latency(latency: tuple[float, float]) -> None:
            node.disk.latency = latency

        slow = (fault.amount / 50, fault.amount / 5)
        await self._between(fault, lambda: set_latency(slow), lambda: set_latency(LATENCY))

    async def _flush(self, fault: Fault, node: SimulatedNode) -> None:
        def set_delay(seconds: float) -> None:
            node.disk.sync_delay = seconds

        await self._between(fault, lambda: set_delay(fault.amount / 2), lambda: set_delay(0.0))

    async def _rot(self, fault: Fault, node: SimulatedNode) -> None:
        if not node.is_up or node.process.is_halted:
            return
        node.kill()
        put_right = None
        with suppress(BoxError):  # another fault may keep the disk from being read
            put_right = node.disk.rot(fault.amount)
        if put_right is None:
            await self._start(node)
            return
        try:
            await self._limited(node.start())
            self.violations.append(f"{node.name}: started with a wrong byte in its log, at {fault}")
        except BoxError as error:
            self._simulation.note(node.name, "rotten", str(error))
        finally:
            node.kill()
            put_right()
        await self._start(node)

    # -- clocks and files

    async def _jump(self, fault: Fault, node: SimulatedNode) -> None:
        node.clock.jump((fault.amount - 0.5) * 10000)

    async def _drift(self, fault: Fault, node: SimulatedNode) -> None:
        clock = node.clock
        await self._between(fault, lambda: clock.set_drift(fault.amount - 0.5), lambda: clock.set_drift(0.0))

    async def _snapshot(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running:
            await self._limited(node.run(node.instance.checkpoints.make()))

    # -- people

    async def _sources(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and not node.process.is_halted:
            await self._limited(self.administrator.configure_anew(node))

    async def _promote(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and node.instance.elections.mode == "manual":
            await self.administrator.promote(node)
