"""Rows that were rolled back: their acknowledgements count for no quorum, and nobody waits for them.

```
1   node2 leads, and is cut off with a row that waits; node3 has got it
2   node4 is elected without it: everywhere but at node2 the row is rolled back
3   node3 is elected, and the others take the row from its log as a void one
4   node2 hears of the others again, but not of the rows of the leader: all of them acknowledge its row
```
"""

from __future__ import annotations

import pytest

from box.errors import BoxError, ErrorCode
from box.replication.raft import Role
from box.replication.state import ApplierState
from box.testing import SimulatedNode, Simulation

from .test_findings import SPACE, make_space, put
from .test_forgotten_promotions import promote

FIRST, WAITING, LATER = 1, 100, 200


async def put_and_tell(node: SimulatedNode, key: int, codes: list[int]) -> None:
    try:
        await put(node, key)
        codes.append(0)
    except BoxError as error:
        codes.append(error.code)


async def cluster(simulation: Simulation, fetches_once: bool) -> list[SimulatedNode]:
    """Start five nodes; node2 leads and has a row that all nodes have."""
    options = {"replication_synchro_quorum": 3, "replication_synchro_timeout": 1e6, "election_timeout": 1}
    nodes = await simulation.start_cluster(5, replication_fetch_once=fetches_once, **options)
    await make_space(nodes[0], is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="manual")
    await promote(simulation, nodes[1])
    await put(nodes[1], FIRST)

    def is_confirmed() -> bool:
        return all(node.has(SPACE, FIRST) and node.instance.synchro.limbo.is_empty for node in nodes)

    await simulation.until(is_confirmed, 20, "the first row")
    return nodes


async def story(simulation: Simulation, fetches_once: bool) -> None:
    nodes = one, two, three, four, five = await cluster(simulation, fetches_once)
    network = simulation.network
    network.isolate(two.name)
    network.mend(two.name, three.name)
    codes: list[int] = []
    simulation.loop.create_task(put_and_tell(two, WAITING, codes))
    await simulation.until(lambda: three.has(SPACE, WAITING), 10, "the row at one other node")
    network.cut(two.name, three.name)
    await promote(simulation, four)
    await simulation.until(lambda: not three.has(SPACE, WAITING), 60, "its end")

    await promote(simulation, three)
    await put(three, LATER)
    place = two.instance.state.vclock[two.instance.state.instance_id]

    def have_it() -> bool:
        origin = two.instance.state.instance_id
        return all(node.instance.state.vclock[origin] == place for node in nodes)

    await simulation.until(have_it, 60, "the row without an effect everywhere")
    for node in (one, five):
        network.mend(two.name, node.name)
        network.mend(node.name, two.name)
    limbo = two.instance.synchro.limbo
    acks = two.instance.synchro._promoter._acks
    origin = two.instance.state.instance_id
    await simulation.until(lambda: sum(a.get(origin) == place for a in acks.values()) == 2, 60, "acknowledgements")
    await simulation.sleep(5)
    assert codes == []
    assert not limbo.is_empty

    network.heal()

    def agree() -> bool:
        return all(node.has(SPACE, LATER) and not node.has(SPACE, WAITING) for node in nodes)

    await simulation.until(agree, 60, "the same rows everywhere")
    assert codes == [ErrorCode.SYNC_ROLLBACK]
    assert two.instance.elections.raft.role is Role.FOLLOWER


async def story_of_one_that_follows_nobody(simulation: Simulation) -> None:
    """Play the events with only acknowledgements reaching node2 in the end."""
    _, two, three, four, _ = await cluster(simulation, fetches_once=False)
    network = simulation.network
    network.isolate(two.name)
    network.mend(two.name, three.name)
    codes: list[int] = []
    simulation.loop.create_task(put_and_tell(two, WAITING, codes))
    await simulation.until(lambda: three.has(SPACE, WAITING), 10, "the row at one other node")
    sources = two.options["replication"]
    await two.configure(replication=[])
    network.cut(two.name, three.name)
    await promote(simulation, four)
    await simulation.until(lambda: not three.has(SPACE, WAITING), 60, "its end")
    await promote(simulation, three)
    await put(three, LATER)
    network.heal()
    raft = two.instance.elections.raft
    await simulation.until(lambda: raft.role is Role.FOLLOWER, 60, "the end of its time as leader")
    assert raft.term == three.instance.elections.raft.term
    await simulation.sleep(5)
    assert codes == []
    await two.configure(replication=sources)
    await simulation.until(lambda: bool(codes), 60, "the row's end")
    assert codes == [ErrorCode.SYNC_ROLLBACK]


async def return_of_the_former_leader(simulation: Simulation, fetches_once: bool) -> None:
    nodes = _, two, _, four, _ = await cluster(simulation, fetches_once)
    simulation.network.isolate(two.name)
    simulation.loop.create_task(put_and_tell(two, WAITING, []))
    await simulation.until(lambda: two.has(SPACE, WAITING), 10, "the row")
    await promote(simulation, four)
    await put(four, LATER)
    simulation.network.heal()
    await simulation.until(lambda: two.has(SPACE, LATER) and not two.has(SPACE, WAITING), 60, "its end")

    def follow() -> bool:
        appliers = [a for node in nodes for a in node.instance.replication.replicaset.appliers]
        return all(applier.state in (ApplierState.FOLLOW, ApplierState.OFF) for applier in appliers)

    await simulation.until(follow, 60, "everybody follows everybody")


@pytest.mark.parametrize("fetches_once", [False, True])
def test_a_replaced_leader_does_not_take_void_rows_for_votes(fetches_once: bool) -> None:
    """A replaced leader does not count acknowledgements of void rows; before, it confirmed a row that no other node
    had.
    """
    with Simulation(1) as simulation:
        simulation.run(story(simulation, fetches_once))
        assert simulation.errors == []


@pytest.mark.parametrize("fetches_once", [False, True])
def test_nobody_waits_for_them(fetches_once: bool) -> None:
    """Nobody waits for void rows; before, a candidate with `replication_fetch_once` stayed an orphan for ever."""
    with Simulation(1) as simulation:
        simulation.run(return_of_the_former_leader(simulation, fetches_once))
        assert simulation.errors == []


def test_acknowledgements_tell_the_term() -> None:
    """Acknowledgements have the term; before, a leader that followed nobody did not hear of a later one, and confirmed
    the row.
    """
    with Simulation(1) as simulation:
        simulation.run(story_of_one_that_follows_nobody(simulation))
        assert simulation.errors == []
