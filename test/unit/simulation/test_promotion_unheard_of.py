"""A leader that is cut off right after its promotion, and a later leader that never hears of it.

```
1   node2 leads, and is cut off with a row that waits
2   node1 is elected, is cut off before anybody gets its promotion, and writes a row
3   node2 is elected, and confirms the row of 1
4   node1 is elected again; others that were away get all of this from its log
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from box.errors import BoxError, ErrorCode
from box.replication.raft import Role
from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, make_space, put
from .test_forgotten_promotions import promote, put_in_vain

pytestmark = pytest.mark.usefixtures("without_claims")
"""Leaders write no claims here, because no majority may know these promotions."""

FIRST, WAITING, LOST, LATER = 1, 100, 200, 3


async def lead_alone(simulation: Simulation, node: SimulatedNode) -> None:
    """Elect a node, and cut it off before its promotion leaves."""
    promotion = asyncio.ensure_future(promote(simulation, node))
    while node.instance.elections.raft.role is not Role.LEADER:
        await simulation.sleep(0.0001)
    simulation.network.isolate(node.name)
    await promotion


async def put_and_tell(node: SimulatedNode, key: int, errors: list[int]) -> None:
    try:
        await put(node, key)
    except BoxError as error:
        errors.append(error.code)


async def story(simulation: Simulation) -> None:
    options = {"replication_synchro_quorum": 3, "replication_synchro_timeout": 1e6, "election_timeout": 1}
    nodes = one, two, *_, away = await simulation.start_cluster(5, **options)
    await make_space(one, is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, two)
    await put(two, FIRST)

    def is_confirmed() -> bool:
        return all(node.has(SPACE, FIRST) and node.instance.synchro.limbo.is_empty for node in nodes)

    await simulation.until(is_confirmed, 20, "the first row")

    away.kill()
    present = nodes[:-1]

    simulation.network.isolate(two.name)
    tasks = [simulation.loop.create_task(put_in_vain(two, WAITING))]
    await lead_alone(simulation, one)
    errors: list[int] = []
    tasks.append(simulation.loop.create_task(put_and_tell(one, LOST, errors)))
    await simulation.until(lambda: one.has(SPACE, LOST), 10, "the row of the leader that is cut off")
    simulation.network.reset_connections(one.name)  # with what is on its way
    simulation.network.heal()
    simulation.network.isolate(one.name)
    await simulation.until(lambda: two.instance.elections.raft.role is Role.FOLLOWER, 60, "the news of a later term")
    await promote(simulation, two)
    await put(two, LATER)
    simulation.network.heal()
    expected = {FIRST, WAITING, LATER}

    def agree(nodes: Sequence[SimulatedNode] = present) -> bool:
        return all({key for key in (*expected, LOST) if node.has(SPACE, key)} == expected for node in nodes)

    await simulation.until(agree, 60, "the same rows everywhere")
    assert errors == [ErrorCode.SYNC_ROLLBACK]

    # The log of node1 has the same rows, and others fetch from it what they lack.
    one.kill()
    await one.start()
    await simulation.until(agree, 60, "the same rows after a start")
    await promote(simulation, one)
    await put(one, LATER + 1)
    await simulation.until(lambda: all(node.has(SPACE, LATER + 1) for node in present), 60, "the next leader's row")
    assert agree()
    await away.start()
    await simulation.until(lambda: away.has(SPACE, LATER + 1), 60, "the rows of who was away")
    assert agree(nodes)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            task.cancel()


def test_what_is_confirmed_later_is_taken() -> None:
    """The leader that was cut off rolls its own row back, and gets what the others have confirmed."""
    with Simulation(1) as simulation:
        simulation.run(story(simulation))


async def story_of_a_slow_disk(simulation: Simulation) -> None:
    """Play the events with the row of node1 still on its way to the log when it hears who leads."""
    options = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6, "election_timeout": 1}
    nodes = one, two, _ = await simulation.start_cluster(3, wal_mode="fsync", **options)
    await make_space(one, is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, two)
    await put(two, FIRST)
    await simulation.until(lambda: all(node.has(SPACE, FIRST) for node in nodes), 20, "the first row")
    simulation.network.isolate(two.name)
    tasks = [simulation.loop.create_task(put_in_vain(two, WAITING))]
    await lead_alone(simulation, one)
    simulation.network.reset_connections(one.name)
    simulation.network.heal()
    simulation.network.isolate(one.name)
    await simulation.until(lambda: two.instance.elections.raft.role is Role.FOLLOWER, 60, "the news of a later term")
    await promote(simulation, two)
    await put(two, LATER)

    one.disk.sync_delay = 10.0
    errors: list[int] = []
    tasks.append(simulation.loop.create_task(put_and_tell(one, LOST, errors)))
    await simulation.until(lambda: bool(one.instance.limbo.entries), 10, "the row that is being written")
    assert not one.instance.limbo.entries[0].written
    simulation.network.heal()
    raft = one.instance.elections.raft
    await simulation.until(lambda: raft.leader_id == two.instance_id, 9, "the word of the leader")
    assert not one.instance.limbo.entries[0].written
    one.disk.sync_delay = 0.0
    rows = [[FIRST], [LATER], [WAITING]]
    await simulation.until(lambda: all(node.rows(SPACE) == rows for node in nodes), 60, "the same rows everywhere")
    await asyncio.gather(*tasks)
    assert errors == [ErrorCode.SYNC_ROLLBACK]


def test_what_is_on_its_way_to_the_log_is_rolled_back_too() -> None:
    """A row on its way to the log is rolled back, too; before, node1 kept its promotion and took confirmed rows for
    void.
    """
    with Simulation(1) as simulation:
        simulation.run(story_of_a_slow_disk(simulation))
