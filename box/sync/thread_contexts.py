"""Finds the context of a blocking call, that is the transaction of its thread.

```
a thread that has a transaction open      the transaction's
any other                                 a new one: the call is a transaction of its own
```
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from box.session import Context
from box.sync.loop_thread import LoopThread
from box.sync.thread_commits import ThreadCommits
from box.sync.thread_statements import ThreadStatements, WaitingStatement
from box.sync.thread_transactions import ThreadTransactions

if TYPE_CHECKING:
    from box.embed.commits import Commits
    from box.embed.embedding import Embedding
    from box.embed.sql_statements import SqlResult

T = TypeVar("T")


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
        self.transactions = ThreadTransactions(self._core, thread, self.commits)
        self.statements = ThreadStatements(self._core, thread, self.commits)
        embedding.watchers[self] = None

    def __reduce__(self) -> str:
        """Refuse to be pickled or copied; see `Embedding.__reduce__`."""
        return self._embedding.__reduce__()

    @property
    def own(self) -> Context | None:
        """The context of the transaction that this thread has open, or None."""
        found: Context | None = getattr(self._local, "ctx", None)
        return found

    def at_hand(self) -> Context:
        """Return the context of this thread's transaction, or the shared context for calls that belong to no
        transaction and are over when they return.
        """
        return getattr(self._local, "ctx", None) or self._idle

    def current(self, caller: str) -> Context:
        """Return the context of one call."""
        return getattr(self._local, "ctx", None) or self.of_loop.new()

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

    def execute(self, statement: Callable[[Context], SqlResult | WaitingStatement | None]) -> SqlResult | None:
        """Run a statement of SQL by this function in the calling thread, in its context. Returns None if the thread of
        the loop has to run it.
        """
        thread = self.thread
        if not thread.is_direct:
            return None
        return self.statements.ended(thread.run(statement, self.at_hand()))

    def _interrupted(self, error: BaseException) -> None:
        """Stop the node after an exception in the middle of a change: how far the change came is unknown, only the log
        counts.
        """
        reason = f"The node has stopped: {type(error).__name__} has interrupted a change; what is in its log counts"
        self.thread.fail(reason)
        self._core.panic(reason)
