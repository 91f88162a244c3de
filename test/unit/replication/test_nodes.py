"""Whole nodes join, follow, catch up and leave."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from hashlib import sha1

import pytest

from box.errors import ErrorCode
from box.replication.state import ApplierState, SyncState
from box.schema.ids import SpaceId
from box.wire.change import Request
from test.support import until

from .cluster import SPACE, Member, cluster, equal, fails


def test_join_brings_data_and_follows() -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            for key in range(100):
                await master.put([key, "before"])
            replica = await running.member().start(master)
            assert replica.keys() == list(range(100))
            assert (replica.id, replica.node.status) == (2, "running")
            assert replica.node.state.replicaset_uuid == master.node.state.replicaset_uuid
            await master.put([100, "after"])
            await equal([master, replica])
            assert "initial data received" in replica.log
            assert "final data sent." in master.log

    asyncio.run(main())


def test_full_mesh_with_writes_everywhere() -> None:
    async def main() -> None:
        async with cluster() as running:
            members = await running.mesh(3)
            for number, member in enumerate(members):
                for key in range(20):
                    member.begin_put([number * 100 + key, member.name])
            await until(lambda: all(len(member.keys()) == 60 for member in members))
            await equal(members)
            assert [member.node.status for member in members] == ["running"] * 3
            assert [member.id for member in members] == [1, 2, 3]

    asyncio.run(main())


def test_catch_up_after_a_restart() -> None:
    """A replica that was down gets the rows that it missed from the master's log files."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await replica.stop()
            for key in range(50):
                await master.put([key, "x" * 100])
            await replica.start()
            await equal([master, replica])
            await master.restart()
            await master.put([100, "new"])
            await equal([master, replica])

    asyncio.run(main())


def test_transactions_arrive_whole() -> None:
    """A reader of the replica never sees half of a transaction, however the stream is fragmented."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            proxy = await running.proxy(master, fragment=7)
            replica = await running.member().start(proxy)
            seen = set()
            replica.node.schema.space(SPACE)
            for start in range(0, 40, 4):
                master.begin_put(*([start + offset, "t"] for offset in range(4)))

            def look() -> bool:
                seen.add(len(replica.keys()) % 4)
                return len(replica.keys()) == 40

            await until(look)
            assert seen == {0}
            await equal([master, replica])

    asyncio.run(main())


def test_local_and_temporary_spaces_stay() -> None:
    """Definitions of local and temporary spaces replicate, their data does not; vclocks stay right in mixed
    transactions.
    """

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.make_space(600, "here", group_id=1)
            await master.make_space(601, "gone", temporary=True)
            await master.put([1], space=600)
            replica = await running.member().start(master)
            await master.put([2], space=600)
            await master.put([1], space=601)
            ctx = master.new_context()
            node = master.node
            node.txns.begin(ctx)
            for space, key in ((600, 3), (SPACE, 1), (600, 4), (SPACE, 2), (600, 5)):
                node.dml.write(ctx, node.schema.space(space), Request.insert(bytes((0x91, key))))
            commit = node.txns.commit(ctx)
            assert commit is not None
            await commit.wait()
            await equal([master, replica])
            assert replica.keys() == [1, 2]
            assert (replica.rows(600), replica.rows(601)) == ([], [])
            assert master.keys(600) == [1, 2, 3, 4, 5]
            assert replica.follows(master)

    asyncio.run(main())


def test_reconfiguration_at_run_time() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await replica.replicate()
            assert replica.node.replication.replicaset.appliers == []
            assert replica.node.status == "running"
            await until(lambda: master.node.replication.replicaset.by_id[2].relay_state.status != "follow")
            await master.put([1, "x"])
            assert replica.keys() == []
            await replica.replicate(master)
            await equal([master, replica])

    asyncio.run(main())


def test_rows_in_flight_are_not_applied_twice() -> None:
    """Rows that were on their way to the journal during a reconfiguration come again, and are skipped."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            replica.inject("WAL_DELAY", True)
            await master.put([1, "x"])
            await master.put([2, "x"])
            await until(lambda: len(replica.keys()) == 2)
            replica.options["replication_sync_timeout"] = 0.05
            await replica.node.configure({"replication_sync_timeout": 0.05})
            await replica.replicate()
            await replica.replicate(master)
            await master.put([3, "x"])
            await until(lambda: len(replica.keys()) == 3, "the row behind those that came again")
            assert replica.only_applier().state is ApplierState.SYNC
            replica.inject("WAL_DELAY", False)
            await equal([master, replica])
            await until(lambda: replica.follows(master))

    asyncio.run(main())


def test_anonymous_replica_registers_later() -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.put([1, "x"])
            replica = await running.member().start(master, replication_anon=True, read_only=True)
            assert (replica.id, replica.keys()) == (0, [1])
            await until(lambda: master.node.replication.replicaset.anonymous_count == 1)
            await master.put([2, "x"])
            await equal([master, replica])
            await replica.node.configure({"replication_anon": False})
            assert replica.id == 2
            await replica.node.configure({"read_only": False})
            await until(lambda: master.node.replication.replicaset.anonymous_count == 0)
            await master.replicate(replica)
            await replica.put([3, "y"])
            await equal([master, replica])
            replica.options = {"replication": replica.options["replication"]}
            await replica.restart()
            assert replica.id == 2

    asyncio.run(main())


