"""Elections on running instances."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.instance.mode import ReadOnlyReason
from box.replication.raft import Role
from box.wire.constants import RequestType
from box.wire.messages import RaftRequest, raft_row
from test.support import until
from test.unit.replication.cluster import SPACE, Cluster, Member, cluster, equal

CANDIDATE: dict[str, Any] = {
    "election_mode": "candidate",
    "election_timeout": 0.5,
    "replication_timeout": 0.25,
    "replication_synchro_timeout": 5,
}
"""Options of a candidate; a leader is deposed after a second of silence, so that a busy machine does not depose it."""


def leaders(members: list[Member]) -> list[Member]:
    return [member for member in members if member.is_running and member.node.elections.raft.role is Role.LEADER]


async def leader_of(members: list[Member]) -> Member:
    """Wait until one of the members is a writable leader that all of them know, and return it."""

    def is_known() -> bool:
        found = leaders(members)
        return (
            len(found) == 1
            and not found[0].node.mode.is_read_only
            and all(m.node.elections.raft.leader_id == found[0].id for m in members if m.is_running)
        )

    await until(is_known, "a leader that everybody knows", 20)
    return leaders(members)[0]


async def founded(running: Cluster, **options: Any) -> Member:
    """Start the leader of a new replica set of one member, with a space."""
    first = await running.member().start(**options)
    await until(lambda: not first.node.mode.is_read_only, "the first leader")
    await first.grant_guest()
    await first.make_space()
    return first


async def candidates(running: Cluster, count: int = 3, *, is_sync: bool = False, **options: Any) -> list[Member]:
    """Start instances that follow each other, and let them elect a leader."""
    options = CANDIDATE | {"replication_synchro_quorum": count // 2 + 1} | options
    members = [await running.master(**options | {"election_mode": "off"})]
    if is_sync:
        await members[0].make_space(SPACE + 1, "sync", is_sync=True)
    while len(members) < count:
        members.append(await running.member().start(members[0], **options | {"election_mode": "off"}))
    for member in members:
        await member.replicate(*members)
    for member in members:
        await member.node.configure({"election_mode": options["election_mode"]})
        member.options["election_mode"] = options["election_mode"]
    return members


async def _one_leader() -> None:
    async with cluster() as running:
        members = await candidates(running)
        leader = await leader_of(members)
        followers = [member for member in members if member is not leader]
        await leader.put([1])
        await equal(members)
        for follower in followers:
            assert follower.node.mode.reason is ReadOnlyReason.ELECTION
            with pytest.raises(BoxError) as caught:
                await follower.put([2])
            assert caught.value.code == ErrorCode.READONLY


def test_candidates_elect_one_leader_and_only_it_takes_changes() -> None:
    asyncio.run(_one_leader())


async def _dead_leader() -> None:
    async with cluster() as running:
        members = await candidates(running)
        for key in range(2):
            leader = await leader_of(members)
            term = leader.node.elections.raft.term
            await leader.put([key])
            await equal(members)
            await leader.stop()
            others = [member for member in members if member.is_running]
            successor = await leader_of(others)
            assert successor.node.elections.raft.term > term
            await successor.put([key + 10])
            await leader.start()
            await equal(members)
        assert leaders(members) == [await leader_of(members)]


def test_a_dead_leader_is_replaced_and_follows_when_it_comes_back() -> None:
    asyncio.run(_dead_leader())


async def _acknowledged() -> None:
    async with cluster() as running:
        members = await candidates(running, is_sync=True)
        kept = []
        for key in range(2):
            leader = await leader_of(members)
            await leader.put([key], space=SPACE + 1)
            kept.append(key)
            await leader.stop()
            await leader_of([member for member in members if member.is_running])
            await leader.start()
        await leader_of(members)
        await equal(members, SPACE + 1)
        assert members[0].keys(SPACE + 1) == kept


def test_what_was_acknowledged_survives_every_leader() -> None:
    asyncio.run(_acknowledged())


async def _rolled_back(votes_as_tarantool: bool) -> None:
    async with cluster() as running:
        # The leader must stay the leader even if the machine stops all instances for a second.
        options = {"replication_synchro_timeout": 60, "replication_timeout": 0.5}
        members = await candidates(running, is_sync=True, **options)
        leader = await leader_of(members)
        others = [member for member in members if member is not leader]
        await equal(members, SPACE + 1)
        for member in others:
            await member.replicate()
        lsn = leader.node.state.vclock[leader.id]
        leader.begin_put([1], space=SPACE + 1)
        await until(lambda: leader.node.state.vclock[leader.id] > lsn, "a row that nobody else has")
        await leader.stop()
        for member in others:
            await member.replicate(*others)
        successor = await leader_of(others)
        await successor.put([2], space=SPACE + 1)
        await leader.start()
        for member in others:
            await member.replicate(*members)
        await until(lambda: leader.keys(SPACE + 1) == [2], "what the successor has")
        assert leader.node.elections.raft.role is Role.FOLLOWER
        if votes_as_tarantool:
            leader.node.elections.raft._needed = lambda: leader.node.state.vclock
        third = next(member for member in others if member is not successor)
        # The third instance has newer rows now, and the former leader has the row that was rolled back.
        await leader.replicate()
        await successor.put([3], space=SPACE + 1)
        await until(lambda: third.keys(SPACE + 1) == [2, 3], "the newest row")
        await successor.stop()
        await leader.replicate(*members)
        assert await leader_of([leader, third]) is third
        await until(lambda: leader.keys(SPACE + 1) == [2, 3], "the newest row on the former leader")
        assert not votes_as_tarantool or third.node.state.vclock[leader.id] > lsn


@pytest.mark.parametrize("votes_as_tarantool", [False, True])
def test_a_row_that_was_rolled_back_keeps_nobody_from_leading(votes_as_tarantool: bool) -> None:
    """An instance with a row that was rolled back can be elected, and others can be in sync without the row.

    Instances that have the row do not fetch it. One that fetches it all the same, as Tarantool does, gives it to
    candidates as a row without an effect.
    """
    asyncio.run(_rolled_back(votes_as_tarantool))


async def _two_of_three() -> None:
    async with cluster() as running:
        members = await candidates(running)
        leader = await leader_of(members)
        for member in members:
            if member is not leader:
                await member.stop()
        await leader.restart()
        await asyncio.wait({asyncio.create_task(asyncio.sleep(1))})
        assert leader.node.elections.raft.role is not Role.LEADER
        assert leader.node.mode.is_read_only


def test_without_a_quorum_nobody_is_elected() -> None:
    asyncio.run(_two_of_three())


async def _alone() -> None:
    async with cluster() as running:
        first = await founded(running, **CANDIDATE)
        assert first.node.elections.raft.term == 2
        await first.put([1])
        await first.node.checkpoints.make()
        await first.restart()
        assert first.node.elections.raft.term >= 2
        await until(lambda: not first.node.mode.is_read_only, "the next term")
        assert first.node.elections.raft.term == 3
        await first.restart(election_mode="off")
        assert first.node.elections.raft.term == 3
        assert not first.node.mode.is_read_only
        assert first.keys() == [1]


def test_terms_and_votes_are_in_the_log_and_in_snapshots() -> None:
    asyncio.run(_alone())


async def _bootstrap_of_candidates() -> None:
    async with cluster() as running:
        members = [running.member() for _ in range(3)]
        uris = [member.uri for member in members]
        first = members[0]
        await founded_by(first, uris)
        for member in members[1:]:
            await member.start(*uris, **CANDIDATE, replication_connect_quorum=1, replication_synchro_quorum=2)
        await leader_of(members)
        await equal(members)


async def founded_by(first: Member, uris: list[str]) -> None:
    await first.start(*uris, **CANDIDATE, replication_connect_quorum=0, replication_synchro_quorum=2)
    await until(lambda: not first.node.mode.is_read_only, "the first leader")
    await first.grant_guest()
    await first.make_space()


def test_a_replica_set_of_candidates_grows_from_one() -> None:
    asyncio.run(_bootstrap_of_candidates())


async def _voter() -> None:
    async with cluster() as running:
        members = await candidates(running)
        leader = await leader_of(members)
        await leader.node.configure({"election_mode": "voter"})
        others = [member for member in members if member is not leader]
        successor = await leader_of(others)
        assert successor is not leader
        with pytest.raises(BoxError, match="election_mode='voter' does not support manual elections"):
            await leader.node.elections.promote()
        follower = next(member for member in others if member is not successor)
        with pytest.raises(BoxError, match="election_mode='candidate' does not support manual elections"):
            await follower.node.elections.promote()
        await successor.node.elections.promote()


async def _founder() -> None:
    async with cluster() as running:
        founder = await running.member().start(listen=None, election_mode="candidate")
        assert founder.node.elections.raft.role is Role.LEADER
        assert founder.node.mode.reason is None
        await founder.make_space(SPACE, "test")


def test_a_candidate_that_founds_a_replica_set_leads_at_once() -> None:
    """A script that configures the first candidate and then creates its spaces finds it writable."""
    asyncio.run(_founder())


def test_a_voter_gives_its_leadership_away() -> None:
    asyncio.run(_voter())


async def _manual() -> None:
    async with cluster() as running:
        members = await candidates(running, is_sync=True, election_mode="manual")
        await asyncio.wait({asyncio.create_task(asyncio.sleep(0.5))})
        assert leaders(members) == []
        for key, member in enumerate(members):
            await member.node.elections.promote()
            assert await leader_of(members) is member
            assert member.node.limbo.owner_id == member.id
            await member.put([key], space=SPACE + 1)
            await equal(members, SPACE + 1)
            await member.node.elections.promote()
        assert members[2].keys(SPACE + 1) == [0, 1, 2]


def test_manual_elections_are_won_by_who_is_promoted() -> None:
    asyncio.run(_manual())


async def _off_meanwhile() -> None:
    async with cluster() as running:
        members = await candidates(running, election_mode="manual")
        for member in members[1:]:
            await member.stop()
        promotion = asyncio.create_task(members[0].node.elections.promote())
        await until(lambda: members[0].node.elections.raft.role is Role.CANDIDATE, "a candidate")
        await members[0].node.configure({"election_mode": "off"})
        with pytest.raises(BoxError) as caught:
            await promotion
        assert caught.value.code == ErrorCode.RAFT_DISABLED
        assert not members[0].node.mode.is_read_only


def test_elections_that_are_turned_off_end_a_promotion() -> None:
    asyncio.run(_off_meanwhile())


async def _failing_log() -> None:
    async with cluster() as running:
        members = await candidates(running)
        leader = await leader_of(members)
        follower = next(member for member in members if member is not leader)
        await equal(members)  # a row that cannot be written would stop the follower's appliers for good
        follower.inject("WAL_IO", True)
        await leader.stop()
        await until(lambda: "could not write a raft request to the log" in follower.log, "the failure")
        assert follower.node.elections.raft.role is Role.FOLLOWER
        follower.inject("WAL_IO", False)
        await leader.start()
        await leader_of(members)


def test_a_node_that_cannot_record_its_vote_stays_a_follower_and_tries_again() -> None:
    asyncio.run(_failing_log())


async def _anonymous() -> None:
    async with cluster() as running:
        members = await candidates(running)
        await leader_of(members)
        anonymous = running.member()
        await anonymous.start(*members, replication_anon=True, read_only=True)
        leader = await leader_of(members)
        await leader.put([7])
        await until(lambda: anonymous.keys() == [7], "the row")
        with pytest.raises(BoxError, match="may only be set to 'off' when 'replication_anon' is set to true"):
            await anonymous.node.configure({"election_mode": "voter"})


def test_anonymous_replicas_follow_everybody_and_take_no_part() -> None:
    asyncio.run(_anonymous())


async def _strangers() -> None:
    async with cluster() as running:
        members = await candidates(running, 2, replication_synchro_quorum=2)
        leader = await leader_of(members)
        elections = members[0].node.elections
        with pytest.raises(BoxError, match="Can't apply a Raft request from an instance without an ID"):
            elections.receive(raft_row(RaftRequest(9, 0, Role.FOLLOWER)), 0)
        row = raft_row(RaftRequest(0, 0, Role.LEADER))
        with pytest.raises(BoxError, match="Invalid term or state"):
            elections.receive(row, 2)
        row.body = b"\x93"
        with pytest.raises(BoxError) as caught:
            elections.receive(row, 2)
        assert caught.value.code == ErrorCode.INVALID_MSGPACK
        assert row.type == RequestType.RAFT
        assert await leader_of(members) is leader


def test_wrong_messages_are_errors_and_change_nothing() -> None:
    asyncio.run(_strangers())


async def _cut_off_leader() -> None:
    """Cut a leader off, as in the recorded divergence: it rolls back what its successor has confirmed."""
    async with cluster() as running:
        members = await candidates(running, is_sync=True, replication_synchro_timeout=0.4)
        leader = await leader_of(members)
        await leader.put([1], space=SPACE + 1)
        await equal(members, SPACE + 1)
        others = [member for member in members if member is not leader]
        leader.node.synchro.on_ack = lambda *_: None  # type: ignore[method-assign]  # acknowledgements are lost
        writing = asyncio.create_task(leader.put([2], space=SPACE + 1))
        await until(lambda: all(2 in other.keys(SPACE + 1) for other in others), "the row")
        await leader.replicate(leader)
        for other in others:
            await other.replicate(*others)
        await leader_of(others)
        with pytest.raises(BoxError) as caught:
            await writing
        assert caught.value.fields is not None
        assert caught.value.fields["outcome"] == "unknown"
        del leader.node.synchro.on_ack
        for member in members:
            await member.replicate(*members)
        await leader_of(members)
        await equal(members, SPACE + 1)
        assert members[0].keys(SPACE + 1) == [1, 2]


def test_a_leader_that_is_cut_off_rolls_nothing_back() -> None:
    asyncio.run(_cut_off_leader())


async def _rows_of_a_former_leader() -> None:
    async with cluster() as running:
        members = await candidates(running, is_sync=True, replication_synchro_timeout=30)
        leader = await leader_of(members)
        await leader.put([1], space=SPACE + 1)
        await equal(members, SPACE + 1)
        others = [member for member in members if member is not leader]
        for other in others:
            await other.replicate(*others)
        await leader.put([7])  # asynchronous: it is committed, and nobody else has it
        waiting = asyncio.create_task(leader.put([2], space=SPACE + 1))
        await leader_of(others)
        for other in others:
            await other.replicate(*members)
        with pytest.raises(BoxError):
            await waiting
        await until(
            lambda: len({str(member.node.state.vclock.without_zero()) for member in members}) == 1, "one vclock"
        )
        assert [member.keys(SPACE + 1) for member in members] == [[1]] * 3
        assert [member.keys() for member in members] == [[7]] * 3
        assert leader.node.elections.raft.role is Role.FOLLOWER


def test_rows_that_only_a_former_leader_has_reach_all() -> None:
    """Asynchronous rows of a former leader reach all members; its unconfirmed synchronous rows do so
    without an effect.
    """
    asyncio.run(_rows_of_a_former_leader())
