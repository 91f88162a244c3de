"""The applier: fetches another instance's rows and applies them here (states in `box.replication.state`).

`start` connects in the background and stops at CONNECTED, when the peer has told its uuid and its ballot, so that the
node can look at all its peers before it decides whom to join or that it follows them. `bootstrap` joins the peer and
stops at READY; `resume` lets the applier subscribe. After an error the applier tries again every
`replication_timeout` seconds, unless the error is one that only a person resolves (STOPPED).

Rows of one transaction are applied together, in the origin's order (see `box.replication.row_sink`); a transaction's
journal write is not waited for, except CONFIRM, ROLLBACK and PROMOTE.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.journal.recovery import follow
from box.log import Log
from box.net.dial import address_of, open_connection, require_binary
from box.net.peer_connection import PeerConnection, raise_if_error
from box.net.uri import check
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.state import ApplierState
from box.wire import messages
from box.wire.ballot import Ballot
from box.wire.constants import DML_TYPES, TYPE_ERROR, RequestType
from box.wire.row import Row
from box.wire.vclock import VCLOCK_MAX, VClock

if TYPE_CHECKING:
    from box.errinj import ErrorInjections
    from box.session import Context

_LOADING_ERRORS = frozenset(
    {
        ErrorCode.ACCESS_DENIED,
        ErrorCode.CFG,
        ErrorCode.LOADING,
        ErrorCode.NO_SUCH_USER,
        ErrorCode.PASSWORD_MISMATCH,
        ErrorCode.SYNC_QUORUM_TIMEOUT,
        ErrorCode.SYNC_ROLLBACK,
        ErrorCode.TOO_EARLY_SUBSCRIBE,
        ErrorCode.XLOG_GAP,
    }
)
"""The peer is not ready for us, or its configuration must change first: state LOADING, tried again."""

_RECONNECT_ERRORS = frozenset({ErrorCode.SYSTEM})
_WHILE = {
    ApplierState.CONNECT: "can't connect to master",
    ApplierState.CONNECTED: "can't join/subscribe",
    ApplierState.READY: "can't join/subscribe",
    ApplierState.AUTH: "failed to authenticate",
    ApplierState.SYNC: "can't read row",
    ApplierState.FOLLOW: "can't read row",
    ApplierState.INITIAL_JOIN: "can't read row",
    ApplierState.FINAL_JOIN: "can't read row",
}
_APPLYING = (ApplierState.REGISTER, ApplierState.SYNC, ApplierState.FOLLOW)
"""The states in which rows go to the journal."""
_ROWS_PER_LOG = 100_000
_ROWS_PER_TURN = 256
"""Rows applied before other tasks of the tx thread get their turn."""
_SLOW_ACK = 0.01
"""Seconds that ERRINJ_APPLIER_SLOW_ACK waits after each acknowledgement."""


class ApplierHost(Protocol):
    """The part of an instance that its appliers share."""

    loop: asyncio.AbstractEventLoop
    instance: LocalInstance
    options: ReplicationOptions
    log: Log
    errinj: ErrorInjections

    @property
    def sink(self) -> TransactionSink: ...

    @property
    def journal(self) -> AppliedJournal | None: ...

    @property
    def is_orphan(self) -> bool: ...

    @property
    def now(self) -> Callable[[], float]:
        """Seconds since the epoch."""

    def applier_context(self) -> Context: ...

    async def close_context(self, ctx: Context) -> None: ...

    def on_applier_connect(self, applier: Applier) -> None: ...

    def on_applier_state(self, applier: Applier) -> None: ...


class TransactionSink(Protocol):
    """Takes the transactions that an applier has read."""

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply a transaction if that needs no wait; otherwise False, and nothing has happened."""

    async def apply(self, ctx: Context, rows: list[Row]) -> None: ...


class AppliedJournal(Protocol):
    """The journal as appliers see it: a queue that may be full."""

    @property
    def queue_size(self) -> int: ...

    @property
    def queue_max_size(self) -> int: ...

    async def wait_for_space(self) -> None: ...

    async def sync(self) -> object:
        """Return when what was applied so far is written."""


