"""Replication of one node: it owns the replica set, the appliers and the relays, and answers their questions.

Configuration (`box.cfg.replication`) has three steps, as in the documents: connect to all sources at once and wait for
the quorum, put the new appliers in place of the old ones, let them follow. The instance is an orphan (read-only, out
of sync) from the change until a quorum of appliers is in sync.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.net.stream import RowStream
from box.replication.applier import Applier
from box.replication.replicaset import Replica, ReplicaSet
from box.replication.requests import ReplicationService
from box.replication.row_sink import RowSink
from box.schema.ids import SpaceId
from box.session import Context
from box.wire.ballot import Ballot
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.instance.loader import SnapshotLoader
    from box.instance.node import Instance
    from box.iproto.connection import ServerConnection
    from box.journal.journal import Journal


class Replication:
    """See the module's text. Implements what appliers and relays ask of their host."""

    def __init__(self, node: Instance) -> None:
        self.node = node
        self.log = node.log
        self.errinj = node.errinj
        self.replicaset = ReplicaSet(self.check_sync_quorum)
        self.sink = RowSink(node, self._on_written, self._on_journal_failure)
        self.service = ReplicationService(self)
        self.is_orphan = True
        """Until the instance has founded its replica set or is in sync with it. Read-only meanwhile."""
        self.is_out_of_sync = False
        """An orphan whose attempt to get in sync has failed: only then it is called one."""
        self._is_following = False
        self._acks_are_due = False
        self._registration = asyncio.Lock()
        node.schema.on_cluster_change.append(self._on_cluster_change)

    # -- the host of appliers and relays ----------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        journal: Journal = self.node.journal
        return journal

    @property
    def instance_uuid(self) -> UUID:
        return self.node.instance_uuid

    @property
    def instance_id(self) -> int:
        return self.node.instance_id

    @property
    def replicaset_uuid(self) -> UUID:
        return self.node.replicaset_uuid

    @property
    def vclock(self) -> VClock:
        return self.node.vclock

    @property
    def is_anonymous(self) -> bool:
        return bool(self.node.config["replication_anon"])

    @property
    def is_configured(self) -> bool:
        return self.node.is_configured

    @property
    def replication_timeout(self) -> float:
        return float(self.node.config["replication_timeout"])

    @property
    def connect_timeout(self) -> float:
        return float(self.node.config["replication_connect_timeout"])

    @property
    def sync_lag(self) -> float:
        return float(self.node.config["replication_sync_lag"])

    def now(self) -> float:
        return self.node.clock()

    def check_writable(self) -> None:
        """Raise READONLY unless the instance takes changes."""
        if self.node.is_ro:
            raise client_error(ErrorCode.READONLY)

    def applier_context(self) -> Context:
        return self.node.new_context("applier")

    async def close_context(self, ctx: Context) -> None:
        await self.node.sessions.close(ctx.session)

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        return self.sink.apply_now(ctx, rows)

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        await self.sink.apply(ctx, rows)

    async def registered(self) -> None:
        await self.journal.sync()

    def on_applier_connect(self, applier: Applier) -> None:
        self.replicaset.on_connect(applier)

    def on_applier_state(self, applier: Applier) -> None:
        self.replicaset.on_state(applier)

    def on_ack(self, replica: Replica, vclock: VClock) -> None:
        # Of anonymous replicas, too: they share id 0, and so count as one.
        self.node.synchro.on_ack(replica.id, vclock)
        if replica.consumer is not None:
            replica.consumer.advance(vclock)

    def _on_written(self) -> None:
        """Called for every transaction of a batch: one acknowledgement is enough for all."""
        if not self._acks_are_due:
            self._acks_are_due = True
            self.node.loop.call_soon(self._signal_acks)

    def _signal_acks(self) -> None:
        self._acks_are_due = False
        for applier in self.replicaset.appliers:
            applier.signal_ack()

    def _on_cluster_change(self, replica_id: int, uuid: UUID, is_registered: bool) -> None:
        """Garbage is not collected after a start until every other member has told where it stands."""
        if uuid != self.instance_uuid:
            collector = self.node.checkpoints.collector
            collector.delay_ref() if is_registered else collector.delay_unref()

    def _on_journal_failure(self, error: BoxError) -> None:
        for applier in self.replicaset.appliers:
            applier.fail(error)

    # -- configuration ------------------------------------------------------------------------------

    async def configure(self, *, is_bootstrap: bool) -> None:
        """Connect to the sources of the configuration and put their appliers in place of the old ones.

        On bootstrap all sources have to answer within `replication_connect_timeout`, or at least
        `replication_connect_quorum` of them: CFG `failed to connect to one or more replicas`. Later a source that does
        not answer is tried again in the background.
        """
        sources: list[str] = self.node.config["replication"] or []
        appliers = [Applier(self, source, self.node.loop) for source in sources]
        if not appliers:
            await self._replace([])
            return
        self.log.info(f"connecting to {len(appliers)} replicas")
        if not is_bootstrap:
            self.is_orphan = True
            self.node.on_ro_change()
        try:
            await self._connect(appliers, is_bootstrap)
            self.replicaset.check_unique(appliers)
        except BaseException:
            await asyncio.gather(*(applier.close() for applier in appliers))
            raise
        await self._replace(appliers)

    async def _connect(self, appliers: list[Applier], is_bootstrap: bool) -> None:
        total = len(appliers)
        quorum = self.replicaset_quorum(total)
        waits = [asyncio.ensure_future(self._first_answer(applier)) for applier in appliers]
        deadline = self.node.loop.time() + self.node.config["replication_connect_timeout"]
        try:
            pending: set[asyncio.Future[None]] = set(waits)
            while pending and (left := deadline - self.node.loop.time()) > 0:
                connected = sum(applier.is_connected for applier in appliers)
                if connected >= quorum and not is_bootstrap:
                    break
                _, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if sum(applier.is_connected for applier in appliers) + len(pending) < quorum:
                    break
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
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

    def replicaset_quorum(self, total: int) -> int:
        quorum = self.node.config["replication_connect_quorum"]
        return total if quorum is None else min(int(quorum), total)

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
            self.sink.reset(self.vclock)
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
            async with asyncio.timeout(self.node.config["replication_sync_timeout"]):
                while replicaset.synced < quorum <= replicaset.connected + replicaset.loading:
                    await replicaset.changed()
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
        return self.replicaset.quorum(self.node.config["replication_connect_quorum"])

    def check_sync_quorum(self) -> None:
        if self.is_orphan and self.node.is_configured and self.replicaset.synced >= self._sync_quorum():
            self.set_orphan(False)

    def set_orphan(self, is_orphan: bool) -> None:
        """The outcome of an attempt to get in sync, told in the log."""
        if is_orphan:
            self.log.crit("entering orphan mode")
        elif self.is_orphan:
            self.log.crit("leaving orphan mode")
        self.is_orphan = self.is_out_of_sync = is_orphan
        self.node.on_ro_change()

    def found(self) -> None:
        """This instance is the first of a new replica set: there is nobody to be in sync with."""
        self.is_orphan = False
        self.node.on_ro_change()

    async def reconfigure(self) -> None:
        """A change of `box.cfg.replication` at run time."""
        await self.configure(is_bootstrap=False)
        self.follow()
        await self.sync()

    async def stop(self) -> None:
        """Stop all appliers and relays."""
        await self._drop_appliers()
        await self.sink.stop()
        await self.service.stop()

    # -- joining ------------------------------------------------------------------------------------

    async def bootstrap_from(self, master: Applier, loader: SnapshotLoader) -> None:
        """Fetch everything from the peer of a READY applier; the node's vclock is that of the data afterwards."""
        self.log.info(f"bootstrapping replica from {master.uuid} at {master.address}")

        def finish(vclock: VClock) -> None:
            loader.finish()
            self.node.journal.vclock = vclock.copy()
            self.sink.reset(vclock)

        await master.bootstrap(loader.add_rows, finish)

    async def register_self(self) -> None:
        """Turn an anonymous replica into a member of the replica set. CANNOT_REGISTER."""
        await self.configure(is_bootstrap=False)
        leader = self.replicaset.leader()
        if leader is None or leader.applier is None or not leader.applier.is_connected:
            raise client_error(ErrorCode.CANNOT_REGISTER)
        # One peer only: two would give two ids.
        leader.applier.resume()
        while not self.instance_id:
            if not leader.applier.is_running:
                raise leader.applier.error or client_error(ErrorCode.CANNOT_REGISTER)
            await self.replicaset.changed()
        self.follow()
        await self.sync()

    async def register_replica(self, uuid: UUID) -> None:
        """Give the instance an id in `_cluster`, unless it has one. READONLY."""
        async with self._registration:
            replica = self.replicaset.by_uuid.get(uuid)
            if replica is None or not replica.id:
                self.check_writable()
                await self._insert_replica(self.replicaset.free_id(), uuid)

    async def _insert_replica(self, replica_id: int, uuid: UUID) -> None:
        node = self.node
        ctx = node.new_context("relay")
        try:
            await node.dml.execute(ctx, "insert", node.schema.space(SpaceId.CLUSTER), pack([replica_id, str(uuid)]))
            pending = ctx.take_pending()
            if pending is not None:
                await pending.wait()
        finally:
            await self.close_context(ctx)

    def open_read_view(self) -> list[tuple[bytes, list[bytes]]]:
        """What a joining replica gets: `(body prefix, tuples)` of each replicated space, changes on their way to the
        journal included. Taken without a switch, so that it is consistent."""
        node = self.node
        return [
            (space.body_prefix(RequestType.INSERT), node.checkpoints.tuples_of(space))
            for space in node.schema.snapshot_spaces()
            if not space.is_local
        ]

    def ballot(self) -> Ballot:
        """The answer to VOTE."""
        node = self.node
        return Ballot(
            is_ro=bool(node.config["read_only"]),
            is_loading=node.is_ro,
            is_anon=self.is_anonymous,
            vclock=node.vclock.copy(),
            gc_vclock=node.checkpoints.collector.vclock.copy(),
        )

    async def handle(self, connection: ServerConnection, row: Row) -> None:
        """Take over a connection of the binary server with its JOIN, SUBSCRIBE, REGISTER or FETCH_SNAPSHOT request."""
        transport, received = connection.detach()
        stream = RowStream(self.node.loop)
        stream.take_over(transport, received)
        await self.service.serve(connection.ctx, stream, row, connection.session.peer or "")
