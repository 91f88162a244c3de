"""A void promotion whose row the next leader has, when the promoted instance comes back.

```
1   node2 leads, and is cut off with a row that waits
2   node1 is elected, and cut off when node3 alone has its promotion
3   node2 is elected without node3, and confirms its row: for node3 the promotion of node1 is void
4   somebody leads who has the row of that promotion, without its effect
5   node1 comes back
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from box.replication.raft import Role
from box.testing import SimulatedNode, Simulation
from box.wire.constants import RequestType
from box.wire.messages import decode_raft

from .test_findings import SPACE, leads, make_space, put
from .test_forgotten_promotions import promote, put_in_vain

pytestmark = pytest.mark.usefixtures("without_claims")
"""Leaders write no claims here, because no majority may know these promotions."""

FIRST, WAITING, LATER, LAST = 1, 100, 2, 3

Handover = Callable[[Simulation, list[SimulatedNode]], Awaitable[SimulatedNode]]


def has_rows_of(node: SimulatedNode, other: SimulatedNode) -> bool:
    return node.instance.state.vclock.covers(other.instance.state.vclock, ignore_zero=True)


async def lead(simulation: Simulation, node: SimulatedNode, after: SimulatedNode) -> None:
    """Give a node the rows of the present leader, and elect it."""
    await simulation.until(lambda: has_rows_of(node, after), 60, "the same rows")
    await promote(simulation, node)


async def _withdrawer(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    return nodes[2]


async def _withdrawer_after_a_start(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    """Restart a node: its log shows that the promotion is void by the rows after it."""
    nodes[2].kill()
    await nodes[2].start()
    return nodes[2]


async def _withdrawer_from_a_snapshot(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    await nodes[2].run(nodes[2].instance.checkpoints.make())
    return await _withdrawer_after_a_start(simulation, nodes)


async def _latecomer(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    _, two, three, four, _ = nodes
    await lead(simulation, three, two)
    await put(three, LATER + 10)
    await simulation.until(lambda: four.has(SPACE, LATER + 10), 20, "the rows of who withdrew it")
    return four


async def _latecomer_after_a_start(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    four = await _latecomer(simulation, nodes)
    four.kill()
    await four.start()
    return four


def told_with_a_join(node: SimulatedNode) -> tuple[tuple[int, int], ...]:
    (state,) = [row for row in node.instance.elections.metadata() if row.type == RequestType.RAFT]
    return tuple(map(tuple, decode_raft(state).void_promotions))


async def _master_of_a_join(simulation: Simulation, nodes: list[SimulatedNode]) -> SimulatedNode:
    """Let a sixth instance join, which has no older rows, but may vote and be elected."""
    one, two, three, *_ = nodes
    await lead(simulation, three, two)
    joined = simulation.add_node("node6", **OPTIONS, replication=[three.uri])
    await joined.start()
    assert told_with_a_join(joined) == told_with_a_join(three)
    assert one.instance_id in dict(told_with_a_join(joined))
    return three


OPTIONS = {
    "replication_synchro_quorum": 3,
    "replication_synchro_timeout": 1e6,
    "election_timeout": 1,
}

WAYS: list[Handover] = [
    _withdrawer,
    _withdrawer_after_a_start,
    _withdrawer_from_a_snapshot,
    _latecomer,
    _latecomer_after_a_start,
    _master_of_a_join,
]


def _connect(simulation: Simulation, node: SimulatedNode, others: list[SimulatedNode]) -> None:
    """Mend the ways between a node that is cut off and some others."""
    for other in others:
        simulation.network.mend(node.name, other.name)
        simulation.network.mend(other.name, node.name)


async def _lead_with(simulation: Simulation, node: SimulatedNode, only: SimulatedNode, key: int = 0) -> None:
    """Elect a node; its promotion, and the row of a key behind it, reach one other node, and from there nobody."""
    promotion = asyncio.ensure_future(promote(simulation, node))
    while node.instance.elections.raft.role is not Role.LEADER:
        await simulation.sleep(0.0001)
    network = simulation.network
    network.isolate(node.name)
    network.isolate(only.name)
    _connect(simulation, node, [only])
    await promotion
    if key:
        simulation.loop.create_task(put_in_vain(node, key))
        await simulation.until(lambda: only.has(SPACE, key), 20, "the row behind the promotion")
    lsn = node.instance.state.vclock[node.instance_id]
    await simulation.until(lambda: only.instance.state.vclock[node.instance_id] == lsn, 20, "the promotion")
    network.isolate(node.name)


async def _lead_again(simulation: Simulation, nodes: list[SimulatedNode]) -> None:
    """Elect node2, which was deposed, by node4 and node5: only node3 knows the promotion of node1."""
    one, two, _, *others = nodes
    _connect(simulation, two, others)
    term = one.instance.elections.raft.term
    await simulation.until(lambda: two.instance.elections.raft.term >= term, 60, "the later term")
    await promote(simulation, two)


async def _cluster(simulation: Simulation) -> list[SimulatedNode]:
    """Start five nodes; node2 leads and has a row that all nodes have."""
    nodes = one, two, *_ = await simulation.start_cluster(5, **OPTIONS)
    await make_space(one, is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, two)
    await put(two, FIRST)
    await simulation.until(lambda: all(node.has(SPACE, FIRST) for node in nodes), 20, "the first row")
    return nodes


async def story(simulation: Simulation, hand_over: Handover) -> None:
    nodes = one, two, three, *_ = await _cluster(simulation)
    simulation.network.isolate(two.name)
    waiting = simulation.loop.create_task(put_in_vain(two, WAITING))
    await _lead_with(simulation, one, three)
    await _lead_again(simulation, nodes)
    _connect(simulation, three, [two, *nodes[3:]])
    await put(two, LATER)
    others = nodes[1:]
    await simulation.until(lambda: all(node.has(SPACE, LATER) for node in others), 60, "the rows of the leader")
    assert has_rows_of(three, one)

    leader = await hand_over(simulation, nodes)
    former = next(node for node in nodes[1:] if leads(node))
    if former is not leader:
        await lead(simulation, leader, former)
    assert has_rows_of(leader, one)
    simulation.network.heal()
    await put(leader, LAST)
    await simulation.until(lambda: all(node.has(SPACE, LAST) for node in nodes), 60, "the rows of the last leader")
    assert [node.rows(SPACE) for node in nodes] == [leader.rows(SPACE)] * 5
    assert one.has(SPACE, WAITING)
    with suppress(asyncio.CancelledError):
        waiting.cancel()


@pytest.mark.parametrize("way", WAYS)
def test_what_it_would_have_made_void_is_taken(way: Handover) -> None:
    """Node1 takes rows that node2 has confirmed; before, it took them for rows that its own promotion
    had rolled back.
    """
    with Simulation(1) as simulation:
        simulation.run(story(simulation, way))


async def _start_before_an_election(simulation: Simulation) -> None:
    """Let node3 have a row behind the promotion, which it rolls back, and start again before node4 needs its vote."""
    nodes = one, two, three, four, five = await _cluster(simulation)
    network = simulation.network
    network.isolate(two.name)
    waiting = simulation.loop.create_task(put_in_vain(two, WAITING))
    await _lead_with(simulation, one, three, LAST)
    await _lead_again(simulation, nodes)
    sources = four.options["replication"]
    for node in (two, four, five):  # they would fetch the rows of node1 from node3
        await node.configure(replication=[source for source in sources if source != three.uri])
    _connect(simulation, three, [two, four, five])
    await put(two, LATER)
    await simulation.until(lambda: all(node.has(SPACE, LATER) for node in nodes[2:]), 60, "the rows of the leader")
    assert has_rows_of(three, one)
    assert not has_rows_of(four, one)
    three.kill()
    two.kill()
    waiting.cancel()
    for node in (four, five):
        await node.configure(replication=sources)
    network.heal()
    network.isolate(one.name)
    await three.start()
    await promote(simulation, four)
    await put(four, LAST + 1)


def test_a_start_does_not_ask_for_what_followed_it() -> None:
    """After a start a voter needs no rows behind a void promotion; before, it voted for nobody who lacked them."""
    with Simulation(1) as simulation:
        simulation.run(_start_before_an_election(simulation))
