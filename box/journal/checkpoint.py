"""Checkpoints of a node: `box.snapshot()`, the daemon behind `checkpoint_interval`, backups, removal of old files.

    freeze the spaces -> finish the WAL file -> wait for synchronous transactions -> write -> rename -> remove the old

The freeze comes first, so that every row in the frozen spaces is in the WAL before the checkpoint's vclock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from math import fmod
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.iproto.row import Row
from box.journal.directory import LogDirectory, Logger, LogKind, SilentLog
from box.journal.gc import GarbageCollector
from box.journal.journal import Journal
from box.journal.snapshot import SnapshotSpace, SnapshotWriter
from box.journal.storage import Storage
from box.replication.vclock import VClock


class CheckpointSchedule:
    """When the next checkpoint is due: every `interval` seconds from a random start, so that nodes do not coincide."""

    __slots__ = ("_random", "_start", "interval")

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._start = 0.0
        self.interval = 0.0

    def configure(self, now: float, interval: float) -> None:
        """A new interval (0: never), or the same one with a new random offset."""
        self.interval = interval
        self._start = now + interval + (self._random.random() * interval if interval > 0 else 0)

    def reset(self, now: float) -> None:
        """A checkpoint was made out of turn."""
        self._start = now + self.interval

    def timeout(self, now: float) -> float | None:
        """Seconds until the next one; None for never."""
        if self.interval <= 0:
            return None
        if now < self._start:
            return self._start - now
        return self.interval - fmod(now - self._start, self.interval)


class Checkpoints:
    """Makes checkpoints and keeps the list of them (`gc`).

    `freeze` returns the spaces and the rows after them (raft state) as of now; `settle` waits until no synchronous
    transaction in the frozen data is undecided, and raises if one was rolled back (SYNC_ROLLBACK). `instance_uuid` has
    to be set before the first checkpoint, which a node makes when it bootstraps, before `start`. `rate_limit` is
    `snap_io_rate_limit` in bytes a second.
    """

    def __init__(
        self,
        journal: Journal,
        storage: Storage,
        *,
        directory: str,
        freeze: Callable[[], tuple[Sequence[SnapshotSpace], Sequence[Row]]],
        settle: Callable[[], Awaitable[None]] | None = None,
        source: random.Random | None = None,
        errinj: ErrorInjections | None = None,
        log: Logger | None = None,
    ) -> None:
        self.instance_uuid: UUID | None = None
        self.rate_limit = 0.0
        self._journal = journal
        self._storage = storage
        self._freeze = freeze
        self._settle = settle
        self._errinj = errinj or ErrorInjections()
        self._log = log or SilentLog()
        self._snapshots = LogDirectory(storage, directory, LogKind.SNAP, log=self._log)
        self._schedule = CheckpointSchedule(source or random.Random())
        self._daemon: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._requested = False
        self.gc = GarbageCollector(self._remove, log=self._log)
        journal.on_files_removed = self.gc.files_were_removed
        journal.on_checkpoint_threshold = self.request

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self, *, interval: float = 0, cleanup_delay: float = 0) -> None:
        """The node is up: list the snapshots there are, start removing old files and the daemon. Raises SystemError."""
        self._snapshots.force_recovery = True
        self._snapshots.scan()
        for file in self._snapshots.files:
            self.gc.add_checkpoint(file.vclock)
        self.gc.start(cleanup_delay)
        self._schedule.configure(self._now(), interval)
        self._daemon = asyncio.get_running_loop().create_task(self._run(), name="checkpoint_daemon")

    async def stop(self) -> None:
        """End the daemon; a checkpoint that it is making is given up."""
        if self._daemon is not None:
            self._daemon.cancel()
            await asyncio.wait([self._daemon])
            self._daemon = None
        await self.gc.stop()

    def set_interval(self, interval: float) -> None:
        """Change `checkpoint_interval`, in seconds; 0 switches the daemon off."""
        self._schedule.configure(self._now(), interval)
        self._changed.set()

    def request(self) -> None:
        """Make a checkpoint soon, in the background: the WAL has grown past its threshold."""
        if not (self.gc.checkpoint_is_in_progress or self._requested):
            self._requested = True
            self._schedule.reset(self._now())
            self._changed.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), self._schedule.timeout(self._now()))
                self._changed.clear()
                if not self._requested:
                    continue
            except TimeoutError:
                pass
            self._requested = False
            if self.gc.checkpoint_is_in_progress:
                continue
            try:
                await self._make()
            except BoxError as error:
                self._log.error(error.message)

    # --- making one ---------------------------------------------------------------------------------------------------

    async def make(self) -> VClock:
        """`box.snapshot()`: returns the checkpoint's vclock when it is on disk and older files are removed.

        Raises CHECKPOINT_IN_PROGRESS, CHECKPOINT_ROLLBACK, SystemError, and what `settle` raises.
        """
        if self.gc.checkpoint_is_in_progress:
            raise client_error(ErrorCode.CHECKPOINT_IN_PROGRESS)
        self._schedule.configure(self._now(), self._schedule.interval)
        self._changed.set()
        vclock = await self._make()
        if not self.gc.is_paused:
            await self.gc.wait()
        return vclock

    async def _make(self) -> VClock:
        self.gc.checkpoint_is_in_progress = True
        try:
            spaces, trailer = self._freeze()
            start = await self._journal.begin_checkpoint()
            if self._settle is not None:
                await self._settle()
            await self._write(start.vclock, spaces, trailer)
            await self._journal.commit_checkpoint(start)
            self.gc.add_checkpoint(start.vclock)
            return start.vclock
        finally:
            self.gc.checkpoint_is_in_progress = False

    async def _write(self, vclock: VClock, spaces: Sequence[SnapshotSpace], trailer: Sequence[Row]) -> None:
        assert self.instance_uuid is not None
        writer = SnapshotWriter(
            self._storage,
            self._snapshots.path,
            vclock,
            self.instance_uuid,
            rate_limit=self.rate_limit,
            errinj=self._errinj,
            log=self._log,
        )
        try:
            await self._journal.in_thread(writer.write, spaces, trailer)
            await self._errinj.wait_until_off("ERRINJ_SNAP_COMMIT_DELAY")
            await self._journal.in_thread(writer.commit)
        except BaseException:
            writer.abort()
            raise

    # --- old files ----------------------------------------------------------------------------------------------------

    async def _remove(self, snapshots_before: VClock | None, wal_before: VClock | None) -> None:
        if snapshots_before is not None:
            await self._journal.in_thread(self._remove_snapshots, snapshots_before.signature)
        if wal_before is not None:
            await self._journal.collect_garbage(wal_before)

    def _remove_snapshots(self, signature: int) -> None:
        self._snapshots.scan()
        self._snapshots.remove_before(signature)
        if not self.gc.checkpoint_is_in_progress:
            self._snapshots.remove_inprogress()

    def backup_start(self, index: int = 0) -> list[str]:
        """Hold a checkpoint (0: the newest) and return its files. Raises BACKUP_IN_PROGRESS, MISSING_SNAPSHOT."""
        return [self._snapshots.filename(self.gc.backup_start(index).signature)]

    def backup_stop(self) -> None:
        """The copy is made."""
        self.gc.backup_stop()
