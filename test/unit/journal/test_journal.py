"""The journal as the tx thread sees it: order, batches, rotation, modes, stop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import Journal, JournalEntry, MemoryStorage
from box.journal.storage import AppendFile
from box.wire.vclock import VClock
from test.support import until

from .faulty import FaultyStorage
from .helpers import UUID_1, recover, replace_row, running_journal, write


def test_rows_get_their_place_and_are_on_disk() -> None:
    """A completed row has replica id, LSN and time, and recovery finds it."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, vclock=VClock({1: 5})) as journal:
            row = replace_row(1)
            assert await write(journal, row) is None
            assert (row.replica_id, row.lsn, row.tsn, row.is_commit) == (1, 6, 6, True)
            assert row.tm > 0
            assert journal.vclock == {1: 6}
        assert recover(storage, VClock({1: 5})) == ([1], VClock({1: 6}))

    asyncio.run(scenario())


def test_the_file_is_made_by_the_first_write() -> None:
    """The first write makes the file, named after the vclock before it; a stop leaves an empty file named after the
    last row.
    """

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, vclock=VClock({1: 5, 2: 2})) as journal:
            assert storage.names(".") == []
            await write(journal, replace_row(1))
            assert storage.names(".") == ["00000000000000000007.xlog"]
        assert sorted(storage.names(".")) == ["00000000000000000007.xlog", "00000000000000000008.xlog"]

    asyncio.run(scenario())


def test_an_empty_file_is_continued() -> None:
    """A start after a stop writes into the empty file that the stop has left, and adds none without writes."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage) as journal:
            await write(journal, replace_row(1))
        for _ in range(2):
            async with running_journal(storage, vclock=VClock({1: 1})):
                pass
        async with running_journal(storage, vclock=VClock({1: 1})) as journal:
            await write(journal, replace_row(2))
        assert sorted(storage.names(".")) == [f"{n:020d}.xlog" for n in (0, 1, 2)]
        assert recover(storage) == ([1, 2], VClock({1: 2}))

    asyncio.run(scenario())


@pytest.mark.parametrize("inline_limit", [0, 1000])
def test_one_round_of_the_loop_is_one_write(inline_limit: int) -> None:
    """Entries that are submitted in one round of the loop are written together and complete in order."""

    async def scenario() -> None:
        storage = FaultyStorage()
        async with running_journal(storage, inline_limit=inline_limit) as journal:
            await write(journal, replace_row(0))
            storage.writes.clear()
            order: list[int] = []
            done = asyncio.get_running_loop().create_future()

            def complete(entry: JournalEntry) -> None:
                order.append(entry.rows[0].lsn)
                if len(order) == 100:
                    done.set_result(None)

            for key in range(100):
                journal.submit(JournalEntry([replace_row(key)], complete))
            await done
            assert order == list(range(2, 102))
            assert len(storage.writes) == 1
        assert recover(storage)[1] == {1: 101}

    asyncio.run(scenario())


def test_the_vclock_moves_before_completion() -> None:
    """A completion callback sees its own row in `journal.vclock`."""

    async def scenario() -> None:
        async with running_journal() as journal:
            seen = asyncio.get_running_loop().create_future()
            journal.submit(JournalEntry([replace_row(1)], lambda entry: seen.set_result(dict(journal.vclock))))
            assert await seen == {1: 1}

    asyncio.run(scenario())


def test_rotation_by_size() -> None:
    """A file that has reached `wal_max_size` ends, and the next one has its vclock."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, wal_max_size=250) as journal:
            for key in range(6):
                await write(journal, replace_row(key, filler="f" * 60))
        assert sorted(storage.names(".")) == [f"{n:020d}.xlog" for n in (0, 2, 4, 6)]
        assert recover(storage) == (list(range(6)), VClock({1: 6}))
        assert b"PrevVClock: {1: 2}" in storage.open("./00000000000000000004.xlog").read(0, 200)

    asyncio.run(scenario())


