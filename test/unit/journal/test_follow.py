"""Followers of the journal get every row once and in order, from files and from memory."""

from __future__ import annotations

import asyncio
import errno
import gc
import threading

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import FileStorage, Follower, MemoryStorage, XlogGapError
from box.journal import follow as follow_module
from box.journal.reader import LogReader
from box.journal.storage import AppendFile
from box.wire.entry import JournalEntry, PatientEntry
from box.wire.packet_run import rows_of
from box.wire.vclock import VClock
from test.support import until

from .helpers import key_of, replace_row, running_journal, write


async def take(follower: Follower, count: int) -> list[int]:
    """Return the keys of the next `count` rows."""
    keys: list[int] = []
    while len(keys) < count:
        keys += [key_of(row) for row in rows_of(await anext(follower))]
    return keys


def test_old_rows_from_files_then_new_ones() -> None:
    """A follower reads rows across files from any vclock, without a gap or a repetition."""

    async def scenario() -> None:
        async with running_journal(wal_max_size=250) as journal:
            for key in range(1, 8):
                await write(journal, replace_row(key, filler="f" * 50))
            follower = journal.follow(VClock({1: 3}))
            assert await take(follower, 4) == [4, 5, 6, 7]
            for key in range(8, 12):
                await write(journal, replace_row(key))
            assert await take(follower, 4) == [8, 9, 10, 11]
            assert follower.vclock == {1: 11}
            follower.close()

    asyncio.run(scenario())


def test_a_live_follower_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that has caught up gets rows from memory, and opens no file."""

    async def scenario() -> None:
        async with running_journal() as journal:
            await write(journal, replace_row(1))
            follower = journal.follow(VClock())
            assert await take(follower, 1) == [1]
            caught_up = asyncio.create_task(take(follower, 1))
            await until(lambda: follower._reader is None)
            await write(journal, replace_row(2))
            assert await caught_up == [2]
            monkeypatch.setattr(LogReader, "next_runs", None)
            for key in range(3, 30):
                await write(journal, replace_row(key))
                assert await take(follower, 1) == [key]
            follower.close()

    asyncio.run(scenario())


def test_rows_that_nobody_waits_for_come_with_those_that_follow() -> None:
    """A row that no client waits for is given to followers with the rows after it in the turn, or alone if there are
    none.
    """

    async def scenario() -> None:
        async with running_journal(inline_limit=100) as journal:
            await write(journal, replace_row(1))
            follower = journal.follow(VClock())
            assert await take(follower, 1) == [1]
            loop = asyncio.get_running_loop()

            def go_on(entry: JournalEntry) -> None:
                loop.call_soon(write, journal, replace_row(3))
                loop.call_soon(journal.flush)

            coming = asyncio.create_task(anext(follower))
            await until(lambda: bool(journal._tail._waiters))
            journal.submit(PatientEntry([replace_row(2)], go_on))
            assert [key_of(row) for row in rows_of(await coming)] == [2, 3]
            coming = asyncio.create_task(anext(follower))
            await until(lambda: bool(journal._tail._waiters))
            journal.submit(PatientEntry([replace_row(4)], lambda _: None))
            assert [key_of(row) for row in rows_of(await coming)] == [4]
            follower.close()

    asyncio.run(scenario())


def test_a_follower_never_sees_a_row_before_it_is_on_disk() -> None:
    """A follower sees no row before it is on disk: rows held by ERRINJ_WAL_DELAY come later, failed ones never."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            await write(journal, replace_row(1))
            follower = journal.follow(VClock())
            await take(follower, 1)
            errinj.set("ERRINJ_WAL_DELAY", True)
            done = write(journal, replace_row(2))
            waiting = asyncio.create_task(take(follower, 1))
            await until(lambda: not journal._thread._delay_over.is_set(), "the delay of the writer")
            assert not waiting.done()
            errinj.set("ERRINJ_WAL_WRITE", True)
            errinj.set("ERRINJ_WAL_DELAY", False)
            assert await done is not None
            errinj.set("ERRINJ_WAL_WRITE", False)
            await write(journal, replace_row(3))
            assert await waiting == [3]
            follower.close()

    asyncio.run(scenario())