@dataclass(slots=True)
class Bootstrap:
    """A join in progress: rows of the peer's snapshot go to `add_rows`, then their vclock to `finish`."""

    add_rows: Callable[[list[Row]], None]
    finish: Callable[[VClock], None]
    done: asyncio.Future[None]
    has_rows: bool = field(default=False)
    """Something was received: the join cannot begin anew."""


class Applier:
    """One source of `box.cfg.replication`."""

    def __init__(self, host: ApplierHost, uri: str) -> None:
        self.host = host
        self.ctx = host.applier_context()
        self.uri = uri
        self.address = address_of(uri)
        """Without user and password, for the log."""
        self.state = ApplierState.OFF
        self.ballot = Ballot()
        self.uuid: UUID | None = None
        self.peer_id = 0
        self.error: BoxError | None = None
        self.lag = math.inf
        self.last_row_time = host.loop.time()
        self._loop = host.loop
        self._task: asyncio.Task[None] | None = None
        self._stream: PeerConnection | None = None
        self._version = 0
        self._bootstrap: Bootstrap | None = None
        self._may_go_on = asyncio.Event()
        self._may_subscribe = asyncio.Event()
        self._connected = asyncio.Event()
        self._ack_wanted = asyncio.Event()
        self._remote_vclock = VClock()
        self._logged_code: int | None = None
        self._fatal: BoxError | None = None

    def __repr__(self) -> str:
        return f"<Applier {self.address} {self.state.name}>"

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; nothing happens if the applier runs already."""
        if self._task is None or self._task.done():
            self._fatal = None
            self._task = self._loop.create_task(self._run(), name=f"applier/{self.address}")

    def resume(self) -> None:
        """Let the applier subscribe; starts it if it does not run."""
        self._may_subscribe.set()
        self._may_go_on.set()
        self.start()

    async def bootstrap(self, add_rows: Callable[[list[Row]], None], finish: Callable[[VClock], None]) -> None:
        """Join the peer, which must be CONNECTED, or fetch its snapshot as an anonymous replica; then stop at READY.

        A peer that is not ready (LOADING) is asked again and again. Raises what ends the join for good.
        """
        self._bootstrap = Bootstrap(add_rows, finish, self._loop.create_future())
        self._may_go_on.set()
        self.start()
        await self._bootstrap.done

    async def stop(self) -> None:
        """Cancel and wait; the state is OFF afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._disconnect(ApplierState.OFF)

    async def close(self) -> None:
        """Stop for good."""
        await self.stop()
        await self.host.close_context(self.ctx)

    def fail(self, error: BoxError) -> None:
        """Stop with this error if the applier applies rows: one could not be written to the journal."""
        if self._task is not None and self.state in _APPLYING:
            self._fatal = error
            self._task.cancel()

    @property
    def is_connected(self) -> bool:
        """The peer has answered, and nothing has gone wrong since."""
        return self._connected.is_set()

    @property
    def is_self(self) -> bool:
        """The source leads to this very instance."""
        return self.uuid == self.host.instance.instance_uuid

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def wait_connected(self) -> None:
        """Until the peer has answered or the applier has given up."""
        connected = asyncio.ensure_future(self._connected.wait())
        waits = {connected} if self._task is None else {connected, self._task}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()

    def _set_state(self, state: ApplierState) -> None:
        self.state = state
        self.host.log.debug(f"=> {state.name}")
        self.host.on_applier_state(self)

    # -- the reconnect loop -------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._connect()
                    await self._may_go_on.wait()
                    await self._authenticate()
                    await self._join()
                    await self._may_subscribe.wait()
                    await self._register()
                    await self._subscribe()
                except BoxError as error:
                    if not self._handle(error):
                        return
                await asyncio.sleep(self.host.options.timeout)
        except asyncio.CancelledError:
            if self._fatal is None:
                self._disconnect(ApplierState.OFF)
                raise
            self.error = self._fatal
            self._disconnect(ApplierState.STOPPED)
        except Exception as error:
            self.host.log.crit(f"applier {self.address}: unexpected error: {error!r}")
            self.error = BoxError(ErrorCode.UNKNOWN, repr(error))
            self._disconnect(ApplierState.STOPPED)
        finally:
            self._end_bootstrap(self.error or client_error(ErrorCode.CFG, "replication", "the join was cancelled"))

    def _handle(self, error: BoxError) -> bool:
        """Report an error; True if the applier tries again."""
        if error.code == ErrorCode.CONNECTION_TO_SELF and self.is_self:
            self._disconnect(ApplierState.OFF)
            # It has answered, and a source that is this instance counts as connected and in sync.
            self._connected.set()
            return False
        self.error = error
        self._log_error(error)
        if self._bootstrap is not None and self._bootstrap.has_rows:
            self._disconnect(ApplierState.STOPPED)
            return False
        if error.code in _LOADING_ERRORS:
            self._disconnect(ApplierState.LOADING)
        elif error.code in _RECONNECT_ERRORS:
            self._disconnect(ApplierState.DISCONNECTED)
        else:
            self._disconnect(ApplierState.STOPPED)
            return False
        return True

    def _end_bootstrap(self, error: BoxError | None) -> None:
        bootstrap, self._bootstrap = self._bootstrap, None
        if bootstrap is None or bootstrap.done.done():
            return
        if error is None:
            bootstrap.done.set_result(None)
        else:
            bootstrap.done.set_exception(error)

    def _log_error(self, error: BoxError) -> None:
        if error.code == self._logged_code:
            return
        self._logged_code = error.code
        log = self.host.log
        if self.state in _WHILE:
            log.info(_WHILE[self.state])
        log.error(error.log_text)
        if error.code in _LOADING_ERRORS | _RECONNECT_ERRORS:
            log.info(f"will retry every {self.host.options.timeout:.2f} second")

    def _disconnect(self, state: ApplierState) -> None:
        self._connected.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self.state is not state:
            self._set_state(state)

    async def _connect(self) -> None:
        self._set_state(ApplierState.CONNECT)
        check(self.uri, "replication")
        self._stream = await open_connection(self._loop, self.uri, self._patience, keeps_rows=True)
        self._touch()
        greeting = self._stream.greeting
        require_binary(greeting, "Unsupported protocol for replication")
        if self._version != greeting.version_id:
            self._version = greeting.version_id
            text = f"remote master {greeting.uuid} at {self.address} running Tarantool {greeting.version}"
            self.host.log.info(text)
        self.uuid, self.error = greeting.uuid, None
        await self._fetch_ballot(self._stream)
        self._set_state(ApplierState.CONNECTED)
        self.host.on_applier_connect(self)
        if self.is_self:
            raise client_error(ErrorCode.CONNECTION_TO_SELF)
        self._connected.set()

    async def _fetch_ballot(self, stream: PeerConnection) -> None:
        try:
            answer = await stream.request(messages.vote_row(), timeout=self._patience)
        except BoxError as error:
            # Versions before 1.10 do not know this request; they take part without a ballot.
            if error.code != ErrorCode.UNKNOWN_REQUEST_TYPE:
                raise
        else:
            self.ballot = Ballot.decode(answer.body)
        self._touch()

    async def _authenticate(self) -> None:
        """Not before the applier goes on: an instance that recovers does not know its users yet, but its ballot."""
        uri = check(self.uri, "replication")
        if uri.login is not None:
            self._set_state(ApplierState.AUTH)
            await self._connection.authenticate(uri.login, uri.password or "", timeout=self._patience)
            self._touch()
            self.host.log.info("authenticated")
        self._set_state(ApplierState.READY)

    def _touch(self) -> None:
        self.last_row_time = self._loop.time()

    async def _read_row(self) -> Row:
        row = await self._connection.read_row(self._patience)
        self._touch()
        return row

    @property
    def _connection(self) -> PeerConnection:
        if self._stream is None:
            raise AssertionError("the applier is not connected")
        return self._stream

    @property
    def _journal(self) -> AppliedJournal:
        if self.host.journal is None:
            raise AssertionError("the instance has not started")
        return self.host.journal

    @property
    def _patience(self) -> float:
        """Seconds that the peer may take for an answer before it sends rows: it may be busy with other things then."""
        return max(self._silence, self.host.options.connect_timeout)

    @property
    def _silence(self) -> float:
        """Seconds without a row after which the peer counts as gone."""
        return self.host.options.timeout * 4

    # -- joining ------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Do what `bootstrap` has asked for, if anything."""
        bootstrap = self._bootstrap
        if bootstrap is None:
            return
        if self.host.options.is_anonymous:
            self._connection.write_rows([messages.fetch_snapshot_row()])
            self._set_state(ApplierState.FETCH_SNAPSHOT)
            await self._receive_snapshot(bootstrap)
            self._set_state(ApplierState.FETCHED_SNAPSHOT)
        else:
            self._connection.write_rows([messages.join_row(self.host.instance.instance_uuid)])
            self._set_state(ApplierState.INITIAL_JOIN)
            await self._receive_snapshot(bootstrap)
            self.host.log.info("initial data received")
            self._set_state(ApplierState.FINAL_JOIN)
            await self._receive_final_rows()
            self.host.log.info("final data received")
            self._set_state(ApplierState.JOINED)
        self._set_state(ApplierState.READY)
        self._end_bootstrap(None)

    async def _receive_snapshot(self, bootstrap: Bootstrap) -> None:
        answer = await self._connection.read_row()
        expect_ok(answer)
        vclock = messages.decode_vclock(answer)
        bootstrap.has_rows = True
        count = 0
        while True:
            rows = await self._connection.read_rows()
            self._touch()
            end = next((i for i, row in enumerate(rows) if row.type not in DML_TYPES), len(rows))
            bootstrap.add_rows(rows[:end])
            if (count + end) // _ROWS_PER_LOG > count // _ROWS_PER_LOG:
                self.host.log.info(f"{(count + end) / 1e6:.1f}M rows received")
            count += end
            if end < len(rows):
                self._connection.put_back(rows[end + 1 :])
                expect_ok(rows[end])
                bootstrap.finish(vclock)
                return

    async def _register(self) -> None:
        """Ask the peer for a place in `_cluster` when an anonymous replica has become a member of the replica set."""
        if self.host.instance.instance_id != 0 or self.host.options.is_anonymous:
            return
        self._connection.write_rows(
            [messages.register_row(self.host.instance.instance_uuid, self.host.instance.vclock)]
        )
        self._set_state(ApplierState.REGISTER)
        await self._receive_final_rows()
        await self._journal.sync()
        self._set_state(ApplierState.REGISTERED)
        self._set_state(ApplierState.READY)

    async def _receive_final_rows(self) -> None:
        transaction: list[Row] = []
        reached = self.host.instance.vclock.copy()
        while True:
            row = await self._connection.read_row()
            self._touch()
            check_next_row(transaction, row, self.host.instance.replicaset_uuid)
            if row.type == RequestType.OK:
                return
            transaction.append(row)
            if row.is_commit:
                follow(reached, row)
                await self.host.sink.apply(self.ctx, transaction)
                transaction = []

    # -- following ----------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        host, stream = self.host, self._connection
        here, vclock = host.instance, host.instance.vclock.copy()
        # Rows of our own that come back are unwanted once we write ourselves.
        own_id = frozenset() if host.is_orphan or not here.instance_id else frozenset({here.instance_id})
        request = messages.subscribe_row(
            here.replicaset_uuid, here.instance_uuid, vclock, anon=host.options.is_anonymous, id_filter=own_id
        )
        stream.write_rows([request])
        answer = await self._read_row()
        expect_ok(answer)
        response = messages.decode_replication(answer)
        cluster_uuid, self._remote_vclock = response.replicaset_uuid, response.vclock or VClock()
        self.peer_id = answer.replica_id
        if cluster_uuid is not None and cluster_uuid != here.replicaset_uuid:
            raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, str(cluster_uuid), str(here.replicaset_uuid))
        host.log.info("subscribed")
        host.log.info(f"remote vclock {self._remote_vclock} local vclock {vclock}")
        self._set_state(ApplierState.SYNC)
        self._logged_code = None
        self.lag = math.inf
        writer = self._loop.create_task(self._write_acks(stream), name=f"applierw/{self.address}")
        try:
            await self._follow(stream)
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _follow(self, stream: PeerConnection) -> None:
        transaction: list[Row] = []
        while True:
            rows = await stream.read_rows(self._silence)
            self._touch()
            for start in range(0, len(rows), _ROWS_PER_TURN):
                if start:
                    await asyncio.sleep(0)
                transaction = await self._take_rows(transaction, rows[start : start + _ROWS_PER_TURN])

    async def _take_rows(self, transaction: list[Row], rows: list[Row]) -> list[Row]:
        """Apply the transactions that `rows` complete; the rows of the last, incomplete one are returned."""
        host, ctx = self.host, self.ctx
        sink, journal, replicaset_uuid = host.sink, self._journal, host.instance.replicaset_uuid
        for row in rows:
            check_next_row(transaction, row, replicaset_uuid)
            transaction.append(row)
            if not row.is_commit:
                continue
            if row.lsn == 0:
                self._handle_heartbeat(row)
            elif not sink.apply_now(ctx, transaction):
                await sink.apply(ctx, transaction)
            if journal.queue_size >= journal.queue_max_size:
                await journal.wait_for_space()
            transaction = []
        if rows[-1].tm:
            self.lag = host.now() - rows[-1].tm
        return transaction

    def _handle_heartbeat(self, row: Row) -> None:
        if row.type == RequestType.RAFT and self.peer_id == 0:
            raise client_error(ErrorCode.PROTOCOL, "Can't apply a Raft request from an instance without an ID")
        self.signal_ack()

    def signal_ack(self) -> None:
        """The journal has grown or the peer has asked: send our vclock."""
        self._ack_wanted.set()

    async def _write_acks(self, stream: PeerConnection) -> None:
        while True:
            await self._ack_wanted.wait()
            self._check_sync()
            if self.state not in (ApplierState.SYNC, ApplierState.FOLLOW):
                return
            self._ack_wanted.clear()
            try:
                stream.write_rows([messages.vclock_row(self.host.instance.vclock)])
                await stream.drain()
            except BoxError:
                # The reader finds out about the broken connection and reports it.
                return
            if self.host.errinj.values["ERRINJ_APPLIER_SLOW_ACK"]:
                await asyncio.sleep(_SLOW_ACK)

    def _check_sync(self) -> None:
        """From SYNC to FOLLOW when we have what the peer had at the time of the subscription, without much lag."""
        if self.state is not ApplierState.SYNC or self.lag > self.host.options.sync_lag:
            return
        if self.host.instance.vclock.covers(self._remote_vclock, ignore_zero=True):
            self._set_state(ApplierState.FOLLOW)


def expect_ok(row: Row) -> None:
    """Raise the error that the row carries, or UNKNOWN_REQUEST_TYPE if it is no answer at all."""
    raise_if_error(row)
    if row.type != RequestType.OK:
        raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)


def check_next_row(transaction: list[Row], row: Row, replicaset_uuid: UUID) -> None:
    """Raise unless `row` may follow the rows of the transaction that is being read; errors of the peer are raised."""
    if row.type & TYPE_ERROR:
        raise_if_error(row)
    if row.replica_id >= VCLOCK_MAX:
        raise client_error(ErrorCode.UNKNOWN_REPLICA, str(row.replica_id), str(replicaset_uuid))
    tsn = row.tsn or row.lsn
    if not transaction:
        if row.lsn != tsn:
            text = "Transaction id must be equal to LSN of the first row in the transaction."
            raise client_error(ErrorCode.PROTOCOL, text)
    elif transaction[0].txn_id != tsn:
        raise client_error(ErrorCode.UNSUPPORTED, "replication", "interleaving transactions")
