"""The start of an instance: from its own files, from another instance, or as the first of a new replica set.

```
there is a snapshot                      recover it and the log after it            -> follow
a snapshot, another instance runs on it  hot standby: follow its log to its end     -> follow
no snapshot, another instance leads      JOIN: snapshot, then the rows since then   -> checkpoint, follow
no snapshot, no other leader             bootstrap the system spaces                -> checkpoint
```

Until the log is open, changes go to `box.instance.journal_opening.StartupJournal`, which completes them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.instance.checkpoint import Checkpoints
from box.instance.instance_state import InstanceState
from box.instance.journal_opening import JournalOpening
from box.instance.loader import LogLoader, SnapshotLoader
from box.instance.local_recovery import LocalRecovery
from box.instance.resources import Resources
from box.instance.start_stages import Stage, StartStages
from box.journal.directory import LogFile
from box.long_work import LongWork
from box.replication.applier import Applier
from box.replication.setup import Replication
from box.schema.bootstrap import bootstrap_runs
from box.wire.row import Row
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

_PASSING_ERRORS = frozenset({ErrorCode.SYSTEM, ErrorCode.SYNC_QUORUM_TIMEOUT, ErrorCode.SYNC_ROLLBACK})
"""The errors of a join that may not occur again: the connection was lost, or the master has rolled back the
registration because it depended on a synchronous transaction."""

_ROWS_A_TURN = 8
"""The number of rows of system spaces that a bootstrap executes without giving way, which takes 1 to 4 milliseconds."""


def _nothing() -> None:
    pass


class Startup:
    """The start of an instance.

    `listen` serves the binary protocol at the address `box.cfg.listen`; `first_uuid` is the UUID of an instance without
    files.
    """

    def __init__(
        self,
        resources: Resources,
        state: InstanceState,
        snapshot_loader: SnapshotLoader,
        log_loader: LogLoader,
        checkpoints: Checkpoints,
        replication: Replication,
        journal: JournalOpening,
        listen: Callable[[str | None], Awaitable[None]],
        first_uuid: UUID,
        stages: StartStages,
    ) -> None:
        self._resources = resources
        self._stages = stages
        self._config = resources.config
        self._log = resources.log
        self._state = state
        self._loader = snapshot_loader
        self._log_loader = log_loader
        self._checkpoints = checkpoints
        self._replication = replication
        self._replicaset = replication.replicaset
        self._sources = replication.sources
        self._journal = journal
        self._listen = listen
        self._first_uuid = first_uuid
        self._recovery: LocalRecovery | None = None
        state.on_replicaset_uuid = self._log_replicaset_uuid
        self._joining: LongWork | None = None
        self.on_standby: Callable[[], None] = _nothing
        """Called when the instance begins to follow the log of another running one."""
        self.is_join_undone = False
        """True if the start failed during a join for a temporary reason, so that another one may begin."""

    async def run(self) -> bool:
        """Start. Returns True if this instance has just founded its replica set."""
        is_alone = self._checkpoints.try_lock()
        snapshot = self._checkpoints.scan()
        if not is_alone and (snapshot is None or not self._config["hot_standby"]):
            raise client_error(ErrorCode.ALREADY_RUNNING, self._config["wal_dir"])
        if snapshot is not None:
            await (self._recover(snapshot) if is_alone else self._stand_by(snapshot))
            return False
        return await self._bootstrap()

    def _log_replicaset_uuid(self, uuid: UUID) -> None:
        self._log.info(f"cluster uuid {uuid}")

    @property
    def is_standby(self) -> bool:
        """True while the instance follows the log of another running one."""
        return self._recovery is not None and self._recovery.is_standby

    async def stop(self) -> None:
        """Cancel a recovery, which then raises FiberIsCancelled."""
        if self._recovery is not None:
            await self._recovery.stop()

    # -- recovery -------------------------------------------------------------------------------

    def _begin_recovery(self, snapshot: LogFile) -> LocalRecovery:
        uuid = snapshot.meta.instance_uuid
        wanted = self._config["instance_uuid"]
        if wanted is not None and UUID(wanted) != uuid:
            raise client_error(ErrorCode.INSTANCE_UUID_MISMATCH, wanted, str(uuid))
        self._set_instance_uuid(uuid)
        recovery = LocalRecovery(self._resources, self._state, snapshot, self._loader, self._log_loader, self._stages)
        self._recovery = recovery
        recovery.scan()
        self._checkpoints.collector.vclock = recovery.log.gc_vclock.copy()
        return recovery

    async def _stand_by(self, snapshot: LogFile) -> None:
        """Follow another instance's log until it ends. Meanwhile no client is served and no source followed."""
        recovery = self._begin_recovery(snapshot)
        recovery.on_standby = self.on_standby
        await recovery.stand_by(self._checkpoints.try_lock)
        # Files may have been created and removed while this instance stood by.
        self._checkpoints.scan()
        lacks_rows = recovery.log.lacks_rows
        recovery.log.scan()
        self._checkpoints.collector.vclock = recovery.log.gc_vclock.copy()
        await self._listen(self._config["listen"])
        await self._sources.configure(is_bootstrap=False)
        self._check_replicaset_uuid()
        self._finish(is_new=False, begins_anew=lacks_rows)

    async def _recover(self, snapshot: LogFile) -> None:
        recovery = self._begin_recovery(snapshot)
        # Before anything is read, because instances that start together wait for each other's ballots.
        await self._listen(self._config["listen"])
        await self._sources.configure(is_bootstrap=False)
        master = self._rejoin_master()
        if master is not None:
            self._log.crit("replica is too old, initiating rebootstrap")
            await self._join(master)
            return
        await recovery.read()
        self._check_replicaset_uuid()
        self._finish(is_new=False, begins_anew=recovery.log.lacks_rows)

    def _set_instance_uuid(self, uuid: UUID) -> None:
        self._state.instance_uuid = uuid
        self._log.info(f"instance uuid {uuid}")

    def _check_replicaset_uuid(self) -> None:
        wanted = self._config["replicaset_uuid"]
        actual = self._state.replicaset_uuid
        if wanted is not None and UUID(wanted) != actual:
            raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, wanted, str(actual))

    def _rejoin_master(self) -> Applier | None:
        """Return the master to join anew if no source has kept the rows that this instance lacks, otherwise None."""
        vclock = self._state.vclock
        best: Applier | None = None
        for applier in self._replicaset.appliers:
            if not applier.is_connected or applier.is_self:
                continue
            ballot = applier.ballot
            if vclock.covers(ballot.gc_vclock, ignore_zero=True):
                return None
            self._log.info(
                f"can't follow {applier.uuid} at {applier.address}: required {vclock} available {ballot.gc_vclock}"
            )
            # The comparison includes component 0, the rows of local spaces, which no other instance has.
            if not ballot.vclock.covers(vclock):
                self._log.info(
                    f"can't rebootstrap from {applier.uuid} at {applier.address}: "
                    f"replica has local rows: local {vclock} remote {ballot.vclock}"
                )
                continue
            if best is None or ballot.vclock.signature > best.ballot.vclock.signature:
                best = applier
        return best

    # -- bootstrap ------------------------------------------------------------------------------

    async def _bootstrap(self) -> bool:
        wanted = self._config["instance_uuid"]
        self._set_instance_uuid(self._first_uuid if wanted is None else UUID(wanted))
        await self._listen(self._config["listen"])
        await self._sources.configure(is_bootstrap=True)
        leader = self._replicaset.leader()
        if leader is not None and leader.uuid != self._state.instance_uuid and leader.applier is not None:
            await self._join(leader.applier)
            self._check_replicaset_uuid()
            return False
        await self._found()
        return True

    async def _found(self) -> None:
        """Make the system spaces of a new replica set, with this instance as its first member."""
        if self._config["read_only"]:
            raise client_error(ErrorCode.BOOTSTRAP_READONLY)
        self._log.info("initializing an empty data directory")
        wanted = self._config["replicaset_uuid"]
        replicaset_uuid = self._resources.random_uuid() if wanted is None else UUID(wanted)
        self._state.on_replicaset_uuid = None  # a founder logs it when it has registered
        for space_id, tuples in bootstrap_runs(self._state.instance_uuid, replicaset_uuid):
            for start in range(0, len(tuples), _ROWS_A_TURN):
                await asyncio.sleep(0)
                self._loader.add(space_id, tuples[start : start + _ROWS_A_TURN])
        await self._loader.finish()
        self._log.info(f"cluster uuid {self._state.replicaset_uuid}")
        self._finish(is_new=True)
        await self._checkpoints.make()
        await self._stages.reach(Stage.INDEXES_BUILT, Stage.SNAPSHOT_RECOVERED, Stage.WAL_RECOVERED)

    async def _join(self, master: Applier) -> None:
        try:
            await self._stages.reach(Stage.INDEXES_BUILT)
            with self._loader.joining(), self._resources.progress.work("bootstrap") as self._joining:
                await self._sources.bootstrap_from(master, self)
                await self._replication.give_back_undecided()
        except BoxError as error:
            self.is_join_undone = error.code in _PASSING_ERRORS or _is_leaderless(master, error)
            raise
        self._finish(is_new=True)
        await self._checkpoints.make()
        await self._stages.reach(Stage.WAL_RECOVERED)

    def add_rows(self, rows: list[Row]) -> None:
        """Add rows of the master's snapshot."""
        self._loader.add_rows(rows)
        if self._joining is not None:
            self._joining.rows += len(rows)

    def add_tuples(self, run: TupleRun) -> None:
        """Add a run of tuples of the master's snapshot."""
        self._loader.add_run(run)
        if self._joining is not None:
            self._joining.rows += len(run.tuples)

    async def finish(self, vclock: VClock) -> None:
        """Finish the load of the master's snapshot, which was taken at `vclock`."""
        await self._loader.finish()
        self._state.move(vclock)
        await self._stages.reach(Stage.SNAPSHOT_RECOVERED)

    # -- the end of every way -------------------------------------------------------------------

    def _finish(self, *, is_new: bool, begins_anew: bool = True) -> None:
        """Finish the start and open the log.

        `begins_anew`: there are no log files, or they end before the state.
        """
        state = self._state
        if begins_anew and self._recovery is not None:
            self._checkpoints.collector.begin_anew(state.vclock)
        member = self._replicaset.by_uuid.get(state.instance_uuid)
        if not self._config["replication_anon"] and (member is None or not member.id):
            raise client_error(ErrorCode.UNKNOWN_REPLICA, str(state.instance_uuid), str(state.replicaset_uuid))
        state.set_instance_id(member.id if member is not None else 0)
        self._journal.open(is_provisional=is_new, begins_anew=begins_anew)


def _is_leaderless(master: Applier, error: BoxError) -> bool:
    """Return whether a master that may write has no leader now: its replica set is still electing one."""
    return error.code == ErrorCode.READONLY and not master.ballot.is_ro
