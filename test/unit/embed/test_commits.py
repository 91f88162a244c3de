"""Writes with a log: a single one is written at once, concurrent ones are written together."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.embed.space_requests import Requests
from box.journal import journal


def run(directory: Path, test: Callable[[Node, Any, list[int]], Awaitable[None]], **options: Any) -> None:
    """Run a test; `writes` gets the number of entries of each write to the log."""

    async def with_node() -> None:
        async with Node(directory, **options) as node:
            space = await node.schema.create_space("s")
            await space.create_index("pk")
            await space.create_index("sk", parts=[{"field": 2, "type": "unsigned"}])
            writes: list[int] = []
            journal = node._embedding.core.journal
            assert journal is not None
            thread: Any = journal._thread
            write = thread.write

            def counted(entries: list[Any], messages: int) -> Any:
                writes.append(len(entries))
                return write(entries, messages)

            thread.write = counted
            await test(node, space, writes)

    asyncio.run(asyncio.wait_for(with_node(), 30))


async def turns() -> int:
    """Count turns of the loop until cancelled."""
    count = 0
    try:
        while True:
            await asyncio.sleep(0.0001)
            count += 1
    except asyncio.CancelledError:
        return count


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_lone_task_goes_on_without_a_turn_and_others_have_theirs(tmp_path: Path, mvcc: bool) -> None:
    async def test(node: Node, space: Any, writes: list[int]) -> None:
        for number in range(3):
            turn = asyncio.ensure_future(asyncio.sleep(0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert turn.done()
            handle = asyncio.get_running_loop().call_later(0, lambda: None)
            await space.replace([number, number])
            handle.cancel()
        assert writes == [1, 1, 1]
        counter = asyncio.create_task(turns())
        for number in range(2000):
            await space.replace([number, number])
        counter.cancel()
        assert await counter > 10

    run(tmp_path, test, memtx_use_mvcc_engine=mvcc)


def test_what_several_tasks_write_in_a_turn_is_one_write(tmp_path: Path) -> None:
    async def test(node: Node, space: Any, writes: list[int]) -> None:
        await asyncio.gather(*(space.replace([number, number]) for number in range(100)))
        assert writes == [100]

    run(tmp_path, test)


def test_tasks_with_versions_write_each_change_and_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that is in the log needs no version; its task waits for the end of the turn all the same."""

    async def test(node: Node, space: Any, writes: list[int]) -> None:
        order: list[str] = []

        def refuse(*arguments: Any) -> Any:
            raise AssertionError("this change needs no versions")

        monkeypatch.setattr(node._embedding.core.dml._general, "run", refuse)
        monkeypatch.setattr(journal, "_SLOW_WRITE", math.inf)  # also on a busy machine

        async def write(name: str, first: int) -> None:
            for number in range(first, first + 3):
                await space.replace([number, number])
                order.append(name)

        await asyncio.gather(write("a", 10), write("b", 20))
        assert "".join(order) == "ababab"
        assert writes == [1] * 6
        with pytest.raises(BoxError, match="Duplicate key exists"):
            await asyncio.gather(space.insert([30, 30]), space.insert([10, 10]))
        assert await space.len() == 7

    run(tmp_path, test, memtx_use_mvcc_engine=True)


def test_a_transaction_is_written_at_once(tmp_path: Path) -> None:
    async def test(node: Node, space: Any, writes: list[int]) -> None:
        async with node.transaction():
            await space.insert([1, 1])
            await space.insert([2, 2])
        await space.insert_many([[3, 3], [4, 4]])
        await space.update(1, {2: 10})
        await space.delete(2)
        await space.upsert([5, 5], [["=", 2, 6]])
        assert writes == [1] * 5

    run(tmp_path, test)
    asyncio.run(_check(tmp_path, [[1, 10], [3, 3], [4, 4], [5, 5]]))


async def _check(directory: Path, expected: list[Any]) -> None:
    async with Node(directory) as node:
        assert await node.space.s.select() == expected


def test_a_log_that_refuses_is_told_and_undone(tmp_path: Path) -> None:
    async def test(node: Node, space: Any, writes: list[int]) -> None:
        await space.insert([1, 1])
        await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
        for change in (space.insert([2, 2]), space.update(1, {2: 5}), space.delete(1), space.insert_many([[3, 3]])):
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await change
        await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")
        assert await space.select() == [[1, 1]]
        await space.insert([2, 2])
        assert await space.len() == 2

    run(tmp_path, test)


def test_a_synced_log_is_waited_for(tmp_path: Path) -> None:
    """With `wal_mode` fsync the log's thread writes, and the tuple is visible as committed when it is synced."""

    async def test(node: Node, space: Any, writes: list[int]) -> None:
        await space.insert([1, 1])
        assert await space.get(1) == [1, 1]

    run(tmp_path, test, wal_mode="fsync")
    asyncio.run(_check(tmp_path, [[1, 1]]))


def test_a_handle_follows_the_dictionary() -> None:
    """A handle keeps what it has looked up in the dictionary until that changes."""

    async def test() -> None:
        node = Node()
        await node.start()
        space = await node.schema.create_space("s", format=["id"])
        await space.create_index("pk", parts=[[1, "unsigned"]])
        requests: Requests = space._requests
        await space.insert([1])
        epoch = requests._epoch
        await space.insert([2])
        assert requests._epoch is epoch
        await space.set_format(["key"])
        assert (await space.get(1)).key == 1  # type: ignore[union-attr]
        assert requests._epoch is not epoch
        other = node.space.s
        await other.rename("t")
        with pytest.raises(BoxError, match="Space 's' does not exist"):
            await space.get(1)
        assert await other.get(1) == (1,)
        await other.drop()
        again = await node.schema.create_space("s")
        await again.create_index("pk")
        assert await space.len() == 0
        await node.stop()
        for call in (space.get(1), space.insert([1]), space.len()):
            with pytest.raises(BoxError, match="The node is stopped"):
                await call
        await node.start()
        with pytest.raises(BoxError, match="Space 's' does not exist"):
            await space.get(1)
        await node.stop()

    asyncio.run(test())
