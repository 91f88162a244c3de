"""The queue: jobs in a space, taken in their order by one worker at a time.

```
ready --take--> taken (until `lease` is over) --finish--> done
                   |                             `------ another worker's: refused
                   `-- the lease is over: anybody may take it again
```
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from box import BoxError, Node
from box.errors import ErrorCode

SPACE = "jobs"
LEASE = 5.0
"""Seconds that a worker has for a job."""

READY, TAKEN, DONE = "ready", "taken", "done"
_FORMAT = [
    ("id", "unsigned"),
    ("state", "string"),
    ("text", "string"),
    ("worker", "string"),
    ("until", "number"),
    ("result", "string"),
]


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the space. `until` is the end of the lease in seconds since the epoch."""

    id: int
    state: str
    text: str
    worker: str
    until: float
    result: str


async def create_space(node: Node) -> None:
    """Make the space on the node that takes changes; with a quorum's confirmation of every job where there is one."""
    space = await node.schema.create_space(SPACE, format=_FORMAT, is_sync=True, if_not_exists=True)
    await space.create_index("pk", parts=["id"], sequence=True, if_not_exists=True)
    await space.create_index("state", parts=["state", "id"], if_not_exists=True)


class Jobs:
    """The queue on one node, which has `memtx_use_mvcc_engine`. Changes need a node that takes them."""

    def __init__(self, node: Node, *, clock: Callable[[], float] = time.time) -> None:
        self._node = node
        self._space = node.space[SPACE]
        self._clock = clock

    async def put(self, text: str) -> Job:
        """A new job; it is on a majority of the nodes when this returns."""
        return _job(await self._space.insert([None, READY, text, "", 0, ""]))

    async def take(self, worker: str, *, lease: float = LEASE) -> Job | None:
        """The first job that is ready, or whose lease is over: the worker's for `lease` seconds. None without one, and
        where another worker was quicker."""
        now = self._clock()
        changes: list[list[object]] = [["=", "state", TAKEN], ["=", "worker", worker], ["=", "until", now + lease]]
        try:
            async with self._node.transaction():
                job = await self._first(now)
                return None if job is None else _job(await self._space.update(job.id, changes))
        except BoxError as error:
            if error.code == ErrorCode.TRANSACTION_CONFLICT:
                return None
            raise

    async def finish(self, job: Job, result: str) -> bool:
        """Write the result; false where the job is another worker's by now."""
        async with self._node.transaction():
            row = await self._space.get(job.id)
            if row is None or row.state != TAKEN or (row.worker, row.until) != (job.worker, job.until):
                return False
            await self._space.update(job.id, [["=", "state", DONE], ["=", "result", result]])
            return True

    async def list(self) -> list[Job]:
        """All jobs by number."""
        return [_job(row) for row in await self._space.select()]

    async def _first(self, now: float) -> Job | None:
        ready = await self._space.index["state"].select([READY], limit=1)
        if ready:
            return _job(ready[0])
        taken = await self._space.index["state"].select([TAKEN])
        return next((_job(row) for row in taken if row.until <= now), None)


def _job(row: Any) -> Job:
    return Job(row.id, row.state, row.text, row.worker, row.until, row.result)
