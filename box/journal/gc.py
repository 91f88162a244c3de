"""Garbage collection: finds and removes snapshots and WAL files that are no longer needed.

A snapshot is kept while it is among the newest `checkpoint_count`, or referenced (a backup), or newer than one that is.
WAL rows are kept from the oldest kept snapshot on, and from the vclock of every consumer (a replica) on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from box.errors import ErrorCode, client_error
from box.journal.directory import Logger, SilentLog
from box.wire.vclock import VClock


@dataclass(slots=True)
class Checkpoint:
    """A complete snapshot; `references` are the names of its users, such as a backup."""

    vclock: VClock
    references: list[str] = field(default_factory=list)


class Consumer:
    """A consumer of the log, such as a replica: WAL rows later than `vclock` are kept for it.

    It becomes inactive when a full disk forced the removal of files that it needed.
    """

    __slots__ = ("_collector", "inactive", "name", "vclock")

    def __init__(self, collector: GarbageCollector, name: str, vclock: VClock) -> None:
        self._collector = collector
        self.name = name
        self.vclock = vclock.copy()
        self.inactive = False

    def advance(self, vclock: VClock) -> None:
        """Note that the consumer has every row up to `vclock`."""
        if not self.inactive and vclock.signature != self.vclock.signature:
            self.vclock = vclock.copy()
            self._collector.schedule()

    def close(self) -> None:
        """Unregister the consumer; safe to call again."""
        self._collector._unregister(self)


class GarbageCollector:
    """Decides in the tx thread which files go; `remove(snapshots_before, wal_before)` removes them.

    Each argument of `remove` is None if nothing of that kind goes. Nothing is removed before `start`, nor while the
    collector is paused: after a start it waits until `delay_unref` was called for every `delay_ref` (replicas that have
    connected), or until `wal_cleanup_delay` seconds have passed.
    """

    def __init__(
        self,
        remove: Callable[[VClock | None, VClock | None], Awaitable[None]],
        *,
        checkpoint_count: int = 2,
        log: Logger | None = None,
    ) -> None:
        self.vclock = VClock()
        self._has_older = False
        """True if there may be files before `vclock`."""
        self.checkpoints: list[Checkpoint] = []
        self.consumers: list[Consumer] = []
        self.checkpoint_count = checkpoint_count
        self.checkpoint_is_in_progress = False
        self.is_paused = True
        self._remove = remove
        self._log = log or SilentLog()
        self._started = False
        self._delay_references = 0
        self._delay_timer: asyncio.TimerHandle | None = None
        self._scheduled = 0
        self._completed = 0
        self._task: asyncio.Task[None] | None = None
        self._backup: Checkpoint | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self, delay: float = 0) -> None:
        """Begin to remove files, once recovery is over.

        With `delay` seconds it first pauses, as the class describes.
        """
        self._started = True
        if delay > 0 and self._delay_references:
            self.set_cleanup_delay(delay)
        else:
            self._resume("")

    def set_cleanup_delay(self, delay: float) -> None:
        """Change the longest duration of the pause, counted from now."""
        if not (self.is_paused and self._started):
            return
        if self._delay_timer is not None:
            self._delay_timer.cancel()
        loop = asyncio.get_running_loop()
        self._delay_timer = loop.call_later(delay, self._resume, " due to timeout expiration")

    def delay_ref(self) -> None:
        """Count one more replica to wait for during the pause."""
        if self.is_paused:
            self._delay_references += 1

    def delay_unref(self) -> None:
        """Count one replica less to wait for: it has connected, or never will."""
        if self.is_paused and self._delay_references:
            self._delay_references -= 1
            if not self._delay_references and self._started:
                self._resume("")

    def _resume(self, why: str) -> None:
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        self.is_paused = False
        self._delay_references = 0
        self._log.info(f"wal/engine cleanup is resumed{why}")
        self.schedule()

    async def stop(self) -> None:
        """Wait for a running removal, and end the pause."""
        self._started = False
        if self._delay_timer is not None:
            self._delay_timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    # --- state --------------------------------------------------------------------------------------------------------

    def begin_anew(self, vclock: VClock) -> None:
        """Note that rows before `vclock` are not available here.

        Files with rows before it end too early to be useful, and are removed together with the snapshots that need
        them.
        """
        self.vclock, self._has_older = vclock.copy(), True

    def add_checkpoint(self, vclock: VClock) -> None:
        """Register a complete snapshot. One with the vclock of the last replaces that."""
        if not self.checkpoints or self.checkpoints[-1].vclock.signature != vclock.signature:
            self.checkpoints.append(Checkpoint(vclock.copy()))
        self.schedule()

    def register_consumer(self, name: str, vclock: VClock) -> Consumer:
        """Register a consumer and keep rows later than `vclock` until it advances or closes."""
        consumer = Consumer(self, name, vclock)
        self.consumers.append(consumer)
        return consumer

    def _unregister(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.schedule()

    def files_were_removed(self, vclock: VClock) -> None:
        """Note that a full disk forced the removal of rows before `vclock`, whichever consumer needed them."""
        if vclock.signature > self.vclock.signature:
            self.vclock = vclock.copy()
        for consumer in tuple(self.consumers):
            if not consumer.vclock.covers(vclock, ignore_zero=True):
                consumer.inactive = True
                self.consumers.remove(consumer)
                self._log.crit(f"deactivated WAL consumer {consumer.name} at {consumer.vclock}")
        self.schedule()

    def info(self) -> dict[str, Any]:
        """Return the content of `box.info.gc()`."""
        consumers = sorted(self.consumers, key=lambda consumer: sorted(consumer.vclock.items()))
        return {
            "vclock": dict(self.vclock),
            "signature": self.vclock.signature,
            "checkpoint_is_in_progress": self.checkpoint_is_in_progress,
            "is_paused": self.is_paused,
            "checkpoints": [
                {"vclock": dict(c.vclock), "signature": c.vclock.signature, "references": list(c.references)}
                for c in self.checkpoints
            ],
            "consumers": [
                {"name": c.name, "vclock": dict(c.vclock), "signature": c.vclock.signature} for c in consumers
            ],
        }

    # --- backup -------------------------------------------------------------------------------------------------------

    def backup_start(self, index: int = 0) -> VClock:
        """Keep a snapshot for a backup: the newest for `index` 0, the one before for 1, and so on. Returns its vclock.

        Raises:
            ClientError: BACKUP_IN_PROGRESS, or MISSING_SNAPSHOT.
        """
        if self._backup is not None:
            raise client_error(ErrorCode.BACKUP_IN_PROGRESS)
        if index >= len(self.checkpoints):
            raise client_error(ErrorCode.MISSING_SNAPSHOT)
        self._backup = self.checkpoints[-1 - index]
        self._backup.references.append("backup")
        return self._backup.vclock

    def backup_stop(self) -> None:
        """Release the snapshot of the backup; does nothing without a backup."""
        if self._backup is not None:
            self._backup.references.remove("backup")
            self._backup = None
            self.schedule()

    # --- removal ------------------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Request a removal soon. Requests during a removal cause one more removal."""
        self._scheduled += 1
        if not self._started or self.is_paused or self._task is not None:
            return
        self._completed = self._scheduled
        snapshots, rows = self._decide()
        if snapshots is not None or rows is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(snapshots, rows), name="gc")

    async def wait(self) -> None:
        """Wait until all requested removals are done; returns at once while paused."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, snapshots: VClock | None, rows: VClock | None) -> None:
        """Remove files, then again for the requests that came meanwhile."""
        try:
            while snapshots is not None or rows is not None:
                await self._remove(snapshots, rows)
                snapshots = rows = None
                if self._completed < self._scheduled and self._started:
                    self._completed = self._scheduled
                    snapshots, rows = self._decide()
        except Exception as error:
            self._log.error(f"garbage collection failed: {error}")
        finally:
            self._task = None

    def _decide(self) -> tuple[VClock | None, VClock | None]:
        """Forget checkpoints that are not kept. Returns the vclocks below which snapshots and rows may be removed."""
        if not self.checkpoints:
            return None, None
        dropped = False
        while len(self.checkpoints) > self.checkpoint_count and not self.checkpoints[0].references:
            self.checkpoints.pop(0)
            dropped = True
        oldest = self.checkpoints[0].vclock
        needed = oldest.copy()
        for consumer in self.consumers:
            needed.merge_min(consumer.vclock)
        snapshots = oldest.copy() if dropped else None
        # Equal signatures mean that nothing is new, unless older files are still there from before.
        if needed.signature < self.vclock.signature + (not self._has_older):
            return snapshots, None
        self._has_older = False
        self.vclock = needed.copy()
        return snapshots, needed
