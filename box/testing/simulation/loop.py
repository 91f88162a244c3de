"""The event loop of a simulation: time passes when nothing is left to do, and processes can be halted or killed.

```
ready callbacks        run in order, at one moment of simulated time
none are ready         time jumps to the next timer
no timer either        Deadlock: nobody will ever go on
```

Each simulated process runs its callbacks in a context that names it (`Process.run`). Callbacks of a halted process are
kept until it goes on, as those of a stopped operating-system process; those of a dead one never run, so that a process
may die at any `await`.

Threads do not exist here: what a node gives to `run_in_executor` runs on the loop after a time of `call_delay`, and
its outcome is known after such a time again. A process may die in between.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from time import monotonic
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_TURNS: Final = 256
"""Turns of the loop between two looks at the real clock."""

EPOCH: Final = 1_600_000_000.0
"""Seconds since 1970 at which every simulation begins."""


class Blocking(Protocol):
    """Something that takes time while a callback runs."""

    def time(self) -> float:
        """Simulated time, and what has been taken since the callback began."""


class Deadlock(Exception):
    """Nothing is left to do, but somebody waits. The text lists the tasks and where each of them stands."""


class TooSlow(Exception):
    """The real time that a simulation may take is over. The text lists the tasks and where each of them stands."""


class Process:
    """One simulated operating-system process: the callbacks that run in its context."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.is_halted = False
        self.is_dead = False
        self._loop = loop
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Those that have not ended, in the order in which they began."""
        self.ended: asyncio.Future[None] = loop.create_future()
        """Has a result when the process is dead."""
        self._held: deque[tuple[Callable[..., object], tuple[Any, ...], Context]] = deque()
        self._context = Context()
        self._context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call something in the name of the process: what it starts belongs to the process, too."""
        return self.context().run(function, *arguments)

    def context(self) -> Context:
        """A context for a callback of the process."""
        return self._context.copy()

    def halt(self) -> None:
        """Stop as by SIGSTOP."""
        self.is_halted = True

    def go_on(self) -> None:
        """Run everything that has become due meanwhile."""
        self.is_halted = False
        while self._held:
            callback, arguments, context = self._held.popleft()
            self._loop.call_soon(callback, *arguments, context=context)

    def die(self) -> None:
        """End without a last word: no callback of the process runs any more."""
        if self.is_dead:
            return
        self.is_dead = True
        self._held.clear()
        self.bury()
        self.ended.set_result(None)

    def bury(self) -> None:
        """Let go of the coroutines now, and not when the collector of garbage comes by. What their `finally` does finds
        sockets and files closed, and what it starts never runs."""
        tasks, self.tasks = list(self.tasks), {}
        for task in tasks:
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._loop.bury(task)
            with suppress(BaseException):
                self.run(coroutine.close)

    def hold(self, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context) -> None:
        """Keep a callback that has become due for `go_on`."""
        self._held.append((callback, arguments, context))


_NOBODY: Final = Context()

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process in whose name the present callback runs."""
    return _PROCESS.get()


class _NoSelector(selectors.SelectSelector):
    """Waits by moving the clock."""

    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        self.loop.check_deadline()
        if timeout is None:
            self.loop.report_deadlock()
            return []
        if timeout > 0:
            self.loop.advance(timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """See the module's text. `call_delay` gives the seconds that a call in another thread takes."""

    def __init__(self, call_delay: Callable[[], float] = lambda: 0.0) -> None:
        selector = _NoSelector()
        self._simulated_time = 0.0
        self._turns = 0
        self.wall_deadline: float | None = None
        """The time of the real monotonic clock at which the simulation has taken too long."""
        self._call_delay = call_delay
        self._deadlock: Deadlock | None = None
        self._owners: dict[asyncio.Task[Any], Process | None] = {}
        """The tasks that have not ended, in the order in which they began."""
        self._buried: list[asyncio.Task[Any]] = []
        self._last_told: dict[Process | None, float] = {}
        self.blocking: Blocking | None = None
        """The disk of the thread that runs now: what the thread tells comes when the disk is ready."""
        super().__init__(selector)
        selector.loop = self
        self._clock_resolution = 1e-9

    # -- time

    def time(self) -> float:
        """Simulated seconds since the beginning."""
        return self._simulated_time

    def check_deadline(self) -> None:
        """TooSlow if `wall_deadline` is over. Looked at now and then."""
        self._turns += 1
        if self.wall_deadline is not None and not self._turns % _TURNS and monotonic() > self.wall_deadline:
            self.wall_deadline = None
            raise TooSlow(self.describe_tasks("the real time for this run is over, and these wait:"))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._simulated_time += seconds

    def report_deadlock(self) -> None:
        """Nothing will happen any more: end `run_until_complete` with an error."""
        self._deadlock = Deadlock(self.describe_tasks())
        self.stop()

    def run_until_complete(self, future: Any) -> Any:
        """As asyncio's; raises Deadlock if nothing is left to do before the end."""
        self._deadlock = None
        try:
            return super().run_until_complete(future)
        except RuntimeError:
            if self._deadlock is not None:
                raise self._deadlock from None
            raise

    def describe_tasks(self, title: str = "nothing is left to do, and these wait:") -> str:
        """Each task with its process and the place where it waits."""
        lines = [title]
        for task, process in self._owners.items():
            stack = task.get_stack(limit=1)
            place = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "nowhere"
            lines.append(f"  {process.name if process else '-'}: {task.get_name()} at {place}")
        return "\n".join(lines)

    def bury(self, task: asyncio.Task[Any]) -> None:
        """A task of a dead process: it never ends."""
        self._owners.pop(task, None)
        self._buried.append(task)

    def bury_all(self) -> None:
        """Let go of the tasks that belong to nobody: the simulation is over."""
        for task in list(self._owners):
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self.bury(task)
            with suppress(BaseException):
                coroutine.close()

    # -- callbacks

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        process = self._owners[task] = _PROCESS.get()
        task.add_done_callback(self._task_ended, context=_NOBODY)
        if process is not None:
            process.tasks[task] = None
            if process.is_dead:
                process.bury()
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        process = self._owners.pop(task, None)
        if process is not None:
            process.tasks.pop(task, None)

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        if context.get(_PROCESS) is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(_run, callback, args, context, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        if context.get(_PROCESS) is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, _run, callback, args, context, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """A thread tells the loop something: in order, after what it has waited for its disk."""
        process = _PROCESS.get()
        at = self._simulated_time if self.blocking is None else self.blocking.time()
        if at == self._simulated_time and at > self._last_told.get(process, -1.0):
            return self.call_soon(callback, *args, context=context)
        at = self._last_told[process] = max(at, self._last_told.get(process, 0.0) + 1e-9)
        return self.call_at(at, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Call `func` on the loop, later."""
        future: asyncio.Future[_T] = self.create_future()

        def run() -> None:
            if future.done():
                return
            try:
                settle: Callable[[], None] = partial(future.set_result, func(*args))
            except Exception as error:
                settle = partial(future.set_exception, error)
            self.call_later(self._call_delay(), end, settle)

        def end(settle: Callable[[], None]) -> None:
            if not future.done():
                settle()

        self.call_later(self._call_delay(), run)
        return future

    def _write_to_self(self) -> None:
        """There is no other thread that could wake the loop."""


def _run(callback: Callable[..., object], arguments: tuple[Any, ...], context: Context) -> None:
    process = _PROCESS.get()
    assert process is not None
    if process.is_halted:
        process.hold(callback, arguments, context)
    elif not process.is_dead:
        callback(*arguments)
