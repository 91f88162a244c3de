"""An embedded node and the garbage collector of its program."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest
from BTrees.OOBTree import OOBTree

from box import BoxError, Node
from box.index.untracked import CollectorWatch, _before_collection


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


def test_the_collector_has_a_callback_while_a_node_runs(tmp_path: Path) -> None:
    """Nodes of other tests, and other packages, may have callbacks as well: a node whose program ends in the middle of
    its stop keeps its own.
    """
    others = set(CollectorWatch._on)

    def own() -> int:
        """Return the number of nodes of this test that the callback serves, after a look at the callback itself."""
        assert gc.callbacks.count(_before_collection) == bool(CollectorWatch._on)
        return len(CollectorWatch._on - others)

    async def run() -> None:
        assert own() == 0
        one = Node()
        await one.start()
        async with Node():
            assert own() == 2
        assert own() == 1
        await one.stop()
        assert own() == 0
        (tmp_path / "00000000000000000000.snap").write_text("damaged")
        with pytest.raises(BoxError):
            await Node(tmp_path).start()
        assert own() == 0

    asyncio.run(run())
