"""Recovery of an instance: loads its own snapshot and log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from box.errors import BoxError, fiber_is_cancelled
from box.instance.instance_state import InstanceState
from box.instance.loader import ROWS_A_TURN, LogLoader, SnapshotLoader
from box.instance.resources import Resources
from box.instance.start_stages import Stage, StartStages
from box.journal.directory import LogFile
from box.journal.plain_runs import PlainRun
from box.journal.reader import LogReader
from box.journal.recovery import Recovery, group_transactions
from box.journal.snapshot import SnapshotReader
from box.long_work import LongWork
from box.schema.ids import SpaceId, is_system_id
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.tuple_run import TupleRun

_PROGRESS: Final = 100_000
"""The number of rows after which the log reports the progress, as in Tarantool."""
_TUPLES_A_TURN: Final = 512
"""The number of tuples that are loaded from a snapshot without giving way."""
_STANDBY_PAUSE: Final = 0.01
"""The pause between two checks of the other instance's log while it grows, in seconds."""
_LOCK_PAUSE: Final = 0.1
"""The pause between two attempts to take over, in seconds, as in Tarantool."""
_SYSTEM_ROWS_A_TURN: Final = 32
"""The number of rows of a system space that are loaded from a snapshot without giving way."""
_DEFINITIONS_A_TURN: Final = 8
"""The number of rows of `_space` and `_index` that are loaded without giving way; one may fill a whole index."""
_DEFINITIONS: Final = frozenset((SpaceId.SPACE, SpaceId.INDEX))


