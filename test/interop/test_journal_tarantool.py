"""Lunabox reads log files and snapshots that Tarantool has written, and Tarantool those of Lunabox."""

from __future__ import annotations

import asyncio
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest

from box.journal import (
    FileStorage,
    Journal,
    JournalEntry,
    Recovery,
    SnapshotReader,
    SnapshotSpace,
    find_snapshots,
    write_snapshot,
)
from box.journal.reader import BlockReader
from box.journal.rows import decode_rows, encode_header
from box.journal.xlog import COMPRESS_THRESHOLD, FIXHEADER_SIZE, BlockEncoder
from box.wire.row import Row
from box.wire.vclock import VClock

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="Tarantool's executable is not installed"),
]

FILL = """
box.cfg{log = 'tarantool.log'}
local s = box.schema.space.create('s', {id = 600})
s:create_index('pk')
local l = box.schema.space.create('l', {id = 601, is_local = true})
l:create_index('pk')
for i = 1, 3 do s:replace{i, 'x'} end
box.snapshot()
box.begin() s:replace{4} s:replace{5} l:replace{1} s:delete{1} box.commit()
box.begin() l:replace{2} s:replace{6} box.commit()
s:update(2, {{'=', 2, 'y'}})
s:upsert({7, 0}, {{'+', 2, 1}})
s:replace{8, string.rep('long ', 1000)}
os.exit(0)
"""


