"""Checkpoints: snapshots of all data at one vclock. Decides when they are made and what they let the collector remove.

```
box.snapshot(), checkpoint_interval, checkpoint_wal_threshold
    ->  views of all spaces and the end of the current log file, without a switch in between
    ->  wait until the limbo has decided about what the views show
    ->  a thread writes the snapshot   ->  rename   ->  older snapshots and logs may go
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from box.errors import BoxError, ErrorCode, client_error, system_error
from box.index.view import ListView, TupleView
from box.instance.checkpoint_daemon import CheckpointDaemon
from box.instance.instance_state import InstanceState
from box.instance.resources import Resources
from box.instance.view_in_thread import ViewInThread
from box.journal.directory import LogDirectory, LogFile, LogKind
from box.journal.gc import Consumer, GarbageCollector
from box.journal.snapshot import SnapshotSpace, SnapshotWriter
from box.schema.ids import SpaceId
from box.schema.newer import is_newer
from box.txn.open_definitions import open_when_possible
from box.wire.messages import Claim, Promotions, RaftRequest, owner_row, raft_row
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.journal.journal import Journal
    from box.journal.storage import DirectoryLock
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.synchro import LimboDriver


_NO_ELECTIONS: Final = RaftRequest(1)


class _KnownPromotions(NamedTuple):
    """The promotions that a snapshot stores; `void` lists origin and lsn of those that had no effect, `log_term` and
    `claim` are the log's (`RaftRequest`), `owner` is the row that Tarantool 2.10 and later has in snapshots."""

    kept: Promotions | None
    void: tuple[tuple[int, int], ...]
    log_term: int
    claim: Claim | None
    owner: Row | None


