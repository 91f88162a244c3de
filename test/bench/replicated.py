"""Figures of replication for `test.bench.fast_paths`: processor time of one node, in seconds an operation.

```
figure       node                  operation
apply        replica               a row, in transactions of one row each
together     a node without peers  a row, in transactions of a thousand rows that are applied at once, without a log
commit       replica               a synchronous transaction of one of 100 fibers, quorum 2
join         replica               a tuple with two indexes; the time of an empty join is subtracted
send         master                a row that a replica fetches after a disconnection
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
"""Rows of a transaction: few enough that it is applied at once and not in slices."""
TOGETHER = "--together"
"""The argument of `test.bench.fast_paths --run` that calls `apply_together`, in place of a script."""


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process so far."""
    # After the command's name, which may contain blanks: fields 11 and 12 are the ticks in user and system mode.
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
    """Apply `count` rows in this process, and print the processor seconds a row."""
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
"""Figures by name: functions of the measured node's command, an empty directory and the number of rows."""
