"""The replica's side of a subscription: reads the peer's rows, applies them and acknowledges them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error
from box.net.peer_connection import PeerConnection
from box.replication.applier_host import ApplierHost, UpstreamTimes, journal_of
from box.replication.applier_machine import ApplierEvent, ApplierMachine
from box.replication.fetch_once import FetchList
from box.replication.incoming import IncomingTransaction, expect_ok
from box.replication.passed_rows import PassedRows
from box.replication.raft import Role
from box.replication.row_order import RowOrder
from box.replication.silence import tolerated_silence
from box.replication.state import ApplierState
from box.txn.promotion_history import Standing
from box.waiters import end_all
from box.wire import messages
from box.wire.change_run import ChangeRun
from box.wire.constants import PROMOTION_TYPES, Flag, RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.session import Context

_SECONDS_A_TURN: Final = 0.004
"""Seconds for applying rows before other tasks of the tx thread get their turn."""
_ROWS_AT_ONCE: Final = 512
"""Rows applied between two readings of the clock, when a run of rows is applied by one call."""
_ROWS_PER_LOOK: Final = 32
"""Rows applied between two readings of the clock, when they are applied one by one."""
HELD_TIMEOUTS: Final = 2
"""The longest time that rows are held for others that they depend on, in units of `replication_timeout`."""
_SLOW_ACK: Final = 0.01
"""Seconds that ERRINJ_APPLIER_SLOW_ACK waits after each acknowledgement."""


class Resubscription(Exception):
    """Raised when a subscription was ended to subscribe again for other rows."""


class Subscription:
    """A subscription of an applier, from the request to the end of the connection."""

    def __init__(
        self,
        host: ApplierHost,
        machine: ApplierMachine,
        times: UpstreamTimes,
        ctx: Context,
        connection: PeerConnection,
        fetch: FetchList | None = None,
    ) -> None:
        self.peer_id = 0
        """The peer's id in `_cluster`, 0 for an anonymous one."""
        self._host = host
        self._machine = machine
        self._times = times
        self._ctx = ctx
        self._connection = connection
        self._fetch = fetch
        self.remote_vclock = VClock()
        """The peer's vclock at the time of the subscription."""
        self.is_interrupted = False
        self._order = RowOrder(
            host.loop,
            host.sink,
            host.instance.instance_id,
            patience=lambda: HELD_TIMEOUTS * host.options.timeout,
            is_over=lambda: self.is_interrupted,
        )
        self._transaction = IncomingTransaction(host.instance.replicaset_uuid)
        self._turn_began = 0.0
        self._rows_taken = 0
        self._last_ack = 0.0
        self._is_ack_due = False
        self._is_ack_scheduled = False
        self._ack_waits = asyncio.Event()
        """Set when an acknowledgement has to wait, because the connection is full or an injection delays it."""
        self._passed = PassedRows(host.sink.may_be_void)
        self._passed_vclock = VClock()
        """The newest row of each origin that was skipped because the peer did not lead."""
        self._standing: Standing | None = None
        """The term in which the peer leads or asks for votes, with the rows that it had then.

        A leader's message has no vclock; only for the first message the vclock of the subscription stands in.
        """
        self._is_first_signal = True
        self._promotions: set[tuple[int, int]] = set()
        """Origin and lsn of the PROMOTE rows received from the peer's log."""

    async def begin(self, timeout: float) -> None:
        """Ask for the rows that are not here and wait until the peer has agreed.

        Raises:
            ClientError: REPLICASET_UUID_MISMATCH.
            BoxError: the peer's refusal, a lost connection, or "Split-Brain discovered", if this instance has diverged
                from others.
        """
        host = self._host
        host.elections.check_consistent()
        here, vclock = host.instance, host.instance.vclock.copy()
        if self._fetch is not None:
            wanted, left_out = self._fetch.uuids, self._fetch.left_out
        else:
            # An orphan may have lost own rows and fetches them; once it writes itself, own rows must not come back.
            own_id = here.instance_id
            wanted, left_out = frozenset(), frozenset() if host.is_orphan or not own_id else frozenset({own_id})
        request = messages.subscribe_row(
            here.replicaset_uuid,
            here.instance_uuid,
            vclock,
            anon=host.options.is_anonymous,
            id_filter=left_out,
            fetch=wanted,
        )
        self._connection.write_rows([request])
        answer = await self._connection.read_row(timeout)
        self._times.touch()
        expect_ok(answer)
        response = messages.decode_replication(answer)
        self.remote_vclock = response.vclock or VClock()
        self.peer_id = answer.replica_id
        theirs = response.replicaset_uuid
        if theirs is not None and theirs != here.replicaset_uuid:
            raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, str(theirs), str(here.replicaset_uuid))
        host.log.info("subscribed")
        host.log.info(f"remote vclock {self.remote_vclock} local vclock {vclock}")
        if self._fetch is not None:
            host.log.info(f"fetching rows of {sorted(self._fetch.ids)} from {self.peer_id}")
        self._machine.handle(ApplierEvent.SUBSCRIBED)

    async def run(self, name: str) -> None:
        """Follow the peer until the connection ends.

        Raises:
            BoxError: the error that has ended it.
            Resubscription: `interrupt` was called, or skipped rows have to be fetched again.
            OutOfOrder: the peer's part of the rows cannot be applied alone.
        """
        writer = self._host.loop.create_task(self._write_acks(), name=name)
        try:
            await self._follow()
        except BoxError:
            if self.is_interrupted:
                raise Resubscription from None
            raise
        finally:
            await end_all([writer])

    def interrupt(self) -> None:
        """End the subscription to subscribe again; the rows received so far are still applied."""
        self.is_interrupted = True
        self._connection.close()
        self._host.sink.progress.wake()

    # -- rows ---------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        self._connection.begin_stream()
        loop = self._host.loop
        while True:
            items = await self._connection.read_items(tolerated_silence(self._host.options))
            self._times.touch()
            self._turn_began = loop.time()
            for item in items:
                if isinstance(item, ChangeRun):
                    await self._take_run(item)
                else:
                    await self._take_row(item)
            if items[-1].tm:
                self._times.lag = self._host.now() - items[-1].tm
            # The second condition acknowledges during a transaction that takes longer than `replication_timeout`.
            if self._is_ack_due or loop.time() - self._last_ack > self._host.options.timeout:
                self._is_ack_due = False
                self.signal_ack()

    async def _take_run(self, run: ChangeRun) -> None:
        """Apply a run of one-row transactions."""
        ctx, sink, elections = self._ctx, self._host.sink, self._host.elections
        number, count = 0, len(run)
        while number < count:
            end = number
            if not (self._transaction.is_open or self._order.must_wait):
                elections.hear(self.peer_id)
                if not self._accepts_rows():
                    self._note_passed(run.replica_id, run.lsns[count - 1])
                    for left in range(number, count) if run.flags else ():
                        self._pass_over([run.checked_row(left)])
                    return
                end = sink.apply_run(ctx, run, number, min(number + _ROWS_AT_ONCE, count))
            if end > number:
                number = end
                await self._wait_for_space()
                await self._give_way()
                continue
            end = min(number + _ROWS_PER_LOOK, count)
            while number < end:
                await self._take_row(run.checked_row(number))
                number += 1

    async def _take_row(self, row: Row) -> None:
        """Add a row, and apply the transaction that it completes, if any."""
        complete = self._transaction.add(row)
        is_long = complete is not None and len(complete) > 1
        if complete is not None:
            elections = self._host.elections
            elections.hear(self.peer_id)
            if row.lsn == 0:
                await self._handle_signal(row)
            elif not self._accepts_rows():
                self._note_passed(row.replica_id, row.lsn)
                self._pass_over(complete)
                await self._check_passed([complete])
            else:
                if not elections.is_leader(self.peer_id):
                    self._check_comes_before(row)
                elif row.type in PROMOTION_TYPES:
                    self._promotions.add((row.replica_id, row.lsn))
                elif self._promotions and row.flags & Flag.WAIT_SYNC:
                    elections.withdraw_outdating(row.replica_id, self._promotions)
                order = self._host.sink if self._fetch is None else self._order
                if not order.apply_now(self._ctx, complete):
                    await order.apply(self._ctx, complete)
            await self._wait_for_space()
        self._rows_taken += 1
        if self._rows_taken % _ROWS_PER_LOOK == 0 or is_long:
            await self._give_way()

    def _accepts_rows(self) -> bool:
        """Return whether the next row of the peer may be applied.

        A follower applies only rows of the leader. The relay of an instance that becomes the leader sends the rows
        again that were skipped before. An instance that leads itself applies the rows of all.

        Raises:
            Resubscription: this instance has become the leader and has to fetch the rows that it has skipped.
        """
        elections = self._host.elections
        if elections.is_leader(self.peer_id):
            return True
        if not elections.accepts_from_all:
            return False
        if not self._host.sink.applied.covers(self._passed_vclock):
            raise Resubscription
        return True

    def _note_passed(self, origin_id: int, lsn: int) -> None:
        if origin_id != self._host.instance.instance_id:
            self._passed_vclock.reset(origin_id, max(lsn, self._passed_vclock[origin_id]))

    def _check_comes_before(self, row: Row) -> None:
        """Refuse a PROMOTE of a term that is unknown here, because its leader sends that row itself.

        Raises:
            Resubscription: the row is such a PROMOTE.
        """
        if row.type in PROMOTION_TYPES and self._host.elections.is_later(messages.decode_synchro(row).term):
            raise Resubscription

    def _pass_over(self, transaction: list[Row]) -> None:
        """Skip a transaction of a peer that does not lead; the peer sends it again if it comes to lead.

        A transaction that is not here and may be rolled back everywhere is remembered until the peer has rolled it back
        as well. An earlier acknowledgement would count as a vote for the transaction.
        """
        if self._host.sink.may_be_void(transaction) and self._passed.add(transaction):
            self._is_ack_due = True

    async def _check_passed(self, transactions: Iterable[list[Row]]) -> None:
        """Check that no decision among skipped transactions contradicts what was decided here.

        Raises:
            BoxError: "Split-Brain discovered": the instance that wrote such a decision has diverged.
        """
        for transaction in filter(self._host.sink.contradicts, transactions):
            await self._host.sink.apply(self._ctx, transaction)

    def _take_void(self, theirs: Standing) -> None:
        """Advance the vclock over skipped void transactions: without these rows the peer would not vote for us."""
        # Not if this subscription fetches only some origins: rows before the void ones may then be missing here.
        if self._fetch is None and self._passed and self._host.elections.knows_promotion(theirs):
            for transaction in self._passed:
                self._host.sink.take_void(self._ctx, transaction)

    async def _wait_for_space(self) -> None:
        """Wait while the journal's queue is full."""
        journal = journal_of(self._host)
        if journal.queue_size >= journal.queue_max_size:
            await journal.wait_for_space()

    async def _give_way(self) -> None:
        """Yield to other tasks if the present turn has lasted long enough."""
        loop = self._host.loop
        if loop.time() - self._turn_began > _SECONDS_A_TURN:
            await asyncio.sleep(0)
            self._turn_began = loop.time()

    async def _handle_signal(self, row: Row) -> None:
        self._accepts_rows()  # without new rows, this is where skipped ones are noticed and fetched again
        await self._check_passed(self._passed)
        if row.type == RequestType.RAFT:
            self._host.elections.receive(row, self.peer_id)
            await self._learn_leader(messages.decode_raft(row))
        elif (after := messages.decode_after(row)) is not None:
            self._order.learn(after)
            return
        self.signal_ack()

    async def _learn_leader(self, request: messages.RaftRequest) -> None:
        is_first, self._is_first_signal = self._is_first_signal, False
        if request.vclock is not None:
            self._standing = Standing(request.term, request.vclock, request.void_promotions)
            self._take_void(self._standing)
        elif is_first and request.state == Role.LEADER:
            self._standing = Standing(request.term, self.remote_vclock, request.void_promotions)
        if request.state == Role.LEADER and self._standing is not None:
            await self._host.elections.learn_leader(self.peer_id, self._standing)

    # -- acknowledgements -----------------------------------------------------------------------------

    def signal_ack(self) -> None:
        """Acknowledge the written rows soon, or when the connection can take it."""
        if self._connection.is_full or self._host.errinj.values["ERRINJ_APPLIER_SLOW_ACK"]:
            self._ack_waits.set()
        elif not self._is_ack_scheduled:
            self._is_ack_scheduled = True
            self._host.loop.call_soon(self._write_ack)

    def _write_ack(self) -> None:
        self._is_ack_scheduled = False
        if self._connection.error is not None:
            return  # the applier may have another connection by now
        self._check_sync()
        if self._machine.state in (ApplierState.SYNC, ApplierState.FOLLOW):
            self._last_ack = self._host.loop.time()
            with suppress(BoxError):  # the reader finds out about the broken connection and reports it
                self._connection.write_rows([self._ack_row()])

    def _ack_row(self) -> Row:
        return messages.ack_row(self._host.instance.vclock, self._host.elections.known_term)

    def tell_alive(self) -> None:
        """Send an acknowledgement during a long computation, if the last one is a while ago."""
        now = self._host.loop.time()
        if now - self._last_ack > self._host.options.timeout:
            self._last_ack = now
            self._connection.write_at_once(self._ack_row())

    async def _write_acks(self) -> None:
        """Send the acknowledgements that had to wait."""
        while True:
            await self._ack_waits.wait()
            with suppress(BoxError):
                await self._connection.drain()
            self._ack_waits.clear()
            self._write_ack()
            if self._host.errinj.values["ERRINJ_APPLIER_SLOW_ACK"]:
                await asyncio.sleep(_SLOW_ACK)

    def _check_sync(self) -> None:
        """Change SYNC to FOLLOW once all rows of `remote_vclock` are here and the lag is small enough."""
        if self._machine.state is not ApplierState.SYNC or self._times.lag > self._host.options.sync_lag:
            return
        here = self._host.instance.vclock
        if self._passed:  # skipped transactions that were rolled back everywhere count as received
            here = here.copy()
            for transaction in filter(self._host.sink.is_void, self._passed):
                last = transaction[-1]
                here.reset(last.replica_id, max(last.lsn, here[last.replica_id]))
        if here.covers(self.remote_vclock, ignore_zero=True):
            self._machine.handle(ApplierEvent.CAUGHT_UP)
