"""The event loop of a simulation: time passes when nothing is left to do, and processes can be halted or killed.

```
ready callbacks        run in order, at one moment of simulated time
none are ready         time jumps to the next timer
no timer either        Deadlock: nobody will ever go on
```

Each simulated process runs its callbacks in a context that names it (`Process.run`). Its gate decides what becomes of
them:

```
gate     callbacks of the process
none     run
halted   are kept until it goes on, as those of a stopped operating-system process
counts   so many run, then it dies: at any `await`
dead     never run
```

Threads do not exist here: what a node gives to `run_in_executor` runs on the loop after a time of `call_delay`, and
its outcome is known after such a time again. A process may die in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from time import process_time
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_TURNS: Final = 256
"""Turns of the loop between two looks at the processor time."""
_RESOLUTION: Final = 1e-9
"""Seconds within which timers are due at one moment."""
_CANCELLED: Final = 200
"""Cancelled timers that may lie about."""

EPOCH: Final = 1_600_000_000.0
"""Seconds since 1970 at which every simulation begins."""


class Blocking(Protocol):
    """Something that takes time while a callback runs."""

    def time(self) -> float:
        """Simulated time, and what has been taken since the callback began."""


class Metered(Protocol):
    """A disk whose calls take time."""

    def restart_meter(self) -> float:
        """Seconds that calls have taken since the last time."""


class Deadlock(Exception):
    """Nothing is left to do, but somebody waits. The text lists the tasks and where each of them stands."""


class TooSlow(Exception):
    """The processor time that a simulation may take is over. The text lists the tasks and where each of them stands."""


class SimulatedCall(asyncio.TimerHandle):
    """A callback that is due at a time, in the name of a process."""

    __slots__ = ("process",)

    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _context: Context
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: Context,
        process: Process | None,
    ) -> None:
        """All that the base's does, without what debugging costs."""
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._scheduled = False
        self.process = process

    def cancel(self) -> None:
        """As the base's, without asking whether somebody debugs."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._scheduled:
                self._loop._timer_handle_cancelled(self)


class Process:
    """One simulated operating-system process: the callbacks that run in its context."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.is_halted = False
        self.is_dead = False
        self.has_run = False
        """Some of its callbacks have run since somebody looked; it is among the loop's `active` then."""
        self._loop = loop
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Those that have not ended, in the order in which they began."""
        self.ended: asyncio.Future[None] = loop.create_future()
        """Has a result when the process is dead."""
        self.gate: Callable[[SimulatedCall], bool] | None = None
        """Asked for each callback whether it may run; see the module's table."""
        self._held: deque[SimulatedCall] = deque()
        self._left = 0
        self._at_last: Callable[[], object] | None = None
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

    def mark(self) -> None:
        """Something runs in its name."""
        if not self.has_run:
            self.has_run = True
            self._loop.active.append(self)

    def _set_gate(self) -> None:
        if self.is_dead:
            self.gate = self._drop
        elif self.is_halted:
            self.gate = self._hold
        else:
            self.gate = None if self._at_last is None else self._count

    def _drop(self, call: SimulatedCall) -> bool:
        return False

    def _hold(self, call: SimulatedCall) -> bool:
        self._held.append(call)
        return False

    def _count(self, call: SimulatedCall) -> bool:
        self._left -= 1
        if self._left > 0:
            return True
        at_last, self._at_last = self._at_last, None
        self._set_gate()
        if at_last is not None:
            at_last()
        return self.gate is None

    def halt(self) -> None:
        """Stop as by SIGSTOP."""
        self.is_halted = True
        self._set_gate()

    def go_on(self) -> None:
        """Run everything that has become due meanwhile."""
        self.is_halted = False
        self._set_gate()
        self._loop.resume(self._held)
        self._held.clear()

    def after_callbacks(self, number: int, then: Callable[[], object]) -> None:
        """Call `then` instead of the callback that comes after so many others."""
        self._left, self._at_last = number, then
        self._set_gate()

    def die(self) -> None:
        """End without a last word: no callback of the process runs any more."""
        if self.is_dead:
            return
        self.is_dead = True
        self._set_gate()
        self._held.clear()
        self.bury()
        self._loop.empty_timers(self)
        self.ended.set_result(None)

    def bury(self) -> None:
        """Let go of the coroutines now, and not when the collector of garbage comes by. What their `finally` does finds
        sockets and files closed, and what it starts never runs."""
        tasks, self.tasks = list(self.tasks), {}
        for task in tasks:
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._loop.bury(task)
            with suppress(BaseException), self._loop.as_running():
                self.run(coroutine.close)


