"""The child process of the campaign "kills": an instance that works in one of six roles until it is killed.

```
writer     several tasks commit transactions of three rows for ever; a checkpoint follows every 20 ms
sync       works as a writer on a synchronous space; another instance completes the quorum
follower   starts, joins if its directory is empty, and idles
founder    creates the synchronous space, and idles
sql        makes the steps of `test.soak.sql_work`, and prints the number of each; a checkpoint follows every 20 ms
indexes    the same with the steps of `test.soak.index_work`
```

A row is `{key, sequence}`. Each transaction writes three consecutive keys with one sequence. The child prints `ready`,
then a line `KEY SEQUENCE` for each acknowledged transaction with the first of its keys.
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
from test.soak import index_work, sql_work

FIBERS = 4
TRIPLES = 40
"""The number of groups of three keys that each task overwrites in turn."""


async def make_space(node: Instance, is_sync: bool) -> None:
    await put(node, SpaceId.PRIV, [[1, 0, "universe", 0, 0xFFFFFFFF]])
    await put(node, SpaceId.SPACE, [[SPACE, 1, "test", "memtx", 0, {"is_sync": is_sync}, []]])
    await put(node, SpaceId.INDEX, [[SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]])
    await put(node, SpaceId.INDEX, [[SPACE, 1, "sk", "tree", {"unique": False}, [[1, "unsigned"]]]])


async def write(node: Instance, fiber: int, generation: int) -> None:
    """Commit transactions for ever, and print each acknowledged one.

    `generation` is the number of this start: sequences of later starts are greater.
    """
    for number in count(1):
        sequence = generation << 32 | number << 8 | fiber  # unique, and greater with each write to a key
        first = (fiber * TRIPLES + number % TRIPLES) * 3
        await put(node, SPACE, [[first + i, sequence] for i in range(3)])
        say(f"{first} {sequence}")


async def make_checkpoints(node: Instance) -> None:
    while True:
        with suppress(BoxError):  # it fails if its synchronous transactions get no quorum or are rolled back
            await node.checkpoints.make()
        await asyncio.sleep(0.02)


async def decide(node: Instance) -> None:
    """Promote this instance once the other one is connected: that confirms the limbo's transactions after a kill."""
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


async def make_steps(worker: sql_work.Worker | index_work.Worker) -> None:
    done = await worker.prepare()
    say("ready")
    for number in count(done + 1):
        await worker.step(number)
        say(f"{number}")


async def stay() -> None:
    say("ready")
    await asyncio.Event().wait()


async def main(directory: str, role: str, generation: int, options: dict[str, Any]) -> None:
    options = {"log": "node.log", "checkpoint_count": 2, "wal_max_size": 200_000} | options
    if role == "indexes":
        worker = index_work.Worker(directory)
        await worker.start(**options)
        await asyncio.gather(make_checkpoints(worker.node), make_steps(worker))
    node = Instance(directory)
    await node.configure(options)
    if role == "follower":
        await stay()
    if role == "sql":
        await asyncio.gather(make_checkpoints(node), make_steps(sql_work.Worker(node)))
    if SPACE not in node.schema.spaces or 1 not in node.schema.space(SPACE).indexes:
        await make_space(node, role != "writer")
    if role == "founder":
        await stay()
    if role == "sync":
        await decide(node)
    say("ready")
    await asyncio.gather(make_checkpoints(node), *(write(node, fiber, generation) for fiber in range(FIBERS)))


def run(output: Connection, directory: str, role: str, generation: int, options: dict[str, Any]) -> None:
    """Work in this process until it is killed; stdout goes to `output`."""
    os.dup2(output.fileno(), sys.stdout.fileno())
    asyncio.run(main(directory, role, generation, options))
