"""The sources of an instance: whose rows it fetches, and whether it is in sync with them.

A change of `box.cfg.replication` has three steps, as in the documents: connect to all sources at once and wait for
the quorum, put the new appliers in place of the old ones, let them follow. The instance is an orphan (read-only, out
of sync) from the change until a quorum of appliers is in sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.log import Log
from box.replication.applier import Applier
from box.replication.elections import Elections
from box.replication.fetch_once import FetchList
from box.replication.joining import SnapshotTarget
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.replicaset import ReplicaSet
from box.replication.row_sink import RowSink
from box.replication.subscription_daemon import SubscriptionDaemon
from box.session import Context, Sessions
from box.waiters import end_all
from box.wire.vclock import VCLOCK_MAX, VClock

if TYPE_CHECKING:
    from box.journal.journal import Journal
    from box.net.network import Network
    from box.schema.schema import Schema


class JoinTarget(SnapshotTarget, Protocol):
    """Takes in what a join brings: the rows of Tarantool's snapshot, and then the vclock at which it was taken."""

    async def finish(self, vclock: VClock) -> None: ...


class Sources:
    """The appliers of one instance. `sessions` and `schema` make the contexts in which they work."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        options: ReplicationOptions,
        replicaset: ReplicaSet,
        sink: RowSink,
        elections: Elections,
        *,
        schema: Schema,
        sessions: Sessions,
        network: Network,
        clock: Callable[[], float],
        log: Log,
        errinj: ErrorInjections,
    ) -> None:
        self.loop = loop
        self.instance = instance
        self.options = options
        self.replicaset = replicaset
        self.sink = sink
        self.elections = elections
        self.network = network
        self.now = clock
        self.log = log
        self.errinj = errinj
        self.journal: Journal | None = None
        """Set when it is open: before that, nothing is followed."""
        self.is_orphan = True
        """Until the instance has founded its replica set or is in sync with it. Read-only meanwhile."""
        self.is_out_of_sync = False
        """An orphan whose attempt to get in sync has failed: only then it is called one."""
        self._schema = schema
        self._sessions = sessions
        self._is_following = False
        self._acks_are_due = False
        self.daemon = SubscriptionDaemon(
            loop,
            instance,
            options,
            replicaset,
            leader_id=lambda: elections.raft.leader_id if elections.raft.is_enabled else 0,
            log=log,
        )
        elections.raft.on_change.append(self.daemon.look_soon)
        sink.on_written = self._on_written
        sink.on_failure = self._on_journal_failure
        replicaset.on_change = self._on_change

    # -- the host of appliers ---------------------------------------------------------------------------

    def applier_context(self) -> Context:
        return Context(self._sessions.open("applier", self._schema.admin))

    async def close_context(self, ctx: Context) -> None:
        await self._sessions.close(ctx.session)

    def _on_written(self) -> None:
        """Called for every transaction of a batch: one acknowledgement is enough for all."""
        if not self._acks_are_due:
            self._acks_are_due = True
            self.loop.call_soon(self._signal_acks)

    def _signal_acks(self) -> None:
        self._acks_are_due = False
        for applier in self.replicaset.appliers:
            applier.signal_ack()

    def _on_change(self) -> None:
        self.check_sync_quorum()
        self.daemon.look_soon()

    def fetch_list(self, source: UUID | None) -> FetchList | None:
        return self.daemon.list_for(source, is_orphan=self.is_orphan)

    def ask_everything(self, source: UUID | None, reason: str) -> None:
        self.daemon.ask_everything(source, reason)

    def _on_journal_failure(self, error: BoxError) -> None:
        for applier in self.replicaset.appliers:
            applier.fail(error)

    # -- configuration ------------------------------------------------------------------------------

    async def configure(self, *, is_bootstrap: bool) -> None:
        """Connect to the sources of the configuration and put their appliers in place of the old ones.

        On bootstrap all sources have to answer within `replication_connect_timeout`, or at least
        `replication_connect_quorum` of them: CFG `failed to connect to one or more replicas`. Later a source that does
        not answer is tried again in the background. CFG for more sources than a replica set has members.
        """
        replicaset = self.replicaset
        if len(self.options.sources) >= VCLOCK_MAX:
            raise client_error(ErrorCode.CFG, "replication", "too many replicas")
        appliers = [
            Applier(self, source, on_connect=replicaset.on_connect, on_state=replicaset.on_state)
            for source in self.options.sources
        ]
        if not appliers:
            await self._replace([])
            return
        self.log.info(f"connecting to {len(appliers)} replicas")
        if not is_bootstrap:
            self.is_orphan = True
            self.instance.set_orphan(self.is_orphan)
        try:
            await self._connect(appliers, is_bootstrap)
            self.replicaset.check_unique(appliers)
        except BaseException:
            await asyncio.gather(*(applier.close() for applier in appliers))
            raise
        await self._replace(appliers)

    async def _connect(self, appliers: list[Applier], is_bootstrap: bool) -> None:
        total = len(appliers)
        quorum = self.options.connect_quorum(total)
        waits = [asyncio.ensure_future(self._first_answer(applier)) for applier in appliers]
        deadline = self.loop.time() + self.options.connect_timeout
        try:
            pending: set[asyncio.Future[None]] = set(waits)
            while pending and (left := deadline - self.loop.time()) > 0:
                connected = sum(applier.is_connected for applier in appliers)
                if connected >= quorum and not is_bootstrap:
                    break
                _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if sum(applier.is_connected for applier in appliers) + len(pending) < quorum:
                    break
        finally:
            await end_all(waits)
        connected = sum(applier.is_connected for applier in appliers)
        if connected == total:
            self.log.info(f"connected to {connected} replicas")
            return
        self.log.crit(f"failed to connect to {total - connected} out of {total} replicas")
        if is_bootstrap and connected < quorum:
            raise client_error(ErrorCode.CFG, "replication", "failed to connect to one or more replicas")
        await asyncio.gather(*(applier.stop() for applier in appliers if not applier.is_connected))

    async def _first_answer(self, applier: Applier) -> None:
        """Until the applier has reached its peer; one that gave up for good ends the wait too."""
        applier.start()
        await applier.wait_connected()

    async def _replace(self, appliers: list[Applier]) -> None:
        await self._drop_appliers()
        self.replicaset.attach_appliers(appliers)

    async def _drop_appliers(self) -> None:
        old = self.replicaset.detach_appliers()
        await asyncio.gather(*(applier.close() for applier in old))

    def follow(self) -> None:
        """Let every applier subscribe; those that could not connect start again."""
        if not self._is_following:
            self._is_following = True
            self.sink.reset(self.instance.vclock)
        for applier in self.replicaset.appliers:
            if not applier.is_self:
                applier.resume()

    async def sync(self) -> None:
        """Wait until a quorum of appliers is in sync, or `replication_sync_timeout`; then the instance is an orphan."""
        quorum = self._sync_quorum()
        if quorum == 0:
            self.set_orphan(False)
            return
        self.log.info(f"synchronizing with {quorum} replicas")
        replicaset = self.replicaset
        try:
            async with asyncio.timeout(self.options.sync_timeout):
                await replicaset.changes.until(
                    lambda: replicaset.synced >= quorum or replicaset.connected + replicaset.loading < quorum
                )
        except TimeoutError:
            pass
        if replicaset.synced < quorum:
            left = replicaset.applier_total - replicaset.synced
            self.log.crit(f"failed to synchronize with {left} out of {replicaset.applier_total} replicas")
            self.set_orphan(True)
        else:
            self.log.info("replica set sync complete")
            self.set_orphan(False)

    def _sync_quorum(self) -> int:
        return self.options.connect_quorum(self.replicaset.applier_total)

    def check_sync_quorum(self) -> None:
        if self.is_orphan and self.instance.is_configured and self.replicaset.synced >= self._sync_quorum():
            self.set_orphan(False)

    def set_orphan(self, is_orphan: bool) -> None:
        """The outcome of an attempt to get in sync, told in the log."""
        if is_orphan:
            self.log.crit("entering orphan mode")
        elif self.is_orphan:
            self.log.crit("leaving orphan mode")
        self.is_orphan = self.is_out_of_sync = is_orphan
        self.instance.set_orphan(self.is_orphan)

    def found(self) -> None:
        """This instance is the first of a new replica set: there is nobody to be in sync with."""
        self.is_orphan = False
        self.instance.set_orphan(self.is_orphan)

    async def reconfigure(self) -> None:
        """A change of `box.cfg.replication` at run time."""
        await self.configure(is_bootstrap=False)
        self.follow()
        await self.sync()

    async def stop(self) -> None:
        """Stop all appliers, and what they have handed over."""
        self.daemon.stop()
        await self._drop_appliers()
        await self.sink.stop()

    # -- joining ------------------------------------------------------------------------------------

    async def bootstrap_from(self, master: Applier, target: JoinTarget) -> None:
        """Fetch everything from the peer of a READY applier."""
        self.log.info(f"bootstrapping replica from {master.uuid} at {master.address}")

        async def finish(vclock: VClock) -> None:
            await target.finish(vclock)
            self.sink.reset(vclock)

        await master.bootstrap(target, finish)

    async def register_self(self) -> None:
        """Turn an anonymous replica into a member of the replica set. CANNOT_REGISTER."""
        await self.configure(is_bootstrap=False)
        leader = self.replicaset.leader()
        if leader is None or leader.applier is None or not leader.applier.is_connected:
            raise client_error(ErrorCode.CANNOT_REGISTER)
        # One peer only: two would give two ids.
        leader.applier.resume()
        while not self.instance.instance_id:
            if not leader.applier.is_running:
                raise leader.applier.error or client_error(ErrorCode.CANNOT_REGISTER)
            await self.replicaset.changes.next()
        self.follow()
        await self.sync()
