"""A loop in a thread of its own, and calls to it from other threads: beneath `box.sync`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from box.errors import ErrorCode, client_error, fiber_is_cancelled

T = TypeVar("T")
Work = Callable[[], Awaitable[Any]]


class LoopThread:
    """Runs coroutines on a loop in a thread of its own for whoever asks, and waits for them.

    Calls of a thread between `open_line` and `close_line` run one after the other in one task, to which a transaction
    can belong; other calls have a task each.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._is_open = True
        self._local = threading.local()
        self._lines: set[asyncio.Task[None]] = set()
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run what `work()` gives and wait for its outcome. FiberIsCancelled if it ends with the loop, LOADING after
        that, RuntimeError in the thread of the loop."""
        line: asyncio.Queue[Any] | None = getattr(self._local, "line", None)
        with self._lock:
            self._check()
            if line is None:
                future: Future[T] = asyncio.run_coroutine_threadsafe(work(), self._loop)
            else:
                future = Future()
                self._loop.call_soon_threadsafe(line.put_nowait, (work, future))
        try:
            return future.result()
        except CancelledError:
            raise fiber_is_cancelled() from None
        except BaseException:
            future.cancel()
            raise

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the thread of its node would wait for itself: use Node.asynchronous")
        if not self._is_open:
            raise client_error(ErrorCode.LOADING)

    # -- a task for the calls of a thread

    @property
    def has_line(self) -> bool:
        """Whether the calls of this thread run in one task."""
        return getattr(self._local, "line", None) is not None

    def open_line(self) -> None:
        """Let the calls of this thread run in one task."""

        async def begin() -> asyncio.Queue[Any]:
            line: asyncio.Queue[Any] = asyncio.Queue()
            task = asyncio.create_task(_serve(line))
            self._lines.add(task)
            task.add_done_callback(self._lines.discard)
            return line

        self._local.line = self.call(begin)

    def close_line(self) -> None:
        """The calls of this thread have a task each again."""
        line, self._local.line = self._local.line, None
        with self._lock:
            if self._is_open:
                self._loop.call_soon_threadsafe(line.put_nowait, None)

    def stop(self) -> None:
        """End the loop; calls that wait get FiberIsCancelled."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _serve(line: asyncio.Queue[Any]) -> None:
    """Run the calls of one thread until None comes. A call that is waiting when the loop ends is cancelled."""
    future: Future[Any] | None = None
    try:
        while (item := await line.get()) is not None:
            work, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(await work())
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                future.set_exception(fiber_is_cancelled())  # the call alone, because its node stops
            except BaseException as error:
                future.set_exception(error)
    finally:
        for left in (future, *(item[1] for item in iter(lambda: None if line.empty() else line.get_nowait(), None))):
            if left is not None and not left.done():
                left.set_exception(fiber_is_cancelled())
