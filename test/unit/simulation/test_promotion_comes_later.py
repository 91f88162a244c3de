"""A void promotion whose row reaches others after the rows that it would roll back.

```
1   node3 leads, and is cut off with a row that waits; node5 is cut off until the end
2   node2 is elected, and cut off before its promotion leaves
3   node3 is elected without that promotion; the others get the row that waits
4   node2 comes back under node3: its promotion is void
5   node2 is elected, and confirms the row; its log has the void promotion before
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from box.errors import BoxError
from box.replication.raft import Role
from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, leads, make_space, put
from .test_forgotten_promotions import promote, put_in_vain
from .test_promotion_without_effect import OPTIONS, has_rows_of, lead, told_with_a_join

pytestmark = pytest.mark.usefixtures("without_claims")
"""Leaders write no claims here, because no majority may know these promotions."""

FIRST, WAITING, LAST = 1, 100, 2

Then = Callable[[Simulation, list[SimulatedNode]], Awaitable[None]]


async def _nothing(simulation: Simulation, nodes: list[SimulatedNode]) -> None:
    """Restart nothing, so that node2 goes on."""


async def _starts(simulation: Simulation, nodes: list[SimulatedNode]) -> None:
    """Restart node2 from its log, in which the promotion comes after the row."""
    for node in (nodes[0], nodes[3]):
        node.kill()
        await node.start()


async def _another_leader(simulation: Simulation, nodes: list[SimulatedNode]) -> None:
    """Elect node1, so that nodes that return get the promotion from its log."""
    one, two, *_ = nodes
    await lead(simulation, one, two)
    await simulation.until(lambda: not leads(two), 20, "the end of the leader before")


async def _another_leader_after_a_start(simulation: Simulation, nodes: list[SimulatedNode]) -> None:
    await _starts(simulation, nodes)
    await _another_leader(simulation, nodes)


async def _elected(simulation: Simulation, node: SimulatedNode) -> asyncio.Task[None]:
    """Elect a node that has not promoted yet."""
    promotion = simulation.loop.create_task(promote(simulation, node))
    while node.instance.elections.raft.role is not Role.LEADER:
        await simulation.sleep(0.0001)
    return promotion


def _mend(simulation: Simulation, node: SimulatedNode, *others: SimulatedNode) -> None:
    for other in others:
        simulation.network.mend(node.name, other.name)
        simulation.network.mend(other.name, node.name)


async def _story(simulation: Simulation, then: Then) -> None:
    nodes = one, two, three, four, five = await simulation.start_cluster(5, **OPTIONS)
    await make_space(one, is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, three)
    await put(three, FIRST)
    await simulation.until(lambda: all(has_rows_of(node, three) for node in nodes), 20, "the first row")
    network = simulation.network
    network.isolate(five.name)

    network.isolate(three.name)
    tasks = [simulation.loop.create_task(put_in_vain(three, WAITING))]
    promotion = await _elected(simulation, two)
    network.isolate(two.name)
    await promotion
    assert not has_rows_of(one, two)

    _mend(simulation, three, one, four)
    await simulation.until(lambda: three.instance.elections.raft.role is Role.FOLLOWER, 60, "word of the other leader")
    tasks.append(await _elected(simulation, three))
    for node in (one, four):
        network.cut(node.name, three.name)  # it waits for acknowledgements in vain
    await simulation.until(lambda: one.has(SPACE, WAITING) and four.has(SPACE, WAITING), 20, "the row that waits")
    _mend(simulation, two, three)
    await simulation.until(lambda: two.has(SPACE, WAITING), 60, "the row that waits")
    (void,) = told_with_a_join(two)
    assert void[0] == two.instance_id

    network.isolate(three.name)
    _mend(simulation, two, one, four)
    await promote(simulation, two)
    for node in (one, four):
        await simulation.until(partial(has_rows_of, node, two), 20, "the promotions")
        assert node.has(SPACE, WAITING)
        assert told_with_a_join(node) == (void,)
    await then(simulation, nodes)

    network.heal()
    leader = next(node for node in (one, two) if leads(node))
    await put(leader, LAST)
    await simulation.until(lambda: all(node.has(SPACE, LAST) for node in nodes), 60, "the rows of the leader")
    assert [node.rows(SPACE) for node in nodes] == [[[FIRST], [LAST], [WAITING]]] * 5
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError, BoxError):
            await task


@pytest.mark.parametrize("then", [_nothing, _starts, _another_leader, _another_leader_after_a_start])
def test_it_rolls_nothing_back(then: Then) -> None:
    """A promotion that arrives late rolls nothing back that a quorum has confirmed meanwhile."""
    with Simulation(1) as simulation:
        simulation.run(_story(simulation, then))
