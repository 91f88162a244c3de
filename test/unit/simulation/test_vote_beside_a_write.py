"""Rows that are on their way to a voter's log when it is asked count, because its acknowledgement comes after its vote.

```
1   node1 leads, and is cut off from node3; its row is on its way to the log of node2, whose disk is slow
2   node3 asks node2 for its vote
3   node2 acknowledges the row, and node1, which hears of no later term, confirms it
```

Acknowledgements of Lunabox contain the term, so that a leader of an earlier one does not count them. Tarantool 2.8.1
does not read it: here node1 behaves like that.
"""

from __future__ import annotations

from contextlib import suppress

from box.errors import BoxError
from box.replication.raft import Role
from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, make_space, put
from .test_forgotten_promotions import promote, stopped
from .test_promotion_without_effect import has_rows_of

FIRST, SLOW, LATER = 1, 2, 3
SYNC_DELAY = 0.2
"""Seconds of a sync of node2's disk: less than an election takes."""
OPTIONS = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6, "election_timeout": 2}


async def _cluster(simulation: Simulation) -> list[SimulatedNode]:
    """Start three nodes; node1 leads and has a row that all nodes have."""
    nodes = await simulation.start_cluster(3, wal_mode="fsync", **OPTIONS)
    await make_space(nodes[0], is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, nodes[0])
    await put(nodes[0], FIRST)
    await simulation.until(lambda: all(has_rows_of(node, nodes[0]) for node in nodes), 10, "the first row, confirmed")
    return nodes


async def _promote_in_vain(node: SimulatedNode) -> None:
    with suppress(BoxError):
        await node.run(node.instance.elections.promote())


async def _story(simulation: Simulation) -> None:
    nodes = one, two, three = await _cluster(simulation)
    sources = one.options["replication"]
    await one.configure(replication=[])
    one.instance.elections.hear_term = lambda term: None  # type: ignore[method-assign]
    simulation.network.cut(one.name, three.name)
    two.disk.sync_delay = SYNC_DELAY

    sink, vclock = two.instance.replication.sink, two.instance.state.vclock
    before = vclock[one.instance_id]
    told = simulation.loop.create_task(put(one, SLOW))
    while sink.coming[one.instance_id] == before:
        await simulation.sleep(0.0001)
    standing = simulation.loop.create_task(_promote_in_vain(three))
    term = two.instance.elections.raft.term
    while two.instance.elections.raft.term == term:
        await simulation.sleep(0.0001)
    assert two.instance.state.vclock[one.instance_id] == before, "the row is in the log before the vote"
    await simulation.within(20, told)
    assert one.instance.elections.raft.role is Role.LEADER, "node1 has heard of the vote"

    two.disk.sync_delay = 0.0
    await one.configure(replication=sources)
    simulation.network.heal()
    await promote(simulation, two)
    await standing
    await put(two, LATER)
    rows = [[FIRST], [SLOW], [LATER]]
    await simulation.until(lambda: all(node.rows(SPACE) == rows for node in nodes), 60, "the same rows everywhere")
    assert not any(map(stopped, nodes))


def test_a_vote_counts_rows_that_are_on_their_way_to_the_log() -> None:
    """A voter refuses a candidate that lacks a row which it is just writing; before, the confirmed row was lost."""
    with Simulation(1) as simulation:
        simulation.run(_story(simulation))
