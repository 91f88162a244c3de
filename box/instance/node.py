"""The instance: puts its parts together and owns their life cycle. Lua, consoles and servers are built on it.

```
status         what happened                                            takes changes
unconfigured   constructed                                              no
loading        `configure` was called: recovery, bootstrap or join      no
hot_standby    it follows the log of another instance in its directory  no
running        started, or `replication` changed: getting in sync       no
running        in sync with a quorum of its replica set                 unless read_only or the limbo is foreign
orphan         could not get in sync                                    no
```

Some objects exist for the whole life of an instance: its resources, sessions, counters, hooks. Its parts (the
dictionary, transactions, log, checkpoints, replication, server) are made for one start. After a failed start they are
stopped and all made anew, so that the next attempt finds no traces of the last one. A part gets the other parts as
constructor arguments, so it never refers to those of another start. Objects that live longer than a start (Lua, a
console) hold the instance and take a part from it each time. The first parts are made on first use, because a program
that never calls `box.cfg` needs none.

An instance takes its loop, clock, random source, disk, network and threads as arguments and keeps no module-level
state, so that a process may hold many and a test may replace each. Everything here runs on the loop's thread (the tx
thread).
"""

from __future__ import annotations

import asyncio
import os
import random as random_module
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.events import Events
from box.instance.config import Config
from box.instance.process_setup import ProcessSetup, explain_log
from box.instance.resources import Paths, Resources
from box.instance.start_stages import Stage, StartStages
from box.instance.system_events import SHUTDOWN, provide_system_events
from box.journal.round import Round
from box.journal.storage import FileStorage, MemoryStorage, Storage, plain_path
from box.journal.threads import SystemThreads, Threads
from box.log import BARE, Level, Log
from box.long_work import ProgressBoard
from box.net.network import Network
from box.net.sockets import SocketNetwork
from box.session import Context, Sessions
from box.waiters import Waiters
from box.wire.tarantool_version import PACKAGE_VERSION

if TYPE_CHECKING:
    from box.index.release import Releaser
    from box.index.untracked import CollectorWatch
    from box.instance.checkpoint import Checkpoints
    from box.instance.instance_state import InstanceState
    from box.instance.journal_opening import JournalOpening
    from box.instance.membership import Membership
    from box.instance.mode import AccessMode
    from box.instance.reconfigure import Reconfiguration
    from box.instance.startup import Startup
    from box.iproto.interface import FunctionsLike
    from box.iproto.server import IprotoServer
    from box.iproto.stats import Stats
    from box.journal.journal import Journal
    from box.replication.elections import Elections
    from box.replication.setup import Replication
    from box.schema.schema import Schema
    from box.sql.engine import Sql
    from box.sql.prepared import PreparedStatements
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.limbo import Limbo
    from box.txn.storage import TupleStorage
    from box.txn.synchro import LimboDriver


