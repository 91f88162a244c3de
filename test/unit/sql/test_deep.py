"""Coroutines a hundred thousand levels deep use no stack, and wait as others do."""

from __future__ import annotations

import asyncio

import pytest

from box.sql.flat_calls import deeper, run_flat


async def _count(levels: int) -> int:
    await asyncio.sleep(0)
    return 0 if levels == 0 else 1 + await deeper(_count(levels - 1))


async def _fail(levels: int, seen: list[int]) -> None:
    try:
        if levels == 0:
            raise ValueError("deep")
        await deeper(_fail(levels - 1, seen))
    finally:
        seen.append(levels)


def test_results_come_back_through_all_levels() -> None:
    async def run() -> int:
        return await run_flat(_count(20_000))

    assert asyncio.run(run()) == 20_000


def test_an_error_leaves_each_level() -> None:
    seen: list[int] = []

    async def run() -> None:
        await run_flat(_fail(5000, seen))

    with pytest.raises(ValueError, match="deep"):
        asyncio.run(run())
    assert seen == list(range(5001))


def test_a_cancelled_work_ends_each_level() -> None:
    seen: list[int] = []

    async def wait(levels: int) -> None:
        try:
            if levels == 0:
                await asyncio.Event().wait()
            await deeper(wait(levels - 1))
        finally:
            seen.append(levels)

    async def run() -> None:
        async def work() -> None:
            await run_flat(wait(3))

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert seen == [0, 1, 2, 3]