class SlowSyncs(MemoryStorage):
    """A storage whose syncs wait for `may_end`, and fail if `fails` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting, self.may_end, self.fails = threading.Event(), threading.Event(), False
        self.may_end.set()

    def create(self, path: str) -> AppendFile:
        return self._slow(super().create(path))

    def append(self, path: str) -> AppendFile:
        return self._slow(super().append(path))

    def _slow(self, file: AppendFile) -> AppendFile:
        storage = self

        class File:
            path = file.path
            write, truncate, close = staticmethod(file.write), staticmethod(file.truncate), staticmethod(file.close)
            mark_pending = staticmethod(file.mark_pending)

            @staticmethod
            def sync() -> None:
                storage.is_waiting.set()
                storage.may_end.wait(20)
                if storage.fails:
                    raise OSError(errno.EIO, "Input/output error")

        return File()


def test_a_follower_that_reads_files_sees_no_row_that_is_not_synced() -> None:
    """A follower that reads files sees no row that is not synced, because its write may still fail and be cut off."""

    async def scenario() -> None:
        storage = SlowSyncs()
        async with running_journal(storage, wal_mode="fsync") as journal:
            await write(journal, replace_row(1))
        async with running_journal(storage, vclock=VClock({1: 1}), wal_mode="fsync") as journal:
            await write(journal, replace_row(2))
            storage.may_end.clear()
            storage.is_waiting.clear()
            refused = write(journal, replace_row(3))
            await until(storage.is_waiting.is_set, "the sync")
            follower = journal.follow(VClock())
            assert await take(follower, 2) == [1, 2]
            following = asyncio.create_task(take(follower, 1))
            for _ in range(50):
                await asyncio.sleep(0.001)
            storage.fails = True
            storage.may_end.set()
            assert await refused is not None
            storage.fails = False
            await write(journal, replace_row(4))
            assert await following == [4]
            follower.close()

    asyncio.run(scenario())


def test_many_followers_while_rows_are_written() -> None:
    """Followers that start at any moment see every row after their vclocks, while rows are written."""

    async def scenario() -> None:
        total = 300
        async with running_journal(FileStorage(), wal_dir=wal_dir, wal_max_size=2000) as journal:

            async def produce() -> None:
                for key in range(1, total + 1):
                    done = write(journal, replace_row(key))
                    if key % 3 == 0:
                        await done

            async def consume(start: int) -> None:
                await until(lambda: journal.vclock.signature >= start)
                follower = journal.follow(VClock({1: start}))
                assert await take(follower, total - start) == list(range(start + 1, total + 1))
                follower.close()

            await asyncio.gather(produce(), *(consume(start) for start in range(0, total, 30)))

    import tempfile

    with tempfile.TemporaryDirectory() as wal_dir:
        asyncio.run(scenario())


def test_a_slow_follower_goes_back_to_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower whose next rows have left the memory reads files, from the block that it knows."""
    monkeypatch.setattr(follow_module, "_TAIL_BATCHES", 4)

    async def scenario() -> None:
        async with running_journal(wal_max_size=300) as journal:
            follower = journal.follow(VClock())
            await write(journal, replace_row(1))
            assert await take(follower, 1) == [1]
            live = asyncio.create_task(take(follower, 1))
            await until(lambda: follower._reader is None)
            await write(journal, replace_row(2))
            assert await live == [2]
            for key in range(3, 40):
                await write(journal, replace_row(key))
            assert await take(follower, 37) == list(range(3, 40))
            follower.close()

    asyncio.run(scenario())