class Instance:
    """An instance: parts, life cycle and configuration; the module describes the states.

    Relative paths of the configuration start at `directory`; None makes an instance in memory. `disk` replaces both.
    `clock` returns seconds since the epoch, `random` the bytes for UUIDs and salts.
    """

    # The parts. They are made when one is asked for: see `__getattr__`.
    schema: Schema
    tuples: TupleStorage
    releaser: Releaser
    limbo: Limbo
    mode: AccessMode
    state: InstanceState
    journal: Journal | None
    """The log, or None before it is open."""
    synchro: LimboDriver
    txns: TransactionManager
    dml: Dml
    prepared: PreparedStatements
    checkpoints: Checkpoints
    replication: Replication
    elections: Elections
    membership: Membership
    iproto: IprotoServer
    _opening: JournalOpening
    _reconfiguration: Reconfiguration
    _watch: CollectorWatch

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.time,
        random: random_module.Random | None = None,
        disk: Storage | None = None,
        network: Network | None = None,
        threads: Threads | None = None,
    ) -> None:
        path = None if directory is None else plain_path(os.path.join(os.getcwd(), fspath(directory)))
        self.loop = loop or asyncio.get_running_loop()
        self.clock = clock
        self.random = random or random_module.SystemRandom()
        self.disk: Storage = disk or (MemoryStorage(clock) if path is None else FileStorage(path))
        self.network: Network = network or SocketNetwork(self.loop)
        threads = threads or SystemThreads()
        self.monotonic: Callable[[], float] = threads.clock
        """A clock in seconds that never jumps and is finer than the loop's."""
        self.config = Config()
        self.paths = Paths(path, self.config)
        self.log = Log(clock)
        self.log.format = BARE
        self.errinj = ErrorInjections()
        self.progress = ProgressBoard(self.monotonic)
        self.resources = Resources(
            self.loop,
            clock,
            self.random,
            self.disk,
            self.network,
            threads,
            self.paths,
            self.config,
            self.log,
            self.errinj,
            self.progress,
        )
        self.sessions = Sessions()
        self.events = Events(self.loop)
        self.round = Round()
        """The round of fibers, which the scheduler and the journal share."""
        self.functions: FunctionsLike | None = None
        """The executor of CALL, EVAL and stored functions. The owner of the Lua runtime sets it."""
        self.on_schema_init: list[Callable[[], None]] = []
        """Called at the beginning of a start, when the schema is new and empty."""
        self.stages = StartStages()
        """The stages of the start, with the functions that are told of each."""
        self.on_election: list[Callable[[], None]] = []
        """Called whenever the role, the term or the leader may have changed."""
        self.on_shutdown: list[Callable[[], Any]] = []
        """Called and awaited at the beginning of the end, while everything still works."""
        self.shutdown_timeout = 3.0
        """The seconds that `on_shutdown` triggers, and clients that watch `box.shutdown`, may take at the end."""
        self.on_close: list[Callable[[], None]] = []
        """Called after `on_shutdown`; the programs of this instance then stop and release what they hold."""
        self.on_panic: list[Callable[[], None]] = []
        self.on_failed_start: list[Callable[[BoxError], None]] = []
        """Called with the error of a start that has failed for good; the owner of a process ends it there."""
        self.on_status: list[Callable[[str], None]] = []
        """Called with `status` when it has changed, from the beginning of the start on."""
        self._told_status = ""
        self._panic_end: asyncio.Task[None] | None = None
        self.mode_changes = Waiters()
        """Woken whenever the instance may have become writable or read-only."""
        self.configuring_fiber: tuple[int, str] | None = None
        """The id and name of the Lua fiber that calls `box.cfg`, for the log."""
        self.is_loading = False
        self.is_ending = False
        """True if the instance is about to be closed, so that a start that fails is not repeated."""
        self.is_closed = False
        self._startup: Startup | None = None
        """The start in progress, or None."""
        self.is_join_undone = False
        """True if the last start failed during a join for a temporary reason, so that it may be repeated."""
        self.process = ProcessSetup(self.resources)
        self._first_uuid = self.random.randbytes(16)
        """The bytes of the UUID for an instance without files. Every attempt to start uses it, because it may be
        registered already."""
        self.errinj.on_change("ERRINJ_TUPLE_ALLOC", lambda is_on: self.dml.set_memory(not is_on))
        self.has_parts = False
        """True once the parts are made."""
        provide_system_events(self)

    # -- the parts ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Make the parts when one of them is used for the first time."""
        if name not in _PARTS or self.has_parts:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._make_parts()
        return getattr(self, name)

    def _make_parts(self) -> None:
        """Make the parts of an instance whose dictionary is empty."""
        from box.instance import parts

        self._put_together(parts.initial_schema(parts.make_engines()), parts.TupleStorage())

    def _put_together(self, schema: Schema, tuples: TupleStorage) -> None:
        """Make the parts of a start, in the order of their dependencies."""
        from box.instance import parts

        self.has_parts = True
        resources = self.resources
        self._watch = parts.CollectorWatch()
        self.schema = schema
        self.tuples = tuples
        self.releaser = parts.Releaser(self.loop)
        self.limbo = parts.Limbo()
        self.mode = parts.AccessMode(self.limbo, self._mode_changed)
        self.state = state = parts.InstanceState(self.mode)
        self.journal = None
        self._opening = parts.JournalOpening(resources, state, self.round, self._use_journal, self.panic)
        self.synchro = parts.LimboDriver(self.limbo, self._opening.stand_in, self.loop)
        self.txns = parts.TransactionManager(self._opening.stand_in, tuples, self.synchro, self.loop)
        self.dml = parts.Dml(schema, self.txns, loop=self.loop, counters=self.stats.box.totals)
        self.dml.on_many_held = self.round.interrupt
        self.dml.report_ignored(self._report_ignored)
        self.txns.on_refused = self.log.problem
        self.prepared = parts.PreparedStatements()
        schema.rule_checks.log = lambda error: self.log.error(error.message)
        schema.sql.find = lambda: self.sql.for_dictionary
        self.checkpoints = parts.Checkpoints(resources, state, schema, self.synchro)
        self.replication = parts.Replication(
            self.loop,
            state,
            self.config,
            schema=schema,
            txns=self.txns,
            dml=self.dml,
            synchro=self.synchro,
            sessions=self.sessions,
            collector=self.checkpoints.collector,
            view_of=self.checkpoints.view_of,
            network=self.network,
            clock=self.clock,
            random=self.random,
            log=self.log,
            errinj=self.errinj,
        )
        self.elections = self.replication.elections
        self.checkpoints.election_state = self.elections.raft.local_state
        self.membership = parts.Membership(resources, state, self.replication, self.synchro)
        self.iproto = parts.IprotoServer(self)
        self._reconfiguration = parts.Reconfiguration(
            resources,
            parts.make_setters(
                self.config,
                self.log,
                state,
                dml=self.dml,
                synchro=self.synchro,
                journal=self._opening,
                checkpoints=self.checkpoints,
                sources=self.replication.sources,
                iproto=self.iproto,
                membership=self.membership,
                elections=self.elections,
                prepared=self.prepared,
            ),
        )
        self._connect()

    @cached_property
    def stats(self) -> Stats:
        """The counters of this node, made at their first use."""
        from box.iproto.stats import Stats

        return Stats()

    @cached_property
    def sql(self) -> Sql:
        """SQL of this node, made at its first use, because its modules take long to import."""
        from box.sql.engine import Sql

        sql = Sql(
            self.schema,
            self.dml,
            self.txns,
            prepared=self.prepared,
            version=PACKAGE_VERSION,
            random_bytes=self.random.randbytes,
            count=self.stats.collect,
            clock=self.monotonic,
            has_node_ended=lambda: self.is_closed,
        )
        self.on_close.append(sql.end)
        return sql

    def _connect(self) -> None:
        """Connect the parts to each other's changes."""
        schema, limbo, elections = self.schema, self.limbo, self.elections
        schema.errinj = self.errinj
        schema.on_change.append(self.events.changed)
        schema.progress = self.progress
        schema.release = self.releaser.release
        schema.on_replicaset_uuid = [self.state.set_replicaset_uuid]  # with MVCC the parts are connected twice
        schema.on_cluster_change = [self.membership.on_cluster_change]
        self.state.on_instance_id += [
            lambda instance_id: setattr(limbo, "instance_id", instance_id),
            lambda instance_id: setattr(schema, "instance_id", instance_id),
            lambda instance_id: setattr(elections.raft, "instance_id", instance_id),
        ]
        self.synchro.on_change = self.mode.look_again
        self.elections.on_change = self._role_changed
        self.synchro.on_write_error = self._log_synchro_failure
        self.synchro.on_contradiction = self._found_contradiction
        self.dml.set_memory(not self.errinj.values["ERRINJ_TUPLE_ALLOC"])
        self._mode_changed()

    def _use_journal(self, journal: Journal) -> None:
        self.journal = self.txns.journal = self.synchro.journal = journal
        journal.prepare_rollback = self.txns.prepare_rollback
        self.checkpoints.use_journal(journal)
        self.replication.use_journal(journal)

    def _mode_changed(self) -> None:
        from box.instance.mode import ReadOnlyReason

        self.dml.is_read_only = self.mode.is_held
        if self._told_status:
            self._tell_status()
        self.mode_changes.wake()
        self.events.changed()
        if not self.stages.is_synced and self.is_configured and not self.mode.holds(ReadOnlyReason.ORPHAN):
            self.loop.create_task(self.stages.reach(Stage.SYNCED), name="synced")

    def _role_changed(self) -> None:
        from box.instance.mode import ReadOnlyReason

        self.mode.set(ReadOnlyReason.ELECTION, self.elections.is_read_only)
        self.events.changed()
        for hook in self.on_election:
            hook()

    def _report_ignored(self, error: BoxError) -> None:
        """Count and log an error that an upsert ignores: of one of its operations, or a change of the primary key."""
        self.stats.count_error(error)
        if error.code != ErrorCode.CANT_UPDATE_PRIMARY_KEY:
            self.log.error("UPSERT operation failed:")
        self.log.problem(error)

    def _log_synchro_failure(self, error: BoxError) -> None:
        self.log.error(f"could not write a synchronous request to the log: {error.message}")

    def _found_contradiction(self, error: BoxError, diverged_id: int) -> None:
        if diverged_id != self.limbo.instance_id:
            self.log.crit(f"{error.message}: instance {diverged_id} differs from this one; join it anew")
            return
        self.log.crit(f"{error.message}: this instance differs from others and takes no more rows; join it anew")
        self.elections.give_up()

    @property
    def is_configured(self) -> bool:
        """True once a start has succeeded."""
        return self.has_parts and self.state.is_configured

    @property
    def status(self) -> str:
        """The status in the module's table, as in `box.info.status`."""
        if self.is_configured:
            return "orphan" if self.replication.sources.is_out_of_sync else "running"
        if self._startup is not None and self._startup.is_standby:
            return "hot_standby"
        return "loading" if self.is_loading else "unconfigured"

    def _tell_status(self) -> None:
        if self.status != self._told_status:
            self._told_status = self.status
            for hook in self.on_status:
                hook(self._told_status)

    def new_context(self, session_type: str = "background") -> Context:
        """Return a context of the user admin in a new session."""
        return Context(self.sessions.open(session_type, self.schema.admin))

    # -- the start ------------------------------------------------------------------------------

    async def configure(self, options: Mapping[str, Any], *, joins_again: bool = True) -> None:
        """Start the instance, or change options of a running one: `box.cfg`.

        If the start fails, the instance is as before and `configure` may be called again. A join that was undone
        (`is_join_undone`) is repeated every `replication_timeout` seconds, unless `joins_again` is False because the
        caller repeats it.

        Raises:
            ConfigError: CFG or RELOAD_CFG, an option is wrong.
            BoxError: the start failed.
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
                    if self.is_ending or self.is_closed:
                        raise
                    if isinstance(error, BoxError):
                        self._log_failed_start(error)
                    await self._abandon_start()
                    if not (self.is_join_undone and joins_again):
                        raise
                await asyncio.sleep(pause)
        finally:
            self.is_loading = False

    async def _start(self) -> None:
        from box.instance import parts

        self.is_join_undone = False
        if self.config["memtx_use_mvcc_engine"]:
            await self.iproto.close()
            self._put_together(self.schema, parts.MvccStorage())
        for hook in self.on_schema_init:
            hook()
        self.process.enter()
        self.log.info("wal/engine cleanup is paused")
        self.config.check_start()
        self._tell_status()
        self._watch.begin()
        await self._reconfiguration.apply_initial()
        self.stats.start(self.loop)
        is_founder = await self._load()
        # The statistics count requests, and the changes of the bootstrap are none.
        self.stats.box.reset()
        self.state.configured()
        self._tell_status()
        sources = self.replication.sources
        sources.follow()
        if self.synchro.promotions.contradiction is not None:
            self._found_contradiction(self.synchro.promotions.contradiction, self.limbo.instance_id)
        self.elections.start()
        await self._reconfiguration.start_elections()
        self.log.info("ready to accept requests")
        if is_founder:
            sources.found()
            await self.elections.found()
        else:
            await sources.sync()
        if not sources.is_orphan:
            await self.stages.reach(Stage.SYNCED)
        self.checkpoints.start()
        await self._reconfiguration.log_initial()
        await parts.upgrade_at_start(
            self.resources, self.state, self.schema, self.dml, Context.admin(self.schema.admin)
        )

    async def _load(self) -> bool:
        """Run recovery, bootstrap or join. Returns True if the instance has founded its replica set."""
        from uuid import UUID

        from box.instance import parts

        ctx = Context.admin(self.schema.admin)
        startup = parts.Startup(
            self.resources,
            self.state,
            parts.SnapshotLoader(self.schema, self.dml, ctx, self.log),
            parts.LogLoader(self.schema, self.dml, self.txns, self.synchro, self.elections, ctx),
            self.checkpoints,
            self.replication,
            self._opening,
            self.iproto.listen,
            UUID(bytes=self._first_uuid, version=4),
            self.stages,
        )
        startup.on_standby = self._tell_status
        self._startup = startup
        try:
            return await startup.run()
        finally:
            self._startup = None
            self.is_join_undone = startup.is_join_undone

    def _log_failed_start(self, error: BoxError) -> None:
        if self.is_join_undone:
            self.log.warn(f"the join was undone and begins anew: {error.message}")
            return
        if not self.process.is_entered:
            self.process.explain(error)
        else:
            self.log.problem(error)
            self.log.say(Level.FATAL, f"can't initialize storage: {error.message}")
        for hook in self.on_failed_start:
            hook(error)

    def log_failed(self, error: BoxError) -> None:
        """Handle a log that `log.cfg{}` cannot open as a failed start."""
        explain_log(self.log, error)
        for hook in self.on_failed_start:
            hook(error)

    async def _abandon_start(self) -> None:
        """Release everything that a failed start has taken, so that the next attempt begins anew."""
        await self._stop_parts()
        await self.let_go()
        self.config.reset()
        self._make_parts()

    # -- the end --------------------------------------------------------------------------------

    def panic(self, reason: str) -> None:
        """End immediately and cut all connections: nobody may be told anything that the files do not confirm.

        `on_panic` is called first; the owner of a process ends it there.
        """
        self.log.say(Level.FATAL, reason)
        for hook in self.on_panic:
            hook()
        if self.has_parts:
            self.iproto.abort()
        self._panic_end = self.loop.create_task(self.close(), name="panic")

    async def close(self) -> None:
        """Stop everything. Acknowledged changes are in the log; no task, thread or descriptor is left behind.

        Callers that wait for a write receive its outcome: FiberIsCancelled for a write that has no quorum yet.
        """
        if self.is_closed:
            if self._panic_end is not None and self._panic_end is not asyncio.current_task():
                await asyncio.shield(self._panic_end)
            return
        self.is_closed = True
        await self._announce_end()
        for leave in self.on_close:
            leave()
        await self._stop_parts()
        self.log.close()

    async def _announce_end(self) -> None:
        """Run `on_shutdown`, and let the clients that watch `box.shutdown` finish and leave, as Tarantool 2.11 does."""
        deadline = self.loop.time() + self.shutdown_timeout
        self.events.broadcast(SHUTDOWN, pack(True))
        leaving = self.iproto.watchers_of(SHUTDOWN) if self.has_parts else []
        for hook in self.on_shutdown:
            outcome = hook()
            if asyncio.iscoroutine(outcome):
                await outcome
        if leaving and not await self.iproto.until_left(leaving, deadline - self.loop.time()):
            self.log.error("clients that watch box.shutdown did not leave in time")

    async def let_go(self) -> None:
        """Free the tuples of the stopped parts, a few in every turn.

        Otherwise the program would pause when the last reference goes, or when the garbage collector visits them.
        """
        if not self.has_parts:
            return
        layouts = (space.indexes.values() for space in self.schema.spaces.values())
        for _ in self.releaser.finish(chain.from_iterable(layouts)):
            await asyncio.sleep(0)

    async def _stop_parts(self) -> None:
        """Stop the parts: first those that bring work, and the log after everything that writes to it."""
        if not self.has_parts:
            return
        if self._startup is not None:
            await self._startup.stop()
        self.errinj.release_journal()
        await self.replication.stop()
        await self.iproto.close()
        await self.dml.stop()
        self.stats.stop()
        await self.checkpoints.stop()
        self.synchro.stop()
        await self._opening.stop()
        self.synchro.abandon()
        for _ in self.tuples.abandon():
            await asyncio.sleep(0)
        self.checkpoints.unlock()
        self.releaser.pause()
        self._watch.end()
        self.process.leave()


_PARTS: Final = frozenset(Instance.__annotations__)
"""The names of the parts, which are all that the class annotates."""
