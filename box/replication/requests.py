"""The server's side of replication: serves VOTE, JOIN, FETCH_SNAPSHOT, REGISTER and SUBSCRIBE of other instances.

The binary server hands over a connection for the duration of such a request. Afterwards it serves other requests on it
again, even if the request was refused: a joining instance subscribes on the same connection. Meanwhile nothing is read
from the connection but the acknowledgements of a subscriber. SUBSCRIBE ends with the connection.

The checks of each request, in their order:

```
JOIN            body, LOADING, not itself, read access to the universe, registration allowed, a journal
FETCH_SNAPSHOT  LOADING, read access to the universe, a journal
REGISTER        body, LOADING, not itself, read access to the universe, no id yet, registration allowed, a journal
SUBSCRIBE       LOADING, body, not itself, an anonymous instance serves only anonymous ones, read access to the
                universe, the replica's id, no other subscription of it, a journal
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.journal.gc import Consumer, GarbageCollector
from box.log import Log
from box.net.peer_connection import DetachedSocket, PeerConnection
from box.replication.elections import Elections
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.registration import Registration
from box.replication.relay import Relay, injected, send_range, send_read_view
from box.replication.replicaset import Replica, ReplicaSet
from box.replication.white_list import WhiteList
from box.schema.access import Privilege, check_universe
from box.session import Context, Session
from box.txn.open_definitions import open_when_possible
from box.wire import messages
from box.wire.ballot import Ballot
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.tarantool_version import VERSION_ID
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.index.view import TupleView
    from box.journal.journal import Journal
    from box.txn.synchro import LimboDriver

ReadView = list[tuple[bytes, "TupleView"]]
"""For each replicated space the bytes of a row's body before the tuple, and a view of the tuples."""


class ClientConnection(Protocol):
    """A connection of the binary server whose socket can be handed over."""

    @property
    def ctx(self) -> Context: ...

    @property
    def session(self) -> Session: ...

    def detach(self) -> DetachedSocket:
        """Hand over the socket with its unread bytes."""

    def attach(self, detached: DetachedSocket) -> None:
        """Take the socket back."""


