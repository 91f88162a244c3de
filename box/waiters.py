"""Waiting: for the next change of a state, or for the end of tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any


class Waiters:
    """Coroutines of one loop that wait for changes and then check their conditions.

    `await waiters.next()` ends with the next `wake()`, `await waiters.until(condition)` with the first `wake()` after
    which the condition holds. Coroutines are woken in the order in which they began to wait.
    """

    __slots__ = ("_calls", "_futures")

    def __init__(self) -> None:
        self._calls: dict[Callable[[], None], None] = {}
        self._futures: dict[asyncio.Future[None], None] = {}

    def __bool__(self) -> bool:
        return bool(self._futures or self._calls)

    def next(self) -> asyncio.Future[None]:
        """Return a future that the next `wake` completes. It may be cancelled; it is forgotten only at the next
        `wake`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        return future

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked now and after each `wake`."""
        while not condition():
            future = self.next()
            try:
                await future
            finally:
                self._futures.pop(future, None)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function inside each `wake`, until `forget`: for what must not wait for the next turn of the loop."""
        self._calls[function] = None

    def forget(self, function: Callable[[], None]) -> None:
        """End what `call` has begun."""
        self._calls.pop(function, None)

    def wake(self) -> None:
        """Wake all coroutines that wait now."""
        for function in tuple(self._calls):
            function()
        futures, self._futures = self._futures, {}
        for future in futures:
            if not future.done():
                future.set_result(None)


async def end_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait for their ends; made for a `finally` block. If the surrounding coroutine is being closed
    because its loop no longer runs, the tasks are cancelled without waiting.
    """
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if not isinstance(sys.exception(), GeneratorExit):
        await asyncio.gather(*ending, return_exceptions=True)
