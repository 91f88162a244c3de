"""Who waits for the next change of something."""

from __future__ import annotations

import asyncio


class Waiters:
    """Coroutines of one loop that look again after a change: `await waiters.next()` ends with the next `wake()`."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._futures)

    def next(self) -> asyncio.Future[None]:
        """What the next `wake` completes. It may be cancelled."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def wake(self) -> None:
        """Let everyone who waits now go on."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)
