"""The campaign "index-damage": starts a node from damaged files of a space with all kinds of indexes.

A byte of the snapshot or the log is changed, or the file is cut off. The node refuses to start, or has the rows and
indexes of a step of `test.soak.index_work`, an earlier one only if the log is damaged; its indexes still find their
rows. With `force_recovery` rows and indexes may lack, but no row appears that was never written.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from box.data.codec import pack
from box.errors import BoxError
from box.journal.storage import MemoryStorage
from box.schema.ids import SpaceId
from test.soak.damage import PATIENCE, Damage, Original, disk_of, read_all, run_damages
from test.soak.index_work import Model, Worker
from test.soak.shares import Sweep

_SNAPSHOT, _LAST = 47, 74
"""The steps before the snapshot, and the last one."""


async def _started(disk: MemoryStorage, **options: Any) -> Worker:
    """Start a node from a disk; if the start fails, the node is stopped and the error raised."""
    worker = Worker(disk=disk)
    worker.node.log.forward = lambda level, text: None  # the errors of damaged files would fill standard error
    try:
        async with asyncio.timeout(PATIENCE):
            await worker.start(**options)
    except BaseException:
        await worker.stop()
        raise
    return worker


class IndexOriginal(Original):
    """Files of a node after the steps up to `_LAST`, of which the snapshot has those up to `_SNAPSHOT`."""

    async def _make(self) -> None:
        disk = MemoryStorage()
        worker = await _started(disk)
        await worker.prepare()
        for n in range(1, _LAST + 1):
            await worker.step(n)
            if n == _SNAPSHOT:
                await worker.node.checkpoints.make()
        assert await worker.check(Model(), _LAST) == _LAST
        await worker.stop()
        self.files = read_all(disk)


_WRITTEN: Final = {pack(row) for n in range(_LAST + 1) for row in Model().advance(n).rows.values()}


async def decide(original: IndexOriginal, damage: Damage) -> str:
    """Start from damaged files, check the result, and return what the node did: see `test.soak.damage.decide`."""
    files = dict(original.files)
    files[damage.path] = damage.apply(files[damage.path])
    disk = disk_of(files)
    try:
        worker = await _started(disk, force_recovery=damage.force_recovery)
    except BoxError:
        return "refused"
    try:
        if damage.force_recovery:
            space = {row[2]: row[0] for row in worker.select(SpaceId.SPACE)}.get("indexed")
            if space is not None and 0 in worker.node.schema.space(space).indexes:
                wrong = [row for row in worker.select(space) if pack(row) not in _WRITTEN]
                assert not wrong, f"rows that were never written: {wrong}"
            return "started"
        found = await worker.check(Model(), _SNAPSHOT)
        if found < _LAST:
            assert damage.path.endswith(".xlog"), "a damaged snapshot was accepted"
        for n in range(found + 1, found + 11):
            await worker.step(n)
    finally:
        await worker.stop()
    again = await _started(disk)
    try:
        assert await again.check(Model(), found + 10) == found + 10
    finally:
        await again.stop()
    return "whole" if found == _LAST else "beginning"


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run the damages of `seed`, print each failure and a summary, and return True if there was no failure."""
    return run_damages("index-damage", decide, IndexOriginal(), seed, sweep)
