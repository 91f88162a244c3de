"""The Python half of the fiber scheduler: the waits of fibers.

A *token* is a negative integer that stands for an operation outside of Lua: a bound function returns it, the Lua fiber
parks, and `wake` or `fail` ends the wait. A *timer* is the deadline of a wait inside Lua. Both end with a call into Lua
that marks the fiber ready. One *tick* in each turn of the loop runs the ready fibers.

A token is used once. If the waiting fiber is cancelled, the function given by the token's creator is called: it gives
the operation up. Without such a function (a WAL write) the wait goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from box.eager import first_step
from box.errors import BoxError, fiber_is_cancelled
from box.journal.round import Round
from box.txn.pending import Pending
from lua.boundary import encode_error, error_from_exception

Value = bytes | float | int | bool | None
"""The values that may pass between Lua and Python."""

WOKEN: Final = 3
"""The number of the cell that counts the tokens that have ended without a value."""
_STOP: Final = 5
"""The number of the cell that ends a tick after the current fiber."""
CLOCKS_READ: Final = 6
"""The number of the cell that is set if fibers have read a clock in this turn: see `lua/turn_clock.py`."""
WOKEN_MAX: Final = 1024
"""The number of tokens ended without a value for which there is room."""
ANSWERED: Final = 9
"""The number of the cell that is set if functions have ended in this round whose replies are to be taken."""
WAVE: Final = 10
"""The number of the cell with the wave of the running function, if its fiber has no context."""
RUNNING_FIBER: Final = 0
"""The number of the cell with the id of the running fiber."""
_TICK_WANTED: Final = 1
"""The number of the cell that asks for a tick."""
_ROUNDS: Final = 16
"""The number of times that a tick continues with fibers whose writes it has completed itself."""
_EARLY: Final = 1e-7
"""A timer that is early by at most this many seconds counts as due."""
_TIMER_STEP: Final = 0.001
"""The least seconds that an event loop waits, because it counts in milliseconds."""
_LONG_TICK: Final = 0.01
"""Seconds after which a tick no longer continues with fibers whose writes it has completed itself."""


class Scheduler(Protocol):
    """The calls into Lua that this module needs; see `lua/modules/internal/scheduler.lua` and `parking.lua`."""

    def run(self) -> bool: ...
    def deliver(self, token: int, *values: Value) -> None: ...
    def deliver_error(self, token: int, error: bytes) -> None: ...
    def fire(self, timer: int) -> None: ...
    def is_alone(self) -> bool: ...


class Waves(Protocol):
    """Makes contexts of functions that are called in waves."""

    @property
    def is_running(self) -> bool:
        """True if a function runs that has not waited yet."""

    def make_context(self) -> Any:
        """Make the Context of the running function, which has not waited yet."""

    def make_context_of(self, wave: int, sync: float) -> Any:
        """Make the Context of a function that has waited."""


class LuaAnswer(asyncio.Future[Any]):
    """The values of a call that waits.

    Whoever awaits it goes on in a later turn of the loop. Other fibers and tasks run before that, so `ctx`, the Context
    of the call, is passed to `on_return` at the end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ctx: Any, on_return: Callable[[Any], None]) -> None:
        super().__init__(loop=loop)
        self._ctx = ctx
        self._on_return = on_return

    def set_result(self, result: Any) -> None:
        """Keep the values of the call."""
        if self._ctx is not None:
            self._on_return(self._ctx)
        super().set_result(result)

    def set_exception(self, exception: BaseException | type[BaseException]) -> None:
        """Keep the error of the call."""
        if self._ctx is not None:
            self._on_return(self._ctx)
        super().set_exception(exception)


