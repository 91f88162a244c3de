"""Recovery from log files: their chain, missing and damaged files, and the vclock afterwards."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import (
    FileStorage,
    Journal,
    MemoryStorage,
    Recovery,
    XlogError,
    XlogGapError,
    find_snapshots,
    group_transactions,
)
from box.journal.xlog import EOF_MARKER
from box.testing.simulation.disk import SimulatedDisk
from box.wire.vclock import VClock

from .helpers import UUID_1, RecordingLog, key_of, recover, replace_row, running_journal, write


def written(count: int = 6, *, wal_max_size: int = 250) -> MemoryStorage:
    """Write a log with keys 1 to `count`, two rows a file, and close it."""
    storage = MemoryStorage()

    async def scenario() -> None:
        async with running_journal(storage, wal_max_size=wal_max_size) as journal:
            for key in range(1, count + 1):
                await write(journal, replace_row(key, filler="f" * 60))

    asyncio.run(scenario())
    return storage


def path(signature: int) -> str:
    return f"./{signature:020d}.xlog"


def change(storage: MemoryStorage, file: str, data: bytes) -> None:
    storage.remove(file)
    storage.create(file).write(data)


def content(storage: MemoryStorage, file: str) -> bytes:
    return storage.open(file).read(0, 1 << 30)


@pytest.mark.parametrize("start", range(7))
def test_rows_after_any_vclock(start: int) -> None:
    """Recovery starts at any vclock: in the middle of a file, at its start, at its end."""
    assert recover(written(), VClock({1: start})) == (list(range(start + 1, 7)), VClock({1: 6}))


def test_scan_knows_the_ends_before_reading() -> None:
    """A scan gives `end_vclock`, of the last row, and `gc_vclock`, of the first file."""
    storage = written()
    storage.remove(path(6))
    recovery = Recovery(storage, ".", VClock({1: 1}))
    recovery.scan()
    assert (recovery.vclock, recovery.end_vclock, recovery.gc_vclock) == ({1: 1}, {1: 6}, {})


def test_an_empty_directory_and_one_older_than_the_snapshot() -> None:
    """With no files, or only older ones, recovery reads nothing and ends at the snapshot's vclock."""
    assert recover(MemoryStorage(), VClock({1: 3})) == ([], VClock({1: 3}))
    recovery = Recovery(written(), ".", VClock({1: 90}))
    recovery.scan()
    assert list(recovery.rows()) == []
    assert recovery.vclock == recovery.end_vclock == recovery.gc_vclock == {1: 90}


def test_a_missing_first_file() -> None:
    """Rows that lack between the snapshot and the oldest file are an error."""
    storage = written()
    storage.remove(path(0))
    with pytest.raises(XlogGapError, match=r"Missing .xlog file between LSN 1 \{1: 1\} and 2 \{1: 2\}") as caught:
        recover(storage, VClock({1: 1}))
    assert (caught.value.type, caught.value.name) == ("XlogGapError", "ER_XLOG_GAP")
    log = RecordingLog()
    assert recover(storage, VClock({1: 1}), force_recovery=True, log=log)[0] == [3, 4, 5, 6]
    assert "W> ignoring a gap in LSN" in log.lines


def test_a_missing_file_in_the_middle() -> None:
    """A missing file is found by the vclock of the previous file in the next one's header."""
    storage = written()
    storage.remove(path(2))
    with pytest.raises(XlogGapError, match=r"between LSN 2 \{1: 2\} and 4 \{1: 4\}"):
        recover(storage)
    assert recover(storage, force_recovery=True) == ([1, 2, 5, 6], VClock({1: 6}))


def test_a_file_that_was_not_closed() -> None:
    """A file without an end marker has good rows; the log mentions it, and the next file follows."""
    storage, log = written(), RecordingLog()
    change(storage, path(2), content(storage, path(2)).removesuffix(EOF_MARKER))
    assert recover(storage, log=log)[0] == [1, 2, 3, 4, 5, 6]
    assert f"W> file `{path(2)}` wasn't correctly closed" in log.lines
    assert f"I> done `{path(4)}'" in log.lines


