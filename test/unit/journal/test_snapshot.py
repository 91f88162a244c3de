"""Snapshots: what is written is read, and a half-written one does not count."""

from __future__ import annotations

import errno

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import (
    FileStorage,
    MemoryStorage,
    SnapshotReader,
    SnapshotSpace,
    SnapshotWriter,
    XlogError,
    find_snapshots,
    write_snapshot,
)
from box.journal import snapshot as snapshot_module
from box.journal.rows import insert_body_prefix
from box.journal.xlog import find_blocks
from box.wire.row import Row
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

from .helpers import UUID_1, RecordingLog

VCLOCK = VClock({1: 5})
PATH = "./00000000000000000005.snap"


def tuples_of(storage: MemoryStorage | FileStorage, path: str = PATH) -> list[tuple[int, bytes]]:
    with SnapshotReader(storage, path) as reader:
        return [(run.space_id, raw) for runs, _ in reader.tuples() for run in runs for raw in run.tuples]


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(256, 600), st.lists(st.binary(max_size=3000), max_size=20), st.booleans())),
    st.sampled_from([1, 3, 4096]),
)
def test_round_trip(spaces: list[tuple[int, list[bytes], bool]], part: int) -> None:
    """Tuples of any size, in any number of blocks, of local and other spaces, are read as they were written."""
    packed = [SnapshotSpace(sid, [msgpack.packb([v]) for v in values], int(loc)) for sid, values, loc in spaces]
    storage = MemoryStorage()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_module, "_SLICE", part)
        patch.setattr(snapshot_module, "BLOCK_SIZE", 5000)
        write_snapshot(storage, ".", VCLOCK, UUID_1, packed)
    assert tuples_of(storage) == [(space.space_id, raw) for space in packed for raw in space.tuples]
    with SnapshotReader(storage, PATH) as reader:
        rows = list(reader.rows())
    assert [row.lsn for row in rows] == list(range(len(rows)))
    assert [row.group_id for row in rows] == [space.group_id for space in packed for _ in space.tuples]


def test_a_block_is_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader can yield within a block. A block that cannot be parsed is skipped as a whole."""
    monkeypatch.setattr(snapshot_module, "_ROWS_A_STEP", 4)
    storage = MemoryStorage()
    good, broken = [msgpack.packb([number]) for number in range(10)], [b"\x91\x01"] * 9 + [b"\xc1"]
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, broken), SnapshotSpace(513, good)])
    log = RecordingLog()
    with SnapshotReader(storage, PATH, force_recovery=True, log=log) as reader:
        found = list(reader.tuples_in_steps())
    assert found == [None, None, None, None, ([TupleRun(513, good)], [])]
    assert log.lines == ["E> can't decode row: can't parse row"]


def test_lsns_of_every_width() -> None:
    """Row numbers of one to five bytes are read as they were written."""
    storage = MemoryStorage()
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"] * 70000)])
    with SnapshotReader(storage, PATH) as reader:
        assert [row.lsn for row in reader.rows()] == list(range(70000))
    data = storage.open(PATH).read(0, 1 << 30)
    assert len(list(find_blocks(data))) > 10


def test_rows_after_the_tuples() -> None:
    """The row with the raft state comes after the tuples and has the next number."""
    storage = MemoryStorage()
    raft = Row(30, body=msgpack.packb({0: 3, 1: 1}), group_id=1)
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"])], [raft])
    with SnapshotReader(storage, PATH) as reader:
        blocks = list(reader.tuples())
    assert [(row.type, row.lsn, row.body) for _, others in blocks for row in others] == [(30, 1, raft.body)]


def test_a_snapshot_appears_by_its_rename() -> None:
    """Until `commit` renames it there is only the temporary file, and `abort` removes it."""
    storage = MemoryStorage()
    writer = SnapshotWriter(storage, ".", VCLOCK, UUID_1)
    writer.write([SnapshotSpace(512, [b"\x91\x01"])])
    assert storage.names(".") == ["00000000000000000005.snap.inprogress"]
    assert find_snapshots(storage, ".") == []
    writer.abort()
    assert storage.names(".") == []
    writer.write([])
    writer.commit()
    assert [file.path for file in find_snapshots(storage, ".")] == [PATH]


def test_a_snapshot_that_exists_is_touched() -> None:
    """A snapshot of a vclock that exists is only touched, because it has the same data."""
    storage = MemoryStorage()
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"])])
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x02"])])
    assert tuples_of(storage) == [(512, b"\x91\x01")]


def test_another_file_with_the_name_of_a_snapshot_is_kept() -> None:
    """A file with a snapshot's name is kept, unless it is this instance's own snapshot without its end."""
    whole = MemoryStorage()
    write_snapshot(whole, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"])])
    data = whole.open(PATH).read(0, 1 << 20)
    for foreign in (b"", b"other", data.replace(str(UUID_1).encode(), b"8" * 8 + str(UUID_1).encode()[8:])):
        storage = MemoryStorage()
        storage.create(PATH).write(foreign)
        with pytest.raises(BoxError, match=f"file '{PATH}' already exists"):
            write_snapshot(storage, ".", VCLOCK, UUID_1, [])
        assert storage.open(PATH).read(0, 1 << 20) == foreign
    storage = MemoryStorage()
    storage.create(PATH).write(data[:-5])
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x02"])])
    assert tuples_of(storage) == [(512, b"\x91\x02")]


def test_a_snapshot_without_eof_marker_is_not_trusted() -> None:
    """A snapshot cut anywhere is an error; with force_recovery its rows up to the cut are read."""
    whole = MemoryStorage()
    write_snapshot(whole, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [msgpack.packb([n]) for n in range(20)])])
    data = whole.open(PATH).read(0, 1 << 20)
    for size in range(len(data)):
        storage = MemoryStorage()
        storage.create(PATH).write(data[:size])
        with pytest.raises(XlogError, match=r"has no EOF marker|Unexpected end of file"):
            tuples_of(storage)
    log = RecordingLog()
    with SnapshotReader(storage, PATH, force_recovery=True, log=log) as reader:
        assert sum(len(run.tuples) for runs, _ in reader.tuples() for run in runs) == 20
    assert log.lines == [f"E> snapshot `{PATH}' has no EOF marker"]


def test_damaged_blocks() -> None:
    """A damaged block is an error; with force_recovery it is logged and the others are read."""
    storage, log = MemoryStorage(), RecordingLog()
    spaces = [SnapshotSpace(512 + n, [msgpack.packb([n, "x" * 500])]) for n in range(3)]
    write_snapshot(storage, ".", VCLOCK, UUID_1, spaces)
    data = bytearray(storage.open(PATH).read(0, 1 << 20))
    (_, _), (middle, size), (_, _) = find_blocks(bytes(data))
    data[middle + size - 1] ^= 1
    storage.remove(PATH)
    storage.create(PATH).write(bytes(data))
    with pytest.raises(XlogError, match="tx checksum mismatch"):
        tuples_of(storage)
    with SnapshotReader(storage, PATH, force_recovery=True, log=log) as reader:
        assert [run.space_id for runs, _ in reader.tuples() for run in runs] == [512, 514]
    assert log.lines == ["E> can't open tx: tx checksum mismatch"]


def test_another_kind_of_file() -> None:
    """The file type in the header counts, not the file's name."""
    storage = MemoryStorage()
    write_snapshot(storage, ".", VCLOCK, UUID_1, [])
    data = storage.open(PATH).read(0, 1000).replace(b"SNAP", b"XLOG")
    storage.remove(PATH)
    storage.create(PATH).write(data)
    with pytest.raises(BoxError, match="Invalid xlog type: expected SNAP, got XLOG"):
        SnapshotReader(storage, PATH)
    with pytest.raises(BoxError, match="Invalid xlog type: expected SNAP, got XLOG"):
        find_snapshots(storage, ".")


