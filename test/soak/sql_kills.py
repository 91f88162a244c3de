"""The campaign "sql-kills": kills a node (SIGKILL) while it changes tables with constraints, again and again.

Checked after each kill: the node starts again, it has the rows and tables of the last acknowledged step of
`test.soak.sql_work` or of a later one, and its constraints, triggers, views and sequences work.
"""

from __future__ import annotations

from pathlib import Path

from box.instance.node import Instance
from test.soak.sql_work import Model, check
from test.soak.step_kills import run_kills


async def _recovered(directory: Path, model: Model, least: int) -> int:
    node = Instance(directory)
    try:
        await node.configure({"log": "recovery.log"})
        return await check(node, model, least)
    finally:
        await node.close()


def run_campaign(seed: int, size: int) -> bool:
    """Make `size` kills, print a summary, and return True if nothing was lost."""
    return run_kills("sql-kills", "sql", Model(), _recovered, seed, size)
