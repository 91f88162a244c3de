"""Clusters for tests of applications: leaders, partitions, kills, and what is left."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from box import BoxError
from box.testing import Cluster, KillableNode


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(main())


async def make_space(node: KillableNode, **options: object) -> None:
    space = await node.schema.create_space("s", **options)
    await space.create_index("pk")


async def count(node: KillableNode) -> int:
    return await node.space["s"].len()


def test_changes_of_the_leader_are_everywhere() -> None:
    """The first node of a cluster is writable, the others are read-only, and all get its changes."""

    async def test() -> None:
        async with Cluster(3) as c:
            assert c.leader is c[0]
            assert c.followers == [c[1], c[2]]
            await make_space(c.leader)
            await c.leader.space["s"].insert([1])
            await c.wait_synced()
            assert [await count(node) for node in c] == [1, 1, 1]
            with pytest.raises(BoxError, match="read-only"):
                await c[1].space["s"].insert([2])
            await c.promote(c[1])
            assert c.leader is c[1]
            await c[1].space["s"].insert([2])
            await c.wait_synced()
            assert await count(c[0]) == 2

    run(test)


def test_a_majority_elects_another_leader_and_loses_nothing() -> None:
    """After a leader's death another one is elected and has all acknowledged rows, and so has the first one once it is
    back.
    """

    async def test() -> None:
        async with Cluster(3, synchronous=True) as c:
            first = c.leader
            await make_space(first, is_sync=True)
            for number in range(10):
                await first.space["s"].insert([number])
            await c.kill(first)
            assert not first.is_running
            second = await c.wait_leader()
            assert second is not first
            await second.space["s"].insert([10])
            assert await count(second) == 11
            await c.heal()
            assert [await count(node) for node in c] == [11, 11, 11]

    run(test)


def test_a_leader_without_a_majority_cannot_commit() -> None:
    """A leader cut off from the majority cannot commit; another is elected, and after the partition all nodes agree."""

    async def test() -> None:
        async with Cluster(3, synchronous=True) as c:
            old = c.leader
            others = c.followers
            await make_space(old, is_sync=True)
            await c.wait_synced()
            await c.partition(old)
            await old.configure(replication_synchro_timeout=0.3)
            with pytest.raises(BoxError, match=r"[Qq]uorum"):
                await old.space["s"].insert([1])
            new = await c.wait_leader(among=others)
            await new.space["s"].insert([2])
            await c.heal()
            assert [[row[0] for row in await node.space["s"].select()] for node in c] == [[2], [2], [2]]

    run(test)


def test_a_partition_ends_connections_and_keeps_new_ones_away() -> None:
    async def test() -> None:
        async with Cluster(2) as c:
            await make_space(c[0])
            await c.wait_synced()
            await c.partition(c[0], c[1])
            await c[0].space["s"].insert([1])
            for _ in range(200):
                if "follow" not in str(await c[1].eval("return box.info.replication[1].upstream.status")):
                    break
                await asyncio.sleep(0.01)
            assert await count(c[1]) == 0
            upstream = await c[1].eval("return box.info.replication[1].upstream.status")
            assert upstream != "follow"
            await c.heal()
            assert await count(c[1]) == 1

    run(test)


def test_clients_reach_nodes_on_all_sides() -> None:
    async def test() -> None:
        async with Cluster(2) as c:
            await c.partition(c[0])
            for node in c:
                assert await c[0].eval("return require('net.box').connect(...):ping()", node.address) == (node is c[0])

    run(test)


def test_nothing_is_left_behind() -> None:
    """After a cluster, also one that fails, no task, thread or file is left."""

    async def test() -> None:
        before, threads = asyncio.all_tasks(), threading.active_count()
        cluster = Cluster(2)
        directories: list[Path] = []

        async def fail() -> None:
            async with cluster as c:
                directories.append(Path(str(c[0]._directory)).parent)
                await c.kill(c[1])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert not directories[0].exists()
        assert asyncio.all_tasks() == before
        assert threading.active_count() <= threads + 1

    run(test)


def test_files_stay_in_a_directory_that_was_given(tmp_path: Path) -> None:
    """Files in a given directory stay, and another cluster can use them."""

    async def test() -> None:
        async with Cluster(2, directory=tmp_path) as c:
            await make_space(c.leader)
            await c.leader.space["s"].insert([1])
            await c.wait_synced()
        assert sorted(os.listdir(tmp_path)) == ["node1", "node2"]
        async with Cluster(2, directory=tmp_path) as c:
            assert [await count(node) for node in c] == [1, 1]

    run(test)


def test_mistakes_are_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with Cluster(1) as c:
            with pytest.raises(ValueError, match="two sides"):
                await c.partition(c[0], [c[0]])
            await c.kill(c[0])
            with pytest.raises(LookupError, match=r"no node takes changes now; call `await cluster.promote\(node\)`"):
                _ = c.leader
            with pytest.raises(TimeoutError, match=r"a leader: not within 0\.1 s; node1 down"):
                await c.wait_leader(timeout=0.1)
        with pytest.raises(TypeError, match="no_such_option"):
            Cluster(2, no_such_option=1)  # type: ignore[call-arg]

    run(test)
