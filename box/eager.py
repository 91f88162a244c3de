"""Coroutines that usually finish at once: run to the first suspension without a task.

`asyncio` of Python 3.12 has eager tasks for this; 3.11 has not, and a task for each request costs more than most
requests do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class _Resumed:
    """Awaits a coroutine that has already yielded its first future: yields that future again, then goes on."""

    __slots__ = ("_coroutine", "_first")

    def __init__(self, coroutine: Coroutine[Any, Any, T], first: Any) -> None:
        self._coroutine = coroutine
        self._first = first

    def __await__(self) -> Generator[Any, Any, Any]:
        waited_for = self._first
        step: Callable[[Any], Any]
        argument: Any
        while True:
            try:
                value = yield waited_for
            except BaseException as error:
                step, argument = self._coroutine.throw, error
            else:
                step, argument = self._coroutine.send, value
            try:
                waited_for = step(argument)
            except StopIteration as stop:
                return stop.value


async def _finish(resumed: _Resumed) -> Any:
    return await resumed


def start(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
    """Run the coroutine now. None if it has finished, else a task that finishes it.

    The coroutine handles its own errors: one that escapes before the first suspension is raised here. Until then
    there is no current task, so it must not begin with `asyncio.timeout` or the like.
    """
    try:
        first = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_finish(_Resumed(coroutine, first)))