class ReplicaRequests:
    """The server of an instance's replication requests; `handle` serves one request.

    `open_read_view` returns the data for a joining replica, including changes on their way to the journal. It does not
    switch tasks, so that the view is consistent. `clock` returns seconds since the epoch.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        options: ReplicationOptions,
        replicaset: ReplicaSet,
        registration: Registration,
        elections: Elections,
        *,
        open_read_view: Callable[[], ReadView],
        collector: GarbageCollector,
        synchro: LimboDriver,
        clock: Callable[[], float],
        log: Log,
        errinj: ErrorInjections,
    ) -> None:
        self.loop = loop
        self.instance = instance
        self.options = options
        self.now = clock
        self.log = log
        self.errinj = errinj
        self.open_journal: Journal | None = None
        """The open journal; None before recovery ends."""
        self._replicaset = replicaset
        self._registration = registration
        self._elections = elections
        self._open_read_view = open_read_view
        self._collector = collector
        self._synchro = synchro
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def journal(self) -> Journal:
        """The open journal, the source of the rows.

        Raises:
            ClientError: LOADING, it is not open yet.
        """
        if self.open_journal is None:
            raise client_error(ErrorCode.LOADING)
        return self.open_journal

    def ballot(self) -> Ballot:
        """Return the answer to VOTE."""
        return Ballot(
            is_ro=self.options.is_read_only,
            is_loading=self.instance.is_read_only,
            is_anon=self.options.is_anonymous,
            vclock=self.instance.vclock.copy(),
            gc_vclock=self._collector.vclock.copy(),
        )

    async def handle(self, client: ClientConnection, row: Row) -> None:
        """Serve a JOIN, SUBSCRIBE, REGISTER or FETCH_SNAPSHOT request of a client of the binary server.

        The client gets its connection back unless it was lost meanwhile.

        Raises:
            BoxError: the error that the caller sends as the answer, or the end of the connection.
        """
        connection = PeerConnection(self.loop, keeps_rows=True)
        connection.take_over(client.detach())
        peer = client.session.peer or ""
        # The request needs a task that `stop` can cancel; the binary server starts requests without one.
        task = self.loop.create_task(self._answer(client.ctx, connection, row, peer), name=f"replication/{peer}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        try:
            await task
        except BoxError as error:
            self.log.problem(error)
            raise
        finally:
            if connection.error is None:
                client.attach(connection.give_back())

    async def stop(self) -> None:
        """Cancel all requests and streams, and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, ctx: Context, connection: PeerConnection, row: Row, peer: str) -> None:
        match row.type:
            case RequestType.JOIN:
                await self._join(ctx, connection, row, peer)
            case RequestType.FETCH_SNAPSHOT:
                await self._fetch_snapshot(ctx, connection, row, peer)
            case RequestType.REGISTER:
                await self._register(ctx, connection, row, peer)
            case RequestType.SUBSCRIBE:
                await self._subscribe(ctx, connection, row, peer)
            case _:
                raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)

    # -- checks -------------------------------------------------------------------------------------

    def _check(self, ctx: Context, uuid: UUID) -> None:
        self._check_configured()
        self._check_not_self(uuid)
        check_universe(ctx.credentials, Privilege.R)

    def _check_configured(self) -> None:
        if not self.instance.is_configured:
            raise client_error(ErrorCode.LOADING)

    def _check_not_self(self, uuid: UUID) -> None:
        if uuid == self.instance.instance_uuid:
            raise client_error(ErrorCode.CONNECTION_TO_SELF)

    def _check_journal(self) -> None:
        if not self.options.has_journal:
            raise unsupported("Replication", "wal_mode = 'none'")

    # -- requests -----------------------------------------------------------------------------------

    async def _join(self, ctx: Context, connection: PeerConnection, row: Row, peer: str) -> None:
        request = messages.decode_replication(row, messages.JOIN_KEYS)
        uuid = _instance_uuid(request)
        self._check(ctx, uuid)
        replica = self._replicaset.by_uuid.get(uuid)
        if replica is None or replica.id == 0:
            self._registration.check(ctx)
        self._check_journal()
        consumer = self._collector.register_consumer(f"replica {uuid}", self.instance.vclock)
        try:
            self.log.info(f"joining replica {uuid} at {peer}")
            start = await self._send_read_view(connection, row.sync, has_metadata=request.version_id > 0)
            self.log.info("initial data sent.")
            await self._admit(connection, row.sync, uuid, start, consumer, tells_stop=True)
        except BaseException:
            consumer.close()
            raise
        self._adopt_consumer(uuid, consumer)

    async def _admit(
        self,
        connection: PeerConnection,
        sync: int,
        uuid: UUID,
        start: VClock,
        consumer: Consumer,
        *,
        tells_stop: bool,
    ) -> None:
        """Register a replica, and send it the rows from `start` to its registration, then the vclock.

        With `tells_stop` the vclock of the last of these rows comes before them, too.
        """
        await self._registration.register(uuid)
        await self.errinj.wait_until_off("ERRINJ_REPLICA_JOIN_DELAY")
        stop = self.instance.vclock.copy()
        if tells_stop:
            connection.write_rows([messages.vclock_row(stop, sync=sync)])
        await self._send_final(connection, sync, start, stop)
        connection.write_rows([messages.vclock_row(self.instance.vclock, sync=sync)])
        consumer.advance(stop)

    async def _send_final(self, connection: PeerConnection, sync: int, start: VClock, stop: VClock) -> None:
        await send_range(self.journal, connection, sync, start, stop, self.errinj)
        self.log.info("final data sent.")
        injected(self.errinj, "ERRINJ_RELAY_FINAL_JOIN", "relay final join")
        if self.errinj.values["ERRINJ_RELAY_FINAL_SLEEP"]:
            while self.instance.vclock == stop:  # noqa: ASYNC110 - an injection
                await asyncio.sleep(0.001)

    def _adopt_consumer(self, uuid: UUID, consumer: Consumer) -> None:
        replica = self._replicaset.member(uuid)
        if replica.consumer is not None:
            replica.consumer.close()
        replica.consumer = consumer

    async def _send_read_view(self, connection: PeerConnection, sync: int, *, has_metadata: bool = False) -> VClock:
        """Send a consistent view of all replicated spaces and return its vclock.

        All its changes are confirmed and in the journal. With `has_metadata` the elections' term and the limbo's owner
        at the moment of the view are sent as well, for replicas that know such rows.
        """
        spaces = await open_when_possible(self._open_read_view)
        # No task switch until `sync` has queued its mark: so the vclock covers exactly the changes in the view.
        try:
            metadata: list[Row] = []
            # The metadata are taken at the mark: a later promotion is sent again as a row, which the replica would
            # ignore if the metadata contained it already.
            vclock: VClock = await self.journal.sync(lambda: metadata.extend(self._elections.metadata()))
            await self._synchro.wait_confirm()
            metadata = [replace(row, sync=sync) for row in metadata if has_metadata]
            await self.errinj.wait_until_off("ERRINJ_RELAY_SEND_DELAY")
            await send_read_view(connection, sync, vclock, spaces, metadata)
        finally:
            for _, view in spaces:
                view.close()
        return vclock

    async def _fetch_snapshot(self, ctx: Context, connection: PeerConnection, row: Row, peer: str) -> None:
        self._check_configured()
        check_universe(ctx.credentials, Privilege.R)
        self._check_journal()
        self.log.info(f"sending current read-view to replica at {peer}")
        vclock = await self._send_read_view(connection, row.sync)
        self.log.info("read-view sent.")
        connection.write_rows([messages.vclock_row(vclock, sync=row.sync)])

    async def _register(self, ctx: Context, connection: PeerConnection, row: Row, peer: str) -> None:
        request = messages.decode_replication(row, messages.REGISTER_KEYS)
        uuid, vclock = _instance_uuid(request), (request.vclock or VClock()).copy()
        self._check(ctx, uuid)
        replica = self._replicaset.by_uuid.get(uuid)
        if replica is not None and replica.id != 0:
            raise client_error(ErrorCode.REPLICA_NOT_ANON, str(uuid))
        self._registration.check(ctx)
        self._check_journal()
        vclock.reset(0, self.instance.vclock[0])
        consumer = self._collector.register_consumer(f"replica {uuid}", vclock)
        try:
            self.log.info(f"registering replica {uuid} at {peer}")
            await self._admit(connection, row.sync, uuid, vclock, consumer, tells_stop=False)
        except BaseException:
            consumer.close()
            raise
        self._adopt_consumer(uuid, consumer)

    async def _subscribe(self, ctx: Context, connection: PeerConnection, row: Row, peer: str) -> None:
        self._check_configured()
        request = messages.decode_replication(row, messages.SUBSCRIBE_KEYS)
        uuid = _instance_uuid(request)
        self._check_not_self(uuid)
        if self.options.is_anonymous and not request.anon:
            raise unsupported("Anonymous replica", "non-anonymous followers.")
        check_universe(ctx.credentials, Privilege.R)
        replica = self._subscriber(uuid, request)
        try:
            self._check_journal()
            await self._follow(connection, row, peer, replica, request)
        finally:
            self._replicaset.forget(replica)

    async def _follow(
        self,
        connection: PeerConnection,
        row: Row,
        peer: str,
        replica: Replica,
        request: messages.ReplicationRequest,
    ) -> None:
        """Answer a subscription, then send rows until the connection ends."""
        white_list = self._white_list(replica, request)
        here = self.instance
        answer = messages.subscribe_response_row(here.replicaset_uuid, here.vclock, row.sync)
        answer.replica_id = here.instance_id
        connection.write_rows([answer])
        self.log.info(f"subscribed replica {replica.uuid} at {peer}")
        self.log.info(f"remote vclock {request.vclock} local vclock {here.vclock}")
        if self._elections.raft.is_enabled:
            # Without elections nothing is sent: the replica may have a version that does not know this message.
            connection.write_rows([messages.raft_row(self._elections.raft.remote_state())])
        start = (request.vclock or VClock()).copy()
        start.reset(0, here.vclock[0])
        self._keep_rows(replica, start)
        connection.start_reading()
        uuid = _instance_uuid(request)
        relay = replica.relay = Relay(self, uuid, replica.id, lambda vclock, term: self._on_ack(replica, vclock, term))
        try:
            await relay.subscribe(
                connection, start, request.id_filter, row.sync, white_list, request.version_id or VERSION_ID
            )
        finally:
            self.log.crit("exiting the relay loop")
            if replica.id:
                self._synchro.forget_follower(replica.id)

    def _white_list(self, replica: Replica, request: messages.ReplicationRequest) -> WhiteList | None:
        """Return the white list of a subscription, or None if it asks for everything.

        Raises:
            ClientError: CFG, none of the wanted origins is registered here; the subscriber tries again or asks for
                others.
        """
        if request.fetch is None:
            return None
        strangers = request.fetch - set(self._replicaset.uuids().values())
        if strangers == request.fetch:
            text = f"none of the wanted replicas is registered: {', '.join(sorted(map(str, strangers)))}"
            raise client_error(ErrorCode.CFG, "replication_fetch_once", text)
        for uuid in sorted(strangers, key=str):
            self.log.warn(f"replica {replica.uuid} wants rows of {uuid}, which is not registered here yet")
        return WhiteList(
            request.fetch,
            request.id_filter,
            self._replicaset.uuids,
            subscriber_id=replica.id,
        )

    def _keep_rows(self, replica: Replica, vclock: VClock) -> None:
        """Protect the rows after `vclock` from the garbage collector, for a member without a consumer.

        A member that has not joined here since the start shows only by its subscription which rows it needs.
        """
        if replica.consumer is None and not replica.is_anonymous:
            replica.consumer = self._collector.register_consumer(f"replica {replica.uuid}", vclock)
            self._collector.delay_unref()

    def _subscriber(self, uuid: UUID, request: messages.ReplicationRequest) -> Replica:
        replicaset = self._replicaset
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

    def _on_ack(self, replica: Replica, vclock: VClock, term: int) -> None:
        # The term comes first: if it is later than ours, this instance must not count the acknowledged rows as kept.
        self._elections.hear_term(term)
        # Anonymous replicas acknowledge as well; they share id 0 and so count as one.
        self._synchro.on_ack(replica.id, vclock)
        if replica.consumer is not None:
            replica.consumer.advance(vclock)


def _instance_uuid(request: messages.ReplicationRequest) -> UUID:
    """Return the uuid of a request's sender, or the nil uuid, which no member has."""
    return request.instance_uuid or UUID(int=0)
