"""Drives the limbo: journal writes, acknowledgements, timeouts, promotion.

`box.txn.limbo` makes the decisions. This module writes the rows that it asks for and tells the transactions their
outcome. A CONFIRM, ROLLBACK or PROMOTE row, ours or another instance's, takes effect only once it is in the WAL: before
that, a restart would bring its transactions back unconfirmed.

While such a row is being written, a writer holds the latch; `box.txn.incoming_confirms` has the exception. Appliers
hold it as readers for the length of a transaction (`enter`, `leave`), so no transaction of another origin meets a limbo
that is about to change its owner. Transactions of this instance need no lock: they are queued without a wait between
check and journal, and are refused outright while the limbo rolls back or belongs to another instance.

The undo of a large transaction is prepared in slices before the row takes effect: while the row is being written the
limbo does not change, and the latch is held.

A row that cannot be written leaves the limbo as it is; the write is retried after a delay, and whenever another write
succeeds. (Tarantool aborts the process here.)

With elections, what callers learn about a transaction holds on every instance:

```
committed             a CONFIRM or PROMOTE is in the log here, and a quorum has the transaction
rolled back           a quorum has the proposal to roll back, or the next leader goes on without the transaction
outcome unknown       the timeout is over and neither has happened: SYNC_QUORUM_TIMEOUT with `outcome` "unknown"
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from box.errors import BoxError, ErrorCode, client_error, fiber_is_cancelled
from box.txn.incoming_confirms import IncomingConfirms
from box.txn.latch import RWLatch
from box.txn.limbo import Decision, Limbo, LimboOutcome
from box.txn.promoter import Promoter
from box.txn.promotion_history import Standing
from box.txn.promotion_record import PromotionRecord
from box.txn.transaction import NO_LSN, LimboEntry
from box.waiters import Waiters
from box.wire.constants import Flag, RequestType
from box.wire.entry import JournalEntry, JournalSink, PatientEntry
from box.wire.messages import SynchroRequest, decode_synchro, synchro_row
from box.wire.row import Row

RETRY_DELAY: Final = 1.0
"""Seconds after which a row that could not be written is retried."""


def _outcome_unknown() -> BoxError:
    """Return the error for callers whose transaction the next leader may still commit."""
    error = client_error(ErrorCode.SYNC_QUORUM_TIMEOUT)
    error.fields = {"outcome": "unknown", "reason": "no quorum has decided; the next leader may commit it"}
    return error


class GivenBack(NamedTuple):
    """An instance, and the lsn of its last row that was not undone."""

    origin_id: int
    lsn: int


def _no_hook(*_: Any) -> None:
    """Do nothing: the hook before a listener is set."""


class LimboDriver:
    """Drives the limbo of one node; `journal` is replaced when recovery ends."""

    def __init__(self, limbo: Limbo, journal: JournalSink, loop: asyncio.AbstractEventLoop) -> None:
        self.limbo = limbo
        self.journal = journal
        self.latch = RWLatch()
        self.on_committed: Callable[[list[LimboEntry]], None] = _no_hook
        """Called with the entries that have been committed together, oldest first."""
        self.prepare_rollback: Callable[[list[LimboEntry]], Iterator[None]] = lambda entries: iter(())
        """Prepares to undo entries, given oldest first; each step of the iterator is a turn of the loop."""
        self._preparation: tuple[Iterator[None], Callable[[], None]] | None = None
        """The steps of a rollback in preparation, and the function to call after them."""
        self.on_rolled_back: Callable[[LimboEntry, BoxError], None] = _no_hook
        """Called with each entry that was rolled back, and its error."""
        self.others_may_lead: Callable[[], bool] = lambda: False
        """Returns True if others may have elected a leader: acknowledged rows may be void there, and do not count."""
        self.may_decide: Callable[[], bool] = lambda: True
        """Returns True without elections, or if this instance leads in the latest known term and owns the limbo."""
        self.voters_needed: Callable[[], int] = lambda: 0
        """Returns the number of instances, including this one, that elect a leader; 0 without elections."""
        self.is_forbidden: Callable[[], bool] = lambda: False
        """Returns True if elections give the limbo to others, whose rows transactions of this instance would block."""
        self.on_change: Callable[[], None] = _no_hook
        """Called when the limbo has become empty or has got entries, so that the instance may have changed to or from
        read-only.
        """
        self.on_write_error: Callable[[BoxError], None] = _no_hook
        """Called with the error of a row that could not be written."""
        self.on_contradiction: Callable[[BoxError, int], None] = _no_hook
        """Called with the error of a decision that contradicts one that has taken effect here, and the diverged id."""
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline: float | None = None
        """The deadline of the limbo for which the timer is set."""
        self._is_requested = False
        """True while a request for the latch waits, to write a decision."""
        self._is_stopped = False
        self._waiters = Waiters()
        """Tasks to wake after a change of the queue, an option or an acknowledgement."""
        self.promotions = PromotionRecord(limbo)
        self._promoter = Promoter(limbo, self.promotions, self)
        self.confirms = IncomingConfirms(self)
        self._is_deposed = False
        """True while our transactions are being rolled back because another instance leads without them."""
        self._heard: dict[int, float] = {}
        """The time when each follower was last heard of."""

    def info(self) -> dict[str, Any]:
        """Return `box.info.synchro`, with `contradiction` if this instance, or one that it follows, has diverged."""
        info: dict[str, Any] = {"queue": {"len": len(self.limbo)}, "quorum": self.limbo.quorum}
        promotions = self.promotions
        for contradiction in (promotions.contradiction, *promotions.diverged.values()):
            if contradiction is not None:
                return info | {"contradiction": contradiction.message}
        return info

    # -- transactions

    def append(self, origin_id: int, *entries: LimboEntry) -> None:
        """Queue commits of one origin (0: this instance) that are about to be written.

        Raises:
            ClientError: SYNC_ROLLBACK, UNCOMMITTED_FOREIGN_SYNC_TXNS, or READONLY if elections forbid it.
        """
        if not origin_id and self.is_forbidden():
            raise client_error(ErrorCode.READONLY)
        limbo = self.limbo
        if limbo.entries:  # the owner stays, or the commits are refused, so the mode does not change
            limbo.append(origin_id, *entries)
            return
        was_read_only = limbo.is_read_only
        limbo.append(origin_id, *entries)
        if limbo.is_read_only != was_read_only:
            self.on_change()

    def written(self, entry: LimboEntry, lsn: int) -> None:
        """Record that a queued commit is in the WAL of this instance; `lsn` is that of its last row."""
        limbo = self.limbo
        if entry.wait_ack and entry.lsn == NO_LSN:
            entry.lsn = lsn
        if entry.waits:
            entry.since = self._loop.time()
            if entry.wait_ack:
                limbo.acknowledge(limbo.instance_id, entry.lsn)
        self._go_on_from(lsn)

    def has_written(self, first: int, last: int) -> None:
        """Record that several commits of this instance, with lsns from `first` to `last`, are in the WAL."""
        self.limbo.acknowledge(self.limbo.instance_id, last)
        self._go_on_from(first)

    def _go_on_from(self, lsn: int) -> None:
        """Go on if a write may lead to a decision: a quorum has acknowledged it, or no deadline is set."""
        limbo = self.limbo
        # While a row is being written nothing can be decided; `go_on` is called after it.
        if limbo.writing is None and (lsn <= limbo.reached or self._timer_deadline is None):
            self.go_on()

    def abort(self, *entries: LimboEntry) -> None:
        """Remove queued commits whose WAL write failed: the newest entries, given newest first."""
        for entry in entries:
            self.limbo.abort(entry)
        self._changed()

    def try_enter(self, origin_id: int) -> bool:
        """Lock the limbo's owner for an applier's transaction if that needs no wait; returns True if it is locked."""
        return not self.confirms.hinder(origin_id) and self.latch.try_read()

    async def enter(self, origin_id: int) -> None:
        """Lock the limbo's owner for an applier's transaction."""
        await self.latch.wait_read()
        while self.confirms.hinder(origin_id):
            self.latch.release_read()
            await self.latch.wait_write()
            self.latch.downgrade()

    def leave(self) -> None:
        """Release the lock of `enter` after the transaction has been handed to the journal or has failed."""
        self.latch.release_read()

    # -- acknowledgements and options

    def acknowledge(self, replica_id: int, lsn: int) -> None:
        """Record that an instance has our rows up to `lsn` in its WAL."""
        self.limbo.acknowledge(replica_id, lsn)
        self.go_on()

    def on_ack(self, replica_id: int, vclock: Mapping[int, int]) -> None:
        """Record the vclock that a follower acknowledges, for our transactions and for a promotion."""
        self._promoter.on_ack(replica_id, vclock)
        self._heard[replica_id] = self._loop.time()
        if self.limbo.owner_id == self.limbo.instance_id and not self.others_may_lead():
            self.limbo.acknowledge(replica_id, vclock.get(self.limbo.instance_id, 0))
        self.go_on()
        self._waiters.wake()

    def forget_follower(self, replica_id: int) -> None:
        """Forget the acknowledgements of a follower whose relay has stopped: they do not count for later promotions."""
        self._promoter.forget(replica_id)

    def set_quorum(self, quorum: int) -> None:
        """Set the evaluated `replication_synchro_quorum`; entries with enough acknowledgements are confirmed."""
        self.limbo.quorum = quorum
        self.go_on()
        self._waiters.wake()

    def set_timeout(self, timeout: float) -> None:
        """Set `replication_synchro_timeout` in seconds, also for transactions that wait already."""
        self.limbo.timeout = timeout
        self.go_on()
        self._waiters.wake()

    # -- rows of other instances

    async def apply(self, row: Row, is_next: Callable[[], bool] = lambda: True) -> None:
        """Write a CONFIRM, ROLLBACK or PROMOTE row of another instance, then act on it.

        `is_next` is asked when the row's turn has come; it returns False if earlier rows have failed meanwhile. A row
        that contradicts an earlier decision is not written.

        Raises:
            ClientError: INVALID_MSGPACK; WAL_IO, also if `is_next` returns False.
            BoxError: "Split-Brain discovered".
        """
        request = decode_synchro(row)
        await self.latch.wait_write()
        if not is_next():
            self.latch.release_write()
            raise client_error(ErrorCode.WAL_IO)
        contradiction = self.promotions.contradiction_of(row, request)
        if contradiction is not None:
            self.latch.release_write()
            is_theirs = self.promotions.is_of_deposed(row)
            self.on_contradiction(contradiction, row.replica_id if is_theirs else self.limbo.instance_id)
            raise contradiction
        if self.promotions.is_to_be_void(row):
            row.flags |= Flag.VOID
        await self._write(row, decode_synchro(row))

    def note_nops(self, rows: list[Row]) -> None:
        """Record a transaction whose rows may all be NOPs; the last one may be a proposal."""
        self.promotions.note_nops(rows)
        if rows[-1].flags & Flag.PROPOSED:
            self.limbo.note_proposal(rows[-1].replica_id, rows[-1].lsn)

    def recover(self, row: Row) -> None:
        """Act on a row that is read from the log.

        A log of an earlier version or of Tarantool 2.8.1 may contain contradictory rows; `promotions.contradiction`
        tells that afterwards.

        Raises:
            ClientError: INVALID_MSGPACK.
        """
        request = decode_synchro(row)
        self.promotions.contradiction_of(row, request)
        self.settle(self.promotions.process(row, request))

    def check_consistent(self) -> None:
        """Check that no later decision has contradicted one that has taken effect here.

        Raises:
            BoxError: "Split-Brain discovered".
        """
        if self.promotions.contradiction is not None:
            raise self.promotions.contradiction

    async def learn_leader(self, leader: Standing) -> None:
        """Withdraw promotions that a new leader did not have when it was elected, or that have no effect there.

        They had no effect, and have none where they arrive later. Waiting transactions of their owner are rolled back,
        because the leader goes on without them.

        Raises:
            DiskWriteError: WAL_IO.
        """
        promotions, coming = self.promotions, self.limbo.writing
        is_promotion_coming = coming is not None and coming.type == RequestType.PROMOTE
        has_news = promotions.history.unknown(leader) or promotions.coming_void(leader, self.own_vclock)
        if not has_news and not is_promotion_coming:
            return
        await self.latch.wait_write()
        # With the latch no PROMOTE is being written: each has taken effect here or has not arrived.
        promotions.void_promotions.note(promotions.coming_void(leader, self.own_vclock))
        limbo, first = self.limbo, next((entry.lsn for entry in self.limbo if entry.wait_ack), NO_LSN)
        owner_id, lsn = promotions.latest
        if first == NO_LSN:
            first = lsn + 1  # the first entry has no lsn yet: it will be written after the promotion
        is_of_others = limbo.entries and (limbo.owner_id != owner_id or first < lsn)
        if is_of_others or not promotions.history.unknown(leader):
            self.latch.release_write()
            return
        if limbo.entries:
            self._is_deposed = True
            request = SynchroRequest(RequestType.ROLLBACK, limbo.owner_id, first, 0, limbo.instance_id)
            try:
                await self._write(synchro_row(request), request)
            finally:
                self._is_deposed = False
        else:
            self.latch.release_write()
        promotions.withdraw_unknown(leader, self.own_vclock)

    def withdraw_latest(self) -> bool:
        """Withdraw the latest promotion, which had no effect; returns False if transactions wait or none is known."""
        return not self.limbo.entries and self.promotions.withdraw_latest(self.own_vclock)

    async def give_back(self) -> GivenBack | None:
        """Undo all waiting transactions as if they had never arrived, before there is a log; None if none waited."""
        entries = list(self.limbo)
        if not entries:
            return None
        for _ in self.prepare_rollback(entries):
            await asyncio.sleep(0)
        first = entries[0]
        self.settle(self.limbo.roll_back(first.lsn))
        return GivenBack(first.origin_id, first.place[0] - 1)

    # -- our own rows

    def go_on(self) -> None:
        """Write the row that the limbo asks for, or wait for its next deadline."""
        if self._is_requested or self._is_stopped:
            return
        decision = self._decision()
        if decision is None:
            self._arm()
        elif self.latch.try_write():
            self._write_decision(decision)
        else:
            self._is_requested = True
            self.latch.when_writable(self._decide_again)

    def _arm(self) -> None:
        deadline = self.limbo.deadline
        if self._timer is not None:
            if deadline == self._timer_deadline:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_deadline = deadline
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._time_over)

    def _time_over(self) -> None:
        """Tell overdue callers that the outcome is unknown if nothing can be decided, then go on."""
        self._timer = self._timer_deadline = None
        # While a decision is being written, its outcome is about to be known: callers go on waiting for it.
        if self.voters_needed() and self.limbo.writing is None and not self._is_stopped and self._decision() is None:
            for entry in self.limbo.put_off(self._loop.time()):
                entry.take_callers().tell(_outcome_unknown())
        self.go_on()

    def _decision(self) -> Decision | None:
        limbo = self.limbo
        if not limbo.entries or limbo.writing is not None or not self.may_decide():
            return None  # `may_decide` is last: an empty limbo needs no leader
        return limbo.decide(self._loop.time(), self if self.voters_needed() > 1 else None)

    def were_heard_since(self, moment: float) -> bool:
        """Return True if as many instances as elect a leader, including this one, were heard of since `moment`."""
        # Anonymous replicas share id 0 and do not vote.
        heard = sum(replica_id != 0 and at >= moment for replica_id, at in self._heard.items())
        return 1 + heard >= self.voters_needed()

    def have(self, lsn: int) -> bool:
        """Return True if as many instances as elect a leader have our rows up to `lsn`."""
        return self._promoter.voters_with(self.limbo.instance_id, lsn) >= self.voters_needed()

    def _decide_again(self) -> None:
        """Write the decision, now that the latch is ours; the reason for it may have gone meanwhile."""
        self._is_requested = False
        self._write_decision(None if self._is_stopped else self._decision())

    def _write_decision(self, decision: Decision | None) -> None:
        """Write a decision, if there is one; the latch is ours."""
        if decision is None:
            self.latch.release_write()
            self._arm()
        elif decision.type == RequestType.NOP:
            self._propose(decision)
        else:
            limbo = self.limbo
            request = SynchroRequest(decision.type, limbo.owner_id, decision.lsn, 0, limbo.instance_id)
            self._submit(synchro_row(request), request, self._on_decision_written)

    def _propose(self, decision: Decision) -> None:
        """Write a proposal to roll back everything that waits; the latch is ours."""
        row = Row(RequestType.NOP, flags=Flag.PROPOSED)

        def completed(entry: JournalEntry) -> None:
            self.limbo.end(written=entry.error is None)
            if entry.error is None:
                self.limbo.note_proposal(self.limbo.instance_id, row.lsn)
            self.latch.release_write()
            self._on_decision_written(entry.error)

        self.limbo.begin(decision)
        try:
            self.journal.submit(JournalEntry([row], completed))
        except BoxError as error:
            self.limbo.end(written=False)
            self.latch.release_write()
            self._on_decision_written(error)

    def _on_decision_written(self, error: BoxError | None) -> None:
        if error is None:
            self.go_on()
            return
        self.on_write_error(error)
        self.go_on_later()

    def go_on_later(self) -> None:
        """Set the timer to retry after the journal has failed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline = None
        self._timer = None if self._is_stopped else self._loop.call_later(RETRY_DELAY, self._time_over)

    async def _write(self, row: Row, request: SynchroRequest) -> None:
        """Write a row while the latch is ours; the latch is released once it is settled, even after a cancellation."""
        future: asyncio.Future[BoxError | None] = self._loop.create_future()

        def written(error: BoxError | None) -> None:
            if not future.done():
                future.set_result(error)
            # The limbo has decided nothing meanwhile.
            if error is None:
                self.go_on()
            else:
                self.go_on_later()

        self._submit(row, request, written)
        error = await future
        if error is not None:
            raise error

    def _submit(self, row: Row, request: SynchroRequest, on_end: Callable[[BoxError | None], None]) -> None:
        """Hand a row to the journal; once it is written, prepare the rollback if there is one, then settle."""

        def finish(error: BoxError | None) -> None:
            self._finish(row, request, error)
            on_end(error)

        def completed(entry: JournalEntry) -> None:
            undone = [] if entry.error is not None or is_confirm else self.limbo.rolled_back_by(request)
            if undone:
                self._preparation = self.prepare_rollback(undone), lambda: finish(None)
                self._prepare()
            else:
                finish(entry.error)

        is_claim, is_confirm = request.claim is not None, request.type == RequestType.CONFIRM  # a claim is a CONFIRM
        self.limbo.begin(Decision(request.type, 0 if is_claim else request.lsn), request.replica_id)
        try:
            is_own_confirm = is_confirm and not is_claim and not row.replica_id
            self.journal.submit((PatientEntry if is_own_confirm else JournalEntry)([row], completed))
        except BoxError as error:
            finish(error)

    def _prepare(self) -> None:
        """Take one step of the preparation of a rollback, then settle; a stopping node skips the other steps."""
        if self._preparation is None:
            return
        steps, finish = self._preparation
        for _ in () if self._is_stopped else steps:
            self._loop.call_soon(self._prepare)
            return
        self._preparation = None
        finish()

    def _finish(self, row: Row, request: SynchroRequest, error: BoxError | None) -> None:
        self.limbo.end(written=error is None)
        if error is None:
            is_own = request.type == RequestType.ROLLBACK and request.origin_id in (0, self.limbo.instance_id)
            timed_out = is_own and not self._is_deposed
            self.settle(self.promotions.process(row, request), timed_out=timed_out)
        self.latch.release_write()

    def settle(self, outcome: LimboOutcome, *, timed_out: bool = False) -> None:
        """Tell transactions their outcome. One that is not written yet is told at the end of its own write."""
        for entry in outcome.committed:
            entry.wait_sync = False
        if outcome.committed:
            self.on_committed([entry for entry in outcome.committed if entry.written])
        for entry in outcome.rolled_back:
            entry.wait_sync = False
            is_first = entry is outcome.rolled_back[-1]
            code = ErrorCode.SYNC_QUORUM_TIMEOUT if timed_out and is_first else ErrorCode.SYNC_ROLLBACK
            self.on_rolled_back(entry, client_error(code))
        self._changed()

    def _changed(self) -> None:
        self.on_change()
        self._waiters.wake()

    # -- waiting

    async def wait_change(self, deadline: float) -> bool:
        """Wait until the queue, an option or an acknowledgement changes; returns False at the deadline.

        Raises:
            FiberIsCancelled: the node closes.
        """
        waiter = self._waiters.next()
        done, _ = await asyncio.wait({waiter}, timeout=max(0.0, deadline - self._loop.time()))
        if self._is_stopped:
            raise fiber_is_cancelled()
        if not done:
            waiter.cancel()
        return bool(done)

    async def wait_confirm(self) -> None:
        """Wait until everything that is in the limbo now is committed, as checkpoints and joins need it.

        Raises:
            ClientError: SYNC_QUORUM_TIMEOUT after `replication_synchro_timeout`, SYNC_ROLLBACK if it was rolled back.
            FiberIsCancelled: the node closes.
        """
        last = self.limbo.last
        if last is None:
            return
        if self._is_stopped:
            raise fiber_is_cancelled()
        start = self._loop.time()
        last.on_done(lambda _: self._waiters.wake())
        while not last.done:
            if not await self.wait_change(start + self.limbo.timeout) and not last.done:
                raise client_error(ErrorCode.SYNC_QUORUM_TIMEOUT)
        if last.error is not None:
            raise client_error(ErrorCode.SYNC_ROLLBACK)

    # -- promotion

    def look_again(self) -> None:
        """Decide again after a change of what a promotion depends on, or of the right to decide."""
        self._waiters.wake()
        self.go_on()

    async def promote(self, term: int = 1, check_leads: Callable[[], None] | None = None) -> None:
        """Take over the limbo: confirm what a quorum has and roll back the rest (`box.ctl.promote`).

        `term` is that of the PROMOTE row. `check_leads` raises an error if the elected leader no longer leads.

        Raises:
            UnsupportedError: UNSUPPORTED, another call is running.
            ClientError: INTERFERING_PROMOTE, QUORUM_WAIT or WAL_IO.
            FiberIsCancelled: the node closes.
        """
        await self._promoter.promote(term, check_leads)

    @property
    def own_vclock(self) -> Mapping[int, int]:
        """The vclock of the WAL of this instance."""
        return self.journal.vclock

    def now(self) -> float:
        """Return the time in seconds, by the clock of the deadlines."""
        return self._loop.time()

    async def write(self, make: Callable[[], SynchroRequest]) -> None:
        """Write the row that `make` returns, once no other write changes the limbo, and act on it.

        Raises WAL_IO and the errors of `make`.
        """
        await self.latch.wait_write()
        try:
            request = make()
        except BoxError:
            self.latch.release_write()
            raise
        await self._write(synchro_row(request), request)

    def stop(self) -> None:
        """Stop writing decisions, because the node closes."""
        self._is_stopped = True
        self._prepare()
        self._waiters.wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abandon(self) -> None:
        """Give callers that still wait a FiberIsCancelled error, because the journal has stopped.

        Nothing is undone: the transactions are in the log, and wait in the limbo again after the next start.
        """
        for entry in self.limbo:
            if not entry.done:
                entry.fail(fiber_is_cancelled())
                entry.finish()
