"""Every request of spaces and indexes, long reads, and the conversion of Python values."""

from __future__ import annotations

import asyncio
import datetime
import gc
import pickle
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from box import BoxError, Node
from box.embed import NamedRow, SpaceHandle
from box.errors import ErrorCode

ROWS = 100_000


async def fruits(node: Node) -> SpaceHandle:
    await node.eval("""
        local s = box.schema.space.create('fruits', {format = {
            {'id', 'unsigned'}, {'name', 'string'}, {'count', 'integer', is_nullable = true},
            {'class', 'any', is_nullable = true}}})
        s:create_index('pk')
        s:create_index('name', {parts = {{'name'}}})
        s:create_index('all', {parts = {{'count', exclude_null = true}}, unique = false})""")
    return node.space["fruits"]


async def longest_stall(work: Any) -> tuple[Any, float]:
    """Return the result of `work` and the longest time without a turn for others, in seconds of this thread's processor
    time.
    """
    longest, last = 0.0, time.thread_time()

    async def watch() -> None:
        nonlocal longest, last
        while True:
            now = time.thread_time()
            longest, last = max(longest, now - last), now
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        return await work, longest
    finally:
        watcher.cancel()


def test_an_index_has_all_requests() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await fruits(node)
            for number, name in enumerate(("fig", "pear", "apple"), 1):
                await space.insert([number, name, number % 2])
            by_name, by_count = space.index["name"], space.index["all"]
            assert list(space.index) == ["pk", "name", "all"]
            assert (space.id, by_name.id) == (512, 1)
            assert await by_name.get("fig") == [1, "fig", 1]
            assert [row.name for row in await by_name.select()] == ["apple", "fig", "pear"]
            assert await by_name.select("fig", iterator="gt", limit=1) == [[2, "pear", 0]]
            assert await by_count.count(1) == 2
            assert await by_count.min(1) == [1, "fig", 1]
            assert await by_count.max() == [3, "apple", 1]
            assert await by_name.update("fig", [["+", "count", 5], ["!", -1, "more"]]) == [1, "fig", 6, "more"]
            assert await by_name.delete("pear") == [2, "pear", 0]
            assert await by_name.random(7) in await space.select()
            assert (await by_name.len(), await space.min(), await space.max()) == (
                2,
                [1, "fig", 6, "more"],
                [3, "apple", 1],
            )
            assert [row async for row in by_name] == await by_name.select()
            assert await space.random(1) == await space.random(1)
            with pytest.raises(BoxError) as caught:
                await by_count.get(1)
            assert caught.value.code == ErrorCode.MORE_THAN_ONE_TUPLE
            with pytest.raises(BoxError) as caught:
                space.index["none"]
            assert caught.value.code == ErrorCode.NO_SUCH_INDEX_NAME
            assert (space.index.get("none"), "pk" in space.index, len(space.index)) == (None, True, 3)
            await space.truncate()
            assert (await space.min(), await space.random(1), await space.len()) == (None, None, 0)

    asyncio.run(run())


def test_rows_have_the_names_of_the_format() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await fruits(node)
            row = await space.insert({"name": "fig", "id": 1})
            assert row is not None
            assert (row, row.id, row.name) == ((1, "fig"), 1, "fig")
            assert (row["count"], row["class"], row[1], row[-1], row[:1]) == (None, None, "fig", "fig", (1,))
            assert repr(row) == "fruits(id=1, name='fig')"
            assert row._asdict() == {"id": 1, "name": "fig", "count": None, "class": None}
            assert (row == [1, "fig"], row == [1, "fig"], row != [1], {row: 1}[(1, "fig")]) == (True, True, True, 1)
            same = pickle.loads(pickle.dumps(row))
            assert (same, same.name, repr(same)) == (row, "fig", repr(row))
            with pytest.raises(KeyError):
                row["colour"]
            with pytest.raises(AttributeError):
                row.colour  # noqa: B018
            assert await space.replace({"id": 2, "name": "pear", "class": "x"}) == [2, "pear", None, "x"]
            with pytest.raises(BoxError, match="Field 'colour' was not found in space 'fruits' format") as caught:
                await space.insert({"id": 3, "name": "plum", "colour": 1})
            assert caught.value.code == ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE
            await space.upsert({"id": 2, "name": "pear"}, [["=", "name", "nashi"]])
            assert (await space.get(2)).name == "nashi"  # type: ignore[union-attr]
            await node.eval("box.space.fruits:format({{'number', 'unsigned'}})")
            assert (await space.get(1)).number == 1  # type: ignore[union-attr]
            assert repr(NamedRow((1, 2))) == "(1, 2)"

    asyncio.run(run())


