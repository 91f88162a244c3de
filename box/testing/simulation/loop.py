"""The event loop of a simulation: time passes when nothing is left to do, and processes can be halted or killed.

```
ready callbacks        run in order, at one moment of simulated time
none are ready         time jumps to the next timer
no timer either        Deadlock: nothing will ever happen again
```

Each simulated process runs its callbacks in a context that names it (`Process.run`). The gate of the process decides
what happens to them:

```
gate     callbacks of the process
none     run
halted   are kept until it continues, as those of a stopped operating-system process
counts   a number of them run, then the process dies: at any `await`
dead     never run
```

There are no threads: what a node passes to `run_in_executor` runs on the loop after `call_delay`, and its result is
delivered after another such delay. A process may die in between.
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
"""The turns of the loop between two checks of the processor time."""
_RESOLUTION: Final = 1e-9
"""The seconds within which timers count as due at the same moment."""
_CANCELLED: Final = 200
"""The number of cancelled timers from which on the list of timers is cleaned up."""

EPOCH: Final = 1_600_000_000.0
"""The Unix time in seconds at which every simulation begins."""


class Blocking(Protocol):
    """A disk whose calls take time while a callback runs."""

    def time(self) -> float:
        """Return simulated time plus the seconds that calls have taken since the callback began."""


class Metered(Protocol):
    """A disk that measures how long its calls take."""

    def restart_meter(self) -> float:
        """Return the seconds that calls have taken since the last restart, and begin to count anew."""


class Deadlock(Exception):
    """Nothing is left to do, but tasks wait. The text lists the tasks and the place where each waits."""


class TooSlow(Exception):
    """The simulation has used up its processor time. The text lists the tasks and the place where each waits."""


class SimulatedCall(asyncio.TimerHandle):
    """A callback that is due at a time, and the process that it belongs to."""

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
        """Set the attributes as the base class does, without the cost of its debug mode."""
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
        """Cancel the call as the base class does, without the check for debug mode."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._scheduled:
                self._loop._timer_handle_cancelled(self)


