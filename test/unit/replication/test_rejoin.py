"""A replica whose master has removed log files that it needs joins anew, unless that would lose its own rows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from box.errors import BoxError, ErrorCode
from box.wire.packet_run import PacketRun
from box.wire.vclock import VClock
from test.support import until

from .cluster import Cluster, Member, cluster, equal

LOCAL = 600
"""The id of a local space."""


async def _leave_behind(running: Cluster) -> tuple[Member, Member]:
    """Start a pair whose master has removed rows that its replica lacks."""
    master, replica = await running.pair()
    await until(lambda: replica.follows(master))
    await replica.stop()
    await master.restart(checkpoint_count=1, wal_cleanup_delay=0)
    for key in range(4):
        await master.put([key, "x"])
        await master.node.checkpoints.make()
    await until(lambda: master.node.checkpoints.collector.vclock[1] > 2)
    return master, replica


async def _rows_after(member: Member, vclock: VClock) -> list[PacketRun]:
    """Return the rows that a replica with a vclock would get, up to an error."""
    async with aclosing(member.node.journal.follow(vclock)) as follower:
        return [run async for runs in follower for run in runs]


def test_rejoin_when_the_master_has_removed_the_rows() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await _leave_behind(running)
            await replica.start()
            assert "replica is too old, initiating rebootstrap" in replica.log
            await equal([master, replica])
            assert replica.id == 2
            await master.put([10, "x"])
            await equal([master, replica])
            await replica.restart()
            await equal([master, replica])

    asyncio.run(main())


def test_old_files_go_with_the_old_snapshot() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await _leave_behind(running)
            await replica.start(checkpoint_count=1, wal_cleanup_delay=0)
            await equal([master, replica])
            newest = f"{replica.node.state.vclock.signature:020}.snap"

            def files() -> list[str]:
                return [name for name in replica.disk.names(".") if name.endswith((".xlog", ".snap"))]

            await until(lambda: files() == [newest])

    asyncio.run(main())


def test_no_rejoin_with_rows_that_the_master_lacks() -> None:
    """A replica with rows that the master lacks does not join anew, because that would lose them; it keeps retrying."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            await replica.put([100, "mine"])
            await replica.stop()
            await master.restart(checkpoint_count=1, wal_cleanup_delay=0)
            for key in range(4):
                await master.put([key, "x"])
                await master.node.checkpoints.make()
            await until(lambda: master.node.checkpoints.collector.vclock[1] > 2)
            await replica.start(replication_sync_timeout=0.3)
            assert "replica has local rows" in replica.log
            applier = replica.only_applier()
            await until(lambda: applier.error is not None)
            assert applier.error is not None
            assert applier.error.code == ErrorCode.XLOG_GAP
            assert applier.error.message.startswith("Missing .xlog file between LSN")
            assert replica.node.status == "orphan"
            assert replica.keys() == [100]

    asyncio.run(main())


def test_no_rejoin_with_rows_of_local_spaces() -> None:
    """A replica with rows of local spaces does not join anew; it follows the master as soon as that has the rows."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await master.make_space(LOCAL, "own", group_id=1)
            await until(lambda: replica.follows(master))
            await equal([master, replica])
            await replica.put([1, "mine"], space=LOCAL)
            await replica.stop()
            await master.restart(checkpoint_count=1, wal_cleanup_delay=0)
            for key in range(4):
                await master.put([key, "x"])
                await master.node.checkpoints.make()
            await until(lambda: master.node.checkpoints.collector.vclock[1] > 4)
            for _ in range(3):
                await replica.restart(replication_sync_timeout=0.3)
                assert "initiating rebootstrap" not in replica.log
                assert "replica has local rows: local {0: 1, 1: " in replica.log
                assert (replica.keys(LOCAL), replica.node.state.vclock[0]) == ([1], 1)
                applier = replica.only_applier()
                await until(lambda applier=applier: applier.error is not None)
                assert applier.error is not None
                assert applier.error.code == ErrorCode.XLOG_GAP
                await replica.node.checkpoints.make()

    asyncio.run(main())


@pytest.mark.parametrize("restarts", [False, True])
def test_rows_that_only_a_join_has_brought_are_not_passed_over(restarts: bool) -> None:
    """Rows of a third instance that only a join has brought are not skipped.

    That instance got the rows before and after them, so its files seemed complete. It gets the missing rows from an
    instance that has them, or joins anew.
    """

    async def main() -> None:
        async with cluster() as running:
            master, replica = await _leave_behind(running)
            third = await running.member("third").start(master, replication_connect_quorum=1)
            await equal([master, third])
            position = third.node.state.vclock.copy()
            await third.stop()
            await master.put([20, "x"])
            await replica.start()
            assert "initiating rebootstrap" in replica.log
            if restarts:
                await replica.restart()
            await master.put([21, "x"])
            await equal([master, replica])
            await third.start(replica, replication_sync_timeout=0.3)
            assert "initiating rebootstrap" in third.log
            await equal([master, third])
            assert not position.covers(replica.node.checkpoints.collector.vclock, ignore_zero=True)
            with pytest.raises(BoxError, match=r"Missing \.xlog file between LSN"):
                await _rows_after(replica, position)

    asyncio.run(main())
