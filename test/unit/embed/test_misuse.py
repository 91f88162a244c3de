"""Common mistakes of programs that embed a node get an error that names the mistake and the remedy, never a hang."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.sync import Node as BlockingNode


async def _started() -> Node:
    node = Node()
    await node.start()
    await (await node.schema.create_space("s")).create_index("pk")
    return node


def test_another_loop_is_refused_where_it_would_wait_for_ever() -> None:
    """Each test of pytest-asyncio has its own loop, but a fixture may have started the node in another one."""

    async def misuse(node: Node) -> None:
        space = node.space["s"]
        transaction = node.transaction()
        for use in (
            lambda: node.eval("return 1"),
            lambda: node.execute("SELECT 1"),
            lambda: node.configure(read_only=True),
            lambda: anext(space.changes()),
            lambda: transaction.__aenter__(),
            lambda: space.insert_many([[number] for number in range(1000)], batch=1),
            node.stop,
        ):
            with pytest.raises(RuntimeError, match=r"is used in another event loop .* start, use and stop it in one"):
                await asyncio.wait_for(use(), 10)

    first = asyncio.new_event_loop()
    try:
        node = first.run_until_complete(_started())
        asyncio.run(misuse(node))
        first.run_until_complete(node.stop())
    finally:
        first.close()


def test_without_a_loop_of_asyncio_a_start_names_the_way_out() -> None:
    start = Node().start()
    with pytest.raises(RuntimeError, match=r"needs a running loop of asyncio; box\.sync\.Node works without one"):
        start.send(None)


def test_a_node_and_its_parts_cannot_be_pickled() -> None:
    """Pools of processes pickle what they are given."""

    def refused(part: Any) -> None:
        for way in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied: pass on rows"):
                way(part)

    async def run() -> None:
        node = await _started()
        space = node.space["s"]
        for part in (node, space, space.index["pk"], node.schema, node.transaction(), space.changes()):
            refused(part)
        await node.stop()

    asyncio.run(run())
    with BlockingNode() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        for part in (node, space, space.index["pk"], node.schema, node.transaction()):
            refused(part)


def test_a_directory_in_use_is_explained(tmp_path: Path) -> None:
    with BlockingNode(tmp_path) as first:
        second = BlockingNode(tmp_path)
        with pytest.raises(BoxError, match="Failed to lock WAL directory") as caught:
            second.start()
        assert caught.value.__notes__ == ["Another running node has the directory, in this process or in another one."]
        assert repr(first) == f"<node {str(tmp_path)!r} running>"
        assert repr(second) == f"<node {str(tmp_path)!r} not running>"


def test_a_text_that_is_no_unicode_is_named() -> None:
    with BlockingNode() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        with pytest.raises(BoxError, match=r"the text 'a\\ud800' is not valid Unicode: pass bytes"):
            space.insert([1, "a\ud800"])
