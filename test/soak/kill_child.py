"""An instance that is to be killed: `run` in a process of its own, with a role.

```
writer     transactions of three rows by several fibers, for ever, and one checkpoint after the other
sync       the same in a synchronous space, with another instance that makes the quorum
follower   starts, joins if it has to, and stays
founder    makes the synchronous space, and stays
```

A row is `{key, sequence}`. The three keys of a transaction always change together; each acknowledged one is a line
`KEY SEQUENCE` on what `run` is given. The first line is `ready`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.schema.ids import SpaceId
from test.crash.instance import SPACE, put, say

FIBERS = 4
TRIPLES = 40
"""Groups of keys that each fiber writes again and again."""


async def make_space(node: Instance, is_sync: bool) -> None:
    await put(node, SpaceId.PRIV, [[1, 0, "universe", 0, 0xFFFFFFFF]])
    await put(node, SpaceId.SPACE, [[SPACE, 1, "test", "memtx", 0, {"is_sync": is_sync}, []]])
    await put(node, SpaceId.INDEX, [[SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]])
    await put(node, SpaceId.INDEX, [[SPACE, 1, "sk", "tree", {"unique": False}, [[1, "unsigned"]]]])


async def write(node: Instance, fiber: int, generation: int) -> None:
    for number in count(1):
        sequence = generation << 32 | number << 8 | fiber
        first = (fiber * TRIPLES + number % TRIPLES) * 3
        await put(node, SPACE, [[first + i, sequence] for i in range(3)])
        say(f"{first} {sequence}")


async def make_checkpoints(node: Instance) -> None:
    while True:
        with suppress(BoxError):  # one that holds rows without a quorum is refused
            await node.checkpoints.make()
        await asyncio.sleep(0.02)


async def decide(node: Instance) -> None:
    """What had no quorum when the instance was killed gets one now, as soon as the other instance is there."""
    patience = node.config["replication_synchro_timeout"]
    await node.configure({"replication_synchro_timeout": 0.05})
    while True:
        try:
            await node.synchro.promote()
            break
        except BoxError as error:
            if error.code != ErrorCode.QUORUM_WAIT:
                raise
    await node.configure({"replication_synchro_timeout": patience})


async def stay() -> None:
    say("ready")
    await asyncio.Event().wait()


async def main(directory: str, role: str, generation: int, options: dict[str, Any]) -> None:
    node = Instance(directory)
    await node.configure({"log": "node.log", "checkpoint_count": 2, "wal_max_size": 200_000} | options)
    if role == "follower":
        await stay()
    if SPACE not in node.schema.spaces or 1 not in node.schema.space(SPACE).indexes:
        await make_space(node, role != "writer")
    if role == "founder":
        await stay()
    if role == "sync":
        await decide(node)
    say("ready")
    await asyncio.gather(make_checkpoints(node), *(write(node, fiber, generation) for fiber in range(FIBERS)))


def run(output: Connection, directory: str, role: str, generation: int, options: dict[str, Any]) -> None:
    """For ever: what is said goes to `output`."""
    os.dup2(output.fileno(), sys.stdout.fileno())
    asyncio.run(main(directory, role, generation, options))
