"""A fault of manual elections: two terms pass while the snapshot of a former leader waits.

```
1   acknowledgements reach the leader late; when a transaction of it waits there and at its rival, a snapshot of the
    leader is requested, which has to wait as well
2   the rival is promoted, and only the leader hears of it: it votes, but its vote does not arrive
3   the rival is promoted again, and only the others hear of it: it leads. The former leader learns of that term from
    the others, and gives no vote in it
4   the network is mended, and the snapshot is made, with the last term; the log continues with the one before
5   the former leader is killed and started again
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from box.errors import BoxError
from box.replication.elections import ElectionMode
from box.testing.simulation.faults import Fault
from box.testing.simulation.leader_moments import last_waiting, leads, until
from box.testing.simulation.one_story import OneStory
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

_LATE: Final = 3.0
"""The delay of acknowledgements in seconds."""
_SETTLING: Final = 0.01
"""The seconds in which the snapshot has begun."""
_WRITES: Final = 1.0
"""The seconds in which clients write a transaction that has to wait."""
_VOTE: Final = 0.5
"""The seconds in which a vote is written. A relay that hears nothing for longer would end."""
_ELECTION: Final = 4.0
"""The seconds in which the rival is elected."""
_SNAPSHOT: Final = 10.0
"""The seconds in which the waiting transactions get their outcome, and the snapshot is made."""


class Rivals:
    """Runs the fault `rivals`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._stories = OneStory()
        self._tasks: list[asyncio.Task[None]] = []

    async def rivals(self, fault: Fault, leader: SimulatedNode) -> None:
        """Run the fault, if the cluster has at least three nodes, manual elections and a leader."""
        others = [node for node in self._simulation.nodes.values() if node is not leader]
        if len(others) > 1 and leads(leader) and leader.instance.elections.mode is ElectionMode.MANUAL:
            await self._stories.tell(self._play, fault, leader, others)

    async def _play(self, fault: Fault, leader: SimulatedNode, others: list[SimulatedNode]) -> None:
        rival = next((node for node in others if node.name == fault.other), others[0])
        rest = [node for node in others if node is not rival]
        try:
            if await self._begin_snapshot(leader, rival, others):
                await self._elect_twice(leader, rival, rest)
        finally:
            self._reunite(leader, rival, rest)
        if self._tasks:
            await until(self._tasks[0].done, _SNAPSHOT)
            leader.kill()
            await self._simulation.sleep(fault.seconds)
            if not leader.is_up:
                await leader.start()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def _begin_snapshot(self, leader: SimulatedNode, rival: SimulatedNode, others: list[SimulatedNode]) -> bool:
        slow = self._simulation.network.slow
        ways = [(node.name, leader.name) for node in others]
        slow.update(dict.fromkeys(ways, _LATE))
        try:
            if await until(lambda: last_waiting(leader) is not None and last_waiting(rival) is not None, _WRITES):
                self._start(leader, leader.instance.checkpoints.make)
                await self._simulation.sleep(_SETTLING)
        finally:
            for way in ways:
                slow.pop(way, None)
        return bool(self._tasks)

    async def _elect_twice(self, leader: SimulatedNode, rival: SimulatedNode, rest: list[SimulatedNode]) -> None:
        network, raft = self._simulation.network, leader.instance.elections.raft
        term = raft.term

        def stay_unheard() -> None:
            if raft.term > term:
                network.cut(leader.name, rival.name)

        for node in rest:
            network.cut(rival.name, node.name)
            network.cut(node.name, rival.name)
        raft.on_change.append(stay_unheard)
        self._start(rival, rival.instance.elections.promote)
        await until(lambda: raft.recorded_term > term, _VOTE)
        raft.on_change.remove(stay_unheard)
        term = raft.recorded_term
        network.cut(rival.name, leader.name)
        self._start(rival, rival.instance.elections.promote)
        for node in rest:
            network.mend(rival.name, node.name)
            network.mend(node.name, rival.name)
        await until(lambda: leads(rival) and raft.recorded_term > term, _ELECTION)

    def _reunite(self, leader: SimulatedNode, rival: SimulatedNode, rest: list[SimulatedNode]) -> None:
        for node in (leader, *rest):
            self._simulation.network.mend(rival.name, node.name)
            self._simulation.network.mend(node.name, rival.name)

    def _start(self, node: SimulatedNode, function: Callable[..., object]) -> None:
        self._tasks.append(self._simulation.loop.create_task(self._call(node, function)))

    async def _call(self, node: SimulatedNode, function: Callable[..., object]) -> None:
        with suppress(BoxError, NodeDied):
            await node.run(function())  # type: ignore[arg-type]