def run_tarantool(directory: Path, script: str) -> str:
    """Run a script with Tarantool in a directory, and return its output."""
    (directory / "script.lua").write_text(script)
    done = subprocess.run(
        ["tarantool", "script.lua"], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that Tarantool has written."""
    directory = tmp_path_factory.mktemp("tarantool")
    run_tarantool(directory, FILL)
    return directory


@pytest.fixture
def directory(filled: Path, tmp_path: Path) -> Path:
    """A copy of the data directory that Tarantool has written, to be changed by the test."""
    return Path(shutil.copytree(filled, tmp_path / "copy"))


def body(row: Row) -> dict[int, Any]:
    result: dict[int, Any] = msgpack.unpackb(row.body, strict_map_key=False)
    return result


def blocks(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows and the stored bytes of each block of a log file."""
    reader = BlockReader(FileStorage(), str(path))
    reader.read_meta()
    data = path.read_bytes()
    position = reader.position
    while (rows := reader.next_block()) is not None:
        yield rows, data[position : reader.position]
        position = reader.position
    reader.close()


def test_files_of_tarantool_are_read(filled: Path) -> None:
    """Reading Tarantool's files gives the snapshot's tuples and the log's transactions with their headers."""
    storage = FileStorage(str(filled))
    snapshots = find_snapshots(storage, ".")
    assert [file.meta.version for file in snapshots] == ["0.13", "0.13"]
    tuples: dict[int, list[Any]] = {}
    with SnapshotReader(storage, snapshots[-1].path) as reader:
        for runs, _ in reader.tuples():
            for run in runs:
                tuples.setdefault(run.space_id, []).extend(map(msgpack.unpackb, run.tuples))
    assert tuples[600] == [[1, "x"], [2, "x"], [3, "x"]]
    assert ["s", 600] in [[row[2], row[0]] for row in tuples[280]]

    recovery = Recovery(storage, ".", snapshots[-1].vclock, instance_uuid=snapshots[-1].meta.instance_uuid)
    recovery.scan()
    transactions = list(recovery.transactions())
    assert [len(rows) for rows in transactions] == [4, 2, 1, 1, 1]
    assert [(row.type, row.replica_id, row.group_id) for row in transactions[0]] == [
        (3, 1, 0),
        (3, 1, 0),
        (3, 0, 1),
        (5, 1, 0),
    ]
    first = transactions[0][0].lsn
    assert [row.tsn for row in transactions[0]] == [first] * 4
    assert [row.tsn for row in transactions[1]] == [transactions[1][1].lsn] * 2
    assert [body(rows[0])[0x10] for rows in transactions] == [600, 601, 600, 600, 600]
    assert recovery.vclock == recovery.end_vclock


def test_rows_are_encoded_as_tarantool_does(filled: Path) -> None:
    """Rows and uncompressed blocks of Tarantool's log have the same bytes after they are decoded and encoded again."""
    encoder, count = BlockEncoder(), 0
    for path in sorted(filled.glob("*.xlog")):
        for rows, stored in blocks(path):
            encoded = (encode_header(row, struct.pack(">BBd", 4, 0xCB, row.tm)) + row.body for row in decode_rows(rows))
            assert b"".join(encoded) == rows
            if len(rows) < COMPRESS_THRESHOLD - FIXHEADER_SIZE:
                assert encoder.encode(rows) == stored
            count += 1
    assert count > 10


def test_tarantool_recovers_from_our_files(directory: Path) -> None:
    """Tarantool starts from its data after Lunabox has written them again as a snapshot and a log."""
    storage = FileStorage(str(directory))
    snapshot = find_snapshots(storage, ".")[-1]
    spaces: dict[int, list[bytes]] = {}
    with SnapshotReader(storage, snapshot.path) as reader:
        for runs, _ in reader.tuples():
            for run in runs:
                spaces.setdefault(run.space_id, []).extend(run.tuples)
    spaces[600] = [msgpack.packb([key, f"tuple {key}"]) for key in range(20000)]
    for path in [*directory.glob("*.snap"), *directory.glob("*.xlog")]:
        path.unlink()
    vclock, uuid = VClock({1: 70000, 0: 3}), snapshot.meta.instance_uuid
    parts = [SnapshotSpace(sid, tuples, int(sid == 601)) for sid, tuples in sorted(spaces.items())]
    write_snapshot(storage, ".", vclock, uuid, parts)
    asyncio.run(write_log(storage, vclock, uuid))
    printed = run_tarantool(
        directory,
        """
        box.cfg{log = 'tarantool.log'}
        local s = box.space.s
        print(s:count(), s:get(19999)[2], s:get(100000)[2], s:get(100001) == nil, s:get(100502)[2]:len())
        print(box.space.l:count(), box.info.vclock[1], box.info.signature)
        s:replace{1, 'written by Tarantool'}
        os.exit(0)
        """,
    )
    assert printed.split() == ["20502", "tuple", "19999", "one", "true", "3000", "1", "70505", "70509"]
    keys = []
    recovery = Recovery(storage, ".", vclock)
    recovery.scan()
    for row in recovery.rows():
        keys.append(body(row).get(0x21, [None])[0] if row.body else None)
    assert keys[-1] == 1
    assert recovery.vclock == {0: 4, 1: 70506}


async def write_log(storage: FileStorage, vclock: VClock, uuid: UUID) -> None:
    """Write log files: single rows, transactions with local rows, a compressed block, a rotation, a large tuple."""
    journal = Journal(asyncio.get_running_loop(), storage, wal_max_size=4000)
    journal.start(vclock, uuid)
    journal.instance_id = 1

    def replace(key: int, value: str, space_id: int = 600, **header: Any) -> Row:
        return Row(3, body=msgpack.packb({0x10: space_id, 0x21: [key, value]}), **header)

    async def write(*transactions: list[Row]) -> None:
        done = asyncio.get_running_loop().create_future()
        left = len(transactions)

        def complete(entry: JournalEntry) -> None:
            nonlocal left
            assert entry.error is None
            left -= 1
            if not left:
                done.set_result(None)

        for rows in transactions:
            journal.submit(JournalEntry(rows, complete))
        await done

    await write([replace(100000, "one")])
    await write([replace(7, "local", 601, group_id=1), replace(100001, "two"), Row(12)])
    await write([Row(5, body=msgpack.packb({0x10: 600, 0x11: 0, 0x20: [100001]}))])
    await write(*([replace(key, "batch")] for key in range(100002, 100502)))
    await write([replace(100502, "x" * 3000)])
    await journal.stop()


def test_tarantoolctl_cats_our_files(tmp_path: Path) -> None:
    """`tarantoolctl cat` prints every row of Lunabox's log files and snapshots."""
    if shutil.which("tarantoolctl") is None:
        pytest.skip("tarantoolctl is not installed")
    storage = FileStorage(str(tmp_path))
    asyncio.run(write_log(storage, VClock(), UUID(int=7)))
    write_snapshot(storage, ".", VClock({1: 9}), UUID(int=7), [SnapshotSpace(600, [b"\x91\x01"] * 10)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) > 2
    for name in names:
        done = subprocess.run(
            ["tarantoolctl", "cat", name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        expected = sum(len(decode_rows(rows)) for rows, _ in blocks(tmp_path / name))
        assert done.stdout.count("HEADER:") == expected
