"""Faults that aim at elections with synchronous timeouts shorter than themselves.

```
lapse    the leader's rows reach the others, whose acknowledgements do not come back; once one of them has what waits,
         the leader is cut off. Everybody hears everybody again shortly before the time of the row is over, or a while
         after another one has come to lead
freeze   the leader stands still (SIGSTOP) when something waits that another node has; it goes on a while after another
         one has come to lead, or whoever leads then
stall    the leader is cut off; the first other node that asks for votes, or has won and has not taken over, stands
         still for a while
insist   while something waits at the leader, `box.ctl.promote` is called there, or another node is made the leader: in
         manual mode for the time of one promotion
```

Where nothing waits in time, or one of these faults is at work already, nothing happens.
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
"""Seconds in which clients write something that has to wait."""
_SETTLING: Final = 0.05
"""Seconds in which acknowledgements that were under way have arrived."""
_ELECTION: Final = 6.0
"""Seconds in which somebody has been elected, where that is possible."""
_BEFORE: Final = 0.3
"""Seconds before the end of a row's time at which the leader hears the others again, at most."""
_HALF: Final = 0.5
"""The share of faults that go one way and not the other."""


class HazardFaults:
    """See the module's text."""

    def __init__(self, simulation: Simulation, administrator: Administrator) -> None:
        self._simulation = simulation
        self._administrator = administrator
        self._stories = OneStory()

    async def lapse(self, fault: Fault, leader: SimulatedNode) -> None:
        """See the module's table."""
        await self._stories.tell(self._let_lapse, fault, leader, self._others(leader))

    async def freeze(self, fault: Fault, leader: SimulatedNode) -> None:
        """See the module's table."""
        await self._stories.tell(self._let_freeze, fault, leader, self._others(leader))

    async def stall(self, fault: Fault, leader: SimulatedNode) -> None:
        """See the module's table."""
        await self._stories.tell(self._let_stall, fault, leader, self._others(leader))

    async def insist(self, fault: Fault, leader: SimulatedNode) -> None:
        """See the module's table."""
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
    """Whether another node has what waits at the leader."""
    entry = last_waiting(leader)
    if entry is None or not leads(leader):
        return False
    origin = leader.instance_id
    return any(other.is_running and other.instance.state.vclock[origin] >= entry.lsn for other in others)


def _is_nearly_over(leader: SimulatedNode, now: float) -> bool:
    """Whether the time of what waits is over by `now`, or nothing waits any more."""
    deadline = leader.instance.limbo.deadline if leader.is_running else None
    return deadline is None or deadline <= now


def _is_on_the_way_to_lead(node: SimulatedNode) -> bool:
    """Whether a node asks for votes, or has won them and has not taken over."""
    return node.is_running and node.instance.elections.role is Role.CANDIDATE
