"""Fibers that wait for Python, by tokens and by coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.journal.round import Round
from lua.fiber import WOKEN_MAX, Waits
from test.support import until

from .support import Lua

Run = Callable[..., Any]
Evaluate = Callable[..., list[Any]]


def test_a_token_parks_the_fiber_until_it_is_woken(run: Run) -> None:
    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        tokens: list[int] = []

        def ask() -> int:
            tokens.append(runtime.new_token())
            return tokens[-1]

        runtime.bind("ask", ask)
        pending = asyncio.ensure_future(
            lua.eval("local wait, ask = require('internal.wait'), require('internal.python').ask return wait(ask())")
        )
        await until(lambda: bool(tokens))
        runtime.wake(tokens[0], b"x", 1.5, None, True)
        runtime.wake(tokens[0], b"late")
        assert await pending == ["x", 1.5, None, True]

    run(test)


@pytest.mark.parametrize("count", [3, WOKEN_MAX + 10])
def test_tokens_end_in_order_with_and_without_values(run: Run, count: int) -> None:
    """Tokens with and without values wake fibers in order, also when shared memory has no room for all."""

    async def test(lua: Lua) -> None:
        runtime = lua.runtime
        tokens: list[int] = []

        def ask() -> int:
            tokens.append(runtime.new_token())
            return tokens[-1]

        runtime.bind("ask", ask)
        pending = asyncio.ensure_future(
            lua.value(
                """
                local wait, python, fiber = require('internal.wait'), require('internal.python'), require('fiber')
                local order, fibers = {}, {}
                for number = 1, ... do
                    fibers[number] = fiber.new(function() table.insert(order, {number, wait(python.ask())}) end)
                    fibers[number]:set_joinable(true)
                end
                for _, f in ipairs(fibers) do f:join() end
                return order""",
                count,
            )
        )
        await until(lambda: len(tokens) == count)
        for token in tokens[:-1]:
            runtime.waits.wake_plainly(token)
        runtime.waits.wake_plainly(tokens[0])
        runtime.wake(tokens[-1], b"x")
        assert await pending == [[number] for number in range(1, count)] + [[count, "x"]]

    run(test)


def test_a_token_that_is_woken_before_it_is_returned(run: Run) -> None:
    async def test(lua: Lua) -> None:
        def ask() -> int:
            token = lua.runtime.new_token()
            lua.runtime.wake(token, b"early")
            return token

        lua.runtime.bind("ask", ask)
        assert await lua.value("return require('internal.wait')(require('internal.python').ask())") == "early"

    run(test)


def test_a_failed_token_raises(run: Run) -> None:
    async def test(lua: Lua) -> None:
        def ask() -> int:
            token = lua.runtime.new_token()
            lua.runtime.loop.call_soon(lua.runtime.fail, token, BoxError(ErrorCode.WAL_IO, "Failed to write to disk"))
            return token

        lua.runtime.bind("ask", ask)
        with pytest.raises(BoxError, match="Failed to write to disk") as caught:
            await lua.eval("return require('internal.wait')(require('internal.python').ask())")
        assert caught.value.code == ErrorCode.WAL_IO

    run(test)


def test_wakeup_does_not_end_a_token(run: Run) -> None:
    """wakeup and cancel do not end a wait for a token, as for a WAL write in Tarantool; the
    cancellation is seen later.
    """

    async def test(lua: Lua) -> None:
        tokens: list[int] = []

        def ask() -> int:
            tokens.append(lua.runtime.new_token())
            return tokens[-1]

        lua.runtime.bind("ask", ask)
        pending = asyncio.ensure_future(
            lua.eval("""
                local fiber, wait, python = require('fiber'), require('internal.wait'), require('internal.python')
                f = fiber.new(function() return wait(python.ask()), pcall(fiber.testcancel) end)
                f:set_joinable(true)
                fiber.yield()
                f:wakeup() f:cancel() fiber.yield() fiber.yield()
                print('stepped')
                return f:join()""")
        )
        await until(lambda: bool(tokens))
        await until(lambda: lua.printed == b"stepped\n")
        assert not pending.done()
        lua.runtime.wake(tokens[0], 7)
        ok, value, alive, problem = await pending
        assert (ok, value, alive, problem) == (True, 7, False, "fiber is cancelled")

    run(test)


def test_drive_returns_at_once_when_nothing_waits(run: Run) -> None:
    async def test(lua: Lua) -> None:
        async def quick(fails: bool) -> bytes:
            if fails:
                raise BoxError(ErrorCode.ILLEGAL_PARAMS, "no")
            return b"done"

        lua.runtime.bind("quick", lambda fails: lua.runtime.drive(quick(fails)))
        assert await lua.value("return require('internal.python').quick(false)") == "done"
        with pytest.raises(BoxError, match="no"):
            await lua.eval("require('internal.wait')(require('internal.python').quick(true))")

    run(test)


def test_drive_waits_for_a_coroutine(run: Run) -> None:
    """A fiber waits for a coroutine; timeouts that begin before its first suspension work after it."""

    async def test(lua: Lua) -> None:
        async def slow(limit: float) -> tuple[bytes, int]:
            try:
                async with asyncio.timeout(limit):
                    await asyncio.sleep(0.02)
            except TimeoutError:
                return b"late", 0
            await asyncio.sleep(0)
            return b"done", 2

        lua.runtime.bind("slow", lambda limit: lua.runtime.drive(slow(limit)))
        source = "return require('internal.wait')(require('internal.python').slow(...))"
        assert await lua.eval(source, 5.0) == ["done", 2]
        assert await lua.eval(source, 0.001) == ["late", 0]

    run(test)


def test_odd_deadlines(run: Run) -> None:
    """Deadlines that are NaN, zero, negative or infinite do not disturb the loop."""

    async def test(lua: Lua) -> None:
        assert await lua.eval("""
            local fiber = require('fiber')
            local cond = fiber.cond()
            fiber.sleep(0/0) fiber.sleep(-1)
            local f = fiber.create(function() cond:wait(math.huge) fiber.sleep(1/0) end)
            local results = {cond:wait(0/0), cond:wait(0), cond:wait(1e-9), f:status()}
            f:cancel()
            return results""") == [[False, False, False, "suspended"]]

    run(test)


def test_cancelling_a_fiber_cancels_what_it_drives(run: Run) -> None:
    async def test(lua: Lua) -> None:
        seen: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                seen.append("cancelled")

        lua.runtime.bind("forever", lambda: lua.runtime.drive(forever()))
        result = await lua.eval("""
            local fiber = require('fiber')
            local f = fiber.create(function() require('internal.wait')(require('internal.python').forever()) end)
            f:set_joinable(true)
            f:cancel()
            local ok, e = f:join()
            return ok, e.message""")
        assert result == [False, "fiber is cancelled"]
        assert seen == ["cancelled"]

    run(test)


class FakeLua:
    """A scheduler whose runs do what a test says."""

    def __init__(self, on_run: Callable[[], None]) -> None:
        self.on_run = on_run
        self.runs = 0

    def run(self) -> bool:
        self.runs += 1
        self.on_run()
        return False

    def deliver(self, token: int, *values: object) -> None: ...
    def deliver_error(self, token: int, error: bytes) -> None: ...
    def fire(self, timer: int) -> None: ...


def waits_of(lua: FakeLua, fiber_round: Round) -> Waits:
    cells, woken = memoryview(bytearray(64)).cast("i"), memoryview(bytearray(8 * WOKEN_MAX)).cast("d")
    waits = Waits(asyncio.get_running_loop(), cells, woken, fiber_round, time.perf_counter)
    waits.attach(lua)
    return waits


def test_a_tick_that_fails_is_followed_by_another() -> None:
    async def test() -> None:
        def fail_once() -> None:
            if lua.runs == 1:
                raise RuntimeError("a finalizer")

        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        lua = FakeLua(fail_once)
        waits_of(lua, Round()).schedule_tick()
        await until(lambda: lua.runs == 2)
        assert len(failures) == 1

    asyncio.run(test())


def test_rounds_of_one_tick_leave_the_loop_its_turns() -> None:
    """Fibers whose writes complete at once keep the loop for a few hundredths of a second at most."""

    async def test() -> None:
        class Journal:
            def flush(self) -> bool:
                waits.wake_plainly(waits.new_token())
                return True

            def flush_later(self) -> None: ...

        fiber_round = Round()
        lua = FakeLua(lambda: None)
        waits = waits_of(lua, fiber_round)

        def run() -> None:
            time.sleep(0.011)
            fiber_round.journal = Journal()

        lua.on_run = run
        waits.schedule_tick()
        await asyncio.sleep(0)
        assert lua.runs == 1
        await until(lambda: lua.runs > 2)
        waits.close()

    asyncio.run(test())


def test_an_interrupted_round_goes_on_in_the_next_turn(run: Run) -> None:
    """A round that is interrupted goes on in the next turn, after its writes are flushed."""

    async def test(lua: Lua) -> None:
        events: list[Any] = []
        fiber_round = lua.runtime.waits._round

        class Journal:
            def flush(self) -> bool:
                events.append("flush")
                return False

            def flush_later(self) -> None:
                events.append("later")

        def work(number: int) -> None:
            events.append(number)
            fiber_round.journal = Journal()
            if number == 3:
                fiber_round.interrupt()
                asyncio.get_running_loop().call_soon(events.append, "others")

        lua.runtime.bind("work", work)
        await lua.eval("""
            local fiber, work = require('fiber'), require('internal.python').work
            for number = 1, 6 do fiber.new(work, number) end
        """)
        await until(lambda: events[-1:] == ["flush"] and 6 in events)
        assert events == [1, 2, 3, "flush", "others", 4, 5, 6, "flush"]
        assert not fiber_round.is_interrupted
        fiber_round.interrupt()  # no round lasts: nothing happens
        assert not fiber_round.is_interrupted

    run(test)
