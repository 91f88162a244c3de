"""Processor time of one side of replication: the figures of short cuts that have two nodes.

```
apply        the replica, a row: transactions of one row each
together     the turn that applies transactions of a thousand rows, a row; an instance alone, without a log
commit       the replica, a synchronous transaction of 100 fibers, quorum 2
join         the replica, a tuple, two indexes; what a join of nothing takes is not counted
send         the master, a row that a replica fetches which was away for some seconds
```
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from box import Node
from box.data.codec import pack
from box.wire.change import REPLACE, Request
from box.wire.row import Row
from test.bench.replication import OWN, Command, _pair, _wait_lsn

_ROOT = Path(__file__).parents[2]
_SYNCHRONOUS_SECONDS = 1.0
_ROWS = 1000
"""Of a transaction: fewer than are executed in slices."""
TOGETHER = "--together"
"""In the place of a script: `apply_together`."""


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _apply(command: Command, root: Path, count: int) -> float:
    with _pair(OWN, command, root) as (one, two):
        two.start()
        _wait_lsn(one, two)
        before = processor_seconds(two.pid)
        one.ask(f"fill(1, {count}, 1000)")
        _wait_lsn(one, two)
        return (processor_seconds(two.pid) - before) / count


def _together(command: Command, root: Path, count: int) -> float:
    done = subprocess.run([*command, TOGETHER, str(count)], cwd=_ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def apply_together(count: int) -> None:
    """Print the seconds a row, of this process."""
    print(asyncio.run(_applied(count)))


async def _applied(count: int) -> float:
    async with Node(None, wal_mode="none", log_level=0) as node:
        await node.eval("box.schema.space.create('bench', {id = 512}):create_index('pk')")
        sink, ctx = node._embedding.core.replication.sink, node._embedding.core.new_context()
        used = 0.0
        for first in range(1, count, _ROWS):
            bodies = [Request.replace(pack([first + n, "name", 1.5])).body(512) for n in range(_ROWS)]
            rows = [
                Row(REPLACE, 2, first + n, tsn=first, is_commit=n == _ROWS - 1, body=b) for n, b in enumerate(bodies)
            ]
            start = time.process_time()
            assert sink.apply_now(ctx, rows)
            used += time.process_time() - start
        return used / count


def _commit(command: Command, root: Path, _: int) -> float:
    with _pair(OWN, command, root) as (one, two):
        two.start()
        _wait_lsn(one, two)
        one.ask("box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 60}")
        before = processor_seconds(two.pid)
        rate = one.number(f"commit_synchronously(100, {_SYNCHRONOUS_SECONDS})")
        return (processor_seconds(two.pid) - before) / (rate * _SYNCHRONOUS_SECONDS)


def _join(command: Command, root: Path, count: int) -> float:
    costs = []
    for tuples in (0, count):
        place = root / str(tuples)
        place.mkdir()
        with _pair(OWN, command, place) as (one, two):
            one.ask(f"fill_two({tuples})")
            two.start()
            _wait_lsn(one, two)
            costs.append(processor_seconds(two.pid))
    return (costs[1] - costs[0]) / count


def _send(command: Command, root: Path, count: int) -> float:
    with _pair(command, OWN, root) as (one, two):
        two.start()
        _wait_lsn(one, two)
        two.ask("box.cfg{replication = {}}")
        one.ask(f"fill(1, {count}, 1000)")
        before = processor_seconds(one.pid)
        two.ask(f"box.cfg{{replication = '{one.uri}', replication_connect_quorum = 0}}")
        _wait_lsn(one, two, 0.05)
        return (processor_seconds(one.pid) - before) / count


FIGURES: dict[str, Callable[[Command, Path, int], float]] = {
    "apply": _apply,
    "together": _together,
    "commit": _commit,
    "join": _join,
    "send": _send,
}
"""Name -> (command of the side that is measured, an empty directory, rows) -> seconds an operation."""
