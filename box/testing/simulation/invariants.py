"""Invariants: what must hold between any two callbacks of a cluster, whatever its clients do.

```
vclock    it never goes back, not even over restarts; no node has rows that their origin does not have
raft      a term has one leader; a node gives one vote in a term; its terms never go back, not even over restarts; a
          leader has the recorded votes of a quorum
limbo     lsns grow from entry to entry; no node rolls back what another one confirms; a quorum has what is confirmed
```

`Invariants.look` is called between the turns of the loop. To be quick it compares what changes often with what it saw
last, and checks closely only what is new.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from box.replication.raft import Role
from box.testing.simulation.simulated_node import SimulatedNode
from box.testing.simulation.simulation import Simulation
from box.txn.transaction import NO_LSN, LimboEntry, TxnState
from box.wire.messages import RaftRequest

if TYPE_CHECKING:
    from box.instance.node import Instance

_OUTCOMES: Final = {TxnState.COMMITTED: "confirmed", TxnState.ABORTED: "rolled back"}


@dataclass(slots=True)
class _Known:
    """The state of one node at the last look. The first three fields outlive a restart."""

    reached: dict[int, int] = field(default_factory=dict)
    """The vclock of its log."""
    votes: dict[int, int] = field(default_factory=dict)
    """The recorded vote of each term."""
    term: int = 0
    instance: Instance | None = None
    recorded: RaftRequest | None = None
    length: int = 0
    confirmed_lsn: int = 0
    rollback_count: int = 0
    """The number of rollbacks of the limbo."""
    owner: int = 0
    entries: list[LimboEntry] = field(default_factory=list)
    leaving: list[LimboEntry] = field(default_factory=list)
    """Entries that have left the limbo, and whose transactions have no outcome yet."""


class Invariants:
    """Checks the invariants of all nodes. `quorum` is that of synchronous transactions and elections."""

    def __init__(self, simulation: Simulation, quorum: int) -> None:
        self.violations: dict[str, None] = {}
        self._simulation = simulation
        self._active = simulation.loop.active
        self._nodes = dict(simulation.nodes)
        self._quorum = quorum
        self._known: dict[str, _Known] = {name: _Known() for name in simulation.nodes}
        self._names: dict[int, str] = {}
        """The names of nodes by their ids."""
        self._leaders: dict[int, str] = {}
        """The leader of each term."""
        self._outcomes: dict[tuple[int, int], tuple[str, str]] = {}
        """By owner and lsn: the outcome, and the node where it was seen first."""

    def reached(self, name: str) -> dict[int, int]:
        """Return the last vclock of a node's log, seen while the node ran."""
        return self._known[name].reached

    def look(self) -> None:
        """Check each node whose callbacks have run since the last look."""
        active, nodes = self._active, self._nodes
        for process in active:
            process.has_run = False
            node = nodes.get(process.name)
            if node is not None and node.process is process and (instance := node.running) is not None:
                self._look_at(node, instance)
        active.clear()

    def _violation(self, node: SimulatedNode, text: str) -> None:
        self.violations[f"{node.name}: {text}"] = None

    def _look_at(self, node: SimulatedNode, instance: Instance) -> None:
        known = self._known[node.name]
        if instance is not known.instance:
            known.instance, known.entries, known.leaving, known.recorded = instance, [], [], None
            self._names[instance.state.instance_id] = node.name
        vclock = instance.state.vclock
        if vclock != known.reached:
            self._see_vclock(node, known, vclock)
        raft = instance.elections.raft
        recorded = raft.local_state()
        if recorded is not known.recorded:
            known.recorded = recorded
            self._see_record(node, known, recorded)
        if raft.role is Role.LEADER and self._leaders.get(raft.term) != node.name:
            self._see_leader(node, raft.term)
        limbo = instance.limbo
        if (
            known.leaving
            or len(limbo.entries) != known.length
            or limbo.confirmed_lsn != known.confirmed_lsn
            or limbo.rollback_count != known.rollback_count
        ):
            known.length, known.confirmed_lsn = len(limbo.entries), limbo.confirmed_lsn
            known.rollback_count = limbo.rollback_count
            self._see_limbo(node, known, instance)
        known.owner = limbo.owner_id

    # -- vclocks

    def _see_vclock(self, node: SimulatedNode, known: _Known, vclock: dict[int, int]) -> None:
        now = dict(vclock)
        for origin, lsn in known.reached.items():
            if now.get(origin, 0) < lsn:
                self._violation(node, f"the vclock went back from {known.reached} to {now}")
                break
        for origin, lsn in now.items():
            source = self._names.get(origin)
            if source not in (None, node.name) and lsn > self._known[source].reached.get(origin, 0):
                self._catch_up(source)
                if lsn > self._known[source].reached.get(origin, 0):
                    self._violation(node, f"has row {lsn} of {source}, which has {self._known[source].reached}")
        known.reached = now

    def _catch_up(self, name: str) -> None:
        """Look at another node first, if it was active in the same turn."""
        node = self._simulation.nodes[name]
        instance = node.running
        if instance is not None and node.process.has_run:
            self._look_at(node, instance)

    # -- elections

    def _see_record(self, node: SimulatedNode, known: _Known, recorded: RaftRequest) -> None:
        term, vote = recorded.term, recorded.vote
        if term < known.term:
            self._violation(node, f"the term went back from {known.term} to {term}")
        known.term = max(known.term, term)
        before = known.votes.get(term, 0)
        if before and vote != before:
            self._violation(node, f"voted for {before} and then for {vote} in term {term}")
        if vote:
            known.votes[term] = vote

    def _see_leader(self, node: SimulatedNode, term: int) -> None:
        other = self._leaders.setdefault(term, node.name)
        if other != node.name:
            self._violation(node, f"leads in term {term}, and so does {other}")
        own_id = node.instance.state.instance_id
        for name in self._simulation.nodes:
            if name != node.name:
                self._catch_up(name)
        voters = [name for name, known in self._known.items() if known.votes.get(term) == own_id]
        if len(voters) < self._quorum:
            self._violation(node, f"leads in term {term} by the votes of {voters}")

    # -- the limbo

    def _see_limbo(self, node: SimulatedNode, known: _Known, instance: Instance) -> None:
        entries = list(instance.limbo.entries)
        lsns = [entry.lsn for entry in entries if entry.wait_ack and entry.lsn != NO_LSN]
        if any(one >= other for one, other in itertools.pairwise(lsns)):
            self._violation(node, f"the limbo's lsns do not grow: {lsns}")
        here = set(map(id, entries))
        gone = [entry for entry in known.entries if id(entry) not in here]
        known.leaving = [entry for entry in known.leaving + gone if not self._see_outcome(node, known, entry)]
        known.entries = entries

    def _see_outcome(self, node: SimulatedNode, known: _Known, entry: LimboEntry) -> bool:
        """Check the outcome of an entry, and return False if it has none yet."""
        outcome = None if entry.outcome is None else _OUTCOMES[entry.outcome]
        if outcome is None:
            return False
        if not entry.wait_ack or entry.lsn == NO_LSN or not entry.written:
            return True
        owner = entry.origin_id or known.owner
        before, where = self._outcomes.setdefault((owner, entry.lsn), (outcome, node.name))
        if before != outcome:
            self._violation(node, f"row {entry.lsn} of {owner} is {outcome}, at {where} it is {before}")
        if outcome == "confirmed":
            self._check_holders(node, owner, entry.lsn)
        return True

    def _check_holders(self, node: SimulatedNode, owner: int, lsn: int) -> None:
        for name in self._simulation.nodes:
            if name != node.name:
                self._catch_up(name)
        holders = [name for name, known in self._known.items() if known.reached.get(owner, 0) >= lsn]
        if len(holders) < self._quorum:
            self._violation(node, f"row {lsn} of {owner} is confirmed, and only {holders} have it")
