"""The storages in memory and on disk behave alike, and errors of the disk are raised."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from box.errors import BoxError
from box.journal import FileStorage, MemoryStorage
from box.journal.directory import LogDirectory, LogKind
from box.journal.storage import Storage, publish, write_all

from .helpers import RecordingLog, recover, replace_row, running_journal, write


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return FileStorage(str(tmp_path)) if request.param == "file" else MemoryStorage()


def test_a_file_has_a_life(storage: Storage) -> None:
    """A file can be created, written, cut, read, appended to, renamed and removed."""
    file = storage.create("d/a.tmp")
    write_all(file, b"hello world")
    file.truncate(5)
    write_all(file, b"!")
    file.sync()
    file.close()
    publish(storage, "d/a.tmp", "d/a")
    assert storage.names("d") == ["a"]
    assert storage.size("d/a") == 6
    again = storage.append("d/a")
    write_all(again, b"?")
    again.close()
    storage.touch("d/a")
    reader = storage.open("d/a")
    storage.remove("d/a")
    assert (reader.read(0, 5), reader.read(5, 10), reader.read(7, 1)) == (b"hello", b"!?", b"")
    reader.close()
    assert not storage.exists("d/a")


def test_what_is_not_there_and_what_is(storage: Storage) -> None:
    """Operations on missing and existing files raise the usual exceptions."""
    storage.create("x").close()
    with pytest.raises(FileExistsError):
        storage.create("x")
    for call in (storage.open, storage.append, storage.size, storage.remove, storage.touch):
        with pytest.raises(FileNotFoundError):
            call("y")


def test_a_directory_belongs_to_one_node(storage: Storage) -> None:
    """The lock of a directory is None for a second node until the first releases it."""
    lock = storage.lock(".")
    assert lock is not None
    assert storage.lock(".") is None
    lock.release()
    again = storage.lock(".")
    assert again is not None
    again.release()


def write_around(directory: str, path: Path, spoil: Callable[[], object], mend: Callable[[], object]) -> list[str]:
    """Write a row while the directory is spoiled and one after it is repaired; return the log."""
    log = RecordingLog()

    async def scenario() -> None:
        async with running_journal(FileStorage(str(path)), wal_dir=directory, log=log) as journal:
            spoil()
            assert await write(journal, replace_row(1)) is not None
            mend()
            assert await write(journal, replace_row(2)) is None

    asyncio.run(scenario())
    assert recover(FileStorage(str(path / directory)))[0] == [2]
    return log.lines


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_directory(tmp_path: Path) -> None:
    """In a read-only directory a write fails with WAL_IO and a logged reason, and succeeds once the directory is
    writable.
    """
    lines = write_around(".", tmp_path, lambda: tmp_path.chmod(0o500), lambda: tmp_path.chmod(0o700))
    assert "E> failed to create file './00000000000000000000.xlog.inprogress'" in lines


def test_a_file_in_the_way_of_the_directory(tmp_path: Path) -> None:
    """A file in the place of the directory is an error of the write, not a crash."""
    wal = tmp_path / "wal"
    wal.mkdir()

    def spoil() -> None:
        wal.rmdir()
        wal.write_text("in the way")

    lines = write_around("wal", tmp_path, spoil, wal.unlink)
    assert "E> failed to create file 'wal/00000000000000000000.xlog.inprogress'" in lines


def test_a_journal_in_a_missing_directory(tmp_path: Path) -> None:
    """A journal in a missing directory raises at its start."""

    async def scenario() -> None:
        with pytest.raises(BoxError, match="error reading directory 'nowhere'"):
            async with running_journal(FileStorage(str(tmp_path)), wal_dir="nowhere"):
                pass

    asyncio.run(scenario())


def test_leftovers_of_an_interrupted_writer(storage: Storage) -> None:
    """A start removes temporary files that an interrupted writer has left."""
    for name in ("1.snap.inprogress", "2.xlog.inprogress", "3.snap"):
        storage.create(name).close()
    log = RecordingLog()
    LogDirectory(storage, ".", LogKind.SNAP, log=log).remove_inprogress()
    assert sorted(storage.names(".")) == ["2.xlog.inprogress", "3.snap"]
    assert log.lines == ["I> removed ./1.snap.inprogress"]


def test_files_never_take_the_place_of_standard_error(tmp_path: Path) -> None:
    """A file never gets descriptor 0, 1 or 2 though the program has closed them, because its output would go among the
    rows.
    """
    storage = FileStorage(str(tmp_path))
    storage.create("a").close()
    kept = os.dup(2)
    os.close(2)
    try:
        opened = [storage.create("b"), storage.append("a"), storage.open("a"), storage.lock(".")]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(2, b"said to nobody")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    *files, lock = opened
    assert lock is not None
    lock.release()
    for file in files:
        file.close()  # type: ignore[union-attr]
