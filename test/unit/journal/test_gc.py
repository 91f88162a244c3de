"""Which files the garbage collector of logs keeps and removes, with checkpoints, consumers and backups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from box.errors import BoxError
from box.journal import GarbageCollector, Journal, MemoryStorage, SnapshotReader, SnapshotSpace, SnapshotWriter
from box.journal.directory import LogDirectory, LogKind, SilentLog
from box.wire.vclock import VClock
from test.support import until

from .helpers import UUID_1, RecordingLog, replace_row, running_journal, write


class Node:
    """A journal, its collector, and one space with the keys that were written."""

    def __init__(self, journal: Journal, storage: MemoryStorage) -> None:
        self.journal = journal
        self.storage = storage
        self.tuples: list[bytes] = []
        self.snapshots = LogDirectory(storage, ".", LogKind.SNAP)
        self.gc = GarbageCollector(self._remove)
        journal.on_files_removed = self.gc.files_were_removed

    async def insert(self, key: int) -> None:
        self.tuples.append(bytes((0x91, key)))
        assert await write(self.journal, replace_row(key)) is None

    async def checkpoint(self) -> VClock:
        """Make a checkpoint and remove files that are not needed."""
        space = SnapshotSpace(512, list(self.tuples))
        start = await self.journal.begin_checkpoint()
        writer = SnapshotWriter(self.storage, ".", start.vclock, UUID_1)
        await self.journal.in_thread(writer.write, [space])
        await self.journal.in_thread(writer.commit)
        await self.journal.commit_checkpoint(start)
        self.gc.add_checkpoint(start.vclock)
        await self.gc.wait()
        return start.vclock

    async def _remove(self, snapshots: VClock | None, rows: VClock | None) -> None:
        if snapshots is not None:
            self.snapshots.scan()
            self.snapshots.remove_before(snapshots.signature, SilentLog())
        if rows is not None:
            await self.journal.collect_garbage(rows)

    def files(self, extension: str) -> list[int]:
        return sorted(int(name[:20]) for name in self.storage.names(".") if name.endswith(extension))


@asynccontextmanager
async def running_node() -> AsyncIterator[Node]:
    """Run a node whose collector removes files from the start."""
    storage = MemoryStorage()
    async with running_journal(storage) as journal:
        node = Node(journal, storage)
        node.gc.start()
        try:
            yield node
        finally:
            await node.gc.stop()


def test_two_checkpoints_are_kept_and_the_wal_behind_them() -> None:
    """`checkpoint_count` snapshots stay, and the log files from the oldest of them on."""

    async def scenario() -> None:
        async with running_node() as node:
            for key in range(1, 5):
                await node.insert(key)
                assert await node.checkpoint() == {1: key}
            assert node.files(".snap") == [3, 4]
            assert node.files(".xlog") == [3]
            assert [c["signature"] for c in node.gc.info()["checkpoints"]] == [3, 4]
            with SnapshotReader(node.storage, "./00000000000000000004.snap") as reader:
                assert [run.tuples for runs, _ in reader.tuples() for run in runs] == [node.tuples]

    asyncio.run(scenario())


def test_a_checkpoint_without_new_rows_is_the_same_one() -> None:
    """A checkpoint without new rows only touches the last snapshot, and counts once."""

    async def scenario() -> None:
        async with running_node() as node:
            await node.insert(1)
            for _ in range(3):
                await node.checkpoint()
            assert node.files(".snap") == [1]
            assert len(node.gc.checkpoints) == 1

    asyncio.run(scenario())


def test_a_consumer_keeps_its_rows() -> None:
    """Files that a consumer needs go when it advances or leaves."""

    async def scenario() -> None:
        async with running_node() as node:
            gc = node.gc
            await node.insert(1)
            consumer = gc.register_consumer("replica 2", VClock())
            for key in range(2, 6):
                await node.checkpoint()
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
    """A backup keeps its snapshot and all newer files until it ends."""

    async def scenario() -> None:
        async with running_node() as node:
            for key in range(1, 3):
                await node.insert(key)
                await node.checkpoint()
            assert node.gc.backup_start(1) == {1: 1}
            with pytest.raises(BoxError, match="Backup is already in progress"):
                node.gc.backup_start()
            for key in range(3, 6):
                await node.insert(key)
                await node.checkpoint()
            assert node.files(".snap") == [1, 2, 3, 4, 5]
            assert node.gc.info()["checkpoints"][0]["references"] == ["backup"]
            node.gc.backup_stop()
            node.gc.backup_stop()
            await node.gc.wait()
            assert node.files(".snap") == [4, 5]
            with pytest.raises(BoxError, match="Can't find snapshot"):
                node.gc.backup_start(2)

    asyncio.run(scenario())


def test_paused_collection_waits_for_replicas_or_time() -> None:
    """With `wal_cleanup_delay` no file goes until every replica has subscribed or the delay is over."""

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
    """A node without replicas removes files at once, in spite of `wal_cleanup_delay`."""

    async def scenario() -> None:
        async def remove(snapshots: VClock | None, rows: VClock | None) -> None: ...

        gc = GarbageCollector(remove)
        gc.start(1000)
        assert not gc.is_paused
        await gc.stop()

    asyncio.run(scenario())


def test_a_full_disk_deactivates_consumers() -> None:
    """On a full disk consumers whose rows must be removed are deactivated."""

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
