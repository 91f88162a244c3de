"""In a mesh of processes with `replication_fetch_once` each row reaches a node about once, also after kills."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from box.errors import BoxError
from test.interop.processes import LUNABOX, POLL, NodeProcess, ProcessMesh, bytes_of, process_mesh
from test.support import until

ONCE = "replication_fetch_once = true"
ROWS = 200
"""Rows that each node writes between two events: so many that what a restart itself sends is little beside them."""
TARANTOOLS = [path for path in (shutil.which("tarantool"), os.environ.get("LUNABOX_TARANTOOL")) if path]


async def _settled(mesh: ProcessMesh, *, without: NodeProcess | None = None) -> None:
    """Wait until each Lunabox node fetches from each other node only the rows of that node."""
    ids = {node: (await node.eval("return box.info.id"))[0] for node in mesh.nodes if node is not without}

    async def is_settled() -> bool:
        for node, own in ids.items():
            wanted = {other: [other] for other in ids.values() if other != own}
            if node.is_ours and await node.fetches() != wanted:
                return False
        return True

    await until(is_settled, "everybody fetches from each its own", 60, longest=POLL)


async def _write(mesh: ProcessMesh, rows: int) -> None:
    """Wait until each running node has written so many more rows."""
    running = [node for node in mesh.nodes if node.is_running]
    before = {node: (await node.eval("return written"))[0] for node in running}

    async def has_grown() -> bool:
        return all([(await node.eval("return written"))[0] >= before[node] + rows for node in running])

    await until(has_grown, "the load", 120, longest=POLL)


async def _caught_up(mesh: ProcessMesh, node: NodeProcess) -> None:
    """Wait until the node has the rows that the others have now: rows still under way at a kill are sent twice."""
    clocks = [await other.vclock() for other in mesh.nodes if other is not node]

    async def has_them() -> bool:
        here = await node.vclock()
        return all(here.get(replica_id, 0) >= lsn for clock in clocks for replica_id, lsn in clock.items())

    await until(has_them, "the node is not far behind", 60, longest=POLL)


async def _stop_load(mesh: ProcessMesh) -> None:
    await mesh.eval_all("is_writing = false")
    await until(mesh.are_equal, "equality", 120, longest=POLL)
    assert await mesh.same_rows()


async def _kill_three_under_load(mesh: ProcessMesh) -> dict[NodeProcess, float]:
    """Kill and restart three nodes, one after another, while all write.

    Returns:
        For each node the bytes that it has received, as a multiple of the size of the others' rows.
    """
    await until(mesh.are_equal, "equality", 60, longest=POLL)
    await _settled(mesh)
    before = {node: node.received for node in mesh.nodes}
    since = await mesh.nodes[0].vclock()
    await mesh.eval_all("start_writing()")
    await _write(mesh, ROWS)
    for node in mesh.nodes[-3:]:  # Tarantool's nodes are the last
        await _caught_up(mesh, node)
        await node.end(kills=True)
        await _write(mesh, ROWS)
        await mesh.start(node)
        await node.eval("start_writing()")
        await _settled(mesh)
        await _write(mesh, ROWS)
    await _stop_load(mesh)
    shares = {}
    rows = mesh.nodes[0].rows()
    for node in mesh.nodes:
        (own,) = await node.eval("return box.info.id")
        shares[node] = (node.received - before[node]) / bytes_of(rows, without=own, since=since)
    return shares


def test_five_nodes_receive_every_row_once() -> None:
    """Each of five nodes receives at most 1.1 times the bytes of the others' rows, though three are killed."""

    async def main() -> None:
        async with process_mesh([LUNABOX] * 5, options=ONCE) as mesh:
            shares = await _kill_three_under_load(mesh)
            print("received bytes by bytes of the others' rows:", [round(share, 3) for share in shares.values()])
            print("requests for all rows:", [node.log.count(" asking ") for node in mesh.nodes])
            print("timeouts:", [node.log.count("timed out") for node in mesh.nodes])
            assert all(share <= 1.1 for share in shares.values()), shares.values()

    asyncio.run(main())


@pytest.mark.tarantool
@pytest.mark.skipif(not TARANTOOLS, reason="Tarantool's executable is not installed")
def test_tarantool_among_them() -> None:
    """Tarantool's relays send Lunabox only the rows it asks for; Tarantool itself receives all rows from everybody."""

    async def main() -> None:
        ours = [LUNABOX] * 2
        async with process_mesh([*ours, *TARANTOOLS], options=ONCE) as mesh:
            shares = await _kill_three_under_load(mesh)
            print("received bytes by bytes of the others' rows:", [round(share, 3) for share in shares.values()])
            # More than the 1.1 of five nodes: under this light load heartbeats are a large share of the bytes.
            assert all(share <= 1.3 for node, share in shares.items() if node.is_ours), shares.values()

    asyncio.run(main())


@pytest.mark.tarantool
@pytest.mark.skipif(not TARANTOOLS, reason="Tarantool's executable is not installed")
def test_a_comparison_with_tarantool() -> None:
    """`box.ctl.compare` finds differences to Tarantool, also in hash indexes, whose order differs there."""

    async def main() -> None:
        async with process_mesh([LUNABOX, TARANTOOLS[-1]]) as mesh:
            one, tarantool = mesh.nodes
            await one.eval("box.schema.space.create('hash', {id = 600}):create_index('pk', {type = 'hash'})")
            await one.eval("for i = 1, 3000 do box.space.hash:replace{i * 7, 'x'} box.space.test:replace{i, 'x'} end")
            await until(mesh.are_equal, "equality", 60, longest=POLL)
            (found,) = await one.eval("return box.ctl.compare(...)", tarantool.uri)
            assert (found["is_equal"], found["differences"]) == (True, [])
            assert found["vclock"] == await tarantool.vclock()
            assert found["tuples"] > 6000
            # Both change one tuple while disconnected, so that each then overwrites its own with the other's.
            await one.eval("box.cfg{replication = {}}")
            await tarantool.eval("box.cfg{replication = {}}")
            change = "box.space.hash:replace{7, ...} box.space.test:replace{3000, ...}"
            await one.eval(change, "one")
            await tarantool.eval(change, "tarantool")
            await one.eval("box.cfg{replication = {...}}", *mesh.sources_of(one))
            await tarantool.eval("box.cfg{replication = {...}}", *mesh.sources_of(tarantool))
            await until(mesh.are_equal, "equality", 60, longest=POLL)
            (found,) = await one.eval("return box.ctl.compare(...)", tarantool.uri)
            assert not found["is_equal"]
            keys = {each["name"]: (each["different"], each["keys"]) for each in found["differences"]}
            assert keys == {"hash": (1, [[7]]), "test": (1, [[3000]])}
            (tree,) = await one.eval("return box.ctl.replication_tree()")
            assert "├─ fetches" in tree
            assert "is fetched by" in tree
            with pytest.raises(BoxError, match=r"Usage: box.ctl.compare\(uri\)"):
                await one.eval("box.ctl.compare()")

    asyncio.run(main())