class Checkpoints:
    """The snapshots of one instance, its garbage collector and the lock of its log directory."""

    def __init__(
        self,
        resources: Resources,
        state: InstanceState,
        schema: Schema,
        synchro: LimboDriver,
    ) -> None:
        self._loop = resources.loop
        self._disk = resources.disk
        self._threads = resources.threads
        self._paths = resources.paths
        self._config = resources.config
        self._log = resources.log
        self._errinj = resources.errinj
        self._progress = resources.progress
        self._state = state
        self._schema = schema
        self._synchro = synchro
        self._open_journal: Journal | None = None
        self.election_state: Callable[[], RaftRequest] = lambda: _NO_ELECTIONS
        """Returns the term and the vote of elections, which a snapshot stores."""
        self.collector = GarbageCollector(self._remove, log=resources.log.of_fiber("gc"))
        self._lock: DirectoryLock | None = None
        self._directory: LogDirectory | None = None
        self._writer: SnapshotWriter | None = None
        self._views: list[tuple[Space, ViewInThread]] = []
        """The views of the snapshot that is being written, with their spaces."""
        self._daemon = CheckpointDaemon(resources, self.make)
        self._is_stopped = False

    @property
    def _journal(self) -> Journal:
        assert self._open_journal is not None, "checkpoints are made of a log that is open"
        return self._open_journal

    def use_journal(self, journal: Journal) -> None:
        """Use the journal from now on; it has just been opened."""
        self._open_journal = journal

    # -- directories ----------------------------------------------------------------------------

    def try_lock(self) -> bool:
        """Lock the log directory for this instance. Returns False if another one has it.

        Raises:
            BoxSystemError: the directory is missing.
        """
        if self._lock is None:
            try:
                self._lock = self._disk.lock(self._paths.wal_dir)
            except OSError as error:
                raise system_error(f"Can't open path: {self._config['wal_dir']}", error.errno or 0) from error
        return self._lock is not None

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def scan(self) -> LogFile | None:
        """Find the snapshots of the directory and return the newest.

        Leftovers of interrupted writers are removed, unless another instance has the directory.
        """
        self._directory = LogDirectory(
            self._disk,
            self._paths.memtx_dir,
            LogKind.SNAP,
            force_recovery=self._config["force_recovery"],
            log=self._log,
        )
        self._directory.scan()
        if self._lock is not None:
            self._directory.remove_inprogress()
        self.collector.checkpoint_count = self._config["checkpoint_count"]
        for file in self._directory.files:
            self.collector.add_checkpoint(file.vclock)
        return self._directory.files[-1] if self._directory.files else None

    # -- making one -----------------------------------------------------------------------------

    async def make_now(self) -> None:
        """Write a snapshot because a user wants one; those of the daemon are rescheduled. Raises as `make` does."""
        if not self.collector.checkpoint_is_in_progress:
            self._daemon.reschedule()
        await self.make()

    async def make(self) -> None:
        """Write a snapshot.

        Raises:
            ClientError: CHECKPOINT_IN_PROGRESS or CHECKPOINT_ROLLBACK.
            TransactionError: SYNC_ROLLBACK.
            BoxSystemError: the disk refuses.
        """
        collector = self.collector
        if collector.checkpoint_is_in_progress:
            raise client_error(ErrorCode.CHECKPOINT_IN_PROGRESS)
        collector.checkpoint_is_in_progress = True
        try:
            await self._make()
        finally:
            collector.checkpoint_is_in_progress = False

    async def _make(self) -> None:
        self._views = views = await open_when_possible(self._open_views)
        try:
            await self._write([SnapshotSpace(space.id, view, space.definition.opts.group_id) for space, view in views])
        except BoxError as error:
            if self._is_stopped and error.code == ErrorCode.SYSTEM:
                raise client_error(ErrorCode.WAL_IO) from error
            raise
        finally:
            self._close_views()

    def _open_views(self) -> list[tuple[Space, ViewInThread]]:
        return [(space, ViewInThread(self._loop, self.view_of(space))) for space in self._schema.snapshot_spaces()]

    async def _write(self, spaces: list[SnapshotSpace]) -> None:
        """Write the views to a snapshot. They were opened without a task switch before, so the end of the log belongs
        to them.
        """
        rollback_count = self._synchro.limbo.rollback_count
        known: list[_KnownPromotions] = []
        # Read at the checkpoint itself and not later: the log repeats promotions behind it, and recovery would take
        # them for known.
        start = await self._journal.begin_checkpoint(lambda: known.append(self._known_promotions()))
        if self._synchro.limbo.rollback_count != rollback_count:
            # The views contain changes that were rolled back meanwhile, and the row that says so comes after the
            # checkpoint.
            raise client_error(ErrorCode.SYNC_ROLLBACK)
        await self._synchro.wait_confirm()
        self._writer = writer = SnapshotWriter(
            self._disk,
            self._paths.memtx_dir,
            start.vclock,
            self._state.instance_uuid,
            rate_limit=max(self._config["snap_io_rate_limit"] or 0, 0) * 1024 * 1024,
            log=self._log.of_cord("snapshot/101/main"),
            sleep=self._threads.sleep,
        )
        total = sum(len(space.primary) for space, _ in self._views if space.primary is not None)
        try:
            with self._progress.work("snapshot", total, rows=lambda: writer.row_count):
                await self._inject_write(writer)
                await self._journal.in_thread(writer.write, spaces, self._trailer(*known))
            await self._inject_commit()
            await self._journal.in_thread(writer.commit)
        except BaseException:
            writer.abort()
            raise
        finally:
            self._writer = None
        await self._journal.commit_checkpoint(start)
        self.collector.add_checkpoint(start.vclock)
        if not self.collector.is_paused:
            await self.collector.wait()

    def _close_views(self) -> None:
        for _, view in self._views:
            view.close()
        self._views = []

    def _known_promotions(self) -> _KnownPromotions:
        record, limbo = self._synchro.promotions, self._synchro.limbo
        log_term, claim = record.log_term, record.open_claim
        owner = None
        if limbo.greatest_term and is_newer(self._schema):
            owner = owner_row(limbo.owner_id, limbo.confirmed_lsn, limbo.greatest_term)
            owner.replica_id = 0  # rows of snapshots have none
        # Unset is on, and yet stays out of `box.cfg`, where Tarantool has no such key.
        if self._config["replication_keep_promotions"] is False:
            return _KnownPromotions(None, (), log_term, claim, owner)
        return _KnownPromotions(record.kept(), record.void_promotions.known, log_term, claim, owner)

    def _trailer(self, known: _KnownPromotions) -> list[Row]:
        """Return the rows after all tuples: the raft state. There are none if no instance was ever elected or promoted,
        because older instances do not know such rows. In a directory of Tarantool 2.10 or later the limbo's owner
        follows.

        Term and vote may be later than the checkpoint: they are valid even if the log after it is lost.
        """
        state = self.election_state()
        owner = () if known.owner is None else (known.owner,)
        if state == _NO_ELECTIONS and known.kept is None:
            return [*owner]
        state = replace(state, void_promotions=known.void, log_term=known.log_term, claim=known.claim)
        return [raft_row(state, known.kept), *owner]

    def view_of(self, space: Space) -> TupleView:
        """Open a view of all tuples of a space. The values of sequences are written to their space only here."""
        if space.id == SpaceId.SEQUENCE_DATA:
            return ListView(self._schema.sequence_data())
        return space.engine.open_view(space)

    async def _inject_write(self, writer: SnapshotWriter) -> None:
        """Create the file and wait while ERRINJ_SNAP_WRITE_DELAY is on."""
        if self._errinj.values["ERRINJ_SNAP_WRITE_DELAY"]:
            await self._journal.in_thread(writer.begin)
            await self._errinj.wait_until_off("ERRINJ_SNAP_WRITE_DELAY", unless=lambda: self._is_stopped)
            if self._is_stopped:
                raise client_error(ErrorCode.WAL_IO)

    async def _inject_commit(self) -> None:
        values = self._errinj.values
        if values["ERRINJ_SNAP_COMMIT_FAIL"]:
            raise client_error(ErrorCode.INJECTION, "snapshot commit")
        if values["ERRINJ_SNAP_COMMIT_DELAY"]:
            await self._errinj.wait_until_off("ERRINJ_SNAP_COMMIT_DELAY")

    # -- garbage --------------------------------------------------------------------------------

    @property
    def gc_vclock(self) -> VClock:
        """The oldest position from which a replica can be served."""
        return self.collector.vclock

    def register_consumer(self, name: str, vclock: VClock) -> Consumer:
        """Register a replica as a consumer, so that the rows after `vclock` are kept."""
        return self.collector.register_consumer(name, vclock)

    async def _remove(self, snapshots: VClock | None, rows: VClock | None) -> None:
        if snapshots is not None and self._directory is not None:
            directory = self._directory
            directory.scan()
            await self._journal.in_thread(directory.remove_before, snapshots.signature, self._log.of_cord("main"))
        if rows is not None:
            await self._journal.collect_garbage(rows)

    def set_count(self, count: int) -> None:
        """Set `checkpoint_count`. As in Tarantool, files are removed at the next checkpoint or other reason to look."""
        self.collector.checkpoint_count = count

    # -- backup ---------------------------------------------------------------------------------

    def backup_start(self, index: int = 0) -> list[str]:
        """Keep a snapshot for a backup: the newest for `index` 0, the one before for 1. Returns its files.

        Raises:
            ClientError: BACKUP_IN_PROGRESS, or MISSING_SNAPSHOT.
        """
        if self._directory is None:
            raise client_error(ErrorCode.MISSING_SNAPSHOT)
        vclock = self.collector.backup_start(index)
        name = self._directory.filename(vclock.signature).rpartition("/")[2]
        return [self._paths.named("memtx_dir", name)]

    def backup_stop(self) -> None:
        self.collector.backup_stop()

    # -- the daemon -----------------------------------------------------------------------------

    def start(self) -> None:
        """Collect garbage and make checkpoints from now on, because the node has started."""
        self._journal.on_checkpoint_threshold = self._daemon.request
        self._journal.on_files_removed = self.collector.files_were_removed
        self.set_threshold(self._config["checkpoint_wal_threshold"])
        self.collector.start(0 if self._config["replication_anon"] else self._config["wal_cleanup_delay"])
        self._daemon.start()

    def set_threshold(self, size: float) -> None:
        """Set `checkpoint_wal_threshold`: a checkpoint is made after that many bytes of the log."""
        self._journal.checkpoint_threshold = int(max(-(2.0**63), min(size, 2.0**63)))  # infinity has no integer

    def reschedule(self) -> None:
        """Begin a new `checkpoint_interval`. A running checkpoint continues."""
        self._daemon.reschedule()

    async def stop(self) -> None:
        """Cancel a running checkpoint and make no more."""
        if self._writer is not None:
            self._writer.abort()
        self._is_stopped = True
        self._errinj.wake()
        self._close_views()
        await self._daemon.stop()
        await self.collector.stop()
