"""Campaigns that kill a node (SIGKILL) while it makes numbered steps, and compare it with a model of these steps."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from test.soak.kills import LONGEST, Child
from test.soak.step_model import StepModel

Recovered = Callable[[Path, Any, int], Awaitable[int]]
"""`recovered(directory, model, least)` starts a node, checks it, and returns the step that it has, at least `least`."""


async def _kill(
    kind: str, model: StepModel, recovered: Recovered, kills: int, chooser: random.Random, directory: Path
) -> tuple[int, int]:
    """Return how many steps were acknowledged, and how often a later one was found."""
    child = Child(directory / "node", kind, {"wal_mode": "write"})
    acknowledged = step = later = 0
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
                step = await recovered(child.directory, model, least)
                later += step > least
    finally:
        await child.kill()
    return acknowledged, later


def run_kills(name: str, kind: str, model: StepModel, recovered: Recovered, seed: int, size: int) -> bool:
    """Make `size` kills of a node that makes steps of a kind (`test.soak.kill_child`), and print a summary.

    Returns True if nothing was lost.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=name) as root:
        try:
            work = _kill(kind, model, recovered, size, random.Random(seed), Path(root))
            count, later = asyncio.run(work)
        except Exception as error:
            print(f"{name}, seed {seed}: {type(error).__name__}: {error}", flush=True)
            return False
    seconds = time.monotonic() - start
    print(
        f"{name}, seed {seed}: {size} kills, {count} steps acknowledged, none lost; after {later} kills the step"
        f" was there that was not acknowledged ({seconds:.0f} s)",
        flush=True,
    )
    return True
