"""`changes(start=...)` continues from a vclock with the changes in the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, ChangesLost, ChangeStream, Node, SpaceHandle, UnsupportedError
from box.embed import log_replay
from box.sync import Node as BlockingNode
from test.support import until

DEADLINE = 30


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), DEADLINE))


async def space_of(node: Node) -> SpaceHandle:
    space = await node.schema.create_space("s", format=["id", {"name": "text", "is_nullable": True}])
    await space.create_index("pk", parts=[[1, "unsigned"]])
    return space


async def taken(stream: ChangeStream[Any], count: int) -> list[tuple[Any, Any]]:
    return [((change := await anext(stream)).old, change.new) for _ in range(count)]


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_stream_goes_on_after_a_new_start(tmp_path: Path, mvcc: bool) -> None:
    """A stream continues after a restart with the tuples before and after each change, over snapshots, DDL and
    truncations.
    """

    async def test() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=mvcc) as node:
            space = await space_of(node)
            changes = space.changes()
            await space.insert([1, "a"])
            assert (await anext(changes)).new == (1, "a")
            position = changes.position
            await space.insert([2, "b"])
            await node.eval("box.snapshot()")
            await space.update(1, {"text": "aa"})
        async with Node(tmp_path, memtx_use_mvcc_engine=mvcc) as node:
            space = node.space.s
            await space.upsert([2, "-"], {"text": "bb"})
            await space.delete(1)
            await space.create_index("sk", parts=[{"field": 2, "type": "string", "is_nullable": True}], unique=False)
            await space.truncate()
            other = await node.schema.create_space("other")
            await other.create_index("pk")
            await other.insert([1])
            async with node.transaction():
                await space.insert([3])
                await other.insert([2])
            expected = [
                (None, [2, "b"]),
                ([1, "a"], [1, "aa"]),
                ([2, "b"], [2, "bb"]),
                ([1, "aa"], None),
                (None, None),
                (None, [3]),
                (None, [4]),
            ]
            stream = space.changes(start=position)
            await space.insert([4])
            assert await taken(stream, 7) == expected
            later = stream.position
            await space.insert([5])
            assert await taken(stream, 1) == [(None, [5])]
            assert await taken(space.changes(start=later), 1) == [(None, [5])]
            assert await taken(space.changes(start=position), 8) == [*expected, (None, [5])]

    run(test)


def test_every_change_comes_once_while_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change comes once while others write, with small batches, whose reader waits for the consumer."""
    monkeypatch.setattr(log_replay, "_BATCH", 7)

    async def test() -> None:
        async with Node(tmp_path) as node:
            space = await space_of(node)
            for number in range(200):
                await space.insert([number])
            is_over = False

            async def write() -> int:
                number = 200
                while not is_over:
                    await space.insert([number])
                    number += 1
                    await asyncio.sleep(0)
                return number

            writer = asyncio.create_task(write())
            stream = space.changes(start={1: 0})
            numbers = [(await anext(stream)).new[0] for _ in range(400)]  # type: ignore[index]
            is_over = True
            last = await writer
            numbers += [(await anext(stream)).new[0] for _ in range(last - 400)]  # type: ignore[index]
            assert numbers == list(range(last))
            clocks = [stream.position]
            assert all(before != after for before, after in pairwise(clocks))

    run(test)


def test_what_was_rolled_back_is_not_given(tmp_path: Path) -> None:
    """Synchronous transactions that are rolled back, and those after them, are not in the stream;
    confirmed ones are.
    """

    async def test() -> None:
        async with Node(tmp_path, replication_synchro_quorum=1) as node:
            space = await node.schema.create_space("s", is_sync=True)
            await space.create_index("pk")
            await space.insert([1])
            await node.configure(replication_synchro_quorum=2, replication_synchro_timeout=0.05)
            with pytest.raises(BoxError, match="Quorum collection"):
                await space.insert([2])
            await node.configure(replication_synchro_quorum=1)
            await space.insert([3])
            assert await taken(space.changes(start={}), 2) == [(None, [1]), (None, [3])]

    run(test)