def test_a_checkpoint_ends_the_file() -> None:
    """A checkpoint ends the file unless it is empty, and returns the vclock of all entries submitted before."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage) as journal:
            done = write(journal, replace_row(1))
            start = await journal.begin_checkpoint()
            assert done.done()
            assert start.vclock == {1: 1}
            assert start.wal_size > 0
            assert (await journal.begin_checkpoint()).vclock == {1: 1}
            assert storage.names(".") == ["00000000000000000000.xlog"]
            await write(journal, replace_row(2))
            assert len(storage.names(".")) == 2

    asyncio.run(scenario())


def test_a_checkpoint_asked_for_before_a_failure_is_refused() -> None:
    """A checkpoint asked for before a write fails is refused, because the caller's frozen views have rows that are
    undone.
    """

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            errinj.set("ERRINJ_WAL_WRITE", True)
            failed = write(journal, replace_row(1))
            passed = threading.Event()
            blocker = asyncio.create_task(journal._ask(lambda: passed.wait(10)))
            checkpoint = asyncio.create_task(journal.begin_checkpoint())
            await asyncio.sleep(0)
            assert await failed is not None
            errinj.set("ERRINJ_WAL_WRITE", False)
            passed.set()
            await blocker
            with pytest.raises(BoxError, match="Can't start a checkpoint while in cascading rollback"):
                await checkpoint
            assert await write(journal, replace_row(2)) is None

    asyncio.run(scenario())


def test_what_a_checkpoint_covers_can_be_noted() -> None:
    """A checkpoint's callback runs after the completions of earlier rows, before those of later ones and before the
    caller.
    """

    async def scenario() -> None:
        seen: list[str] = []
        async with running_journal() as journal:
            before = write(journal, replace_row(1))
            before.add_done_callback(lambda _: seen.append("before"))
            notes = [lambda: seen.append("checkpoint"), lambda: seen.append("sync")]
            asked = [
                asyncio.create_task(journal.begin_checkpoint(notes[0])),
                asyncio.create_task(journal.sync(notes[1])),
            ]
            await asyncio.sleep(0)
            behind = write(journal, replace_row(2))
            behind.add_done_callback(lambda _: seen.append("behind"))
            assert await behind is None
            assert [(await asked[0]).vclock, await asked[1]] == [{1: 1}, {1: 1}]
        assert sorted(seen) == ["before", "behind", "checkpoint", "sync"]
        assert seen.index("checkpoint") < seen.index("sync") < seen.index("behind")

    asyncio.run(scenario())


def test_an_error_of_what_is_to_be_noted_is_the_answer() -> None:
    async def scenario() -> None:
        async with running_journal() as journal:
            assert await write(journal, replace_row(1)) is None
            for ask in (journal.begin_checkpoint, journal.sync):
                with pytest.raises(ZeroDivisionError):
                    await ask(lambda: divmod(1, 0))  # type: ignore[arg-type, return-value]
            assert await write(journal, replace_row(2)) is None

    asyncio.run(scenario())


def test_the_checkpoint_threshold_is_reported_once() -> None:
    """The threshold of checkpoints is reported once until the next checkpoint is committed."""

    async def scenario() -> None:
        calls: list[int] = []
        async with running_journal(on_checkpoint_threshold=lambda: calls.append(1)) as journal:
            journal.checkpoint_threshold = 200
            for key in range(9):
                await write(journal, replace_row(key))
            assert len(calls) == 1
            await journal.commit_checkpoint(await journal.begin_checkpoint())
            await write(journal, replace_row(10))
            assert len(calls) == 1

    asyncio.run(scenario())


def test_sync_waits_for_what_was_submitted() -> None:
    """`sync` waits for all entries submitted before, and raises an injected error."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj) as journal:
            done = write(journal, replace_row(1))
            assert await journal.sync() == {1: 1}
            assert done.done()
            errinj.set("ERRINJ_WAL_SYNC", True)
            with pytest.raises(BoxError, match="Error injection 'wal sync'"):
                await journal.sync()

    asyncio.run(scenario())


def test_mode_none() -> None:
    """With `wal_mode` none entries complete inside `submit` with LSNs, without files and thread."""

    async def scenario() -> None:
        storage, threads = MemoryStorage(), threading.active_count()
        async with running_journal(storage, wal_mode="none") as journal:
            rows = [replace_row(1), replace_row(2)]
            assert write(journal, *rows).result() is None
            assert [(row.lsn, row.tsn) for row in rows] == [(1, 1), (2, 1)]
            assert journal.vclock == await journal.sync() == (await journal.begin_checkpoint()).vclock == {1: 2}
            with pytest.raises(BoxError, match="Replication does not support wal_mode = 'none'"):
                journal.follow(VClock())
            assert threading.active_count() == threads
        assert storage.names(".") == []

    asyncio.run(scenario())


def test_before_start_entries_complete_without_lsn() -> None:
    """Before the start of the journal, in recovery and bootstrap, entries complete at once without LSNs."""

    async def scenario() -> None:
        journal = Journal(asyncio.get_running_loop(), MemoryStorage())
        row = replace_row(1)
        assert write(journal, row).result() is None
        assert (row.lsn, journal.vclock) == (0, {})
        await journal.stop()

    asyncio.run(scenario())


def test_stop_writes_what_was_submitted_and_refuses_more() -> None:
    """A stop writes what was submitted and refuses more, also while an injection holds the writer, and when it is
    repeated.
    """

    async def scenario() -> None:
        storage, errinj = MemoryStorage(), ErrorInjections()
        journal = Journal(asyncio.get_running_loop(), storage, errinj=errinj)
        journal.start(VClock(), UUID_1)
        journal.instance_id = 1
        errinj.set("ERRINJ_WAL_DELAY", True)
        done = write(journal, replace_row(1))
        threads = threading.active_count()
        await journal.stop()
        assert done.result() is None
        assert threading.active_count() == threads - 1
        with pytest.raises(BoxError, match="Failed to write to disk"):
            write(journal, replace_row(2))
        await journal.stop()
        assert recover(storage)[0] == [1]

    asyncio.run(scenario())


