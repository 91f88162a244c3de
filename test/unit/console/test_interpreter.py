"""The settings of the Python interpreter in the process of a node."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: what `tune` sets holds for all of it.
_FILL = """
import asyncio, gc
from box import Node
from box.index.own_trees import LEAVES
from console import interpreter

leaves = []

def look(phase, info):
    if phase == "start":
        leaves.append(sum(type(found) in LEAVES for found in gc.get_objects(generation=0)))

async def main():
    async with Node(None, wal_mode="none") as node:
        await node.eval("box.schema.space.create('s'):create_index('pk')")
        gc.callbacks.insert(0, look)
        for first in range(0, 100_000, 1000):
            await node.eval("for id = ..., ... + 999 do box.space.s:insert{id} end", first)

        gc.collect(0)
        gc.callbacks.remove(look)

interpreter.tune()
asyncio.run(main())
print(len(leaves), max(leaves))
"""


def test_a_collection_of_garbage_comes_to_few_leaves_of_trees() -> None:
    done = subprocess.run([sys.executable, "-c", _FILL], capture_output=True, text=True, check=True, timeout=120)
    collections, most = map(int, done.stdout.split())
    assert collections > 1, "the last is the test's own"
    assert most <= 2_800, "each takes the collector a microsecond, and nobody is served meanwhile"
