"""Faults that aim at elections with synchronous timeouts shorter than an election.

```
lapse    the leader's rows reach the others, but their acknowledgements do not come back. Once one of them has a waiting
         transaction, the leader is cut off. The network is mended shortly before the timeout of the transaction, or a
         while after another node has become leader
freeze   the leader is halted (SIGSTOP) while a transaction waits that another node has; it continues a while after
         another node has become leader, or after a fixed time
stall    the leader is cut off; the first other node that asks for votes, or has won and not taken over, is halted for a
         while
insist   while a transaction waits at the leader, `box.ctl.promote` is called there or another node is promoted, whose
         election mode is manual for the duration
```

If no transaction waits in time, or one of these faults is in progress, nothing happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from box.replication.raft import Role
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.faults import Fault
from box.testing.simulation.leader_moments import last_waiting, leads, until
from box.testing.simulation.one_story import OneStory
from box.testing.simulation.simulated_node import SimulatedNode
from box.testing.simulation.simulation import Simulation

_WRITES: Final = 1.0
"""The seconds in which clients write a transaction that has to wait."""
_SETTLING: Final = 0.05
"""The seconds in which acknowledgements that were on their way arrive."""
_ELECTION: Final = 6.0
"""The seconds in which a leader is elected, if that is possible."""
_BEFORE: Final = 0.3
"""The network is mended at most so many seconds before the timeout of the transaction."""
_HALF: Final = 0.5
"""The amount of a fault below which it takes the first of its two forms."""


class HazardFaults:
    """Runs the faults of the module's table, one at a time."""

    def __init__(self, simulation: Simulation, administrator: Administrator) -> None:
        self._simulation = simulation
        self._administrator = administrator
        self._stories = OneStory()

    async def lapse(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `lapse` of the module's table."""
        await self._stories.tell(self._let_lapse, fault, leader, self._others(leader))

    async def freeze(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `freeze` of the module's table."""
        await self._stories.tell(self._let_freeze, fault, leader, self._others(leader))

    async def stall(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `stall` of the module's table."""
        await self._stories.tell(self._let_stall, fault, leader, self._others(leader))

    async def insist(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault `insist` of the module's table."""
        await self._stories.tell(self._let_insist, fault, leader)

    def _others(self, leader: SimulatedNode) -> list[SimulatedNode]:
        return [node for node in self._simulation.nodes.values() if node is not leader]

    async def _let_lapse(self, fault: Fault, leader: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        network = self._simulation.network
        with network.cuts((other.name, leader.name) for other in others):
            await self._simulation.sleep(_SETTLING)
            if not await until(lambda: _has_told(leader, others), _WRITES):
                return
            with network.cuts((leader.name, other.name) for other in others):
                if fault.amount < _HALF:
                    before = _BEFORE * fault.amount / _HALF
                    await until(lambda: _is_nearly_over(leader, self._simulation.loop.time() + before), _ELECTION)
                else:
                    await until(lambda: any(map(leads, others)), _ELECTION)
                    await self._simulation.sleep(fault.seconds)

    async def _let_freeze(self, fault: Fault, leader: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        if not await until(lambda: _has_told(leader, others), _WRITES):
            return
        leader.halt()
        try:
            if fault.amount < _HALF:
                await until(lambda: any(map(leads, others)), _ELECTION)
            await self._simulation.sleep(fault.seconds)
        finally:
            leader.go_on()

    async def _let_stall(self, fault: Fault, leader: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        found: list[SimulatedNode] = []

        def look() -> bool:
            found.extend(filter(_is_on_the_way_to_lead, others))
            return bool(found)

        both_ways = [way for other in others for way in ((leader.name, other.name), (other.name, leader.name))]
        with self._simulation.network.cuts(both_ways):
            if not await until(look, _ELECTION):
                return
            found[0].halt()
            try:
                await self._simulation.sleep(fault.seconds)
            finally:
                found[0].go_on()

    async def _let_insist(self, fault: Fault, leader: SimulatedNode) -> None:
        await until(lambda: last_waiting(leader) is not None, _WRITES)
        node = self._simulation.nodes[fault.node]
        if fault.amount < _HALF or node is leader:
            await self._administrator.promote(leader)
        elif node.is_running:
            await self._administrator.hand_over(node)


def _has_told(leader: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
    """Return True if another node has the newest transaction that waits at the leader."""
    entry = last_waiting(leader)
    if entry is None or not leads(leader):
        return False
    origin = leader.instance_id
    return any(other.is_running and other.instance.state.vclock[origin] >= entry.lsn for other in others)


def _is_nearly_over(leader: SimulatedNode, now: float) -> bool:
    """Return True if the timeout of the waiting transactions ends by `now`, or none waits any more."""
    deadline = leader.instance.limbo.deadline if leader.is_running else None
    return deadline is None or deadline <= now


def _is_on_the_way_to_lead(node: SimulatedNode) -> bool:
    """Return True if a node asks for votes, or has won them and not taken over."""
    return node.is_running and node.instance.elections.role is Role.CANDIDATE
