"""Tests of box.eager: what is begun without a task behaves like one from its first wait on."""

from __future__ import annotations

import asyncio

import pytest

from box import eager


def test_a_cancellation_before_the_first_turn_reaches_what_is_waited_for() -> None:
    """A stream that a cancelled request had begun went on for ever, with a connection that it no longer had."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        notes: list[str] = []

        async def stream() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                notes.append("stream ended")

        async def request() -> None:
            inner = loop.create_task(stream())
            try:
                await inner
            finally:
                notes.append("request ended")

        task = eager.start(loop, request())
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes == ["stream ended", "request ended"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_cancellation_after_the_end_of_what_was_waited_for() -> None:
    """The coroutine gets it at its first turn, as a task would."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        async def request() -> str:
            try:
                return str(await future)
            except asyncio.CancelledError:
                return "cancelled"

        task = eager.start(loop, request())
        assert task is not None
        future.set_result("done")
        task.cancel()
        assert await task == "cancelled"

    asyncio.run(main())
