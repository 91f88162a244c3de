"""The checkpoint daemon of a node: when it makes checkpoints, and how one under way ends."""

from __future__ import annotations

import asyncio

import msgpack
import pytest

from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.journal.storage import MemoryStorage
from box.schema.ids import SpaceId
from box.wire.change import Request
from box.wire.vclock import VClock
from test.support import until

DEADLINE = 10.0
"""Seconds for an event on a busy machine."""


async def write(node: Instance, name: str) -> None:
    ctx = node.new_context()
    await node.dml.execute(ctx, node.schema.space(SpaceId.SCHEMA), Request.replace(msgpack.packb([name, "x" * 500])))


def snapshots(node: Instance) -> int:
    return len([name for name in node.disk.names(".") if name.endswith(".snap")])


def test_threshold_may_change() -> None:
    """A new `checkpoint_wal_threshold` on a running node takes effect, and the log says when it is exceeded."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        said: list[str] = []
        node.log.forward = lambda level, text: said.append(text)
        await node.configure({"log_level": 5})
        try:
            await write(node, "a")
            assert snapshots(node) == 1
            await node.configure({"checkpoint_wal_threshold": 1000})
            await write(node, "b")
            await write(node, "c")
            await until(lambda: snapshots(node) == 2)
            assert said.count("WAL threshold exceeded, triggering checkpoint") == 1
        finally:
            await node.close()

    asyncio.run(run())


def test_a_new_count_takes_effect_with_the_next_checkpoint() -> None:
    """A lower `checkpoint_count` removes no files by itself."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1})
        try:
            await write(node, "a")
            await node.checkpoints.make()
            await node.configure({"checkpoint_count": 1})
            await asyncio.sleep(0.05)
            assert snapshots(node) == 2
            await write(node, "b")
            await node.checkpoints.make()
            await until(lambda: snapshots(node) == 1)
        finally:
            await node.close()

    asyncio.run(run())


def test_new_interval_leaves_a_checkpoint_alone() -> None:
    """A checkpoint under way is finished when `checkpoint_interval` changes."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1})
        try:
            await write(node, "a")
            node.errinj.set("ERRINJ_SNAP_WRITE_DELAY", True)
            await node.configure({"checkpoint_interval": 0.001})
            await until(lambda: any(name.endswith(".snap.inprogress") for name in node.disk.names(".")))
            await node.configure({"checkpoint_interval": 1000})
            assert node.checkpoints.collector.checkpoint_is_in_progress
            node.errinj.set("ERRINJ_SNAP_WRITE_DELAY", False)
            await until(lambda: snapshots(node) == 2)
        finally:
            await node.close()

    asyncio.run(run())


def test_close_gives_up_a_checkpoint() -> None:
    """A node that closes cancels its checkpoint and leaves no partial file."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1})
        await write(node, "a")
        node.errinj.set("ERRINJ_SNAP_WRITE_DELAY", True)
        making = asyncio.create_task(node.checkpoints.make())
        await until(lambda: any(name.endswith(".snap.inprogress") for name in node.disk.names(".")))
        async with asyncio.timeout(DEADLINE):
            await node.close()
            await asyncio.gather(making, return_exceptions=True)
        assert snapshots(node) == 1
        assert not any(name.endswith(".inprogress") for name in node.disk.names("."))

    asyncio.run(run())


def test_a_rollback_during_the_rotation() -> None:
    """A rollback while the log rotates fails the checkpoint: its views have what was undone, and no later log has the
    ROLLBACK.
    """

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1})
        try:
            node.errinj.set("ERRINJ_WAL_DELAY", True)
            making = asyncio.create_task(node.checkpoints.make())
            await until(lambda: node.checkpoints.collector.checkpoint_is_in_progress)
            node.limbo.rollback_count += 1
            node.errinj.set("ERRINJ_WAL_DELAY", False)
            with pytest.raises(BoxError) as caught:
                await making
            assert caught.value.code == ErrorCode.SYNC_ROLLBACK
            assert snapshots(node) == 1
        finally:
            await node.close()

    asyncio.run(run())


