"""Measures the longest turn of an embedded node's event loop during heavy work: `python -m test.bench.turns`.

A turn is the time between two steps of a task that wants to run all the time. It is measured in processor time, so that
other work on the machine does not count, as it does in `test.bench.stalls`. A turn of more than ten milliseconds is a
defect, with three exceptions. A select or a transaction in Lua is one turn by design, as in Tarantool. `box.cfg` loads
the modules of Lua in one turn, before it reads data. And when Python's collector visits its oldest generation, that is
all objects that the program holds, such as the rows of a large result; a column tells its share of the longest turn.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from box import Node
from box.data.codec import pack
from box.embed import LuaInstance
from box.txn.pending import completed
from box.wire.change import Request
from console import interpreter
from test.bench.__main__ import free_port
from test.bench.stalls import Server

_TICK = 0.0005
"""Seconds that the measuring task sleeps between two steps."""
_FILL = """
    local first, count = ...
    box.begin()
    for id = first, first + count - 1 do
        box.space.turns:replace{id, ('name %d'):format(id * 7919 % 1000003), id / 2}
    end
    box.commit()
"""
_STEP = 100
"""Rows of a transaction that fills the space."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The figures of one piece of work: processor seconds of the longest turn, those of Python's collector in it, and
    of all turns; the duration; the peak of memory.
    """

    name: str
    longest: float
    collector: float
    processor: float
    duration: float
    memory: int


class Watch:
    """Measures the turns of the running loop with a task of its own."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._longest = (0.0, 0.0)
        self._since = self._collecting = self._collected = 0.0
        self._thread = threading.get_ident()
        gc.callbacks.append(self._collect)
        self._task = asyncio.ensure_future(self._tick())

    def _collect(self, phase: str, _info: dict[str, int]) -> None:
        """Add up what the collector takes in the loop's thread."""
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting

    async def _tick(self) -> None:
        while True:
            last, self._collected = time.thread_time(), 0.0
            await asyncio.sleep(_TICK)
            self._longest = max(self._longest, (time.thread_time() - max(last, self._since), self._collected))

    def forget(self) -> None:
        """Ignore the turns so far, including the current one."""
        self._longest, self._since, self._collected = (0.0, 0.0), time.thread_time(), 0.0

    async def phase(self, name: str, work: Awaitable[Any]) -> None:
        """Await some work and add its figures to `phases`."""
        await asyncio.sleep(2 * _TICK)
        # 5 resets the peak of memory, VmHWM.
        Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240 - /proc is no disk and does not block
        start, processor = time.perf_counter(), time.thread_time()
        self._longest = (0.0, 0.0)
        # What the work returns is freed by the program, after the phase.
        result = await work
        await asyncio.sleep(4 * _TICK)
        processor, duration = time.thread_time() - processor, time.perf_counter() - start
        self.phases.append(Phase(name, *self._longest, processor, duration, _memory()))
        del result
        await asyncio.sleep(4 * _TICK)

    def stop(self) -> None:
        self._task.cancel()
        gc.callbacks.remove(self._collect)


def _memory() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


async def fill(node: Node, count: int, program: str = _FILL, step: int = _STEP) -> None:
    """Store tuples, `step` of them in a transaction, which is one turn."""
    for first in range(1, count, step):
        await node.eval(program, first, step)
        await asyncio.sleep(0)


async def _pairs(node: Node) -> None:
    async for _ in node.space["turns"].pairs():
        pass


async def until_freed(node: Node) -> None:
    """Wait until the memory of dropped objects is freed."""
    while not node._embedding.core.releaser.is_idle:
        await asyncio.sleep(_TICK)


