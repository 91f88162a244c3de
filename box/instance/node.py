"""One instance: owns every subsystem and its life cycle. Lua, consoles and servers are built on top of it.

```
status         what happened                                            takes changes
unconfigured   constructed                                              no
loading        `configure` was called: recovery, bootstrap or join      no
running        started, or `replication` changed: getting in sync       no
running        in sync with a quorum of its peers                       unless read_only or the limbo is foreign
orphan         could not get in sync                                    no
```

A node takes its loop, clock, random source and disk as arguments and keeps no module-level state, so that a process
may hold many and a test may replace each. Everything here runs on the loop's thread (the tx thread).
"""

from __future__ import annotations

import asyncio
import os
import random as random_module
import time
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error, system_error
from box.instance.checkpoint import Checkpoints
from box.instance.config import OPTIONS, Config
from box.instance.mode import AccessMode, ReadOnlyReason
from box.instance.pidfile import PidFile
from box.instance.privileges import become
from box.instance.quorum import synchro_quorum
from box.instance.reconfigure import Reconfiguration
from box.instance.startup import Startup, StartupJournal
from box.iproto.interface import FunctionsLike
from box.iproto.server import IprotoServer
from box.iproto.stats import Stats
from box.journal.journal import Journal
from box.journal.round import Round
from box.journal.storage import FileStorage, MemoryStorage, Storage
from box.log import BARE, Level, Log, log_level
from box.replication.replicaset import ReplicaSet
from box.replication.setup import Replication
from box.schema.schema import Schema
from box.schema.system import initial_schema
from box.schema.upgrade import SchemaUpgrade, needs_upgrade, version_text
from box.session import Context, Sessions
from box.txn.dml import Dml
from box.txn.lifecycle import TransactionManager
from box.txn.limbo import Limbo
from box.txn.mvcc import MvccStorage
from box.txn.storage import TupleStorage
from box.txn.synchro import LimboDriver
from box.waiters import Waiters
from box.wire.vclock import VClock

_NIL_UUID = UUID(int=0)

PACKAGE_VERSION = "2.8.1-0-g0000000"
"""What `box.info.version` and the log tell: the peer's version that this node behaves like."""

INLINE_WRITES: Final = 1000
"""A batch of up to this many transactions is written by the tx thread itself while the WAL thread is idle: waking
that thread costs several times the write."""


