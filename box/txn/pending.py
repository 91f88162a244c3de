"""Writes in progress: what `Dml.write` returns while the result is not known yet.

```
waits for                        class          ends with
the log, the limbo               Commit         the outcome of the commit (box.txn.transaction)
a user's trigger, then the       WaitingWrite   the outcome of the whole write
log and the limbo
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar

from box.eager import go_on
from box.errors import BoxError, ErrorCode, fiber_is_cancelled


class Pending:
    """Something that ends once, later: then `done` is true, and `error` or `result` is set.

    `result` is the tuple that the write stores or removes, or None without one. The error is FiberIsCancelled if the
    node was closed before the outcome was known. `__slots__` is empty here because some subclasses are journal entries
    as well; the subclasses define the slots.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    _callbacks: Callable[[Any], None] | list[Callable[[Any], None]] | None
    """The functions to call at the end; mostly there is one, which needs no list."""
    done: bool
    error: BoxError | None
    result: bytes | None

    def on_done(self, callback: Callable[[Any], None]) -> None:
        """Call a function once at the end; if the end has passed already, call it now.

        Its argument is this object, or a `Told` if callers get an answer before the end.
        """
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = callback
        elif isinstance(self._callbacks, list):
            self._callbacks.append(callback)
        else:
            self._callbacks = [self._callbacks, callback]

    async def wait(self) -> bytes | None:
        """Wait for the end and return the result. Cancelling the waiter does not cancel the write.

        Raises:
            BoxError: the error with which it has ended.
        """
        ended: Pending = self
        if not self.done:
            future: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()
            self.on_done(lambda pending: _wake(future, pending))
            ended = await future
        if ended.error is not None:
            raise ended.error
        return ended.result

    may_be_cancelled: ClassVar[bool] = False
    """True if `cancel` is allowed. A commit may not be cancelled: what the log has received is decided there."""

    def cancel(self) -> None:
        """Cancel the pending work, which then ends with FiberIsCancelled.

        Raises:
            AssertionError: it cannot be cancelled.
        """
        raise AssertionError(f"{self!r} cannot be cancelled")

    def finish(self) -> None:
        """Mark this object as ended and call the registered callbacks."""
        self.done = True
        callbacks = self._callbacks
        if callbacks is not None:
            self._callbacks = None
            if isinstance(callbacks, list):
                _call(callbacks, self)
            else:
                callbacks(self)

    def forget_callers(self) -> None:
        """Call none of the callbacks registered so far."""
        self._callbacks = None

    def take_callers(self) -> Callers:
        """Hand over the callbacks registered so far to the caller, who has to call them; the end calls only later
        ones.
        """
        callers, self._callbacks = Callers(self._callbacks), None
        return callers


class Told(Pending):
    """An error that callers get early, before the end of what they wait for."""

    __slots__ = ("_callbacks", "done", "error", "result")

    def __init__(self, error: BoxError) -> None:
        self._callbacks = None
        self.done = True
        self.error = error
        self.result = None


class Callers:
    """Callbacks that were taken from a `Pending`; each must be called once."""

    __slots__ = ("_callbacks",)

    def __init__(self, callbacks: Callable[[Any], None] | list[Callable[[Any], None]] | None) -> None:
        self._callbacks = callbacks

    def tell(self, error: BoxError) -> None:
        """Call each of the callbacks with an error."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            _call(callbacks, Told(error))


def _call(callbacks: Callable[[Any], None] | list[Callable[[Any], None]], ended: Pending) -> None:
    if isinstance(callbacks, list):
        for callback in callbacks:
            callback(ended)
    else:
        callbacks(ended)


def _wake(future: asyncio.Future[Pending], ended: Pending) -> None:
    if not future.done():
        future.set_result(ended)


Outcome = bytes | Pending | None
"""The outcome of a write: the tuple that it stored or removed, None if there is none, or a `Pending` for a later
outcome.
"""


class WaitingWrite(Pending):
    """A write whose trigger waits for `waited_for`; the rest of it runs as a task."""

    __slots__ = ("_callbacks", "_task", "done", "error", "result")

    may_be_cancelled: ClassVar[bool] = True

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Outcome], waited_for: Any) -> None:
        self._callbacks = None
        self.done = False
        self.error = None
        self.result = None
        self._task = go_on(loop, work, waited_for)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """End the wait of the trigger, which undoes the statement. A commit that has begun is not stopped."""
        self._task.cancel()

    async def stop(self) -> None:
        """Cancel the write and wait until its statement is undone."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        try:
            outcome = task.result()
        except asyncio.CancelledError:
            self.error = fiber_is_cancelled()
        except BoxError as error:
            self.error = error
        except Exception as bug:
            self.error = BoxError(ErrorCode.UNKNOWN, f"{type(bug).__name__}: {bug}")
            task.get_loop().call_exception_handler({"message": "a write with triggers failed", "exception": bug})
        else:
            if isinstance(outcome, Pending):
                outcome.on_done(self._committed)
                return
            self.result = outcome
        self.finish()

    def _committed(self, commit: Pending) -> None:
        self.error, self.result = commit.error, commit.result
        self.finish()


async def completed(outcome: Outcome) -> bytes | None:
    """Return the result of a write once it is known.

    Raises:
        BoxError: the error of the write.
    """
    return await outcome.wait() if isinstance(outcome, Pending) else outcome
