"""Waiting for the ends of tasks."""

from __future__ import annotations

import asyncio

from box.waiters import end_all


def test_a_cancelled_task_waits_for_the_ends_and_a_closed_one_does_not() -> None:
    async def scenario() -> None:
        ends: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0)
                ends.append("work")

        async def outer() -> None:
            tasks = [asyncio.create_task(work())]
            await asyncio.sleep(0)
            try:
                await asyncio.sleep(1000)
            finally:
                await end_all(tasks)
                ends.append("outer")

        cancelled = asyncio.create_task(outer())
        for _ in range(3):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert ends == ["work", "outer"]

        ends.clear()
        closed = outer()
        closed.send(None)
        await asyncio.sleep(0)
        closed.send(None)
        closed.close()  # RuntimeError if it waited for anything
        assert ends == ["outer"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ends == ["outer", "work"]

    asyncio.run(scenario())
