"""Finds the context in which a call of the embedding program runs, that is the transaction it belongs to.

```
called in                                         context
a function or trigger that Lua or a write called  that of the fiber or the write
a task that has a transaction open                the transaction's
anything else                                     a new one: the call is a transaction of its own
another thread or loop than the node's            RuntimeError, except for requests that need no wait
```

Without tuple versions (`memtx_use_mvcc_engine`) other tasks would see the changes of an open transaction, so its task
must not yield. If it does, the loop calls back before it runs any other task, and the changes are undone at that moment
(`TransactionManager.on_yield`), as in Tarantool when a fiber yields.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

from box import forks
from box.embed.await_places import place_of_await
from box.embed.commits import Commits
from box.errors import ErrorCode, client_error, fiber_is_cancelled, unsupported
from box.session import Context, Session

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.instance.node import Instance
    from box.txn.transaction import Transaction

T = TypeVar("T")

_NO_THREAD: Final = -1
_FORKED: Final = "in a fork: the node belongs to the process that has started it; start a node after the fork instead"


class TaskTransaction:
    """A transaction that a task has opened."""

    __slots__ = ("ctx", "error", "interruption", "task", "txn", "watch")

    def __init__(self, ctx: Context, txn: Transaction, task: asyncio.Task[Any]) -> None:
        self.ctx = ctx
        self.txn = txn
        self.task = task
        self.watch: asyncio.Handle | None = None
        self.error: BoxError | None = None
        """The reason if something other than the task has ended the transaction."""
        self.interruption: str | None = None
        """The place of the `await` that has aborted the transaction, as text for a person."""

    @property
    def is_open(self) -> bool:
        """True until the transaction is committed or rolled back."""
        return self.ctx.txn is self.txn


class TaskContexts:
    """Finds the context of each call. There is a new object for each start of the node."""

    def __init__(self, node: Instance) -> None:
        self._node = node
        self._loop = node.loop
        self._session: Session = node.new_context().session
        self._thread = get_ident()
        self._open: dict[asyncio.Task[Any], TaskTransaction] = {}
        self._only: TaskTransaction | None = None
        """The open transaction if there is exactly one."""
        self._inside: Context | None = None
        self._idle = Context(self._session)
        self.commits = Commits(node, _ready_of(self._loop))
        self.is_forked = False
        """True in a child process of the one that has started the node."""
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Refuse every call from now on, in a forked child: the node belongs to the parent process."""
        self.is_forked = True
        self._thread = _NO_THREAD
        forks.separate(self._loop)

    def at_hand(self) -> Context | None:
        """Return the context of the task's transaction, or the shared context for calls that belong to no transaction
        and are over when they return.

        None if that takes a closer look, or if the call comes from a wrong thread.
        """
        if self._inside is not None or get_ident() != self._thread:
            return None
        if not self._open:
            return self._idle
        # The usual statement of a transaction: its task runs, and there is no other transaction to look at.
        only = self._only
        if only is not None and only.watch is not None and asyncio.current_task(self._loop) is only.task:
            return only.ctx
        return None

    def current(self, caller: str) -> Context:
        """Return the context of one call.

        Raises:
            RuntimeError: the call comes from another thread or another event loop than the node's.
        """
        if self._open and (ctx := self.at_hand()) is not None:
            return ctx
        self.check_thread(caller)
        if self._inside is not None:
            return self._inside
        if self._open:
            own = self._look_at_open()
            if own is not None:
                return own.ctx
        return Context(self._session)

    def check_thread(self, caller: str) -> None:
        """Refuse a call from another thread or event loop than the node's, or from a fork of its process.

        Raises:
            RuntimeError: the call is refused; the text names `caller`.
        """
        if get_ident() != self._thread:
            if self.is_forked:
                raise RuntimeError(f"{caller} is used {_FORKED}")
            remedy = "use asyncio.run_coroutine_threadsafe with the node's loop"
            raise RuntimeError(f"{caller} is used outside of the thread of its node: {remedy}")
        self.check_loop(caller)

    def check_loop(self, caller: str) -> None:
        """Refuse a call from another event loop than the node's, such as that of a second `asyncio.run`.

        Raises:
            RuntimeError: the call is refused; the text names `caller`.
        """
        running = asyncio._get_running_loop()
        if running is not self._loop and running is not None:
            remedy = "start, use and stop it in one loop, or use box.sync.Node, which has a loop of its own"
            raise RuntimeError(
                f"{caller} is used in another event loop than the one that has started the node: {remedy}"
            )

    def new(self) -> Context:
        """Return a new context, for a separate transaction."""
        return Context(self._session)

    # -- transactions of tasks

    def begin(self) -> TaskTransaction:
        """Open a transaction for the current task.

        Raises:
            TransactionError: ACTIVE_TRANSACTION, the task has one open already.
            UnsupportedError: the loop offers no way to notice that the task yields.
        """
        ctx = self.current("transaction()")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("transaction() is used outside of a task")
        if ctx.txn is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        if not self._node.tuples.allows_yield and self._inside is None:
            _queue_of(self._loop)
        txns = self._node.txns
        if self._inside is not None:
            return TaskTransaction(ctx, txns.begin(ctx), task)
        queue = _ready_of(self._loop)
        opened = TaskTransaction(ctx, txns.begin(ctx) if queue is None else txns.begin_lone(ctx), task)
        if opened.txn.is_lone:
            opened.watch = self._call_first(lambda: self._shared(opened))
        self._open[task] = opened
        self._only = opened if len(self._open) == 1 else None
        return opened

    def _shared(self, opened: TaskTransaction) -> None:
        """Let other tasks take part, because the transaction's own task awaits something."""
        opened.watch = None
        self._node.txns.share(opened.txn)

    def end(self, opened: TaskTransaction) -> None:
        """Forget a transaction that has ended or is about to be committed."""
        self._open.pop(opened.task, None)
        self._only = next(iter(self._open.values())) if len(self._open) == 1 else None
        if opened.watch is not None:
            opened.watch.cancel()
            queue = _queue_of(self._loop)
            if queue and queue[0] is opened.watch:
                del queue[0]  # `Commits` writes at once only while no other handle waits
            opened.watch = None

    def stop(self) -> None:
        """Roll back all open transactions."""
        for opened in list(self._open.values()):
            self.end(opened)
            if opened.is_open:
                opened.error = fiber_is_cancelled()
                self._node.txns.fiber_stopped(opened.ctx)

    def _look_at_open(self) -> TaskTransaction | None:
        """Return the open transaction of the current task. Open transactions of other tasks have yielded: roll back
        those that must not.
        """
        task = asyncio.current_task(self._loop)
        own = self._open.get(task) if task is not None else None
        for opened in self._open.values():
            if opened is not own and opened.txn.is_lone:  # this task began in the middle of a step of that one
                self._node.txns.share(opened.txn)
        if not self._node.tuples.allows_yield:
            for opened in self._open.values():
                if opened is not own:
                    self._has_waited(opened)
            if own is not None and own.watch is None:
                own.watch = self._call_first(lambda: self._yielded(own))
        return own

    def _yielded(self, opened: TaskTransaction) -> None:
        opened.watch = None
        self._has_waited(opened)

    def _has_waited(self, opened: TaskTransaction) -> None:
        """Undo the changes of a transaction whose task awaits something, and remember the place."""
        self._node.txns.on_yield(opened.ctx)
        if opened.txn.aborted_by_yield and opened.interruption is None:
            opened.interruption = place_of_await(opened.task)

    def _call_first(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Schedule a callback that the loop runs before anything else."""
        handle = asyncio.Handle(callback, (), self._loop)
        _queue_of(self._loop).appendleft(handle)
        return handle

    # -- calls from inside a fiber or a write

    def run_inside(self, ctx: Context, function: Callable[..., T], *args: Any) -> T:
        """Call a function with `ctx` as the context of its requests."""
        previous, self._inside = self._inside, ctx
        try:
            return function(*args)
        finally:
            self._inside = previous

    async def drive_inside(self, ctx: Context, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine with `ctx` as the context of its requests; the line of execution yields whenever the
        coroutine waits.
        """
        result: T = await _SteppedCoroutine(self, ctx, work)
        return result


class _SteppedCoroutine:
    """Awaits a coroutine step by step, so that code can run before and after each step."""

    def __init__(self, contexts: TaskContexts, ctx: Context, work: Coroutine[Any, Any, Any]) -> None:
        self._contexts = contexts
        self._ctx = ctx
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        step = _sender(self._work, None)
        while True:
            try:
                waited_for = self._contexts.run_inside(self._ctx, step)
            except StopIteration as end:
                return end.value
            self._contexts._node.txns.on_yield(self._ctx)
            try:
                value = yield waited_for
            except BaseException as error:
                step = _thrower(self._work, error)
            else:
                step = _sender(self._work, value)


def _sender(work: Coroutine[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: work.send(value)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)


def _ready_of(loop: asyncio.AbstractEventLoop) -> deque[asyncio.Handle] | None:
    """Return the queue of handles that an asyncio loop runs next, or None for another kind of loop."""
    queue = getattr(loop, "_ready", None)
    return queue if isinstance(queue, deque) else None


def _queue_of(loop: asyncio.AbstractEventLoop) -> deque[asyncio.Handle]:
    """Return the queue of handles that an asyncio loop runs next.

    Raises:
        UnsupportedError: the loop is of another kind.
    """
    queue = _ready_of(loop)
    if queue is None:
        name = type(loop).__module__.partition(".")[0]
        remedy = "start the node with memtx_use_mvcc_engine=True"
        raise unsupported(f"The event loop of {name}", f"transactions without memtx_use_mvcc_engine: {remedy}")
    return queue
