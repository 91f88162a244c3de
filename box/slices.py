"""Work that can wait, done a slice in every turn of the loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, Handle
from collections import deque
from collections.abc import Callable
from typing import Any, Final

_LET_GO: Final = 2048
"""Objects that are let go in a slice: a few tenths of a millisecond."""


def emptying(containers: list[list[Any] | set[Any]]) -> Callable[[], bool]:
    """Steps that empty lists and sets of many objects, whose last owner they may be, and tell whether there is more."""

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
    """Steps that are called, one a turn, until they give False; then comes the next work."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Callable[[], bool]] = deque()
        self._turn: Handle | None = None
        self._idle: list[Future[None]] = []

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to be done."""
        return self._turn is None

    def add(self, step: Callable[[], bool]) -> None:
        """Do some work: each call is a slice of it, and tells whether there is more. It must not fail."""
        self._steps.append(step)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._go_on)

    def let_go(self, objects: list[Any]) -> None:
        """Empty a list of many objects, whose last owner it may be."""
        self.add(emptying([objects]))

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
        """Return when nothing is left to be done."""
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
