"""The Python half of the fiber scheduler: what fibers wait for.

A *token* is a negative integer that stands for something outside of Lua: a bound function returns it, the Lua
fiber parks, and `wake` or `fail` ends the wait. A *timer* is a deadline of a wait inside Lua. Both end in a call
into Lua that marks the fiber ready; one *tick* a turn of the loop runs the fibers that are ready.

Tokens are used once. `cancel` is asked when the fiber that waits is cancelled: it is told by the creator of the
token how to give the operation up, or that it cannot be (a WAL write), in which case the wait goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from box.eager import first_step
from box.errors import BoxError, fiber_is_cancelled
from box.journal.round import Round
from lua.boundary import encode_error, error_from_exception

Value = bytes | float | int | bool | None
"""Values that may cross the boundary."""

WOKEN: Final = 3
_STOP: Final = 5
"""The cell that ends a tick behind the fiber that runs."""
CLOCKS_READ: Final = 6
"""The cell that tells that the clocks of fibers were read in this turn: see `lua/turn_clock.py`."""
WOKEN_MAX: Final = 1024
"""The cell that counts the tokens that have ended without a value, and how many there is room for."""
RUNNING_FIBER: Final = 0
_TICK_WANTED: Final = 1
_ROUNDS: Final = 16
_EARLY: Final = 1e-7
_TIMER_STEP: Final = 0.001
"""Seconds by which a timer may be early, and the least that a loop waits."""
_LONG_TICK: Final = 0.01
"""So many times, and seconds, a tick goes on with fibers whose writes it has completed itself."""


class Scheduler(Protocol):
    """The calls into Lua that this module needs; see `lua/modules/internal/scheduler.lua` and `parking.lua`."""

    def run(self) -> bool: ...
    def deliver(self, token: int, *values: Value) -> None: ...
    def deliver_error(self, token: int, error: bytes) -> None: ...
    def fire(self, timer: int) -> None: ...


class Waits:
    """Tokens, timers and ticks of one runtime. All methods run in the thread of the loop."""

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
        self._lua: Scheduler | None = None
        self._last_token = 0
        self._tokens: dict[int, Callable[[], None] | None] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._finalizing = 0
        self._tick: asyncio.Handle | None = None
        fiber_round.stop = self._stop

    def _stop(self) -> None:
        self._cells[_STOP] = 1

    def attach(self, lua: Scheduler) -> None:
        """Give the calls into Lua, once the Lua state is up."""
        self._lua = lua

    # ---- ticks ----

    def schedule_tick(self) -> None:
        """Run the ready fibers in the next turn of the loop."""
        if self._tick is None and self._lua is not None and not self._is_running:
            self._tick = self.loop.call_soon(self._run)

    def pause(self) -> None:
        """Let no fiber that waits go on: the instance ends, and a program that tries again and again what fails at once
        by now would never let it. As in Tarantool, fibers are left where they are."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick = self.loop.call_soon(self._run)  # the last one, and it does not come
        self._tick.cancel()

    def _run(self) -> None:
        """One tick. Fibers that waited only for their writes go on in it, unless others are to have their turn."""
        self._tick = None
        fiber_round = self._round
        self._is_running = True
        end = self._monotonic() + _LONG_TICK
        more = True  # also if this tick fails: the error of a finalizer may end it with fibers that are ready
        try:
            for _ in range(_ROUNDS):
                if self._lua is None:
                    return
                fiber_round.is_held = True
                more = self._lua.run()
                fiber_round.is_held = False
                journal = fiber_round.journal
                if journal is None or (more and not fiber_round.is_interrupted):
                    break
                fiber_round.journal = None
                if not journal.flush() or more or self._monotonic() > end:
                    break
        finally:
            self._is_running = fiber_round.is_held = fiber_round.is_interrupted = False
            if fiber_round.journal is not None:
                fiber_round.journal.flush_later()
                fiber_round.journal = None
            if more or self._cells[_TICK_WANTED]:
                self.schedule_tick()

    # ---- tokens ----

    def new_token(self, on_cancel: Callable[[], None] | None = None) -> int:
        """A token to return to Lua. `on_cancel` is called if the fiber is cancelled before the token ends; it must
        end the token itself, now or later. Without it the wait cannot be cancelled."""
        token = self._last_token = self._last_token - 1
        self._tokens[token] = on_cancel
        return token

    def wake_plainly(self, token: int) -> None:
        """End a wait with no value: noted in shared memory, where Lua looks before it does anything else."""
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
        """End a wait with values. A token that has ended already is ignored."""
        if self._lua is not None and self._tokens.pop(token, self) is not self:
            self._lua.deliver(token, *values)
            self.schedule_tick()

    def fail(self, token: int, error: BoxError) -> None:
        """End a wait with an error, which is raised in the fiber."""
        if self._lua is not None and self._tokens.pop(token, self) is not self:
            self._lua.deliver_error(token, encode_error(error))
            self.schedule_tick()

    def cancel_wait(self, token: int) -> None:
        """From Lua: the fiber that waits for the token has been cancelled."""
        on_cancel = self._tokens.get(token)
        if on_cancel is not None:
            on_cancel()

    # ---- finalizers ----

    def finalizing(self, fiber_id: int) -> None:
        """From Lua: a finalizer begins in this fiber; 0: it has ended. The journal refuses what it would wait for."""
        self._finalizing = fiber_id
        self._round.may_not_wait = self._is_in_finalizer if fiber_id else None

    def _is_in_finalizer(self) -> bool:
        """False while another fiber runs, which the finalizer has started."""
        return self._cells[RUNNING_FIBER] == self._finalizing

    # ---- timers ----

    def timer_start(self, timer: int, seconds: float) -> None:
        """From Lua: a wait has a deadline."""
        self._timers[timer] = self.loop.call_later(seconds, self._fire, timer, self._monotonic() + seconds)

    def timer_stop(self, timer: int) -> None:
        """From Lua: the wait ended before its deadline."""
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: int, deadline: float) -> None:
        left = deadline - self._monotonic()
        if left > _EARLY:  # loops count in milliseconds; who sleeps until a task expires has to find it expired
            self._timers[timer] = self.loop.call_later(max(left, _TIMER_STEP), self._fire, timer, deadline)
            return
        del self._timers[timer]
        if self._lua is not None:
            self._lua.fire(timer)
            self.schedule_tick()

    # ---- coroutines ----

    def drive(self, coro: Coroutine[Any, Any, Any], *, is_cancellable: bool = True) -> Any:
        """Run a coroutine to its first suspension. Returns its result if it ends there, `(False, error bytes)` if it
        raises, and a token otherwise. A cancellation of the fiber cancels the coroutine, unless it has to end."""
        try:
            task, result = first_step(self.loop, coro)
        except asyncio.CancelledError:
            return False, encode_error(fiber_is_cancelled())
        except Exception as error:
            return False, encode_error(self._error_of(error))
        return result if task is None else self._token_of(task, is_cancellable)

    def _error_of(self, error: BaseException) -> BoxError:
        """The error for Lua of an exception; one that is no BoxError is a mistake of ours, for the log."""
        if not isinstance(error, BoxError) and self.on_unexpected is not None:
            self.on_unexpected(error)
        return error_from_exception(error)

    def begin(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Run a coroutine to its first suspension: the task of the rest, None if it has ended. Raises its error."""
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
        """Forget Lua and whatever waits; nobody is told."""
        self._lua = None
        self._tick = None
        self._timers.clear()
        self._tokens.clear()
        self._tasks.clear()


def _cancel_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
