"""An instance for the crash tests: `python -m test.crash.instance DIRECTORY MODE [OPTIONS as JSON]`.

```
write      transactions of 1 to 3 rows, several at a time, for ever; each one that is acknowledged is a line on stdout
snapshot   the same, with one snapshot after the other
follow     start (join, if the directory is empty) and run; a line for every 50 rows
```

The first line is `ready`. The process ends when it is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from typing import Any

from box.data.codec import pack
from box.errors import BoxError
from box.instance.node import Instance
from box.schema.ids import SpaceId
from box.txn.pending import completed
from box.wire.change import Request

SPACE = 512
FIBERS = 4


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def put(node: Instance, space_id: int, rows: list[list[Any]]) -> None:
    ctx = node.new_context()
    space = node.schema.space(space_id)
    node.txns.begin(ctx)
    for row in rows:
        node.dml.write(ctx, space, Request.replace(pack(row)))
    await completed(node.txns.commit(ctx))


async def make_space(node: Instance) -> None:
    await put(node, SpaceId.PRIV, [[1, 0, "universe", 0, 0xFFFFFFFF]])
    await put(node, SpaceId.SPACE, [[SPACE, 1, "test", "memtx", 0, {}, []]])
    await put(node, SpaceId.INDEX, [[SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]])
    await put(node, SpaceId.INDEX, [[SPACE, 1, "sk", "tree", {"unique": False}, [[1, "string"]]]])


async def write(node: Instance, fiber: int) -> None:
    """Keys of one transaction are told together, so that the reader can check that none is there in part."""
    for number in count():
        keys = [(number * 3 + i) * FIBERS + fiber for i in range(1 + number % 3)]
        await put(node, SPACE, [[key, f"value {key}" * 10] for key in keys])
        say(" ".join(map(str, keys)))


async def snapshots(node: Instance) -> None:
    while True:
        try:
            await node.checkpoints.make()
            say("snapshot")
        except BoxError as error:
            say(f"error {error.message}")
            return


async def tell_progress(node: Instance) -> None:
    told = 0
    while True:
        if node.state.vclock.signature >= told + 50:
            told = node.state.vclock.signature
            say(f"rows {told}")
        await asyncio.sleep(0.001)


async def main() -> None:
    directory, mode = sys.argv[1:3]
    options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    node = Instance(directory)
    say("starting")
    await node.configure({"log": "node.log"} | options)
    if mode != "follow" and SPACE not in node.schema.spaces:
        await make_space(node)
    say("ready")
    if mode == "follow":
        await tell_progress(node)
    tasks = [write(node, fiber) for fiber in range(FIBERS)]
    if mode == "snapshot":
        tasks.append(snapshots(node))
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
