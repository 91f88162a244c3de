"""Index builds and format checks while a space changes: they yield, include the changes, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from box import BoxError, Node
from box.instance.node import Instance
from box.schema.ddl import build as build_module

DEADLINE = 60
COUNT = 3000
_FILL = """
    local s = box.schema.space.create('s')
    s:create_index('pk')
    box.begin()
    for id = 1, ... do s:replace{id, 'n' .. id, id} end
    box.commit()
"""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a build of few tuples take many turns."""
    monkeypatch.setattr(build_module, "SLICE_TUPLES", 16)


def run(main: Callable[[Node], Awaitable[None]], *, mvcc: bool = False) -> None:
    """Run something on a node with a space of COUNT tuples {id, 'n<id>', id}."""

    async def filled() -> None:
        async with Node(None, log_level=0, memtx_use_mvcc_engine=mvcc, wal_mode="none") as node:
            await node.eval(_FILL, COUNT)
            await main(node)

    asyncio.run(asyncio.wait_for(filled(), DEADLINE))


def core(node: Node) -> Instance:
    return node._embedding.core


def create(node: Node, parts: str = "{{3, 'unsigned'}}") -> asyncio.Task[Any]:
    return asyncio.ensure_future(node.eval(f"box.space.s:create_index('sk', {{parts = {parts}}})"))


async def is_building(node: Node) -> None:
    """Wait until a build has visited a part of the space."""
    while not core(node).schema.altered:
        await asyncio.sleep(0)


async def keys(node: Node) -> list[list[int]]:
    """Return field 3 and the primary key of all tuples by index `sk`, which must agree with the primary index."""
    by_index = [[row[2], row[0]] for row in await node.space["s"].select(index="sk")]
    assert by_index == sorted([row[2], row[0]] for row in await node.space["s"].select())
    return by_index


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_build_gives_way(mvcc: bool) -> None:
    """No turn of a build visits more than one slice, and others run in between."""

    async def main(node: Node) -> None:
        turns = 0
        building = create(node)
        while not building.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= COUNT // build_module.SLICE_TUPLES
        assert len(await keys(node)) == COUNT

    run(main, mvcc=mvcc)


def test_a_turn_of_a_build_adds_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tuple has many keys, a turn visits fewer tuples."""

    async def main(node: Node) -> None:
        await node.eval("for id = 1, 100 do box.space.s:replace{id, {id, 1, 2, 3, 4, 5, 6, 7}} end")
        await node.eval("for id = 101, 3000 do box.space.s:delete(id) end")
        monkeypatch.setattr(build_module, "SLICE_EFFORT", 16)
        turns = 0
        parts = "{{2, 'unsigned', path = '[*]'}}"
        building = asyncio.ensure_future(
            node.eval(f"box.space.s:create_index('m', {{unique = false, parts = {parts}}})")
        )
        while not building.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 50
        assert await node.eval("return #box.space.s.index.m:select(7)") == 100

    run(main)


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_build_takes_changes_along(mvcc: bool) -> None:
    """A build includes committed changes of visited and unvisited tuples, and none that are rolled back."""

    async def main(node: Node) -> None:
        building = create(node)
        await is_building(node)
        space = node.space["s"]
        for near in (1, COUNT - 10):
            await space.replace([near, "x", near + 100000])
            await space.delete(near + 1)
            await space.update(near + 2, [["=", 3, near + 200000]])
            await space.upsert([near + 300000, "x", near + 300000], [])
            await node.eval(
                "box.begin() box.space.s:replace{..., 'y', 777777} box.space.s:delete{... + 4} box.rollback()", near + 3
            )
        assert not building.done()
        await building
        found = await keys(node)
        assert len(found) == COUNT
        assert [100001, 1] in found
        assert [200001, 3] in found
        assert 777777 not in [key for key, _ in found]

    run(main, mvcc=mvcc)


def test_a_large_transaction_is_taken_along_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MVCC a large transaction counts from its commit, and the build waits until its slices are in the index."""
    taken: list[int] = []
    change = build_module.IndexBuild.change

    def counted(build: Any, old: bytes | None, new: bytes | None) -> None:
        taken[-1] += 1
        change(build, old, new)

    monkeypatch.setattr(build_module.IndexBuild, "change", counted)
    monkeypatch.setattr(build_module, "SLICE_CHANGES", 8)

    async def main(node: Node) -> None:
        building = create(node)
        for _ in range(40):  # turns until some hundred tuples are in the index
            await asyncio.sleep(0)
        taken.append(0)
        await node.eval("box.begin() for id = 1, 100 do box.space.s:replace{id, 'y', id + 1000000} end box.commit()")
        await node.space["s"].replace([1, "z", 2000000])
        while not building.done():
            taken.append(0)
            await asyncio.sleep(0)
        await building
        found = await keys(node)
        assert len(found) == COUNT
        assert [2000000, 1] in found
        assert [1000100, 100] in found

    run(main, mvcc=True)
    assert sum(taken) == 101
    assert max(taken) <= 8