def test_a_torn_last_block_costs_only_itself() -> None:
    """A last block cut at any byte loses only its own rows, and the next writer continues after them."""
    whole = written(3, wal_max_size=1 << 20)
    data = content(whole, path(0))
    start = data.rindex(b"\xd5\xba\x0b\xab")
    for size in range(start, len(data)):
        storage = MemoryStorage()
        storage.create(path(0)).write(data[:size])
        complete = size >= len(data) - len(EOF_MARKER)
        keys, vclock = recover(storage)
        assert keys == [1, 2, 3][: 2 + complete]

        async def write_on(storage: MemoryStorage = storage, vclock: VClock = vclock) -> None:
            async with running_journal(storage, vclock=vclock) as journal:
                assert await write(journal, replace_row(9)) is None

        asyncio.run(write_on())
        assert recover(storage) == ([*keys, 9], VClock({1: len(keys) + 1}))


def test_a_torn_first_block() -> None:
    """A file whose first block is torn is continued after its header."""
    data = content(written(1), path(0))
    start = data.index(b"\n\n") + 2
    for size in (start, start + 1, start + 10, start + 40):
        storage = MemoryStorage()
        storage.create(path(0)).write(data[:size])
        vclock = recover(storage)[1]
        assert vclock == {}

        async def write_on(storage: MemoryStorage = storage) -> None:
            async with running_journal(storage) as journal:
                assert await write(journal, replace_row(9)) is None

        asyncio.run(write_on())
        assert recover(storage)[0] == [9]


@pytest.mark.parametrize(
    ("begin", "lacks_rows"), [({1: 6}, False), ({1: 5}, False), ({1: 7}, True), ({1: 6, 2: 1}, True)]
)
def test_files_that_end_before_the_snapshot(begin: dict[int, int], lacks_rows: bool) -> None:
    """New rows do not continue files that end before the snapshot: a replica that needs the rows in between must see
    the gap.
    """
    storage, vclock = written(wal_max_size=1 << 20), VClock(begin)
    storage.remove(path(6))  # an empty one, as of a closed journal
    recovery = Recovery(storage, ".", vclock)
    recovery.scan()
    list(recovery.rows())
    assert recovery.lacks_rows is lacks_rows

    async def write_on() -> None:
        journal = Journal(asyncio.get_running_loop(), storage)
        journal.start(recovery.vclock, UUID_1, begins_anew=recovery.lacks_rows)
        journal.instance_id = 1
        assert await write(journal, replace_row(9)) is None
        await journal.stop()

    asyncio.run(write_on())
    again = Recovery(storage, ".", VClock({1: 1}))
    again.scan()
    assert again.gc_vclock == (vclock if lacks_rows else {})
    if lacks_rows:
        with pytest.raises(XlogGapError):
            list(again.rows())
    else:
        assert [key_of(row) for row in again.rows()] == [2, 3, 4, 5, 6, 9]


def test_a_damaged_block() -> None:
    """A damaged block is an error; with force_recovery only its rows are lost."""
    storage, log = written(wal_max_size=1 << 20), RecordingLog()
    data = bytearray(content(storage, path(0)))
    second = data.index(b"\xd5\xba\x0b\xab", data.index(b"\xd5\xba\x0b\xab") + 1)
    data[second + 30] ^= 1
    change(storage, path(0), bytes(data))
    with pytest.raises(XlogError, match="tx checksum mismatch"):
        recover(storage)
    assert recover(storage, force_recovery=True, log=log) == ([1, 3, 4, 5, 6], VClock({1: 6}))
    assert "E> can't open tx: tx checksum mismatch" in log.lines


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"VClock: {1: 2}\nPrev", b"VClock: {1: 3}\nPrev", "signature check failed"),
        (b"VClock: {1: 2}\nPrev", b"VClock: {2: 2}\nPrev", "invalid xlog order"),
        (b"XLOG", b"SNAP", "Invalid xlog type: expected XLOG, got SNAP"),
        (b"11111111-1111", b"22222222-1111", "invalid instance UUID"),
        (b"0.13", b"0.99", "unsupported file format version 0.99"),
        (b"\n\n", b"\n", "Unexpected end of file, run with 'force_recovery = true'"),
    ],
)
def test_a_file_with_wrong_meta(old: bytes, new: bytes, message: str) -> None:
    """A file with a wrong header is an error of the scan; with force_recovery it is left out, which is a gap.

    Of two files in conflict the later one is left out: here that is the good one.
    """
    storage = written()
    data = content(storage, path(2)).replace(old, new)
    change(storage, path(2), data[:100] if old == b"\n\n" else data)
    uuid = UUID("11111111-1111-1111-1111-111111111111")
    with pytest.raises(BoxError, match=message):
        recover(storage, instance_uuid=uuid)
    expected = [1, 2, 3, 4] if message == "invalid xlog order" else [1, 2, 5, 6]
    assert recover(storage, instance_uuid=uuid, force_recovery=True)[0] == expected


