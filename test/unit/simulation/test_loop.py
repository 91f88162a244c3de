"""The simulated event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator
from random import Random

import pytest

from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.loop import Deadlock, Process, SimulatedLoop, current_process
from box.testing.simulation.simulated_threads import SimulatedThreads


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop()
    yield loop
    loop.close()


def test_an_hour_passes_at_once(loop: SimulatedLoop) -> None:
    start = time.process_time()
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == pytest.approx(3600)
    assert time.process_time() - start < 1


def test_nothing_to_do_is_an_error_that_shows_who_waits(loop: SimulatedLoop) -> None:
    async def wait_for_nobody() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="test_loop"):
        loop.run_until_complete(wait_for_nobody())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))


def test_calls_of_other_threads_take_time() -> None:
    loop = SimulatedLoop(lambda: 0.25)

    async def call() -> str:
        return await loop.run_in_executor(None, "{}".format, 7)

    assert loop.run_until_complete(call()) == "7"
    assert loop.time() == 0.5  # until it begins, and until its outcome is known
    loop.close()


def test_a_call_of_a_pool_takes_as_long_as_its_disk(loop: SimulatedLoop) -> None:
    """A call in a thread pool ends when its disk call does; else a file might be renamed before its sync is over."""
    disk = SimulatedDisk(loop.time, loop.time, Random(1))
    disk.sync_delay = 2.0
    pool = SimulatedThreads(loop, disk, Random(1)).pool(1, "readers")

    async def main() -> tuple[float, bool]:
        file = disk.create("log")
        disk.sync_directory(".")
        file.write(b"meta")
        await loop.run_in_executor(pool, file.sync)
        took = loop.time()
        disk.lose_power()
        return took, disk.size("log") == 4

    took, is_whole = loop.run_until_complete(main())
    assert 2.0 < took < 2.1
    assert is_whole


async def _tick(ticks: list[tuple[str | None, float]]) -> None:
    while True:
        process = current_process()
        ticks.append((process.name if process else None, asyncio.get_running_loop().time()))
        await asyncio.sleep(1)


def test_a_halted_process_misses_nothing(loop: SimulatedLoop) -> None:
    ticks: list[tuple[str | None, float]] = []
    process = Process(loop, "a")
    task = process.run(loop.create_task, _tick(ticks))
    loop.run_until_complete(asyncio.sleep(1.5))
    process.halt()
    loop.run_until_complete(asyncio.sleep(10))
    assert ticks == [("a", 0.0), ("a", 1.0)]
    process.go_on()
    loop.run_until_complete(asyncio.sleep(1.5))
    assert ticks[2:] == [("a", 11.5), ("a", 12.5)]
    task.cancel()
    loop.run_until_complete(asyncio.sleep(0))


def test_a_dead_process_does_nothing_more(loop: SimulatedLoop) -> None:
    ended: list[str] = []

    async def last_words() -> None:
        try:
            await asyncio.sleep(1)
            ended.append("went on")
        finally:
            ended.append("said")
            loop.call_soon(ended.append, "heard")

    process = Process(loop, "a")
    task = process.run(loop.create_task, last_words())
    loop.run_until_complete(asyncio.sleep(0.5))
    process.die()
    loop.run_until_complete(asyncio.sleep(10))
    assert ended == ["said"], "the coroutine is closed, with nobody to hear its last words"
    assert not task.done()


def test_processes_know_their_names(loop: SimulatedLoop) -> None:
    ticks: list[tuple[str | None, float]] = []
    tasks = [Process(loop, name).run(loop.create_task, _tick(ticks)) for name in ("a", "b")]
    loop.run_until_complete(asyncio.sleep(0.1))
    assert ticks == [("a", 0.0), ("b", 0.0)]
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))


def test_what_the_end_of_a_task_starts_when_all_is_over_ends_too() -> None:
    loop = SimulatedLoop()
    started = []

    async def close_one() -> None:
        raise AssertionError("it began")

    async def work() -> None:
        try:
            await loop.create_future()
        finally:
            started.extend([close_one(), close_one()])
            await asyncio.gather(*started)

    loop.create_task(work())
    loop.run_until_complete(asyncio.sleep(0))
    loop.bury_all()
    assert [inspect.getcoroutinestate(one) for one in started] == [inspect.CORO_CLOSED] * 2
    loop.close()
