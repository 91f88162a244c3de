"""The administrator of a simulated cluster: repairs what people would repair, and reports what should need no repair.

```
a node has been down for long                           it is started
an applier has stopped because a row could not be       its sources are configured anew
written, and the disk has failed
an applier has stopped for any other reason             a violation is reported, and the sources are configured anew
no node has led for a while, elections are manual       some node is promoted
a leader has not taken over for a while                 another node is promoted: as in Tarantool, promoting the same
                                                        leader again does not complete a promotion that has failed
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Final

from box.errors import BoxError, ErrorCode
from box.instance.mode import ReadOnlyReason
from box.replication.applier import Applier
from box.replication.raft import Role
from box.replication.state import ApplierState
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

_ROUND: Final = 0.5
"""Seconds between two rounds."""
_DOWN: Final = 5.0
"""The seconds that a node may be down before it is started: longer than a fault keeps it down."""
_LEADERLESS: Final = 2.0
"""The seconds that a cluster with manual elections may be without a working leader before a node is promoted."""
_PATIENCE: Final = 30.0
"""The seconds that a start or a change of options may take."""
_PROMOTION: Final = 5.0
"""The seconds for a manual election: a candidate that cannot win would wait for ever."""


def is_explained(node: SimulatedNode, applier: Applier) -> bool:
    """Return True if a failed disk explains why an applier has stopped."""
    error = applier.error
    return error is not None and error.code == ErrorCode.WAL_IO and node.disk.failures > 0


def _has_taken_over(leader: SimulatedNode) -> bool:
    """Return True if a leader owns the limbo and accepts changes.

    Ownership of the limbo alone does not show it, because that may be left from an earlier term.
    """
    instance = leader.instance
    return instance.limbo.owner_id == leader.instance_id and not instance.mode.holds(ReadOnlyReason.ELECTION)


class Administrator:
    """Repairs the nodes of a simulation in rounds; see the module's table."""

    def __init__(self, simulation: Simulation) -> None:
        self.violations: dict[str, None] = {}
        self._simulation = simulation
        self._random: Random = simulation.random("administrator")
        self._down_since: dict[str, float] = {}
        self._left_alone: set[str] = set()
        self._leaderless_since = 0.0
        self._helps = 0

    @property
    def is_helping(self) -> bool:
        """True while a node is being helped. Cancelling the help would end the node."""
        return self._helps > 0

    async def run(self) -> None:
        """Make rounds until cancelled."""
        while True:
            await self._simulation.sleep(_ROUND)
            await self.look_after()

    @contextmanager
    def leaving_alone(self, node: SimulatedNode) -> Iterator[None]:
        """Do not start a node within this context, however long it is down."""
        self._left_alone.add(node.name)
        try:
            yield
        finally:
            self._left_alone.discard(node.name)

    async def look_after(self) -> None:
        """Make one round."""
        for node in list(self._simulation.nodes.values()):
            await self.help(node, only_after=_DOWN)
        await self._see_to_a_leader()

    async def help(self, node: SimulatedNode, *, only_after: float = 0.0) -> None:
        """Repair one node, if it has been down for at least `only_after` seconds or its replication has stopped.

        Errors are noted in the trace.
        """
        now = self._simulation.loop.time()
        self._helps += 1
        try:
            if not node.is_up:
                if node.name in self._left_alone:
                    return
                if now - self._down_since.setdefault(node.name, now) >= only_after:
                    await self._simulation.within(_PATIENCE, node.start())
                return
            self._down_since.pop(node.name, None)
            if node.is_running and not node.process.is_halted and self._sees_stopped(node):
                await self._simulation.within(_PATIENCE, self.configure_anew(node))
        except (BoxError, NodeDied, TimeoutError) as error:
            self._simulation.note(node.name, "error", f"of help: {error}")
        finally:
            self._helps -= 1

    def _sees_stopped(self, node: SimulatedNode) -> bool:
        stopped = [a for a in node.instance.replication.replicaset.appliers if a.state is ApplierState.STOPPED]
        for applier in stopped:
            if not is_explained(node, applier):
                error = applier.error
                reason = "without an error" if error is None else f"{error.type} {error.message}"
                self.violations[f"{node.name}: {applier!r}: {reason}"] = None
        return bool(stopped)

    async def configure_anew(self, node: SimulatedNode) -> None:
        """Disconnect a node from all its sources, and connect it again.

        Raises:
            BoxError: `box.cfg` fails.
            NodeDied: the process ends.
        """
        sources = node.options["replication"]
        self._simulation.note(node.name, "help", "replication is configured anew")
        try:
            await node.configure(replication=[])
        finally:
            node.options["replication"] = sources
        await node.configure(replication=sources)

    # -- who leads

    async def _see_to_a_leader(self) -> None:
        running = [node for node in self._simulation.nodes.values() if node.is_running and not node.process.is_halted]
        manual = [node for node in running if node.instance.elections.mode == "manual"]
        leaders = [node for node in running if node.instance.elections.raft.role is Role.LEADER]
        if not manual or any(map(_has_taken_over, leaders)):
            self._leaderless_since = self._simulation.loop.time()
        elif self._simulation.loop.time() - self._leaderless_since > _LEADERLESS:
            self._leaderless_since = self._simulation.loop.time()
            await self.promote(self._random.choice([node for node in manual if node not in leaders] or manual))

    async def promote(self, node: SimulatedNode) -> None:
        """Call `box.ctl.promote` on a node. Errors are noted in the trace."""
        self._simulation.note(node.name, "promote")
        try:
            await self._simulation.within(_PROMOTION, node.run(node.instance.elections.promote()))
        except (BoxError, NodeDied, TimeoutError) as error:
            self._simulation.note(node.name, "error", f"of promote: {error}")

    async def hand_over(self, node: SimulatedNode) -> None:
        """Make a candidate the leader.

        Its election mode is `manual` for the duration, because `box.ctl.promote` requires that.
        """
        try:
            # Not stored in the node's options, so that a process started meanwhile is a candidate.
            await self._simulation.within(_PATIENCE, node.run(node.instance.configure({"election_mode": "manual"})))
            await self.promote(node)
        finally:
            await self.restore_mode(node)

    async def restore_mode(self, node: SimulatedNode) -> None:
        """Set the election mode of a node back to that of its options."""
        wanted = node.options.get("election_mode")
        with suppress(BoxError, NodeDied, TimeoutError):
            if wanted is not None and node.is_running and node.instance.elections.mode != wanted:
                await self._simulation.within(_PATIENCE, node.configure(election_mode=wanted))
