"""The context in which a call of the embedding program runs: whose transaction is it part of?

```
called in                                         context
a function or trigger that Lua or a write called  that of the fiber or the write
a task that has a transaction open                the transaction's
anything else                                     a new one: the call is a transaction of its own
another thread than the node's                    RuntimeError
```

Without versions of tuples (`memtx_use_mvcc_engine`) others would see what an open transaction has changed, so its task
must not give way: the loop then calls back before it runs anybody else, and the changes are undone at that moment
(`TransactionManager.on_yield`), as Tarantool does with a fiber that yields.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
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
_FORKED: Final = (
    "in a fork: the node belongs to the process that has started it, and a fork of that needs one of its own"
)


class TaskTransaction:
    """A transaction that a task has open."""

    __slots__ = ("ctx", "error", "interruption", "task", "txn", "watch")

    def __init__(self, ctx: Context, txn: Transaction, task: asyncio.Task[Any]) -> None:
        self.ctx = ctx
        self.txn = txn
        self.task = task
        self.watch: asyncio.Handle | None = None
        self.error: BoxError | None = None
        """The reason of an end that was not its task's doing."""
        self.interruption: str | None = None
        """The place of the await that has undone it, for a person."""

    @property
    def is_open(self) -> bool:
        """False once it was committed or rolled back."""
        return self.ctx.txn is self.txn


class TaskContexts:
    """See the module's text. One for each time that a node runs."""

    def __init__(self, node: Instance) -> None:
        self._node = node
        self._loop = node.loop
        self._session: Session = node.new_context().session
        self._thread = threading.get_ident()
        self._open: dict[asyncio.Task[Any], TaskTransaction] = {}
        self._inside: Context | None = None
        self._idle = Context(self._session)
        self.commits = Commits(node, _ready_of(self._loop))
        self.is_forked = False
        """This is a child of the process that has started the node."""
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Refuse every call: the node lives in the parent."""
        self.is_forked = True
        self._thread = _NO_THREAD
        forks.separate(self._loop)

    @property
    def idle(self) -> Context | None:
        """The context for calls that belong to no transaction, and are over when they return."""
        if self._open or self._inside is not None or threading.get_ident() != self._thread:
            return None
        return self._idle

    def current(self, caller: str) -> Context:
        """The context of one call.

        Raises:
            RuntimeError: in another thread than the node's.
        """
        self.check_thread(caller)
        if self._inside is not None:
            return self._inside
        if self._open:
            own = self._look_at_open()
            if own is not None:
                return own.ctx
        return Context(self._session)

    def check_thread(self, caller: str) -> None:
        """Refuse a call of another thread than the node's, and of a fork of its process.

        Raises:
            RuntimeError: names `caller`.
        """
        if threading.get_ident() != self._thread:
            if self.is_forked:
                raise RuntimeError(f"{caller} is used {_FORKED}")
            remedy = "use asyncio.run_coroutine_threadsafe with the node's loop"
            raise RuntimeError(f"{caller} is used outside of the thread of its node: {remedy}")

    def new(self) -> Context:
        """A context for a line of execution of its own."""
        return Context(self._session)

    # -- transactions of tasks

    def begin(self) -> TaskTransaction:
        """Open a transaction for the current task.

        Raises:
            TransactionError: ACTIVE_TRANSACTION, the task has one open.
            UnsupportedError: the loop cannot tell when the task gives way.
        """
        ctx = self.current("transaction()")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("transaction() is used outside of a task")
        if ctx.txn is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        if not self._node.tuples.allows_yield and self._inside is None:
            _queue_of(self._loop)
        opened = TaskTransaction(ctx, self._node.txns.begin(ctx), task)
        if self._inside is None:
            self._open[task] = opened
        return opened

    def end(self, opened: TaskTransaction) -> None:
        """The transaction is over, or is about to be committed."""
        self._open.pop(opened.task, None)
        if opened.watch is not None:
            opened.watch.cancel()
            opened.watch = None

    def stop(self) -> None:
        """Roll back what is open."""
        for opened in list(self._open.values()):
            self.end(opened)
            if opened.is_open:
                opened.error = fiber_is_cancelled()
                self._node.txns.fiber_stopped(opened.ctx)

    def _look_at_open(self) -> TaskTransaction | None:
        """The transaction of the current task. Those of others have waited, if they must not."""
        task = asyncio.current_task(self._loop)
        own = self._open.get(task) if task is not None else None
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
        """The transaction's task awaits something: undo its changes, and remember where."""
        self._node.txns.on_yield(opened.ctx)
        if opened.txn.aborted_by_yield and opened.interruption is None:
            opened.interruption = place_of_await(opened.task)

    def _call_first(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Have the loop call back before it runs anything else."""
        handle = asyncio.Handle(callback, (), self._loop)
        _queue_of(self._loop).appendleft(handle)
        return handle

    # -- calls from inside a fiber or a write

    def run_inside(self, ctx: Context, function: Callable[..., T], *args: Any) -> T:
        """Call a function for the line of execution of `ctx`."""
        previous, self._inside = self._inside, ctx
        try:
            return function(*args)
        finally:
            self._inside = previous

    async def drive_inside(self, ctx: Context, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine for the line of execution of `ctx`, which gives way whenever the coroutine waits."""
        result: T = await _SteppedCoroutine(self, ctx, work)
        return result


class _SteppedCoroutine:
    """Awaits a coroutine step by step."""

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
    """The handles that a loop of asyncio is about to run; None for a loop of another kind."""
    queue = getattr(loop, "_ready", None)
    return queue if isinstance(queue, deque) else None


def _queue_of(loop: asyncio.AbstractEventLoop) -> deque[asyncio.Handle]:
    """The handles that a loop of asyncio is about to run. UNSUPPORTED for a loop of another kind."""
    queue = _ready_of(loop)
    if queue is None:
        name = type(loop).__module__.partition(".")[0]
        raise unsupported(f"The event loop of {name}", "transactions without memtx_use_mvcc_engine")
    return queue
