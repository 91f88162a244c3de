"""The threads of an instance, and the fine clock that measures whether a write is slow.

`SystemThreads` uses threads of the operating system; `box.testing.simulation` has threads that run on the loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class MessageQueue(Protocol[_T]):
    """A queue that passes messages to a thread."""

    def put(self, item: _T, /) -> None: ...

    def get(self) -> _T:
        """Return the next message; waits for it."""

    def empty(self) -> bool: ...


class Signal(Protocol):
    """An event that lets one thread wait for another."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self) -> Any: ...


Step = Callable[[], "bool | Signal"]
"""One turn of a thread, in which it takes at least one message from its queue. Returns False to end the thread, True to
go on, or a signal that the thread has to wait for before the next turn."""


class Worker(Protocol):
    """A thread that takes messages from a queue."""

    def join(self) -> None:
        """Wait until the last step is done."""


class Threads(Protocol):
    """Makes threads, queues and signals."""

    def clock(self) -> float:
        """Return seconds from a steady clock with microsecond resolution."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""

    def queue(self) -> MessageQueue[Any]: ...

    def signal(self) -> Signal: ...

    def pool(self, size: int, name: str) -> Executor: ...

    def start(self, queue: MessageQueue[Any], step: Step, name: str) -> Worker:
        """Start a thread that takes steps until one reports that it is the last."""


class SystemThreads:
    """Threads of the operating system."""

    clock = staticmethod(time.perf_counter)
    sleep = staticmethod(time.sleep)
    signal = staticmethod(threading.Event)

    def queue(self) -> MessageQueue[Any]:
        return SimpleQueue()

    def pool(self, size: int, name: str) -> Executor:
        return ThreadPoolExecutor(size, name)

    def start(self, queue: MessageQueue[Any], step: Step, name: str) -> Worker:
        def run() -> None:
            while outcome := step():
                if outcome is not True:
                    outcome.wait()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread
