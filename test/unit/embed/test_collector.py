"""An embedded node and the garbage collector of its program."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest
from BTrees.OOBTree import OOBTree

from box import BoxError, Node


class Owner:
    """An object that refers to a tree, which refers to it."""

    tree: OOBTree


def tree_in_a_cycle() -> weakref.ref[Owner]:
    owner = Owner()
    owner.tree = OOBTree(dict.fromkeys(range(1000), owner))
    return weakref.ref(owner)


def test_cycles_through_trees_of_the_program_are_freed() -> None:
    """Cycles through trees of the program are freed while a node runs, also of trees made before its start."""

    async def run() -> None:
        before = tree_in_a_cycle()
        async with Node():
            meanwhile = tree_in_a_cycle()
            gc.collect()
            assert (before(), meanwhile()) == (None, None)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_the_collector_has_no_callback_when_the_last_node_has_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        before = list(gc.callbacks)
        one = Node()
        await one.start()
        async with Node():
            assert len(gc.callbacks) == len(before) + 1
        assert len(gc.callbacks) == len(before) + 1
        await one.stop()
        assert gc.callbacks == before
        (tmp_path / "00000000000000000000.snap").write_text("damaged")
        with pytest.raises(BoxError):
            await Node(tmp_path).start()
        assert gc.callbacks == before

    asyncio.run(run())
