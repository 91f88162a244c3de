"""A loop with its own thread, and calls to it from other threads: the machinery beneath `box.sync`.

```
run      the calling thread takes the node's turn and runs a function itself       requests of spaces without triggers
call     the thread of the loop runs a coroutine, the calling one waits            everything else
```
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, Generic, TypeVar, cast

from box.eager import first_step
from box.errors import BoxError, ErrorCode, fiber_is_cancelled
from box.sync.turn import Turn, TurnLoop, guard
from box.txn.pending import Pending
from box.waiters import end_all

T = TypeVar("T")

_OWN_THREAD: Final = "a blocking call in the thread of its node would wait for itself: use Node.asynchronous"
_NESTED: Final = "a blocking call inside another one of this thread, as in a signal handler, would wait for itself"
_FORKED: Final = "the node belongs to the process that has started it: start a node after the fork instead"

_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _after_fork() -> None:
    """Reset the locks in a forked child, where the nodes' threads do not exist and locks may have been held."""
    for thread in _threads:
        thread.is_forked = True


os.register_at_fork(after_in_child=_after_fork)


class LoopThread:
    """Runs a loop in a thread of its own, and the requests that other threads make."""

    def __init__(self, name: str) -> None:
        self.turn = Turn()
        self.loop = TurnLoop(self.turn)
        self.is_forked = False
        self.is_direct = not self.loop.get_debug()
        """True if threads run requests themselves, which a loop in debug mode refuses."""
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._is_open = True
        self._is_ending = False
        """True while the node stops; its journal may be closed earlier than the loop."""
        self._is_over = False
        """True once the loop has been told to end."""
        self._is_guarded = False
        self._main_id = threading.main_thread().ident
        _threads.add(self)
        self._thread.start()
        self._loop_id = self._thread.ident

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.turn.lock.acquire()
        self.turn.owner = get_ident()
        try:
            self._run_until_stopped()
            self._complete(end_all(asyncio.all_tasks(self.loop)))
            self._complete(self.loop.shutdown_asyncgens())
            self._complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()
            self.turn.lock.release()

    def _run_until_stopped(self) -> None:
        """Run the loop until `stop`.

        SystemExit and KeyboardInterrupt raised by a trigger or function end an asyncio loop. They are passed to the
        thread whose call caused them, and the loop is run again. A loop that was told to end in the turn of the
        exception has forgotten it, hence `_is_over`.
        """
        while not self._is_over:
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def _end(self) -> None:
        self._is_over = True
        self.loop.stop()

    def _complete(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a last coroutine of the loop. A SystemExit of another task is dropped: no call is left to raise it."""
        task = self.loop.create_task(work)
        while not task.done():
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_until_complete(task)

    @property
    def is_running(self) -> bool:
        """True while calls are accepted."""
        return self._is_open

    # -- a request in the calling thread

    def run(self, function: Callable[..., T], *args: Any, who: object = None) -> T:
        """Run a function while holding the node's turn. The function must not wait. `who` identifies the caller, for
        `Turn.lone`; by default it is this thread.

        Raises:
            RuntimeError: called in the loop's thread, inside another call of this thread, or after a fork.
            NotReadyError: the node has stopped.
        """
        turn, me = self.turn, get_ident()
        if self.is_forked:
            raise RuntimeError(_FORKED)
        if me == self._main_id and not self._is_guarded:
            self._is_guarded = True
            guard.add(turn)
        callers = turn.callers
        if me in callers:
            raise RuntimeError(_NESTED)
        callers[me] = None
        try:
            if turn.lock.locked():
                if me == self._loop_id:
                    raise RuntimeError(_OWN_THREAD)
                with turn.gate, turn.lock:
                    result = self._run_now(function, args, me, who or me)
            else:
                with turn.lock:
                    result = self._run_now(function, args, me, who or me)
        finally:
            del callers[me]
        if turn.is_interrupted:
            turn.check_interruption()
        return result

    def _run_now(self, function: Callable[..., T], args: tuple[Any, ...], me: int, who: object) -> T:
        turn = self.turn
        turn.owner = me
        if not self._is_open or self._is_ending:
            raise self._refusal()
        if turn.lone is not None and turn.lone != who:
            turn.share()
        loop = self.loop
        timer = loop.first_timer()
        try:
            return function(*args)
        finally:
            loop.wake_after(timer)

    def wait(self, pending: Pending, done: threading.Lock) -> bytes | None:
        """Wait for the end of a `Pending`, which releases the lock `done`. Returns its result.

        Raises:
            BoxError: the error of the `Pending`; FiberIsCancelled if the node stops first.
        """
        done.acquire()
        if pending.error is not None:
            raise pending.error
        return pending.result

    def _refusal(self) -> BoxError:
        return BoxError(ErrorCode.LOADING, self._problem or "The node is stopped")

    def fail(self, reason: str) -> None:
        """Refuse everything from now on, for this reason."""
        self._problem = reason
        self._is_open = False
        self.turn.lone = None  # the state of its changes may be unknown

    # -- a coroutine in the thread of the loop

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine of `work()` in the loop's thread and wait for its outcome.

        Raises:
            FiberIsCancelled: the loop ends first.
            RuntimeError: called in the loop's thread, inside another call of this thread, or after a fork.
            NotReadyError: the node has stopped.
        """
        self.check_call()
        with self._lock:
            if not self._is_open:
                raise self._refusal()
            call = LoopCall(work, self.loop)
        return call.wait()

    def check_call(self) -> None:
        """Refuse a call that would wait for itself.

        Raises:
            RuntimeError: called in the loop's thread, inside another call of this thread, or after a fork.
        """
        if self.is_forked:
            raise RuntimeError(_FORKED)
        me = get_ident()
        if me == self._loop_id:
            raise RuntimeError(_OWN_THREAD)
        if me in self.turn.callers:
            raise RuntimeError(_NESTED)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run a last coroutine and end the loop; waiting calls raise FiberIsCancelled. Safe to call again."""
        self._is_ending = True
        try:
            if last is not None and self._thread.is_alive():
                LoopCall(last, self.loop).wait()
        finally:
            with self._lock:
                self._is_open = False
                if self._thread.is_alive():
                    self.loop.call_soon_threadsafe(self._end)
            self._thread.join()
            guard.remove(self.turn)


class LoopCall(Generic[T]):
    """A coroutine that the loop runs for another thread. It begins with the loop's next turn, without a task until it
    waits. A lock tells the thread of its end: a `concurrent.futures.Future` takes several times as long.
    """

    __slots__ = ("_done", "_error", "_is_given_up", "_loop", "_result", "_task", "_work")

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop
        self._done = threading.Lock()
        self._done.acquire()
        self._error: BaseException | None = None
        self._is_given_up = False
        self._result: T
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._is_given_up:
            return
        try:
            task, result = first_step(self._loop, self._work())
        except BaseException as error:
            self._error = fiber_is_cancelled() if isinstance(error, asyncio.CancelledError) else error
            self._done.release()
            return
        if task is None:
            self._result = cast("T", result)
            self._done.release()
        else:
            self._task = task
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = fiber_is_cancelled()
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._result = task.result()
        self._done.release()

    def wait(self) -> T:
        """Wait for the end and return the result. An exception that interrupts the wait cancels the coroutine.

        Raises:
            FiberIsCancelled: the loop ends first.
            BaseException: the coroutine raised it.
        """
        try:
            self._done.acquire()
        except BaseException:
            self._is_given_up = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._cancel)
            raise
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the traceback refers to this object
        return self._result

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def lock_until(pending: Pending) -> threading.Lock:
    """Return a lock that is released when a `Pending` ends."""
    lock = threading.Lock()
    lock.acquire()
    pending.on_done(lambda _: lock.release())
    return lock
