"""The thread that writes the log: it takes batches of transactions from the tx thread and reports their outcome.

```
tx thread    put(batch)  put(batch) ...           write(batch): by itself, while the wal thread has nothing to do
wal thread   takes all batches there are -> one `write` of the writer -> tell(complete, the finished batch)
```

Calls use the same queue and so keep their place among the batches. After a failed write no batch is written until the
tx thread has rolled back (`is_in_rollback`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from box.errinj import JOURNAL_DELAYS, ErrorInjections
from box.journal.directory import Logger
from box.journal.threads import MessageQueue, Signal, Threads, Worker
from box.journal.wal import FinishedBatch, WalBroken, WalFailure, WalWriter, Written
from box.wire.entry import JournalEntry

Message = list[JournalEntry] | Callable[[], None]


class WalThread:
    """Runs the writer of the log in a thread.

    `complete` is called in the tx thread with each handled batch. While an injection demands it, `show` is called
    earlier with what was written. `is_running` is true between `start` and the end of `stop`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: Threads,
        writer: WalWriter,
        errinj: ErrorInjections,
        log: Logger,
        *,
        complete: Callable[[FinishedBatch], None],
        show: Callable[[Written], None],
    ) -> None:
        self.is_in_rollback = False
        """True after a failed write until the tx thread has rolled back; both threads read and set it."""
        self.is_running = False
        self.unexpected: Exception | None = None
        """The exception of the last failed write if it is not one that the log raises on purpose."""
        self._loop = loop
        self._threads = threads
        self._writer = writer
        self._errinj = errinj
        self._values = errinj.values
        self._log = log
        self._complete = complete
        self._show = show
        self._queue: MessageQueue[Message] = threads.queue()
        self._worker: Worker | None = None
        self._is_over = False
        self._delay_over = threads.signal()
        self._delayed: Iterator[None] | None = None
        """The rest of a message that a delay has interrupted; see `_while_on`."""
        self._delays_nothing = False
        self._forget_delays: list[Callable[[], None]] = []
        self._ended = loop.create_future()

    # --- tx side ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        resume = self._delay_over.set
        self._forget_delays = [self._errinj.on_change(name, lambda _: resume()) for name in JOURNAL_DELAYS]
        self._worker = self._threads.start(self._queue, self._step, "wal")
        self.is_running = True

    def end_delays(self) -> None:
        """Disable the delays of injections from now on."""
        self._delays_nothing = True
        self._delay_over.set()

    async def stop(self) -> None:
        """Write everything in the queue, close the file and end the thread. Safe to call again, even during another
        call.
        """
        worker = self._worker
        if worker is None:
            return
        self.end_delays()
        self._queue.put(self._end)
        # Another call may wait for the same future, which the cancellation of this one must not end.
        await asyncio.shield(self._ended)
        worker.join()
        self._worker = None
        self.is_running = False
        while self._forget_delays:
            self._forget_delays.pop()()

    def put(self, message: Message) -> None:
        """Queue a batch, or a call to be made in the wal thread."""
        self._queue.put(message)

    def write(self, entries: list[JournalEntry], messages: int) -> FinishedBatch:
        """Write a batch. Never raises: any error fails the batch, and the thread continues.

        The tx thread may call it only while the queue is empty and the thread idle.
        """
        batch = FinishedBatch(entries, messages, None)
        if self.is_in_rollback:
            return batch
        try:
            batch.written = self._writer.write(entries)
        except Exception as error:
            self.is_in_rollback = True
            if isinstance(error, WalBroken):
                batch.problem = str(error)
            else:
                self._log_failure(error)
                self.unexpected = None if isinstance(error, WalFailure) else error
        return batch

    def is_delayed(self) -> bool:
        """True if an injection holds batches up."""
        values = self._values
        return bool(
            values["ERRINJ_WAL_DELAY"]
            or values["ERRINJ_WAL_DELAY_COUNTDOWN"] >= 0
            or values["ERRINJ_RELAY_FASTER_THAN_TX"]
        )

    # --- wal side -----------------------------------------------------------------------------------------------------

    def tell(self, call: Callable[..., None], *arguments: Any) -> None:
        """Run a call in the tx thread; does nothing if its loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def delay(self, call: Callable[[], None]) -> None:
        """Make a call when ERRINJ_WAL_DELAY is off, and handle nothing before that. For calls made in the wal
        thread.
        """
        self._delayed = self._after_delay(call)

    def _after_delay(self, call: Callable[[], None]) -> Iterator[None]:
        yield from self._while_on("ERRINJ_WAL_DELAY")
        call()

    def _while_on(self, name: str) -> Iterator[None]:
        """Yield as long as an injection is on; `_delay_over` signals a change."""
        while self._values[name] and not self._delays_nothing:
            self._delay_over.clear()
            # Looked at again: a change before the signal was cleared would not be signalled any more.
            if self._values[name] and not self._delays_nothing:
                yield

    def _step(self) -> bool | Signal:
        """Handle the next message and those queued after it, or continue one that was delayed."""
        if self._delayed is None:
            message: Message | None = self._queue.get()
            while message is not None:
                message = self._handle(message)
        if self._delayed is not None and not self._go_on(self._delayed):
            return self._delay_over
        if not self._is_over:
            return True
        self._handle(self._writer.close)
        self.tell(self._ended.set_result, None)
        return False

    def _go_on(self, delayed: Iterator[None]) -> bool:
        """Continue a delayed message. Returns True if it is done."""
        try:
            for _ in delayed:
                return False
        except Exception as error:  # unexpected, as in `_handle`
            self._log_failure(error)
        self._delayed = None
        return True

    def _handle(self, message: Message) -> Message | None:
        try:
            if isinstance(message, list):
                return self._write_message(message)
            message()
        except Exception as error:  # no exception is expected here, but the thread must survive one
            self._log_failure(error)
        return None

    def _end(self) -> None:
        """Note that this message is the last one."""
        self._is_over = True

    def _write_message(self, batch: list[JournalEntry]) -> Message | None:
        """Write a batch together with all batches queued after it. Returns the message that was taken but is not a
        batch.

        While a delay is armed every message is handled alone, because injections count messages.
        """
        if self.is_delayed():
            self._delayed = self._write_late(batch)
            return None
        queue = self._queue
        messages = 1
        following: Message | None = None
        while not queue.empty():
            following = queue.get()
            if not isinstance(following, list):
                break
            batch += following
            messages += 1
            following = None
        self.tell(self._complete, self.write(batch, messages))
        return following

    def _write_late(self, batch: list[JournalEntry]) -> Iterator[None]:
        """Write a batch when ERRINJ_WAL_DELAY is off. At 0, ERRINJ_WAL_DELAY_COUNTDOWN switches that injection on."""
        yield from self._while_on("ERRINJ_WAL_DELAY")
        values = self._values
        countdown = values["ERRINJ_WAL_DELAY_COUNTDOWN"]
        if countdown >= 0:
            values["ERRINJ_WAL_DELAY_COUNTDOWN"] = countdown - 1
        if countdown == 0:
            values["ERRINJ_WAL_DELAY"] = True
            yield from self._while_on("ERRINJ_WAL_DELAY")
        result = self.write(batch, 1)
        if values["ERRINJ_RELAY_FASTER_THAN_TX"] and result.written is not None:
            # Followers get the rows at once; the tx thread learns of them only when the injection is off.
            self.tell(self._show, result.written)
            yield from self._while_on("ERRINJ_RELAY_FASTER_THAN_TX")
        self.tell(self._complete, result)

    def _log_failure(self, error: Exception) -> None:
        with suppress(Exception):  # a failure of the log must not end the thread
            if isinstance(error, WalFailure):
                self._log.error(str(error))
            else:
                self._log.crit(f"a batch could not be written: {error!r}")
