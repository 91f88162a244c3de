"""A recovery yields, shows its progress, ends when the node does, and builds the indexes that the log creates."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.index import bulk
from box.instance import loader, local_recovery
from box.instance.node import Instance

DEADLINE = 60
COUNT = 6000
_FILL = """
    local s = box.schema.space.create('s')
    s:create_index('pk')
    s:create_index('name', {parts = {{2, 'string'}}, unique = false})
    box.begin()
    for id = 1, ... do s:replace{id, 'n' .. id * 7919 % 1009, id} end
    box.commit()
"""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a recovery of few tuples take many turns."""
    for module in (loader, local_recovery):
        monkeypatch.setattr(module, "ROWS_A_TURN", 16)
    monkeypatch.setattr(local_recovery, "_PROGRESS", 1000)
    monkeypatch.setattr(bulk, "SLICE", 64)


async def write(directory: Path, *, snapshot: bool) -> list[Any]:
    """Write a node's files; returns its tuples by name."""
    async with Node(directory, log_level=0) as node:
        await node.eval(_FILL, COUNT)
        if snapshot:
            await node.eval("box.snapshot()")
        found: list[Any] = await node.space["s"].select(index="name")
        return found


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def turns_of(work: asyncio.Future[Any]) -> int:
    """Return the turns of the loop until a recovery is done."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_recovery_gives_way(snapshot: bool, tmp_path: Path) -> None:
    """Other tasks run while tuples are read and secondary indexes are built; everything is there at the end."""

    async def main() -> None:
        expected = await write(tmp_path, snapshot=snapshot)
        node = Node(tmp_path, log_level=5, log=str(tmp_path / "log"))
        starting = asyncio.ensure_future(node.start())
        assert await turns_of(starting) > (2 * COUNT // 64 if snapshot else COUNT // 16)
        starting.result()
        assert await node.space["s"].select(index="name") == expected
        assert await node.space["s"].count("n7", index="name") == sum(row[1] == "n7" for row in expected)
        await node.stop()
        log = (tmp_path / "log").read_text()
        assert "0.0M rows processed" in log
        if snapshot:
            assert "Building secondary indexes in space 's'..." in log
            assert f"Adding {COUNT} keys to TREE index 'name' ..." in log
            assert "Space 's': done" in log

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_node_closes_while_it_recovers(snapshot: bool, tmp_path: Path) -> None:
    """A node that closes while it recovers raises an error of its own and writes nothing; the next start finds
    everything.
    """

    async def main() -> None:
        expected = await write(tmp_path, snapshot=snapshot)
        files = names(tmp_path)
        node = Instance(tmp_path)
        starting = asyncio.ensure_future(node.configure({"log_level": 0}))
        while not (node._startup is not None and node._startup._recovery is not None):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await node.close()
        with pytest.raises(BoxError, match="fiber is cancelled"):
            await starting
        assert names(tmp_path) == files
        async with Node(tmp_path, log_level=0) as again:
            assert await again.space["s"].select(index="name") == expected

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_key_that_a_snapshot_repeats_ends_the_start(tmp_path: Path) -> None:
    """A key that occurs twice in a snapshot fails the start with Tarantool's error."""

    async def main() -> None:
        async with Node(tmp_path, log_level=0, wal_mode="none") as node:
            await node.eval(_FILL, COUNT)
            primary = node._embedding.core.schema.space_by_name("s").primary
            assert primary is not None
            primary.put(COUNT + 1, primary.find(1))
            await node.eval("box.snapshot()")
        with pytest.raises(BoxError, match="Duplicate key exists"):
            async with Node(tmp_path, log_level=0):
                pass

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


