"""Writes that are on their way: what `Dml.write` gives instead of a result that is not known yet.

```
waits for                      class          ends with
the log, the limbo             Commit         the commit's outcome (box.txn.transaction)
a user's trigger, then those   WaitingWrite   the outcome of the whole write
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar

from box.eager import go_on
from box.errors import BoxError, ErrorCode, fiber_is_cancelled


class Pending:
    """Something that ends later, once. `done` is true then, and `error` says why it failed; `result` is the tuple that
    it gives (None: there is none). The error is FiberIsCancelled if the node was closed before the outcome was known.

    Subclasses have the slots, because some are entries of the journal as well: `__slots__` stays empty here.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    _callbacks: Callable[[Any], None] | list[Callable[[Any], None]] | None
    """Mostly there is one."""
    done: bool
    error: BoxError | None
    result: bytes | None

    def on_done(self, callback: Callable[[Any], None]) -> None:
        """Call back once at the end, at once if that was before.

        The argument is this object, or a `Told` where its callers learn something before its end or after it.
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
        """Wait for the end; the result, or its error raised. Cancelling the waiter leaves what it waits for alone."""
        ended: Pending = self
        if not self.done:
            future: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()
            self.on_done(lambda pending: _wake(future, pending))
            ended = await future
        if ended.error is not None:
            raise ended.error
        return ended.result

    may_be_cancelled: ClassVar[bool] = False
    """A commit may not: what was handed to the log is decided there."""

    def cancel(self) -> None:
        """Ask it to end with FiberIsCancelled."""
        raise AssertionError(f"{self!r} cannot be cancelled")

    def finish(self) -> None:
        """It has ended: tell those who wait for it."""
        self.done = True
        callbacks, self._callbacks = self._callbacks, None
        _call(callbacks, self)

    def take_callers(self) -> Callers:
        """Take over the duty to tell those who wait now. The end of this object tells only callers that come later."""
        callers, self._callbacks = Callers(self._callbacks), None
        return callers


class Told(Pending):
    """An error that callers learn instead of the end of what they wait for."""

    __slots__ = ("_callbacks", "done", "error", "result")

    def __init__(self, error: BoxError) -> None:
        self._callbacks = None
        self.done = True
        self.error = error
        self.result = None


class Callers:
    """Those who waited for a `Pending` and do so no longer. They must be told once."""

    __slots__ = ("_callbacks",)

    def __init__(self, callbacks: Callable[[Any], None] | list[Callable[[Any], None]] | None) -> None:
        self._callbacks = callbacks

    def tell(self, error: BoxError) -> None:
        """Raise `error` in each of them."""
        callbacks, self._callbacks = self._callbacks, None
        _call(callbacks, Told(error))


def _call(callbacks: Callable[[Any], None] | list[Callable[[Any], None]] | None, ended: Pending) -> None:
    if callbacks is None:
        return
    if isinstance(callbacks, list):
        for callback in callbacks:
            callback(ended)
    else:
        callbacks(ended)


def _wake(future: asyncio.Future[Pending], ended: Pending) -> None:
    if not future.done():
        future.set_result(ended)


Outcome = bytes | Pending | None
"""Of a write: the tuple that it stored or removed, None where there is none, or that this is not known yet."""


class WaitingWrite(Pending):
    """A write whose trigger waits for `waited_for`: its rest is a task."""

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
        """The trigger's wait ends, the statement is undone. A commit that follows is not stopped any more."""
        self._task.cancel()

    async def stop(self) -> None:
        """Cancel it, and wait until its statement is undone."""
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
    """The result of a write once it is known. Raises its error."""
    return await outcome.wait() if isinstance(outcome, Pending) else outcome