def test_an_anonymous_replica_registers_with_one_peer_only() -> None:
    async def main() -> None:
        async with cluster() as running:
            masters = await running.mesh(2)
            replica = await running.member().start(*masters, replication_anon=True, read_only=True)
            await replica.node.configure({"replication_anon": False})
            await equal([*masters, replica])
            assert sorted(replica.node.replication.replicaset.by_id) == [1, 2, 3]

    asyncio.run(main())


def test_anonymous_replicas_take_no_members() -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            anonymous = await running.member().start(master, replication_anon=True, read_only=True)
            replica = await running.member().start(master)
            await replica.node.configure({"replication_sync_timeout": 0.1, "replication_connect_timeout": 0.5})
            await replica.replicate(anonymous)
            error = replica.only_applier().error
            assert error is not None
            assert error.message == "Anonymous replica does not support non-anonymous followers."

    asyncio.run(main())


def test_duplicate_connection() -> None:
    """A second URI of the same instance is refused, and the configuration stays."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            proxy = await running.proxy(master)
            error = await fails(replica.node.configure({"replication": [master.uri, proxy.uri]}))
            assert error.code == ErrorCode.CFG
            assert error.message.endswith("duplicate connection to the same replica")
            assert replica.node.config["replication"] == [master.uri]
            await until(lambda: replica.follows(master))

    asyncio.run(main())


def test_connection_to_itself() -> None:
    """A connection to the instance itself counts as connected and in sync, and has no upstream."""

    async def main() -> None:
        async with cluster() as running:
            master = running.member()
            await master.start(master)
            assert (master.node.status, master.id) == ("running", 1)
            assert master.only_applier().state is ApplierState.OFF
            assert master.node.replication.replicaset.synced == 1
            await master.restart()
            assert master.node.status == "running"

    asyncio.run(main())


async def make_user(member: Member, name: str, password: str) -> None:
    """Create a user with all rights."""
    digest = sha1(sha1(password.encode()).digest()).digest()
    hashes = {"chap-sha1": b64encode(digest).decode()}
    await member.put([32, 1, name, "user", hashes], space=SpaceId.USER)
    await member.put([1, 32, "universe", 0, 0xFFFFFFFF], space=SpaceId.PRIV)


def test_wrong_password() -> None:
    """With a wrong password the applier shows the error and retries, until the user gets that password."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            replica = running.member()
            source = f"rep:secret@{master.uri}"
            starting = asyncio.ensure_future(replica.start(source))
            await until(lambda: replica.log_path.exists() and "User 'rep' is not found" in replica.log)
            assert "secret" not in replica.log
            await make_user(master, "rep", "secret")
            await starting
            assert "authenticated" in replica.log
            await master.put([1, "x"])
            await equal([master, replica])

    asyncio.run(main())


def test_restart_of_everything_with_passwords() -> None:
    """Members that restart together follow each other, though none knows its users before it has recovered."""

    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            await make_user(one, "rep", "secret")
            await equal([one, other])
            sources = [f"rep:secret@{member.uri}" for member in (one, other)]
            await one.stop()
            await other.stop()
            async with asyncio.timeout(4):
                await asyncio.gather(one.start(*sources), other.start(*sources))
            await one.put([1, "x"])
            await equal([one, other])

    asyncio.run(main())


def test_another_cluster_is_refused() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, other = await running.master(), await running.master()
            await other.put([2, str(one.node.state.instance_uuid)], space=SpaceId.CLUSTER)
            await one.node.configure({"replication_sync_timeout": 0.2})
            await one.replicate(other)
            applier = one.only_applier()
            assert applier.state is ApplierState.STOPPED
            assert applier.error is not None
            assert applier.error.code == ErrorCode.REPLICASET_UUID_MISMATCH
            assert one.node.status == "orphan"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"wal_mode": "none"}, ErrorCode.UNSUPPORTED, "Replication does not support wal_mode = 'none'"),
        ({"read_only": True}, ErrorCode.READONLY, "Can't modify data because this instance is in read-only mode."),
    ],
)
def test_masters_that_refuse_a_join(options: dict[str, object], code: int, text: str) -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.restart(**options)
            error = await fails(running.member().start(master))
            assert (error.code, error.message) == (code, text)

    asyncio.run(main())


def test_a_failed_start_can_be_repeated() -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.node.configure({"read_only": True})
            replica = running.member()
            await fails(replica.start(master))
            await master.node.configure({"read_only": False})
            await replica.node.configure({"replication": [master.uri], "listen": replica.uri})
            assert replica.node.status == "running"

    asyncio.run(main())


