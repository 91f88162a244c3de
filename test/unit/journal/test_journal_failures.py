"""The journal when a write fails, is short or is delayed, and the entries after it."""

from __future__ import annotations

import asyncio
import errno

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.journal import JournalEntry, MemoryStorage
from box.wire.row import Row
from box.wire.vclock import VClock
from test.support import until

from .faulty import FaultyStorage, failing, void
from .helpers import RecordingLog, recover, replace_row, running_journal, write


@pytest.mark.parametrize("switch", ["ERRINJ_WAL_WRITE", "ERRINJ_WAL_WRITE_DISK", "ERRINJ_WAL_ROTATE"])
@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_a_failed_write_leaves_no_trace(switch: str, inline_limit: int) -> None:
    """After a failed write its entries fail newest first, the file is as before, LSNs are reused and writing goes on."""

    async def scenario() -> None:
        storage, errinj = MemoryStorage(), ErrorInjections()
        async with running_journal(storage, errinj=errinj, inline_limit=inline_limit) as journal:
            assert await write(journal, replace_row(1)) is None
            before = storage.size("./00000000000000000000.xlog")
            errinj.set(switch, True)
            order: list[int] = []

            def complete(entry: JournalEntry) -> None:
                assert entry.error is not None
                order.append(entry.rows[0].sync)

            for number in range(3):
                journal.submit(JournalEntry([replace_row(9, sync=number)], complete))
            error = await write(journal, replace_row(9))
            assert error is not None
            await asyncio.sleep(0)
            assert (error.code, error.message) == (ErrorCode.WAL_IO, "Failed to write to disk")
            assert order == [2, 1, 0]
            assert journal.vclock == {1: 1}
            assert storage.size("./00000000000000000000.xlog") == before
            errinj.set(switch, False)
            assert await write(journal, replace_row(2)) is None
        assert recover(storage) == ([1, 2], VClock({1: 2}))

    asyncio.run(scenario())


def test_wal_io_refuses_at_once() -> None:
    """With ERRINJ_WAL_IO `submit` raises and queues nothing."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            errinj.set("ERRINJ_WAL_IO", True)
            with pytest.raises(BoxError, match="Failed to write to disk"):
                write(journal, replace_row(1))
            errinj.set("ERRINJ_WAL_IO", False)
            assert await write(journal, replace_row(1)) is None
            assert errinj.get("ERRINJ_WAL_WRITE_COUNT") == 1

    asyncio.run(scenario())


def test_everything_behind_a_failed_write_fails_too() -> None:
    """Entries submitted before a failure is known fail with it; later ones are accepted."""

    async def scenario() -> None:
        storage, errinj, log = MemoryStorage(), ErrorInjections(), RecordingLog()
        async with running_journal(storage, errinj=errinj, log=log) as journal:
            errinj.set("ERRINJ_WAL_DELAY", True)
            first = write(journal, replace_row(1))
            await asyncio.sleep(0)
            second = write(journal, replace_row(2))
            await asyncio.sleep(0)
            refused: list[BoxError] = []

            def complete(entry: JournalEntry) -> None:
                try:
                    write(journal, replace_row(4))
                except BoxError as error:
                    refused.append(error)

            journal.submit(JournalEntry([replace_row(3)], complete))
            errinj.set("ERRINJ_WAL_WRITE_DISK", True)
            errinj.set("ERRINJ_WAL_DELAY", False)
            assert await first is not None
            assert await second is not None
            errinj.set("ERRINJ_WAL_WRITE_DISK", False)
            assert [error.code for error in refused] == [ErrorCode.WAL_IO]
            assert any("Aborting transaction 0 during cascading rollback" in line for line in log.lines)
            assert await write(journal, replace_row(5)) is None
        assert recover(storage)[0] == [5]

    asyncio.run(scenario())


def test_delay_holds_the_writer_until_it_is_switched_off() -> None:
    """ERRINJ_WAL_DELAY holds the writer, so that nothing completes and nothing is on disk, until it is switched off."""

    async def scenario() -> None:
        storage, errinj = MemoryStorage(), ErrorInjections()
        async with running_journal(storage, errinj=errinj) as journal:
            errinj.set("ERRINJ_WAL_DELAY", True)
            written = write(journal, replace_row(1))
            synced = asyncio.create_task(journal.sync())
            await until(lambda: not journal._thread._delay_over.is_set(), "the delay of the writer")
            assert not written.done()
            assert not synced.done()
            assert storage.names(".") == []
            errinj.set("ERRINJ_WAL_DELAY", False)
            assert await written is None
            assert await synced == {1: 1}

    asyncio.run(scenario())


def test_delay_countdown_counts_batches() -> None:
    """ERRINJ_WAL_DELAY_COUNTDOWN lets n batches pass, then sets ERRINJ_WAL_DELAY and is disarmed."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj, inline_limit=1000) as journal:
            errinj.set("ERRINJ_WAL_DELAY_COUNTDOWN", 1)
            both = await asyncio.gather(write(journal, replace_row(1)), write(journal, replace_row(2)))
            assert list(both) == [None, None]
            assert errinj.get("ERRINJ_WAL_DELAY") is False
            held = write(journal, replace_row(3))
            await until(lambda: errinj.get("ERRINJ_WAL_DELAY"))
            assert errinj.get("ERRINJ_WAL_DELAY_COUNTDOWN") == -1
            assert not held.done()
            errinj.set("ERRINJ_WAL_DELAY", False)
            assert await held is None

    asyncio.run(scenario())


