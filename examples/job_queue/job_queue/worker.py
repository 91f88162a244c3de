"""Workers: each takes a job, does it and writes the result, until it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from box import BoxError
from job_queue.jobs import Jobs

Work = Callable[[str], Awaitable[str]]
_PAUSE = 0.05
"""Seconds until the next look at a queue that was empty."""
_LOG = logging.getLogger("job_queue")


async def count_words(text: str) -> str:
    """The work of this example."""
    await asyncio.sleep(0.01 * len(text.split()))
    return f"{len(text.split())} words"


async def run_worker(name: str, jobs: Jobs, work: Work = count_words) -> None:
    """Work until the task is cancelled. A node that takes no changes for a while is asked again."""
    while True:
        try:
            job = await jobs.take(name)
            if job is not None:
                await jobs.finish(job, await work(job.text))
                continue
        except BoxError as error:
            _LOG.warning("%s: %s", name, error)
        await asyncio.sleep(_PAUSE)