def test_a_loading_master_is_waited_for() -> None:
    """Instances that start together choose one to bootstrap; the others retry until it is ready."""

    async def main() -> None:
        async with cluster() as running:
            members = [running.member() for _ in range(3)]
            # Nobody may write `_cluster` before the founder lets them, which takes until after its start.
            starts = [asyncio.ensure_future(member.start(*members)) for member in members]
            await until(lambda: any(member._node and member.node.state.is_configured for member in members))
            founder = next(member for member in members if member.node.state.is_configured)
            await founder.grant_guest()
            await asyncio.gather(*starts)
            await until(lambda: all(len(member.node.replication.replicaset.by_id) == 3 for member in members))
            assert len({member.node.state.replicaset_uuid for member in members}) == 1
            assert founder.id == 1

    asyncio.run(main())


def test_too_early_subscribe() -> None:
    """A member that does not know the replica yet is asked again until it does."""

    async def main() -> None:
        async with cluster() as running:
            master, second = await running.pair()
            link = await running.proxy(master)
            await second.replicate(link)
            link.refuse = True
            link.cut()
            third = await running.member().start(master)
            await third.node.configure({"replication_sync_timeout": 0.2})
            await third.replicate(master, second)
            applier = third.applier(second)
            assert applier.error is not None
            assert applier.error.code == ErrorCode.TOO_EARLY_SUBSCRIBE
            assert third.node.status == "orphan"
            link.refuse = False
            await until(lambda: third.follows(second))
            await until(lambda: third.node.status == "running")

    asyncio.run(main())


def test_conflict_stops_the_applier() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await replica.put([1, "mine"])
            await master.put([1, "theirs"])
            applier = replica.only_applier()
            await until(lambda: applier.state is ApplierState.STOPPED)
            assert applier.error is not None
            assert applier.error.code == ErrorCode.TUPLE_FOUND
            assert replica.rows() == [[1, "mine"]]
            await replica.node.configure({"replication_skip_conflict": True})
            await replica.replicate()
            await replica.replicate(master)
            await master.put([2, "theirs"])
            await until(lambda: replica.has_rows_of(master))
            assert replica.rows() == [[1, "mine"], [2, "theirs"]]

    asyncio.run(main())


def test_orphan_until_the_quorum_is_in_sync() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            await other.stop()
            await one.restart(replication_connect_timeout=0.2, replication_sync_timeout=0.2)
            assert (one.node.status, one.node.mode.is_read_only) == ("orphan", True)
            with pytest.raises(Exception, match="read-only"):
                await one.put([1, "x"])
            await one.node.configure({"replication_connect_quorum": 1})
            assert (one.node.status, one.node.mode.is_read_only) == ("running", False)
            await one.put([1, "x"])
            await other.start()
            await equal([one, other])

    asyncio.run(main())


def test_status_while_the_instance_gets_in_sync() -> None:
    """An instance that gets in sync is `running` and read-only, and an orphan only if that fails; the
    log shows both.
    """

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            assert "orphan mode" not in master.log
            left = replica.log.count("leaving orphan mode")
            assert left == 2  # when the source was in sync, and when the start ended
            await replica.stop()
            await master.put([1, "x"])
            master.inject("RELAY_SEND_DELAY", True)
            starting = asyncio.ensure_future(replica.start(replication_sync_timeout=0.2))
            await until(lambda: "subscribed" in replica.log.partition("leaving orphan mode")[2])
            assert (replica.node.status, replica.node.mode.is_read_only) == ("running", True)
            await starting
            assert (replica.node.status, replica.node.mode.is_read_only) == ("orphan", True)
            assert replica.log.count("entering orphan mode") == 1
            master.inject("RELAY_SEND_DELAY", False)
            await until(lambda: (replica.node.status, replica.node.mode.is_read_only) == ("running", False))
            assert replica.log.count("leaving orphan mode") == left + 1

    asyncio.run(main())


def test_an_orphan_gets_well_when_its_peer_comes() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            await other.stop()
            await one.restart(replication_connect_timeout=0.2, replication_sync_timeout=0.2)
            assert one.node.status == "orphan"
            await other.start()
            await until(lambda: one.node.status == "running")
            await one.put([1, "x"])
            await equal([one, other])

    asyncio.run(main())


def test_rows_lost_by_the_master_come_back() -> None:
    """A master that has lost its newest rows gets them from its replica before it accepts writes."""

    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            await one.put([1, "kept"])
            await equal([one, other])
            saved = one.copy_disk()
            await one.put([2, "lost"])
            await equal([one, other])
            await one.stop()
            one.disk = saved
            await one.start()
            assert one.keys() == [1, 2]
            assert one.node.status == "running"
            await one.put([3, "new"])
            await equal([one, other])

    asyncio.run(main())


def test_sync_state_of_the_quorum() -> None:
    async def main() -> None:
        async with cluster() as running:
            members = await running.mesh(3)
            replicaset = members[0].node.replication.replicaset
            await until(lambda: replicaset.synced == 3)
            await members[2].stop()
            await until(lambda: replicaset.synced == 2)
            assert replicaset.by_id[3].sync_state is SyncState.DISCONNECTED

    asyncio.run(main())
