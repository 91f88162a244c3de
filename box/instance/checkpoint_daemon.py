"""The daemon that makes checkpoints: every `checkpoint_interval` seconds, and when the log has reached
`checkpoint_wal_threshold`.

The first checkpoint comes one to two intervals after the interval was set, at random, so that instances that were
started together do not write their snapshots together; the others follow it at whole intervals. A snapshot that a user
asks for begins this anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from box.errors import BoxError
from box.instance.resources import Resources

NAME = "checkpoint_daemon"


class CheckpointDaemon:
    """Calls `make` when a checkpoint is due. The log says when that will be."""

    def __init__(self, resources: Resources, make: Callable[[], Awaitable[None]]) -> None:
        self._loop = resources.loop
        self._clock = resources.clock
        self._random = resources.random
        self._config = resources.config
        self._log = resources.log.of_fiber(NAME)
        self._writer_log = resources.log.of_cord("main")
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._is_requested = False
        self._due: float | None = None
        """The time of the next checkpoint by the loop's clock, or None."""

    def start(self) -> None:
        """Make checkpoints from now on."""
        self._task = self._loop.create_task(self._run(), name=NAME)
        self.reschedule()

    async def stop(self) -> None:
        """Cancel a running checkpoint and make no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def request(self) -> None:
        """Make a checkpoint as soon as possible, because the log has reached the threshold."""
        self._writer_log.info("WAL threshold exceeded, triggering checkpoint")
        interval = self._config["checkpoint_interval"]
        self._due = self._loop.time() + interval if interval > 0 else None
        self._is_requested = True
        self._wakeup.set()

    def reschedule(self) -> None:
        """Begin a new `checkpoint_interval`. A running checkpoint continues."""
        interval = self._config["checkpoint_interval"]
        self._due = self._loop.time() + interval * (1 + self._random.random()) if interval > 0 else None
        self._wakeup.set()

    async def _run(self) -> None:
        while True:
            await self._wait_until_due()
            self._is_requested = False
            try:
                await self._make()
            except BoxError as error:
                self._log.problem(error)

    async def _wait_until_due(self) -> None:
        while not self._is_requested:
            self._wakeup.clear()
            self._skip_past()
            self._announce()
            try:
                async with asyncio.timeout_at(self._due):
                    await self._wakeup.wait()
            except TimeoutError:
                return

    def _skip_past(self) -> None:
        """Move the time of the next checkpoint to the first whole interval that is not over."""
        now, interval = self._loop.time(), self._config["checkpoint_interval"]
        if self._due is not None and self._due <= now and interval > 0:
            self._due = now + interval - (now - self._due) % interval

    def _announce(self) -> None:
        if self._due is not None:
            due = datetime.fromtimestamp(self._clock() + self._due - self._loop.time())
            self._log.info(f"scheduled next checkpoint for {due:%c}")
