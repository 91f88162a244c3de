"""Checks of what must hold for every cluster, whatever its clients do.

```
between any two callbacks   the invariants (`box.testing.simulation.invariants`)
every second                logs have the same rows (`box.testing.simulation.log_contents`); replication stops only if
                            a fault explains it (`box.testing.simulation.administrator`)
at rest                     equal vclocks, empty limbos, equal rows. If a full disk has made a node delete rows that
                            others lacked, rest may be impossible: then these checks are skipped, and the run says so
soon afterwards             with short synchronous timeouts (`Scenario.hazards`) equal vclocks, also with elections
always                      no uncaught exception
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from box.errors import ErrorCode
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.invariants import Invariants
from box.testing.simulation.log_contents import LogContents
from box.testing.simulation.simulated_node import SimulatedNode
from box.testing.simulation.simulation import Simulation
from box.testing.simulation.workload import ClusterNode

_EVERY: Final = 0.1
"""Simulated seconds between two looks at the workload."""
_LOOKS_A_READING: Final = 10
"""The number of looks between two readings of the logs, which cost more."""
_REST: Final = 120.0
"""The simulated seconds in which a healthy cluster comes to rest."""
_SPACES: Final = (512, 513, 514)
"""The numbers of the spaces that are compared: those of `workload.py` that are replicated."""


class Watched(Protocol):
    """A workload that may find violations while it runs."""

    def watch(self) -> Iterable[str]:
        """Return the violations that show at this moment."""


class Watch:
    """Checks all nodes during a run. `quorum` is that of synchronous transactions and elections."""

    def __init__(self, simulation: Simulation, workload: Watched, quorum: int, *, has_elections: bool) -> None:
        self.invariants = Invariants(simulation, quorum)
        self.logs = LogContents(has_elections=has_elections)
        self._simulation = simulation
        self._workload = workload
        self._seen: dict[str, None] = {}
        self.noticed_at: float | None = None
        """The simulated time at which the first violation showed, or None."""
        simulation.loop.on_turn = self.invariants.look

    @property
    def violations(self) -> list[str]:
        """All violations found so far."""
        return [*self.invariants.violations, *self.logs.violations, *self._seen]

    async def run(self) -> None:
        """Check in intervals until cancelled."""
        looks = 0
        while True:
            await self._simulation.sleep(_EVERY)
            self._seen |= dict.fromkeys(self._workload.watch())
            looks += 1
            if not looks % _LOOKS_A_READING:
                self.read_logs()
            if self.noticed_at is None and self.violations:
                self.noticed_at = self._simulation.loop.time()

    def look_once_more(self) -> None:
        """Check for the last time, after the run."""
        self.invariants.look()
        self.read_logs()

    def read_logs(self) -> None:
        """Read the new rows in the logs of all running nodes."""
        for node in self._simulation.nodes.values():
            if node.is_running:
                self.logs.look_at(node)


def is_at_rest(nodes: Sequence[SimulatedNode], *, has_elections: bool = False) -> bool:
    """Return True if all nodes have the same rows and wait for nothing.

    With elections a former leader may keep rows without effect, which no node takes from it until it leads again. Then
    rest means that there is one leader, and all nodes have its rows.
    """
    if not all(node.is_running for node in nodes) or any(node.instance.limbo.entries for node in nodes):
        return False
    vclocks = {node: node.instance.state.vclock.without_zero() for node in nodes}
    if not has_elections:
        return all(vclock == vclocks[nodes[0]] for vclock in vclocks.values())
    leaders = [node for node in nodes if not node.instance.mode.is_read_only]
    if len(leaders) != 1 or any(node.leader_id != leaders[0].instance_id for node in nodes):
        return False
    return all(vclock.covers(vclocks[leaders[0]]) for vclock in vclocks.values())


@dataclass(frozen=True, slots=True)
class Unrest:
    """A cluster that does not come to rest: violations, or the cut-off nodes that explain it without a defect."""

    violations: list[str]
    cut_off: list[str]
    """Texts that name a node, and the other node that it can get no rows from."""


async def come_to_rest(
    simulation: Simulation, administrator: Administrator, *, has_elections: bool = False
) -> Unrest | None:
    """Wait for rest after the last fault. Returns None if the cluster reaches it, else what keeps the cluster from
    rest.
    """
    nodes = list(simulation.nodes.values())
    deadline = simulation.loop.time() + _REST
    while administrator.is_helping or not is_at_rest(nodes, has_elections=has_elections):
        if simulation.loop.time() > deadline:
            standing = [f"the cluster does not come to rest: {_standing(node)}" for node in nodes]
            cut_off = [text for node in nodes for text in _cut_off(node, nodes)]
            return Unrest([] if cut_off else standing, cut_off)
        await simulation.sleep(0.5)
        for node in nodes:
            await administrator.help(node)
    return None


async def become_equal(simulation: Simulation) -> Iterable[str]:
    """Wait at rest for equal vclocks, and return a text with the vclocks if they still differ in the end.

    The bound is two `replication_timeout`: one until a node that lacks rows asks again, and one until it has them.
    """
    nodes = list(simulation.nodes.values())
    bound = 2 * max(node.options["replication_timeout"] for node in nodes)
    deadline = simulation.loop.time() + bound
    while not have_equal_vclocks(nodes):
        if simulation.loop.time() > deadline:
            found = ", ".join(f"{node.name} {_replicated(node)}" for node in nodes)
            return [f"vclocks differ {bound:g} s after rest: {found}"]
        await simulation.sleep(_EVERY)
    return []


def have_equal_vclocks(nodes: Sequence[SimulatedNode]) -> bool:
    """Return True if all nodes have the same replicated rows, including NOPs and rows without effect."""
    return all(node.is_running for node in nodes) and all(_replicated(node) == _replicated(nodes[0]) for node in nodes)


def _replicated(node: SimulatedNode) -> dict[int, int]:
    """Return the vclock without component 0, the local rows; empty if the node does not run."""
    return dict(sorted(node.instance.state.vclock.without_zero().items())) if node.is_running else {}


def _cut_off(node: SimulatedNode, nodes: Sequence[SimulatedNode]) -> Iterable[str]:
    """Yield texts that name the sources from which a node can get no more rows.

    As in Tarantool, a node whose disk is full deletes rows that others lack. It may have been the last to have them,
    and a node with rows of elections cannot join anew, because these are local. People would have to empty such a node.
    """
    if not node.is_running:
        return
    instance = node.instance
    for applier in instance.replication.replicaset.appliers:
        error = applier.error
        for source in nodes if error is not None and error.code == ErrorCode.XLOG_GAP else ():
            if source.uri == applier.address and str(instance.state.instance_uuid) in source.log.let_go:
                yield f"{node.name} from {source.name}"


def _standing(node: SimulatedNode) -> str:
    if not node.is_running:
        return f"{node.name} does not run"
    instance = node.instance
    appliers = ", ".join(f"{applier!r} {applier.error}" for applier in instance.replication.replicaset.appliers)
    return (
        f"{node.name} {instance.status} {instance.mode} {dict(instance.state.vclock)} {instance.limbo} "
        f"{instance.elections} {appliers}"
    )


def compare(nodes: Sequence[ClusterNode]) -> Iterable[str]:
    """Yield the differences between the rows of nodes at rest."""
    first = nodes[0]
    for node in nodes[1:]:
        for space in _SPACES:
            if node.rows(space) != first.rows(space):
                yield f"space {space} differs between {first.name} and {node.name}"


def uncaught(simulation: Simulation) -> Iterable[str]:
    """Yield uncaught exceptions, and the lines of logs that no fault explains."""
    yield from simulation.errors
    for node in simulation.nodes.values():
        yield from (f"{node.name}: {line}" for line in node.log.alarms)
