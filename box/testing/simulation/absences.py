"""Absences: what befalls a node that misses something, and has to be given it afterwards.

```
away   the node is cut off while the others make snapshots: they keep the files that it needs. Or it is down while they
       are started again and let go of their files: it is joined anew. That is done where it has nothing that they lack
lag    the node is cut off while the others are started again: they have nothing in memory, and send it what it has
       missed from files that grow
```

One node at a time is away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final

from box.errors import BoxError
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.faults import Fault
from box.testing.simulation.one_story import OneStory
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

_WITH_RESTARTS: Final = 0.6
"""The share of absences in which the others are started again."""
_SNAPSHOTS: Final = 3
"""Snapshots that the others make meanwhile: more than `checkpoint_count` may be."""
_LOOKS: Final = 100
_LOOK: Final = 0.01
"""Seconds between two looks for a moment."""
_STARTS, _PAUSE = 50, 0.2
"""Attempts to start a node that is joined anew, and the seconds between them."""
_SOON: Final = 0.001
"""`wal_cleanup_delay` for whoever need not wait any more."""
_PATIENCE: Final = 30.0
"""Seconds for a start, a stop or a snapshot."""


class Absences:
    """See the module's text."""

    def __init__(self, simulation: Simulation, administrator: Administrator) -> None:
        self._simulation = simulation
        self._administrator = administrator
        self._stories = OneStory()

    async def away(self, fault: Fault, node: SimulatedNode) -> None:
        """See the module's table."""
        await self._stories.tell(self._be_away, fault, node, self._others(node))

    async def lag(self, fault: Fault, node: SimulatedNode) -> None:
        """See the module's table."""
        await self._stories.tell(self._be_behind, fault, node, self._others(node))

    def _others(self, node: SimulatedNode) -> list[SimulatedNode]:
        return [one for one in self._simulation.nodes.values() if one is not node]

    async def _be_away(self, fault: Fault, node: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        if fault.amount < _WITH_RESTARTS and await self._has_nothing_else(node, others):
            with self._administrator.leaving_alone(node):
                node.kill()
                # Only who knows what the others have kept can tell that it has to be joined anew. Whoever starts the
                # node before that has come about, be it at the end of all faults, starts it like this.
                usual = node.options["replication_connect_quorum"]
                node.options["replication_connect_quorum"] = len(self._simulation.nodes)
                for other in others:
                    await self._restart(other)
                await self._simulation.sleep(fault.seconds)
                await self._let_files_go(others)
                await self._make_snapshots(others)
                if await self._start_connected(node, others):
                    node.options["replication_connect_quorum"] = usual
            return
        self._simulation.network.isolate(node.name)
        try:
            for _ in range(_SNAPSHOTS):
                await self._simulation.sleep(fault.seconds / _SNAPSHOTS)
                await self._make_snapshots(others)
        finally:
            self._simulation.network.rejoin(node.name)

    async def _be_behind(self, fault: Fault, node: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        self._simulation.network.isolate(node.name)
        try:
            await self._simulation.sleep(fault.seconds)
            for other in others:
                await self._restart(other)
        finally:
            self._simulation.network.rejoin(node.name)

    async def _has_nothing_else(self, node: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
        """Wait a while for a moment at which the others have all that a node has. Rows of elections are local: as any
        local rows they keep a node from being joined anew."""
        for _ in range(_LOOKS):
            if node.is_running and node.instance.elections.mode == "off":
                vclock = node.instance.state.vclock.without_zero()
                if all(other.is_running and other.instance.state.vclock.covers(vclock) for other in others):
                    return True
            await self._simulation.sleep(_LOOK)
        return False

    async def _let_files_go(self, nodes: Sequence[SimulatedNode]) -> None:
        """Nodes that keep files for each other need not keep them for anybody else. Whoever lacks some of them may have
        rows that nobody else has: it could be joined anew no more than it could go on."""
        for _ in range(_LOOKS):
            if all(_keeps_files_for(node, [one for one in nodes if one is not node]) for node in nodes):
                for node in nodes:
                    # Not among the node's options: who is killed meanwhile waits again after the next start.
                    for delay in (_SOON, node.instance.config["wal_cleanup_delay"]):
                        await node.run(node.instance.configure({"wal_cleanup_delay": delay}))
                        await self._simulation.sleep(2 * _SOON)
                return
            await self._simulation.sleep(_LOOK)

    async def _start_connected(self, node: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
        """Start it until it runs, and somebody has what it lacks: it may be killed while it is joined anew, or have
        been started before the files went."""
        for _ in range(_STARTS):
            with suppress(BoxError, NodeDied, TimeoutError):
                if not node.is_up:
                    await node.start()
                if node.is_running and not node.process.is_halted:
                    if any(_can_serve(other, node) for other in others):
                        return True
                    await self._limited(node.stop())
            await self._simulation.sleep(_PAUSE)
        return False

    async def _restart(self, node: SimulatedNode) -> None:
        if node.is_running and not node.process.is_halted:
            await self._limited(node.stop())
            if not node.is_up:
                await node.start()

    async def _make_snapshots(self, nodes: Sequence[SimulatedNode]) -> None:
        for node in nodes:
            if node.is_running and not node.process.is_halted:
                with suppress(BoxError, NodeDied, TimeoutError):
                    await self._limited(node.run(node.instance.checkpoints.make()))

    async def _limited(self, work: Awaitable[Any]) -> None:
        await self._simulation.within(_PATIENCE, work)


def _can_serve(master: SimulatedNode, node: SimulatedNode) -> bool:
    """Whether a node has all rows that another one lacks."""
    if not master.is_running:
        return False
    return node.instance.state.vclock.covers(master.instance.checkpoints.gc_vclock, ignore_zero=True)


def _keeps_files_for(node: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
    """Whether a node would not let go of what any of the others lacks."""
    if not node.is_running or node.process.is_halted or not all(other.is_running for other in others):
        return False
    consumers = [consumer.name for consumer in node.instance.checkpoints.collector.consumers]
    return all(any(str(other.instance.state.instance_uuid) in name for name in consumers) for other in others)
