"""The journal: the tx thread submits transactions, the wal thread writes them, many with one `write`.

```
tx thread    submit, submit, ...  | end of the loop's round: the entries so far are one message
wal thread                        | takes all messages there are, assigns lsns, encodes, writes, syncs
tx thread                         | one call for them all: vclock, followers, then every entry's `on_complete`
```

A failed write rolls back everything that was submitted after it too, because it may have seen what is undone now:

```
NORMAL --(write fails)--> ROLLBACK: the wal thread writes nothing, `submit` raises WAL_IO
   ^                         |  every entry submitted has come back
   |                         |  turns that make their undo ready (`prepare_rollback`)
   +-------------------------+  entries completed with WAL_IO, newest first

any ----(the file cannot be cut back)--> BROKEN: `on_broken` is told first, then entries complete with SystemError
```

Rows that a broken file may hold are not reported as refused, because the next start may find them in the file.

With `inline_limit` the tx thread writes a small batch itself while the wal thread is idle: waking a thread takes 40 us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error, system_error, unsupported
from box.journal.directory import LogDirectory, Logger, LogKind, SilentLog
from box.journal.follow import Follower, Runs, Tail
from box.journal.reader import LogPosition, LogReader
from box.journal.round import Round
from box.journal.rows import assign_lsn
from box.journal.slow_writes import SlowWrites
from box.journal.storage import Storage
from box.journal.threads import SystemThreads, Threads
from box.journal.wal import DEFAULT_MAX_SIZE, DEFAULT_QUEUE_SIZE, CheckpointStart, FinishedBatch, WalWriter, Written
from box.journal.wal_modes import WAL_MODES
from box.journal.wal_thread import WalThread
from box.waiters import Waiters
from box.wire.entry import JournalEntry
from box.wire.vclock import VClock

_T = TypeVar("_T")

_SLOW_WRITE: Final = 0.001
"""If the tx thread's own writes take longer than this on average, in seconds, it leaves them to the wal thread."""
_ENCODING: Final = 0.00001
"""The approximate time for encoding a row, in seconds; it does not count as time of the `write`."""
_RUN_ROWS: Final = 4
"""The number of rows of a run that take as much time as one other row."""
_SLOW_PAUSE: Final = 1.0
"""Seconds for which the tx thread leaves all writes to the wal thread, after writes of its own were slow."""
_AVERAGED: Final = 16
"""The number of writes over which their cost is averaged."""
_READERS: Final = 4
"""The number of threads that read files and sync finished ones."""
_NO_THRESHOLD: Final = 10**18  # no log reaches it


