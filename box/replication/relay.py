"""The relay: sends the rows of this instance to a replica (states in `box.replication.state`).

There are three kinds of stream:

    initial join   the vclock of a read view, then its rows as INSERT without lsn
    final join     the rows between that vclock and the vclock of the registration
    subscribe      all rows after the replica's vclock, heartbeats between them, and acknowledgements back

The rows come from the journal, first from its files, then as they are written. `RowFilter` selects the rows to send.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.log import Log
from box.net.peer_connection import PeerConnection
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.raft import Role
from box.replication.silence import tolerated_silence
from box.replication.state import RelayState
from box.replication.white_list import WhiteList
from box.waiters import end_all
from box.wire import messages
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.messages import RaftRequest
from box.wire.packet_run import PacketRun, rows_of
from box.wire.row import Row, encode_packet, nop_of
from box.wire.tarantool_version import VERSION_ID
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.index.view import TupleView
    from box.journal.journal import Journal

_FRAME: Final = struct.Struct(">BI").pack
"""Packs the length in front of each packet: the MessagePack mark of a uint32 and four bytes."""
_PAUSE_IN_TRANSACTION = 0.01
"""Seconds between two checks whether a transaction is sent completely."""
_BYTES_A_WRITE = 256 * 1024
"""Bytes that are written at a time, before the relay waits until the peer has read most of them."""
_LARGE = 1 << 20
"""The size of a write in bytes above which a replica may need so long for it that its acknowledgement comes late."""
_CHUNK_ROWS = 1000
"""Rows of an initial join that are encoded at a time, before the relay waits until the peer has read most of them."""


class RelayHost(Protocol):
    """The objects that the relays of an instance share."""

    loop: asyncio.AbstractEventLoop
    instance: LocalInstance
    options: ReplicationOptions
    log: Log
    errinj: ErrorInjections

    @property
    def journal(self) -> Journal: ...

    @property
    def now(self) -> Callable[[], float]:
        """The clock: returns seconds since the epoch."""


class RowFilter:
    """A filter that selects the rows of the journal for a replica and converts them to the form in which they are sent.

    Local rows (group 1) of this instance are not sent, those of other origins become NOPs with their lsn. Rows that the
    replica has written itself are not sent back, except those before its subscription, which it has lost. With a white
    list only rows of some origins are sent. All rows get the `sync` of the request that they answer. A replica whose
    `version_id` is later than 2.8.1 gets a NOP for a claim: Tarantool 2.11 refuses such a CONFIRM where its queue had
    another owner. `packets` sends whole runs of encoded rows unchanged where it can, which is faster than `select`.
    """

    def __init__(
        self,
        replica_id: int,
        local_vclock_at_subscribe: VClock,
        id_filter: frozenset[int],
        sync: int = 0,
        white_list: WhiteList | None = None,
        version_id: int = VERSION_ID,
    ) -> None:
        self._hides_claims = version_id > VERSION_ID
        self._replica_id = replica_id
        self._at_subscribe = local_vclock_at_subscribe
        self._id_filter = id_filter
        self._sync = sync
        self._white_list = white_list

    def packets(self, runs: Iterable[PacketRun]) -> bytes:
        """Return the encoded packets of the rows that `select` would return."""
        parts: list[bytes] = []
        white_list = self._white_list
        unwanted = self._id_filter if white_list is None else white_list.unwanted()
        for run in runs:
            replica_id = run.replica_id
            if run.is_local and replica_id == 0:
                continue
            if replica_id in unwanted:
                if white_list is not None:
                    white_list.pass_over(replica_id, run.last)
                continue
            if white_list is not None and (position := white_list.position_before(replica_id)) is not None:
                parts += [encode_packet(row) for row in self._form([position])]
            if run.is_local or self._sync or replica_id == self._replica_id or self._hides_claims:
                parts += [encode_packet(row) for row in self._form(run.rows())]
            else:
                parts.append(run.data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def select(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return the rows to send, in their form."""
        if self._white_list is not None:
            return self._form(self._white_list.select(rows))
        return self._form(row for row in rows if row.replica_id not in self._id_filter)

    def _form(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if row.group_id == GROUP_LOCAL:
                if row.replica_id == 0:
                    continue
                row = nop_of(row)
            elif self._hides_claims and messages.is_claim(row):
                row = nop_of(row)
            if row.replica_id != self._replica_id or row.lsn <= self._at_subscribe[row.replica_id]:
                yield replace(row, sync=self._sync) if self._sync else row


class Relay:
    """The subscription of one replica; `box.info` still shows it after its end.

    `replica_id` is 0 for an anonymous replica. `on_ack` is called for every acknowledgement, with its vclock and with
    the latest term that the replica knows, 0 if it sends none.
    """

    def __init__(self, host: RelayHost, uuid: UUID, replica_id: int, on_ack: Callable[[VClock, int], None]) -> None:
        self.host = host
        self.uuid = uuid
        self.peer = ""
        """The address of the replica's side of the connection."""
        self._replica_id = replica_id
        self._on_ack = on_ack
        self.state = RelayState.OFF
        self.vclock = VClock()
        """The last vclock that the replica has acknowledged."""
        self.last_row_time = host.loop.time()
        self.error: BoxError | None = None
        self._sync = 0
        self._loop = host.loop
        self._last_sent = host.loop.time()
        self._heartbeat: asyncio.TimerHandle | None = None
        self._last_progress = 0.0
        """The loop's time at which the replica last read a part of a large write."""
        self._is_in_transaction = False
        """True while a transaction is sent in parts, between which nothing else may be sent."""
        self._connection: PeerConnection | None = None
        self._raft_message: RaftRequest | None = None
        """The newest unsent message about elections, which replaces older ones."""
        self._has_raft_message = asyncio.Event()

    @property
    def is_following(self) -> bool:
        return self.state is RelayState.FOLLOW

    def __repr__(self) -> str:
        return f"<Relay to {self.uuid} {self.state.name}>"

    async def subscribe(
        self,
        connection: PeerConnection,
        vclock: VClock,
        id_filter: frozenset[int],
        sync: int = 0,
        white_list: WhiteList | None = None,
        version_id: int = VERSION_ID,
    ) -> None:
        """Send the rows after `vclock` until the connection breaks or the task is cancelled.

        Raises:
            XlogGapError: rows after `vclock` are no longer in the journal.
            BoxError: the error that has ended the connection.
        """
        self.state, self.vclock, self.error = RelayState.FOLLOW, vclock.copy(), None
        self.peer, self._connection = connection.peer, connection
        self.last_row_time = self._loop.time()
        self._is_in_transaction = False
        self._last_sent = self._loop.time()
        here = self.host.instance.vclock.copy()
        row_filter = RowFilter(self._replica_id, here, id_filter, sync, white_list, version_id)
        self._sync = sync
        tasks = [
            self._loop.create_task(self._send(connection, vclock, row_filter), name=f"relay/{self.peer}"),
            self._loop.create_task(self._read_acks(connection), name=f"relay-reader/{self.uuid}"),
        ]
        self._schedule_heartbeat()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done:
                    task.result()
        except BoxError as error:
            self.error = error
            await self._linger(tasks)
            raise
        finally:
            self.state, self._connection = RelayState.STOPPED, None
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            await end_all(tasks)

    def push_raft(self, request: RaftRequest) -> None:
        """Send a message about elections to the replica, unless it is anonymous."""
        if self.is_following and self._replica_id:
            self._raft_message = request
            self._has_raft_message.set()

    async def _send(self, connection: PeerConnection, vclock: VClock, row_filter: RowFilter) -> None:
        """Send rows and messages about elections.

        Followers skip the rows of an instance that is not their leader. So when this instance becomes the leader, it
        sends all unacknowledged rows again, and a follower gets the skipped rows before the new ones.
        """
        while True:
            rows = self._loop.create_task(self._send_rows(connection, vclock, row_filter), name=f"relay/{self.peer}")
            try:
                await self._send_raft(connection, rows)
            finally:
                await end_all([rows])
            vclock = self.vclock.copy()
            # Acknowledgements have no component 0. Local rows are never sent, so none of them is to be looked for.
            vclock.reset(0, self.host.instance.vclock[0])

    async def _send_raft(self, connection: PeerConnection, rows: asyncio.Task[None]) -> None:
        """Send election messages while `rows` runs; returns after the message that this instance leads."""
        while True:
            wanted = self._loop.create_task(self._has_raft_message.wait())
            try:
                await asyncio.wait([rows, wanted], return_when=asyncio.FIRST_COMPLETED)
            finally:
                wanted.cancel()
            if rows.done():
                rows.result()
                return
            while self._is_in_transaction:  # noqa: ASYNC110 - only an injection takes transactions apart
                await asyncio.sleep(_PAUSE_IN_TRANSACTION)
            request, self._raft_message = self._raft_message, None
            self._has_raft_message.clear()
            if request is not None:
                connection.write_rows([messages.raft_row(request)])
                if request.state == Role.LEADER:
                    return

    async def _linger(self, tasks: list[asyncio.Task[None]]) -> None:
        """Delay the end of the relay for error injections; meanwhile it still counts as following.

        ERRINJ_RELAY_EXIT_DELAY has the seconds. With ERRINJ_WAL_DELAY the relay ends when the journal proceeds, because
        a relay of Tarantool has to leave the WAL thread first.
        """
        values = self.host.errinj.values
        delay = float(values["ERRINJ_RELAY_EXIT_DELAY"])
        if delay > 0 or values["ERRINJ_WAL_DELAY"]:
            await end_all(tasks)
            await asyncio.sleep(delay)
            await self.host.journal.pass_writer()

    async def _send_rows(self, connection: PeerConnection, vclock: VClock, row_filter: RowFilter) -> None:
        """Send rows as the journal gets them.

        The first heartbeat is sent when all rows so far are sent, including those written meanwhile: then the replica
        is in sync.
        """
        is_behind = not vclock.covers(self.host.instance.vclock, ignore_zero=True)
        if not is_behind:
            self._send_heartbeat(connection)
        values = self.host.errinj.values
        async with aclosing(self.host.journal.follow(vclock)) as follower:
            async for runs in follower:
                if values["ERRINJ_RELAY_SEND_DELAY"]:
                    await self.host.errinj.wait_until_off("ERRINJ_RELAY_SEND_DELAY")
                if values["ERRINJ_RELAY_BREAK_LSN"] >= 0 or values["ERRINJ_RELAY_TIMEOUT"] > 0:
                    rows = _break_lsn(rows_of(runs), int(values["ERRINJ_RELAY_BREAK_LSN"]))
                    await self._send_slowly(connection, row_filter.select(rows))
                elif data := row_filter.packets(runs):
                    await self._write(connection, data)
                if is_behind and follower.vclock.covers(self.host.instance.vclock, ignore_zero=True):
                    is_behind = False
                    self._send_heartbeat(connection)

    async def _write(self, connection: PeerConnection, data: bytes) -> None:
        """Write whole transactions, in pieces if they are large; nothing else is sent between the pieces."""
        if len(data) <= _BYTES_A_WRITE:
            connection.write(data)
            self._last_sent = self._loop.time()
            await connection.drain()
            return
        self._is_in_transaction = True
        try:
            for start in range(0, len(data), _BYTES_A_WRITE):
                connection.write(data[start : start + _BYTES_A_WRITE])
                await connection.drain()
                self._last_sent = self._loop.time()
                if len(data) > _LARGE:
                    # The replica reads rows but acknowledges nothing before it has a whole transaction: not a silence.
                    self._last_progress = self._last_sent
                await asyncio.sleep(0)
        finally:
            self._is_in_transaction = False

    async def _send_slowly(self, connection: PeerConnection, rows: Iterator[Row]) -> None:
        """Send row by row, with a pause of ERRINJ_RELAY_TIMEOUT seconds after each."""
        for row in rows:
            self._is_in_transaction = not row.is_commit
            connection.write(encode_packet(row))
            self._last_sent = self._loop.time()
            await connection.drain()
            if pause := float(self.host.errinj.values["ERRINJ_RELAY_TIMEOUT"]):
                await asyncio.sleep(pause)

    def _send_heartbeat(self, connection: PeerConnection) -> None:
        connection.write_rows([messages.heartbeat_row(self.host.instance.instance_id, self.host.now(), self._sync)])
        self._last_sent = self._loop.time()

    def tell_alive(self) -> None:
        """Send a heartbeat during a long computation, if nothing was sent for a while."""
        now = self._loop.time()
        is_due = now - self._last_sent > self.host.options.timeout and not self._is_in_transaction
        if self.is_following and is_due and self._connection is not None:
            self._last_sent = now
            self._connection.write_at_once(
                messages.heartbeat_row(self.host.instance.instance_id, self.host.now(), self._sync)
            )

    def _schedule_heartbeat(self) -> None:
        self._heartbeat = self._loop.call_at(self._last_sent + self.host.options.timeout, self._heartbeat_is_due)

    def _heartbeat_is_due(self) -> None:
        """Send a heartbeat, unless something was sent meanwhile, and set the timer of the next one."""
        if self._connection is None:
            return
        now = self._loop.time()
        if self._last_sent + self.host.options.timeout <= now:
            values = self.host.errinj.values
            if values["ERRINJ_RELAY_REPORT_INTERVAL"] or values["ERRINJ_RELAY_SEND_DELAY"] or self._is_in_transaction:
                self._last_sent = now  # nothing may be sent now: look again after another interval
            else:
                try:
                    self._send_heartbeat(self._connection)
                except BoxError:
                    return  # the reader finds out about the broken connection and reports it
        self._schedule_heartbeat()

    async def _read_acks(self, connection: PeerConnection) -> None:
        while True:
            rows = await self._read_rows(connection)
            self.last_row_time = self._loop.time()
            self.vclock, term = messages.decode_ack(rows[-1])
            self._on_ack(self.vclock, term)

    async def _read_rows(self, connection: PeerConnection) -> list[Row]:
        """Read acknowledgements. A replica that is reading a large transaction does not count as silent.

        Raises:
            TimedOut: nothing has come for four times `replication_timeout`.
            BoxError: the connection is lost.
        """
        since = self._loop.time()
        while True:
            since = max(since, self._last_progress)
            try:
                return await connection.read_rows(since + tolerated_silence(self.host.options) - self._loop.time())
            except BoxError as error:
                if error.type != "TimedOut" or self._last_progress <= since:
                    raise


def _break_lsn(rows: list[Row], lsn: int) -> list[Row]:
    """Return the rows with the lsn of one of them reduced by one, for ERRINJ_RELAY_BREAK_LSN."""
    return [replace(row, lsn=lsn - 1, tsn=lsn - 1) if row.lsn == lsn else row for row in rows]


async def send_read_view(
    connection: PeerConnection,
    sync: int,
    vclock: VClock,
    spaces: Iterable[tuple[bytes, TupleView]],
    metadata: Iterable[Row] = (),
) -> None:
    """Send the rows of an initial join: the response with `vclock`, `metadata`, then the tuples of all spaces.

    `spaces` has for each space the bytes of the body before the tuple, and a view of its tuples. The caller sends the
    row that ends the data.
    """
    connection.write_rows([messages.vclock_row(vclock, sync=sync), *metadata])
    header = encode_header_of_snapshot_row(sync)
    for prefix, view in spaces:
        while (tuples := view.take(_CHUNK_ROWS)) is not None:
            if tuples:
                connection.write(_packets(header + prefix, tuples))
                await connection.drain()
            await asyncio.sleep(0)


def encode_header_of_snapshot_row(sync: int) -> bytes:
    """Return the encoded header that all rows of an initial join share."""
    packet = encode_packet(Row(RequestType.INSERT, sync=sync))
    return packet[5:]  # without the length, which is 0xce and four bytes


def _packets(head: bytes, tuples: list[bytes]) -> bytes:
    """Return the packets of rows that share the bytes `head` before their tuple."""
    size, frame = len(head), _FRAME
    frames = [frame(0xCE, size + length) + head for length in map(len, tuples)]  # 0xce: MessagePack's mark of a uint32
    return b"".join(chain.from_iterable(zip(frames, tuples, strict=True)))


async def send_range(
    journal: Journal, connection: PeerConnection, sync: int, start: VClock, stop: VClock, errinj: ErrorInjections
) -> None:
    """Send the rows of a final join: those after `start` up to `stop`.

    Raises:
        XlogGapError: rows after `start` are no longer in the journal.
        BoxError: the connection is lost.
    """
    row_filter = RowFilter(0, VClock(), frozenset(), sync)
    reached = start.copy()
    if reached.covers(stop, ignore_zero=True):
        return
    async with aclosing(journal.follow(start)) as follower:
        async for runs in follower:
            await errinj.wait_until_off("ERRINJ_RELAY_SEND_DELAY")
            wanted = [part for run in runs if (part := run.up_to(stop[run.replica_id])) is not None]
            if errinj.values["ERRINJ_RELAY_BREAK_LSN"] >= 0:
                rows = _break_lsn(rows_of(wanted), int(errinj.values["ERRINJ_RELAY_BREAK_LSN"]))
                connection.write_rows(row_filter.select(rows))
            else:
                await _write_all(connection, row_filter.packets(wanted))
            for run in runs:
                if run.last > reached[run.replica_id]:
                    reached[run.replica_id] = run.last
            if reached.covers(stop, ignore_zero=True):
                return


async def _write_all(connection: PeerConnection, data: bytes) -> None:
    for start in range(0, len(data), _BYTES_A_WRITE):
        connection.write(data[start : start + _BYTES_A_WRITE])
        await connection.drain()
        await asyncio.sleep(0)


def injected(errinj: ErrorInjections, name: str, text: str) -> None:
    """Raise an error if an error injection is on.

    Raises:
        ClientError: INJECTION, "Error injection '<text>'".
    """
    if errinj.values[name]:
        raise BoxError(ErrorCode.INJECTION, f"Error injection '{text}'")
