"""A node is stopped while an exception of a trigger is being raised: both the stop and the write end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from box import BoxError, Node
from box.sync import Node as BlockingNode
from test.support import wait_until

pytestmark = pytest.mark.timeout(60)

SECONDS: Final = 20.0
"""The seconds within which a stop must end."""

LUA: Final = {
    "at once": "error('boom')",
    "after a wait": "reached() require('fiber').sleep(0.01) error('boom')",
    "as it is cancelled": "reached() pcall(require('fiber').sleep, 100) error('boom')",
    "not heeding it": "reached() for _ = 1, 10 do pcall(require('fiber').sleep, 100) end error('boom')",
}
"""Bodies of triggers in Lua, by the moment of their error."""

Reached = Callable[[], None]


class Boom(Exception):
    """The exception of a trigger."""


def at_once(reached: Reached, kind: type[BaseException]) -> Any:
    def trigger(old: Any, new: Any) -> None:
        reached()
        raise kind("boom")

    return trigger


def after_a_wait(reached: Reached, kind: type[BaseException]) -> Any:
    async def trigger(old: Any, new: Any) -> None:
        reached()
        await asyncio.sleep(0.01)
        raise kind("boom")

    return trigger


def as_it_is_cancelled(reached: Reached, kind: type[BaseException]) -> Any:
    async def trigger(old: Any, new: Any) -> None:
        reached()
        try:
            await asyncio.sleep(100)
        finally:
            raise kind("boom")

    return trigger


def while_it_propagates(reached: Reached, kind: type[BaseException]) -> Any:
    async def trigger(old: Any, new: Any) -> None:
        try:
            raise kind("boom")
        finally:
            reached()
            for _ in range(5):
                await asyncio.sleep(0)

    return trigger


PYTHON: Final = [at_once, after_a_wait, as_it_is_cancelled, while_it_propagates]


async def _with_space(directory: Path) -> Node:
    node = Node(directory)
    await node.start()
    await node.eval("box.schema.space.create('s'):create_index('pk')")
    return node


async def _write_and_stop(node: Node, arm: Callable[[Reached], None]) -> BaseException:
    """Begin a write, stop the node as soon as its trigger has been reached, and return the error of the write."""
    stops: list[asyncio.Task[None]] = []

    def stop() -> None:
        if not stops:
            stops.append(asyncio.create_task(node.stop()))

    arm(stop)
    async with asyncio.timeout(SECONDS):
        write = asyncio.create_task(node.space["s"].insert([1]))
        (outcome,) = await asyncio.gather(write, return_exceptions=True)
        stop()
        await asyncio.gather(*stops)
    assert isinstance(outcome, BaseException)
    assert not node._embedding.is_running
    return outcome


@pytest.mark.parametrize("kind", ["on_replace", "before_replace"])
@pytest.mark.parametrize("moment", list(LUA))
def test_an_error_of_lua(tmp_path: Path, moment: str, kind: str) -> None:
    async def run() -> None:
        node = await _with_space(tmp_path)

        def reached() -> None:
            hooks[0]()

        hooks: list[Reached] = []
        node.function(reached)
        await node.eval(f"box.space.s:{kind}(function() {LUA[moment]} end)")
        outcome = await _write_and_stop(node, hooks.append)
        assert isinstance(outcome, BoxError)
        assert outcome.message in ("eval:1: boom", "fiber is cancelled")
        async with asyncio.timeout(SECONDS), Node(tmp_path) as again:
            assert await again.space["s"].select() == []

    asyncio.run(run())


@pytest.mark.parametrize("exception", [Boom, asyncio.CancelledError])
@pytest.mark.parametrize("make", PYTHON)
def test_an_exception_of_python(tmp_path: Path, make: Any, exception: type[BaseException]) -> None:
    async def run() -> None:
        node = await _with_space(tmp_path)
        outcome = await _write_and_stop(
            node, lambda reached: node.space["s"].on_replace(make(reached, exception)) and None
        )
        assert isinstance(outcome, (BoxError, asyncio.CancelledError))
        async with asyncio.timeout(SECONDS), Node(tmp_path) as again:
            assert await again.space["s"].select() == []

    asyncio.run(run())


def test_a_trigger_that_stops_its_node_and_raises(tmp_path: Path) -> None:
    async def run() -> None:
        node = await _with_space(tmp_path)

        async def trigger(old: Any, new: Any) -> None:
            await node.stop()
            raise Boom

        node.space["s"].on_replace(trigger)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(BoxError):
                await node.space["s"].insert([1])
            await node.stop()

    asyncio.run(run())


def test_the_exception_leaves_the_block_of_the_node(tmp_path: Path) -> None:
    """The exception of a trigger leaves the `async with` block of the node, which stops the node on the way."""

    async def run() -> None:
        async with asyncio.timeout(SECONDS), Node(tmp_path) as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            node.space["s"].on_replace(at_once(lambda: None, Boom))
            await node.space["s"].insert([1])

    with pytest.raises(BoxError, match="Boom: boom"):
        asyncio.run(run())


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("make", PYTHON)
def test_the_end_of_the_program_raised_by_a_trigger(tmp_path: Path, make: Any, exception: type[BaseException]) -> None:
    """A trigger that ends the program ends the loop with its exception, and the node is stopped when the program's
    tasks are cancelled.
    """
    nodes: list[Node] = []

    async def run() -> None:
        async with Node(tmp_path) as node:
            nodes.append(node)
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            stops: list[asyncio.Task[None]] = []
            reached = lambda: stops.append(asyncio.create_task(node.stop()))  # noqa: E731
            node.space["s"].on_replace(make(reached, exception))
            await node.space["s"].insert([1])

    with pytest.raises((exception, BoxError, asyncio.CancelledError)):
        asyncio.run(run())
    assert not nodes[0]._embedding.is_running


# -- box.sync -------------------------------------------------------------------------------------------------


def _stop_in_a_thread(node: BlockingNode, begin: Callable[[threading.Event], None]) -> BaseException | None:
    """Write in one thread and, when the trigger is reached, stop the node in another thread. Returns the error of the
    write.
    """
    reached, errors = threading.Event(), []
    begin(reached)

    def write() -> None:
        try:
            node.space["s"].insert([1])
        except BaseException as error:
            errors.append(error)
        finally:
            reached.set()

    threads = [threading.Thread(target=write, daemon=True)]
    threads[0].start()
    assert reached.wait(SECONDS)
    threads.append(threading.Thread(target=node.stop, daemon=True))
    threads[1].start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "the stop hangs"
    return errors[0] if errors else None


def _with_space_blocking() -> BlockingNode:
    node = BlockingNode()
    node.start()
    node.schema.create_space("s").create_index("pk")
    return node


@pytest.mark.parametrize("moment", list(LUA))
def test_blocking_an_error_of_lua(moment: str) -> None:
    node = _with_space_blocking()

    def begin(reached: threading.Event) -> None:
        def reach() -> None:
            reached.set()

        reach.__name__ = "reached"
        node.function(reach)
        node.eval(f"box.space.s:on_replace(function() {LUA[moment]} end)")

    assert isinstance(_stop_in_a_thread(node, begin), BoxError)


@pytest.mark.parametrize("exception", [Boom, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("make", PYTHON)
def test_blocking_an_exception_of_python(make: Any, exception: type[BaseException]) -> None:
    node = _with_space_blocking()
    outcome = _stop_in_a_thread(node, lambda reached: node.space["s"].on_replace(make(reached.set, exception)) and None)
    assert isinstance(outcome, (BoxError, exception))


def test_blocking_the_stop_has_begun_before_the_exception() -> None:
    node = _with_space_blocking()

    def trigger(old: Any, new: Any) -> None:
        stopper.start()
        wait_until(lambda: node._contexts is None)
        raise SystemExit

    stopper = threading.Thread(target=node.stop, daemon=True)
    node.space["s"].on_replace(trigger)
    with pytest.raises((SystemExit, BoxError)):
        node.space["s"].insert([1])
    stopper.join(SECONDS)
    assert not stopper.is_alive()


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
def test_blocking_an_exception_in_the_last_turn_of_the_loop(exception: type[BaseException]) -> None:
    """A task that a trigger has started raises an exception in the turn in which the loop is told to end."""
    node = _with_space_blocking()
    thread = node._running.thread
    tasks: list[asyncio.Task[None]] = []

    def end() -> None:
        raise exception

    async def raise_last() -> None:
        while thread.is_running:
            await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251 - the order to end arrives meanwhile
        asyncio.get_running_loop().call_soon(end)

    def trigger(old: Any, new: Any) -> None:
        tasks.append(asyncio.get_running_loop().create_task(raise_last()))

    node.space["s"].on_replace(trigger)
    node.space["s"].insert([1])
    stopper = threading.Thread(target=node.stop, daemon=True)
    stopper.start()
    stopper.join(5)
    assert not stopper.is_alive(), "the stop hangs"


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
def test_blocking_a_task_that_raises_as_the_loop_cancels_it(exception: type[BaseException]) -> None:
    """If a task raises while the loop cancels it, the other tasks still end."""
    node = _with_space_blocking()
    tasks: list[asyncio.Task[None]] = []
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.01 * number)
            ended.append(number)
            raise exception

    def trigger(old: Any, new: Any) -> None:
        tasks.extend(asyncio.get_running_loop().create_task(wait(number)) for number in range(3))

    node.space["s"].on_replace(trigger)
    node.space["s"].insert([1])
    stopper = threading.Thread(target=node.stop, daemon=True)
    stopper.start()
    stopper.join(SECONDS)
    assert not stopper.is_alive(), "the stop hangs"
    assert ended == [0, 1, 2]
