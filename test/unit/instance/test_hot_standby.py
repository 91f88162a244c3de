"""Hot standby: an instance follows the directory of a running one, and takes over when that ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.journal.storage import FileStorage, MemoryStorage, Storage
from box.schema.ids import SpaceId
from box.txn.pending import completed
from box.wire.change import Request
from test.support import until

SPACE = 512


async def put(node: Instance, *rows: list[Any], space: int = SPACE) -> None:
    ctx = node.new_context()
    node.txns.begin(ctx)
    for row in rows:
        node.dml.write(ctx, node.schema.space(space), Request.replace(pack(row)))
    await completed(node.txns.commit(ctx))


def rows(node: Instance, index: int = 0) -> list[Any]:
    if SPACE not in node.schema.spaces or index not in node.schema.space(SPACE).indexes:
        return []
    ctx = node.new_context()
    return [unpack(raw) for raw in node.dml.reads.select(ctx, node.schema.space(SPACE), index, 2, 0, 2**32 - 1, [])]


async def founded(disk: Storage, **options: Any) -> Instance:
    node = Instance(disk=disk)
    await node.configure(options)
    await put(node, [SPACE, 1, "test", "memtx", 0, {}, []], space=SpaceId.SPACE)
    await put(node, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]], space=SpaceId.INDEX)
    return node


class Standby:
    """A second instance on the same disk; its start returns when it has taken over."""

    def __init__(self, disk: Storage, **options: Any) -> None:
        self.node = Instance(disk=disk)
        self.start = asyncio.ensure_future(self.node.configure({"hot_standby": True} | options))

    async def stands_by(self) -> None:
        await until(lambda: self.node.status == "hot_standby" or self.start.done())
        assert not self.start.done(), self.start

    async def close(self) -> None:
        await self.node.close()
        await asyncio.gather(self.start, return_exceptions=True)


@pytest.fixture(params=["memory", "files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else FileStorage(str(tmp_path))


def test_it_follows_and_takes_over(disk: Storage) -> None:
    """A standby gets data, DDL and vclock while the other instance runs, and is writable after it."""

    async def main() -> None:
        master = await founded(disk)
        await put(master, [1, "before"])
        standby = Standby(disk)
        await standby.stands_by()
        node = standby.node
        assert (node.mode.is_read_only, rows(node)) == (True, [[1, "before"]])
        await put(master, [2, "b"], [3, "a"])
        await put(master, [SPACE, 1, "sk", "tree", {"unique": True}, [[1, "string"]]], space=SpaceId.INDEX)
        await until(lambda: rows(node, 1) == [[3, "a"], [2, "b"], [1, "before"]])
        assert node.state.vclock == master.state.vclock
        with pytest.raises(BoxError, match="read-only"):
            await put(node, [9])
        await put(master, [4, "last"])
        await master.close()
        await standby.start
        assert (node.status, node.state.instance_uuid) == ("running", master.state.instance_uuid)
        assert [row[0] for row in rows(node)] == [1, 2, 3, 4]
        await put(node, [5, "own"])
        await standby.close()
        again = Instance(disk=disk)
        await again.configure({})
        assert [row[0] for row in rows(again)] == [1, 2, 3, 4, 5]
        await again.close()

    asyncio.run(main())


def test_it_follows_over_files_and_snapshots(disk: Storage) -> None:
    """A standby follows across log files, snapshots and the removal of old files."""

    async def main() -> None:
        master = await founded(disk, wal_max_size=1000, checkpoint_count=1)
        standby = Standby(disk, wal_dir_rescan_delay=60)
        await standby.stands_by()
        for start in range(0, 300, 10):
            await put(master, *([key, "x" * 30] for key in range(start, start + 10)))
            if start == 150:
                await until(lambda: len(rows(standby.node)) == 160)
                await master.checkpoints.make()
        await until(lambda: len(rows(standby.node)) == 300)
        await master.close()
        await standby.start
        await put(standby.node, [1000, "own"])
        await standby.node.checkpoints.make()
        assert len(rows(standby.node)) == 301
        await standby.close()

    asyncio.run(main())


def test_without_the_option_the_directory_is_refused(disk: Storage) -> None:
    """A directory in use is refused without the option, and with it if there is no snapshot."""

    async def main() -> None:
        master = await founded(disk)
        second = Instance(disk=disk)
        with pytest.raises(BoxError) as caught:
            await second.configure({})
        assert caught.value.code == ErrorCode.ALREADY_RUNNING
        assert caught.value.message == "Failed to lock WAL directory . and hot_standby mode is off"
        await second.close()
        await master.close()
        empty = MemoryStorage()
        lock = empty.lock(".")
        assert lock is not None
        third = Instance(disk=empty)
        with pytest.raises(BoxError, match="hot_standby mode is off"):
            await third.configure({"hot_standby": True})
        lock.release()
        await third.close()

    asyncio.run(main())


def test_alone_the_option_changes_nothing(disk: Storage) -> None:
    async def main() -> None:
        node = await founded(disk, hot_standby=True)
        assert node.status == "running"
        with pytest.raises(BoxError, match="Can't set option 'hot_standby' dynamically"):
            await node.configure({"hot_standby": False})
        await node.close()

    asyncio.run(main())


def test_a_standby_can_be_ended(disk: Storage) -> None:
    """A standby that is stopped leaves everything as it was."""

    async def main() -> None:
        master = await founded(disk)
        standby = Standby(disk)
        await standby.stands_by()
        await standby.close()
        assert standby.start.exception() is not None
        await put(master, [1, "on"])
        await master.close()
        again = Instance(disk=disk)
        await again.configure({})
        assert rows(again) == [[1, "on"]]
        await again.close()

    asyncio.run(main())


def test_one_of_two_takes_over(disk: Storage) -> None:
    """Of two standbys one takes over, and the other is the next one."""

    async def main() -> None:
        master = await founded(disk)
        pair = [Standby(disk), Standby(disk)]
        for standby in pair:
            await standby.stands_by()
        await put(master, [1, "first"])
        await master.close()
        await until(lambda: any(standby.start.done() for standby in pair))
        (winner,) = (standby for standby in pair if standby.start.done())
        (other,) = (standby for standby in pair if standby is not winner)
        await put(winner.node, [2, "second"])
        await until(lambda: len(rows(other.node)) == 2)
        assert other.node.status == "hot_standby"
        await winner.close()
        await other.start
        await put(other.node, [3, "third"])
        assert len(rows(other.node)) == 3
        await other.close()

    asyncio.run(main())
