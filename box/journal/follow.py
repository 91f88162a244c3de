"""Followers: relays that read the journal from a vclock on and then live.

```
            no more rows in the files
   FILES ------------------------------> TAIL
     ^                                     |
     +-------------------------------------+
       the rows it needs next have left the tail
```

The tail keeps the rows of recent batches in memory while there is a follower, so that one that keeps up never reads
a file. A follower changes over without a gap because it notes the tail's end before it reads files (what was written
before is in the files, what comes later in the tail) and drops rows that it has already by their lsn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from box.journal.reader import LogPosition, LogReader
from box.journal.xlog_errors import XlogGapError
from box.waiters import Waiters
from box.wire.entry import JournalEntry
from box.wire.row import Row
from box.wire.vclock import VClock

_TAIL_BYTES: Final = 16 << 20
_TAIL_BATCHES: Final = 4096


class _FollowedBatch:
    __slots__ = ("position", "rows", "size")

    def __init__(self, rows: list[Row], size: int, position: LogPosition | None) -> None:
        self.rows = rows
        self.size = size
        self.position = position


class Tail:
    """The latest batches, numbered from 0 on; lives in the tx thread.

    `end` is the number of the next batch. Only batches added while `followers` is above 0 are kept.
    """

    __slots__ = ("_batches", "_bytes", "_waiters", "closed", "end", "followers")

    def __init__(self) -> None:
        self.end = 0
        self.followers = 0
        self.closed = False
        self._batches: deque[_FollowedBatch] = deque()
        self._bytes = 0
        self._waiters = Waiters()

    def append(self, entries: list[JournalEntry], size: int, signature: int, offset: int) -> None:
        """Take over a written batch and wake who waits; it begins at `offset` of the file with this signature."""
        self.end += 1
        if not self.followers:
            return
        rows = [row for entry in entries for row in entry.rows]
        self._batches.append(_FollowedBatch(rows, size, LogPosition(signature, offset)))
        self._bytes += size
        while self._bytes > _TAIL_BYTES or len(self._batches) > _TAIL_BATCHES:
            self._bytes -= self._batches.popleft().size
        self._waiters.wake()

    def since(self, number: int) -> list[_FollowedBatch] | None:
        """Batches from `number` on; None if that one is gone."""
        count = self.end - number
        if count > len(self._batches):
            return None
        return list(self._batches)[-count:] if count else []

    async def wait(self) -> None:
        """Return after the next batch, or when the journal stops."""
        await self._waiters.next()

    def release(self) -> None:
        """One follower less; without any the rows go."""
        self.followers -= 1
        if not self.followers:
            self._batches.clear()
            self._bytes = 0

    def close(self) -> None:
        """End all followers."""
        self.closed = True
        self._waiters.wake()


def _finish(job: asyncio.Future[list[Row] | None], reader: LogReader) -> None:
    """Close a reader that nobody waits for any more; an error of its last read is of no interest then."""
    if not job.cancelled():
        job.exception()
    reader.close()


class Follower:
    """An asynchronous iterator of lists of rows: every row later than `vclock`, in the order written.

    It never ends by itself; it stops when the journal stops or after `close`. Rows are shared with others: read only.
    Raises XlogError, XlogGapError, SystemError. Rows of local spaces are among them, newer than the call of `follow`.
    """

    def __init__(
        self,
        tail: Tail,
        vclock: VClock,
        open_reader: Callable[[VClock, LogPosition | None], LogReader],
        in_thread: Callable[[Callable[[], list[Row] | None]], asyncio.Future[list[Row] | None]],
        written: VClock,
    ) -> None:
        self.vclock = vclock
        self._written = written
        """The journal's vclock; it moves."""
        self._in_files = written.copy()
        """The vclock that must be reached when the files have been read, or some of them are missing."""
        self._tail = tail
        self._open_reader = open_reader
        self._in_thread = in_thread
        self._next = tail.end
        self._closed = False
        self._position: LogPosition | None = None
        self._job: asyncio.Future[list[Row] | None] | None = None
        tail.followers += 1
        self._reader: LogReader | None = open_reader(vclock, None)

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> list[Row]:
        while not (self._closed or self._tail.closed):
            rows = await self._from_files() if self._reader is not None else await self._from_tail()
            if rows:
                return rows
        self.close()
        raise StopAsyncIteration

    async def _from_files(self) -> list[Row]:
        reader = self._reader
        assert reader is not None
        self._job = self._in_thread(reader.next_rows)
        # A follower that is cancelled here must not take the reader away from the thread that uses it: see `close`.
        rows = await asyncio.shield(self._job)
        if self._closed:
            return []
        if rows is None:
            reader.close()
            self._reader = None
            if not self.vclock.covers(self._in_files, ignore_zero=True):
                raise XlogGapError(self.vclock, self._in_files)
            return []
        return rows

    async def _from_tail(self) -> list[Row]:
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
        vclock = self.vclock
        fresh = []
        for batch in batches:
            for row in batch.rows:
                if row.lsn > vclock[row.replica_id]:
                    vclock[row.replica_id] = row.lsn
                    fresh.append(row)
        return fresh

    def close(self) -> None:
        """Stop, and let the tail go; safe to call again."""
        if self._closed:
            return
        self._closed = True
        self._tail.release()
        reader, self._reader = self._reader, None
        if reader is None:
            return
        if self._job is None or self._job.done():
            reader.close()
        else:
            self._job.add_done_callback(lambda job: _finish(job, reader))

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()