_MANY_CHANGES = """
    local function indexed(name, options)
        local s = box.schema.space.create(name, options)
        s:create_index('pk', {sequence = name == 'auto' or nil})
        s:create_index('tag', {parts = {{2, 'unsigned'}}, unique = false})
        s:create_index('hash', {type = 'HASH', parts = {{1, 'unsigned'}, {3, 'string', is_nullable = false}}})
        s:create_index('some', {parts = {{4, 'unsigned', is_nullable = true}}, unique = true})
        s:create_index('many', {parts = {{5, 'unsigned', path = '[*]'}}, unique = false})
        return s
    end
    local function change(s)
        for i = 1, 100 do s:insert{i, i % 7, 'a', i % 3 == 0 and i or box.NULL, {i, i % 5}} end
        for i = 1, 100, 4 do s:update(i, {{'=', 2, 50}, {'=', 5, {i, 1000}}}) end
        for i = 1, 100, 9 do s:delete(i) end
        s.index.some:delete(42)
        s:upsert({1, 1, 'b', box.NULL, {7}}, {{'+', 2, 1}})
        s:upsert({2, 1, 'b', box.NULL, {7}}, {{'+', 2, 1}})
        box.begin() s:replace{3, 0, 'c', 3, {1}} s:delete(4) s:replace{4, 1, 'd', 4, {2}} box.commit()
    end
    change(indexed('plain'))
    change(indexed('sync', {is_sync = true}))
    change(indexed('renamed'))
    box.space.renamed:rename('other')
    for i = 200, 220 do box.space.other:insert{i, 1, 'x', i, {i}} end
    change(indexed('fewer'))
    box.space.fewer.index.tag:drop()
    change(indexed('empty'))
    box.space.empty:truncate()
    box.space.empty:insert{5, 1, 'z', 1, {1}}
    change(indexed('more'))
    box.space.more:create_index('last', {parts = {{3, 'string'}, {1, 'unsigned'}}})
    indexed('gone'):insert{1, 1, 'a', 1, {1}}
    box.space.gone:drop()
    local auto = indexed('auto')
    for i = 1, 50 do auto:insert{box.NULL, i % 4, 'q', i, {i, i + 1}} end
    local r = box.schema.space.create('tree')
    r:create_index('pk')
    r:create_index('place', {type = 'RTREE', parts = {{2, 'array'}}, unique = false})
    for i = 1, 30 do r:insert{i, {i % 5, i}} end
    local filled = box.schema.space.create('filled')
    filled:create_index('pk')
    for i = 1, 30 do filled:insert{i, i % 4} end
    filled:create_index('late', {parts = {{2, 'unsigned'}}, unique = false})
    for i = 31, 60 do filled:insert{i, i % 4} end
"""
_CONTENTS = """
    local found = {}
    for id, s in pairs(box.space) do
        if type(id) == 'number' and id > 511 then
            for n, i in pairs(s.index) do
                if type(n) == 'number' then
                    local tuples = i:select()
                    local what = i.type == 'HASH' and #tuples or tuples
                    found[s.name .. '.' .. i.name] = {what, i:len(), i:bsize(), s:bsize()}
                end
            end
        end
    end
    return found
"""


@pytest.mark.parametrize("options", [{}, {"memtx_use_mvcc_engine": True}, {"force_recovery": True}])
@pytest.mark.parametrize("snapshot", [True, False])
def test_all_indexes_are_as_before(snapshot: bool, options: dict[str, Any], tmp_path: Path) -> None:
    """Whatever changes of a space the log has, its indexes have the same tuples in the same order after recovery."""

    async def main() -> None:
        async with Node(tmp_path, log_level=0, **options) as node:
            await node.eval(_MANY_CHANGES)
            if snapshot:
                await node.eval("box.snapshot()")
                await node.eval("for i = 300, 330 do box.space.plain:insert{i, 1, 'y', i, {i}} end")
            expected = await node.eval(_CONTENTS)
        for _ in range(2):
            async with Node(tmp_path, log_level=5, log=str(tmp_path / "log"), **options) as node:
                assert await node.eval(_CONTENTS) == expected
                await node.eval("box.space.plain:replace{1, 5, 'b', 1000, {8}} box.space.auto:delete(9)")
                await node.eval("box.space.other:update(1, {{'=', 2, 77}})")
                expected = await node.eval(_CONTENTS)
        if not (options or snapshot):
            assert "Building secondary indexes in space 'plain'..." in (tmp_path / "log").read_text()

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_dropped_sequence_whose_value_only_the_snapshot_has(tmp_path: Path) -> None:
    """A transaction that was rolled back has used up a value. A snapshot keeps it, and no row of the log deletes it."""

    async def main() -> None:
        async with Node(tmp_path) as node:
            await node.eval(
                """
                box.schema.sequence.create('s')
                box.begin() box.sequence.s:next() box.rollback()
                box.snapshot()
                box.space._sequence:delete{box.sequence.s.id}
                """
            )
        async with Node(tmp_path) as node:
            assert await node.eval("return box.sequence.s") is None
            source = "box.schema.sequence.create('s') return box.sequence.s.id, box.sequence.s:next()"
            assert await node.eval(source) == [1, 1]
            await node.eval("box.snapshot()")
        async with Node(tmp_path) as node:
            assert await node.eval("return box.sequence.s:next(), box.space._sequence_data:select()") == [2, [[1, 2]]]
            with pytest.raises(BoxError, match="the sequence has data"):
                await node.eval("box.space._sequence:delete{1}")

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_primary_key_over_a_field_that_the_format_makes_nullable(tmp_path: Path) -> None:
    """The index came before the format: it stays as it is after a start, which reads the format first."""

    async def main() -> None:
        async with Node(tmp_path) as node:
            await node.eval(
                """
                local s = box.schema.space.create('s')
                s:create_index('pk', {parts = {{2, 'unsigned'}}})
                s:format({{'id', 'unsigned'}, {'n', 'any', is_nullable = true}})
                s:insert{1, 2}
                """
            )
        for _ in range(2):
            async with Node(tmp_path) as node:
                nullable, rows = await node.eval(
                    "return box.space.s.index.pk.parts[1].is_nullable, box.space.s:select()"
                )
                assert (nullable, rows) == (False, [[1, 2]])
                with pytest.raises(BoxError, match="Tuple field 2"):
                    await node.eval("box.space.s:insert{2, box.NULL}")
                await node.eval("box.snapshot()")

    asyncio.run(asyncio.wait_for(main(), DEADLINE))