class Journal:
    """The write-ahead log of one node. All methods are for the tx thread.

    Before `start`, and with `wal_mode` none, entries complete inside `submit`. Before `start` (recovery, bootstrap)
    they get no lsn. `instance_id` marks local rows and may be set at any time. `vclock` is that of the last written
    row; it is always the same object.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        *,
        threads: Threads | None = None,
        wal_dir: str = ".",
        wal_mode: str = "write",
        wal_max_size: int = DEFAULT_MAX_SIZE,
        queue_max_size: int = DEFAULT_QUEUE_SIZE,
        inline_limit: int = 0,
        fiber_round: Round | None = None,
        errinj: ErrorInjections | None = None,
        log: Logger | None = None,
        on_checkpoint_threshold: Callable[[], None] = lambda: None,
        on_files_removed: Callable[[VClock], None] = lambda vclock: None,
        on_broken: Callable[[str], None] = lambda reason: None,
    ) -> None:
        assert wal_mode in WAL_MODES
        self.vclock = VClock()
        self.wal_mode = wal_mode
        self.is_void = False
        """True if rows only move the vclock and are written nowhere; see `pass_rows`."""
        self.wal_dir = wal_dir
        self.queue_max_size = queue_max_size
        self.queue_size = 0
        self.checkpoint_threshold = _NO_THRESHOLD
        self.on_checkpoint_threshold = on_checkpoint_threshold
        self.on_files_removed = on_files_removed
        self.on_broken = on_broken
        self.inline_limit = inline_limit if wal_mode == "write" else 0
        self._loop = loop
        self._storage = storage
        self._log = log or SilentLog()
        self._errinj = errinj or ErrorInjections()
        self._values = self._errinj.values
        self._round = fiber_round or Round()
        self._instance_uuid: UUID | None = None
        self._instance_id = 0
        self._threads = threads or SystemThreads()
        self._clock = self._threads.clock
        self._tail = Tail(self._clock, self._make_packets)
        self._executor = self._threads.pool(_READERS, "journal")
        self._writer = WalWriter(
            LogDirectory(storage, wal_dir, LogKind.XLOG, force_recovery=True, log=self._log),
            errinj=self._errinj,
            log=self._log,
            fsync=wal_mode == "fsync",
            max_size=wal_max_size,
            defer=self._executor.submit,
            on_files_removed=self._files_removed,
        )
        self._started = False
        self._pending: list[JournalEntry] = []
        self._pending_rows = 0
        self._last: JournalEntry | None = None
        self._rollback: list[JournalEntry] = []
        self._rollback_count = 0
        self.prepare_rollback: Callable[[list[JournalEntry]], Iterator[None]] = lambda entries: iter(())
        """Prepares the undo of entries, oldest first, before they complete; a step takes one turn's share of time."""
        self._preparation: Iterator[None] | None = None
        self.interruption: Exception | None = None  # see `Held`
        self._problem: str | None = None
        """The text of the error after which nothing can be written any more, or None."""
        self._busy = 0
        self.slow_writes = SlowWrites(self._log)
        self._inline_after = 0.0
        self._last_cost = 0.0
        self._inline_cost = 0.0
        self._threshold_reached = False
        self._space_waiters, self._has_space_waiters = Waiters(), False
        self._stopping = False
        self._thread = WalThread(
            loop, self._threads, self._writer, self._errinj, self._log, complete=self._complete, show=self._show
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    @property
    def instance_id(self) -> int:
        """The replica id of local rows; 0 for an anonymous replica."""
        return self._instance_id

    @instance_id.setter
    def instance_id(self, value: int) -> None:
        self._instance_id = self._writer.rows.instance_id = value

    def start(
        self, vclock: VClock, instance_uuid: UUID, *, is_provisional: bool = False, begins_anew: bool = False
    ) -> None:
        """Start to write, after `vclock`.

        `is_provisional`: until the first checkpoint there is nothing to recover from, so the log alone is not a valid
        start. `begins_anew`: the existing files end before `vclock`.

        Raises:
            BoxSystemError: the directory is missing or unreadable.
        """
        self.vclock.clear()
        self.vclock.update(vclock)
        self._instance_uuid = instance_uuid
        if self.wal_mode != "none":
            self._writer.directory.instance_uuid = instance_uuid
            self._writer.is_provisional = is_provisional
            self._writer.begins_anew = begins_anew
            self._writer.open(vclock)
            self._thread.start()
        else:
            self.is_void = True
        self._started = True

    async def stop(self) -> None:
        """Write all submitted entries, finish the file, and end the thread and the followers. It is safe to call this
        again, even during another call: an abandoned start and the node's end may both stop the journal.
        """
        self._tail.close()
        self._stopping = True  # set before the last batch is written, because its completions may try to write
        self._prepare()
        self.flush()
        self.is_void = False
        await self._thread.stop()
        self._executor.shutdown(wait=True)

    # --- writing, tx side ---------------------------------------------------------------------------------------------

    def submit(self, entry: JournalEntry) -> None:
        """Queue one transaction; `entry.on_complete` is called later.

        Raises:
            ClientError: WAL_IO, it cannot be written, for instance during the rollback after a failed write.
            LuajitError: a finalizer of Lua tries to write.
        """
        if self._errinj.is_armed and self._values["ERRINJ_WAL_IO"]:
            raise client_error(ErrorCode.WAL_IO)
        if self._stopping:
            raise self._refusal()
        if not self._thread.is_running:
            self._complete_at_once(entry)
            return
        fiber_round = self._round
        if fiber_round.may_not_wait is not None and fiber_round.may_not_wait():
            raise BoxError(ErrorCode.PROC_LUA, "a finalizer must not wait", type="LuajitError")
        if self._rollback:
            self._log.error(f"Aborting transaction {self.vclock.signature} during cascading rollback")
            raise client_error(ErrorCode.WAL_IO)
        self._values["ERRINJ_WAL_WRITE_COUNT"] += 1
        body = entry.body
        if body is not None:
            entry.size = len(body)
            self._pending_rows += 1
        else:
            self._pending_rows += _weigh(entry)
        self.queue_size += entry.size
        self._last = entry
        pending = self._pending
        if not pending:
            if fiber_round.is_held:
                fiber_round.journal = self
            else:
                self._loop.call_soon(self.flush)
        pending.append(entry)

    def _refusal(self) -> BoxError:
        return client_error(ErrorCode.WAL_IO) if self._problem is None else system_error(self._problem)

    def pass_rows(self, count: int) -> None:
        """Count local rows of replicated spaces as written, as `submit` would in a void journal, which keeps none.

        Raises:
            ClientError: WAL_IO.
        """
        if self._errinj.is_armed and self._values["ERRINJ_WAL_IO"]:
            raise client_error(ErrorCode.WAL_IO)
        self.vclock[self._instance_id] += count

    def _complete_at_once(self, entry: JournalEntry) -> None:
        if self._started:
            assign_lsn(entry.rows, self.vclock, self._instance_id)
            now = self._storage.now()
            for row in entry.rows:
                row.tm = now
        entry.on_complete(entry)

    def flush(self) -> bool:
        """Hand the submitted entries over to the writer. Returns True if they are complete already.

        While the wal thread is idle its writer may run here. Writes that take long on average disable that for a while.
        """
        batch = self._pending
        if not batch:
            return False
        rows, self._pending, self._pending_rows = self._pending_rows, [], 0
        start = self._clock()
        is_delayed = self._errinj.is_armed and self._thread.is_delayed()
        if self._busy or rows > self.inline_limit or start < self._inline_after or is_delayed:
            self._busy += 1
            self.slow_writes.hand_over(start)
            self._thread.put(batch)
            return False
        self._busy = 1
        result = self._thread.write(batch, 1)
        end = self._clock()
        # One long write tells little about the disk: the system may have run other processes meanwhile.
        cost, self._last_cost = min(taken := end - start - rows * _ENCODING, self._last_cost), taken
        self._inline_cost += (cost - self._inline_cost) / _AVERAGED
        if self._inline_cost > _SLOW_WRITE:
            self._inline_after, self._inline_cost = end + _SLOW_PAUSE, 0.0
        self._handle_finished(result, end - start)
        return True

    def completes_at_once(self, rows: int = 1) -> bool:
        """Return True if an entry of so many rows, submitted and flushed now as the only one, completes immediately."""
        if self.is_void:
            return True
        if self._busy or self._pending or rows > self.inline_limit or self._rollback or self._errinj.is_armed:
            return False
        return self._clock() >= self._inline_after

    @property
    def unexpected_failure(self) -> Exception | None:
        """The exception that ended the last failed write; None if the failure was an error of the log itself."""
        return self._thread.unexpected

    @property
    def takes_runs(self) -> bool:
        return self._thread.is_running

    def flush_later(self) -> None:
        self._loop.call_soon(self.flush)

    def _complete(self, batch: FinishedBatch) -> None:
        """Handle a batch that the thread has written, or has failed to write."""
        self._handle_finished(batch, self.slow_writes.come_back(batch.messages, self._clock()))

    def _handle_finished(self, batch: FinishedBatch, seconds: float) -> None:
        """Complete what is written, and, once everything is back, roll back the rest."""
        written = batch.written
        if written is None:
            self._busy -= batch.messages
            self._rollback += batch.entries
            if batch.problem is not None and self._problem is None:
                self._break(batch.problem)
        else:
            entries, runs = batch.entries, written.runs
            wake = self._wake_followers_later if runs and len(entries) == 1 and not entries[0].is_urgent else None
            self._tail.append(written, self.vclock.copy() if runs else self.vclock, wake)
            self.vclock.update(written.vclock)
            if seconds > self.slow_writes.threshold:
                self.slow_writes.tell(entries, self.vclock.signature, seconds, self._clock())
            self._finish(entries)
            # Only after the completions, so that what they submit is written behind this batch.
            self._busy -= batch.messages
            if self._writer.checkpoint_size > self.checkpoint_threshold:
                self._reach_threshold()
        if self._rollback and self._rollback[-1] is self._last and self._preparation is None:
            self._preparation = self.prepare_rollback(self._rollback)
            self._prepare()

    def _wake_followers_later(self) -> None:
        """Wake followers in the next turn, in which resumed tasks write more: both leave together."""
        self._loop.call_soon(self._tail.wake)

    def _prepare(self) -> None:
        """Take one step to prepare the rollback, then roll back. A journal that stops skips the preparation."""
        if self._preparation is None:
            return
        for _ in () if self._stopping else self._preparation:
            self._loop.call_soon(self._prepare)
            return
        self._preparation = None
        self._roll_back()

    def _break(self, problem: str) -> None:
        """Stop the node before anyone learns of rows that may or may not be in the file."""
        self._problem = problem
        self._stopping = True
        self._thread.end_delays()
        try:
            self.on_broken(problem)
        except Exception as error:
            self._loop.call_exception_handler({"message": "the broken journal's owner failed", "exception": error})

    def _roll_back(self) -> None:
        self._rollback_count += 1
        rollback = self._rollback[::-1]
        for entry in rollback:
            entry.error = self._refusal()
        self._finish(rollback)
        self._rollback = []
        if not self._busy:
            self._thread.is_in_rollback = False
            return
        # Batches on their way to the wal thread were made while the undone changes were in memory, so that they must be
        # refused, too. The end of the rollback is therefore sent the same way, behind them.
        self._busy += 1
        self._thread.put(self._end_rollback)

    def _finish(self, entries: list[JournalEntry]) -> None:
        if len(entries) > 1 and entries[-1].complete_together is not None and entries[-1].error is None:
            for kind, group in groupby(entries, type):
                self._finish_group(kind, list(group))
        else:
            self._finish_group(JournalEntry, entries)
        if self._has_space_waiters and self.queue_size < self.queue_max_size:
            self._has_space_waiters = False
            self._space_waiters.wake()

    def _finish_group(self, kind: type[JournalEntry], entries: list[JournalEntry]) -> None:
        if kind.complete_together is not None:
            self.queue_size -= sum([entry.size for entry in entries])
            try:
                kind.complete_together(entries)
            except Exception as error:
                self._report(error)
            return
        for entry in entries:
            self.queue_size -= entry.size
            try:
                entry.on_complete(entry)
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        if asyncio._get_running_loop() is None:
            self.interruption = error
        self._loop.call_exception_handler({"message": "journal entry completion failed", "exception": error})

    async def wait_for_space(self) -> None:
        """Wait until less than `queue_max_size` bytes are queued (`wal_queue_max_size`, for appliers)."""
        while self.queue_size >= self.queue_max_size:
            self._has_space_waiters = True
            await self._space_waiters.next()

    def _reach_threshold(self) -> None:
        if not self._threshold_reached:
            self._threshold_reached = True
            self.on_checkpoint_threshold()

    def _show(self, written: Written) -> None:
        """Give followers the rows at once; they drop the copy that `_complete` gives them later."""
        self._tail.append(written, self.vclock.copy() if written.runs else self.vclock)

    def _make_packets(self, is_followed: bool) -> None:
        self._writer.rows.makes_packets = is_followed

    def _request_is_back(self) -> None:
        self._busy -= 1

    def _end_rollback(self) -> None:
        """Accept writes again, in the wal thread, and report that to the tx thread."""
        self._thread.is_in_rollback = False
        self._thread.tell(self._request_is_back)

    # --- requests to the wal thread -----------------------------------------------------------------------------------

    async def _ask(
        self, call: Callable[[], _T], note: Callable[[], None] = lambda: None, *, is_delayed: bool = False
    ) -> _T:
        """Run `call` in the wal thread, after everything submitted so far.

        With `is_delayed` the result is known only when ERRINJ_WAL_DELAY is off. On success `note` is called after the
        completion of everything submitted before and ahead of anything later; a task that awaits the result is resumed
        only after some of the later completions.

        Raises:
            ClientError: WAL_IO, the thread is ending.
        """
        if self._stopping:
            raise self._refusal()
        self.flush()
        answer: asyncio.Future[_T] = self._loop.create_future()
        self._busy += 1

        def respond(settle: Callable[[], None]) -> None:
            self._busy -= 1
            if not answer.cancelled():
                settle()

        def succeed(result: _T) -> None:
            try:
                note()
            except Exception as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        def run() -> None:
            thread = self._thread
            try:
                settle = partial(succeed, call())
            except Exception as error:
                thread.tell(respond, partial(answer.set_exception, error))
                return
            if is_delayed:
                thread.delay(partial(thread.tell, respond, settle))
            else:
                thread.tell(respond, settle)

        self._thread.put(run)
        return await answer

    async def sync(self, note: Callable[[], None] = lambda: None) -> VClock:
        """Wait until everything submitted so far is written. Returns the vclock at that point.

        `note` is called at the moment when the effects of exactly these rows are visible.

        Raises:
            ClientError: WAL_IO, some of it was rolled back, so what the caller saw in memory may be undone.
        """
        if self._values["ERRINJ_WAL_SYNC"]:
            raise client_error(ErrorCode.INJECTION, "wal sync")
        if not self._thread.is_running:
            note()
            return self.vclock.copy()
        if self._rollback:
            raise client_error(ErrorCode.WAL_IO)

        def call() -> VClock:
            self._refuse_in_rollback(ErrorCode.WAL_IO)
            return self._writer.vclock.copy()

        return await self._ask_unless_undone(call, ErrorCode.WAL_IO, note)

    async def _ask_unless_undone(
        self, call: Callable[[], _T], code: int, note: Callable[[], None], *, is_delayed: bool = False
    ) -> _T:
        """Run `call` in the wal thread, and raise `code` if anything was rolled back since the call of this method.

        The check is needed because a batch may be written, and fail, before the call reaches the thread.
        """
        count = self._rollback_count
        answer = await self._ask(call, note, is_delayed=is_delayed)
        if self._rollback_count != count:
            raise client_error(code)
        return answer

    async def pass_writer(self) -> None:
        """Wait until the wal thread has handled everything submitted so far, successfully or not."""
        if self._thread.is_running and not self._stopping:
            await self._ask(lambda: None)

    async def begin_checkpoint(self, note: Callable[[], None] = lambda: None) -> CheckpointStart:
        """Finish the current file. The vclock of the result covers everything submitted before the call.

        `note` is called at the moment when the effects of exactly these rows are visible.

        Raises:
            ClientError: CHECKPOINT_ROLLBACK, memory may hold changes that are about to be undone.
        """
        if not self._thread.is_running:
            note()
            return CheckpointStart(self.vclock.copy(), 0)
        if self._rollback:
            raise client_error(ErrorCode.CHECKPOINT_ROLLBACK)

        def call() -> CheckpointStart:
            self._refuse_in_rollback(ErrorCode.CHECKPOINT_ROLLBACK)
            return self._writer.begin_checkpoint()

        return await self._ask_unless_undone(call, ErrorCode.CHECKPOINT_ROLLBACK, note, is_delayed=True)

    async def commit_checkpoint(self, start: CheckpointStart) -> None:
        """Note that the snapshot of `start` is on disk."""
        if self._thread.is_running and not self._stopping:
            await self._ask(lambda: self._writer.commit_checkpoint(start))
        self._threshold_reached = False

    async def collect_garbage(self, vclock: VClock) -> None:
        """Remove files without rows later than `vclock`."""
        if self._thread.is_running and not self._stopping:
            await self._ask(lambda: self._writer.collect_garbage(vclock))

    def _refuse_in_rollback(self, code: int) -> None:
        if self._thread.is_in_rollback:
            raise client_error(code)

    def _files_removed(self, vclock: VClock) -> None:
        self._thread.tell(self._tell_files_removed, vclock)

    def _tell_files_removed(self, vclock: VClock) -> None:
        self.on_files_removed(vclock)

    # --- reading ------------------------------------------------------------------------------------------------------

    def follow(self, vclock: VClock) -> Follower:
        """Follow all rows later than `vclock`, present and future: an asynchronous iterator of lists of packets.

        Rows of local spaces that are on disk already are skipped.

        Raises:
            UnsupportedError: `wal_mode` is none.
        """
        if self.wal_mode == "none":
            raise unsupported("Replication", "wal_mode = 'none'")
        start = vclock.copy()
        start.reset(0, self.vclock[0])
        return Follower(self._tail, start, self._open_reader, self._in_thread, self.vclock, self._writer.has_file)

    def _open_reader(self, vclock: VClock, position: LogPosition | None) -> LogReader:
        uuid, index = self._instance_uuid, self._writer.index
        directory = LogDirectory(self._storage, self.wal_dir, LogKind.XLOG, instance_uuid=uuid, log=self._log)
        return LogReader(directory, vclock, position=position, index=index, limit=self.vclock, errinj=self._errinj)

    def _in_thread(self, call: Callable[[], Runs | None]) -> asyncio.Future[Runs | None]:
        return self._loop.run_in_executor(self._executor, call)

    async def in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Run a blocking call of the journal (to write a snapshot, to remove a file) in one of its threads.

        Raises:
            ClientError: WAL_IO, the journal is stopping.
        """
        if self._stopping:
            raise self._refusal()
        return await self._loop.run_in_executor(self._executor, call, *arguments)


def _weigh(entry: JournalEntry) -> int:
    """Return the number of rows that an entry costs the writer, and set its size if it is unknown."""
    if entry.run is not None:
        return len(entry.run) // _RUN_ROWS + 1
    rows = entry.rows
    if not entry.size:
        entry.size = sum([len(row.body) for row in rows])
    return len(rows)
