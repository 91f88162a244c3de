"""What a subscription knows of the rows that a leader had when it was elected."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from box.errors import ErrorCode, client_error
from box.net.peer_connection import PeerConnection
from box.replication.elections import Elections
from box.replication.raft import Role
from box.replication.subscription import Subscription
from box.txn.promotion_history import Standing
from box.wire.messages import RaftRequest
from box.wire.vclock import VClock

REMOTE, STANDING = VClock({1: 1}), VClock({1: 2})
CANDIDATE = RaftRequest(4, 2, Role.CANDIDATE, STANDING)
VOID = ((3, 8),)
LEADER, FOLLOWER = RaftRequest(4, 2, Role.LEADER), RaftRequest(4, 2, Role.FOLLOWER)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([LEADER], [Standing(4, REMOTE)]),
        ([LEADER, LEADER], [Standing(4, REMOTE), Standing(4, REMOTE)]),
        ([CANDIDATE, LEADER], [Standing(4, STANDING)]),
        ([FOLLOWER, CANDIDATE, LEADER], [Standing(4, STANDING)]),
        ([replace(LEADER, void_promotions=VOID)], [Standing(4, REMOTE, VOID)]),
        ([replace(CANDIDATE, void_promotions=VOID), LEADER], [Standing(4, STANDING, VOID)]),
        ([FOLLOWER, LEADER], []),
        ([FOLLOWER, CANDIDATE, FOLLOWER], []),
    ],
)
def test_which_rows_the_leader_had(requests: list[RaftRequest], expected: list[Any]) -> None:
    """The leader had the rows of its request for votes; those of the subscription count only if it led already then."""

    async def body() -> None:
        learned: list[Any] = []

        async def learn(source: int, standing: Standing) -> None:
            assert source == 2
            learned.append(standing)

        elections = SimpleNamespace(learn_leader=learn, knows_promotion=lambda standing: False)
        sink = SimpleNamespace(may_be_void=lambda rows: False)
        host: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            sink=sink,
            elections=elections,
            instance=SimpleNamespace(instance_id=1, replicaset_uuid=None),
            options=SimpleNamespace(timeout=1.0),
        )
        unused: Any = None
        connection = PeerConnection(asyncio.get_running_loop(), keeps_rows=True)
        subscription = Subscription(host, unused, unused, unused, connection)
        subscription.peer_id, subscription.remote_vclock = 2, REMOTE
        for request in requests:
            await subscription._learn_leader(request)
        assert learned == expected

    asyncio.run(body())


def test_a_full_disk_holds_up_the_rows_of_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a full disk holds up the rollback of rows that the leader lacks, its rows wait and do not count as
    outdated.
    """

    async def body() -> None:
        attempts: list[Standing] = []

        async def learn(standing: Standing) -> None:
            attempts.append(standing)
            if len(attempts) == 5:
                raft.term = 5
            if len(attempts) != 3:
                raise client_error(ErrorCode.WAL_IO)

        raft: Any = SimpleNamespace(is_enabled=True, leader_id=2, term=4)
        elections: Any = object.__new__(Elections)
        elections.raft, elections._elects_by_majority = raft, True
        elections._synchro, elections._log = SimpleNamespace(learn_leader=learn), Mock()
        monkeypatch.setattr("box.replication.elections.RETRY_DELAY", 0)
        await elections.learn_leader(2, Standing(4, REMOTE))
        assert len(attempts) == 3
        await elections.learn_leader(2, Standing(4, REMOTE))
        assert len(attempts) == 5
        await elections.learn_leader(2, Standing(4, REMOTE))
        assert len(attempts) == 5

    asyncio.run(body())
