"""Coroutines that usually finish at once: run to the first suspension, or to the end, without a task.

```
start         a task for the rest            before it no task is current: not for `asyncio.timeout` and the like
first_step    a task for the rest            a stand-in is current meanwhile; 1 us more
run_through   the coroutine is closed        for coroutines that may yield a turn but must not wait for anything
```

`asyncio` has eager tasks since Python 3.12, but not in 3.11, and a task for each request costs more than most requests
do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def start(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
    """Run a coroutine now. Returns None if it has finished, otherwise a task that finishes it.

    The coroutine handles its own errors: an error before the first suspension is raised here.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return go_on(loop, coroutine, awaited)


def go_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], awaited: Any) -> asyncio.Task[T]:
    """Return a task for the rest of a coroutine whose first step, `coroutine.send(None)`, has yielded `awaited`."""
    return loop.create_task(_Rest(coroutine, awaited))


def first_step(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]
) -> tuple[asyncio.Task[T] | None, T | None]:
    """Run a coroutine now. Returns `(None, result)` if it has finished, otherwise `(task of the rest, None)`. Raises
    the coroutine's error.
    """
    if sys.version_info >= (3, 12):
        task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, eager_start=True)
        return (None, task.result()) if task.done() else (task, None)
    stand_in = _StandIn()
    with _CurrentTask(loop, stand_in):
        try:
            awaited = coroutine.send(None)
        except StopIteration as stop:
            return None, stop.value
    rest = loop.create_task(_Rest(coroutine, awaited))
    stand_in.become(rest)
    return rest, None


class Suspended(Exception):
    """A coroutine that must not wait has waited."""


def run_through(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not wait, and return its result. If it yields its turn (`asyncio.sleep(0)`), it
    continues immediately.

    Raises:
        Suspended: it has waited, and was closed.
        Exception: the coroutine's own error.
    """
    try:
        while coroutine.send(None) is None:
            pass
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise Suspended


class _Rest(Coroutine[Any, Any, T]):
    """The rest of a coroutine whose first step has yielded the future `awaited`: yields that future again, then
    continues.

    This is not a coroutine function, because a task that is cancelled before its first step would not pass the
    cancellation to the inner coroutine. A yielded future carries a mark, which has to be removed by its receiver,
    because other coroutines may wait for the future too.
    """

    __slots__ = ("_awaited", "_coroutine", "_is_started")

    def __init__(self, coroutine: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._is_started = False
        if awaited is not None:
            awaited._asyncio_future_blocking = False

    def send(self, value: Any) -> Any:
        if self._is_started:
            return self._coroutine.send(value)
        self._is_started = True
        if self._awaited is not None:
            self._awaited._asyncio_future_blocking = True
        return self._awaited

    def throw(self, *error: Any) -> Any:
        # The task was cancelled before its first step: as in every task, the awaited future is cancelled first.
        if not self._is_started and self._awaited is not None and self._awaited.cancel():
            return self.send(None)
        self._is_started = True
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return (yield from self._coroutine.__await__())


class _StandIn:
    """The current task during the first step of a coroutine, for Python 3.11, which has no eager tasks.

    `asyncio.timeout` remembers the current task and cancels it later: by then a real task has taken its place.
    """

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def become(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def cancel(self, msg: Any = None) -> bool:
        return self._task is not None and self._task.cancel(msg)

    def get_name(self) -> str:
        """Return the name of the real task, or one that no task has, because asyncio numbers them from 1."""
        return "Task-0" if self._task is None else self._task.get_name()

    def cancelling(self) -> int:
        return 0 if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        return 0 if self._task is None else self._task.uncancel()


class _CurrentTask:
    """Makes `task` the loop's current task for the time of a block."""

    __slots__ = ("_loop", "_previous", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, task: Any) -> None:
        self._loop = loop
        self._task = task
        self._previous: Any = None

    def __enter__(self) -> None:
        self._previous = asyncio.current_task(self._loop)
        if self._previous is not None:
            asyncio.tasks._leave_task(self._loop, self._previous)
        asyncio.tasks._enter_task(self._loop, self._task)

    def __exit__(self, *_: object) -> None:
        asyncio.tasks._leave_task(self._loop, self._task)
        if self._previous is not None:
            asyncio.tasks._enter_task(self._loop, self._previous)
