"""Work that can wait: it is done in slices, one in each turn of the loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, Handle
from collections import deque
from collections.abc import Callable
from typing import Any, Final

_LET_GO: Final = 2048
"""The number of objects that are freed in one slice, which takes a few tenths of a millisecond."""
_BACKLOG: Final = 8
"""The number of works that wait from which on `let_go` frees objects at once."""
_AT_ONCE: Final = 4
"""The number of slices that `let_go` frees at once."""


def emptying(containers: list[list[Any] | set[Any]]) -> Callable[[], bool]:
    """Return a function that frees objects in slices, by emptying the lists and sets that may be their last owners. It
    returns False at the end.
    """

    def step() -> bool:
        left = _LET_GO
        while containers and left:
            container = containers[-1]
            count = min(left, len(container))
            if isinstance(container, list):
                del container[len(container) - count :]
            else:
                for _ in range(count):
                    container.pop()
            left -= count
            if not container:
                containers.pop()
        return bool(containers)

    return step


class SlicedWork:
    """A queue of work. In each turn of the loop one step of the first work is called, until the step returns False."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Callable[[], bool]] = deque()
        self._turn: Handle | None = None
        self._idle: list[Future[None]] = []

    @property
    def is_idle(self) -> bool:
        """True if no work is left."""
        return self._turn is None

    def add(self, step: Callable[[], bool]) -> None:
        """Add work to the queue: each call of `step` does one slice and returns whether there is more. It must not
        fail.
        """
        self._steps.append(step)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._go_on)

    def let_go(self, objects: list[Any]) -> None:
        """Free the objects of a list in slices, by emptying the list, which may be their last owner.

        Where much work waits already, the first slices are freed at once: a caller that never rests would otherwise
        make objects faster than they are freed.
        """
        step = emptying([objects])
        slices = _AT_ONCE if len(self._steps) >= _BACKLOG else 0
        for _ in range(slices):
            if not step():
                return
        self.add(step)

    def _go_on(self) -> None:
        if not self._steps[0]():
            self._steps.popleft()
        self._turn = self._loop.call_soon(self._go_on) if self._steps else None
        if self._turn is None:
            self._wake()

    def _wake(self) -> None:
        waiting, self._idle = self._idle, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        """Wait until no work is left."""
        while not self.is_idle:
            future: Future[None] = self._loop.create_future()
            self._idle.append(future)
            await future

    def stop(self) -> None:
        """Do all remaining work now, without a pause, and wake the tasks in `wait`."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        while self._steps:
            if not self._steps[0]():
                self._steps.popleft()
        self._wake()
