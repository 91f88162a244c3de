"""Finds the context of a blocking call, that is the transaction of its thread.

```
a thread that has a transaction open      the transaction's
any other                                 a new one: the call is a transaction of its own
```
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from box.embed.commits import Commits
from box.errors import BoxError
from box.session import Context
from box.sync.loop_thread import LoopThread, lock_until
from box.txn.pending import Pending

if TYPE_CHECKING:
    from box.embed.embedding import Embedding
    from box.instance.node import Instance

T = TypeVar("T")

LEGITIMATE = (BoxError, TypeError, ValueError)
"""Exceptions that a request may raise without leaving anything half done. Any other exception has interrupted it in the
middle.
"""


class WaitingOutcome:
    """A change that is made but not yet written; the thread waits for it without holding the turn."""

    __slots__ = ("done", "pending")

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.done = lock_until(pending)


class ThreadCommits(Commits):
    """Runs changes in the thread that holds the turn and writes their commits at once: no task of the loop could
    join.
    """

    __slots__ = ("_interrupted",)

    def __init__(self, core: Instance, interrupted: Callable[[BaseException], None]) -> None:
        super().__init__(core, None)
        self._interrupted = interrupted

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that changes something, and write its commit.

        An exception such as KeyboardInterrupt in the middle leaves an unknown state, so it ends the node.
        """
        # As `Commits` of box.embed does on the loop, written out here: every request of a thread comes this way.
        fiber_round, dml = self._round, self._core.dml
        try:
            fiber_round.is_held = dml.is_alone = True
            try:
                outcome = function(*args)
            finally:
                dml.is_alone = False
                fiber_round.is_held = fiber_round.is_interrupted = False
                journal = fiber_round.journal
                if journal is not None:
                    fiber_round.journal = None
                    journal.flush()
        except LEGITIMATE:
            raise
        except BaseException as error:
            self._interrupted(error)
            raise
        if outcome.__class__ is bytes or not isinstance(outcome, Pending):
            return outcome
        if not outcome.done:
            return cast("T", WaitingOutcome(outcome))
        if outcome.error is not None:
            self._look_for_interruption()
            raise outcome.error
        return cast("T", outcome.result)

    def _look_for_interruption(self) -> None:
        """Find out whether a failed write was interrupted by an exception from outside."""
        error = None if self._core.journal is None else self._core.journal.unexpected_failure
        if error is not None and not isinstance(error, MemoryError):
            self._interrupted(error)
            raise error


class ThreadContexts:
    """The contexts of a program's threads, for one start of a node."""

    def __init__(self, embedding: Embedding, thread: LoopThread) -> None:
        self._embedding = embedding
        self._core = embedding.core
        self.thread = thread
        self._local = threading.local()
        self._idle = embedding.contexts.new()
        self._open: dict[Context, None] = {}
        self.of_loop = embedding.contexts
        """The contexts for calls in the thread of the loop."""
        self.commits: Commits = ThreadCommits(self._core, self._interrupted)
        embedding.watchers[self] = None

    @property
    def own(self) -> Context | None:
        """The context of the transaction that this thread has open, or None."""
        found: Context | None = getattr(self._local, "ctx", None)
        return found

    @property
    def idle(self) -> Context | None:
        """The shared context for calls that belong to no transaction and are over when they return; None inside a
        transaction.
        """
        return self._idle if getattr(self._local, "ctx", None) is None else None

    def current(self, caller: str) -> Context:
        """Return the context of one call."""
        return self.own or self.new()

    def new(self) -> Context:
        """Return a new context, for a separate transaction."""
        return self._embedding.contexts.new()

    def enter(self, ctx: Context) -> None:
        """Note that this thread has opened a transaction."""
        self._open[ctx] = None
        self._local.ctx = ctx

    def leave(self, ctx: Context) -> None:
        """Note that this thread's transaction has ended."""
        self._open.pop(ctx, None)
        self._local.ctx = None

    def close(self) -> None:
        """Roll back the open transactions and refuse new ones, because the node stops."""
        self._embedding.watchers.pop(self, None)
        for ctx in list(self._open):
            self._core.txns.fiber_stopped(ctx)

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the thread of the loop, as part of this thread's transaction, and wait for its outcome."""
        ctx = self.own
        if ctx is None:
            return self.thread.call(work)
        return self.thread.call(lambda: self._embedding.contexts.drive_inside(ctx, work()))

    def _interrupted(self, error: BaseException) -> None:
        """Stop the node after an exception in the middle of a change: how far the change came is unknown, only the log
        counts.
        """
        reason = f"The node has stopped: {type(error).__name__} has interrupted a change; what is in its log counts"
        self.thread.fail(reason)
        self._core.panic(reason)
