"""Acknowledgements that come to a leader which others have deposed: its rows may be without an effect there."""

from __future__ import annotations

import asyncio

import pytest

from box.replication.raft import Role
from box.testing import Simulation
from box.wire.messages import RaftRequest, raft_row
from box.wire.vclock import VClock

from .test_findings import SPACE, make_space
from .test_forgotten_promotions import promote, put_in_vain

WAITING = 100


@pytest.mark.parametrize("is_deposed", [False, True])
def test_what_waits_at_a_deposed_leader_is_not_its_to_confirm(is_deposed: bool) -> None:
    """With no leader after it, it was just slow to hear what others have."""

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
