"""Waiting for the next change, and coroutines that run at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box import eager
from box.errinj import ErrorInjections
from box.waiters import Waiters


def run(test: Any) -> None:
    asyncio.run(test())


def test_a_waiter_for_a_condition_is_woken_until_it_holds() -> None:
    """`until` checks its condition now and after each change."""

    async def body() -> None:
        waiters, seen = Waiters(), list[int]()
        await waiters.until(lambda: not seen)
        waiting = asyncio.create_task(waiters.until(lambda: len(seen) == 2))
        for value in (1, 2):
            await asyncio.sleep(0)
            assert not waiting.done()
            seen.append(value)
            waiters.wake()
        await waiting
        assert not waiters

    run(body)


def test_a_wait_that_is_given_up_leaves_nothing_behind() -> None:
    """A cancelled wait leaves nothing behind, so that polling with a short timeout does not fill memory."""

    async def body() -> None:
        waiters = Waiters()
        for _ in range(3):
            waiting = asyncio.create_task(waiters.until(lambda: False))
            await asyncio.sleep(0)
            assert waiters
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert not waiters

    run(body)


def test_an_injected_delay_ends_with_its_switch() -> None:
    """A delay by an error injection ends when that injection is switched off, not another one."""

    async def body() -> None:
        errinj = ErrorInjections()
        await errinj.wait_until_off("ERRINJ_WAL_DELAY")
        errinj.set("ERRINJ_WAL_DELAY", True)
        waiting = asyncio.create_task(errinj.wait_until_off("ERRINJ_WAL_DELAY"))
        await asyncio.sleep(0)
        errinj.set("ERRINJ_TESTING", True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        errinj.set("ERRINJ_WAL_DELAY", False)
        await waiting

    run(body)


async def double(value: int, future: asyncio.Future[None] | None = None) -> int:
    """Await a future, if there is one, and double a number."""
    if future is not None:
        await future
    return 2 * value


async def fail() -> None:
    raise ValueError("on purpose")


def test_what_does_not_wait_needs_no_task() -> None:
    """A coroutine that does not wait gives its result or error at once, without a task."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        assert eager.start(loop, double(1)) is None
        assert eager.first_step(loop, double(2)) == (None, 4)
        assert eager.run_through(double(3)) == 6
        for start in (eager.start, eager.first_step):
            with pytest.raises(ValueError, match="on purpose"):
                start(loop, fail())
        with pytest.raises(ValueError, match="on purpose"):
            eager.run_through(fail())

    run(body)


def test_what_waits_goes_on_in_a_task() -> None:
    """A coroutine that waits goes on in a task, with its first suspension and cancellations before the
    task has begun.
    """

    async def body() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        started = eager.start(loop, double(1, future))
        stepped, nothing = eager.first_step(loop, double(2, future))
        assert started is not None
        assert stepped is not None
        assert nothing is None
        loop.call_soon(future.set_result, None)
        assert [await started, await stepped] == [2, 4]

        waiting = eager.start(loop, double(3, loop.create_future()))
        assert waiting is not None
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(body)


def test_a_timeout_may_begin_in_the_first_step() -> None:
    """`asyncio.timeout` in the first step finds a current task, and cancels the one that exists when
    the time is over.
    """

    async def body() -> None:
        loop = asyncio.get_running_loop()

        async def wait() -> str:
            try:
                async with asyncio.timeout(0.001):
                    await loop.create_future()
            except TimeoutError:
                return "timed out"
            return "not"

        task, _ = eager.first_step(loop, wait())
        assert task is not None
        assert await task == "timed out"

    run(body)


def test_what_must_not_wait_is_given_up() -> None:
    """A coroutine that waits where it must not is closed, and its `finally` runs."""

    async def body() -> None:
        ends = []

        async def wait() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ends.append(True)

        with pytest.raises(eager.Suspended):
            eager.run_through(wait())
        assert ends == [True]

    run(body)
