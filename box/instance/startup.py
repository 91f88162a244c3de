"""The start of an instance: from its own files, from another instance, or as the first of a new replica set.

```
a snapshot is there                      recover it and the log after it            -> follow
no snapshot, somebody else leads         JOIN: snapshot, then the rows since then   -> checkpoint, follow
no snapshot, nobody else, or we lead     bootstrap the system spaces                -> checkpoint
```

Until the journal is open, changes go to `StartupJournal`, which completes them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.instance.loader import SnapshotLoader, paused_collector, run_at_once
from box.journal.recovery import Recovery
from box.journal.snapshot import SnapshotReader
from box.replication.applier import Applier
from box.schema.bootstrap import bootstrap_rows
from box.schema.ids import is_system_id
from box.session import Context
from box.wire.change import decode_request
from box.wire.constants import DML_TYPES, SYNCHRO_TYPES, RequestType
from box.wire.entry import JournalEntry
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.instance.node import Instance


_PASSING_ERRORS = frozenset({ErrorCode.SYSTEM, ErrorCode.SYNC_QUORUM_TIMEOUT, ErrorCode.SYNC_ROLLBACK})
"""What ends a join halfway and may not come again: the connection was lost, or the master has undone the registration
because a synchronous transaction was part of it."""


class StartupJournal:
    """Takes the place of the journal during recovery, bootstrap and join: what it is given is on disk already, or
    will be in the first checkpoint."""

    is_void = False

    def __init__(self) -> None:
        self.vclock = VClock()

    def pass_row(self) -> None:
        raise AssertionError("not a void journal")

    def submit(self, entry: JournalEntry) -> None:
        for row in entry.rows:
            if row.lsn > self.vclock[row.replica_id]:
                self.vclock.follow(row.replica_id, row.lsn)
        entry.on_complete(entry)


class Startup:
    """One start of one node."""

    def __init__(self, node: Instance) -> None:
        self._node = node
        self._loader = SnapshotLoader(node)

    async def run(self) -> bool:
        """Start; True if this instance has just founded its replica set."""
        node = self._node
        node.checkpoints.lock()
        snapshot = node.checkpoints.scan()
        if snapshot is not None:
            await self._recover(snapshot.path, snapshot.vclock, snapshot.meta.instance_uuid)
            return False
        return await self._bootstrap()

    # -- recovery -------------------------------------------------------------------------------

    async def _recover(self, path: str, vclock: VClock, instance_uuid: UUID) -> None:
        node = self._node
        wanted = node.config["instance_uuid"]
        if wanted is not None and UUID(wanted) != instance_uuid:
            raise client_error(ErrorCode.INSTANCE_UUID_MISMATCH, wanted, str(instance_uuid))
        node.instance_uuid = instance_uuid
        node.log.info(f"instance uuid {instance_uuid}")
        force = bool(node.config["force_recovery"])
        recovery = Recovery(
            node.disk,
            node.checkpoints.wal_dir,
            vclock,
            instance_uuid=instance_uuid,
            force_recovery=force,
            log=node.log,
            errinj=node.errinj,
        )
        recovery.scan()
        node.log.info(f"instance vclock {recovery.end_vclock}")
        node.journal.vclock = recovery.end_vclock.copy()
        node.checkpoints.collector.vclock = recovery.gc_vclock.copy()
        await node.listen(node.config["listen"])
        await node.replication.sources.configure(is_bootstrap=False)
        master = self._rejoin_master()
        if master is not None:
            node.log.crit("replica is too old, initiating rebootstrap")
            await self._join(master)
            return
        self._read_snapshot(path, force)
        node.journal.vclock = vclock.copy()
        self._read_log(recovery, force)
        node.journal.vclock = recovery.vclock.copy()
        self._check_replicaset_uuid()
        self._finish(recovery.vclock)

    def _read_snapshot(self, path: str, force: bool) -> None:
        node = self._node
        node.log.info(f"recovering from `{path}'")
        snapshot = SnapshotReader(node.disk, path, force_recovery=force, log=node.log, errinj=node.errinj)
        with paused_collector(), snapshot as reader:
            # The peer's rule: what defines the spaces must be whole, of their tuples some may be lost.
            reader.skip_broken(False)
            for runs, others in reader.tuples():
                for run in runs:
                    self._loader.add_run(run, force=force)
                reader.skip_broken(force and bool(runs) and not is_system_id(runs[-1].space_id))
                for row in others:
                    node.log.verbose(f"skipping a row of type {row.type}")
            self._loader.finish()

    def _read_log(self, recovery: Recovery, force: bool) -> None:
        node = self._node
        ctx = node.new_context()
        for rows in recovery.transactions():
            try:
                apply_recovered(node, ctx, rows)
            except BoxError as error:
                if not force:
                    raise
                node.log.error(f"skipping row {{{rows[0].replica_id}: {rows[0].lsn}}}: {error.message}")

    def _check_replicaset_uuid(self) -> None:
        wanted = self._node.config["replicaset_uuid"]
        actual = self._node.replicaset_uuid
        if wanted is not None and UUID(wanted) != actual:
            raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, wanted, str(actual))

    def _rejoin_master(self) -> Applier | None:
        """The peer to join anew, if none has kept the rows that this instance lacks."""
        node = self._node
        best: Applier | None = None
        for applier in node.replicaset.appliers:
            if not applier.is_connected or applier.is_self:
                continue
            ballot = applier.ballot
            if node.vclock.covers(ballot.gc_vclock, ignore_zero=True):
                return None
            node.log.info(
                f"can't follow {applier.uuid} at {applier.address}: required {node.vclock} available {ballot.gc_vclock}"
            )
            if not ballot.vclock.covers(node.vclock, ignore_zero=True):
                node.log.info(
                    f"can't rebootstrap from {applier.uuid} at {applier.address}: "
                    f"replica has local rows: local {node.vclock} remote {ballot.vclock}"
                )
                continue
            if best is None or ballot.vclock.signature > best.ballot.vclock.signature:
                best = applier
        return best

    # -- bootstrap ------------------------------------------------------------------------------

    async def _bootstrap(self) -> bool:
        node = self._node
        wanted = node.config["instance_uuid"]
        node.instance_uuid = node.new_instance_uuid() if wanted is None else UUID(wanted)
        node.log.info(f"instance uuid {node.instance_uuid}")
        await node.listen(node.config["listen"])
        await node.replication.sources.configure(is_bootstrap=True)
        leader = node.replicaset.leader()
        if leader is not None and leader.uuid != node.instance_uuid and leader.applier is not None:
            await self._join(leader.applier)
            self._check_replicaset_uuid()
            return False
        await self._found()
        return True

    async def _found(self) -> None:
        """Make the system spaces of a new replica set, with this instance as its first member."""
        node = self._node
        if node.config["read_only"]:
            raise client_error(ErrorCode.BOOTSTRAP_READONLY)
        node.log.info("initializing an empty data directory")
        wanted = node.config["replicaset_uuid"]
        replicaset_uuid = node.random_uuid() if wanted is None else UUID(wanted)
        for space_id, raw in bootstrap_rows(node.instance_uuid, replicaset_uuid):
            self._loader.add(space_id, [raw])
        self._loader.finish()
        node.log.info(f"cluster uuid {node.replicaset_uuid}")
        self._finish(VClock())
        await node.checkpoints.make()

    async def _join(self, master: Applier) -> None:
        node = self._node
        node.schema.is_joining = True
        try:
            await node.replication.sources.bootstrap_from(master, self)
        except BoxError as error:
            node.is_join_undone = error.code in _PASSING_ERRORS
            raise
        finally:
            node.schema.is_joining = False
        self._finish(node.vclock)
        await node.checkpoints.make()

    def add_rows(self, rows: list[Row]) -> None:
        """Rows of the peer's snapshot."""
        self._loader.add_rows(rows)

    def finish(self, vclock: VClock) -> None:
        """The snapshot is complete, and was taken at `vclock`."""
        self._loader.finish()
        self._node.journal.vclock = vclock.copy()

    # -- the end of every way -------------------------------------------------------------------

    def _finish(self, vclock: VClock) -> None:
        node = self._node
        member = node.replicaset.by_uuid.get(node.instance_uuid)
        if not node.config["replication_anon"] and (member is None or not member.id):
            raise client_error(ErrorCode.UNKNOWN_REPLICA, str(node.instance_uuid), str(node.replicaset_uuid))
        node.set_instance_id(member.id if member is not None else 0)
        node.open_journal(vclock)


def apply_recovered(node: Instance, ctx: Context, rows: list[Row]) -> None:
    """One transaction of the log. Its changes are on disk, so it is complete at once, unless it waits in the limbo."""
    if rows[0].type in SYNCHRO_TYPES:
        node.synchro.recover(rows[0])
        return
    txn = node.txns.begin(ctx)
    try:
        for row in rows:
            if row.type == RequestType.NOP:
                node.dml.run_nop(ctx, row)
            elif row.type in DML_TYPES:
                request = decode_request(row)
                run_at_once(node.dml, ctx, node.schema.space(request.space_id), request)
    except BoxError:
        node.txns.rollback_open(ctx, txn)
        raise
    node.txns.commit_open(ctx, txn, waits=False)
