"""The campaign "index-kills": kills a node (SIGKILL) while it changes a space with all kinds of indexes.

Checked after each kill: the node starts again, it has the rows and indexes of the last acknowledged step of
`test.soak.index_work` or of a later one, and each index finds its rows and refuses what is wrong.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from test.soak.index_work import Model, Worker
from test.soak.kills import LONGEST, Child


async def _recovered(directory: Path, model: Model, least: int) -> int:
    worker = Worker(str(directory))
    try:
        await worker.start(log="recovery.log")
        return await worker.check(model, least)
    finally:
        await worker.stop()


async def _kill(kills: int, chooser: random.Random, directory: Path) -> tuple[int, int]:
    """Return how many steps were acknowledged, and how often a later one was found."""
    child = Child(directory / "node", "indexes", {"wal_mode": "write"})
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
    with tempfile.TemporaryDirectory(prefix="index-kills") as name:
        try:
            count, later = asyncio.run(_kill(size, random.Random(seed), Path(name)))
        except Exception as error:
            print(f"index-kills, seed {seed}: {type(error).__name__}: {error}", flush=True)
            return False
    seconds = time.monotonic() - start
    print(
        f"index-kills, seed {seed}: {size} kills, {count} steps acknowledged, none lost; after {later} kills the step"
        f" was there that was not acknowledged ({seconds:.0f} s)",
        flush=True,
    )
    return True