def test_a_short_write_is_continued() -> None:
    """If the system writes fewer bytes than given, the writer continues with the rest."""

    async def scenario() -> None:
        storage = FaultyStorage()
        storage.on_write = lambda data: data[:7]
        async with running_journal(storage) as journal:
            assert await write(journal, replace_row(1, filler="y" * 500)) is None
        assert recover(storage)[0] == [1]

    asyncio.run(scenario())


def test_an_error_in_the_middle_of_a_write() -> None:
    """If a write fails in the middle, the part that was written is cut off."""

    async def scenario() -> None:
        storage, log = FaultyStorage(), RecordingLog()
        async with running_journal(storage, log=log) as journal:
            assert await write(journal, replace_row(1)) is None
            parts = iter([lambda data: data[:9], failing(errno.EIO)])
            storage.on_write = lambda data: next(parts)(data)
            assert await write(journal, replace_row(2)) is not None
            storage.on_write = lambda data: data
            assert await write(journal, replace_row(3)) is None
        assert recover(storage) == ([1, 3], VClock({1: 2}))
        assert "E> failed to write to './00000000000000000000.xlog' file" in log.lines

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_a_file_that_cannot_be_cut_back_ends_all_writing(inline_limit: int) -> None:
    """A file that cannot be cut back ends all writing: the owner of the journal hears of it before the writers of the
    rows.
    """

    async def scenario() -> None:
        storage, told = FaultyStorage(), list[str]()
        async with running_journal(storage, on_broken=told.append, inline_limit=inline_limit) as journal:
            assert await write(journal, replace_row(1)) is None
            storage.on_write = failing(errno.EIO)
            storage.on_truncate = lambda: void(failing(errno.EIO)(b""))
            failed = write(journal, replace_row(2))
            behind = write(journal, replace_row(3))
            failed.add_done_callback(lambda _: told.append("completed"))
            for future in (failed, behind):
                error = await future
                assert error is not None
                assert error.type == "SystemError"
            storage.on_write = lambda data: data
            problem = "failed to truncate xlog after write error: made to fail"
            with pytest.raises(BoxError, match=problem):
                write(journal, replace_row(3))
            with pytest.raises(BoxError, match=problem):
                await journal.begin_checkpoint()
            await until(lambda: len(told) == 2)
            assert told == [problem, "completed"]
        assert recover(storage)[0] == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("broken"), OSError(errno.EIO, "made to fail")])
