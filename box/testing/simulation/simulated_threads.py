"""Simulated threads: steps on the loop that take as long as their disk does.

```
a message is put        the worker wakes after a random delay
a step runs             at one moment; its messages to the tx thread arrive when the disk would have been ready
the next step           begins then, or when the signal is set that it has to wait for
```

The process may die in between: then data is in the file, but its caller never gets the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, Final

from box.journal.threads import Signal, Step
from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.loop import SimulatedLoop

_WAKE: Final = (0.00002, 0.0005)
"""The range of seconds until a waiting thread runs."""


class SimulatedQueue:
    """A queue that wakes its worker."""

    def __init__(self) -> None:
        self.worker: SimulatedWorker | None = None
        self._items: deque[Any] = deque()

    def put(self, item: Any, /) -> None:
        self._items.append(item)
        if self.worker is not None:
            self.worker.wake()

    def get(self) -> Any:
        """Return the next message. Workers ask only if there is one."""
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class SimulatedWorker:
    """A thread that takes messages from a queue."""

    def __init__(self, threads: SimulatedThreads, queue: SimulatedQueue, step: Step) -> None:
        self._threads = threads
        self._queue = queue
        self._step = step
        self._is_scheduled = False
        self._is_waiting = False
        """True while it waits for a signal; messages do not wake it then."""
        self._is_over = False
        self._ready_at = 0.0
        """The time at which the last step ends."""
        queue.worker = self
        if not queue.empty():
            self.wake()

    def wake(self) -> None:
        """Schedule a step, because there is a message."""
        if not self._is_scheduled and not self._is_over and not self._is_waiting:
            self._is_scheduled = True
            loop = self._threads.loop
            loop.call_at(max(loop.time() + self._threads.wake_delay(), self._ready_at), self._run)

    def _run(self) -> None:
        loop, disk = self._threads.loop, self._threads.disk
        disk.restart_meter()
        self._is_scheduled = False
        outcome: bool | Signal = False
        try:
            with _Blocking(loop, disk):
                outcome = self._step()
        finally:
            self._is_over = not outcome
            self._ready_at = loop.time() + disk.restart_meter()
        if isinstance(outcome, SimulatedSignal):
            self._is_waiting = outcome.keep_waiting(self)
            self.wake()
        elif not self._queue.empty():
            self.wake()

    def go_on(self) -> None:
        """Continue, because the signal that it waits for was set."""
        self._is_waiting = False
        self.wake()

    def join(self) -> None:
        """Do nothing: a simulated worker has ended when its last step has."""


class _Blocking:
    """A context in which messages to the loop arrive when the thread's disk is ready."""

    def __init__(self, loop: SimulatedLoop, disk: SimulatedDisk) -> None:
        self._loop = loop
        self._disk = disk

    def __enter__(self) -> None:
        self._loop.blocking = self._disk

    def __exit__(self, *_: object) -> None:
        self._loop.blocking = None


class SimulatedSignal:
    """A signal that a worker waits for between two steps."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: SimulatedWorker | None = None

    def set(self) -> None:
        self._is_set = True
        worker, self._waiting = self._waiting, None
        if worker is not None:
            worker.go_on()

    def clear(self) -> None:
        self._is_set = False

    def wait(self) -> None:
        """Fail: a simulated worker returns the signal from its step instead of waiting for it.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("a step of a simulated thread cannot wait in its middle")

    def keep_waiting(self, worker: SimulatedWorker) -> bool:
        """Return True if a worker has to wait, and remember to wake it."""
        if self._is_set:
            return False
        self._waiting = worker
        return True


class SimulatedPool(Executor):
    """Runs calls one by one, each after a delay."""

    def __init__(self, threads: SimulatedThreads) -> None:
        self.disk = threads.disk
        """The disk whose time calls of the loop's `run_in_executor` take."""
        self._threads = threads
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._waiting.append(run)
        self._threads.loop.call_later(self._threads.wake_delay(), self._run_next)
        return future

    def _run_next(self) -> None:
        if self._waiting:
            self._waiting.popleft()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self._waiting:
            self._run_next()


class SimulatedThreads:
    """The threads of one process (`box.journal.threads.Threads`)."""

    def __init__(self, loop: SimulatedLoop, disk: SimulatedDisk, random: Random) -> None:
        self.loop = loop
        self.disk = disk
        self._random = random

    def wake_delay(self) -> float:
        """Return a random number of seconds until a thread runs."""
        return self._random.uniform(*_WAKE)

    def clock(self) -> float:
        """Return simulated time, including the time that disk calls of the tx thread have taken in this callback."""
        return self.disk.time()

    def sleep(self, seconds: float) -> None:
        """Let the thread sleep: its disk is busy for so long."""
        self.disk.time()
        self.disk.spent += seconds

    def signal(self) -> SimulatedSignal:
        return SimulatedSignal()

    def queue(self) -> SimulatedQueue:
        return SimulatedQueue()

    def pool(self, size: int, name: str) -> SimulatedPool:
        return SimulatedPool(self)

    def start(self, queue: Any, step: Step, name: str) -> SimulatedWorker:
        return SimulatedWorker(self, queue, step)