async def measure(directory: str, count: int) -> list[Phase]:
    """Measure all work on one node with `count` tuples (unsigned, string, double)."""
    options: dict[str, Any] = {"wal_mode": "none", "log_level": 4, "log": f"{directory}/log", "checkpoint_interval": 0}
    options["memtx_memory"] = 2 << 30
    node = Node(directory, **options)
    await node.start()
    watch = Watch()
    phase = watch.phase
    try:
        await node.eval("box.schema.space.create('turns'):create_index('pk')")
        await phase("nothing", asyncio.sleep(0.5))
        await phase("filling, a hundred a transaction", fill(node, count))
        create = "box.space.turns:create_index"
        await phase("create_index, unsigned", node.eval(f"{create}('id', {{parts = {{{{1, 'unsigned'}}}}}})"))
        await node.eval("box.space.turns.index.id:drop()")
        await phase("drop of that index", until_freed(node))
        await phase(
            "create_index, string", node.eval(f"{create}('name', {{parts = {{{{2, 'string'}}}}, unique = false}})")
        )
        await phase("select of 100,000, embedded", node.space["turns"].select(limit=100_000))
        await phase("pairs, embedded", _pairs(node))
        await phase("select of 100,000, Lua", node.eval("return #box.space.turns:select({}, {limit = 100000})"))
        await phase("gc.collect()", _collect())
        await phase("box.snapshot()", node.eval("box.snapshot()"))
        await phase("filling it again", fill(node, count // 4))
        await node.stop()
        await measure_start(watch, options)
        recovered = LuaInstance(directory)
        await phase("recovery", recovered.configure(options))
        await recovered.stop()
        node = Node(None, **options)
        await node.start()
        await node.eval("box.schema.space.create('turns'):create_index('pk')")
        await fill(node, count)
        await node.eval("box.space.turns:truncate()")
        await phase("truncate", until_freed(node))
        await fill(node, count)
        await node.eval("box.space.turns:drop()")
        await phase("drop", until_freed(node))
    finally:
        watch.stop()
        await node.stop()
    return watch.phases


async def measure_start(watch: Watch, options: dict[str, Any]) -> None:
    """Measure `box.cfg` of a new node without data: the first turn of a recovery and a join is the same."""
    with tempfile.TemporaryDirectory(prefix="turns") as directory:
        empty = LuaInstance(directory)
        await watch.phase("box.cfg without data", empty.configure(options | {"log": f"{directory}/log"}))
        await empty.stop()


async def measure_join(directory: Path, count: int) -> list[Phase]:
    """Measure a join on the replica; the master is another process, with `count` tuples and a string index."""
    loop = asyncio.get_running_loop()
    master = await loop.run_in_executor(None, _master, directory / "master", count)
    options: dict[str, Any] = {"log_level": 4, "log": f"{directory}/replica.log", "memtx_memory": 2 << 30}
    options |= {"replication": f"127.0.0.1:{master.port}", "replication_timeout": 60, "checkpoint_interval": 0}
    (directory / "replica").mkdir()
    watch, replica = Watch(), LuaInstance(str(directory / "replica"))
    try:
        await watch.phase("join, the replica", replica.configure(options))
        assert await replica.node.loop.run_in_executor(None, master.process.poll) is None
    finally:
        watch.stop()
        await replica.stop()
        await loop.run_in_executor(None, master.stop)
    return watch.phases


def _master(directory: Path, count: int) -> Server:
    server = Server([sys.executable, "-m", "console"], directory)
    server.wait_running()
    server.console.ask(f"fill({count})")
    server.console.ask("box.space.stalls:create_index('name', {parts = {{2, 'string'}}, unique = false}) return true")
    return server


async def measure_large(directory: Path, count: int) -> list[Phase]:
    """Measure a transaction of `count` rows first on the replica, then on the master; the other side is a process.

    A task reads the space meanwhile. On the master the commit is measured, not the statements before.
    """
    loop = asyncio.get_running_loop()
    for name in ("large-replica", "large-master", "large-other-replica"):
        (directory / name).mkdir()
    server = await loop.run_in_executor(None, _master, directory / "large-other", 1000)
    options: dict[str, Any] = {"log_level": 4, "memtx_memory": 2 << 30, "checkpoint_interval": 0}
    replica, watch = LuaInstance(str(directory / "large-replica")), Watch()
    try:
        log, source = f"{directory}/large-replica.log", f"127.0.0.1:{server.port}"
        await replica.configure(options | {"log": log, "replication": source, "replication_timeout": 60})
        await watch.phase(f"a transaction of {count:,} rows, the replica", _replicate(replica, server, count))
    finally:
        await replica.stop()
        await loop.run_in_executor(None, server.stop)
    port = free_port()
    master = LuaInstance(str(directory / "large-master"))
    await master.configure(options | {"log": f"{directory}/large-master.log", "listen": port})
    other = None
    try:
        await master.runtime.eval(_FOUND, pack([]), master.node.new_context())
        other = await loop.run_in_executor(
            None, Server, [sys.executable, "-m", "console"], directory / "large-other-replica", f"127.0.0.1:{port}"
        )
        await loop.run_in_executor(None, other.wait_running)
        await watch.phase(f"a transaction of {count:,} rows, the master", _commit_large(master, watch, count))
    finally:
        watch.stop()
        await master.stop()
        if other is not None:
            await loop.run_in_executor(None, other.stop)
    return watch.phases


_FOUND = b"""
    box.schema.user.grant('guest', 'super')
    local space = box.schema.space.create('stalls')
    space:create_index('pk')
    space:create_index('name', {parts = {{2, 'string'}}, unique = false})
"""


async def _read_along(instance: LuaInstance) -> None:
    """Read from the space once a millisecond, until cancelled."""
    node, number = instance.node, 0
    ctx = node.new_context()
    while True:
        number += 1
        space = node.schema.space_by_name("stalls")
        node.dml.reads.get(ctx, space, 0, [number % 1000])
        node.dml.reads.select(ctx, space, 0, 5, 0, 10, [number % 1000])
        await asyncio.sleep(0.001)


async def _replicate(replica: LuaInstance, server: Server, count: int) -> None:
    loop, reader = asyncio.get_running_loop(), asyncio.ensure_future(_read_along(replica))
    answer = await loop.run_in_executor(None, server.console.ask, f"return fill_at_once({count})")
    if str(count) not in answer:
        raise SystemExit(answer)
    node = replica.node
    wanted = int(await loop.run_in_executor(None, lambda: server.console.ask("return box.info.lsn").split()[2]))
    while node.state.vclock[1] < wanted:
        await asyncio.sleep(0.005)
    await node.txns.work.wait()
    reader.cancel()


async def _commit_large(master: LuaInstance, watch: Watch, count: int) -> None:
    node, reader = master.node, asyncio.ensure_future(_read_along(master))
    ctx, space = node.new_context(), node.schema.space_by_name("stalls")
    node.txns.begin(ctx)
    for number in range(1, count + 1):
        await completed(node.dml.write(ctx, space, Request.replace(pack([number, f"name {number}", number / 2]))))
    watch.forget()
    commit = node.txns.commit(ctx)
    await asyncio.sleep(0)
    await completed(commit)
    while not all(node.state.vclock[1] == relay.vclock[1] for relay in _relays(master)):
        await asyncio.sleep(0.005)
    reader.cancel()


def _relays(instance: LuaInstance) -> list[Any]:
    members = instance.node.replication.replicaset.by_uuid.values()
    return [member.relay for member in members if member.relay is not None]


async def _collect() -> None:
    gc.collect()


def least(rounds: Sequence[list[Phase]]) -> list[Phase]:
    """Return the least value of each figure of all rounds."""
    return [
        Phase(
            same[0].name,
            *min((phase.longest, phase.collector) for phase in same),
            min(phase.processor for phase in same),
            min(phase.duration for phase in same),
            min(phase.memory for phase in same),
        )
        for same in zip(*rounds, strict=True)
    ]


def table(phases: list[Phase]) -> str:
    """Format phases as a table in Markdown."""
    lines = [
        "| phase | longest turn, ms | the collector's share, ms | processor, s | time, s | memory, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for phase in phases:
        turn = f"{phase.longest * 1e3:.1f} | {phase.collector * 1e3:.1f}"
        figures = f"{turn} | {phase.processor:.2f} | {phase.duration:.2f} | {phase.memory / 1e6:.0f}"
        lines.append(f"| {phase.name} | {figures} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.turns", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the 2,000,000 tuples")
    parser.add_argument("--rows", type=float, default=1.0, help="factor of the 12,000 and 120,000 rows of transactions")
    parser.add_argument(
        "--only", choices=("own", "indexes", "sql", "join", "large"), help="measure this kind of work alone"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often all of it is measured")
    args = parser.parse_args()
    interpreter.tune()
    print(table(least([_round(args) for _ in range(args.rounds)])))


def _round(args: argparse.Namespace) -> list[Phase]:
    count = int(2_000_000 * args.scale)
    phases: list[Phase] = []
    with tempfile.TemporaryDirectory(prefix="turns") as directory:
        if args.only in (None, "own"):
            phases += uvloop.run(measure(directory, count))
        if args.only in (None, "indexes"):
            from test.bench.index_turns import measure_indexes

            (Path(directory) / "indexes").mkdir()
            phases += uvloop.run(measure_indexes(f"{directory}/indexes", count // 2))
        if args.only in (None, "sql"):
            from test.bench.sql_turns import measure_sql

            phases += uvloop.run(measure_sql(count))
        if args.only in (None, "join"):
            phases += uvloop.run(measure_join(Path(directory), count))
        if args.only in (None, "large"):
            for rows in (12_000, 120_000):
                (Path(directory) / str(rows)).mkdir()
                phases += uvloop.run(measure_large(Path(directory) / str(rows), int(rows * args.rows)))
    return phases


if __name__ == "__main__":
    main()