def test_whatever_a_write_raises_fails_only_its_batch(error: Exception, inline_limit: int) -> None:
    """Any error of a write fails its batch only and leaves nothing in the file, also if the log raises, too."""

    class RaisingLog(RecordingLog):
        def error(self, text: str) -> None:
            raise OSError(errno.ENOSPC, "no space for the log")

        crit = error

    async def scenario() -> None:
        storage = FaultyStorage()
        async with running_journal(storage, log=RaisingLog(), inline_limit=inline_limit) as journal:

            def fail(data: bytes) -> bytes:
                raise error

            assert await write(journal, replace_row(1)) is None
            storage.on_write = fail
            failure = await write(journal, replace_row(2))
            assert failure is not None
            assert failure.code == ErrorCode.WAL_IO
            storage.on_write = lambda data: data
            assert await write(journal, replace_row(3)) is None
            assert await journal.sync() == {1: 2}
        assert recover(storage)[0] == [1, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_a_checkpoint_whose_views_hold_what_is_undone_is_refused(inline_limit: int) -> None:
    """A checkpoint is refused if a write fails after its views of memory were made; the next one succeeds."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj, inline_limit=inline_limit) as journal:
            assert await write(journal, replace_row(1)) is None
            errinj.set("ERRINJ_WAL_WRITE", True)
            failed = write(journal, replace_row(2))
            with pytest.raises(BoxError, match="Can't start a checkpoint while in cascading rollback"):
                await journal.begin_checkpoint()
            assert await failed is not None
            failed = write(journal, replace_row(2))
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await journal.sync()
            assert await failed is not None
            errinj.set("ERRINJ_WAL_WRITE", False)
            await journal.pass_writer()
            assert (await journal.begin_checkpoint()).vclock == {1: 1}

    asyncio.run(scenario())


def test_a_full_disk_takes_the_oldest_files() -> None:
    """A full disk removes the oldest files that the newest checkpoint does not need, and tells the collector."""

    async def scenario() -> None:
        storage = FaultyStorage()
        told: list[VClock] = []
        async with running_journal(storage, on_files_removed=told.append) as journal:
            for key in range(3):
                await write(journal, replace_row(key))
                start = await journal.begin_checkpoint()
            await journal.commit_checkpoint(start)
            await write(journal, replace_row(3))

            def full(data: bytes) -> bytes:
                if len(storage.names(".")) > 3:
                    failing(errno.ENOSPC)(data)
                return data

            storage.on_write = full
            assert await write(journal, replace_row(4)) is None
            assert sorted(storage.names(".")) == [f"{n:020d}.xlog" for n in (1, 2, 3)]
            assert told == [{1: 1}]
            storage.on_write = failing(errno.ENOSPC)
            assert await write(journal, replace_row(5)) is not None
            assert storage.names(".") == ["00000000000000000003.xlog"]
            storage.on_write = lambda data: data

    asyncio.run(scenario())


def test_fallocate_injection() -> None:
    """ERRINJ_WAL_FALLOCATE lets the disk be full so many times; without old files the write fails."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            await write(journal, replace_row(1))
            errinj.set("ERRINJ_WAL_FALLOCATE", 1)
            assert await write(journal, replace_row(2)) is not None
            assert errinj.get("ERRINJ_WAL_FALLOCATE") == 0
            assert await write(journal, replace_row(2)) is None

    asyncio.run(scenario())


def test_partial_and_break_lsn_injections() -> None:
    """ERRINJ_WAL_WRITE_PARTIAL fails blocks over its size; ERRINJ_WAL_BREAK_LSN repeats an LSN."""

    async def scenario() -> None:
        storage, errinj = MemoryStorage(), ErrorInjections()
        async with running_journal(storage, errinj=errinj) as journal:
            errinj.set("ERRINJ_WAL_WRITE_PARTIAL", 500)
            assert await write(journal, replace_row(1)) is None
            assert await write(journal, replace_row(2, filler="z" * 500)) is not None
            errinj.set("ERRINJ_WAL_WRITE_PARTIAL", -1)
            errinj.set("ERRINJ_WAL_BREAK_LSN", 2)
            broken = replace_row(3)
            assert await write(journal, broken) is None
            assert broken.lsn == 1

    asyncio.run(scenario())


def test_a_foreign_row_with_a_broken_lsn_fails() -> None:
    """A row of another instance whose LSN does not advance fails with an error, and the journal goes on."""

    async def scenario() -> None:
        log = RecordingLog()
        async with running_journal(log=log, vclock=VClock({2: 5})) as journal:
            assert await write(journal, replace_row(1, replica_id=2, lsn=5)) is not None
            assert any("Attempt to write a broken LSN to WAL: replica id: 2" in line for line in log.lines)
            assert await write(journal, replace_row(1, replica_id=2, lsn=6)) is None

    asyncio.run(scenario())


def test_a_row_that_cannot_be_encoded_fails_alone() -> None:
    """A row that cannot be encoded fails its batch, and the writer thread goes on."""

    async def scenario() -> None:
        async with running_journal() as journal:
            assert await write(journal, Row(3, flags="no")) is not None  # type: ignore[arg-type]
            assert await write(journal, replace_row(1)) is None

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_a_completion_that_writes_while_the_journal_stops_is_refused(inline_limit: int) -> None:
    """A completion callback that writes while the journal stops is refused, because the file is being closed."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, inline_limit=inline_limit) as journal:
            errors: list[BoxError] = []

            def complete(_entry: JournalEntry) -> None:
                with pytest.raises(BoxError) as caught:
                    write(journal, replace_row(2))
                errors.append(caught.value)

            journal.submit(JournalEntry([replace_row(1)], complete))
            await journal.stop()
            assert [error.code for error in errors] == [ErrorCode.WAL_IO]
        assert recover(storage) == ([1], VClock({1: 1}))

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_what_a_completion_sends_off_completes_behind_its_own_batch(inline_limit: int) -> None:
    async def scenario() -> None:
        order: list[str] = []
        async with running_journal(inline_limit=inline_limit) as journal:

            def complete(_entry: JournalEntry) -> None:
                order.append("first")
                journal.submit(JournalEntry([replace_row(3)], lambda _entry: order.append("third")))
                checkpoint = journal.begin_checkpoint()
                checkpoint.send(None)  # a checkpoint that begins at once, as Lua's do
                checkpoint.close()

            journal.submit(JournalEntry([replace_row(1)], complete))
            journal.submit(JournalEntry([replace_row(2)], lambda _entry: order.append("second")))
            await until(lambda: len(order) == 3)
        assert order == ["first", "second", "third"]

    asyncio.run(scenario())
