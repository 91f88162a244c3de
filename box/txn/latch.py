"""A read-write lock for fibers, granted in the order of requests.

```
held by        try_read     try_write    a release grants
nobody         yes          yes
readers        if no        no           the first writer in the queue, once the last reader has left
               writer waits
a writer       no           no           the first in the queue: one writer, or all readers up to the next writer
```

Everything happens on one thread: a free lock is taken without a switch of fibers. The queue is served first come, first
served, so the holder that a release chooses runs before any later request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class RWLatch:
    """A lock that many readers may share, or one writer holds. Every holder releases it exactly once."""

    __slots__ = ("_queue", "_readers", "_writing")

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._queue: deque[tuple[bool, Callable[[], None]]] = deque()
        """The waiting requests: (True for a writer, function to call when the latch is granted)."""

    @property
    def is_writing(self) -> bool:
        """True while a writer holds the latch."""
        return self._writing

    @property
    def is_free(self) -> bool:
        """True if the latch is not held and no request waits."""
        return not (self._writing or self._readers or self._queue)

    def try_read(self) -> bool:
        """Take the latch as a reader if that needs no wait; returns True if it was taken."""
        if self._writing or self._queue:
            return False
        self._readers += 1
        return True

    def try_write(self) -> bool:
        """Take the latch as the writer if that needs no wait; returns True if it was taken."""
        if not self.is_free:
            return False
        self._writing = True
        return True

    def release_read(self) -> None:
        """Release the latch as a reader."""
        self._readers -= 1
        self._grant()

    def release_write(self) -> None:
        """Release the latch as the writer."""
        self._writing = False
        self._grant()

    def downgrade(self) -> None:
        """Change from the writer to a reader; readers that are next in the queue join."""
        self._writing = False
        self._readers += 1
        self._grant()

    def when_writable(self, granted: Callable[[], None]) -> None:
        """Call `granted` with the latch held as the writer: at once if the latch is free, otherwise when its turn
        comes.
        """
        if self.try_write():
            granted()
        else:
            self._queue.append((True, granted))

    def _grant(self) -> None:
        """Grant the latch to the first requests of the queue, as far as they are compatible."""
        while self._queue and not self._writing:
            writes, granted = self._queue[0]
            if writes and self._readers:
                return
            self._queue.popleft()
            if writes:
                self._writing = True
            else:
                self._readers += 1
            granted()

    async def wait_read(self) -> None:
        """Wait for the latch and take it as a reader."""
        await self._wait(False)

    async def wait_write(self) -> None:
        """Wait for the latch and take it as the writer."""
        await self._wait(True)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Hold the latch as a reader for the length of an `async with` block."""
        await self._wait(False)
        try:
            yield
        finally:
            self.release_read()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the latch as the writer for the length of an `async with` block."""
        await self._wait(True)
        try:
            yield
        finally:
            self.release_write()

    async def _wait(self, writes: bool) -> None:
        """Wait for the latch; a cancelled waiter leaves the queue or releases what it was granted."""
        if self.try_write() if writes else self.try_read():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (writes, lambda: self._resume(future, writes))
        self._queue.append(waiter)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                (self.release_write if writes else self.release_read)()
            elif waiter in self._queue:
                self._queue.remove(waiter)
                self._grant()
            raise

    def _resume(self, future: asyncio.Future[None], writes: bool) -> None:
        """Hand the latch to a waiting task, or release it at once if the task was cancelled meanwhile."""
        if future.cancelled():
            (self.release_write if writes else self.release_read)()
        else:
            future.set_result(None)

    def __repr__(self) -> str:
        holder = "writer" if self._writing else f"{self._readers} readers"
        return f"<latch {holder}, {len(self._queue)} waiting>"
