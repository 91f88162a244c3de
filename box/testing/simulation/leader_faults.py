"""Faults that wait for their moment: they strike the leader while synchronous transactions wait.

```
heir     the leader reaches only one other node; when a transaction waits there, the leader is cut off and the others
         hear only that node, until it leads: it alone has the waiting transactions, and has to pass them to a quorum
doubt    the leader is cut off; when a transaction waits there, a snapshot is requested; when the outcome is known, the
         node is killed and started again: the snapshot must not contain what was rolled back
stumble  the leader is cut off; when a transaction waits there, the next leader cannot write until clients have come to
         it: it leads long before its PROMOTE is in the log
```

Without elections the leader is the owner of the limbo. If no transaction waits in time, or one of these faults is in
progress, nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Final

from box.errors import BoxError
from box.replication.raft import Raft, Role
from box.testing.simulation.disk import WRITE_FAILS
from box.testing.simulation.faults import Fault
from box.testing.simulation.leader_moments import last_waiting, leads, until
from box.testing.simulation.one_story import OneStory
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation
from box.txn.transaction import LimboEntry

_WRITES: Final = 1.0
"""The seconds in which clients write a transaction that has to wait."""
_ELECTION: Final = 8.0
"""The seconds in which a node that can win an election has won one."""
_STUMBLE: Final = 4.5
"""The seconds after the cut in which the next leader cannot write: longer than clients wait for the former one."""
_DECISION: Final = 10.0
"""The seconds after the cut is mended in which the waiting transactions get their outcome."""


class LeaderFaults:
    """Runs the faults of the module's table, one at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._stories = OneStory()

    async def heir(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `heir` of the module's table."""
        await self._stories.tell(self._let_inherit, fault, leader)

    async def doubt(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `doubt` of the module's table."""
        await self._stories.tell(self._let_doubt, fault, leader)

    async def stumble(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `stumble` of the module's table."""
        await self._stories.tell(self._let_stumble, fault, leader)

    def leader(self) -> SimulatedNode | None:
        """Return the leader of the newest term, or without elections the owner of the limbo."""
        running = [node for node in self._simulation.nodes.values() if node.is_running]
        leaders = [node for node in running if leads(node)]
        if leaders:
            return max(leaders, key=lambda node: node.instance.elections.raft.term)
        return next((node for node in running if node.instance.limbo.owner_id == node.instance_id), None)

    async def _let_inherit(self, fault: Fault, leader: SimulatedNode) -> None:
        others = [node for node in self._simulation.nodes.values() if node is not leader]
        if not others:
            return
        heir = next((node for node in others if node.name == fault.other), others[0])
        rest = [node for node in others if node is not heir]
        with self._cut((leader, node) for node in rest):
            if not await until(lambda: last_waiting(heir) is not None, _WRITES):
                return
        everybody = (leader, *others)
        ways = [way for one in everybody for other in everybody if heir not in (way := (one, other)) or leader in way]
        with self._cut(ways):
            await until(lambda: leads(heir), _ELECTION)
            await self._simulation.sleep(fault.seconds)

    async def _let_doubt(self, fault: Fault, leader: SimulatedNode) -> None:
        others = [node for node in self._simulation.nodes.values() if node is not leader]
        with self._cut(way for other in others for way in ((leader, other), (other, leader))):
            await until(lambda: last_waiting(leader) is not None, _WRITES)
            entry = last_waiting(leader)
            if entry is None:
                return
            snapshot = self._simulation.loop.create_task(self._make_snapshot(leader))
            await until(lambda: _is_over(entry, leader) or any(map(leads, others)), _ELECTION)
        try:
            await until(lambda: _is_over(entry, leader), _DECISION)
        finally:
            snapshot.cancel()
        leader.kill()
        await self._simulation.sleep(fault.seconds)
        if not leader.is_up:
            await leader.start()

    async def _let_stumble(self, fault: Fault, leader: SimulatedNode) -> None:
        others = [node for node in self._simulation.nodes.values() if node is not leader]
        if not leads(leader):
            return
        end = self._simulation.loop.time() + _STUMBLE
        with self._cut(way for other in others for way in ((leader, other), (other, leader))):
            if not await until(lambda: last_waiting(leader) is not None, _WRITES):
                return
            with self._failing_when_elected(others):
                await until(lambda: any(map(leads, others)), _ELECTION)
                await self._simulation.sleep(max(0.0, end - self._simulation.loop.time()))
            await self._simulation.sleep(fault.seconds)

    @contextmanager
    def _failing_when_elected(self, nodes: Sequence[SimulatedNode]) -> Iterator[None]:
        """Make the disk of a node refuse writes from the moment at which the node becomes leader."""

        def look(node: SimulatedNode, raft: Raft) -> None:
            if raft.role is Role.LEADER:
                node.disk.faults.add(WRITE_FAILS)

        hooks = []
        for node in nodes:
            if node.is_running:
                raft = node.instance.elections.raft
                hooks.append((raft.on_change, partial(look, node, raft)))
        for hooked, hook in hooks:
            hooked.append(hook)
        try:
            yield
        finally:
            for hooked, hook in hooks:
                hooked.remove(hook)
            for node in nodes:
                node.disk.faults.discard(WRITE_FAILS)

    async def _make_snapshot(self, node: SimulatedNode) -> None:
        with suppress(BoxError, NodeDied):
            await node.run(node.instance.checkpoints.make())

    def _cut(self, ways: Iterable[tuple[SimulatedNode, SimulatedNode]]) -> AbstractContextManager[None]:
        return self._simulation.network.cuts((one.name, other.name) for one, other in ways if one is not other)


def _is_over(entry: LimboEntry, node: SimulatedNode) -> bool:
    """Return True if a transaction has its outcome, or the node does not run any more."""
    return entry.done or not node.is_running
