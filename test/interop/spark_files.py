"""What the Spark tests share: when they can run, and directories that a node has left."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from box import Node

NEEDS_SPARK = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs a Java runtime on PATH"),
    # Spark's own Python code warns about things that are not ours.
    pytest.mark.filterwarnings("ignore"),
]
FORMAT = "{{'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'}}"


def make_snapshot(directory: Path, source: str) -> None:
    """Run Lua on a node in `directory`, then leave a snapshot and stop it."""

    async def run() -> None:
        async with Node(directory, wal_mode="none", log_level=0) as node:
            await node.eval(source)
            await node.eval("box.snapshot()")

    directory.mkdir(exist_ok=True)
    asyncio.run(run())