class Instance:
    """See the module's text.

    `directory` is where relative paths of the configuration lead; None makes a node that lives in memory. `disk`
    replaces both. `clock` gives seconds since the epoch, `random` the bytes for UUIDs and salts.
    """

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.time,
        random: random_module.Random | None = None,
        disk: Storage | None = None,
    ) -> None:
        self.loop = loop or asyncio.get_running_loop()
        self.clock = clock
        self.random = random or random_module.SystemRandom()
        self.directory = None if directory is None else Path(fspath(directory)).absolute()
        self.disk: Storage = disk or self._default_disk()
        self.log = Log(clock)
        self.log.format = BARE
        self.config = Config()
        self.errinj = ErrorInjections()
        self.errinj.on_change("ERRINJ_TUPLE_ALLOC", lambda is_on: self.dml.set_memory(not is_on))
        self.sessions = Sessions()
        self.stats = Stats()
        self.is_configured = False
        self.is_loading = False
        self.is_closed = False
        self.functions: FunctionsLike | None = None
        """Who runs CALL, EVAL and stored functions: set by the Lua runtime's owner."""
        self.on_schema_init: list[Callable[[], None]] = []
        """Called when a start begins, with a new and empty schema."""
        self.is_join_undone = False
        """The last start failed while it joined somebody, for a reason that passes: it may begin anew."""
        self.on_shutdown: list[Callable[[], Any]] = []
        self.mode_changes = Waiters()
        """Woken whenever the instance may have become writable or read-only."""
        self._pid_file: PidFile | None = None
        self._first_uuid: UUID | None = None
        self._make_parts()
        self._reconfiguration = Reconfiguration(self)

    def _make_parts(self) -> None:
        """Everything that a start fills, and that a failed start leaves unusable."""
        self.schema: Schema = initial_schema()
        self.schema.errinj = self.errinj
        self.limbo = Limbo()
        self.mode = AccessMode(self.limbo, self._mode_changed)
        self.instance_uuid = _NIL_UUID
        self.replicaset_uuid = _NIL_UUID
        self.instance_id = 0
        self._startup_journal = StartupJournal()
        self.round = Round()
        """Set by whoever runs fibers on this node."""
        self.journal: Any = self._startup_journal
        """The Journal; until the node has started, what has only the methods that a start needs."""
        self.checkpoints = Checkpoints(self)
        self._build(TupleStorage())
        self._watch_schema()
        self.iproto: IprotoServer | None = None

    def _default_disk(self) -> Storage:
        return MemoryStorage() if self.directory is None else FileStorage(str(self.directory))

    def _build(self, tuples: TupleStorage) -> None:
        """Transactions over plain or versioned tuples: known only when `memtx_use_mvcc_engine` is."""
        self.tuples = tuples
        self.synchro = LimboDriver(self.limbo, self._startup_journal, self.loop)
        self.txns = TransactionManager(self._startup_journal, tuples, self.synchro, self.loop)
        self.dml = Dml(self.schema, self.txns, check_writable=self.mode.check_writable)
        self.dml.is_read_only = self.mode.is_held
        self.dml.set_memory(not self.errinj.values["ERRINJ_TUPLE_ALLOC"])
        self.synchro.on_change = self.mode.look_again
        self.synchro.on_write_error = self._log_synchro_failure
        self.replication = Replication(
            self.loop,
            self,
            self.config,
            schema=self.schema,
            txns=self.txns,
            dml=self.dml,
            synchro=self.synchro,
            sessions=self.sessions,
            collector=self.checkpoints.collector,
            tuples_of=self.checkpoints.tuples_of,
            clock=self.clock,
            log=self.log,
            errinj=self.errinj,
        )

    def _watch_schema(self) -> None:
        self.schema.on_replicaset_uuid.append(self._set_replicaset_uuid)
        self.schema.on_cluster_change.append(self._on_cluster_change)

    def _set_replicaset_uuid(self, uuid: UUID) -> None:
        self.replicaset_uuid = uuid

    def _on_cluster_change(self, replica_id: int, uuid: UUID, is_registered: bool) -> None:
        self.replication.on_cluster_change(replica_id, uuid, is_registered)
        if is_registered:
            self.log.info(f"assigned id {replica_id} to replica {uuid}")
        if uuid == self.instance_uuid:
            self.set_instance_id(replica_id if is_registered else 0)
        self.update_synchro_quorum()

    def _log_synchro_failure(self, error: BoxError) -> None:
        self.log.error(f"could not write a synchronous request to the log: {error.message}")

    # -- questions ------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """See the module's text."""
        if self.is_configured:
            return "orphan" if self.replication.sources.is_out_of_sync else "running"
        return "loading" if self.is_loading else "unconfigured"

    @property
    def is_ro(self) -> bool:
        return self.mode.is_read_only

    @property
    def vclock(self) -> VClock:
        """The rows that are in the journal."""
        vclock: VClock = self.journal.vclock
        return vclock

    @property
    def replicaset(self) -> ReplicaSet:
        return self.replication.replicaset

    @property
    def synchro_quorum(self) -> int:
        """How many instances must have a synchronous transaction now."""
        return synchro_quorum(self.config["replication_synchro_quorum"], max(1, len(self.replicaset.by_id)))

    def relative(self, path: str) -> str:
        """A path of the configuration, seen from the node's directory: below `work_dir` if there is one."""
        work_dir = self.config.values["work_dir"]
        return f"{work_dir}/{path}" if work_dir and not path.startswith("/") else path

    def resolve(self, path: str) -> str:
        """A path of the configuration as the operating system knows it."""
        return str((self.directory or Path()) / self.relative(path))

    def new_context(self, session_type: str = "background") -> Context:
        """A context of user admin in a session of its own."""
        return Context(self.sessions.open(session_type, self.schema.admin))

    def random_uuid(self) -> UUID:
        """A version 4 UUID from the node's random source."""
        return UUID(bytes=self.random.randbytes(16), version=4)

    # -- configuration --------------------------------------------------------------------------

    def new_instance_uuid(self) -> UUID:
        """The UUID of an instance without files. The next attempt to start gets the same: it may be registered."""
        self._first_uuid = self._first_uuid or self.random_uuid()
        return self._first_uuid

    async def configure(self, options: Mapping[str, Any], *, joins_again: bool = True) -> None:
        """`box.cfg`: start the instance, or change options of a running one.

        Raises CFG and RELOAD_CFG for wrong options, and whatever keeps the instance from starting; then the node is as
        it was and `configure` may be called again. A join that was undone (`is_join_undone`) begins anew every
        `replication_timeout` seconds, unless `joins_again` says that the caller sees to it.
        """
        if self.is_configured:
            await self._reconfiguration.change(options)
            return
        if self.is_loading:
            raise client_error(ErrorCode.LOADING)
        self.is_loading = True
        try:
            while True:
                self.config.load(options, self.log.warn)
                pause = float(self.config["replication_timeout"])
                try:
                    await self._start()
                    return
                except BaseException as error:
                    if isinstance(error, BoxError):
                        self._log_failed_start(error)
                    await self._abandon_start()
                    if not (self.is_join_undone and joins_again):
                        raise
                await asyncio.sleep(pause)
        finally:
            self.is_loading = False

    def _log_failed_start(self, error: BoxError) -> None:
        if self.is_join_undone:
            self.log.warn(f"the join was undone and begins anew: {error.message}")
            return
        if error.errno:
            self.log.error(f"{error.type}: {error.message}: {os.strerror(error.errno)}")
        self.log.say(Level.FATAL, f"can't initialize storage: {error.message}")

    def _check_work_dir(self) -> None:
        """SystemError unless the directory is there."""
        work_dir = self.config["work_dir"]
        if not work_dir:
            return
        try:
            self.disk.names(work_dir)
        except OSError as error:
            raise system_error(f"can't chdir to `{work_dir}'", error.errno or 0) from error

    def _take_pid_file(self) -> None:
        """SystemError if an instance with the same file runs; the log is not open yet, so that it goes to standard
        error."""
        path = self.config["pid_file"]
        if path:
            self._pid_file = PidFile(self.resolve(path))
            self._pid_file.write()

    async def _start(self) -> None:
        self.is_join_undone = False
        for hook in self.on_schema_init:
            hook()
        self._check_work_dir()
        if self.config["username"]:
            become(self.config["username"], self.log)
        self._take_pid_file()
        self._open_log()
        if self.config["memtx_use_mvcc_engine"]:
            self._build(MvccStorage())
        self._reconfiguration.apply_initial()
        self.iproto = IprotoServer(self, salt_source=self.random.randbytes)
        self.stats.start(self.loop)
        is_leader = await Startup(self).run()
        # What the bootstrap wrote is nobody's request.
        self.stats.box.reset()
        self.is_configured = True
        self.on_ro_change()
        self.replication.sources.follow()
        self.log.info("ready to accept requests")
        if is_leader:
            self.replication.sources.found()
        else:
            await self.replication.sources.sync()
        self.checkpoints.start()
        self._log_changed_options()
        await self._upgrade_at_start()

    async def _upgrade_at_start(self) -> None:
        """Files of an older version: alone, the instance upgrades them; a replica set needs somebody who decides."""
        if not needs_upgrade(self.schema):
            return
        if not (self.mode.is_read_only or self.config["replication"] or self.errinj.values["ERRINJ_AUTO_UPGRADE"]):
            await self.upgrade_schema(self.new_context())
        if needs_upgrade(self.schema):
            found = version_text(self.schema)
            self.log.warn(
                f"Your schema version is {found} while Tarantool {PACKAGE_VERSION} requires a more recent schema "
                "version. Please, consider using box.schema.upgrade()."
            )

    async def upgrade_schema(self, ctx: Context) -> None:
        """`box.schema.upgrade`: bring the system spaces of an older version up to date. READONLY, ACCESS_DENIED."""
        await SchemaUpgrade(self.schema, self.dml, ctx, self.log, self.clock).run()

    async def listen(self, address: str | None) -> None:
        """Serve the binary protocol at an address of `box.cfg.listen`, None for nowhere. CFG, SocketError."""
        assert self.iproto is not None
        await self.iproto.listen(address)

    def open_journal(self, vclock: VClock) -> None:
        """From now on changes go to the log, after `vclock`. SystemError for a directory that cannot be used."""
        config = self.config
        journal = Journal(
            self.loop,
            self.disk,
            wal_dir=self.checkpoints.wal_dir,
            wal_mode=config["wal_mode"],
            wal_max_size=int(config["wal_max_size"]),
            inline_limit=INLINE_WRITES,
            fiber_round=self.round,
            errinj=self.errinj,
            log=self.log,
        )
        journal.instance_id = self.instance_id
        journal.start(vclock, self.instance_uuid)
        self.journal = journal
        self.set_queue_size(config["wal_queue_max_size"])
        self.txns.journal = journal
        self.synchro.journal = journal
        self.replication.use_journal(journal)

    def set_queue_size(self, size: float) -> None:
        """`wal_queue_max_size`: the bytes that may wait for the log's writer before appliers wait; 0 for any."""
        self.journal.queue_max_size = int(size) or 2**63

    def set_instance_id(self, instance_id: int) -> None:
        """The id under which `_cluster` knows this instance, 0 for none."""
        self.instance_id = self.limbo.instance_id = self.schema.instance_id = instance_id
        self.limbo.refresh_mode()
        if isinstance(self.journal, Journal):
            self.journal.instance_id = instance_id

    def update_synchro_quorum(self) -> None:
        """The option or the number of registered replicas has changed."""
        self.synchro.set_quorum(self.synchro_quorum)

    def _open_log(self) -> None:
        self.log.level = log_level(self.config["log_level"])
        self.log.format = self.config["log_format"]
        if self.config["log"]:
            self.log.open(self.config["log"], self.resolve)
        self.log.crit(f"Tarantool {PACKAGE_VERSION}")
        self.log.crit(f"log level {self.log.level}")

    def _log_changed_options(self) -> None:
        for name, value in sorted(self.config.values.items()):
            if value != OPTIONS[name].default:
                self._reconfiguration.log_option(name, value)

    async def _abandon_start(self) -> None:
        """Let go of everything a failed start has taken, so that the next attempt begins anew."""
        await self._stop_parts()
        self.config = Config()
        self._make_parts()

    async def snapshot(self) -> None:
        """Write a checkpoint. CHECKPOINT_IN_PROGRESS, CHECKPOINT_ROLLBACK, SystemError."""
        await self.checkpoints.make()

    async def promote(self) -> None:
        """Take over the limbo: `box.ctl.promote` and `box.ctl.clear_synchro_queue`."""
        await self.synchro.promote()

    # -- modes ----------------------------------------------------------------------------------

    def on_ro_change(self) -> None:
        """A reason to take no changes may have come or gone."""
        self.mode.set(ReadOnlyReason.CONFIG, bool(self.config["read_only"]))
        self.mode.set(ReadOnlyReason.ORPHAN, self.replication.sources.is_orphan)
        self.mode.set(ReadOnlyReason.LOADING, not self.is_configured)

    def _mode_changed(self) -> None:
        self.dml.is_read_only = self.mode.is_held
        self.mode_changes.wake()

    # -- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop everything. Acknowledged changes are in the journal; no task, thread or descriptor is left behind.

        Who waits for a write learns its outcome; for one that still has no quorum that is FiberIsCancelled.
        """
        if self.is_closed:
            return
        self.is_closed = True
        for hook in self.on_shutdown:
            outcome = hook()
            if asyncio.iscoroutine(outcome):
                await outcome
        await self._stop_parts()
        self.log.close()

    async def _stop_parts(self) -> None:
        self.errinj.release_journal()
        await self.replication.stop()
        if self.iproto is not None:
            await self.iproto.close()
        self.stats.stop()
        await self.checkpoints.stop()
        self.synchro.stop()
        if self.journal is not self._startup_journal:
            await self.journal.stop()
        self.synchro.abandon()
        self.checkpoints.unlock()
        if self._pid_file is not None:
            self._pid_file.remove()
            self._pid_file = None
