"""Lets Lua fibers wait for the readiness of descriptors; several may wait for one descriptor, in both directions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from box.errors import fiber_is_cancelled
from lua.runtime import Runtime


@dataclass(eq=False, repr=False, slots=True)
class _PollWaiter:
    """A waiting fiber; `mask` is what it waits for."""

    token: int
    mask: int
    timer: asyncio.TimerHandle | None = None


class Poll:
    """The waiting fibers of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sockets = runtime.machine.sockets
        self._waiters: dict[int, list[_PollWaiter]] = {}

    def wait(self, fd: int, mask: int, timeout: float | None, *, asks_loop: bool = False) -> int:
        """Return the ready part of `mask`, or a token that wakes with it; 0 after `timeout` seconds.

        With `asks_loop` a fiber with a time limit waits for the loop even if the descriptor is ready.
        """
        found = self._sockets.ready(fd, mask)
        if (found and not asks_loop) or (timeout is not None and timeout <= 0):
            return found
        waiter = _PollWaiter(0, mask)
        waiter.token = self._runtime.new_token(lambda: self._cancel(fd, waiter))
        if timeout is not None:
            waiter.timer = self._runtime.loop.call_later(timeout, self._end, fd, waiter, 0)
        self._waiters.setdefault(fd, []).append(waiter)
        self._watch(fd)
        return waiter.token

    def forget(self, fd: int) -> None:
        """End all waits for a descriptor that is about to be closed."""
        for waiter in list(self._waiters.get(fd, ())):
            self._end(fd, waiter, waiter.mask)

    def close(self) -> None:
        """End all waits."""
        for fd in list(self._waiters):
            self.forget(fd)

    def _watch(self, fd: int) -> None:
        wanted = 0
        for waiter in self._waiters.get(fd, ()):
            wanted |= waiter.mask
        self._sockets.watch(self._runtime.loop, fd, wanted, self._fire)

    def _fire(self, fd: int, event: int) -> None:
        for waiter in list(self._waiters.get(fd, ())):
            if waiter.mask & event:
                self._end(fd, waiter, self._sockets.ready(fd, waiter.mask) or event)

    def _end(self, fd: int, waiter: _PollWaiter, found: int) -> None:
        if self._remove(fd, waiter):
            self._runtime.wake(waiter.token, found)

    def _cancel(self, fd: int, waiter: _PollWaiter) -> None:
        if self._remove(fd, waiter):
            self._runtime.fail(waiter.token, fiber_is_cancelled())

    def _remove(self, fd: int, waiter: _PollWaiter) -> bool:
        waiters = self._waiters.get(fd, [])
        if waiter not in waiters:
            return False
        waiters.remove(waiter)
        if waiter.timer is not None:
            waiter.timer.cancel()
        if not waiters:
            self._waiters.pop(fd, None)
        self._watch(fd)
        return True