def test_two_stops_at_once() -> None:
    """Two concurrent stops both return when all is written, also if one is cancelled."""

    async def scenario() -> None:
        storage = FaultyStorage()
        async with running_journal(storage) as journal:
            written = asyncio.ensure_future(write(journal, replace_row(1)))
            await asyncio.sleep(0)
            impatient, *others = [asyncio.ensure_future(journal.stop()) for _ in range(3)]
            await asyncio.sleep(0)
            impatient.cancel()
            await asyncio.gather(*others)
            assert await written is None
        assert recover(storage)[1] == {1: 1}

    asyncio.run(scenario())


def test_requests_while_the_journal_stops() -> None:
    """Requests while the journal stops return at once, and do not wait for a writer that has ended."""

    async def scenario() -> None:
        storage, errinj = MemoryStorage(), ErrorInjections()
        journal = Journal(asyncio.get_running_loop(), storage, errinj=errinj)
        journal.start(VClock(), UUID_1)
        start = await journal.begin_checkpoint()
        stopping = asyncio.ensure_future(journal.stop())
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await journal.commit_checkpoint(start)
            await journal.collect_garbage(start.vclock)
            await journal.pass_writer()
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await journal.sync()
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await journal.begin_checkpoint()
        await stopping

    asyncio.run(scenario())


def test_stop_right_behind_a_batch() -> None:
    """A stop that the writer takes together with a last batch writes that batch."""

    async def scenario() -> None:
        storage, go_on = FaultyStorage(), threading.Event()

        def slow(data: bytes) -> bytes:
            assert go_on.wait(10)
            return data

        async with running_journal(storage) as journal:
            await write(journal, replace_row(1))
            storage.on_write = slow
            write(journal, replace_row(2))
            await until(lambda: journal._thread._queue.empty() and journal._busy)
            last = write(journal, replace_row(3))
            stopping = asyncio.ensure_future(journal.stop())
            await until(lambda: journal._thread._queue.qsize() == 2)
            go_on.set()
            await asyncio.wait_for(stopping, 10)
            assert last.result() is None
        assert recover(storage)[0] == [1, 2, 3]

    asyncio.run(scenario())


def test_a_callback_that_raises_does_not_harm_the_others() -> None:
    """A completion callback that raises is reported to the loop's exception handler, and the others run."""

    async def scenario() -> None:
        caught: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: caught.append(context["exception"]))
        async with running_journal() as journal:

            def fail(entry: JournalEntry) -> None:
                raise ValueError("mine")

            journal.submit(JournalEntry([replace_row(1)], fail))
            assert await write(journal, replace_row(2)) is None
        assert [str(error) for error in caught] == ["mine"]

    asyncio.run(scenario())


def test_appliers_can_wait_for_space_in_the_queue() -> None:
    """`queue_size` limits the bytes of unwritten bodies; appliers wait for room."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        async with running_journal(errinj=errinj, queue_max_size=100) as journal:
            errinj.set("ERRINJ_WAL_DELAY", True)
            done = write(journal, replace_row(1, filler="q" * 200))
            assert journal.queue_size > 200
            waiter = asyncio.create_task(journal.wait_for_space())
            await asyncio.sleep(0)
            assert not waiter.done()
            errinj.set("ERRINJ_WAL_DELAY", False)
            await waiter
            assert done.done()
            assert journal.queue_size == 0

    asyncio.run(scenario())


def test_mode_fsync_syncs_every_batch() -> None:
    """With `wal_mode` fsync the data is synced before the entries complete."""

    class SyncingStorage(MemoryStorage):
        def __init__(self) -> None:
            super().__init__()
            self.syncs = 0

        def create(self, path: str) -> AppendFile:
            file = super().create(path)

            class File:
                path = file.path
                write, truncate, close = staticmethod(file.write), staticmethod(file.truncate), staticmethod(file.close)
                mark_pending = staticmethod(file.mark_pending)

                @staticmethod
                def sync() -> None:
                    self.syncs += 1

            return File()

    async def scenario() -> None:
        storage = SyncingStorage()
        async with running_journal(storage, wal_mode="fsync", inline_limit=10) as journal:
            assert await write(journal, replace_row(1)) is None
            assert await write(journal, replace_row(2)) is None
            assert storage.syncs == 3, "what stands above the rows of a new file, and each batch"

    asyncio.run(scenario())


@pytest.mark.parametrize(("seconds", "stays"), [([0.0, 1.0, 0.0, 1.0, 0.0], True), ([0.0, 1.0, 1.0], False)])
def test_one_long_write_does_not_make_the_disk_slow(seconds: list[float], stays: bool) -> None:
    """A busy system may run other processes in the middle of a write; only two in succession tell of the disk."""

    async def scenario() -> None:
        storage, now, left = FaultyStorage(), 0.0, list(seconds)

        def slow(data: bytes) -> bytes:
            nonlocal now
            now += left.pop(0) if left else 0.0
            return data

        async with running_journal(storage, inline_limit=10) as journal:
            await write(journal, replace_row(0))  # which makes the file
            journal._clock = lambda: now
            storage.on_write = slow
            for key in range(1, len(seconds) + 1):
                assert journal.completes_at_once()
                journal.submit(JournalEntry([replace_row(key)], lambda entry: None))
                assert journal.flush()
            assert journal.completes_at_once() == stays

    asyncio.run(scenario())
