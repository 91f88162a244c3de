"""The driver of elections: writes the log, sends the messages, runs the timers and takes over the limbo.

The state machine `box.replication.raft` decides. After every event this module does what the machine asks for:

```
unrecorded     write a RAFT row; the machine waits until it is in the log, and a failed write is retried
news           send a message to every relay; a busy relay sends only the newest one
wait           set a timer of the loop
leader         take over the limbo (in a manual election `box.ctl.promote` does so)
```

A leader accepts changes only after its PROMOTE is written. A synchronous transaction before it in the log would meet
transactions of the former leader in the limbos of others, which would refuse it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Final

from box.errors import BoxError, ErrorCode, client_error, fiber_is_cancelled, unsupported
from box.log import Log
from box.replication.raft import Raft, Role, Wait
from box.txn.promotion_history import Standing
from box.txn.synchro import LimboDriver
from box.waiters import Waiters
from box.wire.constants import RequestType
from box.wire.messages import Claim, RaftRequest, decode_promotions, decode_raft, owner_row, raft_row
from box.wire.row import Row
from box.wire.vclock import VClock

WORKER: Final = "raft_worker"
RETRY_DELAY: Final = 1.0
"""Seconds until a failed write of a row is retried."""


class ElectionMode(StrEnum):
    """A value of `box.cfg.election_mode`."""

    OFF = "off"
    VOTER = "voter"
    CANDIDATE = "candidate"
    MANUAL = "manual"


def _those_after(vclock: VClock, later: VClock) -> VClock:
    """Return the components of `later` that are greater than those of `vclock`."""
    return VClock.of((origin_id, lsn) for origin_id, lsn in later.items() if lsn > vclock[origin_id])


class Elections:
    """The elections of one instance.

    `own_vclock` returns the vclock of its log, `coming` also counts rows on their way there. `write` writes a row to
    the log (raises WAL_IO), `push` passes a message to every relay.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        log: Log,
        *,
        own_vclock: Callable[[], VClock],
        coming: Callable[[], VClock],
        write: Callable[[Row], Awaitable[None]],
        push: Callable[[RaftRequest], None],
        synchro: LimboDriver,
    ) -> None:
        self.mode = ElectionMode.OFF
        self.raft = Raft(
            random,
            own_vclock,
            log.info,
            needed=lambda: synchro.promotions.void.needed(coming()),
            void_promotions=lambda: synchro.promotions.void_promotions.known,
            log_term=lambda: synchro.promotions.log_term,
            arriving=lambda: _those_after(own_vclock(), coming()),
            has_diverged=lambda instance_id: instance_id in synchro.promotions.diverged,
        )
        self.raft.on_change.append(self._changed)
        self.is_member: Callable[[int], bool] = lambda source: True
        """Returns whether an id is in `_cluster`."""
        self.before_promotion: Callable[[], Awaitable[None]] | None = None
        """Waits until this instance may take over the limbo; raises the error that prevents it."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the instance may have become read-only or writable. Must not wait."""
        self._loop = loop
        self._log = log
        self._write = write
        self._push = push
        self._synchro = synchro
        synchro.others_may_lead = self._others_may_lead
        synchro.is_forbidden = lambda: self.is_read_only
        synchro.may_decide = self._may_decide
        synchro.voters_needed = lambda: self.raft.quorum if self.raft.is_enabled else 0
        self._work = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._taken_term = 0
        """The term in which this instance has taken over the limbo or is doing so."""
        self._settled_term = 0
        """The term in which a quorum has acknowledged this instance's PROMOTE."""
        self._timer: asyncio.TimerHandle | None = None
        self._timed: Wait | None = None
        self._timed_since = 0.0
        self._waiters = Waiters()
        self._is_refused = False
        """Whether the log has refused something since an instance founded its replica set."""
        self._is_stopped = False
        self._elects_by_majority = False
        """True if any two quorums have an instance in common."""

    def __repr__(self) -> str:
        return f"<elections {self.mode} {self.raft!r}>"

    # -- questions

    @property
    def _has_taken_over(self) -> bool:
        limbo = self._synchro.limbo
        return limbo.replica_term(limbo.instance_id) == self.raft.term

    def _others_may_lead(self) -> bool:
        raft = self.raft
        return raft.is_enabled and raft.role is not Role.LEADER and not self._has_taken_over

    def _may_decide(self) -> bool:
        """Return whether this instance may write CONFIRM and ROLLBACK: see the table in `box.replication.raft`."""
        raft = self.raft
        return not raft.is_enabled or (raft.role is Role.LEADER and self._has_taken_over)

    @property
    def known_term(self) -> int:
        """The latest term that this instance knows; 0 without elections and without a promotion."""
        promoted = self._synchro.limbo.greatest_term
        return max(self.raft.term, promoted) if self.raft.is_enabled or promoted else 0

    @property
    def is_read_only(self) -> bool:
        """True if elections forbid writes here: only a leader that has taken over the limbo accepts them."""
        raft = self.raft
        return raft.is_enabled and (raft.role is not Role.LEADER or not self._has_taken_over)

    @property
    def role(self) -> Role:
        """The role that `box.info.election` shows: a leader that is still read-only counts as a candidate."""
        role = self.raft.role
        return Role.CANDIDATE if role is Role.LEADER and self.is_read_only else role

    # -- life

    def recover(self, row: Row) -> None:
        """Restore the state from a RAFT row of a snapshot or of the log.

        Raises:
            ClientError: INVALID_MSGPACK.
        """
        request = decode_raft(row)
        self.raft.recover(request)
        promotions = self._synchro.promotions
        promotions.void_promotions.note(request.void_promotions)
        if request.log_term:
            promotions.restore_claim(request.log_term, request.claim)
        known = decode_promotions(row)
        if known is not None:
            promotions.restore(known)

    def metadata(self) -> list[Row]:
        """Return the rows about elections and the limbo that a joining instance gets before the data.

        ```
        JOIN_META, RAFT term and vote, PROMOTE limbo's owner, confirmed lsn and term, JOIN_SNAPSHOT
        ```
        """
        limbo = self._synchro.limbo
        promotion = owner_row(limbo.owner_id, limbo.confirmed_lsn, limbo.greatest_term)
        promotions = self._synchro.promotions
        state = raft_row(promotions.with_log(self.raft.local_state(), promotions.void_promotions.known))
        return [Row(RequestType.JOIN_META), state, promotion, Row(RequestType.JOIN_SNAPSHOT)]

    def recover_metadata(self, row: Row) -> None:
        """Restore the state from a row of another instance's metadata.

        Raises:
            ClientError: INVALID_MSGPACK, UNKNOWN_REQUEST_TYPE.
        """
        if row.type == RequestType.RAFT:
            self.recover(row)
        elif row.type == RequestType.PROMOTE:
            self._synchro.recover(row)
        else:
            raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)

    def start(self) -> None:
        """Begin to write and send what the machine asks for, after the instance has started."""
        self._spawn(self._record_and_tell(), WORKER)

    async def stop(self) -> None:
        """Stop all tasks and timers; nothing is written or sent after that."""
        self._is_stopped = True
        self._set_timer(None)
        self._waiters.wake()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- options

    def set_mode(self, mode: str) -> None:
        """Apply `box.cfg.election_mode`."""
        if mode != ElectionMode.OFF and WORKER not in self._log.system_fibers:
            self._log.add_fiber(WORKER)
        self.mode = ElectionMode(mode)
        self.raft.configure_candidate(self.mode is ElectionMode.CANDIDATE and self._is_consistent)
        self.raft.enable(self.mode is not ElectionMode.OFF)
        self._follow_up()

    @property
    def _is_consistent(self) -> bool:
        return self._synchro.promotions.contradiction is None

    def check_consistent(self) -> None:
        """Check that this instance has not diverged from others.

        Raises:
            BoxError: "Split-Brain discovered".
        """
        self._synchro.check_consistent()

    def give_up(self) -> None:
        """Stop being a candidate or leader, because this instance has diverged from others."""
        self.raft.configure_candidate(False)
        self._follow_up()

    def set_quorum(self, synchro_quorum: int, registered: int) -> None:
        """Set the number of votes that wins: the quorum of synchronous transactions.

        While fewer instances are registered, all their votes are enough: otherwise a new replica set could never elect
        its first leader.
        """
        quorum = min(synchro_quorum, max(registered, 1))
        self._elects_by_majority = 2 * quorum > registered
        self.raft.set_quorum(quorum)
        self._follow_up()

    def set_timeouts(self, *, election: float, death: float) -> None:
        """Set `election_timeout` and the silence after which a leader counts as dead, in seconds."""
        self.raft.set_election_timeout(election)
        self.raft.set_death_timeout(death)
        self._follow_up()

    # -- events

    def receive(self, row: Row, source: int) -> None:
        """Handle a RAFT row of another instance; the vote of an unregistered one does not count.

        Raises:
            ClientError: INVALID_MSGPACK; PROTOCOL, the sender has no id or breaks the protocol.
        """
        if not source:
            raise client_error(ErrorCode.PROTOCOL, "Can't apply a Raft request from an instance without an ID")
        request = decode_raft(row)
        if request.state == Role.FOLLOWER and request.vote and not self.is_member(source):
            self._log.warn(f"RAFT: the vote of {source}, which is not registered, is skipped")
            request = replace(request, vote=0)
        self.raft.receive(request, source)
        self._follow_up()

    def hear_term(self, term: int) -> None:
        """Note the latest term that an acknowledging replica knows; a leader of an earlier term steps down."""
        if self.raft.is_enabled and term > self.raft.term:
            self.raft.hear_term(term)
            self._follow_up()

    async def learn_leader(self, source: int, standing: Standing) -> None:
        """Adopt the standing of an instance if it leads in that term, elected by a majority.

        Retries while that instance leads, for example with a full disk: its rows must not be applied before, because
        they would count as outdated.
        """
        raft = self.raft
        while raft.is_enabled and self._elects_by_majority and raft.leader_id == source and raft.term == standing.term:
            try:
                await self._synchro.learn_leader(standing)
            except BoxError as error:
                self._log.problem(error)
                await asyncio.sleep(RETRY_DELAY)
            else:
                return

    def hear(self, source: int) -> None:
        """Note that an instance is alive, because something has come from it."""
        before = self.raft.wait
        self.raft.hear(source)
        if self.raft.wait is not before:
            self._follow_up()

    async def found(self) -> None:
        """Begin a new term after a replica set was founded here, so that later members have no newer one.

        Waits until what follows from that is in the log, or the log refuses it. A candidate, which is alone yet, leads
        then, and the script that has configured it can write.
        """
        self.raft.new_term()
        self._follow_up()
        self._is_refused = False
        await self._waiters.until(lambda: self._is_stopped or self._is_refused or self._is_settled)

    @property
    def _is_settled(self) -> bool:
        """True while nothing about elections has to be written to the log."""
        raft, limbo = self.raft, self._synchro.limbo
        return raft.unrecorded is None and (
            raft.role is not Role.LEADER or limbo.replica_term(limbo.instance_id) == raft.term
        )

    def is_outdated(self, origin_id: int) -> bool:
        """Return whether an instance's waiting synchronous transactions were rolled back everywhere.

        This is so with elections, once another instance has taken over the limbo in a later term.
        """
        return self.raft.is_enabled and self._synchro.limbo.is_outdated(origin_id)

    def withdraw_outdating(self, origin_id: int, seen: Container[tuple[int, int]]) -> None:
        """Withdraw promotions that a leader has found to be void.

        `seen` has origin and lsn of the PROMOTE rows from the leader's log. They are void if that log has a synchronous
        transaction after them whose origin they would make outdated.
        """
        while self.is_outdated(origin_id) and self._synchro.promotions.latest in seen:
            if not self._synchro.withdraw_latest():
                return

    def is_new_claim(self, claim: Claim) -> bool:
        """Return whether a claim is later than all promotions known here."""
        return claim.term > self._synchro.limbo.greatest_term

    def knows_promotion(self, standing: Standing) -> bool:
        """Return whether an instance with this standing has the latest PROMOTE known here, and the PROMOTE has an
        effect there.
        """
        origin_id, lsn = self._synchro.promotions.latest
        return origin_id != 0 and standing.knows(origin_id, lsn)

    def is_leader(self, source: int) -> bool:
        """Return whether an instance may decide about transactions now; without elections every instance may."""
        return not self.raft.is_enabled or self.raft.leader_id == source

    def is_later(self, term: int) -> bool:
        """Return whether a term is later than all terms that this instance knows; False without elections."""
        return self.raft.is_enabled and term > self.raft.term

    @property
    def accepts_from_all(self) -> bool:
        """True if this instance leads and a quorum has its PROMOTE, so that it accepts the rows of all others.

        Otherwise rows that only a former leader has would never reach the others. They are accepted only after a quorum
        has the PROMOTE: then each later leader has it too, and the transactions that it decided are NOPs for all.
        """
        raft = self.raft
        if not raft.is_enabled or not self._may_decide():
            return False
        if self._settled_term != raft.term and self._synchro.have(self._synchro.promotions.latest[1]):
            self._settled_term = raft.term
        return self._settled_term == raft.term

    # -- box.ctl.promote

    async def promote(self) -> None:
        """Execute `box.ctl.promote`: win an election in manual mode, then take over the limbo.

        Raises:
            ClientError: UNSUPPORTED, the instance is a voter or a candidate that does not lead; INTERFERING_PROMOTE,
                another instance wins; RAFT_DISABLED, elections were switched off meanwhile.
            BoxError: "Split-Brain discovered", or an error of `before_promotion` or `LimboDriver.promote`.
        """
        raft = self.raft
        self.check_consistent()
        if self.mode is ElectionMode.OFF:
            if self.before_promotion is not None:
                await self.before_promotion()
            await self._synchro.promote(raft.recorded_term)
            return
        if self.mode is ElectionMode.VOTER:
            raise unsupported("election_mode='voter'", "manual elections")
        if self.mode is ElectionMode.CANDIDATE and raft.role is not Role.LEADER:
            raise unsupported("election_mode='candidate'", "manual elections")
        if self.mode is ElectionMode.MANUAL:
            if raft.role is Role.LEADER and self._has_taken_over:
                return
            if raft.role is not Role.LEADER:
                await self._win()
        await self._take_over()

    async def _take_over(self) -> None:
        """Become the owner of the limbo in the present term, unless an elected candidate owns it already."""
        limbo, term = self._synchro.limbo, self.raft.recorded_term
        if self.mode is not ElectionMode.CANDIDATE or limbo.replica_term(limbo.instance_id) != term:
            await self._synchro.promote(term, lambda: self._check_leads(term))
            self._changed()

    def _check_leads(self, term: int) -> None:
        """Check that this instance still leads in a term.

        Raises:
            ClientError: INTERFERING_PROMOTE.
        """
        raft = self.raft
        if raft.role is not Role.LEADER or raft.term != term:
            raise client_error(ErrorCode.INTERFERING_PROMOTE, raft.leader_id)

    async def _win(self) -> None:
        """Stand in one election and wait for its end.

        Raises:
            ClientError: INTERFERING_PROMOTE, RAFT_DISABLED.
            FiberIsCancelled: the instance stops.
        """
        raft = self.raft
        raft.start_candidate()
        raft.new_term()
        self._follow_up()
        try:
            while raft.is_enabled and not raft.leader_id:
                await self._waiters.next()
                if self._is_stopped:
                    raise fiber_is_cancelled()
        finally:
            if self.mode is ElectionMode.MANUAL:
                raft.stop_candidate(steps_down=False)
                self._follow_up()
        if not raft.is_enabled:
            raise client_error(ErrorCode.RAFT_DISABLED)
        if raft.role is not Role.LEADER:
            raise client_error(ErrorCode.INTERFERING_PROMOTE, raft.leader_id)

    # -- what the machine asks for

    def _changed(self) -> None:
        self.on_change()
        self._waiters.wake()
        self._synchro.look_again()

    def _follow_up(self) -> None:
        """Start what the machine asks for after an event."""
        if self._is_stopped:
            return
        self._set_timer(self.raft.wait)
        if self.raft.unrecorded is not None or self.raft.has_news:
            self._work.set()
        if self.raft.role is Role.LEADER and self.mode is ElectionMode.CANDIDATE and self._taken_term < self.raft.term:
            self._taken_term = self.raft.term
            self._spawn(self._take_over_limbo(self.raft.term), "raft/promote")

    def _spawn(self, work: asyncio._CoroutineLike[None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _set_timer(self, wait: Wait | None) -> None:
        if wait == self._timed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait is not None:
            if self._timed is None or self._timed.number != wait.number:
                self._timed_since = self._loop.time()
            self._timer = self._loop.call_at(self._timed_since + wait.seconds, self._time_out)
        self._timed = wait

    def _time_out(self) -> None:
        self._timer = self._timed = None
        self.raft.time_out()
        self._follow_up()

    async def _record_and_tell(self) -> None:
        """Write what is unrecorded, then send the news: only what is in the log may be sent."""
        while True:
            await self._work.wait()
            self._work.clear()
            request = self.raft.unrecorded
            if request is not None:
                await self._record(request)
                self._follow_up()
                self._waiters.wake()
            news = self.raft.take_news()
            if news is not None:
                self._push(news)

    async def _record(self, request: RaftRequest) -> None:
        """Write a RAFT row, retrying until it is written: a term or vote must be in the log before the next change."""
        while True:
            try:
                await self._write(raft_row(request))
            except BoxError as error:
                self._log.error(f"could not write a raft request to the log: {error.message}")
                self._refuse()
                await asyncio.sleep(RETRY_DELAY)
            else:
                self.raft.recorded(request)
                return

    def _refuse(self) -> None:
        self._is_refused = True
        self._waiters.wake()

    async def _take_over_limbo(self, term: int) -> None:
        """Take over the limbo, retrying while this instance leads: a missing quorum or a full disk may delay it."""
        while self.raft.role is Role.LEADER and self.raft.term == term and not self._is_stopped:
            try:
                await self._take_over()
                return
            except BoxError as error:
                self._log.problem(error)
                self._refuse()
                # `sleep(0)` lets other tasks run even if the wait for a quorum ends at once.
                await asyncio.sleep(0 if error.code == ErrorCode.QUORUM_WAIT else RETRY_DELAY)