def test_missing_files_are_a_gap() -> None:
    """If files with the next rows are missing, a follower raises an error with both vclocks."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, wal_max_size=150) as journal:
            for key in range(1, 5):
                await write(journal, replace_row(key))
            storage.remove(f"./{0:020d}.xlog")
            follower = journal.follow(VClock())
            with pytest.raises(XlogGapError, match=r"Missing .xlog file between LSN 0 \{\} and 2 \{1: 2\}"):
                await anext(follower)
            follower.close()

    asyncio.run(scenario())


def test_stop_ends_followers() -> None:
    """When the journal stops, waiting followers end, and later calls raise."""

    async def scenario() -> None:
        async with running_journal() as journal:
            await write(journal, replace_row(1))
            first, second = journal.follow(VClock()), journal.follow(VClock())
            await take(first, 1)
            waiting = asyncio.create_task(anext(first, "ended"))
            await until(lambda: bool(journal._tail._waiters), "the wait for a row")
        assert await waiting == "ended"
        assert await anext(second, "ended") == "ended"

    asyncio.run(scenario())


def test_a_cancelled_follower_leaves_nothing_behind() -> None:
    """A cancelled follower leaves nothing behind, also while a thread reads a file for it."""

    async def scenario() -> None:
        async with running_journal() as journal:
            for key in range(100):
                await write(journal, replace_row(key))
            for _ in range(20):
                follower = journal.follow(VClock())
                task = asyncio.create_task(anext(follower))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                follower.close()
                assert await anext(follower, "ended") == "ended"

    asyncio.run(scenario())


def test_an_error_of_a_read_after_a_cancellation_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file read that fails after its follower was cancelled is not reported to the event loop's exception handler."""
    is_cancelled = threading.Event()

    def next_runs(reader: LogReader) -> None:
        is_cancelled.wait()
        raise XlogGapError(VClock({1: 1}), VClock({1: 3}))

    async def abandon(follower: Follower) -> None:
        task = asyncio.create_task(anext(follower))
        await until(lambda: follower._job is not None, "the read")
        task.cancel()
        await asyncio.wait([task])
        is_cancelled.set()
        await until(lambda: follower._job is not None and follower._job.done(), "the end of the read")
        follower.close()

    async def scenario() -> None:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        async with running_journal() as journal:
            await write(journal, replace_row(1))
            monkeypatch.setattr(LogReader, "next_runs", next_runs)
            await abandon(journal.follow(VClock()))
            gc.collect()
        assert told == []

    asyncio.run(scenario())


def test_local_rows_come_live_only() -> None:
    """Rows of local spaces come from memory only: those in files at the start are skipped, because no other instance
    needs them.
    """

    async def scenario() -> None:
        async with running_journal() as journal:
            await write(journal, replace_row(1, group_id=1))
            await write(journal, replace_row(2))
            follower = journal.follow(VClock())
            assert await take(follower, 1) == [2]
            await write(journal, replace_row(3, group_id=1))
            assert await take(follower, 1) == [3]
            follower.close()

    asyncio.run(scenario())


def test_a_file_that_cannot_be_read() -> None:
    """With ERRINJ_XLOG_READ or ERRINJ_XLOG_GARBAGE a follower fails, and the journal goes on."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            await write(journal, replace_row(1, filler="f" * 500))
            for name, value, text in (
                ("ERRINJ_XLOG_READ", 300, "failed to read './00000000000000000000.xlog' file"),
                ("ERRINJ_XLOG_GARBAGE", True, "tx checksum mismatch"),
            ):
                before = errinj.get(name)
                errinj.set(name, value)
                follower = journal.follow(VClock())
                with pytest.raises(BoxError, match=text):
                    await take(follower, 1)
                follower.close()
                errinj.set(name, before)
                follower = journal.follow(VClock())
                assert await take(follower, 1) == [1]
                follower.close()
            await write(journal, replace_row(2))

    asyncio.run(scenario())
