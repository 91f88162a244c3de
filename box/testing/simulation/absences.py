"""Faults in which a node misses changes and has to catch up from files or by a new join.

```
away   either the node is cut off while the others make snapshots: they keep the files that it needs. Or it is down
       while they restart and delete those files: it has to join anew, which needs that it has no rows that they lack
lag    the node is cut off while the others restart: their memory is empty, so they send it the missing rows from files
       that still grow
```

Only one node is away at a time.
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
"""The share of `away` faults in which the node is down and the others restart."""
_SNAPSHOTS: Final = 3
"""The number of snapshots that the others make meanwhile: more than any `checkpoint_count` that scenarios choose."""
_LOOKS: Final = 100
"""The number of checks for a suitable moment, before the fault gives up."""
_LOOK: Final = 0.01
"""Seconds between two checks for a suitable moment."""
_STARTS, _PAUSE = 50, 0.2
"""The number of attempts to start a node that has to join anew, and the seconds between them."""
_SOON: Final = 0.001
"""The `wal_cleanup_delay`, in seconds, that makes a node delete unneeded files soon."""
_PATIENCE: Final = 30.0
"""The seconds that a start, a stop or a snapshot may take."""


class Absences:
    """Runs the faults `away` and `lag`."""

    def __init__(self, simulation: Simulation, administrator: Administrator) -> None:
        self._simulation = simulation
        self._administrator = administrator
        self._stories = OneStory()

    async def away(self, fault: Fault, node: SimulatedNode) -> None:
        """Run the fault `away` of the module's table."""
        await self._stories.tell(self._be_away, fault, node, self._others(node))

    async def lag(self, fault: Fault, node: SimulatedNode) -> None:
        """Run the fault `lag` of the module's table."""
        await self._stories.tell(self._be_behind, fault, node, self._others(node))

    def _others(self, node: SimulatedNode) -> list[SimulatedNode]:
        return [one for one in self._simulation.nodes.values() if one is not node]

    async def _be_away(self, fault: Fault, node: SimulatedNode, others: Sequence[SimulatedNode]) -> None:
        if fault.amount < _WITH_RESTARTS and await self._has_nothing_else(node, others):
            with self._administrator.leaving_alone(node):
                node.kill()
                # Only a node that connects to all others can tell from their files that it has to join anew. The
                # option stays set until that has happened, so that any other start meanwhile uses it as well.
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
        """Wait for a moment at which the others have all rows of a node, and return False if there is none in time.

        The node must not take part in elections: their rows are local, and local rows prevent a new join.
        """
        for _ in range(_LOOKS):
            if node.is_running and node.instance.elections.mode == "off":
                vclock = node.instance.state.vclock.without_zero()
                if all(other.is_running and other.instance.state.vclock.covers(vclock) for other in others):
                    return True
            await self._simulation.sleep(_LOOK)
        return False

    async def _let_files_go(self, nodes: Sequence[SimulatedNode]) -> None:
        """Make nodes that keep files for each other delete those that only the absent node needs.

        They do so only while each of them keeps files for the others. A node that lacks such files may have rows of its
        own, and then it could neither continue nor join anew.
        """
        for _ in range(_LOOKS):
            if all(_keeps_files_for(node, [one for one in nodes if one is not node]) for node in nodes):
                for node in nodes:
                    # Not stored in the node's options, so that a node killed meanwhile starts with the usual delay.
                    for delay in (_SOON, node.instance.config["wal_cleanup_delay"]):
                        await node.run(node.instance.configure({"wal_cleanup_delay": delay}))
                        await self._simulation.sleep(2 * _SOON)
                return
            await self._simulation.sleep(_LOOK)

    async def _start_connected(self, node: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
        """Start the node until it runs and another node can send it all missing rows; return False if that fails.

        It may be killed during the join, or may have started before the others deleted their files.
        """
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
    """Return True if `master` still has all rows that `node` lacks."""
    if not master.is_running:
        return False
    return node.instance.state.vclock.covers(master.instance.checkpoints.gc_vclock, ignore_zero=True)


def _keeps_files_for(node: SimulatedNode, others: Sequence[SimulatedNode]) -> bool:
    """Return True if all nodes run, and `node` keeps files for each of the others."""
    if not node.is_running or node.process.is_halted or not all(other.is_running for other in others):
        return False
    consumers = [consumer.name for consumer in node.instance.checkpoints.collector.consumers]
    return all(any(str(other.instance.state.instance_uuid) in name for name in consumers) for other in others)
