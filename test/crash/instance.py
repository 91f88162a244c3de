"""The child process of the crash tests: `python -m test.crash.instance DIRECTORY MODE [OPTIONS as JSON]`.

```
write      tasks commit transactions of one to three rows for ever; prints the keys of each acknowledged one as a line
snapshot   works as `write` does, and makes checkpoints one after another; prints `snapshot` for each
follow     starts, joins if the directory is empty, and follows; prints `rows N` for every 50 rows
```

It prints `starting`, then `ready` when the instance is configured, and runs until it is killed.
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
    """Replace rows of one space in one transaction, and wait until it is in the log."""
    ctx = node.new_context()
    space = node.schema.space(space_id)
    node.txns.begin(ctx)
    for row in rows:
        node.dml.write(ctx, space, Request.replace(pack(row)))
    await completed(node.txns.commit(ctx))


async def make_space(node: Instance) -> None:
    """Create the test space with two indexes, and let guests do everything, so that replicas can join."""
    await put(node, SpaceId.PRIV, [[1, 0, "universe", 0, 0xFFFFFFFF]])
    await put(node, SpaceId.SPACE, [[SPACE, 1, "test", "memtx", 0, {}, []]])
    await put(node, SpaceId.INDEX, [[SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]])
    await put(node, SpaceId.INDEX, [[SPACE, 1, "sk", "tree", {"unique": False}, [[1, "string"]]]])


async def write(node: Instance, fiber: int) -> None:
    """Commit transactions for ever; the keys of one go on one line, so that the test finds half transactions."""
    for number in count():
        keys = [(number * 3 + i) * FIBERS + fiber for i in range(1 + number % 3)]
        await put(node, SPACE, [[key, f"value {key}" * 10] for key in keys])
        say(" ".join(map(str, keys)))


async def make_snapshots(node: Instance) -> None:
    while True:
        try:
            await node.checkpoints.make()
            say("snapshot")
        except BoxError as error:
            say(f"error {error.message}")
            return


async def print_progress(node: Instance) -> None:
    printed = 0
    while True:
        if node.state.vclock.signature >= printed + 50:
            printed = node.state.vclock.signature
            say(f"rows {printed}")
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
        await print_progress(node)
    tasks = [write(node, fiber) for fiber in range(FIBERS)]
    if mode == "snapshot":
        tasks.append(make_snapshots(node))
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
