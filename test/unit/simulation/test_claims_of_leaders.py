"""Claims, and the terms of logs, protect against leaders that end before a majority has their decision.

```
decided alone   node2 leads, and has written a row that node3 alone has got, when it is cut off; node1 is elected
                without it, and cut off when node3 alone has heard of its decision; node2 is elected again
two are left    node2 leads, and is cut off with a row that nobody has got; node1 is elected by node3, which ends for
                good; node1 starts again, and finds node2
```
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from box.errors import BoxError
from box.replication.raft import Role
from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, leads, make_space, put
from .test_forgotten_promotions import promote, put_in_vain, stopped

FIRST, WAITING, LATER = 1, 100, 2


async def _cluster(simulation: Simulation, size: int) -> list[SimulatedNode]:
    """Start a cluster in which node2 leads and has a row that all nodes have."""
    quorum = size // 2 + 1
    options = {"replication_synchro_quorum": quorum, "replication_synchro_timeout": 1e6, "election_timeout": 1}
    nodes = await simulation.start_cluster(size, **options)
    await make_space(nodes[0], is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, nodes[1])
    await put(nodes[1], FIRST)

    def is_confirmed() -> bool:
        return all(node.has(SPACE, FIRST) and node.instance.limbo.is_empty for node in nodes)

    await simulation.until(is_confirmed, 20, "the first row")
    return nodes


def _cut_off(simulation: Simulation, node: SimulatedNode, but: SimulatedNode) -> None:
    """Cut all links but the one between two nodes."""
    simulation.network.isolate(node.name)
    simulation.network.mend(node.name, but.name)
    simulation.network.mend(but.name, node.name)


async def _promote_in_vain(simulation: Simulation, node: SimulatedNode) -> None:
    with suppress(BoxError):
        await node.run(node.instance.elections.promote())


async def _decided_alone(simulation: Simulation) -> None:
    nodes = one, two, three, *_ = await _cluster(simulation, 5)
    _cut_off(simulation, two, three)
    waiting = [simulation.loop.create_task(put_in_vain(two, WAITING))]
    await simulation.until(lambda: three.has(SPACE, WAITING), 10, "the row at one other node")
    simulation.network.isolate(two.name)

    waiting.append(simulation.loop.create_task(_promote_in_vain(simulation, one)))
    while one.instance.elections.raft.role is not Role.LEADER:
        await simulation.sleep(0.0001)
    simulation.network.isolate(two.name)
    _cut_off(simulation, one, three)
    term = one.instance.elections.raft.term
    await simulation.until(lambda: three.instance.synchro.promotions.log_term == term, 20, "the word of node1")
    await simulation.sleep(5)
    simulation.network.heal()
    simulation.network.isolate(one.name)
    simulation.network.isolate(three.name)
    await simulation.until(lambda: two.instance.elections.raft.role is Role.FOLLOWER, 60, "the news of a later term")
    await promote(simulation, two)
    await put(two, LATER)
    simulation.network.heal()
    rows = [[FIRST], [LATER], [WAITING]]
    await simulation.until(lambda: all(node.rows(SPACE) == rows for node in nodes), 60, "the same rows everywhere")
    assert not any(map(stopped, nodes))
    assert all("contradiction" not in node.instance.synchro.info() for node in nodes)
    await asyncio.gather(*waiting)


def test_a_decision_that_no_majority_knows_of_has_no_effect_anywhere() -> None:
    """A decision that no majority knows has no effect; without claims node3 rolled back what node2 confirmed later."""
    with Simulation(1) as simulation:
        simulation.run(_decided_alone(simulation))


async def _two_are_left(simulation: Simulation) -> None:
    one, two, three = await _cluster(simulation, 3)
    simulation.network.isolate(two.name)
    waiting = simulation.loop.create_task(put_in_vain(two, WAITING))
    await simulation.until(lambda: two.has(SPACE, WAITING), 10, "the row that nobody else has")
    await promote(simulation, one)
    await put(one, LATER)
    three.kill()
    one.kill()
    await one.start()
    assert not leads(one)
    simulation.network.reset_connections(two.name)  # with what node1 and node3 had sent
    simulation.network.heal()
    term = one.instance.elections.raft.term
    await simulation.until(lambda: two.instance.elections.raft.term == term, 60, "the news of a later term")
    assert two.has(SPACE, WAITING)
    await promote(simulation, one)
    rows = [[FIRST], [LATER]]
    await simulation.until(lambda: one.rows(SPACE) == two.rows(SPACE) == rows, 60, "the rows of the later log")
    await waiting


def test_the_later_log_leads_though_the_other_one_has_a_row_of_its_own() -> None:
    """The node with the later log is elected, though each has rows that the other lacks; before, neither got a vote."""
    with Simulation(1) as simulation:
        simulation.run(_two_are_left(simulation))
