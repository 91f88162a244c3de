"""Streams of changes and triggers in Python: limits, truncation, replicas, synchronous spaces, turns of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from box import BoxError, Node
from box.embed import Change, ChangesLost
from box.testing import Cluster


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(100):
            await test()

    asyncio.run(bounded())


def test_a_truncation_is_a_change_without_tuples() -> None:
    """A truncation of the watched space is a change without tuples, in its place; one of another space is not in the
    stream.
    """

    async def test() -> None:
        async with Node() as node:
            spaces = [await node.schema.create_space(name) for name in ("a", "b")]
            for space in spaces:
                await space.create_index("pk")
            changes = spaces[0].changes()
            await spaces[0].insert([1])
            await spaces[1].truncate()
            await spaces[0].truncate()
            await spaces[0].insert([2])
            found = [await anext(changes) for _ in range(3)]
            assert [(change.old, change.new, change.is_truncation) for change in found] == [
                (None, (1,), False),
                (None, None, True),
                (None, (2,), False),
            ]
            changes.close()
            await spaces[0].truncate()
            assert [change async for change in changes] == []

    run(test)


def test_waiting_changes_are_bound_by_their_bytes() -> None:
    async def test() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s")
            await space.create_index("pk")
            changes = space.changes(max_bytes=5000)
            for number in range(10):
                await space.insert([number, "x" * 1000])
            found = []
            with pytest.raises(ChangesLost, match=r"5 changes of \d+ bytes wait"):
                found += [change async for change in _noting(changes, found)]
            assert [change.new[0] for change in found if change.new] == [0, 1, 2, 3, 4]
            # A reader that keeps up reads more than that.
            changes = space.changes(max_bytes=5000)
            for number in range(10, 30):
                await space.insert([number, "x" * 1000])
                assert (await anext(changes)).new is not None

    async def _noting(changes: Any, found: list[Change]) -> Any:
        async for change in changes:
            found.append(change)
            if False:
                yield change

    run(test)


def test_a_stream_on_a_replica_has_the_changes_of_its_master() -> None:
    """A stream on a replica has its master's changes with their LSNs and instance id, truncations included."""

    async def test() -> None:
        async with Cluster(2) as c:
            space = await c[0].schema.create_space("s")
            await space.create_index("pk")
            await c.wait_synced()
            changes = c[1].space["s"].changes()
            await space.insert([1])
            await space.update(1, [["!", 2, "x"]])
            await space.truncate()
            found = [await anext(changes) for _ in range(3)]
            assert [(change.old, change.new) for change in found] == [(None, (1,)), ((1,), (1, "x")), (None, None)]
            assert [change.replica_id for change in found] == [1, 1, 1]
            lsns = [change.lsn or 0 for change in found]
            assert lsns == sorted(lsns)

    run(test)


def test_triggers_on_a_replica_see_what_is_replicated() -> None:
    async def test() -> None:
        async with Cluster(2) as c:
            space = await c[0].schema.create_space("s")
            await space.create_index("pk")
            await c.wait_synced()
            seen: list[tuple[Any, Any]] = []
            trigger = c[1].space["s"].on_replace(lambda old, new: seen.append((old, new)))
            await space.insert([1])
            await space.delete(1)
            await c.wait_synced()
            assert seen == [(None, (1,)), ((1,), None)]
            trigger.remove()
            await space.insert([2])
            await c.wait_synced()
            assert len(seen) == 2

    run(test)


def test_a_synchronous_change_is_told_once_it_is_confirmed() -> None:
    """A synchronous change is in the stream once it is confirmed, and never, on any node, if it finds no quorum."""

    async def test() -> None:
        async with Cluster(2, replication_synchro_quorum=2, replication_synchro_timeout=30) as c:
            space = await c[0].schema.create_space("s", is_sync=True)
            await space.create_index("pk")
            await c.wait_synced()
            streams = [node.space["s"].changes() for node in c]
            await space.insert([1])
            assert [(await anext(stream)).new for stream in streams] == [(1,), (1,)]
            await c.partition(c[0], c[1])
            await c[0].configure(replication_synchro_timeout=0.2)
            with pytest.raises(BoxError, match="Quorum"):
                await space.insert([2])
            await c.heal()
            await c[0].configure(replication_synchro_timeout=30)
            await space.insert([3])
            assert [(await anext(stream)).new for stream in streams] == [(3,), (3,)]

    run(test)


def test_an_iteration_lets_the_loop_go_on() -> None:
    """Iterating over 100,000 rows leaves the loop short turns, whatever the reader does with them."""

    async def test() -> None:
        async with Node(wal_mode="none") as node:
            space = await node.schema.create_space("s")
            await space.create_index("pk")
            await node.eval("box.begin() for i = 1, 100000 do box.space.s:insert{i, 'text'} end box.commit()")
            turns: list[float] = []
            ticker = asyncio.create_task(_tick(turns))
            await asyncio.sleep(0)
            assert sum([1 async for _ in space.pairs()]) == 100_000
            ticker.cancel()
            assert len(turns) > 50
            # Processor time: other processes have no part in it.
            assert sorted(turns)[len(turns) * 99 // 100] < 0.01

    run(test)


async def _tick(turns: list[float]) -> None:
    last = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append(now - last)
        last = now


def test_as_many_changes_wait_as_the_limit_says() -> None:
    async def test() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s")
            await space.create_index("pk")
            changes = space.changes(limit=2)
            await space.insert([1])
            await space.insert([2])
            assert [(await anext(changes)).new for _ in range(2)] == [(1,), (2,)]
            for key in (3, 4, 5):
                await space.insert([key])
            assert [(await anext(changes)).new for _ in range(2)] == [(3,), (4,)]
            with pytest.raises(ChangesLost, match="2 changes of"):
                await anext(changes)

    run(test)