def test_names_that_are_no_log_files() -> None:
    """Files with other names are ignored; a log file's name that is no signature is reported."""
    storage, log = written(2), RecordingLog()
    for name in ("abc.xlog", "00000000000000000001.xlog.inprogress", "readme"):
        storage.create(f"./{name}").write(b"")
    assert recover(storage, log=log)[0] == [1, 2]
    assert log.lines[0] == "W> can't parse `abc.xlog', skipping"


def test_transactions_are_grouped() -> None:
    """Rows are grouped into transactions up to the commit flag; rows without one at the end are an error."""
    rows = [replace_row(1), replace_row(2, is_commit=False), replace_row(3), replace_row(4, is_commit=False)]
    groups = group_transactions(rows)
    assert next(groups) == rows[:1]
    assert next(groups) == rows[1:3]
    with pytest.raises(XlogError, match="found a not finished transaction in the log"):
        next(groups)


def test_a_missing_directory(tmp_path: Path) -> None:
    """A missing directory raises Tarantool's text with `errno` ENOENT."""
    storage = FileStorage(str(tmp_path))
    with pytest.raises(BoxError, match=r"^error reading directory 'nowhere'$") as caught:
        find_snapshots(storage, "nowhere")
    assert (caught.value.type, caught.value.errno) == ("SystemError", 2)
    with pytest.raises(BoxError, match="error reading directory 'nowhere'"):
        Recovery(storage, "nowhere", VClock()).scan()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_directory_without_permission(tmp_path: Path) -> None:
    """A directory without permission raises the text of a missing one with another `errno`."""
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(BoxError, match="error reading directory 'closed'") as caught:
        find_snapshots(FileStorage(str(tmp_path)), "closed")
    assert caught.value.errno == 13


def test_an_lsn_that_was_given_twice() -> None:
    """An LSN that occurs twice is an error that shows the row, even in a file that ends with greater ones."""
    storage, errinj = MemoryStorage(), ErrorInjections()

    async def scenario() -> None:
        async with running_journal(storage, errinj=errinj) as journal:
            await write(journal, replace_row(1))
            errinj.set("ERRINJ_WAL_BREAK_LSN", 2)
            await write(journal, replace_row(2))

    asyncio.run(scenario())
    storage.remove(path(2))
    with pytest.raises(BoxError) as caught:
        recover(storage)
    assert caught.value.message == (
        "LSN for 1 is used twice or COMMIT order is broken: confirmed: 1, new: 1, "
        "req: {type: 'REPLACE', replica_id: 1, lsn: 1, space_id: 512, index_id: 0, tuple: [2, \"x\"]}"
    )


@pytest.mark.parametrize("seed", range(10))
def test_recovered_rows_are_durable_before_others_follow_them(seed: int) -> None:
    """Recovered rows are synced before new ones are written.

    A killed process may leave rows in its file that are not synced. They count after the start, so a power failure must
    not remove them from the middle of the log.
    """
    disk = SimulatedDisk(lambda: 0.0, lambda: 0.0, Random(seed))
    disk.latency = (0.0, 0.0)  # the clock stands

    async def write_rows(mode: str, first: int, last: int) -> None:
        async with running_journal(disk, vclock=VClock({1: first - 1}), wal_mode=mode) as journal:
            for key in range(first, last + 1):
                await write(journal, replace_row(key))

    asyncio.run(write_rows("write", 1, 3))
    recovery = Recovery(disk, ".", VClock())
    recovery.scan()
    recovery.sync()
    asyncio.run(write_rows("fsync", 4, 5))
    disk.lose_power()
    assert recover(disk)[0] == [1, 2, 3, 4, 5]
