"""Rows that a node may still remove from its log are hidden from readers of files: lunabox-cat, streams, tables."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.journal import pending_mark, storage
from box.spark.cat import rows_of
from box.spark.definitions import USER_SPACES
from box.spark.source_options import SourceOptions
from box.spark.stream.log_stream import DirectoryLog
from box.spark.stream.stream_offset import StreamOffset
from box.spark.table import Table

from .test_stream import EARLIEST, changes_between, places

Keys = list[Any]


class Reader:
    """Reads a node's directory in every way; `seen` has what each way has shown at each look."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.seen: list[list[Keys]] = []
        self._log = DirectoryLog(str(directory))
        self._since: StreamOffset | None = None
        self._streamed: Keys = []

    def look(self) -> list[Keys]:
        """Record the keys of the space in rows of files, in the stream so far, and in the table."""
        self.seen.append([self._of_files(), self._of_stream(), self._of_table()])
        return self.seen[-1]

    def _of_files(self) -> Keys:
        rows = [row for path in sorted(self.directory.glob("*.xlog")) for row in rows_of(str(path))]
        return [row.row.lsn for row in rows if row.space_id >= USER_SPACES]

    def _of_stream(self) -> Keys:
        since = self._since or self._log.begin(EARLIEST)
        until = self._log.next(since, None)
        if until != since:
            self._streamed += [lsn for _, lsn in places(changes_between(self._log, since, until))]
        self._since = until
        return list(self._streamed)

    def _of_table(self) -> Keys:
        table = Table.open(SourceOptions.of({"path": str(self.directory), "space": "s", "as_of": "latest"}))
        return list(range(table.count()))


class DiskFile(storage._DiskAppendFile):
    """A file that is read at the moments when its writer may remove rows again."""

    __slots__ = ()
    on_sync: Callable[[], None] = staticmethod(lambda: None)
    on_truncate: Callable[[], None] = staticmethod(lambda: None)
    room: int | None = None
    """Bytes that the next write may take before the disk is full; None for no limit."""

    def __init__(self, path: str, fd: int) -> None:
        super().__init__(path, fd)
        plain = self.write

        def write(data: bytes) -> int:
            room = DiskFile.room
            if room is None or not self.path.endswith(".xlog"):
                return plain(data)
            if room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            DiskFile.room = 0
            return plain(data[:room])

        self.write = write

    def sync(self) -> None:
        super().sync()
        if self.path.endswith(".xlog"):
            DiskFile.on_sync()

    def truncate(self, size: int) -> None:
        if self.path.endswith(".xlog"):
            DiskFile.on_truncate()
        super().truncate(size)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[DiskFile]:
    """The class of files that nodes use."""
    monkeypatch.setattr(storage, "_DiskAppendFile", DiskFile)
    for name, value in (("on_sync", lambda: None), ("on_truncate", lambda: None), ("room", None)):
        monkeypatch.setattr(DiskFile, name, staticmethod(value) if value else value)
    return DiskFile


async def prepared(node: Node) -> None:
    await node.eval("box.schema.space.create('s'):create_index('pk') box.snapshot() box.space.s:insert{1}")


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.xlog"))


def fail() -> None:
    raise OSError(errno.EIO, "the disk has failed")


@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_is_not_shown_before_it_is_synced(tmp_path: Path, disk: type[DiskFile], fails: bool) -> None:
    reader = Reader(tmp_path)

    async def main() -> None:
        async with Node(tmp_path, wal_mode="fsync", log_level=0) as node:
            await prepared(node)
            before = reader.look()
            assert [len(way) for way in before] == [1, 1, 1]
            during: list[list[Keys]] = []

            def look() -> None:
                during.append(reader.look())
                if fails:
                    disk.on_sync = staticmethod(lambda: None)
                    fail()

            disk.on_sync = staticmethod(look)
            with pytest.raises(BoxError, match="Failed to write to disk") if fails else nullcontext():
                await node.eval("box.space.s:insert{2}")
            assert during == [before]
            disk.on_sync = staticmethod(lambda: None)
            assert [len(way) for way in reader.look()] == ([1, 1, 1] if fails else [2, 2, 2])
            await node.eval("box.space.s:insert{3}")
            assert [len(way) for way in reader.look()] == ([2, 2, 2] if fails else [3, 3, 3])

    asyncio.run(main())
    assert reader.look()[0] == reader.look()[1]


def test_rows_that_an_injection_takes_back_are_not_shown(tmp_path: Path, disk: type[DiskFile]) -> None:
    reader = Reader(tmp_path)

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await prepared(node)
            before, during = reader.look(), []
            disk.on_truncate = staticmethod(lambda: during.append(reader.look()))
            await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await node.eval("box.space.s:insert{2}")
            await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")
            assert during == [before]
            await node.eval("box.space.s:insert{3}")
            assert [len(way) for way in reader.look()] == [2, 2, 2]

    asyncio.run(main())


def test_the_first_blocks_of_a_batch_are_not_shown_when_the_disk_is_full(tmp_path: Path, disk: type[DiskFile]) -> None:
    reader = Reader(tmp_path)

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await prepared(node)
            before, during = reader.look(), []
            disk.on_truncate = staticmethod(lambda: during.append(reader.look()))
            # Fibers write in one batch, which has several blocks; all but the last bytes fit.
            disk.room = 300_000
            failures = await node.eval(
                """
                local fiber, failed, left = require('fiber'), 0, 10
                for key = 2, 11 do
                    fiber.create(function()
                        local text = {}
                        for i = 1, 50000 do text[i] = string.char(math.random(32, 126)) end
                        if not pcall(box.space.s.insert, box.space.s, {key, table.concat(text)}) then
                            failed = failed + 1
                        end
                        left = left - 1
                    end)
                end
                while left > 0 do fiber.sleep(0.001) end
                return failed
                """
            )
            assert failures == 10
            assert during
            assert all(seen == before for seen in during)
            disk.room = None
            await node.eval("box.space.s:insert{3}")
            assert [len(way) for way in reader.look()] == [2, 2, 2]

    asyncio.run(main())


