"""The server's side of replication: VOTE, JOIN, FETCH_SNAPSHOT, REGISTER and SUBSCRIBE requests of other instances.

The binary server hands over a connection with its first such request; from then on the connection carries rows only,
several requests one after another (a joining instance subscribes on the same connection).

    order of checks      configured (LOADING), not myself, read access to the universe, registration allowed, a WAL
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.net.stream import RowStream, error_row
from box.replication.relay import Relay, injected, send_range, send_read_view
from box.schema.access import Privilege, check_universe
from box.schema.ids import SpaceId
from box.wire import messages
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.journal.gc import Consumer
    from box.replication.replicaset import Replica
    from box.replication.setup import Replication
    from box.session import Context


class ReplicationService:
    """Serves one connection at a time through `serve`; one object for the node."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._node = replication.node
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        """Answer `row` and the requests that follow it until the connection ends."""
        # A task of its own: the binary server starts requests without one.
        task = self._node.loop.create_task(self._serve(ctx, stream, row, peer), name=f"replication/{peer}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await task

    async def _serve(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        try:
            while True:
                if not await self._answer(ctx, stream, row, peer):
                    return
                row = await stream.read_row()
        except BoxError:
            # The other side has gone.
            return
        finally:
            stream.close()

    async def stop(self) -> None:
        """Break off all streams."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> bool:
        """Handle one request; False if the connection must end."""
        try:
            match row.type:
                case RequestType.VOTE:
                    stream.write_rows([Row(RequestType.OK, sync=row.sync, body=self._replication.ballot().encode())])
                case RequestType.PING:
                    stream.write_rows([Row(RequestType.OK, sync=row.sync)])
                case RequestType.JOIN:
                    await self._join(ctx, stream, row, peer)
                case RequestType.FETCH_SNAPSHOT:
                    await self._fetch_snapshot(ctx, stream, row, peer)
                case RequestType.REGISTER:
                    await self._register(ctx, stream, row, peer)
                case RequestType.SUBSCRIBE:
                    await self._subscribe(ctx, stream, row, peer)
                case _:
                    raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)
        except BoxError as error:
            if stream.is_closed:
                return False
            self._node.log.error(error.log_text)
            stream.write_rows([error_row(error, row.sync)])
            return row.type != RequestType.SUBSCRIBE
        return True

    # -- checks -------------------------------------------------------------------------------------

    def _check(self, ctx: Context, uuid: UUID | None = None) -> None:
        if not self._replication.is_configured:
            raise client_error(ErrorCode.LOADING)
        if uuid is not None and uuid == self._replication.instance_uuid:
            raise client_error(ErrorCode.CONNECTION_TO_SELF)
        check_universe(ctx.credentials, Privilege.R)

    def _check_registration(self, ctx: Context) -> None:
        self._replication.check_writable()
        self._node.schema.space(SpaceId.CLUSTER).check_access(ctx.credentials, Privilege.W)

    def _check_journal(self) -> None:
        if self._node.config["wal_mode"] == "none":
            raise unsupported("Replication", "wal_mode = 'none'")

    # -- requests -----------------------------------------------------------------------------------

    async def _join(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        uuid = _instance_uuid(messages.decode_replication(row))
        self._check(ctx, uuid)
        replica = self._replication.replicaset.by_uuid.get(uuid)
        if replica is None or replica.id == 0:
            self._check_registration(ctx)
        self._check_journal()
        node = self._node
        consumer = node.checkpoints.register_consumer(f"replica {uuid}", node.vclock)
        try:
            node.log.info(f"joining replica {uuid} at {peer}")
            start = await self._send_read_view(stream, row.sync)
            node.log.info("initial data sent.")
            await self._replication.register_replica(uuid)
            await node.errinj.wait_until_off("ERRINJ_REPLICA_JOIN_DELAY")
            stop = node.vclock.copy()
            stream.write_rows([messages.vclock_row(stop, sync=row.sync)])
            await self._send_final(stream, start, stop)
            stream.write_rows([messages.vclock_row(node.vclock, sync=row.sync)])
            consumer.advance(stop)
        except BaseException:
            consumer.close()
            raise
        self._adopt_consumer(uuid, consumer)

    async def _send_final(self, stream: RowStream, start: VClock, stop: VClock) -> None:
        node = self._node
        await send_range(node.journal, stream, start, stop, node.errinj)
        node.log.info("final data sent.")
        injected(node.errinj, "ERRINJ_RELAY_FINAL_JOIN", "relay final join")
        if node.errinj.values["ERRINJ_RELAY_FINAL_SLEEP"]:
            while node.vclock == stop:  # noqa: ASYNC110 - an injection
                await asyncio.sleep(0.001)

    def _adopt_consumer(self, uuid: UUID, consumer: Consumer) -> None:
        replica = self._replication.replicaset.member(uuid)
        if replica.consumer is not None:
            replica.consumer.close()
        replica.consumer = consumer

    async def _send_read_view(self, stream: RowStream, sync: int) -> VClock:
        """A consistent view of all replicated spaces; what it holds is confirmed and in the journal."""
        spaces = self._replication.open_read_view()
        # Without a switch in between: the vclock covers exactly what the view shows.
        vclock: VClock = await self._node.journal.sync()
        await self._node.synchro.wait_confirm()
        await send_read_view(stream, sync, vclock, spaces)
        return vclock

    async def _fetch_snapshot(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        self._check(ctx)
        self._check_journal()
        self._node.log.info(f"sending current read-view to replica at {peer}")
        vclock = await self._send_read_view(stream, row.sync)
        self._node.log.info("read-view sent.")
        stream.write_rows([messages.vclock_row(vclock, sync=row.sync)])

    async def _register(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        request = messages.decode_replication(row)
        uuid, vclock = _instance_uuid(request), (request.vclock or VClock()).copy()
        self._check(ctx, uuid)
        replica = self._replication.replicaset.by_uuid.get(uuid)
        if replica is not None and replica.id != 0:
            raise client_error(ErrorCode.REPLICA_NOT_ANON, str(uuid))
        self._check_registration(ctx)
        self._check_journal()
        node = self._node
        vclock.reset(0, node.vclock[0])
        consumer = node.checkpoints.register_consumer(f"replica {uuid}", vclock)
        try:
            node.log.info(f"registering replica {uuid} at {peer}")
            await self._replication.register_replica(uuid)
            await node.errinj.wait_until_off("ERRINJ_REPLICA_JOIN_DELAY")
            stop = node.vclock.copy()
            await self._send_final(stream, vclock, stop)
            stream.write_rows([messages.vclock_row(node.vclock, sync=row.sync)])
            consumer.advance(stop)
        except BaseException:
            consumer.close()
            raise
        self._adopt_consumer(uuid, consumer)

    async def _subscribe(self, ctx: Context, stream: RowStream, row: Row, peer: str) -> None:
        request = messages.decode_replication(row)
        uuid = _instance_uuid(request)
        self._check(ctx, uuid)
        node, replication = self._node, self._replication
        if node.config["replication_anon"] and not request.anon:
            raise unsupported("Anonymous replica", "non-anonymous followers.")
        replica = self._subscriber(uuid, request)
        self._check_journal()
        answer = messages.subscribe_response_row(replication.replicaset_uuid, node.vclock, row.sync)
        answer.replica_id = replication.instance_id
        stream.write_rows([answer])
        node.log.info(f"subscribed replica {uuid} at {peer}")
        node.log.info(f"remote vclock {request.vclock} local vclock {node.vclock}")
        start = (request.vclock or VClock()).copy()
        start.reset(0, node.vclock[0])
        self._keep_rows(replica, start)
        try:
            await self._run_relay(stream, replica, start, request.id_filter)
        finally:
            replication.replicaset.forget(replica)

    def _keep_rows(self, replica: Replica, vclock: VClock) -> None:
        """A member that did not join here since the start tells now which rows it needs."""
        if replica.consumer is None and not replica.is_anonymous:
            checkpoints = self._node.checkpoints
            replica.consumer = checkpoints.register_consumer(f"replica {replica.uuid}", vclock)
            checkpoints.collector.delay_unref()

    def _subscriber(self, uuid: UUID, request: messages.ReplicationRequest) -> Replica:
        replicaset = self._replication.replicaset
        replica = replicaset.by_uuid.get(uuid)
        is_registered = replica is not None and replica.id != 0
        if not request.anon and not is_registered:
            raise client_error(ErrorCode.TOO_EARLY_SUBSCRIBE, str(uuid))
        if request.anon and is_registered:
            text = "Can't subscribe an anonymous replica having an ID assigned"
            raise client_error(ErrorCode.PROTOCOL, text)
        if replica is None:
            replica = replicaset.member(uuid)
            replica.is_anonymous = True
        if replica.relay is not None and replica.relay.is_following:
            text = "duplicate connection with the same replica UUID"
            raise client_error(ErrorCode.CFG, "replication", text)
        return replica

    async def _run_relay(self, stream: RowStream, replica: Replica, start: VClock, id_filter: frozenset[int]) -> None:
        relay = replica.relay = Relay(self._replication, self._node.loop, replica)
        try:
            await relay.subscribe(stream, start, id_filter)
        finally:
            if replica.id:
                self._node.synchro.forget_follower(replica.id)


def _instance_uuid(request: messages.ReplicationRequest) -> UUID:
    if request.instance_uuid is None:
        raise client_error(ErrorCode.MISSING_REQUEST_FIELD, "instance uuid")
    return request.instance_uuid
