"""Starts nodes from damaged snapshots and logs: which error they raise, and which rows `force_recovery` saves."""

from __future__ import annotations

import asyncio
import random

import msgpack
import pytest

from box.embed import LuaInstance
from box.errors import BoxError
from box.index import IteratorType
from box.instance.node import Instance
from box.journal.storage import MemoryStorage

Files = dict[str, bytes]
Written = tuple[Files, str, str]

FILL = b"""
    box.schema.space.create('t'):create_index('pk')
    for i = 1, 5 do box.space.t:insert{i, ('x'):rep(30)} end
    box.snapshot()
    for i = 6, 9 do box.space.t:insert{i, ('y'):rep(30)} end
"""
ALL = list(range(1, 10))


def disk_of(files: Files) -> MemoryStorage:
    disk = MemoryStorage()
    for path, content in files.items():
        disk.create(path).write(content)
    return disk


@pytest.fixture(scope="module")
def written() -> Written:
    """Return the files of a stopped node, the path of its newest snapshot and the path of the log after it."""

    async def run() -> Files:
        disk = MemoryStorage()
        instance = LuaInstance(node=Instance(disk=disk))
        await instance.configure({"log_level": 0})
        await instance.runtime.eval(FILL, b"\x90", instance.node.new_context())
        await instance.stop()
        return {f"./{name}": disk.open(f"./{name}").read(0, 1 << 30) for name in disk.names(".")}

    files = asyncio.run(run())
    snapshot = max(path for path in files if path.endswith(".snap"))
    return files, snapshot, snapshot.replace(".snap", ".xlog")


async def start(files: Files, *, force_recovery: bool = False) -> list[int] | str:
    """Start a node; return the keys that it finds, or the error that it raises as `type: text`."""
    node = Instance(disk=disk_of(files))
    try:
        await node.configure({"log_level": 0, "force_recovery": force_recovery})
        space = node.schema.space_by_name("t")
        rows = node.dml.reads.select(node.new_context(), space, 0, IteratorType.ALL, 0, 1000, [])
        return [msgpack.unpackb(row)[0] for row in rows]
    except BoxError as error:
        return f"{error.type}: {error.message}"
    finally:
        await node.close()


def test_a_log_cut_anywhere_keeps_the_rows_before_the_cut(written: Written) -> None:
    """A log cut inside its header is refused; one cut later gives the rows of every complete block."""

    async def run() -> None:
        files, _, log = written
        data = files[log]
        counts = []
        for size in (*range(0, len(data), 7), len(data) - 1):
            found = await start({**files, log: data[:size]})
            if isinstance(found, str):
                assert found == "XlogError: Unexpected end of file, run with 'force_recovery = true'"
                assert not counts
                assert await start({**files, log: data[:size]}, force_recovery=True) == ALL[:5]
            else:
                assert found == ALL[: len(found)]
                counts.append(len(found))
        assert counts == sorted(counts)
        assert set(counts) == {5, 6, 7, 8, 9}

    asyncio.run(run())


def test_a_damaged_block_in_the_log_is_an_error_or_is_skipped(written: Written) -> None:
    async def run() -> None:
        files, _, log = written
        data = bytearray(files[log])
        data[data.index(b"yyyy") + 80] ^= 1
        damaged = {**files, log: bytes(data)}
        assert await start(damaged) == "XlogError: tx checksum mismatch"
        saved = await start(damaged, force_recovery=True)
        assert isinstance(saved, list)
        assert len(saved) == 8
        assert set(saved) < set(ALL)

    asyncio.run(run())


def test_a_cut_snapshot_is_refused(written: Written) -> None:
    async def run() -> None:
        files, snapshot, _ = written
        for size in range(200, len(files[snapshot]) - 4, 701):
            found = await start({**files, snapshot: files[snapshot][:size]})
            assert found == f"XlogError: snapshot `{snapshot}' has no EOF marker"

    asyncio.run(run())


def test_a_snapshot_that_is_empty_gives_way_to_an_older_one(written: Written) -> None:
    """An empty snapshot is an error; with force_recovery the older snapshot and the logs give all rows."""

    async def run() -> None:
        files, snapshot, _ = written
        damaged = {**files, snapshot: b""}
        assert await start(damaged) == "XlogError: Unexpected end of file, run with 'force_recovery = true'"
        assert await start(damaged, force_recovery=True) == ALL

    asyncio.run(run())


@pytest.mark.parametrize("force_recovery", [False, True])
def test_damaged_system_spaces_are_always_an_error(written: Written, force_recovery: bool) -> None:
    """A damaged block of system spaces is never skipped: the node would go on with a part of its schema."""

    async def run() -> None:
        files, snapshot, _ = written
        data = files[snapshot]
        at = data.index(b"\xd5\xba\x0b") + 100  # into the first block, after the marker that begins it
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert await start({**files, snapshot: damaged}, force_recovery=force_recovery) == (
            "XlogError: tx checksum mismatch"
        )

    asyncio.run(run())


def test_bits_that_flip_never_give_a_wrong_row(written: Written) -> None:
    """A start from files with a flipped bit raises a BoxError or finds rows that were written."""

    async def run() -> None:
        files, snapshot, log = written
        source = random.Random(7)
        for _ in range(60):
            path = source.choice((snapshot, log))
            data = bytearray(files[path])
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
            for force_recovery in (False, True):
                found = await start({**files, path: bytes(data)}, force_recovery=force_recovery)
                assert isinstance(found, str) or set(found) <= set(ALL)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("00000000000000000099.xlog", b"", "Unexpected end of file"),
        ("00000000000000000099.xlog", b"garbage\n0.13\n\n", "Error"),
        ("00000000000000000099.snap", b"SNAP\n0.14\n\n", "unsupported file format version 0.14"),
    ],
)
def test_a_newer_file_of_garbage(written: Written, name: str, content: bytes, text: str) -> None:
    """A newer file without valid content is an error; with force_recovery all other files are read."""

    async def run() -> None:
        files, _, _ = written
        spoilt = {**files, f"./{name}": content}
        found = await start(spoilt)
        assert isinstance(found, str)
        assert text in found
        assert await start(spoilt, force_recovery=True) == ALL

    asyncio.run(run())


def test_what_a_killed_snapshot_left_is_removed(written: Written) -> None:
    async def run() -> None:
        files, snapshot, _ = written
        left = snapshot.replace("08", "77") + ".inprogress"
        node = Instance(disk=disk_of({**files, left: b"half"}))
        await node.configure({"log_level": 0})
        assert not node.disk.exists(left)
        await node.close()

    asyncio.run(run())