def test_values_come_back_as_they_went_in() -> None:
    values: list[Any] = [
        1,
        "text",
        b"\x00\xff",
        2**64 - 1,
        -(2**63),
        1.5,
        True,
        None,
        Decimal("-12.340"),
        UUID(int=5),
        [1, [2]],
        {"a": 1},
    ]

    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            space = node.space["s"]
            assert await space.insert(values) == values
            found = await space.get(1)
            assert found == values
            assert found is not None
            assert [type(value) for value in found] == [type(value) for value in values]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**64, "the integer 18446744073709551616 is out of range"),
        (-(2**63) - 1, "the integer -9223372036854775809 is out of range"),
        (datetime.datetime(2021, 4, 9), "MessagePack does not support a datetime without a time zone"),
        ([{"at": datetime.date(2021, 4, 9)}], "Tarantool 2.8 does not support values of type date"),
        ({1, 2}, "a value of type set cannot be stored"),
        (Decimal("1" * 39), "does not support decimal 1111"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(value: Any, text: str) -> None:
    """A value that cannot be stored, in any place of a request, raises an error that names it, and nothing changes."""

    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            space = node.space["s"]
            await space.insert([1, "old"])
            for work in (
                space.insert([2, value]),
                space.replace([1, value]),
                space.update(1, [["=", 2, value]]),
                space.upsert([1], [["=", 2, value]]),
                node.eval("return ...", value),
                node.call("tostring", value),
                space.get(value),
                space.delete([value]),
                space.count([value]),
            ):
                with pytest.raises(BoxError, match=text):
                    await work
            assert await space.select() == [[1, "old"]]

    asyncio.run(run())


def test_a_long_read_leaves_room_for_others() -> None:
    """A select of 100,000 rows delays other tasks by less than 10 ms, without the garbage collector, which the caller
    controls.
    """

    async def run() -> None:
        async with Node(wal_mode="none") as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            await node.eval(
                "for i = 1, ... do box.space.s:insert{i, 'row ' .. i, i % 7}"
                " if i % 1000 == 0 then require('fiber').yield() end end",
                ROWS,
            )
            space = node.space["s"]

            async def iterate() -> int:
                count = 0
                async for row in space:
                    count += row[0] > 0
                return count

            async def select() -> int:
                return len(await space.select())

            for read in (iterate, select):
                gc.disable()
                try:
                    count, stall = await longest_stall(read())
                finally:
                    gc.enable()
                assert count == ROWS
                assert stall < 0.01, read.__name__

    asyncio.run(run())


def test_a_select_and_an_iteration_show_one_moment() -> None:
    async def run() -> None:
        async with Node(wal_mode="none") as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            await node.eval("for i = 1, 2000 do box.space.s:insert{i * 2} end")
            space = node.space["s"]
            selected = asyncio.create_task(space.select(offset=10, limit=1500))
            await asyncio.sleep(0)
            await space.delete(2400)
            await space.insert([2401])
            await space.replace([2500, "new"])
            assert await selected == [[number * 2] for number in range(11, 1511)]

            seen = []
            async for row in space.pairs(iterator="ge"):
                if not seen:
                    await space.insert([1])
                    await space.insert([3999])
                    await space.delete(3998)
                seen.append(row[0])
            assert seen == sorted({*range(2, 4001, 2), 2401} - {2400})

    asyncio.run(run())


async def finish(rows: AsyncIterator[NamedRow]) -> None:
    async for _ in rows:
        pass


def test_an_iteration_inside_a_transaction_sees_its_changes() -> None:
    async def run() -> None:
        for mvcc in (False, True):
            async with Node(wal_mode="none", memtx_use_mvcc_engine=mvcc) as node:
                await node.eval("box.schema.space.create('s'):create_index('pk')")
                await node.eval("for i = 1, 1000 do box.space.s:insert{i} end")
                space = node.space["s"]
                async with node.transaction():
                    await space.delete(1)
                    assert await space.select(limit=700) == [[number] for number in range(2, 702)]
                    rows = space.pairs()
                    assert await anext(rows) == [2]
                    await space.insert([1001])
                    await space.delete(900)
                    assert [row[0] async for row in rows] == [*range(3, 900), *range(901, 1002)]

    asyncio.run(run())


def test_an_iteration_outlives_its_space_but_not_its_node() -> None:
    async def run() -> None:
        async with Node(wal_mode="none") as node:
            for statement in ("box.space.s:truncate()", "box.space.s:drop()"):
                await node.eval("s = box.schema.space.create('s', {if_not_exists = true})")
                await node.eval("s:create_index('pk', {if_not_exists = true})")
                await node.eval("for i = 1, 1000 do s:replace{i, i} end")
                rows = node.space["s"].pairs(1, iterator="ge")
                assert await anext(rows) == [1, 1]
                await node.eval(statement)
                assert len([row async for row in rows]) == 999
            await node.eval("s = box.schema.space.create('s') s:create_index('pk') for i = 1, 1000 do s:replace{i} end")
            rows = node.space["s"].pairs()
            assert await anext(rows) == [1]
        with pytest.raises(BoxError) as caught:
            await finish(rows)
        assert caught.value.code == ErrorCode.LOADING

    asyncio.run(run())


def test_spaces_are_a_mapping() -> None:
    async def run() -> None:
        async with Node() as node:
            assert repr(node.space) == "<spaces: none>"
            space = await fruits(node)
            await node.eval("box.schema.space.create('bare')")
            assert (list(node.space), len(node.space), "fruits" in node.space) == (["fruits", "bare"], 2, True)
            assert "_schema" in node.space
            assert node.space.get("none") is None
            assert repr(node.space) == "<spaces: fruits, bare>"
            assert repr(space) == "<space 'fruits' memtx (id, name, count, class) indexes: pk, name, all>"
            assert repr(node.space["bare"]) == "<space 'bare' memtx (no format) indexes: none>"
            assert repr(space.index) == "<indexes of 'fruits': pk, name, all>"
            assert [handle.name for handle in node.space.values()] == ["fruits", "bare"]
            await node.eval("box.space.fruits:drop()")
            assert repr(space) == "<space 'fruits', which is not there>"
        assert repr(node.space) == "<spaces of a node that does not run>"

    asyncio.run(run())
