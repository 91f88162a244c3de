"""Waiting: for the next change of a state, for the end of tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any


class Waiters:
    """Coroutines of one loop that look again after a change.

    `await waiters.next()` ends with the next `wake()`, `await waiters.until(condition)` with the first after which the
    condition holds. They are woken in the order in which they began to wait.
    """

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def next(self) -> asyncio.Future[None]:
        """A future that the next `wake` completes. It may be cancelled, and is forgotten by the next `wake` only."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        return future

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds, which is looked at now and after each `wake`. Leaves nothing behind."""
        while not condition():
            future = self.next()
            try:
                await future
            finally:
                self._futures.pop(future, None)

    def wake(self) -> None:
        """Let everyone who waits now go on."""
        futures, self._futures = self._futures, {}
        for future in futures:
            if not future.done():
                future.set_result(None)


async def end_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel and wait for the ends. For a `finally`: where the coroutine is not cancelled but closed, since nobody runs
    its loop any more, nothing can be waited for."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if not isinstance(sys.exception(), GeneratorExit):
        await asyncio.gather(*ending, return_exceptions=True)
