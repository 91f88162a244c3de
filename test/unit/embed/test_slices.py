"""Long selects and iterations of an embedded node run in slices, with others in between, on the tuples
of one moment.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from box import Node
from box.embed import space_requests
from box.index.own_trees import LEAVES
from box.index.release import LEAVES_A_TURN
from box.txn.transaction import Statement

DEADLINE = 60
COUNT = 3000


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make few tuples take many slices."""
    monkeypatch.setattr(space_requests, "CHUNK", 16)


def run(main: Callable[[Node], Awaitable[None]], *, mvcc: bool = False) -> None:
    async def filled() -> None:
        async with Node(None, log_level=0, memtx_use_mvcc_engine=mvcc, wal_mode="none") as node:
            await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
            await node.eval("s:create_index('name', {parts = {{2, 'string'}}, unique = false})")
            await node.eval("for id = 1, ... do s:replace{id, 'n' .. id % 100} end", COUNT)
            await main(node)

    asyncio.run(asyncio.wait_for(filled(), DEADLINE))


def names(numbers: range) -> list[list[Any]]:
    return [[number, f"n{number % 100}"] for number in numbers]


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("iterator", ["GE", "LE"])
def test_a_select_is_of_one_moment(iterator: str, mvcc: bool) -> None:
    """Changes that others make during a select are not in its result."""

    async def main(node: Node) -> None:
        space = node.space["s"]
        expected = names(range(1, COUNT + 1))[:: 1 if iterator == "GE" else -1]
        selecting = asyncio.ensure_future(space.select(iterator=iterator))
        await asyncio.sleep(0)
        turns = 0
        while not selecting.done():
            turns += 1
            number = turns * 397 % COUNT + 1
            await space.replace([number, "other"])
            await space.delete(number + 1)
            await space.replace([COUNT + turns, "new"])
            await asyncio.sleep(0)
        assert turns > 5
        assert selecting.result() == expected
        assert not node._embedding.core.schema.space_by_name("s").primary.listeners  # type: ignore[union-attr]

    run(main, mvcc=mvcc)


def test_offset_and_limit() -> None:
    """Offset and limit count over any number of slices."""

    async def main(node: Node) -> None:
        space = node.space["s"]
        for offset, limit in ((0, 16), (0, 17), (300, 1000), (2999, 5000), (3000, 5000), (5000, 5000), (10, 0)):
            assert await space.select(offset=offset, limit=limit) == names(range(1, COUNT + 1))[offset : offset + limit]
        by_name = await space.select("n7", index="name")
        assert by_name == [row for row in names(range(1, COUNT + 1)) if row[1] == "n7"]

    run(main)


def test_pairs() -> None:
    """pairs() gives the tuples of one moment one by one, and frees its view when it is left early."""

    async def main(node: Node) -> None:
        space, found = node.space["s"], []
        async for row in space.pairs():
            found.append(row)
            if len(found) == 300:
                await node.eval("s:truncate()")
        assert found == names(range(1, COUNT + 1))
        await node.eval("for id = 1, ... do s:replace{id, 'n' .. id % 100} end", COUNT)
        rows = space.pairs(2000, iterator="LE")
        assert await anext(rows) == [2000, "n0"]
        await rows.aclose()  # type: ignore[attr-defined]
        assert not node._embedding.core.schema.space_by_name("s").primary.listeners  # type: ignore[union-attr]

    run(main)


def test_a_select_of_a_transaction_that_may_wait() -> None:
    """A select inside an MVCC transaction yields and reads one moment: two tuples that always change together agree."""

    async def main(node: Node) -> None:
        space, turns = node.space["s"], 0
        await node.eval("for id = 1, ... do s:replace{id, 'same'} end", COUNT)

        async def change() -> None:
            nonlocal turns
            while True:
                number = turns * 397 % (COUNT // 2) + 1
                async with node.transaction():
                    await space.replace([number, f"turn {turns}"])
                    await space.replace([COUNT + 1 - number, f"turn {turns}"])
                turns += 1
                await asyncio.sleep(0)

        changing = asyncio.ensure_future(change())
        try:
            for offset, limit in ((0, COUNT), (0, 2000), (100, 2**32 - 1)):
                before = turns
                async with node.transaction():
                    rows = await space.select(offset=offset, limit=limit)
                assert turns - before > 20
                found = {row[0]: row[1] for row in rows}
                assert list(found) == list(range(1, COUNT + 1))[offset : offset + limit]
                assert all(found.get(COUNT + 1 - number, name) == name for number, name in found.items())
        finally:
            changing.cancel()

    run(main, mvcc=True)


def test_stop_frees_the_tuples_a_few_in_every_turn() -> None:
    """stop() frees the tuples a few in every turn; the last reference to an index would free all at once."""

    async def main() -> list[int]:
        node = Node(None, log_level=0, wal_mode="none")
        await node.start()
        await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
        await node.eval("s:create_index('name', {parts = {{2, 'string'}}, unique = false})")
        await node.eval("for id = 1, ... do s:replace{id, 'n' .. id % 100} end", COUNT)
        indexes = node._embedding.core.schema.space_by_name("s").indexes.values()
        leaves = [found for index in indexes for found in index.nodes() if isinstance(found, LEAVES)]
        del indexes
        full = []
        stopping = asyncio.ensure_future(node.stop())
        while not stopping.done():
            full.append(sum(map(bool, leaves)))
            await asyncio.sleep(0)
        await stopping
        assert not any(leaves)
        return full

    full = asyncio.run(asyncio.wait_for(main(), DEADLINE))
    assert full[0] > 5 * LEAVES_A_TURN
    assert max(before - after for before, after in pairwise(full)) <= 2 * LEAVES_A_TURN


def test_a_program_that_never_rests_keeps_few_ended_statements() -> None:
    """What ended transactions leave is freed as fast as a program makes more of it."""

    async def main(node: Node) -> None:
        for begin in range(0, 20 * 5000, 5000):
            await node.space["s"].replace_many(names(range(begin, begin + 5000)))
        kept = sum(isinstance(found, Statement) for found in gc.get_objects())
        assert kept <= 4 * 5000

    run(main)
