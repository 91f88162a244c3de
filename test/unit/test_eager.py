"""`box.eager`: a coroutine that is begun without a task behaves like a task from its first wait on."""

from __future__ import annotations

import asyncio

import pytest

from box import eager


def test_a_cancellation_before_the_first_turn_reaches_what_is_waited_for() -> None:
    """A cancellation before the first turn reaches what the coroutine waits for.

    Before, a stream of a cancelled request went on for ever, with a connection that was gone.
    """

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
    """A cancellation after the awaited future is done reaches the coroutine at its first turn, as it would a task."""

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


def test_the_current_task_of_a_first_step_has_a_name() -> None:
    """A log line in the first step asks for the name of the current task, as for that of the real task later."""

    async def named() -> list[str]:
        names = [_current_name()]
        await asyncio.sleep(0)
        names.append(_current_name())
        return names

    async def run() -> list[str]:
        task, _ = eager.first_step(asyncio.get_running_loop(), named())
        assert task is not None
        return [*await task, task.get_name()]

    first, later, name = asyncio.run(run())
    assert first.startswith("Task-")
    assert later == name


def _current_name() -> str:
    task = asyncio.current_task()
    assert task is not None
    return task.get_name()
