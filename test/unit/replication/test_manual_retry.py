"""`box.ctl.promote` with manual elections is repeated after the election was won and the promotion failed."""

from __future__ import annotations

import asyncio

from box.errors import ErrorCode
from box.replication.raft import Role
from test.support import until
from test.unit.replication.cluster import cluster, equal, fails
from test.unit.replication.test_elections import candidates


async def _promoted_again() -> None:
    async with cluster() as running:
        members = await candidates(running, election_mode="manual", replication_synchro_timeout=0.3)
        one, two, three = members
        one.inject("RELAY_SEND_DELAY", True)
        error = await fails(one.node.elections.promote())
        assert error.code == ErrorCode.QUORUM_WAIT
        assert one.node.elections.raft.role is Role.LEADER
        assert one.node.mode.is_read_only
        one.inject("RELAY_SEND_DELAY", False)
        await until(lambda: two.node.elections.raft.leader_id == one.id, "the others know")
        await one.node.elections.promote()
        await one.put([1])
        await equal([one, two, three])


def test_a_manual_leader_whose_promotion_failed_is_promoted_again() -> None:
    asyncio.run(_promoted_again())
