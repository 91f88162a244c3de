"""Common mistakes with `Cluster` have an error that names them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box import Node
from box.testing import Cluster


@pytest.mark.parametrize("size", [0, 32])
def test_sizes(size: int) -> None:
    with pytest.raises(ValueError, match=f"a cluster has 1 to 31 nodes, not {size}"):
        Cluster(size)


def test_before_the_start_and_with_nodes_of_others() -> None:
    async def run() -> None:
        cluster = Cluster(1)
        assert repr(cluster) == "<cluster of 1 nodes: not started>"
        for early in (lambda: cluster[0], lambda: cluster.leader):
            with pytest.raises(RuntimeError, match="the cluster is not started: use `async with`"):
                early()
        with pytest.raises(RuntimeError, match="not started"):
            await cluster.heal()
        async with cluster:
            assert repr(cluster).startswith("<cluster of 1 nodes: node1 running rw {1: ")
            wrong: Any
            for wrong in (0, None, Node()):
                for method in (cluster.kill, cluster.start, cluster.promote):
                    with pytest.raises(ValueError, match=r"is no node of this cluster: pass c\[0\]"):
                        await method(wrong)

    asyncio.run(run())
