"""The campaign "kills": kills an instance (SIGKILL) at random moments of its work, again and again on the same files.

    write, fsync   a single instance with that `wal_mode`, which also makes checkpoints
    qsync          a master and a replica that completes its quorum; either is killed, or both

Checked after each kill: the instance starts again, every acknowledged transaction is there or a later one has
overwritten it, no transaction is there in part, and both indexes agree. In the end master and replica have equal rows.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from box.data.codec import unpack
from box.errors import BoxError
from box.instance.node import Instance
from test.crash.instance import SPACE
from test.soak import kill_child
from test.soak.forking import PROCESSES

MODES = ("write", "fsync", "qsync")
PATIENCE = 120.0
"""Seconds for any step of a child."""
LONGEST = 0.4
"""The longest time of work before a kill, in seconds."""


class Child:
    """A process that runs `test.soak.kill_child`. `lines` contains its output since its start.

    It is forked from a process that has imported everything, because imports take longer than the rest of a start.
    """

    def __init__(self, directory: Path, role: str, options: dict[str, Any]) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._role = role
        self._options = options
        self._generation = 0
        self._process: ForkServerProcess | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process without waiting for its work to begin; `wait_for` does that."""
        self.directory.mkdir(exist_ok=True)
        self._generation += 1
        self.lines = []
        said, output = PROCESSES.Pipe(duplex=False)
        arguments = (output, str(self.directory), self._role, self._generation, self._options)
        self._process = PROCESSES.Process(target=kill_child.run, args=arguments, daemon=True)
        self._process.start()
        output.close()
        self._reader = asyncio.ensure_future(self._read(said))

    async def _read(self, said: Connection) -> None:
        lines = asyncio.StreamReader()
        with os.fdopen(os.dup(said.fileno()), "rb") as pipe:
            said.close()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(lines), pipe
            )
            async for line in lines:
                if line.endswith(b"\n"):  # a line that the kill has cut off acknowledges nothing
                    self.lines.append(line.decode().strip())
            transport.close()

    def become(self, role: str, options: dict[str, Any]) -> None:
        """Change role and options from the next start on."""
        self._role, self._options = role, options

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def wait_for(self, count: int) -> None:
        """Wait until the process has written `count` lines.

        Raises:
            AssertionError: it ends before, or takes longer than `PATIENCE` seconds.
        """
        deadline = time.monotonic() + PATIENCE
        while len(self.lines) < count:
            assert self._process is not None
            assert self._process.is_alive(), f"{self._role} ended by itself:\n{self.log[-2000:]}"
            assert time.monotonic() < deadline, f"{self._role} does nothing:\n{self.log[-2000:]}"
            await asyncio.sleep(0.005)

    async def kill(self) -> None:
        """Kill the process, if it runs, and complete `lines`."""
        if self._process is None or self._reader is None:
            return
        self._process.kill()
        await asyncio.get_running_loop().run_in_executor(None, self._process.join)
        self._process.close()
        await self._reader
        self._process = None

    @property
    def log(self) -> str:
        path = self.directory / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""


