"""Three nodes with Lua replicate in all directions over TCP, in one process on one loop, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path

from box import Node
from box.testing.free_ports import free_ports
from test.support import until


def descriptors() -> dict[str, str]:
    """Return the open descriptors and their targets, without the one of the listing itself."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


async def until_equal(nodes: list[Node], count: int) -> None:
    async def are_equal() -> bool:
        return [await node.space["s"].len() for node in nodes] == [count] * len(nodes)

    await until(are_equal)


async def replicate_all_ways(root: Path) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    nodes = []
    for number, address in enumerate(addresses):
        directory = root / str(number)
        directory.mkdir()
        node = Node(
            directory,
            listen=address,
            replication=addresses[: number + 1] if number else None,
            replication_timeout=0.2,
            log=str(directory / "log"),
        )
        await node.start()
        nodes.append(node)
        if number == 0:
            await node.eval("box.schema.user.grant('guest', 'super')")
            await node.eval("box.schema.space.create('s'):create_index('pk')")
        else:
            await asyncio.gather(*(member.configure(replication=addresses[: number + 1]) for member in nodes))
    for number, node in enumerate(nodes):
        for key in range(50):
            await node.space["s"].insert([number * 100 + key, f"from {number}"])
    await until_equal(nodes, 150)
    # A row is seen before it is in the log, and the vclock tells what is in the log.
    await until(lambda: nodes[0].info["vclock"] == nodes[1].info["vclock"] == nodes[2].info["vclock"])
    for node in nodes:
        status = await node.eval(
            """
            local found = {}
            for _, replica in pairs(box.info.replication) do
                if replica.upstream then table.insert(found, replica.upstream.status) end
            end
            return found
            """
        )
        assert status == ["follow", "follow"]
    for node in nodes:
        await node.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_three_nodes_replicate_all_ways_and_leave_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        threads, before = set(threading.enumerate()), descriptors()
        await replicate_all_ways(tmp_path)
        gc.collect()
        assert set(threading.enumerate()) == threads
        await until(lambda: descriptors() == before)

    asyncio.run(run())


def test_the_fibers_of_replication_have_their_peers_names(tmp_path: Path) -> None:
    """`fiber.info()` shows appliers and relays by the names of their peers, with ids that stay."""
    names = """
        local found = {}
        for id, fiber in pairs(require('fiber').info()) do
            if fiber.name:find('^applier') or fiber.name:find('^relay') then
                found[#found + 1] = fiber.name .. (id == fiber.fid and '' or '?')
            end
        end
        table.sort(found)
        return table.concat(found, ' ')
    """

    async def scenario() -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        master = Node(tmp_path / "a", listen=address, log=str(tmp_path / "a" / "log"))
        await master.start()
        assert await master.eval(names) == ""
        await master.eval("box.schema.user.grant('guest', 'replication')")
        replica = Node(tmp_path / "b", replication=address, log=str(tmp_path / "b" / "log"))
        await replica.start()
        assert await replica.eval(names) == f"applier/{address} applierw/{address}"
        relays = await master.eval(names)
        assert relays.startswith("relay/127.0.0.1:")
        assert len(relays.split()) == 1
        # Programs that end all fibers they do not know find these as well; they do their work on.
        cancel_all = """
            local fiber = require('fiber')
            for id, found in pairs(fiber.info()) do
                if found.name:find('^applier') or found.name:find('^relay') then
                    fiber.kill(id)
                    fiber.wakeup(id)
                end
            end
            return pcall(fiber.kill, 1000000)
        """
        assert await master.eval(cancel_all) == [False, "the fiber is dead"]
        assert await replica.eval(cancel_all) == [False, "the fiber is dead"]
        await master.eval("box.schema.space.create('later')")
        async with asyncio.timeout(20):
            while not await replica.eval("return box.space.later ~= nil"):
                await asyncio.sleep(0.01)
        assert len((await master.eval(names)).split()) == 1
        await replica.eval("box.cfg{replication = {}}")
        assert await replica.eval(names) == ""
        await replica.stop()
        await master.stop()

    asyncio.run(scenario())
