"""A read-write lock for fibers, granted in the order of asking.

```
held by        try_read     try_write    a release grants
nobody         yes          yes
readers        no writer    no           the first writer in the queue once the last reader is gone
               waits
a writer       no           no           the first in the queue: one writer, or all readers up to the next writer
```

Everything happens on one thread: a free lock is taken without a switch, and whoever is granted the lock on release
runs its continuation before anyone who asks later, because the queue is served first come, first served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class RWLatch:
    """Readers share it, a writer has it alone. The caller releases what it took, once."""

    __slots__ = ("_queue", "_readers", "_writing")

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._queue: deque[tuple[bool, Callable[[], None]]] = deque()
        """Those who wait: (wants to write, what to call when it is granted)."""

    @property
    def is_writing(self) -> bool:
        """True while a writer holds the latch."""
        return self._writing

    @property
    def is_free(self) -> bool:
        """True if nobody holds the latch or waits for it."""
        return not (self._writing or self._readers or self._queue)

    def try_read(self) -> bool:
        """Take the latch as a reader if that needs no wait."""
        if self._writing or self._queue:
            return False
        self._readers += 1
        return True

    def try_write(self) -> bool:
        """Take the latch as the writer if that needs no wait."""
        if not self.is_free:
            return False
        self._writing = True
        return True

    def release_read(self) -> None:
        """Give back what `try_read` or `when_readable` granted."""
        self._readers -= 1
        self._grant()

    def release_write(self) -> None:
        """Give back what `try_write` or `when_writable` granted."""
        self._writing = False
        self._grant()

    def when_readable(self, granted: Callable[[], None]) -> None:
        """Call `granted` as a reader: at once if the latch allows, otherwise in turn."""
        if self.try_read():
            granted()
        else:
            self._queue.append((False, granted))

    def when_writable(self, granted: Callable[[], None]) -> None:
        """Call `granted` as the writer: at once if the latch is free, otherwise in turn."""
        if self.try_write():
            granted()
        else:
            self._queue.append((True, granted))

    def _grant(self) -> None:
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
        """Take the latch as a reader."""
        await self._wait(False)

    async def wait_write(self) -> None:
        """Take the latch as the writer."""
        await self._wait(True)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """`async with latch.reading():` for the length of a block."""
        await self._wait(False)
        try:
            yield
        finally:
            self.release_read()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """`async with latch.writing():` for the length of a block."""
        await self._wait(True)
        try:
            yield
        finally:
            self.release_write()

    async def _wait(self, writes: bool) -> None:
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
        """Hand the latch to a waiting task; a task that was cancelled meanwhile gives it back at once."""
        if future.cancelled():
            (self.release_write if writes else self.release_read)()
        else:
            future.set_result(None)

    def __repr__(self) -> str:
        holder = "writer" if self._writing else f"{self._readers} readers"
        return f"<latch {holder}, {len(self._queue)} waiting>"
