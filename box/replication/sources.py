"""The sources of an instance (`box.cfg.replication`): the peers whose rows it fetches, and whether it is in sync.

A change of `box.cfg.replication` takes three steps: connect to all sources at once and wait for the quorum, replace the
old appliers by the new ones, and let these follow. From the change until a quorum of appliers is in sync the instance
is an orphan: read-only and out of sync.
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
    """The receiver of a join: gets the rows of the master's snapshot, then the vclock at which it was taken."""

    async def finish(self, vclock: VClock) -> None: ...


class Sources:
    """The appliers of one instance.

    `sessions` and `schema` create the contexts in which the appliers execute rows. `clock` returns seconds since the
    epoch.
    """

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
        """The open journal; None before recovery ends, when nothing is followed yet."""
        self.is_orphan = True
        """True, and the instance read-only, until it has founded its replica set or is in sync with it."""
        self.is_out_of_sync = False
        """True if an attempt to get in sync has failed; only then `box.info.status` says "orphan"."""
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
        """Schedule acknowledgements; the calls for all transactions of a batch result in one acknowledgement."""
        if not self._acks_are_due:
            self._acks_are_due = True
            self.loop.call_soon(self._signal_acks)

    def _signal_acks(self) -> None:
        self._acks_are_due = False
        for applier in self.replicaset.appliers:
            applier.signal_ack()

    def _on_change(self) -> None:
        if self.is_orphan:
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
        """Connect to the configured sources, and replace the appliers by new ones for these sources.

        Waits at most `replication_connect_timeout`. On bootstrap `replication_connect_quorum` sources (all by default)
        have to answer within that time. Later a source that does not answer is retried in the background.

        Raises:
            ClientError: CFG, too few sources answered on bootstrap, two sources lead to the same instance, or there
                are more sources than a replica set can have members.
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
                # A bootstrap goes on, because it chooses its master among all that answer in time.
                if connected >= quorum and not is_bootstrap:
                    break
                _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                # The quorum is out of reach: those that do not wait any more have given up.
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
        """Start an applier and wait until its peer has answered or the applier has given up."""
        applier.start()
        await applier.wait_connected()

    async def _replace(self, appliers: list[Applier]) -> None:
        await self._drop_appliers()
        self.replicaset.attach_appliers(appliers)

    async def _drop_appliers(self) -> None:
        old = self.replicaset.detach_appliers()
        await asyncio.gather(*(applier.close() for applier in old))

    def follow(self) -> None:
        """Let every applier subscribe. Starts those again that could not connect."""
        if not self._is_following:
            self._is_following = True
            self.sink.reset(self.instance.vclock)
        for applier in self.replicaset.appliers:
            if not applier.is_self:
                applier.resume()

    async def sync(self) -> None:
        """Wait until a quorum of appliers is in sync; the instance is an orphan after `replication_sync_timeout`."""
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
        """Be in sync if enough appliers are; as in Tarantool, the log tells even if that is no change."""
        if self.instance.is_configured and self.replicaset.synced >= self._sync_quorum():
            self.set_orphan(False)

    def set_orphan(self, is_orphan: bool) -> None:
        """Set the outcome of an attempt to get in sync and log it."""
        if is_orphan:
            self.log.crit("entering orphan mode")
        else:
            self.log.crit("leaving orphan mode")
        self.is_orphan = self.is_out_of_sync = is_orphan
        self.instance.set_orphan(self.is_orphan)

    def found(self) -> None:
        """End being an orphan as the first instance of a new replica set, which has no others to be in sync with."""
        self.is_orphan = False
        self.instance.set_orphan(self.is_orphan)

    async def reconfigure(self) -> None:
        """Apply a change of `box.cfg.replication` at run time.

        Raises:
            ClientError: CFG, see `configure`.
        """
        await self.configure(is_bootstrap=False)
        self.follow()
        await self.sync()

    async def stop(self) -> None:
        """Stop all appliers and the transactions that they have handed to the sink."""
        self.daemon.stop()
        await self._drop_appliers()
        await self.sink.stop()

    # -- joining ------------------------------------------------------------------------------------

    async def bootstrap_from(self, master: Applier, target: JoinTarget) -> None:
        """Join the peer of a CONNECTED applier and feed its data to `target`.

        Raises:
            BoxError: the error that ends the join.
        """
        self.log.info(f"bootstrapping replica from {master.uuid} at {master.address}")

        async def finish(vclock: VClock) -> None:
            await target.finish(vclock)
            self.sink.reset(vclock)

        await master.bootstrap(target, finish)

    async def register_self(self) -> None:
        """Turn an anonymous replica into a member of the replica set.

        Raises:
            ClientError: CANNOT_REGISTER, no source is connected; CFG, see `configure`.
            BoxError: the error that ended the registration at the peer.
        """
        await self.configure(is_bootstrap=False)
        leader = self.replicaset.leader()
        if leader is None or leader.applier is None or not leader.applier.is_connected:
            raise client_error(ErrorCode.CANNOT_REGISTER)
        # Only one peer registers this instance: two could assign two different ids.
        leader.applier.resume()
        while not self.instance.instance_id:
            if not leader.applier.is_running:
                raise leader.applier.error or client_error(ErrorCode.CANNOT_REGISTER)
            await self.replicaset.changes.next()
        self.follow()
        await self.sync()
