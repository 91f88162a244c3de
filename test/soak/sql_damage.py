"""The campaign "sql-damage": starts a node from damaged files that have tables with constraints.

A byte of the snapshot or the log is changed, or the file is cut off. The node refuses to start, or has the rows and
tables of a step of `test.soak.sql_work`, an earlier one only if the log is damaged; its constraints still hold.
With `force_recovery` rows may lack, but none appears that was never written.
"""

from __future__ import annotations

from typing import Final

from box.errors import BoxError
from box.journal.storage import MemoryStorage
from test.soak.damage import Damage, Original, disk_of, read_all, run_damages, started
from test.soak.shares import Sweep
from test.soak.sql_work import Model, Worker, check, names_of, rows_of

_SNAPSHOT, _LAST = 23, 48
"""The steps before the snapshot, and the last one."""


class SqlOriginal(Original):
    """Files of a node after the steps up to `_LAST`, of which the snapshot has those up to `_SNAPSHOT`."""

    async def _make(self) -> None:
        disk = MemoryStorage()
        node = await started(disk)
        worker = Worker(node)
        await worker.prepare()
        for n in range(1, _LAST + 1):
            await worker.step(n)
            if n == _SNAPSHOT:
                await node.checkpoints.make()
        assert await check(node, Model(), _LAST) == _LAST
        await node.close()
        self.files = read_all(disk)


_WRITTEN: Final = [Model().advance(n) for n in range(_LAST + 1)]


def _was_written(name: str, row: list[object]) -> bool:
    if name == "CUSTOMER":
        return any(model.customers.get(row[1]) == tuple(row[2:]) for model in _WRITTEN)  # type: ignore[call-overload]
    if name == "ORDERS":
        return any((row[2], row[1]) in model.orders for model in _WRITTEN)
    if name == "AUDIT":
        return row[1] in _WRITTEN[-1].notes
    return row[0] == 1 and row[1] in range(_LAST + 1)


async def decide(original: SqlOriginal, damage: Damage) -> str:
    """Start from damaged files, check the result, and return what the node did: see `test.soak.damage.decide`."""
    files = dict(original.files)
    files[damage.path] = damage.apply(files[damage.path])
    disk = disk_of(files)
    try:
        node = await started(disk, force_recovery=damage.force_recovery)
    except BoxError:
        return "refused"
    try:
        if damage.force_recovery:
            for name in ("CUSTOMER", "ORDERS", "AUDIT", "PROGRESS"):
                space = names_of(node).get(name)
                if space is not None and 0 in node.schema.space(space).indexes:
                    wrong = [row for row in rows_of(node, space) if not _was_written(name, row)]
                    assert not wrong, f"rows of {name} that were never written: {wrong}"
            return "started"
        found = await check(node, Model(), _SNAPSHOT)
        if found < _LAST:
            assert damage.path.endswith(".xlog"), "a damaged snapshot was accepted"
        for n in range(found + 1, found + 11):
            await Worker(node).step(n)
    finally:
        await node.close()
    again = await started(disk)
    try:
        assert await check(again, Model(), found + 10) == found + 10
    finally:
        await again.close()
    return "whole" if found == _LAST else "beginning"


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run the damages of `seed`, print each failure and a summary, and return True if there was no failure."""
    return run_damages("sql-damage", decide, SqlOriginal(), seed, sweep)