class Process:
    """A simulated operating-system process: the callbacks that run in its context."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.is_halted = False
        self.is_dead = False
        self.has_run = False
        """True if callbacks have run since the last look; the process is in the loop's `active` then."""
        self._loop = loop
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """The tasks that have not ended, in the order in which they began."""
        self.ended: asyncio.Future[None] = loop.create_future()
        """A future that is done when the process is dead."""
        self.gate: Callable[[SimulatedCall], bool] | None = None
        """Called for each callback; returns True if it may run. None if all may."""
        self._held: deque[SimulatedCall] = deque()
        self._left = 0
        self._at_last: Callable[[], object] | None = None
        self._context = Context()
        self._context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function in the context of the process, to which everything belongs that the function starts."""
        return self.context().run(function, *arguments)

    def context(self) -> Context:
        """Return a context for a callback of the process."""
        return self._context.copy()

    def mark(self) -> None:
        """Record that a callback of the process runs."""
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
        """Stop the process as SIGSTOP does."""
        self.is_halted = True
        self._set_gate()

    def go_on(self) -> None:
        """Continue the process, and run everything that has become due meanwhile."""
        self.is_halted = False
        self._set_gate()
        self._loop.resume(self._held)
        self._held.clear()

    def after_callbacks(self, number: int, then: Callable[[], object]) -> None:
        """Call `then` in place of the `number`-th next callback."""
        self._left, self._at_last = number, then
        self._set_gate()

    def die(self) -> None:
        """End the process abruptly: none of its callbacks runs any more."""
        if self.is_dead:
            return
        self.is_dead = True
        self._set_gate()
        self._held.clear()
        self.bury()
        self._loop.empty_timers(self)
        self.ended.set_result(None)

    def bury(self) -> None:
        """Close the coroutines of the process now, instead of whenever the garbage collector finds them.

        Their `finally` blocks find sockets and files closed, and what they start never runs.
        """
        tasks, self.tasks = list(self.tasks), {}
        for task in tasks:
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._loop.bury(task)
            with suppress(BaseException), self._loop.as_running():
                self.run(coroutine.close)


_NOBODY: Final = Context()
"""A context without a process."""


def _nothing() -> None:
    """Do nothing, in place of a callback of a dead process."""


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """Return the process whose callback runs now, or None."""
    return _PROCESS.get()


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. `call_delay` returns the seconds that a call in another thread takes to begin."""

    def __init__(self, call_delay: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._simulated_time = 0.0
        self.turns = 0
        """The number of turns of the loop so far."""
        self.cpu_deadline: float | None = None
        """The processor time of this operating-system process at which `TooSlow` is raised, or None.

        Processor time suits because a simulation never sleeps, and a busy machine does not change how much it needs.
        """
        self.on_turn: Callable[[], None] | None = None
        """Called before each turn after one in which a process has run; it sees the state between two callbacks."""
        self.active: list[Process] = []
        """The processes whose callbacks have run; the code that looks at them clears the list."""
        self._call_delay = call_delay
        self._deadlock: Deadlock | None = None
        self._owners: dict[asyncio.Task[Any], Process | None] = {}
        """The tasks that have not ended, in the order in which they began, with their processes."""
        self._buried: list[asyncio.Task[Any]] = []
        """Tasks of dead processes, which stay pending for ever."""
        self._last_told: dict[Process | None, float] = {}
        """The time of the last `call_soon_threadsafe` of each process, so that such calls stay in order."""
        self.blocking: Blocking | None = None
        """The disk of the simulated thread that runs now: the thread's messages arrive when the disk is ready."""
        self._due: deque[SimulatedCall] = deque()
        self._timers: list[tuple[float, int, SimulatedCall]] = []
        self._numbers = count()
        self._cancelled_timers = 0

    # -- time

    def time(self) -> float:
        """Return the simulated seconds since the beginning."""
        return self._simulated_time

    def _check_deadline(self) -> None:
        """Check the processor time.

        Raises:
            TooSlow: `cpu_deadline` has passed.
        """
        if self.cpu_deadline is not None and process_time() > self.cpu_deadline:
            self.cpu_deadline = None
            raise TooSlow(self.describe_tasks("the time for this run is over, and these wait:"))

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future is done, as asyncio does.

        Raises:
            Deadlock: nothing is left to do before that.
        """
        self._deadlock = None
        try:
            return super().run_until_complete(future)
        except RuntimeError:
            if self._deadlock is not None:
                raise self._deadlock from None
            raise

    def describe_tasks(self, title: str = "nothing is left to do, and these wait:") -> str:
        """Return a list of the tasks, each with its process, its chain of calls and the place where it waits."""
        lines = [title]
        for task, process in self._owners.items():
            lines.append(f"  {process.name if process else '-'}: {task.get_name()}: {_standing(task)}")
        return "\n".join(lines)

    def bury(self, task: asyncio.Task[Any]) -> None:
        """Stop tracking a task of a dead process, which never ends."""
        self._owners.pop(task, None)
        self._buried.append(task)

    def bury_all(self) -> None:
        """Close the coroutines of all tasks that are left, at the end of the simulation."""
        while self._owners:  # a `finally` block may start one more task
            task = next(iter(self._owners))
            coroutine = task.get_coro()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self.bury(task)
            with suppress(BaseException), self.as_running():
                coroutine.close()

    @contextmanager
    def as_running(self) -> Iterator[None]:
        """Make this the running loop, for code that may start tasks.

        Without a running loop, `create_task` would fail and leave a coroutine that nothing awaits.
        """
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # -- turns

    def _run_once(self) -> None:
        """Run a number of turns. A turn runs everything that is due when it begins, not what that schedules."""
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
        """Advance time to the next timer. If there is none, stop, so that `run_until_complete` raises Deadlock."""
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
        """Make callbacks due that were kept for a halted process."""
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
        """Release what the timers of a dead process refer to, which is mostly its instance.

        The timers themselves stay, so that time passes in the same steps whether a process dies or not.
        """
        for _, _, call in self._timers:
            if call.process is process and not call._cancelled:
                call._callback, call._args = _nothing, ()

    def _timer_handle_cancelled(self, handle: SimulatedCall) -> None:
        if not handle._scheduled:
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED and self._cancelled_timers > len(self._timers) // 2:
            # The list is changed in place, because a turn may be iterating over it.
            self._timers[:] = [timer for timer in self._timers if not timer[2]._cancelled and timer[2] is not handle]
            heapify(self._timers)
            self._cancelled_timers = 0

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback from a simulated thread: in order, and not before the thread's disk is ready."""
        process = _PROCESS.get()
        at = self._simulated_time if self.blocking is None else self.blocking.time()
        if at == self._simulated_time and at > self._last_told.get(process, -1.0):
            return self.call_soon(callback, *args, context=context)
        at = self._last_told[process] = max(at, self._last_told.get(process, 0.0) + _RESOLUTION)
        return self.call_at(at, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Call `func` on the loop after a delay. The result comes when the disk of a simulated pool is ready."""
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
        """Do nothing: no other thread has to wake the loop."""


def _standing(task: asyncio.Task[Any]) -> str:
    """Return the chain of coroutines that wait for each other, innermost last, and the file and line of that one."""
    names, place = [], "nowhere"
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        names.append(frame.f_code.co_qualname)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        waiting = waiting.cr_await
    return f"{' > '.join(names)} at {place}"
