"""The child processes of the campaign "streams": a node that writes, and a Spark query that follows its changes.

    python -m test.soak.stream_child node DIRECTORY SEED
    python -m test.soak.stream_child query SOURCE DIRECTORY [once]

The node inserts, replaces, updates and deletes in transactions, rotates its log often and makes snapshots. The query
reads from SOURCE (`path` or `uri`) and appends to DIRECTORY/out. When it fails because processes of Spark were killed,
it starts again from its checkpoint; with `once` it ends after the changes that are there. Both print `ready`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from box import Node

WRITER = """
if box.space.goods == nil then
    box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'n', 'unsigned'}}}):create_index('pk')
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
end
local s, fiber, number = box.space.goods, require('fiber'), box.info.lsn
math.randomseed(...)
for _ = 1, 3 do
    fiber.create(function()
        while true do
            fiber.sleep(0.03)
            box.begin()
            for _ = 1, math.random(4) do
                number = number + 1
                local key, dice = math.random(500), math.random(4)
                if dice == 1 then s:replace{key, number}
                elseif dice == 2 then s:upsert({key, number}, {{'=', 2, number}})
                elseif dice == 3 then s:delete(key)
                else s:replace{1000 + number, number} end
            end
            box.commit()
            if math.random(500) == 1 then pcall(box.snapshot) end
        end
    end)
end
"""


def address(directory: Path) -> str:
    return f"unix/:{directory}/socket"


async def run_node(directory: Path, seed: int) -> None:
    """Write until the process is killed."""
    (directory / "data").mkdir(exist_ok=True)
    options: dict[str, Any] = {"log_level": 0, "wal_max_size": 1 << 15, "checkpoint_count": 10_000}
    async with Node(directory / "data", listen=address(directory), **options) as node:
        await node.eval(WRITER, seed)
        print("ready", flush=True)
        await asyncio.Event().wait()


def start_query(spark: Any, source: str, directory: Path, *, once: bool = False) -> Any:
    """Start the query that appends changes to DIRECTORY/out, and return it (a StreamingQuery of pyspark)."""
    where = {"path": str(directory / "data")} if source == "path" else {"uri": address(directory)}
    frame = spark.readStream.format("box").options(startingVclock="{}", maxRowsPerTrigger=10_000, **where).load()
    frame = frame.select("operation", "space", "key", "lsn", "replica_id", "transaction_id")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")
    return writer.start(str(directory / "out"))


def run_query(source: str, directory: Path, *, once: bool) -> None:
    """Follow the node until the process is killed; with `once`, up to the last change that is there."""
    from test.bench.spark import session

    spark = session("local[1]")
    print("ready", flush=True)
    while True:
        try:
            start_query(spark, source, directory, once=once).awaitTermination()
        except Exception as error:  # of many types: Spark notices killed processes in many places
            if once:
                raise
            print(f"failed: {str(error)[:300]}", flush=True)
            time.sleep(0.2)
        else:
            return


def main() -> None:
    if sys.argv[1] == "node":
        asyncio.run(run_node(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        run_query(sys.argv[2], Path(sys.argv[3]), once=sys.argv[4:] == ["once"])


if __name__ == "__main__":
    main()