def test_a_writer_without_marks_is_found_out(
    tmp_path: Path, disk: type[DiskFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hidden rows of a writer without marks are found, as on file systems without locks and from Tarantool."""
    monkeypatch.setattr(pending_mark, "_SET", None)
    reader = Reader(tmp_path)

    async def main() -> None:
        async with Node(tmp_path, wal_mode="fsync", log_level=0) as node:
            await prepared(node)
            reader.look()

            def look() -> None:
                assert [len(way) for way in reader.look()] == [2, 2, 2]
                disk.on_sync = staticmethod(lambda: None)
                fail()

            disk.on_sync = staticmethod(look)
            with pytest.raises(BoxError):
                await node.eval("box.space.s:insert{2}")
            with pytest.raises(BoxError, match=r"\.xlog: the block at \d+ is not the one that was read there"):
                reader.look()
            await node.eval("box.space.s:insert{3}")
            with pytest.raises(BoxError, match="is not the one that was read there"):
                reader.look()

    asyncio.run(main())


NODE = """
import asyncio, errno, random, sys, time
from box import BoxError, Node
from box.journal import storage

class File(storage._DiskAppendFile):
    __slots__ = ()

    def sync(self):
        time.sleep(random.random() / 500)
        if self.path.endswith(".xlog") and random.random() < 0.3:
            raise OSError(errno.EIO, "the disk has failed")

storage._DiskAppendFile = File

async def main(directory, mode, seed):
    random.seed(seed)
    async with Node(directory, wal_mode=mode, log_level=0, wal_max_size=1 << 13) as node:
        async def go(code):
            try:
                await node.eval(code)
            except BoxError:
                pass
        for code in ("box.schema.space.create('s', {if_not_exists = true})",
                     "box.space.s:create_index('pk', {if_not_exists = true})"):
            while not await node.eval("return box.space.s ~= nil and box.space.s.index[0] ~= nil"):
                await go(code)
                await go("box.space.s:create_index('pk', {if_not_exists = true})")
        print("ready", flush=True)
        for number in range(150):
            await go(f"box.error.injection.set('ERRINJ_WAL_WRITE', {str(random.random() < 0.3).lower()})")
            await asyncio.gather(*(go(f"box.space.s:replace{{{random.randrange(50)}, {number}}}") for _ in range(3)))
        await go("box.error.injection.set('ERRINJ_WAL_WRITE', false)")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ["write", "fsync"])
def test_a_stream_beside_a_disk_that_fails_shows_what_stays(tmp_path: Path, mode: str) -> None:
    """The stream of a node whose writes and syncs often fail shows only rows that stay; the node is another process."""
    command = [sys.executable, "-c", NODE, str(tmp_path), mode, "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == b"ready\n"
        log = DirectoryLog(str(tmp_path))
        since, found = log.begin(EARLIEST), []
        is_over = False
        while True:
            until = log.next(since, None)
            if until != since:
                found += changes_between(log, since, until)
                since = until
            elif is_over:
                break
            is_over = node.poll() is not None
    assert node.returncode == 0
    expected = [
        (row.row.replica_id, row.row.lsn, row.row.tm)
        for path in logs(tmp_path)
        for row in rows_of(str(path))
        if row.space_id >= USER_SPACES
    ]
    assert len(expected) > 100
    assert [(*place, change["timestamp"].timestamp()) for place, change in zip(places(found), found, strict=True)] == [
        (replica_id, lsn, pytest.approx(tm, abs=1e-5)) for replica_id, lsn, tm in expected
    ]


# --- marks ---


def test_marks_move_and_go_with_their_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    code = """
import os, sys
from box.journal import pending_mark
fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    pending_mark.unmark_pending(fd) if line == "none\\n" else pending_mark.mark_pending(fd, int(line))
    print("done", flush=True)
"""
    command = [sys.executable, "-c", code, str(path)]
    with (
        path.open("rb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        for mark, size in (("0", 0), ("40", 40), ("60", 60), ("30", 30), ("none", 100), ("70", 70)):
            writer.stdin.write(f"{mark}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            assert pending_mark.counted_size(file.fileno()) == size
        writer.kill()
        writer.wait()
        assert pending_mark.counted_size(file.fileno()) == 100


def test_one_who_reads_does_not_hold_up_the_writer(tmp_path: Path) -> None:
    """A reader never delays the writer: a mark that cannot be set, because of others' locks, is left out."""
    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    with path.open("r+b") as other, path.open("r+b") as file:
        pending_mark.mark_pending(other.fileno(), 0)
        pending_mark.mark_pending(file.fileno(), 10)
        assert pending_mark.counted_size(file.fileno()) == 0


def test_a_standby_does_not_read_what_may_be_taken_back(tmp_path: Path) -> None:
    from box.journal.reader import BlockReader

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await prepared(node)
            path = logs(tmp_path)[-1]
            size = path.stat().st_size
            await node.eval("box.space.s:insert{2}")
            found = storage.FileStorage()
            reader = BlockReader(found, str(path), counted_only=True)
            with path.open("r+b") as writer:
                pending_mark.mark_pending(writer.fileno(), size)
                blocks = []
                while (block := reader.next_block()) is not None:
                    blocks.append(block)
                assert len(blocks) == 1
                pending_mark.unmark_pending(writer.fileno())
                assert reader.next_block() is not None
            reader.close()

    asyncio.run(main())