class LocalRecovery:
    """Loads one snapshot and the log after it, yielding to other tasks.

    With `force_recovery` broken parts are logged and skipped.
    """

    def __init__(
        self,
        resources: Resources,
        state: InstanceState,
        snapshot: LogFile,
        snapshot_loader: SnapshotLoader,
        log_loader: LogLoader,
        stages: StartStages,
    ) -> None:
        self._resources = resources
        self._state = state
        self._stages = stages
        self._snapshot = snapshot
        self._snapshot_loader = snapshot_loader
        self._log_loader = log_loader
        self._is_reading = False
        self._is_stopped = False
        self._since_turn = 0
        """The number of rows of the log that were executed since the last turn for other tasks."""
        self.is_standby = False
        """True while all that the running other instance has written so far has been read."""
        self.on_standby: Callable[[], None] | None = None
        """Called when it begins to follow the log of another running instance."""
        self._has_ended = asyncio.Event()
        self._is_forced = bool(resources.config["force_recovery"])
        self.log = Recovery(
            resources.disk,
            resources.paths.wal_dir,
            snapshot.vclock,
            instance_uuid=state.instance_uuid,
            force_recovery=self._is_forced,
            log=resources.log,
            errinj=resources.errinj,
        )

    def scan(self) -> None:
        """Find the files of the log. Until something is read, the state is at the log's end."""
        self.log.scan()
        self._resources.log.info(f"instance vclock {self.log.end_vclock}")
        self._state.move(self.log.end_vclock)

    async def read(self) -> None:
        """Read everything. Afterwards the state is at the end of what was read, which is durable if writes are synced.

        Raises:
            FiberIsCancelled: `stop` was called.
            BoxSystemError: a file cannot be read.
        """
        self._is_reading = True
        try:
            self._defer_indexes()
            await self._read_snapshot()
            self._state.move(self._snapshot.vclock)
            await self._stages.reach(Stage.SNAPSHOT_RECOVERED)
            await self._read_log()
            await self._log_loader.build_indexes(self._give_way)
            self._state.move(self.log.vclock)
            await self._make_durable()
            await self._stages.reach(Stage.INDEXES_BUILT, Stage.WAL_RECOVERED)
        finally:
            self._has_ended.set()

    async def stand_by(self, take_over: Callable[[], bool]) -> None:
        """Follow the log of another instance (hot standby) until `take_over` says that it has ended, then read the last
        rows.

        Rows that were read move the state at once. The open file is checked all the time; the directory every
        `wal_dir_rescan_delay` seconds, and when the file was closed in order.

        Raises:
            XlogError: a file is wrong.
            XlogGapError: rows are missing.
            FiberIsCancelled: `stop` was called.
            BoxError: a request fails.
        """
        self._is_reading = True
        try:
            self._defer_indexes()
            await self._read_snapshot()
            self._state.move(self._snapshot.vclock)
            await self._stages.reach(Stage.SNAPSHOT_RECOVERED)
            await self._follow(take_over)
            await self._make_durable()
            await self._stages.reach(Stage.INDEXES_BUILT, Stage.WAL_RECOVERED)
        finally:
            self._has_ended.set()

    def _defer_indexes(self) -> None:
        if not self._is_forced:  # then every row that cannot be applied is to be found
            self._log_loader.defer_indexes(self._resources.log)

    async def _make_durable(self) -> None:
        """Make rows durable that a killed process has written but not synced.

        They count from now on and others may get them, so a power failure must not remove them from the middle of the
        log. A slow disk delays only the start.
        """
        resources = self._resources
        if resources.config["wal_mode"].lower() != "fsync":
            return
        pool = resources.threads.pool(1, "sync")
        try:
            await resources.loop.run_in_executor(pool, self.log.sync)
        finally:
            pool.shutdown(wait=False)
        self._check_stopped()

    async def _follow(self, take_over: Callable[[], bool]) -> None:
        loop, log = self._resources.loop, self._resources.log
        reader = self.log.reader()
        next_scan = next_attempt = loop.time()
        try:
            while True:
                now = loop.time()
                # Once the lock is taken nobody else writes, so that the read that follows finds everything.
                is_last = now >= next_attempt and self.is_standby and take_over()
                next_attempt = max(next_attempt, now + _LOCK_PAUSE) if now >= next_attempt else next_attempt
                reader.looks_for_files = is_last or reader.is_at_end_of_file or now >= next_scan
                if reader.looks_for_files:
                    next_scan = now + float(self._resources.config["wal_dir_rescan_delay"])
                await self._read_new(reader)
                if is_last:
                    reader.finish()
                    self.is_standby = False
                    return
                if not self.is_standby:
                    await self._log_loader.build_indexes(self._give_way)  # as Tarantool does here
                    self.is_standby = True
                    if self.on_standby is not None:
                        self.on_standby()
                    log.info("Entering hot standby mode")
                await self._give_way(_LOCK_PAUSE if reader.is_at_end_of_file else _STANDBY_PAUSE)
                reader.reopen()
        finally:
            reader.close()

    async def _read_new(self, reader: LogReader) -> None:
        """Read everything that is there now. A transaction is always written whole, in one block."""
        while (parts := reader.next_parts()) is not None:
            for part in parts:
                for item in [part] if isinstance(part, PlainRun) else group_transactions(part):
                    await self._add_part(item)
            self._state.move(reader.vclock)
            await self._give_way()

    async def stop(self) -> None:
        """Cancel `read` and wait for its end."""
        self._is_stopped = True
        if self._is_reading:
            await self._has_ended.wait()

    async def _give_way(self, seconds: float = 0.0) -> None:
        """Yield to the loop: signals are handled, and clients learn that this instance is loading."""
        await asyncio.sleep(seconds)
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self._is_stopped:
            raise fiber_is_cancelled()

    def _tell_progress(self, before: int, count: int) -> None:
        if before // _PROGRESS != count // _PROGRESS:
            self._resources.log.info(f"{count // _PROGRESS * _PROGRESS / 1e6:.1f}M rows processed")

    async def _read_snapshot(self) -> None:
        resources, loader, force = self._resources, self._snapshot_loader, self._is_forced
        path = self._snapshot.path
        resources.log.info("recovery start")
        resources.log.info(f"recovering from `{path}'")
        snapshot = SnapshotReader(
            resources.disk, path, force_recovery=force, log=resources.log, errinj=resources.errinj
        )
        count, progress, size = 0, resources.progress, 1
        # The size serves only to show the progress, and a file that cannot be read raises its own error.
        with suppress(OSError):
            size = max(1, resources.disk.size(path))
        with snapshot as reader, progress.work("recovery", share=lambda: snapshot.position / size) as work:
            # As in Tarantool, system spaces must be complete, while `force_recovery` may lose tuples of other spaces.
            reader.skip_broken(False)
            for found in reader.tuples_in_steps():
                if found is None:
                    await self._give_way()
                    continue
                runs, others = found
                for run in runs:
                    for part in _parts(run):
                        loader.add_run(part, force=force)
                        work.rows += len(part.tuples)
                        await self._give_way()
                reader.skip_broken(force and bool(runs) and not is_system_id(runs[-1].space_id))
                for row in others:
                    if row.type in (RequestType.RAFT, RequestType.PROMOTE):
                        self._log_loader.add_state(row)
                    else:
                        resources.log.verbose(f"skipping a row of type {row.type}")
                before, count = count, work.rows
                self._tell_progress(before, count)
            work.share = None
            for _ in loader.finishing(self._log_loader.leave_out):
                await self._give_way()

    async def _read_log(self) -> None:
        total = self.log.end_vclock.signature - self.log.vclock.signature
        with self._resources.progress.work("recovery of the log", total) as work:
            await self._execute_log(work)

    async def _execute_log(self, work: LongWork) -> None:
        for part in self.log.parts():
            await self._add_part(part, work)

    async def _add_part(self, part: PlainRun | list[Row], work: LongWork | None = None) -> None:
        """Execute a run of plain transactions, or the rows of another transaction."""
        done = 0
        while done < len(part):
            before = done
            if isinstance(part, PlainRun):
                done = self._log_loader.add_run(part, before)
            if done == before:
                rows = part.transaction(before) if isinstance(part, PlainRun) else part
                await self._add(rows)
                done += len(rows)
            if work is not None:
                work.rows += done - before
                self._tell_progress(work.rows - (done - before), work.rows)
            self._since_turn += done - before
            if self._since_turn >= ROWS_A_TURN:
                self._since_turn = 0
                await self._give_way()

    async def _add(self, rows: list[Row]) -> None:
        try:
            await self._log_loader.add(rows, self._give_way)
        except BoxError as error:
            if not self._is_forced:
                raise
            where = f"{{{rows[0].replica_id}: {rows[0].lsn}}}"
            self._resources.log.error(f"skipping row {where}: {error.message}")


def _parts(run: TupleRun) -> Iterator[TupleRun]:
    """Split a run into pieces of about a millisecond; rows of system spaces define something and take longer."""
    if run.space_id in _DEFINITIONS:
        step = _DEFINITIONS_A_TURN
    else:
        step = _SYSTEM_ROWS_A_TURN if is_system_id(run.space_id) else _TUPLES_A_TURN
    for start in range(0, len(run.tuples), step):
        yield run._replace(tuples=run.tuples[start : start + step])
