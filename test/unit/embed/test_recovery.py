"""A recovery gives way to others: it tells how far it is, ends when the node does, and builds what the log asks for."""

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
    """Many turns over few tuples."""
    for module in (loader, local_recovery):
        monkeypatch.setattr(module, "ROWS_A_TURN", 16)
    monkeypatch.setattr(local_recovery, "_PROGRESS", 1000)
    monkeypatch.setattr(bulk, "SLICE", 64)


async def write(directory: Path, *, snapshot: bool) -> list[Any]:
    """A node's files; its tuples by their names."""
    async with Node(directory, log_level=0) as node:
        await node.eval(_FILL, COUNT)
        if snapshot:
            await node.eval("box.snapshot()")
        found: list[Any] = await node.space["s"].select(index="name")
        return found


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def turns_of(work: asyncio.Future[Any]) -> int:
    """Turns of the loop until it is done."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_recovery_gives_way(snapshot: bool, tmp_path: Path) -> None:
    """Others run while tuples are read and secondary indexes are built; all is there at the end."""

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
    """The start ends with an error of its own, nothing is written, and the next start finds everything."""

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
    """With Tarantool's error."""

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
