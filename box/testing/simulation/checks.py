"""Checks of what must be true of every cluster, whatever its clients do.

```
at every moment       a vclock never goes back, not over a restart either
at rest               equal vclocks, empty limbos, equal rows; a row of the log is the same wherever it is
always                no exception that nobody catches
```
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from box.journal.directory import LogDirectory, LogKind
from box.journal.reader import LogReader
from box.testing.simulation.simulated_node import SimulatedNode
from box.testing.simulation.simulation import Simulation
from box.wire.row import Row
from box.wire.vclock import VClock

_EVERY: Final = 0.1
"""Simulated seconds between two looks."""
_REST: Final = 120.0
"""Simulated seconds in which a healthy cluster comes to rest."""
_SPACES: Final = (512, 513, 514)


class Watch:
    """Looks at all nodes again and again."""

    def __init__(self, simulation: Simulation) -> None:
        self.violations: dict[str, None] = {}
        self._simulation = simulation
        self._vclocks: dict[str, dict[int, int]] = {}

    def look(self) -> None:
        """Compare with the last time."""
        for node in self._simulation.nodes.values():
            if node.is_running:
                now = dict(node.instance.state.vclock)
                before = self._vclocks.get(node.name, {})
                if any(now.get(origin, 0) < lsn for origin, lsn in before.items()):
                    self.violations[f"{node.name}: the vclock went back from {before} to {now}"] = None
                self._vclocks[node.name] = now

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._simulation.sleep(_EVERY)


def is_at_rest(nodes: list[SimulatedNode]) -> bool:
    """Whether all nodes have the same rows and wait for nothing."""
    if not all(node.is_running for node in nodes):
        return False
    vclocks = [dict(node.instance.state.vclock.without_zero()) for node in nodes]
    return all(vclock == vclocks[0] for vclock in vclocks) and not any(node.instance.limbo.entries for node in nodes)


async def come_to_rest(simulation: Simulation) -> Iterable[str]:
    """Wait for rest, with no faults any more. Violations: whatever keeps the cluster from it."""
    nodes = list(simulation.nodes.values())
    deadline = simulation.loop.time() + _REST
    while not is_at_rest(nodes):
        if simulation.loop.time() > deadline:
            return [f"the cluster does not come to rest: {_standing(node)}" for node in nodes]
        await simulation.sleep(0.5)
        for node in nodes:
            await _help(node)
    return []


async def _help(node: SimulatedNode) -> None:
    """Do what an administrator does: replication that has stopped for good is configured anew, a node that has ended is
    started."""
    if not node.is_up:
        await node.start()
    elif node.is_running and any(a.state.name == "STOPPED" for a in node.instance.replication.replicaset.appliers):
        sources = node.options["replication"]
        await node.configure(replication=[])
        await node.configure(replication=sources)


def _standing(node: SimulatedNode) -> str:
    if not node.is_running:
        return f"{node.name} does not run"
    instance = node.instance
    appliers = ", ".join(repr(applier) for applier in instance.replication.replicaset.appliers)
    return f"{node.name} {instance.status} {dict(instance.state.vclock)} limbo {len(instance.limbo.entries)} {appliers}"


def compare(simulation: Simulation) -> Iterable[str]:
    """Differences between nodes at rest."""
    nodes = list(simulation.nodes.values())
    first = nodes[0]
    for node in nodes[1:]:
        for space in _SPACES:
            if node.rows(space) != first.rows(space):
                yield f"space {space} differs between {first.name} and {node.name}"
    yield from _compare_logs(nodes)


def _compare_logs(nodes: list[SimulatedNode]) -> Iterable[str]:
    seen: dict[tuple[int, int], tuple[str, int, bytes]] = {}
    for node in nodes:
        for row in _log_rows(node):
            key = (row.replica_id, row.lsn)
            name, kind, body = seen.setdefault(key, (node.name, row.type, bytes(row.body)))
            if row.replica_id and (kind, body) != (row.type, bytes(row.body)):
                yield f"row {key} differs between {name} and {node.name}: {kind} {body!r}, {row.type} {row.body!r}"


def _log_rows(node: SimulatedNode) -> Iterable[Row]:
    directory = LogDirectory(node.disk, ".", LogKind.XLOG, instance_uuid=node.instance.state.instance_uuid)
    directory.scan()
    if not directory.files:
        return
    start: VClock = directory.files[0].vclock.copy()
    reader = LogReader(directory, start)
    while (rows := reader.next_rows()) is not None:
        yield from rows
    reader.close()


def uncaught(simulation: Simulation) -> Iterable[str]:
    """Exceptions, and lines of logs that no fault explains."""
    yield from simulation.errors
    for node in simulation.nodes.values():
        yield from (f"{node.name}: {line}" for line in node.log.alarms)