@pytest.mark.parametrize("rows", [1, 20])
def test_a_build_ends_while_others_write_all_the_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build ends though others change more in each turn than one of its slices."""
    monkeypatch.setattr(build_module, "SLICE_CHANGES", 8)
    monkeypatch.setattr(build_module, "_TURNS_A_SIZE", 16)

    async def main(node: Node) -> None:
        building, number = create(node), 0
        while not building.done():
            number += 1
            await node.eval(
                "local n, rows = ... box.begin() for id = 1, rows do box.space.s:replace{id, 'x', n * 100000 + id} end "
                "box.commit()",
                number,
                rows,
            )
            await asyncio.sleep(0)
        await building
        assert len(await keys(node)) == COUNT

    run(main, mvcc=True)


@pytest.mark.parametrize("mvcc", [False, True])
def test_keys_that_change_hands_in_a_transaction(mvcc: bool) -> None:
    """A build gets changes in their order: a key that moves between tuples in a transaction is no duplicate."""

    async def main(node: Node) -> None:
        building = create(node)
        for _ in range(5):
            await asyncio.sleep(0)
        await node.eval("""
            box.begin()
            box.space.s:replace{1, 'x', 1000001}
            box.space.s:replace{2, 'x', 1}
            box.space.s:replace{1, 'x', 2}
            box.commit()
        """)
        assert not building.done()
        await building
        assert (await keys(node))[:2] == [[1, 2], [2, 1]]

    run(main, mvcc=mvcc)


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize(
    ("row", "text"),
    [
        ([1, "x", 5], 'Duplicate key exists in unique index "sk"'),
        ([1, "x", "y"], "Tuple field 3 type does not match one required by operation: expected unsigned, got string"),
        ([1, "x"], "Tuple field 3 required by space format is missing"),
    ],
)
def test_a_change_that_the_index_cannot_take_ends_the_build(row: list[Any], text: str, mvcc: bool) -> None:
    """A change that does not fit the new index stays and fails the build, which can be repeated later."""

    async def main(node: Node) -> None:
        building = create(node)
        await is_building(node)
        await node.space["s"].replace(row)
        with pytest.raises(BoxError) as caught:
            await building
        assert text in caught.value.message
        assert await node.space["s"].get(1) == row
        assert await node.eval("return box.space._index:count{box.space.s.id}") == 1
        assert core(node).schema.altered == set()
        assert not core(node).schema.space_by_name("s").primary.listeners  # type: ignore[union-attr]
        await node.space["s"].replace([1, "n1", 1])
        await create(node)
        assert len(await keys(node)) == COUNT

    run(main, mvcc=mvcc)


def test_stored_tuples_that_the_index_cannot_take_end_the_build() -> None:
    """A duplicate or a wrong type in any stored tuple fails the build and frees the part that is built."""

    async def main(node: Node) -> None:
        for row, code in (([COUNT, "x", 7], "TUPLE_FOUND"), ([COUNT, "x", "y"], "FIELD_TYPE")):
            await node.space["s"].replace(row)
            with pytest.raises(BoxError) as caught:
                await create(node)
            assert caught.value.name == f"ER_{code}"
            assert await node.eval("return box.space.s.index.sk") is None
        while not core(node).releaser.is_idle:
            await asyncio.sleep(0)

    run(main)


def test_a_space_that_is_being_altered_is_left_alone() -> None:
    """While a space is being altered its other alterations fail with Tarantool's text, and other spaces
    can be altered.
    """

    async def main(node: Node) -> None:
        building = create(node)
        await is_building(node)
        for command in (
            "create_index('other', {parts = {{2, 'string'}}})",
            "truncate()",
            "drop()",
            "rename('t')",
            "format({{'id', 'unsigned'}})",
        ):
            with pytest.raises(BoxError, match="Can't modify space 's': the space is already being modified"):
                await node.eval(f"box.space.s:{command}")
        await node.eval("box.schema.space.create('t'):create_index('pk')")
        assert not building.done()
        await building
        await node.eval("box.space.s:truncate()")

    run(main)


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_format_check_gives_way(mvcc: bool) -> None:
    """A change that breaks a new format while it is checked succeeds, and the alteration fails."""

    async def main(node: Node) -> None:
        async def check() -> None:
            await node.eval("box.space.s:format({{'id', 'unsigned'}, {'name', 'string'}})")

        checking = asyncio.ensure_future(check())
        await is_building(node)
        await node.space["s"].replace([1, 2, 3])
        with pytest.raises(BoxError, match="expected string, got unsigned"):
            await checking
        await node.space["s"].replace([1, "n1", 3])
        await check()
        with pytest.raises(BoxError):
            await node.space["s"].replace([1, 2, 3])

    run(main, mvcc=mvcc)


def test_another_primary_key_is_built_with_all_that_depends_on_it() -> None:
    """A new primary key rebuilds the secondary indexes, which end with it; changes meanwhile are in all of them."""

    async def main(node: Node) -> None:
        await node.eval("box.space.s:create_index('name', {parts = {{2, 'string'}}, unique = false})")
        building = asyncio.ensure_future(node.eval("box.space.s.index.pk:alter{parts = {{3, 'unsigned'}}}"))
        await is_building(node)
        await node.space["s"].replace([1, "first", 900000])
        await building
        assert (await node.space["s"].select(limit=1)) == [[2, "n2", 2]]
        assert await node.space["s"].get(900000) == [1, "first", 900000]
        assert await node.space["s"].select("first", index="name") == [[1, "first", 900000]]
        assert await node.space["s"].count(index="name") == COUNT

    run(main)


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_snapshot_during_a_build_has_no_trace_of_it(mvcc: bool, tmp_path: Any) -> None:
    """A snapshot during a build does not have the row of `_index`, which may still be rolled back."""

    async def main() -> None:
        async with Node(tmp_path, log_level=0, memtx_use_mvcc_engine=mvcc, wal_mode="none") as node:
            await node.eval(_FILL, COUNT)
            building = create(node)
            await is_building(node)
            await node.eval("box.snapshot()")
            await building
        # Without a log there is only the snapshot.
        async with Node(tmp_path, log_level=0) as node:
            assert await node.eval("return box.space._index:count{box.space.s.id}") == 1
            assert await node.space["s"].len() == COUNT

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_build_comes_back_from_the_log(tmp_path: Any) -> None:
    """Recovery from the log gives the index and every change made during its build, in order."""

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(_FILL, COUNT)
            building = create(node)
            await is_building(node)
            await node.space["s"].replace([1, "x", 500000])
            await building
            before = await keys(node)
        async with Node(tmp_path, log_level=0) as node:
            assert await keys(node) == before

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_node_closes_during_a_build(tmp_path: Any) -> None:
    """A node that closes during a build cancels it, and there is no index after the restart."""

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(_FILL, COUNT)
            building = create(node)
            await is_building(node)
        with pytest.raises(asyncio.CancelledError):
            await building
        async with Node(tmp_path, log_level=0) as node:
            assert await node.eval("return box.space.s.index.sk") is None
            await create(node)
            assert len(await keys(node)) == COUNT

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_build_waits_for_an_injected_delay() -> None:
    """ERRINJ_BUILD_INDEX_DELAY delays a build, also one of a single slice."""

    async def main(node: Node) -> None:
        await node.eval("for id = 11, ... do box.space.s:delete(id) end", COUNT)
        core(node).errinj.set("ERRINJ_BUILD_INDEX_DELAY", True)
        building = create(node)
        await is_building(node)
        await node.space["s"].replace([99, "late", 99])
        assert not building.done()
        core(node).errinj.set("ERRINJ_BUILD_INDEX_DELAY", False)
        await building
        assert [99, 99] in await keys(node)

    run(main)