@pytest.mark.parametrize("mvcc", [False, True])
def test_changes_under_way_come_once(tmp_path: Path, mvcc: bool) -> None:
    """Changes in the journal's queue, and of a transaction that is open when the stream starts, come once."""

    async def test() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=mvcc) as node:
            space = await space_of(node)
            await space.insert([1])
            began, opened = asyncio.Event(), asyncio.Event()

            async def transact() -> None:
                async with node.transaction():
                    await space.insert([10])
                    began.set()
                    await opened.wait()

            long = asyncio.create_task(transact())
            await began.wait()
            writes = [asyncio.create_task(space.insert([number])) for number in (2, 3)]
            await asyncio.sleep(0)
            stream = space.changes(start={})
            await asyncio.gather(*writes)
            opened.set()
            outcome = (await asyncio.gather(long, return_exceptions=True))[0]
            assert (outcome is None) == mvcc
            keys = {(await anext(stream)).new[0] for _ in range(4 if mvcc else 3)}  # type: ignore[index]
            assert keys == ({1, 2, 3, 10} if mvcc else {1, 2, 3})
            await space.insert([4])
            assert await taken(stream, 1) == [(None, [4])]

    run(test)


def test_a_log_that_does_not_reach_back_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path, checkpoint_count=1, wal_cleanup_delay=0) as node:
            space = await space_of(node)
            await space.insert([1])
            await node.eval("box.snapshot()")
            await space.insert([2])
            await until(lambda: len(list(tmp_path.glob("*.snap"))) == 1)
            stream = space.changes(start={1: 1})
            with pytest.raises(ChangesLost, match="the log does not reach back to"):
                await anext(stream)
        async with Node(tmp_path / "void", wal_mode="none") as node:
            space = await space_of(node)
            with pytest.raises(UnsupportedError, match="wal_mode 'none' does not support changes"):
                space.changes(start={})

    run(test)


def test_a_node_in_memory_has_a_log_too() -> None:
    async def test() -> None:
        async with Node() as node:
            space = await space_of(node)
            await space.insert([1])
            assert await taken(space.changes(start={}), 1) == [(None, [1])]

    run(test)


@pytest.mark.parametrize("how", ["close", "stop"])
def test_a_stream_that_is_given_up_leaves_nothing_running(tmp_path: Path, how: str) -> None:
    async def test() -> None:
        tasks = asyncio.all_tasks()
        node = Node(tmp_path)
        await node.start()
        space = await space_of(node)
        await space.insert_many([number] for number in range(5000))
        stream = space.changes(start={})
        await anext(stream)
        if how == "close":
            stream.close()
        await node.stop()
        if how == "stop":
            assert len([change async for change in stream]) < 5000
        assert asyncio.all_tasks() == tasks

    before = set(threading.enumerate())
    run(test)
    assert set(threading.enumerate()) <= before


def test_blocking_streams_go_on_as_well(tmp_path: Path) -> None:
    with BlockingNode(tmp_path) as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        space.insert_many([[1], [2]])
        changes = space.changes(start={})
        assert [next(changes).new for _ in range(2)] == [[1], [2]]
        assert changes.position == space.changes().position


def test_the_instance_that_reads_the_log_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its log would otherwise go to the standard error of the program."""

    async def test() -> None:
        async with Node(tmp_path) as node:
            space = await space_of(node)
            await space.insert([1])
            async with space.changes(start={}) as changes:
                assert (await anext(changes)).new == (1,)

    run(test)
    assert capfd.readouterr() == ("", "")


def test_a_transaction_with_another_space_that_was_rolled_back_is_not_given(tmp_path: Path) -> None:
    """The rollback names the last row of the transaction, which belongs to the synchronous space."""

    async def test() -> None:
        async with Node(tmp_path / "data", replication_synchro_quorum=1) as node:
            held = await node.schema.create_space("held", is_sync=True)
            space = await node.schema.create_space("s")
            for one in (held, space):
                await one.create_index("pk")
            await space.insert([1])
            await node.configure(replication_synchro_quorum=2, replication_synchro_timeout=0.05)

            async def lose() -> None:
                async with node.transaction():
                    await space.insert([2])
                    await held.insert([2])

            with pytest.raises(BoxError, match="Quorum collection"):
                await lose()
            await node.configure(replication_synchro_quorum=1)
            async with node.transaction():
                await space.insert([3])
                await held.insert([3])
            async with space.changes(start={}) as changes:
                assert [(await anext(changes)).new for _ in range(2)] == [(1,), (3,)]

    run(test)
