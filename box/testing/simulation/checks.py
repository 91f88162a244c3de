"""Checks of what must be true of every cluster, whatever its clients do.

```
between any two callbacks   the invariants (`box.testing.simulation.invariants`)
every second                logs tell the same (`box.testing.simulation.log_contents`); replication stops only where a
                            fault explains it (`box.testing.simulation.administrator`)
at rest                     equal vclocks, empty limbos, equal rows; no rest is no violation where a full disk has cost
                            rows that others lacked, but these checks are left out then, and the run says so
soon afterwards             with short synchronous timeouts (`Scenario.hazards`) equal vclocks under elections, too
always                      no exception that nobody catches
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
_REST: Final = 120.0
"""Simulated seconds in which a healthy cluster comes to rest."""
_SPACES: Final = (512, 513, 514)


class Watched(Protocol):
    """A workload, which may see that something is wrong while it runs."""

    def watch(self) -> Iterable[str]:
        """Violations that show at this moment."""


class Watch:
    """Looks at all nodes for as long as a run takes. `quorum` is that of synchronous transactions and elections."""

    def __init__(self, simulation: Simulation, workload: Watched, quorum: int, *, has_elections: bool) -> None:
        self.invariants = Invariants(simulation, quorum)
        self.logs = LogContents(has_elections=has_elections)
        self._simulation = simulation
        self._workload = workload
        self._seen: dict[str, None] = {}
        self.noticed_at: float | None = None
        """The simulated time at which the first violation showed."""
        simulation.loop.on_turn = self.invariants.look

    @property
    def violations(self) -> list[str]:
        """Everything that was found so far."""
        return [*self.invariants.violations, *self.logs.violations, *self._seen]

    async def run(self) -> None:
        """Look until cancelled."""
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
        """The run is over."""
        self.invariants.look()
        self.read_logs()

    def read_logs(self) -> None:
        """Read on in the logs of all nodes."""
        for node in self._simulation.nodes.values():
            if node.is_running:
                self.logs.look_at(node)


def is_at_rest(nodes: Sequence[SimulatedNode], *, has_elections: bool = False) -> bool:
    """Whether all nodes have the same rows and wait for nothing.

    With elections a former leader may have rows without effect that nobody takes from it until it leads again: then
    there is one leader, and everybody has what it has.
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
    """A cluster without rest: violations, or what makes rest impossible though nobody did anything wrong."""

    violations: list[str]
    cut_off: list[str]
    """Pairs of nodes: one that is cut off from another."""


async def come_to_rest(
    simulation: Simulation, administrator: Administrator, *, has_elections: bool = False
) -> Unrest | None:
    """Wait for rest, with no faults any more. None: it is there."""
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
    """Wait for equal vclocks at rest: two `replication_timeout`, one until whoever lacks rows asks again and one more
    until it has them. Otherwise what the nodes have."""
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
    """Whether all nodes have the same replicated rows, NOPs and rows without an effect among them."""
    return all(node.is_running for node in nodes) and all(_replicated(node) == _replicated(nodes[0]) for node in nodes)


def _replicated(node: SimulatedNode) -> dict[int, int]:
    """The vclock without rows of the node alone; empty if it does not run."""
    return dict(sorted(node.instance.state.vclock.without_zero().items())) if node.is_running else {}


def _cut_off(node: SimulatedNode, nodes: Sequence[SimulatedNode]) -> Iterable[str]:
    """From whom a node gets no rows any more. As in the peer, a node whose disk is full lets go of rows that others
    lack. They may be the last who had them; and whoever has rows of elections is not joined anew, because these are no
    other's. People would have to empty such a node."""
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
    """Differences between nodes at rest."""
    first = nodes[0]
    for node in nodes[1:]:
        for space in _SPACES:
            if node.rows(space) != first.rows(space):
                yield f"space {space} differs between {first.name} and {node.name}"


def uncaught(simulation: Simulation) -> Iterable[str]:
    """Exceptions, and lines of logs that no fault explains."""
    yield from simulation.errors
    for node in simulation.nodes.values():
        yield from (f"{node.name}: {line}" for line in node.log.alarms)
