"""The driver of elections: the log, the messages, the timers and taking over the limbo.

The decisions are `box.replication.raft`'s. After every event this module looks what they ask for:

```
unrecorded     write a RAFT row; the machine stands still until it is in the log, and a write that fails is retried
news           tell every relay; a relay that is busy sends the newest message only
wait           a timer of the loop
leader         take over the limbo (but not for a manual election: there `box.ctl.promote` goes on by itself)
```

A leader takes changes when its PROMOTE is written: a synchronous transaction before it in the log would meet those of
the former leader in the limbos of others, which refuse it.
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
from box.wire.messages import Claim, RaftRequest, SynchroRequest, decode_promotions, decode_raft, raft_row, synchro_row
from box.wire.row import Row
from box.wire.vclock import VClock

RETRY_DELAY: Final = 1.0
"""Seconds until a row that could not be written is tried again."""


class ElectionMode(StrEnum):
    """`box.cfg.election_mode`."""

    OFF = "off"
    VOTER = "voter"
    CANDIDATE = "candidate"
    MANUAL = "manual"


def _those_after(vclock: VClock, later: VClock) -> VClock:
    """The components of `later` that are not in `vclock`."""
    return VClock.of((origin_id, lsn) for origin_id, lsn in later.items() if lsn > vclock[origin_id])


class Elections:
    """One for the instance. `own_vclock` gives the rows in its log, `coming` also those that are on their way there.
    `write` puts a row into the log (WAL_IO), `push` gives a message to every relay."""

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
        )
        self.raft.on_change.append(self._changed)
        self.is_member: Callable[[int], bool] = lambda source: True
        """Whether `_cluster` has an id."""
        self.before_promotion: Callable[[], Awaitable[None]] | None = None
        """Returns when this instance may take over the limbo; raises what keeps it from that."""
        self.on_change: Callable[[], None] = lambda: None
        """Whether the instance is read-only may have changed. Must not wait."""
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
        """The term in which the limbo was taken over, or is being."""
        self._settled_term = 0
        """The term in which a quorum has our PROMOTE."""
        self._timer: asyncio.TimerHandle | None = None
        self._timed: Wait | None = None
        self._timed_since = 0.0
        self._waiters = Waiters()
        self._is_stopped = False
        self._elects_by_majority = False
        """Any two quorums have an instance in common."""

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
        """See `box.replication.raft`: a former leader decides nothing about the transactions that it has begun."""
        raft = self.raft
        return not raft.is_enabled or (raft.role is Role.LEADER and self._has_taken_over)

    @property
    def known_term(self) -> int:
        """The latest term that this instance has heard of; 0 if it has no part in elections, and no promotion."""
        promoted = self._synchro.limbo.greatest_term
        return max(self.raft.term, promoted) if self.raft.is_enabled or promoted else 0

    @property
    def is_read_only(self) -> bool:
        """Whether elections forbid writes here: only the leader takes them, once it has taken over the limbo."""
        return self.raft.is_read_only or (self.raft.is_enabled and not self._has_taken_over)

    @property
    def role(self) -> Role:
        """The role as `box.info.election` tells it: who leads takes changes."""
        role = self.raft.role
        return Role.CANDIDATE if role is Role.LEADER and self.is_read_only else role

    # -- life

    def recover(self, row: Row) -> None:
        """A RAFT row of a snapshot or of the log. INVALID_MSGPACK."""
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
        """Everything about elections and the limbo that a joining instance is told before the data.

        ```
        JOIN_META, RAFT term and vote, PROMOTE limbo's owner, confirmed lsn and term, JOIN_SNAPSHOT
        ```
        """
        limbo = self._synchro.limbo
        promotion = synchro_row(
            SynchroRequest(RequestType.PROMOTE, limbo.owner_id, limbo.confirmed_lsn, limbo.greatest_term)
        )
        promotion.replica_id = limbo.owner_id
        promotions = self._synchro.promotions
        state = raft_row(promotions.with_log(self.raft.local_state(), promotions.void_promotions.known))
        return [Row(RequestType.JOIN_META), state, promotion, Row(RequestType.JOIN_SNAPSHOT)]

    def recover_metadata(self, row: Row) -> None:
        """A row of another instance's metadata. INVALID_MSGPACK, UNKNOWN_REQUEST_TYPE."""
        if row.type == RequestType.RAFT:
            self.recover(row)
        elif row.type == RequestType.PROMOTE:
            self._synchro.recover(row)
        else:
            raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)

    def start(self) -> None:
        """The instance has started: rows can be written."""
        self._spawn(self._record_and_tell(), "raft")

    async def stop(self) -> None:
        """Write and send nothing more."""
        self._is_stopped = True
        self._set_timer(None)
        self._waiters.wake()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- options

    def set_mode(self, mode: str) -> None:
        """`election_mode`."""
        self.mode = ElectionMode(mode)
        self.raft.configure_candidate(self.mode is ElectionMode.CANDIDATE and self._is_consistent)
        self.raft.enable(self.mode is not ElectionMode.OFF)
        self._follow_up()

    @property
    def _is_consistent(self) -> bool:
        return self._synchro.promotions.contradiction is None

    def check_consistent(self) -> None:
        """Raise "Split-Brain discovered" if this instance differs from others."""
        self._synchro.check_consistent()

    def give_up(self) -> None:
        """This instance differs from others, and leads them no more."""
        self.raft.configure_candidate(False)
        self._follow_up()

    def set_quorum(self, synchro_quorum: int, registered: int) -> None:
        """Votes that win: the quorum of synchronous transactions, but all that there are while there are fewer, or the
        first leader of a replica set could never be elected."""
        quorum = min(synchro_quorum, max(registered, 1))
        self._elects_by_majority = 2 * quorum > registered
        self.raft.set_quorum(quorum)
        self._follow_up()

    def set_timeouts(self, *, election: float, death: float) -> None:
        """`election_timeout`, and the silence that makes a leader dead. Seconds."""
        self.raft.set_election_timeout(election)
        self.raft.set_death_timeout(death)
        self._follow_up()

    # -- events

    def receive(self, row: Row, source: int) -> None:
        """A RAFT row of another instance. INVALID_MSGPACK, PROTOCOL, RaftError. The vote of one that is not registered
        does not count."""
        if not source:
            raise client_error(ErrorCode.PROTOCOL, "Can't apply a Raft request from an instance without an ID")
        request = decode_raft(row)
        if request.state == Role.FOLLOWER and request.vote and not self.is_member(source):
            self._log.warn(f"RAFT: the vote of {source}, which is not registered, is skipped")
            request = replace(request, vote=0)
        self.raft.receive(request, source)
        self._follow_up()

    def hear_term(self, term: int) -> None:
        """A replica that acknowledges rows has heard of `term`: the leader of an earlier one leads no longer."""
        if self.raft.is_enabled and term > self.raft.term:
            self.raft.hear_term(term)
            self._follow_up()

    async def learn_leader(self, source: int, standing: Standing) -> None:
        """The standing of an instance that asked to be elected: counts if it leads in that term, by a majority.

        With a full disk it takes as long as that leads: its rows would be taken for outdated ones before.
        """
        raft = self.raft
        while raft.is_enabled and self._elects_by_majority and raft.leader_id == source and raft.term == standing.term:
            try:
                await self._synchro.learn_leader(standing)
            except BoxError as error:
                self._log.error(error.log_text)
                await asyncio.sleep(RETRY_DELAY)
            else:
                return

    def hear(self, source: int) -> None:
        """Something came from an instance: it is alive."""
        before = self.raft.wait
        self.raft.hear(source)
        if self.raft.wait is not before:
            self._follow_up()

    def new_term(self) -> None:
        """A replica set was founded here: whoever comes later must not take its term for an older one."""
        self.raft.new_term()
        self._follow_up()

    def is_outdated(self, origin_id: int) -> bool:
        """Whether synchronous transactions of an instance were rolled back everywhere: another one took over in a
        later term. Known with elections only."""
        return self.raft.is_enabled and self._synchro.limbo.is_outdated(origin_id)

    def withdraw_outdating(self, origin_id: int, seen: Container[tuple[int, int]]) -> None:
        """The log of a leader has promotions, `seen` by origin and lsn, and behind them a synchronous transaction of an
        instance that they make outdated: the leader has found out that they were none."""
        while self.is_outdated(origin_id) and self._synchro.promotions.latest in seen:
            if not self._synchro.withdraw_latest():
                return

    def is_new_claim(self, claim: Claim) -> bool:
        """Whether a claim is later than all promotions that are here."""
        return claim.term > self._synchro.limbo.greatest_term

    def knows_promotion(self, standing: Standing) -> bool:
        """Whether somebody has the PROMOTE of the latest term that is here, and its effect."""
        origin_id, lsn = self._synchro.promotions.latest
        return origin_id != 0 and standing.knows(origin_id, lsn)

    def is_leader(self, source: int) -> bool:
        """Whether an instance decides about transactions now; without elections anyone may."""
        return not self.raft.is_enabled or self.raft.leader_id == source

    def is_later(self, term: int) -> bool:
        """Whether a term is later than all that this instance has heard of."""
        return self.raft.is_enabled and term > self.raft.term

    @property
    def accepts_from_all(self) -> bool:
        """Whether this instance leads: then it takes the rows of all others.

        Rows that a former leader has written and nobody else has would go nowhere otherwise. They come when a quorum
        has our PROMOTE: then each later leader has it, too, and transactions that it decides about are NOPs for all.
        """
        raft = self.raft
        if not raft.is_enabled or not self._may_decide():
            return False
        if self._settled_term != raft.term and self._synchro.have(self._synchro.promotions.latest[1]):
            self._settled_term = raft.term
        return self._settled_term == raft.term

    # -- box.ctl.promote

    async def promote(self) -> None:
        """`box.ctl.promote`: win an election in manual mode, then take over the limbo.

        UNSUPPORTED for a voter and for a candidate that does not lead, INTERFERING_PROMOTE if another one wins,
        RAFT_DISABLED, "Split-Brain discovered" for an instance that differs from others, and what `before_promotion`
        and `LimboDriver.promote` raise.
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
        """Become the owner of the limbo in the present term, unless a candidate is it already."""
        limbo, term = self._synchro.limbo, self.raft.recorded_term
        if self.mode is not ElectionMode.CANDIDATE or limbo.replica_term(limbo.instance_id) != term:
            await self._synchro.promote(term, lambda: self._check_leads(term))
            self._changed()

    def _check_leads(self, term: int) -> None:
        """INTERFERING_PROMOTE."""
        raft = self.raft
        if raft.role is not Role.LEADER or raft.term != term:
            raise client_error(ErrorCode.INTERFERING_PROMOTE, raft.leader_id)

    async def _win(self) -> None:
        """Stand in one election, to its end."""
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
        """After an event."""
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
        """The work of the log and of the relays, in this order: only what is recorded is told."""
        while True:
            await self._work.wait()
            self._work.clear()
            request = self.raft.unrecorded
            if request is not None:
                await self._record(request)
                self._follow_up()
            news = self.raft.take_news()
            if news is not None:
                self._push(news)

    async def _record(self, request: RaftRequest) -> None:
        """Write until it is written: a term or a vote that is not in the log must not be forgotten for another."""
        while True:
            try:
                await self._write(raft_row(request))
            except BoxError as error:
                self._log.error(f"could not write a raft request to the log: {error.message}")
                await asyncio.sleep(RETRY_DELAY)
            else:
                self.raft.recorded(request)
                return

    async def _take_over_limbo(self, term: int) -> None:
        """Try for as long as this instance leads; without a quorum, or with a full disk, it may take long."""
        while self.raft.role is Role.LEADER and self.raft.term == term and not self._is_stopped:
            try:
                await self._take_over()
                return
            except BoxError as error:
                self._log.error(error.log_text)
                # Even where the wait for a quorum takes no time, others have their turn.
                await asyncio.sleep(0 if error.code == ErrorCode.QUORUM_WAIT else RETRY_DELAY)
