"""The child process of the campaign "definitions": a node in which several tasks work at once until the time is over.

    python -m test.soak.definition_child DIRECTORY SEED MVCC SECONDS

Beside the tasks of `test.soak.definition_work`, witnesses make steps that are acknowledged one by one, and a replica
joins at a random moment. The process prints `ready`, `done TASK NUMBER` for each acknowledged step, what it has found
wrong, and `end` with the state in JSON.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from box import BoxError, Node
from test.soak.definition_checks import ACKNOWLEDGED, CHECK, OWN, STATE, differences
from test.soak.definition_work import ALARMING, Player

TASKS: Final = 8
WITNESSES: Final = 2
"""The number of tasks whose steps are acknowledged."""
_PATIENCE: Final = 60.0
"""Seconds within which the replica must have what the node has."""


class Witness:
    """A task that makes numbered steps and prints the number of each one that the node has acknowledged.

    Step N creates the table `dTASK_N`, drops the table of the step before and writes N into the space of witnesses.
    """

    def __init__(self, node: Node, task: int) -> None:
        self._node = node
        self._task = task

    async def run(self, until: float) -> None:
        """Make steps until a moment of `time.monotonic`, after those that the space has."""
        row = await self._node.space[ACKNOWLEDGED].get(self._task)
        number = row[1] + 1 if row else 1
        while time.monotonic() < until:
            with suppress(BoxError):  # a conflict with another task: the step is made again
                await self._step(number)
                print(f"done {self._task} {number}", flush=True)
                number += 1
            await asyncio.sleep(0.005)

    async def _step(self, number: int) -> None:
        table, last = f'"d{self._task}_{number}"', f'"d{self._task}_{number - 1}"'
        await self._node.execute(f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY AUTOINCREMENT, a INT UNIQUE)")
        await self._node.execute(f"DROP TABLE IF EXISTS {last}")
        async with self._node.transaction():
            await self._node.execute(f"REPLACE INTO {table} VALUES (1, {number})")
            await self._node.space[ACKNOWLEDGED].replace((self._task, number))


class _Errors(logging.Handler):
    """Adds records of errors to the finds."""

    def __init__(self, finds: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._finds = finds

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if any(word in text for word in ALARMING):
            self._finds.append(text)


def replica_of(directory: Path) -> Path:
    """Return the directory of the replica of a node."""
    return directory.with_name("replica")


async def _follow(node: Node, directory: Path, mvcc: bool, done: asyncio.Event) -> list[str]:
    """Join a replica, wait until the work is done and the replica has it all, and return how the two differ."""
    place, log = replica_of(directory), directory.with_name("replica.log")
    uri = f"unix/:{directory.parent}/s"
    replica = Node(place, replication=uri, read_only=True, memtx_use_mvcc_engine=mvcc, log=str(log))
    try:
        async with asyncio.timeout(_PATIENCE):
            await replica.start()
        await done.wait()
        deadline = time.monotonic() + _PATIENCE
        while replica.info["vclock"].get(1) != node.info["vclock"].get(1):
            if time.monotonic() > deadline:
                return [f"the replica does not follow: {log.read_text()[-2000:]}"]
            await asyncio.sleep(0.02)
        wrong: list[str] = await replica.eval(CHECK)
        return wrong + differences(await node.eval(STATE), await replica.eval(STATE), "the replica", OWN)
    finally:
        await replica.stop()


async def play(directory: Path, seed: int, mvcc: bool, seconds: float) -> tuple[list[str], str]:
    """Work in a directory, stop, and return the finds and the state in JSON."""
    finds: list[str] = []
    chooser = random.Random(f"{seed} options")
    logging.getLogger().addHandler(_Errors(finds))
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: finds.append(f"in the loop: {context!r}"))
    async with Node(
        directory,
        listen=f"unix/:{directory.parent}/s",
        memtx_use_mvcc_engine=mvcc,
        wal_mode=chooser.choice(("write", "fsync")),
        wal_max_size=chooser.choice((5_000, 50_000, 256 * 1024 * 1024)),
        checkpoint_count=chooser.choice((1, 2)),
    ) as node:
        await node.eval("box.schema.user.grant('guest', 'replication', nil, nil, {if_not_exists = true})")
        space = await node.schema.create_space(ACKNOWLEDGED, if_not_exists=True)
        await space.create_index("pk", if_not_exists=True)
        until = time.monotonic() + seconds
        print("ready", flush=True)
        players = [Player(node, f"{seed} {number}", finds).run(until) for number in range(TASKS)]
        witnesses = [Witness(node, number).run(until) for number in range(WITNESSES)]
        work = asyncio.gather(*players, *witnesses)
        done = asyncio.Event()
        follower: asyncio.Task[list[str]] | None = None
        if chooser.random() < 0.5 and not replica_of(directory).exists():
            await asyncio.sleep(chooser.uniform(0, seconds))
            follower = asyncio.create_task(_follow(node, directory, mvcc, done))
        await work
        done.set()
        if follower is not None:
            finds += await follower
        finds += await node.eval(CHECK)
        return finds, await node.eval(STATE)


def main() -> None:
    faulthandler.enable()  # the campaign sends SIGABRT to a process that hangs
    directory, seed, mvcc, seconds = sys.argv[1:]
    finds, state = asyncio.run(play(Path(directory), int(seed), mvcc == "True", float(seconds)))
    for find in finds:
        print("find", json.dumps(find))
    print("end", state, flush=True)


if __name__ == "__main__":
    main()
