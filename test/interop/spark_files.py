"""Helpers of the Spark tests: the marks that skip them without Java, data directories, and streaming queries."""

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
    # Spark's own Python code causes warnings.
    pytest.mark.filterwarnings("ignore"),
]
FORMAT = "{{'id', 'unsigned'}, {'name', 'string'}, {'value', 'double'}}"


def make_snapshot(directory: Path, source: str) -> None:
    """Run Lua on a new node in `directory`, make a snapshot and stop the node."""

    async def run() -> None:
        async with Node(directory, wal_mode="none", log_level=0) as node:
            await node.eval(source)
            await node.eval("box.snapshot()")

    directory.mkdir(exist_ok=True)
    asyncio.run(run())


def run_query(start: Callable[[], Any]) -> None:
    """Start a streaming query and wait for its end; the query's error is raised."""
    _retry(lambda: start().awaitTermination())


def start_and_await_batch(start: Callable[[], Any]) -> Any:
    """Start a streaming query, wait for its first batch and return the query; an error before is raised."""

    def begin() -> Any:
        query = start()
        wait_until(lambda: query.recentProgress or query.exception(), "a batch", 60)
        if query.exception() is not None:
            query.awaitTermination()
        return query

    return _retry(begin)


def _retry(work: Callable[[], Any]) -> Any:
    """Repeat work that fails because a Python process did not start in Spark's ten seconds, as on a busy machine.

    Raises:
        TimeoutError: it has failed five times.
    """
    for _ in range(5):
        try:
            return work()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    raise TimeoutError("Spark did not start a Python process in five attempts")
