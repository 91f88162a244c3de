"""The applier: fetches another instance's rows and applies them here (states in `box.replication.state`).

`start` connects in the background and stops at READY, so that the node can look at all its peers before it decides
whom to join or that it follows them; `resume` lets the applier subscribe. After an error the applier tries again
every `replication_timeout` seconds, unless the error is one that only a person resolves (STOPPED).

Rows of one transaction are applied together, in the origin's order (see `box.replication.apply`); a transaction's
journal write is not waited for, except CONFIRM, ROLLBACK and PROMOTE.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.iproto import messages
from box.iproto.constants import DML_TYPES, RequestType
from box.iproto.row import Row
from box.log import Log
from box.replication.ballot import Ballot
from box.replication.handshake import Peer, connect
from box.replication.state import ApplierState
from box.replication.stream import RowStream, raise_if_error
from box.replication.vclock import VCLOCK_MAX, VClock

if TYPE_CHECKING:
    from box.replication.replicaset import Replica
    from box.txn.context import Context

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
_ROWS_PER_LOG = 100_000


class ApplierHost(Protocol):
    """What an applier needs of its node."""

    log: Log

    @property
    def instance_uuid(self) -> UUID: ...

    @property
    def instance_id(self) -> int: ...

    @property
    def replicaset_uuid(self) -> UUID: ...

    @property
    def vclock(self) -> VClock: ...

    @property
    def is_orphan(self) -> bool: ...

    @property
    def is_anonymous(self) -> bool: ...

    @property
    def replication_timeout(self) -> float: ...

    @property
    def sync_lag(self) -> float: ...

    def now(self) -> float:
        """Seconds since the epoch."""

    def applier_context(self) -> Context: ...

    async def apply_transaction(self, ctx: Context, rows: list[Row]) -> None: ...

    async def apply_final_join(self, ctx: Context, rows: list[Row]) -> None: ...

    def on_applier_connect(self, applier: Applier) -> None: ...

    def on_applier_state(self, applier: Applier) -> None: ...


class Applier:
    """One source of `box.cfg.replication`."""

    def __init__(self, host: ApplierHost, uri: str, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self.ctx = host.applier_context()
        self.uri = uri
        self.state = ApplierState.OFF
        self.replica: Replica | None = None
        self.ballot = Ballot()
        self.uuid: UUID | None = None
        self.peer_id = 0
        self.error: BoxError | None = None
        self.lag = math.inf
        self.last_row_time = loop.time()
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._stream: RowStream | None = None
        self._peer: Peer | None = None
        self._may_subscribe = asyncio.Event()
        self._ready = asyncio.Event()
        self._ack_wanted = asyncio.Event()
        self._remote_vclock = VClock()
        self._logged_code: int | None = None
        self._fatal: BoxError | None = None

    def __repr__(self) -> str:
        return f"<Applier {self.uri} {self.state.name}>"

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; nothing happens if the applier runs already."""
        if self._task is None or self._task.done():
            self._fatal = None
            self._task = self._loop.create_task(self._run(), name=f"applier/{self.uri}")

    def resume(self) -> None:
        """Let the applier subscribe; starts it if it does not run."""
        self._may_subscribe.set()
        self.start()

    async def stop(self) -> None:
        """Cancel and wait; the state is OFF afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._disconnect(ApplierState.OFF)

    def fail(self, error: BoxError) -> None:
        """Stop for good with this error: a row that was applied could not be written to the journal."""
        self._fatal = error
        if self._task is not None:
            self._task.cancel()

    @property
    def is_connected(self) -> bool:
        """The peer has answered, and nothing has gone wrong since."""
        return self._ready.is_set()

    @property
    def is_self(self) -> bool:
        """The source leads to this very instance."""
        return self.uuid == self.host.instance_uuid

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def wait_ready(self) -> None:
        """Until the peer has answered (and authenticated us) or the applier has given up."""
        ready = asyncio.ensure_future(self._ready.wait())
        waits = {ready} if self._task is None else {ready, self._task}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()

    def _set_state(self, state: ApplierState) -> None:
        self.state = state
        self.host.log.debug(f"=> {state.name}")
        self.host.on_applier_state(self)

    # -- the reconnect loop -------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._connect()
                await self._may_subscribe.wait()
                if self.host.instance_id == 0 and not self.host.is_anonymous:
                    await self.register(was_anonymous=True)
                await self._subscribe()
            except asyncio.CancelledError:
                if self._fatal is None:
                    self._disconnect(ApplierState.OFF)
                    raise
                self.error = self._fatal
                self._disconnect(ApplierState.STOPPED)
                return
            except BoxError as error:
                if not self._handle(error):
                    return
            await asyncio.sleep(self.host.replication_timeout)

    def _handle(self, error: BoxError) -> bool:
        """Report an error; True if the applier tries again."""
        if error.code == ErrorCode.CONNECTION_TO_SELF:
            self._disconnect(ApplierState.OFF)
            # It has answered, and a source that is this instance counts as connected and in sync.
            self._ready.set()
            return False
        self.error = error
        self._log_error(error)
        if error.code in _LOADING_ERRORS:
            self._disconnect(ApplierState.LOADING)
        elif error.code in _RECONNECT_ERRORS:
            self._disconnect(ApplierState.DISCONNECTED)
        else:
            self._disconnect(ApplierState.STOPPED)
            return False
        return True

    def _log_error(self, error: BoxError) -> None:
        if error.code == self._logged_code:
            return
        self._logged_code = error.code
        log = self.host.log
        if self.state in _WHILE:
            log.info(_WHILE[self.state])
        log.error(f"{error.name}: {error.message}")
        if error.code in _LOADING_ERRORS | _RECONNECT_ERRORS:
            log.info(f"will retry every {self.host.replication_timeout:.2f} second")

    def _disconnect(self, state: ApplierState) -> None:
        self._ready.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self.state is not state:
            self._set_state(state)

    async def _connect(self) -> None:
        self._set_state(ApplierState.CONNECT)
        self._stream, peer = await connect(self._loop, self.uri, self.host.replication_timeout * 4)
        self._touch()
        if self._peer is None or self._peer.version != peer.version:
            self.host.log.info(f"remote master {peer.uuid} at {self.uri} running Tarantool {peer.version_text}")
        self._peer, self.uuid = peer, peer.uuid
        self.error = None
        await self._fetch_ballot(self._stream)
        self._set_state(ApplierState.CONNECTED)
        self.host.on_applier_connect(self)
        if self.uuid == self.host.instance_uuid:
            raise client_error(ErrorCode.CONNECTION_TO_SELF)
        if peer.user is not None:
            self._set_state(ApplierState.AUTH)
            self._stream.write_rows([peer.auth_request()])
            expect_ok(await self._read_row())
            self.host.log.info("authenticated")
        self._set_state(ApplierState.READY)
        self._ready.set()

    async def _fetch_ballot(self, stream: RowStream) -> None:
        stream.write_rows([messages.vote_row()])
        answer = await self._read_row()
        try:
            expect_ok(answer)
        except BoxError as error:
            # Versions before 1.10 do not know this request; they take part without a ballot.
            if error.code != ErrorCode.UNKNOWN_REQUEST_TYPE:
                raise
        else:
            self.ballot = Ballot.decode(answer.body)

    def _touch(self) -> None:
        self.last_row_time = self._loop.time()

    async def _read_row(self) -> Row:
        row = await self._connection.read_row(self._silence)
        self._touch()
        return row

    @property
    def _connection(self) -> RowStream:
        if self._stream is None:
            raise AssertionError("the applier is not connected")
        return self._stream

    @property
    def _silence(self) -> float:
        """Seconds without a row after which the peer counts as gone."""
        return self.host.replication_timeout * 4

    # -- joining ------------------------------------------------------------------------------------

    async def join(self, add_rows: Callable[[list[Row]], None], finish: Callable[[VClock], None]) -> None:
        """Bootstrap from the peer, which must be READY. The rows of its snapshot go to `add_rows`, their vclock to
        `finish`, later rows to the host."""
        self._connection.write_rows([messages.join_row(self.host.instance_uuid)])
        self._set_state(ApplierState.INITIAL_JOIN)
        await self._receive_snapshot(add_rows, finish)
        self.host.log.info("initial data received")
        self._set_state(ApplierState.FINAL_JOIN)
        await self._receive_final_rows()
        self.host.log.info("final data received")
        self._set_state(ApplierState.JOINED)
        self._set_state(ApplierState.READY)

    async def fetch_snapshot(self, add_rows: Callable[[list[Row]], None], finish: Callable[[VClock], None]) -> None:
        """As `join` for an anonymous replica: the data only, no registration."""
        self._connection.write_rows([messages.fetch_snapshot_row()])
        self._set_state(ApplierState.FETCH_SNAPSHOT)
        await self._receive_snapshot(add_rows, finish)
        self._set_state(ApplierState.FETCHED_SNAPSHOT)
        self._set_state(ApplierState.READY)

    async def register(self, *, was_anonymous: bool) -> None:
        """Ask the peer for a place in `_cluster`."""
        self._connection.write_rows([messages.register_row(self.host.instance_uuid, self.host.vclock)])
        self._set_state(ApplierState.REGISTER if was_anonymous else ApplierState.FINAL_JOIN)
        await self._receive_final_rows()
        self._set_state(ApplierState.REGISTERED if was_anonymous else ApplierState.JOINED)
        self._set_state(ApplierState.READY)

    async def _receive_snapshot(self, add_rows: Callable[[list[Row]], None], finish: Callable[[VClock], None]) -> None:
        answer = await self._connection.read_row()
        expect_ok(answer)
        vclock = messages.decode_vclock(answer)
        count = 0
        while True:
            rows = await self._connection.read_rows()
            self._touch()
            end = next((i for i, row in enumerate(rows) if row.type not in DML_TYPES), len(rows))
            add_rows(rows[:end])
            if (count + end) // _ROWS_PER_LOG > count // _ROWS_PER_LOG:
                self.host.log.info(f"{(count + end) / 1e6:.1f}M rows received")
            count += end
            if end < len(rows):
                expect_ok(rows[end])
                self._connection.put_back(rows[end + 1 :])
                finish(vclock)
                return

    async def _receive_final_rows(self) -> None:
        while True:
            transaction = await self._read_transaction(None)
            if transaction[0].type == RequestType.OK:
                return
            await self.host.apply_final_join(self.ctx, transaction)

    async def _read_transaction(self, timeout: float | None) -> list[Row]:
        transaction: list[Row] = []
        while not transaction or not transaction[-1].is_commit:
            row = await self._connection.read_row(timeout)
            self._touch()
            check_next_row(transaction, row, self.host.replicaset_uuid)
            transaction.append(row)
        return transaction

    # -- following ----------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        host, stream = self.host, self._connection
        vclock = host.vclock.copy()
        # Rows of our own that come back are unwanted once we write ourselves.
        own_id = frozenset() if host.is_orphan or not host.instance_id else frozenset({host.instance_id})
        request = messages.subscribe_row(
            host.replicaset_uuid, host.instance_uuid, vclock, anon=host.is_anonymous, id_filter=own_id
        )
        stream.write_rows([request])
        answer = await self._read_row()
        expect_ok(answer)
        response = messages.decode_replication(answer)
        cluster_uuid, self._remote_vclock = response.replicaset_uuid, response.vclock or VClock()
        self.peer_id = answer.replica_id
        if cluster_uuid is not None and cluster_uuid != host.replicaset_uuid:
            raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, str(cluster_uuid), str(host.replicaset_uuid))
        host.log.info("subscribed")
        host.log.info(f"remote vclock {self._remote_vclock} local vclock {vclock}")
        self._set_state(ApplierState.SYNC)
        self._logged_code = None
        self.lag = math.inf
        writer = self._loop.create_task(self._write_acks(stream), name=f"applierw/{self.uri}")
        try:
            await self._follow(stream)
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _follow(self, stream: RowStream) -> None:
        transaction: list[Row] = []
        while True:
            rows = await stream.read_rows(self._silence)
            self._touch()
            for row in rows:
                if row.tm:
                    self.lag = self.host.now() - row.tm
                check_next_row(transaction, row, self.host.replicaset_uuid)
                transaction.append(row)
                if not row.is_commit:
                    continue
                if row.lsn == 0:
                    self._handle_heartbeat(row)
                else:
                    await self.host.apply_transaction(self.ctx, transaction)
                transaction = []

    def _handle_heartbeat(self, row: Row) -> None:
        if row.type == RequestType.RAFT and self.peer_id == 0:
            raise client_error(ErrorCode.PROTOCOL, "Can't apply a Raft request from an instance without an ID")
        self.signal_ack()

    def signal_ack(self) -> None:
        """The journal has grown or the peer has asked: send our vclock."""
        self._ack_wanted.set()

    async def _write_acks(self, stream: RowStream) -> None:
        while True:
            await self._ack_wanted.wait()
            self._check_sync()
            if self.state not in (ApplierState.SYNC, ApplierState.FOLLOW):
                return
            self._ack_wanted.clear()
            try:
                stream.write_rows([messages.vclock_row(self.host.vclock)])
                await stream.drain()
            except BoxError:
                # The reader finds out about the broken connection and reports it.
                return

    def _check_sync(self) -> None:
        """From SYNC to FOLLOW when we have what the peer had at the time of the subscription, without much lag."""
        if self.state is not ApplierState.SYNC or self.lag > self.host.sync_lag:
            return
        if self.host.vclock.covers(self._remote_vclock, ignore_zero=True):
            self._set_state(ApplierState.FOLLOW)


def expect_ok(row: Row) -> None:
    """Raise the error that the row carries, or UNKNOWN_REQUEST_TYPE if it is no answer at all."""
    raise_if_error(row)
    if row.type != RequestType.OK:
        raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)


def check_next_row(transaction: list[Row], row: Row, replicaset_uuid: UUID) -> None:
    """Raise unless `row` may follow the rows of the transaction that is being read; errors of the peer are raised."""
    raise_if_error(row)
    if row.replica_id >= VCLOCK_MAX:
        raise client_error(ErrorCode.UNKNOWN_REPLICA, str(row.replica_id), str(replicaset_uuid))
    if not transaction:
        if row.lsn != row.txn_id:
            text = "Transaction id must be equal to LSN of the first row in the transaction."
            raise client_error(ErrorCode.PROTOCOL, text)
    elif transaction[0].txn_id != row.txn_id:
        raise client_error(ErrorCode.UNSUPPORTED, "replication", "interleaving transactions")