class Waits:
    """Tokens, timers and ticks of one runtime. All methods run in the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cells: memoryview[int],
        woken: memoryview[float],
        fiber_round: Round,
        monotonic: Callable[[], float],
    ) -> None:
        self.loop = loop
        self._monotonic = monotonic
        self._cells = cells
        self._woken = woken
        self._round = fiber_round
        self._is_running = False
        self.on_unexpected: Callable[[BaseException], None] | None = None
        self.on_answered: Callable[[], None] = lambda: None
        """Called after each round of fibers in which functions have ended whose replies are to be taken."""
        self._lua: Scheduler | None = None
        self._last_token = 0
        self.last_write: Pending | None = None
        """The write of the last token that stands for one."""
        self._tokens: dict[int, Callable[[], None] | None] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._finalizing = 0
        self._after_round: list[Callable[[], None]] = []
        self._tick: asyncio.Handle | None = None
        fiber_round.stop = self._stop

    def _stop(self) -> None:
        self._cells[_STOP] = 1

    def attach(self, lua: Scheduler) -> None:
        """Set the calls into Lua, once the Lua state exists."""
        self._lua = lua

    # ---- ticks ----

    def schedule_tick(self) -> None:
        """Run the ready fibers in the next turn of the loop."""
        if self._tick is None and self._lua is not None and not self._is_running:
            self._tick = self.loop.call_soon(self._run)

    def pause(self) -> None:
        """Resume no more waiting fibers, because the instance ends.

        A program that retries an operation which now fails at once would otherwise never let the node end. As in
        Tarantool, fibers are left where they are.
        """
        if self._tick is not None:
            self._tick.cancel()
        # A tick that is cancelled at once: its handle stops `schedule_tick` from scheduling another.
        self._tick = self.loop.call_soon(self._run)
        self._tick.cancel()

    def _run(self) -> None:
        """Run one tick. Fibers that waited only for their writes continue in it, unless others are to have their
        turn.
        """
        self._tick = None
        fiber_round = self._round
        self._is_running = True
        end = self._monotonic() + _LONG_TICK
        more = True  # also if this tick fails, because the error of a finalizer may end it while fibers are ready
        try:
            for _ in range(_ROUNDS):
                if self._lua is None:
                    return
                if self._after_round:
                    self._end_round()
                fiber_round.is_held = True
                more = self._lua.run()
                fiber_round.is_held = False
                if self._cells[ANSWERED]:
                    self.on_answered()
                journal, has_written = fiber_round.journal, bool(self._after_round)
                if more and not fiber_round.is_interrupted:
                    break
                if journal is not None:
                    fiber_round.journal = None
                    has_written |= journal.flush()
                if not has_written or more or self._monotonic() > end:
                    break
        finally:
            self._is_running = fiber_round.is_held = fiber_round.is_interrupted = False
            if self._cells[ANSWERED]:
                self.on_answered()
            if fiber_round.journal is not None:
                fiber_round.journal.flush_later()
                fiber_round.journal = None
            if more or self._cells[_TICK_WANTED] or self._after_round:
                self.schedule_tick()

    def runs_alone(self) -> bool:
        """Return True if no fiber but the running one runs before the end of this round."""
        return self._lua is not None and self._lua.is_alone()

    def after_round(self, callback: Callable[[], None]) -> None:
        """Call a function before the next round of fibers; it ends the wait of a fiber of this round."""
        self._after_round.append(callback)
        self.schedule_tick()

    def _end_round(self) -> None:
        callbacks, self._after_round = self._after_round, []
        for callback in callbacks:
            callback()

    # ---- tokens ----

    def new_token(self, on_cancel: Callable[[], None] | None = None) -> int:
        """Return a token for Lua.

        `on_cancel` is called if the fiber is cancelled before the token ends, and must end the token, immediately or
        later. Without it the wait cannot be cancelled.
        """
        token = self._last_token = self._last_token - 1
        self._tokens[token] = on_cancel
        return token

    def forget_token(self, token: int) -> None:
        """Forget a token that no fiber waits for."""
        del self._tokens[token]

    def wake_plainly(self, token: int) -> None:
        """End a wait without a value, through shared memory, which Lua checks before anything else."""
        if self._lua is None or self._tokens.pop(token, self) is self:
            return
        cells = self._cells
        count = cells[WOKEN]
        if count < WOKEN_MAX:
            self._woken[count] = token
            cells[WOKEN] = count + 1
            cells[_TICK_WANTED] = 1
        else:
            self._lua.deliver(token)
        if self._tick is None and not self._is_running:
            self._tick = self.loop.call_soon(self._run)

    def wake(self, token: int, *values: Value) -> None:
        """End a wait with values. A token that has already ended is ignored."""
        if self._lua is not None and self._tokens.pop(token, self) is not self:
            self._lua.deliver(token, *values)
            self.schedule_tick()

    def fail(self, token: int, error: BoxError) -> None:
        """End a wait with an error, which is raised in the fiber."""
        if self._lua is not None and self._tokens.pop(token, self) is not self:
            self._lua.deliver_error(token, encode_error(error))
            self.schedule_tick()

    def cancel_wait(self, token: int) -> None:
        """Cancel the operation of a token; Lua calls it when the waiting fiber was cancelled."""
        on_cancel = self._tokens.get(token)
        if on_cancel is not None:
            on_cancel()

    # ---- finalizers ----

    def finalizing(self, fiber_id: int) -> None:
        """Note that a finalizer has begun in a fiber, or, with 0, ended; Lua calls it.

        During a finalizer the journal refuses writes, because a finalizer cannot wait.
        """
        self._finalizing = fiber_id
        self._round.may_not_wait = self._is_in_finalizer if fiber_id else None

    def _is_in_finalizer(self) -> bool:
        """True if the running fiber is inside a finalizer, and not another fiber that the finalizer has started."""
        return self._cells[RUNNING_FIBER] == self._finalizing

    # ---- timers ----

    def timer_start(self, timer: int, seconds: float) -> None:
        """Start a deadline; Lua calls it."""
        self._timers[timer] = self.loop.call_later(seconds, self._fire, timer, self._monotonic() + seconds)

    def timer_stop(self, timer: int) -> None:
        """Stop a deadline, because its wait has ended; Lua calls it."""
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: int, deadline: float) -> None:
        left = deadline - self._monotonic()
        if left > _EARLY:  # loops count in milliseconds, but a fiber that sleeps until a time must not wake before it
            self._timers[timer] = self.loop.call_later(max(left, _TIMER_STEP), self._fire, timer, deadline)
            return
        del self._timers[timer]
        if self._lua is not None:
            self._lua.fire(timer)
            self.schedule_tick()

    # ---- coroutines ----

    def drive(self, coro: Coroutine[Any, Any, Any], *, is_cancellable: bool = True) -> Any:
        """Run a coroutine to its first suspension.

        Returns its result if it ends there, `(False, error bytes)` if it raises, and a token otherwise. Cancelling the
        fiber cancels the coroutine if `is_cancellable`.
        """
        try:
            task, result = first_step(self.loop, coro)
        except asyncio.CancelledError:
            return False, encode_error(fiber_is_cancelled())
        except Exception as error:
            return False, encode_error(self._error_of(error))
        return result if task is None else self._token_of(task, is_cancellable)

    def _error_of(self, error: BaseException) -> BoxError:
        """Return the error for Lua of an exception; an exception that is not a BoxError is a bug of Lunabox, and is
        logged.
        """
        if not isinstance(error, BoxError) and self.on_unexpected is not None:
            self.on_unexpected(error)
        return error_from_exception(error)

    def begin(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Run a coroutine to its first suspension. Returns the task of the rest, or None if it has ended. Raises its
        error.
        """
        task, _ = first_step(self.loop, coro)
        return task

    def _token_of(self, task: asyncio.Task[Any], is_cancellable: bool) -> int:
        token = self.new_token(on_cancel=(lambda: _cancel_task(task)) if is_cancellable else None)
        self._tasks[task] = None

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.pop(task, None)
            if task.cancelled():
                self.fail(token, fiber_is_cancelled())
                return
            error = task.exception()
            if error is not None:
                self.fail(token, self._error_of(error))
                return
            result = task.result()
            self._wake_with(token, result)

        task.add_done_callback(done)
        return token

    def _wake_with(self, token: int, result: Any) -> None:
        if not isinstance(result, tuple):
            self.wake(token, result)
        elif result and result[0] is False and self._lua is not None:
            if self._tokens.pop(token, self) is not self:
                self._lua.deliver_error(token, result[1])
                self.schedule_tick()
        else:
            self.wake(token, *result)

    # ---- end ----

    def close(self) -> list[asyncio.Task[Any]]:
        """Stop every timer and tick, cancel every driven task and forget Lua. Returns the tasks to wait for."""
        self._lua = None
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._tokens.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    def abandon(self) -> None:
        """Forget Lua and everything that waits, without a notice to anyone."""
        self._lua = None
        self._tick = None
        self._timers.clear()
        self._tokens.clear()
        self._tasks.clear()


def _cancel_task(task: asyncio.Task[Any]) -> None:
    task.cancel()


class Dispatchers:
    """The calls into Lua that waits need."""

    __slots__ = ("deliver", "deliver_error", "fire", "is_alone", "run")

    def __init__(self, run: Any, deliver: Any, deliver_error: Any, fire: Any, is_alone: Any) -> None:
        self.is_alone = is_alone
        self.run = run
        self.deliver = deliver
        self.deliver_error = deliver_error
        self.fire = fire
