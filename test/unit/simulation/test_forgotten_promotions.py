"""With `replication_keep_promotions` off, a snapshot has no promotions, as in Tarantool.

```
1   node2 leads, and is cut off with a row that waits; node1 leads, and the row is void
2   node1 makes a snapshot, and is cut off, with a row that waits or without one
3   node2 leads; node1 is started again from its snapshot. Does it know that the row of 1 is void?
```

Until 3 the void row is in the log of node2 alone, because node1 fetches nothing from node2 before. A leader takes void
rows of all others as NOPs, and so would have that row before its snapshot otherwise.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from box.errors import BoxError, ErrorCode
from box.replication.applier import Applier
from box.replication.state import ApplierState
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.simulated_node import NodeDied

from .test_findings import SPACE, make_space, put


async def promote(simulation: Simulation, node: SimulatedNode) -> None:
    await simulation.within(20, node.run(node.instance.elections.promote()))


async def put_in_vain(node: SimulatedNode, key: int) -> None:
    with suppress(BoxError, NodeDied):
        await put(node, key)


def stopped(node: SimulatedNode) -> list[Applier]:
    return [a for a in node.instance.replication.replicaset.appliers if a.state is ApplierState.STOPPED]


async def story(simulation: Simulation, *, keeps: bool, restarts: bool, waits: bool = True) -> list[SimulatedNode]:
    """Play the three steps of the module's docstring, with node1 restarted or not."""
    options = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6, "election_timeout": 1}
    if not keeps:
        options["replication_keep_promotions"] = False
    nodes = one, two, three = await simulation.start_cluster(3, **options)
    sources = one.options["replication"]
    await make_space(one, is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, two)
    await put(two, 1)

    simulation.network.isolate(two.name)
    waiting = [simulation.loop.create_task(put_in_vain(two, 100))]
    await promote(simulation, one)
    await put(one, 2)
    await one.configure(replication=[three.uri])
    simulation.network.heal()
    await simulation.until(lambda: two.has(SPACE, 2) and not two.has(SPACE, 100), 60, "the end of the first row")
    void_lsn = two.instance.state.vclock[two.instance_id]

    await one.run(one.instance.checkpoints.make())
    assert one.instance.state.vclock[two.instance_id] < void_lsn
    simulation.network.isolate(one.name)
    if waits:
        waiting.append(simulation.loop.create_task(put_in_vain(one, 101)))
        await simulation.until(lambda: one.has(SPACE, 101), 10, "the second row")
    await promote(simulation, two)
    await put(two, 3)
    if restarts:
        one.kill()
        one.options["replication"] = sources
        await one.start()
    else:
        await one.configure(replication=sources)
    simulation.network.heal()
    await simulation.until(lambda: one.has(SPACE, 3) or bool(stopped(one)), 60, "the rows of the new leader")
    for task in waiting:
        task.cancel()
    return nodes


@pytest.mark.parametrize(("keeps", "restarts"), [(False, False), (True, True)], ids=["runs-on", "has-kept"])
def test_a_node_that_knows_promotions_takes_void_rows_without_effect(keeps: bool, restarts: bool) -> None:
    async def scenario(simulation: Simulation) -> None:
        nodes = await story(simulation, keeps=keeps, restarts=restarts)
        await simulation.until(lambda: all(node.rows(SPACE) == [[1], [2], [3]] for node in nodes), 60, "equal rows")
        assert not any(map(stopped, nodes))

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_node_that_has_forgotten_promotions_stops_until_a_leader_has_void_rows_without_effect() -> None:
    """A node that has forgotten promotions stops with "Failed to write to disk", as Tarantool does, until a leader has
    the void rows.
    """

    async def scenario(simulation: Simulation) -> None:
        nodes = one, two, three = await story(simulation, keeps=False, restarts=True)
        for _ in range(2):
            (applier,) = stopped(one)
            assert applier.error is not None
            assert applier.error.code == ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS
            await one.configure(replication=[])
            await one.configure(replication=two.options["replication"])
            await simulation.until(lambda: bool(stopped(one)), 60, "the same again")
        await promote(simulation, three)
        await simulation.until(lambda: all(node.rows(SPACE) == [[1], [2], [3]] for node in nodes), 60, "equal rows")

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_node_that_has_forgotten_promotions_and_has_nothing_that_waits_rolls_void_rows_back() -> None:
    """A node that has forgotten promotions, and has nothing that waits, rolls void rows back by the next promotion of
    their origin.
    """

    async def scenario(simulation: Simulation) -> None:
        nodes = await story(simulation, keeps=False, restarts=True, waits=False)
        await simulation.until(lambda: all(node.rows(SPACE) == [[1], [2], [3]] for node in nodes), 60, "equal rows")
        assert not any(map(stopped, nodes))

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
