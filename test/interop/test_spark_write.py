"""Spark writes frames into a running node, also while tasks are killed, and into a new data directory."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from box.sync import Node

from .spark_files import FORMAT, NEEDS_SPARK, run_query

pytest.importorskip("pyspark.sql.streaming.datasource", reason="the extra 'spark' is not installed, or older than 4.2")

pytestmark = NEEDS_SPARK

ROWS = 3000


def serve(directory: Path, *steps: Any) -> None:
    """Run a node with the space `goods` while the steps are done, which are Lua texts for the node or functions.

    The node runs in a thread of its own, because Spark's session belongs to the thread of the test.
    """
    os.makedirs(directory, exist_ok=True)
    with Node(directory, log_level=0, listen=f"unix/:{directory}/socket") as node:
        node.eval(
            f"s = box.schema.space.create('goods', {{if_not_exists = true, format = {FORMAT}}})"
            " s:create_index('pk', {if_not_exists = true})"
            " box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})"
        )
        for step in steps:
            if isinstance(step, str):
                node.eval(step)
            else:
                step()


def frame_of(spark: Any, flag: Path) -> Any:
    """Make a frame with keys 0 to 99, each many times; the first attempt of each task kills its worker midway.

    `flag` is the beginning of the names of files that mark tasks whose worker was killed.
    """

    def rows(numbers: Any) -> Any:
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        for place, number in enumerate(numbers):
            if place == 700 and not os.path.exists(f"{flag}.{part}"):
                Path(f"{flag}.{part}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield number % 100, "x", 1.0

    numbers = spark.sparkContext.parallelize(range(ROWS), 3)
    return spark.createDataFrame(numbers.mapPartitions(rows), "id bigint, name string, value double")


@pytest.mark.slow
def test_upserts_of_killed_tasks_count_once(spark: Any, tmp_path: Path) -> None:
    """Upserts take effect once, though Spark repeats tasks whose workers died after they had written some rows."""
    options = {"uri": f"unix/:{tmp_path}/data/socket", "space": "goods", "operation": "upsert", "operations": "value:+"}

    def write() -> None:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        try:
            frame = frame_of(spark, tmp_path / "killed")
            frame.write.format("box").mode("append").options(batch=100, **options).save()
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    check = f"""
        assert(s:len() == 100, s:len())
        for _, t in s:pairs() do assert(t.value == {ROWS // 100}, tostring(t)) end
        assert(box.space.lunabox_writes:len() == 0)
    """
    serve(tmp_path / "data", write, check)
    assert len(list(tmp_path.glob("killed.*"))) >= 1


def test_frames_replace_insert_and_delete(spark: Any, tmp_path: Path) -> None:
    options = {"uri": f"unix/:{tmp_path}/data/socket", "space": "goods"}

    def write(frame: Any, **more: str) -> None:
        frame.write.format("box").mode("append").options(**options, **more).save()

    def steps() -> None:
        frame = spark.range(5000).selectExpr("id", "concat('n', id) as name", "id / 4 as value")
        write(frame, operation="insert")
        write(frame.where("id >= 4900").selectExpr("id", "'new' as name", "0.5D as value"))
        write(frame.where("id < 4000").select("id"), operation="delete")
        with pytest.raises(Exception, match=r"box: .*Duplicate key exists in unique index"):
            write(frame.where("id >= 4000").selectExpr("id", "'other' as name", "value"), operation="insert")
        with pytest.raises(Exception, match=r"box: .*column 'id' of type string does not fit"):
            write(frame.selectExpr("name as id", "name", "value"))
        with pytest.raises(Exception, match="mode 'overwrite' is not supported"):
            frame.write.format("box").mode("overwrite").options(**options).save()

    check = """
        assert(s:len() == 1000, s:len())
        assert(s:get(4000).name == 'n4000' and s:get(4000).value == 1000)
        assert(s:get(4999).name == 'new' and s:get(4999).value == 0.5)
    """
    serve(tmp_path / "data", steps, check)


@pytest.mark.slow
def test_a_stream_of_changes_goes_into_another_node_once(spark: Any, tmp_path: Path) -> None:
    """A stream that counts changes by key writes each change once, though it is stopped and continues."""
    options = {"uri": f"unix/:{tmp_path}/data/socket", "space": "goods", "operation": "upsert", "operations": "value:+"}

    def fill(part: int) -> None:
        os.makedirs(tmp_path / "source", exist_ok=True)
        with Node(tmp_path / "source", log_level=0) as node:
            node.eval(
                "s = box.schema.space.create('t', {if_not_exists = true}) s:create_index('pk', {if_not_exists = true})"
                f" for i = 1, 400 do s:replace{{i % 10, i * {part}}} end"
            )

    def follow() -> None:
        frame = spark.readStream.format("box").options(path=str(tmp_path / "source"), startingVclock="earliest")
        frame = frame.option("maxRowsPerTrigger", 150).load()
        frame = frame.selectExpr("cast(trim(both '[]' from key) as bigint) as id", "'x' as name", "1D as value")
        writer = frame.writeStream.format("box").options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        run_query(writer.start)

    fill(1)
    serve(tmp_path / "data", follow)
    fill(2)
    serve(
        tmp_path / "data",
        follow,
        "for _, t in s:pairs() do assert(t.value == 80, tostring(t)) end assert(s:len() == 10)",
    )


@pytest.mark.slow
def test_a_node_starts_from_a_frame(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(20_000).selectExpr("(id * 7919) % 1000003 as id", "concat('n', id) as name", "id / 4 as value")
    writer = frame.repartition(4).write.format("box").mode("append")
    target = tmp_path / "loaded"
    writer.options(path=str(target), space="goods", key="id", types="id:unsigned").save()
    back = spark.read.format("box").options(path=str(target), space="goods").load()
    assert back.exceptAll(frame).count() == frame.exceptAll(back).count() == 0
    with pytest.raises(Exception, match="is not empty: a bulk load makes a new directory"):
        writer.options(path=str(target), space="goods", key="id", types="id:unsigned").save()
    twice = frame.union(frame.limit(1)).write.format("box").mode("append")
    with pytest.raises(Exception, match="Duplicate key exists in unique index"):
        twice.options(path=str(tmp_path / "twice"), space="goods", key="id", types="id:unsigned").save()
    assert not (tmp_path / "twice").exists()
    check = "assert(s:len() == 20000 and s:get(7919).name == 'n1') s:insert{2000000, 'more', 0.5}"
    serve(target, check)
    tarantool = os.environ.get("LUNABOX_TARANTOOL", "tarantool")
    start = "box.cfg{log = 'tarantool.log'} local s = box.space.goods print(s:len(), s:get(7919).name) os.exit(0)"
    (target / "start.lua").write_text(start)
    try:
        done = subprocess.run(
            [tarantool, "start.lua"], cwd=target, capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        return
    assert done.stdout.split() == ["20001", "n1"], done.stdout + done.stderr
