"""The campaign "sql-kills": kills a node (SIGKILL) while it changes tables with constraints, again and again.

Checked after each kill: the node starts again, it has the rows and tables of the last acknowledged step of
`test.soak.sql_work` or of a later one, and its constraints, triggers, views and sequences work.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from box.instance.node import Instance
from test.soak.kills import LONGEST, Child
from test.soak.sql_work import Model, check


async def _recovered(directory: Path, model: Model, least: int) -> int:
    node = Instance(directory)
    try:
        await node.configure({"log": "recovery.log"})
        return await check(node, model, least)
    finally:
        await node.close()


async def _kill(kills: int, chooser: random.Random, directory: Path) -> tuple[int, int]:
    child = Child(directory / "node", "sql", {"wal_mode": "write"})
    model, acknowledged, step, later = Model(), 0, 0, 0
    try:
        for _ in range(kills):
            await child.start()
            await child.wait_for(chooser.choice((0, 1, 2, 2, 2)))
            await asyncio.sleep(chooser.uniform(0, LONGEST))
            await child.kill()
            steps = [int(line) for line in child.lines if line.isdigit()]
            acknowledged += len(steps)
            least = max([step, *steps])
            if any(child.directory.glob("*.snap")):
                step = await _recovered(child.directory, model, least)
                later += step > least
    finally:
        await child.kill()
    return acknowledged, later


def run_campaign(seed: int, size: int) -> bool:
    """Make `size` kills, print a summary, and return True if nothing was lost."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sql-kills") as name:
        try:
            count, later = asyncio.run(_kill(size, random.Random(seed), Path(name)))
        except Exception as error:
            print(f"sql-kills, seed {seed}: {type(error).__name__}: {error}", flush=True)
            return False
    seconds = time.monotonic() - start
    print(
        f"sql-kills, seed {seed}: {size} kills, {count} steps acknowledged, none lost; after {later} kills the step"
        f" was there that was not acknowledged ({seconds:.0f} s)",
        flush=True,
    )
    return True