def test_interval() -> None:
    """Checkpoints follow each other after `checkpoint_interval`."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1, "checkpoint_interval": 0.001, "checkpoint_count": 100})
        try:
            for count in (2, 3):
                await write(node, "a")
                await until(lambda count=count: snapshots(node) == count)  # type: ignore[misc]
        finally:
            await node.close()

    asyncio.run(run())


def test_a_checkpoint_ends_with_its_node() -> None:
    """A checkpoint ends with its node at any stage: closing its file, waiting for a synchronous transaction, not yet
    begun.
    """

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 0})
        await write(node, "a")
        node.errinj.set("ERRINJ_SNAP_COMMIT_DELAY", True)
        late = asyncio.ensure_future(node.checkpoints.make())
        await until(lambda: any(name.endswith(".inprogress") for name in node.disk.names(".")))
        await node.close()
        node.errinj.set("ERRINJ_SNAP_COMMIT_DELAY", False)
        for checkpoint in (late, node.checkpoints.make()):
            with pytest.raises(BoxError) as caught:
                await asyncio.wait_for(checkpoint, DEADLINE)
            assert caught.value.code == ErrorCode.WAL_IO

    asyncio.run(run())


def test_a_checkpoint_that_waits_for_a_quorum_ends_with_its_node() -> None:
    """A checkpoint that waits for a quorum ends with its node."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 0, "replication_synchro_quorum": 2, "replication_synchro_timeout": 1000})
        ctx = node.new_context()
        row = [512, 1, "sync", "memtx", 0, {"is_sync": True}, []]
        node.dml.write(ctx, node.schema.space(SpaceId.SPACE), Request.insert(msgpack.packb(row)))
        index = [512, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]
        node.dml.write(ctx, node.schema.space(SpaceId.INDEX), Request.insert(msgpack.packb(index)))
        node.dml.write(ctx, node.schema.space(512), Request.insert(msgpack.packb([1])))
        waiting = asyncio.ensure_future(node.checkpoints.make())
        await until(lambda: node.synchro._waiters)
        await node.close()
        with pytest.raises(BoxError, match="fiber is cancelled"):
            await asyncio.wait_for(waiting, DEADLINE)

    asyncio.run(run())


def test_a_delayed_journal_does_not_keep_its_node_from_closing() -> None:
    """A journal delayed by an injection does not keep its node from closing, though the garbage
    collector waits for it.
    """

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 0, "checkpoint_count": 1})
        await write(node, "a")
        collector = node.checkpoints.collector
        consumer = node.checkpoints.register_consumer("somebody", node.state.vclock.copy())
        await write(node, "b")
        await node.checkpoints.make()
        node.errinj.set("ERRINJ_WAL_DELAY", True)
        ctx = node.new_context()
        node.dml.write(ctx, node.schema.space(SpaceId.SCHEMA), Request.replace(msgpack.packb(["c", "d"])))
        consumer.close()
        await until(lambda: collector._task is not None and node.journal._thread._queue.qsize() == 1)
        await asyncio.wait_for(node.close(), DEADLINE)

    asyncio.run(run())


def test_a_refused_backup_keeps_no_snapshot() -> None:
    """Without a directory there is nothing to copy, and a later backup is not told of this one."""

    async def run() -> None:
        checkpoints = Instance(disk=MemoryStorage()).checkpoints
        checkpoints.collector.add_checkpoint(VClock({1: 1}))
        for _ in range(2):
            with pytest.raises(BoxError, match="Can't find snapshot"):
                checkpoints.backup_start()
        assert checkpoints.collector.checkpoints[0].references == []

    asyncio.run(run())


def test_leftovers_go_only_from_a_directory_that_is_ones_own() -> None:
    """Another instance may be writing the file."""

    async def run() -> None:
        disk = MemoryStorage()
        name = f"{1:020d}.snap.inprogress"
        disk.create(name).close()
        checkpoints = Instance(disk=disk).checkpoints
        checkpoints.scan()
        assert name in disk.names(".")
        assert checkpoints.try_lock()
        checkpoints.scan()
        assert name not in disk.names(".")

    asyncio.run(run())


def test_intervals_that_are_over_are_left_out() -> None:
    """After a pause of the process the next checkpoint is that of the next whole interval, not one for each missed."""

    async def run() -> None:
        node = Instance(disk=MemoryStorage())
        await node.configure({"log_level": 1, "checkpoint_interval": 10})
        try:
            daemon, now = node.checkpoints._daemon, asyncio.get_running_loop().time()
            daemon._due = now - 25
            daemon._skip_past()
            assert daemon._due == pytest.approx(now + 5, abs=1)
        finally:
            await node.close()

    asyncio.run(run())
