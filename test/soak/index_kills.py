"""The campaign "index-kills": kills a node (SIGKILL) while it changes a space with all kinds of indexes.

Checked after each kill: the node starts again, it has the rows and indexes of the last acknowledged step of
`test.soak.index_work` or of a later one, and each index finds its rows and refuses what is wrong.
"""

from __future__ import annotations

from pathlib import Path

from test.soak.index_work import Model, Worker
from test.soak.step_kills import run_kills


async def _recovered(directory: Path, model: Model, least: int) -> int:
    worker = Worker(str(directory))
    try:
        await worker.start(log="recovery.log")
        return await worker.check(model, least)
    finally:
        await worker.stop()


def run_campaign(seed: int, size: int) -> bool:
    """Make `size` kills, print a summary, and return True if nothing was lost."""
    return run_kills("index-kills", "indexes", Model(), _recovered, seed, size)
