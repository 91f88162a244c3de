"""Checks a node on a full disk: writes are refused completely, acknowledged rows stay, and freed space is used."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from box.data.codec import unpack
from box.embed import LuaInstance
from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.journal.storage import AppendFile, MemoryStorage
from lua.runtime import Runtime


class _LimitedFile:
    """A file that writes what fits on the disk, and raises ENOSPC when nothing does."""

    def __init__(self, storage: FullDisk, file: AppendFile) -> None:
        self._storage = storage
        self._file = file
        self.path = file.path

    def write(self, data: bytes) -> int:
        fitting = data[: self._storage.space]
        if data and not fitting:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._file.write(fitting)
        self._storage.space -= written
        return written

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()

    def mark_pending(self, start: int | None) -> None:
        self._file.mark_pending(start)

    def close(self) -> None:
        self._file.close()


class FullDisk(MemoryStorage):
    """A disk in memory with room for `space` more bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.space = 1 << 30

    def create(self, path: str) -> AppendFile:
        return _LimitedFile(self, super().create(path))

    def append(self, path: str) -> AppendFile:
        return _LimitedFile(self, super().append(path))


async def lua(runtime: Runtime, node: Instance, source: str) -> list[object]:
    values: list[object] = unpack(await runtime.eval(source.encode(), b"\x90", node.new_context()))
    return values


@asynccontextmanager
async def running(disk: MemoryStorage, **options: object) -> AsyncIterator[LuaInstance]:
    instance = LuaInstance(node=Instance(disk=disk))
    try:
        await instance.configure({"log_level": 5, **options})
        yield instance
    finally:
        await instance.stop()


CREATE = "box.schema.space.create('t'):create_index('pk')"
KEYS = "local k = {} for _, t in box.space.t:pairs() do k[#k + 1] = t[1] end return k"


async def keys(instance: LuaInstance) -> object:
    (found,) = await lua(instance.runtime, instance.node, KEYS)
    return found


@pytest.mark.parametrize("space", [0, 1, 10, 60])
def test_a_write_on_a_full_disk_is_refused_whole(space: int) -> None:
    """A write without room raises WAL_IO and leaves no row, also after a restart; the next one with room succeeds."""

    async def run() -> None:
        disk = FullDisk()
        async with running(disk) as instance:
            await lua(instance.runtime, instance.node, CREATE)
            await lua(instance.runtime, instance.node, "box.space.t:insert{1, ('a'):rep(50)}")
            disk.space = space
            for source in ("box.space.t:insert{2, ('b'):rep(50)}", "box.space.t:replace{1, ('c'):rep(50)}"):
                with pytest.raises(BoxError) as caught:
                    await lua(instance.runtime, instance.node, source)
                assert (caught.value.code, caught.value.message) == (ErrorCode.WAL_IO, "Failed to write to disk")
            assert await keys(instance) == [1]
            disk.space = 1 << 30
            await lua(instance.runtime, instance.node, "box.space.t:insert{3}")
            assert await keys(instance) == [1, 3]
        async with running(disk) as instance:
            assert await keys(instance) == [1, 3]

    asyncio.run(run())


def test_many_writes_at_once_on_a_full_disk() -> None:
    """Of concurrent writes those that fit succeed and the others fail; a restart finds the same rows."""

    async def run() -> None:
        disk = FullDisk()
        async with running(disk) as instance:
            await lua(instance.runtime, instance.node, CREATE)
            disk.space = 700
            (acknowledged,) = await lua(
                instance.runtime,
                instance.node,
                """
                local fiber, done, workers = require('fiber'), {}, {}
                for i = 1, 20 do
                    workers[i] = fiber.new(function()
                        if pcall(box.space.t.insert, box.space.t, {i, ('x'):rep(40)}) then done[#done + 1] = i end
                    end)
                    workers[i]:set_joinable(true)
                end
                for _, worker in ipairs(workers) do worker:join() end
                table.sort(done)
                return done
                """,
            )
            assert isinstance(acknowledged, list)
            assert len(acknowledged) < 20
            assert await keys(instance) == acknowledged
            disk.space = 1 << 30
            await lua(instance.runtime, instance.node, "box.space.t:insert{100}")
        async with running(disk) as instance:
            assert await keys(instance) == [*acknowledged, 100]

    asyncio.run(run())


def test_no_space_for_a_snapshot() -> None:
    """A snapshot without room fails and leaves no file; writes and later snapshots succeed."""

    async def run() -> None:
        disk = FullDisk()
        async with running(disk) as instance:
            await lua(instance.runtime, instance.node, CREATE)
            await lua(instance.runtime, instance.node, "box.space.t:insert{1}")
            # Enough for the header of the new log file, too little for the snapshot.
            disk.space = 1000
            with pytest.raises(BoxError, match=r"No space left|failed to write|Failed to write"):
                await instance.node.checkpoints.make()
            assert not [name for name in disk.names(".") if name.endswith(".inprogress")]
            disk.space = 1 << 30
            await lua(instance.runtime, instance.node, "box.space.t:insert{2}")
            await instance.node.checkpoints.make()
            await lua(instance.runtime, instance.node, "box.space.t:insert{3}")
        async with running(disk) as instance:
            assert await keys(instance) == [1, 2, 3]

    asyncio.run(run())


def test_no_space_for_a_new_log_file() -> None:
    """A write that cannot rotate the log fails with WAL_IO; the next write rotates it."""

    async def run() -> None:
        disk = FullDisk()
        async with running(disk, wal_max_size=400) as instance:
            await lua(instance.runtime, instance.node, CREATE)
            acknowledged = []
            for i in range(1, 30):
                disk.space = 30 if i % 3 == 0 else 1 << 20
                try:
                    await lua(instance.runtime, instance.node, f"box.space.t:insert{{{i}, ('x'):rep(60)}}")
                    acknowledged.append(i)
                except BoxError as error:
                    assert error.code == ErrorCode.WAL_IO  # noqa: PT017
            disk.space = 1 << 30
            assert await keys(instance) == acknowledged == [i for i in range(1, 30) if i % 3]
        async with running(disk) as instance:
            assert await keys(instance) == acknowledged

    asyncio.run(run())
