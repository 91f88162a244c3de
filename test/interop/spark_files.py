"""What the Spark tests share: when they can run, and directories that a node has left."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from box import Node
from test.support import wait_until

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


def to_its_end(start: Callable[[], Any]) -> None:
    """Start a streaming query and wait for its end. Raises what it fails with."""
    _patiently(lambda: start().awaitTermination())


def at_work(start: Callable[[], Any]) -> Any:
    """Start a streaming query and wait for its first batch; the query."""

    def begin() -> Any:
        query = start()
        wait_until(lambda: query.recentProgress or query.exception(), "a batch", 60)
        if query.exception() is not None:
            query.awaitTermination()
        return query

    return _patiently(begin)


def _patiently(work: Callable[[], Any]) -> Any:
    """Spark gives a Python process ten seconds to start, which a machine with much to do may not make: begin again."""
    for _ in range(5):
        try:
            return work()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    raise TimeoutError("Spark has not got a Python process in five attempts")
