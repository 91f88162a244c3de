"""Acknowledgements at a leader that others have deposed, whose rows may be void there."""

from __future__ import annotations

import asyncio

import pytest

from box.errors import BoxError
from box.replication.raft import Role
from box.testing import Simulation
from box.testing.simulation.simulated_node import Changes
from box.wire.messages import RaftRequest, raft_row
from box.wire.vclock import VClock

from .test_findings import SPACE, make_space, put
from .test_forgotten_promotions import promote, put_in_vain

WAITING = 100


@pytest.mark.parametrize("is_deposed", [False, True])
def test_what_waits_at_a_deposed_leader_is_not_its_to_confirm(is_deposed: bool) -> None:
    """A deposed leader does not confirm what waits, because others may have it as void rows."""

    async def scenario(simulation: Simulation) -> None:
        options = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6}
        nodes = leader, other, _ = await simulation.start_cluster(3, **options)
        await make_space(leader, is_sync=True)
        await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
        for node in nodes:
            await node.configure(election_mode="manual")
        await promote(simulation, leader)
        simulation.network.isolate(leader.name)
        waiting = asyncio.ensure_future(put_in_vain(leader, WAITING))
        limbo = leader.instance.limbo
        await simulation.until(lambda: bool(limbo.entries) and limbo.entries[0].written, 10, "the row that waits")
        if is_deposed:
            elections = leader.instance.elections
            request = RaftRequest(elections.raft.term + 1, 0, Role.FOLLOWER)
            leader.process.run(elections.receive, raft_row(request), other.instance_id)
        vclock = VClock({leader.instance_id: limbo.entries[0].lsn})
        leader.process.run(leader.instance.synchro.on_ack, other.instance_id, vclock)
        await simulation.sleep(1)
        assert waiting.done() is not is_deposed
        assert bool(limbo.entries) is is_deposed

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_transaction_that_outlives_its_leader_is_refused() -> None:
    """A transaction written after the next leader's PROMOTE is refused.

    Before, it waited for a quorum that it could never get, and replication stopped until `replication_synchro_timeout`.
    """

    async def scenario(simulation: Simulation) -> None:
        options = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 1e6, "memtx_use_mvcc_engine": True}
        nodes = former, leader, _ = await simulation.start_cluster(3, **options)
        await make_space(former, is_sync=True)
        await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
        for node in nodes:
            await node.configure(election_mode="manual")
        await promote(simulation, former)
        await simulation.until(lambda: leader.instance.limbo.owner_id == former.instance_id, 10, "the first PROMOTE")
        goes_on = asyncio.Event()

        async def insert(changes: Changes) -> None:
            changes.insert(SPACE, [1])
            await goes_on.wait()

        late = asyncio.ensure_future(former.transaction(insert))
        await promote(simulation, leader)
        await simulation.until(lambda: former.instance.limbo.owner_id == leader.instance_id, 10, "the PROMOTE")
        goes_on.set()
        with pytest.raises(BoxError, match="read-only"):
            await simulation.within(10, late)
        await put(leader, 2)
        await simulation.until(lambda: former.rows(SPACE) == [[2]], 10, "what the leader has")

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