_NOBODY: Final = Context()


def _nothing() -> None:
    """Stand for a call of a dead process."""


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process in whose name the present callback runs."""
    return _PROCESS.get()


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module's text. `call_delay` gives the seconds that a call in another thread takes."""

    def __init__(self, call_delay: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._simulated_time = 0.0
        self.turns = 0
        """Of the loop, from the beginning on."""
        self.cpu_deadline: float | None = None
        """The processor time of this process at which the simulation has taken too long: it never sleeps, and a busy
        machine does not change what it needs."""
        self.on_turn: Callable[[], None] | None = None
        """Called before every turn of the loop after one in which a process has run: whatever it sees is the state
        between two callbacks."""
        self.active: list[Process] = []
        """Processes of which callbacks have run; whoever looks at them takes them out."""
        self._call_delay = call_delay
        self._deadlock: Deadlock | None = None
        self._owners: dict[asyncio.Task[Any], Process | None] = {}
        """The tasks that have not ended, in the order in which they began."""
        self._buried: list[asyncio.Task[Any]] = []
        self._last_told: dict[Process | None, float] = {}
        self.blocking: Blocking | None = None
        """The disk of the thread that runs now: what the thread tells comes when the disk is ready."""
        self._due: deque[SimulatedCall] = deque()
        self._timers: list[tuple[float, int, SimulatedCall]] = []
        self._numbers = count()
        self._cancelled_timers = 0

    # -- time

    def time(self) -> float:
        """Simulated seconds since the beginning."""
        return self._simulated_time

    def _check_deadline(self) -> None:
        """TooSlow if `cpu_deadline` is over."""
        if self.cpu_deadline is not None and process_time() > self.cpu_deadline:
            self.cpu_deadline = None
            raise TooSlow(self.describe_tasks("the time for this run is over, and these wait:"))

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
        """Each task with its process, the calls that it is in, and the place where it waits."""
        lines = [title]
        for task, process in self._owners.items():
            lines.append(f"  {process.name if process else '-'}: {task.get_name()}: {_standing(task)}")
        return "\n".join(lines)

    def bury(self, task: asyncio.Task[Any]) -> None:
        """A task of a dead process: it never ends."""
        self._owners.pop(task, None)
        self._buried.append(task)

    def bury_all(self) -> None:
        """Let go of the tasks that belong to nobody: the simulation is over."""
        while self._owners:  # what a `finally` starts is one more
            task = next(iter(self._owners))
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self.bury(task)
            with suppress(BaseException), self.as_running():
                coroutine.close()

    @contextmanager
    def as_running(self) -> Iterator[None]:
        """For what may start tasks: without a running loop it would leave coroutines that nobody has awaited."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # -- turns

    def _run_once(self) -> None:
        """Some turns. In one turn runs everything that is due now, and not what comes of it."""
        due, timers, active = self._due, self._timers, self.active
        for _ in range(_TURNS):
            self.turns += 1
            if not due:
                self._pass_time()
            if timers:
                limit = self._simulated_time + _RESOLUTION
                while timers and timers[0][0] < limit:
                    call = heappop(timers)[2]
                    call._scheduled = False
                    due.append(call)
            if active and self.on_turn is not None:
                self.on_turn()
            for _ in range(len(due)):
                call = due.popleft()
                if call._cancelled:
                    continue
                process = call.process
                if process is not None:
                    if process.gate is not None and not process.gate(call):
                        continue
                    if not process.has_run:
                        process.has_run = True
                        active.append(process)
                try:
                    call._context.run(call._callback, *call._args)
                except (SystemExit, KeyboardInterrupt, TooSlow):
                    raise
                except BaseException as error:
                    self._report(call, error)
            if self._stopping:  # type: ignore[attr-defined]
                return
        self._check_deadline()

    def _pass_time(self) -> None:
        """Time jumps to the next timer. Without one nothing will happen any more: `run_until_complete` raises."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if timers:
            self._simulated_time = max(self._simulated_time, timers[0][0])
        elif not self._stopping:  # type: ignore[attr-defined]
            self._deadlock = Deadlock(self.describe_tasks())
            self.stop()

    def _report(self, call: SimulatedCall, error: BaseException) -> None:
        context = {"message": f"Exception in callback {call!r}", "exception": error, "handle": call}
        call._context.run(self.call_exception_handler, context)

    def resume(self, calls: deque[SimulatedCall]) -> None:
        """Callbacks that were kept are due now."""
        self._due += calls

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
        if context is None:
            context = copy_context()
        call = SimulatedCall(self._simulated_time, callback, args, self, context, context.get(_PROCESS))
        self._due.append(call)
        return call

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        call = SimulatedCall(when, callback, args, self, context, context.get(_PROCESS))
        call._scheduled = True
        heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._simulated_time + delay, callback, *args, context=context)

    def empty_timers(self, process: Process) -> None:
        """Let go of what the timers of a dead process would have called, its instance mostly. They stay themselves:
        time goes by in the same steps whether somebody dies or not."""
        for _, _, call in self._timers:
            if call.process is process and not call._cancelled:
                call._callback, call._args = _nothing, ()

    def _timer_handle_cancelled(self, handle: SimulatedCall) -> None:
        if not handle._scheduled:
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED and self._cancelled_timers > len(self._timers) // 2:
            # In place: a turn may be looking at the list.
            self._timers[:] = [timer for timer in self._timers if not timer[2]._cancelled and timer[2] is not handle]
            heapify(self._timers)
            self._cancelled_timers = 0

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """A thread tells the loop something: in order, after what it has waited for its disk."""
        process = _PROCESS.get()
        at = self._simulated_time if self.blocking is None else self.blocking.time()
        if at == self._simulated_time and at > self._last_told.get(process, -1.0):
            return self.call_soon(callback, *args, context=context)
        at = self._last_told[process] = max(at, self._last_told.get(process, 0.0) + _RESOLUTION)
        return self.call_at(at, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Call `func` on the loop, later. The result comes when the disk of a simulated pool is ready."""
        future: asyncio.Future[_T] = self.create_future()
        disk: Metered | None = getattr(executor, "disk", None)

        def run() -> None:
            if future.done():
                return
            if disk is not None:
                disk.restart_meter()
            try:
                settle: Callable[[], None] = partial(future.set_result, func(*args))
            except Exception as error:
                settle = partial(future.set_exception, error)
            spent = 0.0 if disk is None else disk.restart_meter()
            self.call_later(self._call_delay() + spent, end, settle)

        def end(settle: Callable[[], None]) -> None:
            if not future.done():
                settle()

        self.call_later(self._call_delay(), run)
        return future

    def _write_to_self(self) -> None:
        """There is no other thread that could wake the loop."""


def _standing(task: asyncio.Task[Any]) -> str:
    """The coroutines that wait for each other, the innermost last, and the file and line of that one."""
    names, place = [], "nowhere"
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        names.append(frame.f_code.co_qualname)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        waiting = waiting.cr_await
    return f"{' > '.join(names)} at {place}"
