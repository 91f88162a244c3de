"""Spark streams the log of a node; the query and the node are stopped and started again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from box import Node
from test.soak.stream_child import start_query
from test.soak.streams import Child, expected

from .spark_files import NEEDS_SPARK, run_query, start_and_await_batch

pytest.importorskip("pyspark.sql.streaming.datasource", reason="the extra 'spark' is not installed, or older than 4.2")

pytestmark = NEEDS_SPARK


@contextmanager
def writing_node(directory: Path, seed: int) -> Iterator[None]:
    """Run a child node that writes all the time, for this context; it is killed at the end."""
    node = Child(directory, "node", "node", str(directory), str(seed))
    try:
        node.wait_ready()
        yield
    finally:
        node.kill()


@pytest.mark.slow
@pytest.mark.parametrize("source", ["path", "uri"])
def test_every_change_comes_exactly_once(spark: Any, tmp_path: Path, source: str) -> None:
    """A query that is stopped, of a node that is killed, gets each change once; `make soak` kills both many times."""
    for seed in range(2):
        with writing_node(tmp_path, seed):
            if seed == 1:
                run_query(lambda: start_query(spark, source, tmp_path, once=True))
            else:
                start_and_await_batch(lambda: start_query(spark, source, tmp_path)).stop()
    if source == "path":
        run_query(lambda: start_query(spark, source, tmp_path, once=True))
    found = Counter((row.replica_id, row.lsn) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    last = max(lsn for _, lsn in found)
    wanted = Counter({place: count for place, count in expected(tmp_path).items() if place[1] <= last})
    assert found == wanted
    assert source == "uri" or found == expected(tmp_path)


def test_a_stream_tells_what_is_wrong(spark: Any, tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path / "data", log_level=0, checkpoint_count=1) as node:
            await node.eval("s = box.schema.space.create('goods') s:create_index('pk')")
            for number in range(4):
                await node.eval(f"s:insert{{{number}}} box.snapshot()")

    (tmp_path / "data").mkdir()
    asyncio.run(run())
    for options, text in (
        ({"startingVclock": "{}"}, r"box: .*the rows after \{\} are gone: the instance has collected them"),
        ({"space": "goods"}, "box: .*a stream has the option 'spaces'"),
        ({"path": str(tmp_path / "missing")}, "box: .*can't read directory"),
    ):
        with pytest.raises(Exception, match=text):
            run_once(spark, tmp_path / text[-9:], {"path": str(tmp_path / "data")} | options)


def run_once(spark: Any, checkpoint: Path, options: dict[str, str]) -> None:
    frame = spark.readStream.format("box").options(**options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    run_query(writer.trigger(availableNow=True).start)