def test_write_errors_are_system_errors() -> None:
    """An error of the system while a snapshot is written is raised, and no file stays."""

    class FullStorage(MemoryStorage):
        def create(self, path: str):  # type: ignore[no-untyped-def]
            file = super().create(path)
            written = file.write

            def write(data: bytes) -> int:
                if len(file.content) > 100:  # type: ignore[attr-defined]
                    raise OSError(errno.ENOSPC, "No space left on device")
                return written(data)

            class File:
                sync, close, truncate = file.sync, file.close, file.truncate

            result = File()
            result.path, result.write = path, write  # type: ignore[attr-defined]
            return result

    storage = FullStorage()
    with pytest.raises(BoxError, match=f"failed to write to '{PATH}.inprogress' file") as caught:
        write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"])])
    assert (caught.value.type, caught.value.errno) == ("SystemError", errno.ENOSPC)
    assert storage.names(".") == []


def test_a_snapshot_in_two_steps() -> None:
    """A snapshot that is written in two steps has its temporary file from the first on; `abort` removes it."""
    storage = MemoryStorage()
    writer = SnapshotWriter(storage, ".", VCLOCK, UUID_1)
    writer.begin()
    assert [name for name in storage.names(".") if name.endswith(".inprogress")]
    writer.write([])
    writer.commit()
    assert tuples_of(storage) == []
    another = SnapshotWriter(storage, ".", VClock({1: 100}), UUID_1)
    another.begin()
    another.abort()
    assert len(storage.names(".")) == 1


def test_rate_limit() -> None:
    """The writer sleeps as long as its bytes should take at the rate limit."""
    slept: list[float] = []
    writer = SnapshotWriter(MemoryStorage(), ".", VCLOCK, UUID_1, rate_limit=1000, sleep=slept.append)
    writer.write([SnapshotSpace(512, [msgpack.packb(["x" * 481])])])
    assert sum(slept) == pytest.approx(0.5, abs=0.1)


def test_garbage_injection() -> None:
    """With ERRINJ_XLOG_GARBAGE every block is broken; with force_recovery no tuple is left."""
    errinj, storage = ErrorInjections(), MemoryStorage()
    write_snapshot(storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, [b"\x91\x01"])])
    errinj.set("ERRINJ_XLOG_GARBAGE", True)
    with SnapshotReader(storage, PATH, errinj=errinj) as reader, pytest.raises(XlogError, match="tx checksum mismatch"):
        list(reader.rows())
    with SnapshotReader(storage, PATH, force_recovery=True, errinj=errinj) as reader:
        assert list(reader.rows()) == []


def test_rows_are_numbered_across_all_sizes_of_lsns() -> None:
    """Rows count from 0, also around the numbers from which an lsn takes more bytes."""
    tuples = [msgpack.packb([number]) for number in range(70_000)]
    storage = MemoryStorage()
    write_snapshot(
        storage, ".", VCLOCK, UUID_1, [SnapshotSpace(512, tuples[:100]), SnapshotSpace(513, tuples[100:], 1)]
    )
    with SnapshotReader(storage, PATH) as reader:
        rows = list(reader.rows())
    assert [row.lsn for row in rows] == list(range(70_000))
    first, second = insert_body_prefix(512), insert_body_prefix(513)
    assert [row.body for row in rows] == [first + raw for raw in tuples[:100]] + [second + raw for raw in tuples[100:]]
    assert [row.group_id for row in rows] == [0] * 100 + [1] * 69_900
