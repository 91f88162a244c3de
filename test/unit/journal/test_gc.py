"""Garbage collection, backups and the making of checkpoints."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import Checkpoints, GarbageCollector, Journal, MemoryStorage, SnapshotReader, SnapshotSpace
from box.journal.checkpoint import CheckpointSchedule
from box.replication.vclock import VClock

from .helpers import UUID_1, RecordingLog, replace_row, running_journal, until, write


class Node:
    """A journal with checkpoints of one space that holds the keys written."""

    def __init__(self, journal: Journal, storage: MemoryStorage, errinj: ErrorInjections, log: RecordingLog) -> None:
        self.journal = journal
        self.storage = storage
        self.errinj = errinj
        self.log = log
        self.tuples: list[bytes] = []
        self.checkpoints = Checkpoints(
            journal,
            storage,
            directory=".",
            freeze=lambda: ([SnapshotSpace(512, list(self.tuples))], []),
            source=random.Random(1),
            errinj=errinj,
            log=log,
        )
        self.checkpoints.instance_uuid = UUID_1

    async def insert(self, key: int) -> None:
        self.tuples.append(bytes((0x91, key)))
        assert await write(self.journal, replace_row(key)) is None

    def files(self, extension: str) -> list[int]:
        return sorted(int(name[:20]) for name in self.storage.names(".") if name.endswith(extension))


@asynccontextmanager
async def running_node(*, delay: float = 0) -> AsyncIterator[Node]:
    """A started node; its daemon is off."""
    storage, errinj, log = MemoryStorage(), ErrorInjections(), RecordingLog()
    async with running_journal(storage, errinj=errinj, log=log) as journal:
        node = Node(journal, storage, errinj, log)
        node.checkpoints.start(cleanup_delay=delay)
        try:
            yield node
        finally:
            await node.checkpoints.stop()


def test_two_checkpoints_are_kept_and_the_wal_behind_them() -> None:
    """`checkpoint_count` snapshots, and the rows from the oldest of them on."""

    async def scenario() -> None:
        async with running_node() as node:
            for key in range(1, 5):
                await node.insert(key)
                assert await node.checkpoints.make() == {1: key}
            assert node.files(".snap") == [3, 4]
            assert node.files(".xlog") == [3]
            assert [c["signature"] for c in node.checkpoints.gc.info()["checkpoints"]] == [3, 4]
            with SnapshotReader(node.storage, "./00000000000000000004.snap") as reader:
                assert [run.tuples for runs, _ in reader.tuples() for run in runs] == [node.tuples]

    asyncio.run(scenario())


def test_a_checkpoint_without_new_rows_is_the_same_one() -> None:
    """It is touched and counted once."""

    async def scenario() -> None:
        async with running_node() as node:
            await node.insert(1)
            for _ in range(3):
                await node.checkpoints.make()
            assert node.files(".snap") == [1]
            assert len(node.checkpoints.gc.checkpoints) == 1

    asyncio.run(scenario())


def test_a_consumer_keeps_its_rows() -> None:
    """Files go when it advances or leaves."""

    async def scenario() -> None:
        async with running_node() as node:
            gc = node.checkpoints.gc
            await node.insert(1)
            consumer = gc.register_consumer("replica 2", VClock())
            for key in range(2, 6):
                await node.checkpoints.make()
                await node.insert(key)
            assert node.files(".xlog") == [0, 1, 2, 3, 4]
            assert gc.info()["consumers"] == [{"name": "replica 2", "vclock": {}, "signature": 0}]
            consumer.advance(VClock({1: 2}))
            await gc.wait()
            assert node.files(".xlog") == [2, 3, 4]
            consumer.close()
            consumer.close()
            await gc.wait()
            assert node.files(".xlog") == [3, 4]
            assert gc.info()["vclock"] == {1: 3}

    asyncio.run(scenario())


def test_a_backup_holds_its_snapshot() -> None:
    """And everything newer, until it ends."""

    async def scenario() -> None:
        async with running_node() as node:
            for key in range(1, 3):
                await node.insert(key)
                await node.checkpoints.make()
            assert node.checkpoints.backup_start(1) == ["./00000000000000000001.snap"]
            with pytest.raises(BoxError, match="Backup is already in progress"):
                node.checkpoints.backup_start()
            for key in range(3, 6):
                await node.insert(key)
                await node.checkpoints.make()
            assert node.files(".snap") == [1, 2, 3, 4, 5]
            assert node.checkpoints.gc.info()["checkpoints"][0]["references"] == ["backup"]
            node.checkpoints.backup_stop()
            node.checkpoints.backup_stop()
            await node.checkpoints.gc.wait()
            assert node.files(".snap") == [4, 5]
            with pytest.raises(BoxError, match="Can't find snapshot"):
                node.checkpoints.backup_start(2)

    asyncio.run(scenario())


def test_paused_collection_waits_for_replicas_or_time() -> None:
    """`wal_cleanup_delay`: nothing goes until every replica has come, or the delay is over."""

    async def scenario(by_time: bool) -> None:
        removed: list[tuple[VClock | None, VClock | None]] = []

        async def remove(snapshots: VClock | None, rows: VClock | None) -> None:
            removed.append((snapshots, rows))

        gc = GarbageCollector(remove, checkpoint_count=1)
        gc.delay_ref()
        gc.delay_ref()
        gc.start(1000)
        for signature in (1, 2):
            gc.add_checkpoint(VClock({1: signature}))
        await gc.wait()
        assert gc.is_paused
        assert removed == []
        if by_time:
            gc.set_cleanup_delay(0)
            await until(lambda: not gc.is_paused)
        else:
            gc.delay_unref()
            assert gc.is_paused
            gc.delay_unref()
            assert not gc.is_paused
        await gc.wait()
        assert removed == [({1: 2}, {1: 2})]
        await gc.stop()

    for by_time in (False, True):
        asyncio.run(scenario(by_time))


def test_nothing_to_wait_for_is_no_pause() -> None:
    """A node without replicas cleans up at once."""

    async def scenario() -> None:
        async with running_node(delay=1000) as node:
            assert not node.checkpoints.gc.is_paused

    asyncio.run(scenario())


def test_a_full_disk_deactivates_consumers() -> None:
    """Those whose rows had to go."""

    async def scenario() -> None:
        log = RecordingLog()

        async def remove(snapshots: VClock | None, rows: VClock | None) -> None: ...

        gc = GarbageCollector(remove, log=log)
        behind, ahead = gc.register_consumer("a", VClock({1: 2})), gc.register_consumer("b", VClock({1: 9}))
        gc.files_were_removed(VClock({1: 5}))
        assert (behind.inactive, ahead.inactive) == (True, False)
        assert log.lines == ["C> deactivated WAL consumer a at {1: 2}"]
        behind.advance(VClock({1: 9}))
        behind.close()
        assert gc.consumers == [ahead]

    asyncio.run(scenario())


def test_one_checkpoint_at_a_time() -> None:
    """ERRINJ_SNAP_COMMIT_DELAY holds the first before its rename; the second is refused."""

    async def scenario() -> None:
        async with running_node() as node:
            await node.insert(1)
            node.errinj.set("ERRINJ_SNAP_COMMIT_DELAY", True)
            first = asyncio.create_task(node.checkpoints.make())
            await until(lambda: node.files(".inprogress"))
            with pytest.raises(BoxError, match="Snapshot is already in progress"):
                await node.checkpoints.make()
            assert node.checkpoints.gc.info()["checkpoint_is_in_progress"]
            assert node.files(".snap") == []
            node.errinj.set("ERRINJ_SNAP_COMMIT_DELAY", False)
            await first
            assert node.files(".snap") == [1]

    asyncio.run(scenario())


def test_a_checkpoint_that_fails_leaves_nothing() -> None:
    """What `settle` raises, and a rollback in the journal."""

    async def scenario() -> None:
        async with running_node() as node:
            await node.insert(1)

            async def settle() -> None:
                raise BoxError(217, "A rollback for a synchronous transaction is received")

            node.checkpoints._settle = settle
            with pytest.raises(BoxError, match="A rollback for a synchronous transaction"):
                await node.checkpoints.make()
            assert node.files(".snap") == node.files(".inprogress") == []
            node.checkpoints._settle = None

            node.errinj.set("ERRINJ_WAL_DELAY", True)
            failed = write(node.journal, replace_row(2))
            await asyncio.sleep(0)
            node.errinj.set("ERRINJ_WAL_WRITE", True)
            checkpoint = asyncio.create_task(node.checkpoints.make())
            await asyncio.sleep(0)
            node.errinj.set("ERRINJ_WAL_DELAY", False)
            with pytest.raises(BoxError, match="Can't start a checkpoint while in cascading rollback"):
                await checkpoint
            assert await failed is not None
            node.errinj.set("ERRINJ_WAL_WRITE", False)
            assert await node.checkpoints.make() == {1: 1}

    asyncio.run(scenario())


def test_the_daemon_makes_checkpoints() -> None:
    """By interval, until it is switched off."""

    async def scenario() -> None:
        async with running_node() as node:
            await node.insert(1)
            node.checkpoints.set_interval(0.001)
            await until(lambda: node.files(".snap") == [1])
            await node.insert(2)
            await until(lambda: node.files(".snap") == [1, 2])
            node.checkpoints.set_interval(0)

    asyncio.run(scenario())


def test_a_grown_log_asks_for_a_checkpoint() -> None:
    """`checkpoint_wal_threshold`, once until the checkpoint is made."""

    async def scenario() -> None:
        async with running_node() as node:
            node.journal.checkpoint_threshold = 10
            for key in (1, 2):
                await node.insert(key)
                await until(lambda key=key: node.files(".snap") == list(range(1, key + 1)))  # type: ignore[misc]
                await until(lambda: not node.checkpoints.gc.checkpoint_is_in_progress)

    asyncio.run(scenario())


def test_schedule() -> None:
    """A random start within the second interval, then one checkpoint an interval; 0 is never."""
    schedule = CheckpointSchedule(random.Random(7))
    assert schedule.timeout(0) is None
    schedule.configure(100, 10)
    first = schedule.timeout(100)
    assert first is not None
    assert 10 <= first < 20
    due = 100 + first
    assert schedule.timeout(due) == pytest.approx(10)
    assert schedule.timeout(due + 13) == pytest.approx(7)
    schedule.reset(200)
    assert schedule.timeout(200) == 10