class Acknowledged:
    """The acknowledged transactions: for the first key of each group of three, the last sequence."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.count = 0

    def add(self, lines: list[str]) -> None:
        for line in lines:
            if line[:1].isdigit():
                key, sequence = map(int, line.split())
                self.last[key] = sequence
                self.count += 1

    def check(self, rows: dict[int, int]) -> None:
        for key, sequence in self.last.items():
            found = rows.get(key, 0)
            assert found >= sequence, f"{key}: {sequence} was acknowledged, {found} is there"
        for key in rows:
            first = key - key % 3
            triple = {rows.get(first + i) for i in range(3)}
            assert len(triple) == 1, f"half a transaction: keys from {first} on have {triple}"


async def rows_of(instance: Instance) -> dict[int, int]:
    """Return all rows, none before the space is complete, and assert that both indexes agree."""
    if SPACE not in instance.schema.spaces or 1 not in instance.schema.space(SPACE).indexes:
        return {}
    space, select = instance.schema.space(SPACE), instance.dml.reads.select
    by_key, by_sequence = (
        [unpack(raw) for raw in select(instance.new_context(), space, index, 2, 0, 2**32 - 1, [])] for index in (0, 1)
    )
    assert sorted(by_sequence) == by_key
    return dict(by_key)


async def recovered(directory: Path) -> dict[int, int]:
    """Start an instance from a directory, close it, and return its rows."""
    instance = Instance(directory)
    try:
        await instance.configure({"log": "recovery.log"})
        return await rows_of(instance)
    finally:
        await instance.close()


async def kill_alone(mode: str, kills: int, chooser: random.Random, directory: Path) -> int:
    """Kill a single instance again and again, and return the number of acknowledged transactions."""
    child = Child(directory / "node", "writer", {"wal_mode": mode})
    acknowledged = Acknowledged()
    try:
        for _ in range(kills):
            await child.start()
            await child.wait_for(chooser.choice((0, 1, 2, 2, 2)))
            await asyncio.sleep(chooser.uniform(0, LONGEST))
            await child.kill()
            acknowledged.add(child.lines)
            acknowledged.check(await recovered(child.directory) if any(child.directory.glob("*.snap")) else {})
    finally:
        await child.kill()
    return acknowledged.count


async def kill_in_pairs(kills: int, chooser: random.Random, directory: Path) -> int:
    """Kill a master that needs its replica, or the replica; return the number of acknowledged transactions."""
    uris = [f"unix/:{directory}/{name}.sock" for name in ("master", "replica")]
    common = {"replication_timeout": 0.1, "replication_connect_timeout": 5, "replication_synchro_timeout": 1000}
    common |= {"replication_synchro_quorum": 2, "replication_connect_quorum": 0}
    master = Child(directory / "master", "founder", common | {"listen": uris[0]})
    replica = Child(directory / "replica", "follower", common | {"listen": uris[1], "replication": [uris[0]]})
    acknowledged = Acknowledged()
    try:
        await master.start()
        await master.wait_for(1)
        await replica.start()
        await replica.wait_for(1)
        await master.kill()
        master.become("sync", common | {"listen": uris[0], "replication": [uris[1]]})
        for _ in range(kills):
            await master.start()
            if not replica.is_running:
                await replica.start()
            await master.wait_for(chooser.choice((0, 2, 2, 2)))
            await asyncio.sleep(chooser.uniform(0, LONGEST))
            victims = chooser.choice(([master], [master], [replica, master], [master, replica], [replica]))
            for victim in victims:
                await victim.kill()
            if master not in victims:
                await asyncio.sleep(chooser.uniform(0, LONGEST / 4))
                await master.kill()
            acknowledged.add(master.lines)
        await master.start()
        if not replica.is_running:
            await replica.start()
        await master.wait_for(2)
        await master.kill()
        await replica.kill()
        acknowledged.add(master.lines)
        acknowledged.check(await recovered(master.directory))
        await check_replica(directory, acknowledged, common, uris)
    finally:
        await master.kill()
        await replica.kill()
    return acknowledged.count


async def check_replica(directory: Path, acknowledged: Acknowledged, common: dict[str, Any], uris: list[str]) -> None:
    """Start both instances again, and wait until they have equal rows, which include the acknowledged ones.

    Raises:
        TimeoutError: the rows differ after `PATIENCE` seconds.
    """
    options = [common | {"log": "again.log", "listen": uris[i], "replication": [uris[1 - i]]} for i in range(2)]
    master, replica = Instance(directory / "master"), Instance(directory / "replica")
    try:
        async with asyncio.timeout(PATIENCE):
            short = {"replication_synchro_timeout": 0.05}  # the time that a promotion waits for a quorum
            await asyncio.gather(master.configure(options[0] | short), replica.configure(options[1]))
            while True:
                try:
                    await master.synchro.promote()
                    break
                except BoxError:
                    await asyncio.sleep(0.05)  # the replica is not connected yet
            while (rows := await rows_of(master)) != await rows_of(replica):
                await asyncio.sleep(0.05)
        acknowledged.check(rows)
    finally:
        await asyncio.gather(master.close(), replica.close())


async def _kill(mode: str, kills: int, seed: str, directory: Path) -> int:
    chooser = random.Random(seed)
    if mode == "qsync":
        return await kill_in_pairs(kills, chooser, directory)
    return await kill_alone(mode, kills, chooser, directory)


async def _kill_side_by_side(mode: str, kills: int, seed: int, directory: Path) -> int:
    """Run two series of kills concurrently, on separate files, and return the number of acknowledged transactions.

    Most of the time goes into starts, each of which uses one processor.
    """
    shares = [(number, kills // 2 + (number < kills % 2)) for number in range(2)]
    for number, _ in shares:
        (directory / str(number)).mkdir()
    runs = [_kill(mode, share, f"{seed} {mode} {number}", directory / str(number)) for number, share in shares if share]
    return sum(await asyncio.gather(*runs))


def run_campaign(seed: int, size: int, modes: tuple[str, ...] = MODES) -> bool:
    """Make `size` kills in each mode, print a line for each mode, and return True if nothing was lost."""
    good = True
    for mode in modes:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kills") as name:
            try:
                count = asyncio.run(_kill_side_by_side(mode, size, seed, Path(name)))
            except Exception as error:
                good = False
                print(f"kills, seed {seed}, {mode}: {type(error).__name__}: {error}", flush=True)
                continue
        seconds = time.monotonic() - start
        print(f"kills, seed {seed}: {size} in {mode}, {count} acknowledged, none lost ({seconds:.0f} s)", flush=True)
    return good
