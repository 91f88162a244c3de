"""Followers: they read the journal from a vclock on and then follow it live, for relays.

```
            no more rows in the files
   FILES ------------------------------> TAIL          a new follower begins with the tail if that reaches back far
     ^                                     |           enough, otherwise with the files
     +-------------------------------------+
       the rows it needs next have left the tail
```

The tail keeps the rows of recent batches in memory, as the packets that the writer has made of them, so that a follower
that keeps up, or comes back soon, never reads a file. A follower changes over without a gap because it notes the tail's
end before it reads files (what was written before is in the files, what comes later in the tail) and drops rows that it
has already by their lsn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from box.journal.log_gap import check_reached
from box.journal.packet_runs import fresh_runs
from box.journal.reader import LogPosition, LogReader
from box.journal.wal import Written
from box.waiters import Waiters
from box.wire.packet_run import PacketRun
from box.wire.vclock import VClock

_TAIL_BYTES: Final = 16 << 20
"""The bytes of the newest rows that are kept in memory. A follower that is further behind reads files."""
_TAIL_BATCHES: Final = 65536
"""The number of batches that are kept at most: small ones cost more for their objects than for their bytes."""
_BYTES_AT_ONCE: Final = 256 * 1024
"""The bytes from which on a follower gets no further batch in one step, so that others have their turn."""
KEPT_ALONE: Final = 60.0
"""How long rows are kept in memory for a follower that may come back, after the last one has gone, in seconds."""

Runs = list[PacketRun]


class _FollowedBatch:
    __slots__ = ("before", "position", "runs", "size")

    def __init__(self, before: VClock, runs: Runs, position: LogPosition) -> None:
        self.before = before
        self.runs = runs
        self.size = sum([len(run.data) for run in runs])
        self.position = position


class Tail:
    """The latest batches, numbered from 0. It belongs to the tx thread; `clock` returns seconds.

    `end` is the number of the next batch. Batches are kept from the arrival of the first follower until `KEPT_ALONE`
    seconds after the last one has gone; `on_use` is told whether they are kept.
    """

    __slots__ = (
        "_batches",
        "_bytes",
        "_clock",
        "_keeps",
        "_last_release",
        "_on_use",
        "_waiters",
        "closed",
        "end",
        "followers",
    )

    def __init__(self, clock: Callable[[], float], on_use: Callable[[bool], None]) -> None:
        self.end = 0
        self.followers = 0
        self.closed = False
        self._batches: deque[_FollowedBatch] = deque()
        self._bytes = 0
        self._clock = clock
        self._on_use = on_use
        self._keeps = False
        """True while there are followers, or the last one may come back, so that batches have to be kept."""
        self._last_release = 0.0
        self._waiters = Waiters()

    def append(self, written: Written, before: VClock, wake: Callable[[], None] | None = None) -> None:
        """Take a written batch and wake the waiting followers; `before` is the journal's vclock without the batch.

        If `wake` is given it is called instead, and arranges a later call of `Tail.wake`.
        """
        self.end += 1
        if not self._keeps:
            return
        if not self.followers and self._clock() - self._last_release > KEPT_ALONE:
            self._drop()
            return
        if written.runs is None:  # nobody followed when it was written, so that followers have to read it from its file
            self._forget()
        else:
            position = LogPosition(written.signature, written.offset)
            batch = _FollowedBatch(before, written.runs, position)
            self._batches.append(batch)
            self._bytes += batch.size
            while self._bytes > _TAIL_BYTES or len(self._batches) > _TAIL_BATCHES:
                self._bytes -= self._batches.popleft().size
        if wake is None:
            self._waiters.wake()
        else:
            wake()

    def since(self, number: int) -> list[_FollowedBatch] | None:
        """Return batches from `number` on, in portions if they are many; None if batch `number` is gone."""
        batches = self._batches
        place = number - self.end + len(batches)
        if place < 0:
            return None
        found, size = [], 0
        while place < len(batches) and size < _BYTES_AT_ONCE:
            batch = batches[place]
            found.append(batch)
            size += batch.size
            place += 1
        return found

    def first_after(self, vclock: VClock, has_file: Callable[[int], bool]) -> int | None:
        """Return the number of the first batch that a follower with this vclock needs.

        Returns None if the batch is gone, or its file is, which `has_file` tells by the signature: removing a log file
        means that its rows must not be sent any more.
        """
        batches = self._batches
        low, high = 0, len(batches)
        while low < high:
            middle = (low + high) // 2
            if vclock.covers(batches[middle].before, ignore_zero=True):
                low = middle + 1
            else:
                high = middle
        if not low or not has_file(batches[low - 1].position.signature):
            return None
        return self.end - len(batches) + low - 1

    def wake(self) -> None:
        """Wake followers so that they look for batches."""
        self._waiters.wake()

    async def wait(self) -> None:
        """Wait for the next batch, or until the journal stops."""
        await self._waiters.next()

    def use(self) -> None:
        """Count one more follower."""
        self.followers += 1
        self._keeps = True
        self._on_use(True)

    def release(self) -> None:
        """Count one follower less; without any, the batches are dropped after a while."""
        self.followers -= 1
        if not self.followers:
            self._last_release = self._clock()

    def _drop(self) -> None:
        """Drop the batches, because no follower has come back in time."""
        self._keeps = False
        self._forget()
        self._on_use(False)

    def _forget(self) -> None:
        self._batches.clear()
        self._bytes = 0

    def close(self) -> None:
        """End all followers."""
        self.closed = True
        self._waiters.wake()


def _finish(job: asyncio.Future[Runs | None], reader: LogReader) -> None:
    """Close a reader that was abandoned during a read; an error of that read is ignored."""
    if not job.cancelled():
        job.exception()
    reader.close()


class Follower:
    """An asynchronous iterator of rows as packets: every row later than `vclock`, in the order of writing.

    It stops only when the journal stops or after `close`. Transactions are complete. Rows of local spaces are included
    if they are newer than the call of `follow`.

    Raises:
        XlogError: the content of a file is wrong.
        XlogGapError: rows are in no file.
        BoxSystemError: a file cannot be read.
    """

    def __init__(
        self,
        tail: Tail,
        vclock: VClock,
        open_reader: Callable[[VClock, LogPosition | None], LogReader],
        in_thread: Callable[[Callable[[], Runs | None]], asyncio.Future[Runs | None]],
        written: VClock,
        has_file: Callable[[int], bool],
    ) -> None:
        self.vclock = vclock
        self._written = written
        """The vclock of the journal itself, which moves."""
        self._in_files = written.copy()
        """The vclock to be reached when the files have been read; otherwise rows are missing in them."""
        self._tail = tail
        self._open_reader = open_reader
        self._in_thread = in_thread
        self._closed = False
        self._position: LogPosition | None = None
        self._job: asyncio.Future[Runs | None] | None = None
        self._reader: LogReader | None = None
        tail.use()
        first = tail.end if vclock.covers(written, ignore_zero=True) else tail.first_after(vclock, has_file)
        self._next = tail.end if first is None else first
        if first is None:
            self._reader = open_reader(vclock, None)

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Runs:
        while not (self._closed or self._tail.closed):
            runs = await self._from_files() if self._reader is not None else await self._from_tail()
            if runs:
                return runs
        self.close()
        raise StopAsyncIteration

    async def _from_files(self) -> Runs:
        reader = self._reader
        assert reader is not None
        self._job = self._in_thread(reader.next_runs)
        # If this follower is cancelled, a thread still uses the reader; `close` then waits for it before it closes the
        # reader.
        runs = await asyncio.shield(self._job)
        if self._closed:
            return []
        if runs is None:
            reader.close()
            self._reader = None
            check_reached(self.vclock, self._in_files)
            return []
        return runs

    async def _from_tail(self) -> Runs:
        batches = self._tail.since(self._next)
        if batches is None:
            self._next, self._in_files = self._tail.end, self._written.copy()
            self._reader = self._open_reader(self.vclock, self._position)
            return []
        if not batches:
            await self._tail.wait()
            return []
        self._next += len(batches)
        self._position = batches[-1].position
        if len(batches) == 1:
            return fresh_runs(batches[0].runs, self.vclock)
        return fresh_runs([run for batch in batches for run in batch.runs], self.vclock)

    def close(self) -> None:
        """Stop following and release the tail; safe to call again."""
        if self._closed:
            return
        self._closed = True
        self._tail.release()
        reader, self._reader = self._reader, None
        if reader is None:
            return
        if self._job is None:
            reader.close()
        elif self._job.done():  # it may have failed unnoticed, after a cancellation
            _finish(self._job, reader)
        else:
            self._job.add_done_callback(lambda job: _finish(job, reader))

    async def aclose(self) -> None:
        """Stop following, as `close` does; for `contextlib.aclosing`."""
        self.close()
