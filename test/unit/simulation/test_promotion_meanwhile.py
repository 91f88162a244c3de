"""A promotion that arrives while a view of all data waits for unconfirmed transactions.

```
1   a row of node1 waits; node2 makes a snapshot, or sends all to an instance that joins again: both wait for it
2   another row of node1 waits; node3 is promoted, which confirms both
3   the second row and the promotion come after the view, and come again from the log, or from the master
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, make_space, put
from .test_forgotten_promotions import promote, put_in_vain
from .test_promotion_without_effect import lead

pytestmark = pytest.mark.usefixtures("without_claims")
"""Leaders write no claims here, because no majority may know these promotions."""

CONFIRMED, WAITING, BEHIND = 1, 2, 3
MORE_THAN_THERE_ARE = 9
OPTIONS = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6}

View = Callable[[], Coroutine[Any, Any, SimulatedNode]]


async def _cluster(simulation: Simulation) -> list[SimulatedNode]:
    nodes = await simulation.start_cluster(4, **OPTIONS)
    await make_space(nodes[0], is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    return nodes


async def _story(simulation: Simulation, nodes: list[SimulatedNode], view: View) -> None:
    """Play the events with these three nodes."""
    one, _, three = nodes
    await put(one, CONFIRMED)
    await one.configure(replication_synchro_quorum=MORE_THAN_THERE_ARE)
    # Seconds that node3 waits for another instance to confirm, before its promotion does.
    await three.configure(replication_synchro_timeout=0.1)
    waiting = [simulation.loop.create_task(put_in_vain(one, WAITING))]
    await simulation.until(lambda: all(node.has(SPACE, WAITING) for node in nodes), 10, "the row that waits")
    viewing = simulation.loop.create_task(view())
    await simulation.sleep(1)
    assert not viewing.done()
    waiting.append(simulation.loop.create_task(put_in_vain(one, BEHIND)))
    await simulation.until(lambda: all(node.has(SPACE, BEHIND) for node in nodes), 10, "the second row")
    await promote(simulation, three)
    await asyncio.gather(*waiting)
    viewer = await simulation.within(60, viewing)
    rows = [[CONFIRMED], [WAITING], [BEHIND]]
    await simulation.until(lambda: all(node.rows(SPACE) == rows for node in (*nodes, viewer)), 60, "all rows")


def test_a_promotion_without_effect_behind_a_snapshot_has_none_after_a_start() -> None:
    """A void promotion after a snapshot stays void after a restart.

    The first one of node3, of an earlier term than that of node1, comes only with the second. With a snapshot that has
    it, a restart would take it for a new one and roll back what all have confirmed.
    """

    async def scenario(simulation: Simulation) -> None:
        nodes = one, two, three, _ = await _cluster(simulation)
        simulation.network.isolate(three.name)
        await three.configure(replication_synchro_quorum=1)
        for node in nodes:
            await node.configure(election_mode="manual")
        await promote(simulation, three)
        await promote(simulation, two)
        await lead(simulation, one, two)
        simulation.network.heal()
        await three.configure(replication_synchro_quorum=2)
        leader, term = one.instance_id, one.instance.elections.raft.term
        await simulation.until(lambda: three.instance.elections.raft.leader_id == leader, 20, "the leader's word")
        assert three.instance.elections.raft.term == term
        await simulation.until(lambda: three.instance_id in one.instance.state.vclock, 20, "a promotion without effect")

        async def snapshot() -> SimulatedNode:
            await two.run(two.instance.checkpoints.make())
            assert not two.instance.checkpoints.collector.checkpoints[-1].vclock.covers(two.instance.state.vclock)
            two.kill()
            await two.start()
            return two

        await _story(simulation, nodes[:3], snapshot)

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_rows_behind_a_join_are_confirmed_by_a_promotion_behind_it() -> None:
    """An instance that joins gets the promotions before the view with it, and later ones as rows."""

    async def scenario(simulation: Simulation) -> None:
        nodes = one, two, _, four = await _cluster(simulation)
        for node in nodes:
            await node.configure(election_mode="manual")
        await promote(simulation, one)
        uuid = str(four.instance.state.instance_uuid)
        four.kill()

        async def join_anew() -> SimulatedNode:
            options: dict[str, Any] = {"replication": [two.uri], "instance_uuid": uuid, "election_mode": "voter"}
            again = simulation.add_node("node5", **options | OPTIONS)
            await again.start()
            return again

        await _story(simulation, nodes[:3], join_anew)

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
