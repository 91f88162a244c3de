"""The wait of a reader, with a simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from box.net.reader_wait import ReaderWait
from box.testing.simulation.loop import SimulatedLoop

Played = Callable[[Callable[[ReaderWait], Coroutine[Any, Any, None]]], int]


class CountingLoop(SimulatedLoop):
    """A loop that counts the timers that are armed."""

    armed = 0

    def call_at(self, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        self.armed += 1
        return super().call_at(*arguments, **options)


@pytest.fixture
def play() -> Played:
    """Run a scenario with a wait, and return the number of timers."""

    def run(scenario: Callable[[ReaderWait], Coroutine[Any, Any, None]]) -> int:
        loop = CountingLoop()
        try:
            loop.run_until_complete(scenario(ReaderWait(loop)))
        finally:
            loop.close()
        return loop.armed

    return run


async def woken(wait: ReaderWait, after: float, timeout: float | None) -> bool:
    asyncio.get_running_loop().call_later(after, wait.wake)
    return await wait.wait(timeout)


def test_a_wait_ends_with_what_comes_or_with_its_time(play: Played) -> None:
    async def scenario(wait: ReaderWait) -> None:
        loop = asyncio.get_running_loop()
        assert await woken(wait, 1, 5)
        assert loop.time() == pytest.approx(1)
        assert not await wait.wait(5)
        assert loop.time() == pytest.approx(6)
        assert await woken(wait, 100, None)
        assert loop.time() == pytest.approx(106)

    play(scenario)


def test_a_shorter_wait_does_not_take_the_time_of_a_longer_one(play: Played) -> None:
    async def scenario(wait: ReaderWait) -> None:
        loop = asyncio.get_running_loop()
        assert await woken(wait, 1, 50)
        assert not await wait.wait(2)
        assert loop.time() == pytest.approx(3)
        assert not await wait.wait(-1)
        assert loop.time() == pytest.approx(3)

    play(scenario)


def test_many_waits_share_a_timer(play: Played) -> None:
    async def scenario(wait: ReaderWait) -> None:
        for _ in range(1000):
            assert await woken(wait, 0.001, 10)
        assert not await wait.wait(10)
        assert asyncio.get_running_loop().time() == pytest.approx(11)

    assert play(scenario) - 1000 == 2, "each `woken` arms one; besides: the first wait's, and that of the last one"


def test_nothing_is_left_when_it_stops(play: Played) -> None:
    async def scenario(wait: ReaderWait) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1, wait.stop)
        assert await wait.wait(1000)
        assert loop.time() == pytest.approx(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await wait.wait(1000)
        wait.stop()
        wait.wake()

    play(scenario)
