"""Raft elections: terms and votes decide which instance may write. A pure state machine.

```
role        event                                        what happens                                   next
any         a message of a newer term, or an             the term and an empty vote are to be recorded  FOLLOWER
            acknowledgement that contains one
FOLLOWER    a candidate asks, no vote and no leader yet  a vote for it is to be recorded, unless its    FOLLOWER
                                                         log is older than ours (see below)
FOLLOWER    a message of a leader                        it is the leader of the term                   FOLLOWER
FOLLOWER,   the wait is over                             the next term and a vote for ourselves are     FOLLOWER
CANDIDATE                                                to be recorded
FOLLOWER    everything is recorded, the vote is ours     ask for votes, or win if the quorum is one     CANDIDATE,
                                                                                                        LEADER
FOLLOWER    everything is recorded, no vote, no leader   vote for ourselves                             FOLLOWER
CANDIDATE   a vote for us completes the quorum           send a message to all instances                LEADER
CANDIDATE   a message of a leader of this term           it is the leader of the term                   FOLLOWER
LEADER      stopped, or no longer a candidate            the term has no leader                         FOLLOWER
```

Events are methods. After each of them the driver looks at three attributes: `unrecorded` (a row to write to the log;
until `recorded` the instance is a follower that neither votes nor leads), `wait` (a timer to set) and `take_news` (a
message for all instances). Only recorded state is sent: an instance that forgot a vote could vote twice in a term.

**Waits.** An instance that may become the leader (`is_candidate`) has one of three waits: `death_timeout` seconds of
silence of the leader; after a start, the same time until a leader shows up; or the duration of an election, which is
`election_timeout` and a random part of up to a tenth more, so that not all instances ask for votes at once.

If messages take as long as that tenth, instances that have asked at the same time do so again and again. A candidate
that others cannot vote for may also keep asking before them. So two waits differ from Tarantool's. They affect only how
long an instance waits:

```
an election without a winner  doubles the random part of the next one, up to `election_timeout`
a candidate lacks our rows    this instance asks again after half of the time: the other can vote for it
a candidate has more rows     this instance gives it half of the time more
```

**Votes.** Each leader writes a claim before its PROMOTE. The term of a log is the term of the newest claim or PROMOTE
in it. A candidate sends the term of its log.

```
the candidate's log                  vote   because
is of a later term than ours         yes    it has everything that the leader of that term had, and so everything that
                                            was decided before; the additional rows in our log were never decided
is of an earlier term                no     it lacks a claim that a majority may have
is of the same term, or one of the   yes, if its vclock covers ours, apart from rows that the newest claim or promotion
two terms is not known                      here has made void (`box.txn.void_rows`)
```

A follower writes rows in the order of the leader's log. So an instance that has a claim has everything that the author
had when it wrote the claim. Rows on their way to a voter's log count as well. They are written after the vote, so their
acknowledgement contains the later term, and a Lunabox leader does not count it. Tarantool 2.8.1 does not read the term
there, and would confirm rows that the next leader lacks.

**Decisions about synchronous transactions.** An election is won by a majority. Suppose that a majority has a row in
its logs and knows of no later term. Then each later leader has the row: at least one of its voters has it, and in a log
of the same term a voter does not vote for a candidate that lacks it. If the candidate's log is of a later term, the
leader of that term had the row for the same reason. Every decision rests on that:

```
state of the owner of the limbo        what it may write     why no two instances end with different outcomes
leader, its PROMOTE is written         CONFIRM(r)            a majority has r: each later leader confirms it too
leader, heard a majority since r       a proposal            it decides nothing yet
leader, a majority has the proposal    ROLLBACK              each later leader has the proposal, and rolls r back
leader, no majority heard since r      nothing               callers get the error that the outcome is unknown
deposed                                nothing               the PROMOTE of the latest leader decides
latest leader                          its claim(n), once    it decides nothing yet
latest leader, a majority has the      PROMOTE(n)            each later leader has the claim, and writes the same
claim                                                        decision, or has the PROMOTE
follower                               nothing               it acts on the rows of the leader, in the order of its log
```

What a claim confirms; the first line that applies counts:

```
an open claim is in the log: it has no   the same n            its author may have written the PROMOTE. Of two open
PROMOTE of its term or a later one                             claims the one of the later term counts: its author had
                                                               the other claim, or the other claim reached no majority
                                                               and nothing was written after it
a proposal of the former leader          nothing               a majority may have it, and its author the ROLLBACK
otherwise                                all waiting rows      rows that are not here reached no majority
```

What may happen meanwhile:

```
the leader ends after the claim        the next leader has the claim and repeats it. Or it lacks the claim: then no
                                       majority had it, there is no PROMOTE, and the next claim is of a later term
rows come to the leader after the      they had reached no majority when it was elected: its PROMOTE rolls them back
claim
the claim reaches a majority only      acknowledgements contain the term, so the leader of the earlier term hears of its
after another leader was elected       end before it counts them
a PROMOTE that only its author has     its author and the next leader have written the same decision about the former
                                       owner; the author's own rows after the PROMOTE have reached no majority
snapshots, joins                       both keep the term of the log, and an open claim
```

Without claims, a PROMOTE would take effect at once wherever it arrives first. If its author were cut off then, a leader
with other rows of the former leader could decide differently, and both decisions would have taken effect. If a single
vote elects a leader, there is no claim.

A deposed leader rolls back what it wrote after the last row that the next leader has. A PROMOTE that reached no
majority has no effect (`box.txn.promotion_history`), and an instance that has already acted on it reports that it has
diverged (`box.txn.decisions`). A leader accepts the rows of all others once a majority has its PROMOTE: from then on,
rows of former leaders that wait for a decision are NOPs for every leader.

**Differences from Tarantool 2.8.1.** 2.8.1 has only CONFIRM and PROMOTE of the table of decisions, and writes PROMOTE
without a claim. It writes ROLLBACK at its timeout, whether it leads or not, and a leader accepts no rows of other
instances. A claim is a CONFIRM of rows that are confirmed already, with keys that 2.8.1 skips: 2.8.1 keeps the row in
its log, acknowledges it, and does not vote for an instance that lacks it. In a cluster with 2.8.1 these risks remain:

- Its ROLLBACK, or its PROMOTE that reached no majority, may contradict the next leader's PROMOTE. This stops Lunabox
  instances with "Split-Brain discovered". A ROLLBACK that comes after the PROMOTE stops only rows of its author.
- As a leader it confirms waiting rows although it has a proposal or a claim that says otherwise.
- Rows that only a former leader has arrive only when that instance leads again.

With a quorum that is not a majority none of the above holds.

Acknowledgements of Lunabox contain the term, those of Tarantool 2.8.1 do not. Without the term a deposed leader that
hears nothing else would count acknowledged rows as kept, although the others have received them as rolled back.

A former leader keeps rows in its log that were rolled back when another instance took over. No instance needs them, but
Tarantool 2.8.1 does not vote for a candidate that lacks them. Suppose that two instances are left: one has such rows,
and the other newer rows of the next leader. Then neither can win. Lunabox does not require such rows of a candidate
(by `box.txn.void_rows` if it knows the promotion, else by the terms of the logs). It accepts them from a candidate that
has them, because Tarantool 2.8.1 requires them.

Source: the behaviour of Tarantool 2.8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum, auto
from random import Random
from typing import Final, NamedTuple

from box.errors import BoxError, ErrorCode
from box.wire.messages import RaftRequest
from box.wire.vclock import VClock

_SHARE_OF_CHANCE: Final = 0.1
"""The random part of an election's duration, as a share of `election_timeout`; it doubles after each lost election."""
_SHARE_OF_HASTE: Final = 0.5
"""The share of `election_timeout` by which an election is shortened or prolonged after a comparison of vclocks."""
_MILLISECONDS: Final = 1000
"""Milliseconds in a second: the random part is a whole number of them."""


class Role(IntEnum):
    """The role of an instance in elections; the values are those of the messages."""

    FOLLOWER = 1
    CANDIDATE = 2
    LEADER = 3

    def __str__(self) -> str:
        return self.name.lower()


class Waiting(Enum):
    """The event that a possible leader waits for: a first leader, the death of one or the end of an election."""

    LEADER_FOUND = auto()
    LEADER_DEAD = auto()
    ELECTION_END = auto()


class Wait(NamedTuple):
    """A timer: the driver calls `Raft.time_out` `seconds` after its start.

    Each wait has its own `number`. If only `seconds` changes, the timer keeps its start.
    """

    number: int
    reason: Waiting
    seconds: float


def raft_error(text: str) -> BoxError:
    """Return the error for a message that breaks the protocol."""
    return BoxError(ErrorCode.PROTOCOL, text, type="RaftError")


def request_text(request: RaftRequest) -> str:
    """Return a message as the log shows it: `{term: 2, vote: 1, state: candidate, vclock: {1: 7}}`."""
    parts = [f"term: {request.term}"]
    if request.vote:
        parts.append(f"vote: {request.vote}")
    if request.state:
        known = request.state in Role.__members__.values()
        parts.append(f"state: {Role(request.state) if known else f'invalid ({request.state})'}")
    if request.vclock is not None:
        parts.append(f"vclock: {request.vclock}")
    return "{" + ", ".join(parts) + "}"


class Raft:
    """The state machine of one instance.

    `own_vclock` returns the vclock of this instance, `needed` the rows that a candidate must have for a vote (by
    default `own_vclock`), `void_promotions` origin and lsn of PROMOTE rows without effect, which messages of candidates
    and leaders contain (`RaftRequest`), `log_term` the term of the newest claim or promotion in the log (0: unknown),
    `arriving` the rows that are on their way to the log, `has_diverged` whether an instance must not lead because its
    data differs (by id). `log` writes a line of level info.
    """

    def __init__(
        self,
        random: Random,
        own_vclock: Callable[[], Mapping[int, int]],
        log: Callable[[str], None] = lambda _text: None,
        *,
        needed: Callable[[], Mapping[int, int]] | None = None,
        void_promotions: Callable[[], tuple[tuple[int, int], ...]] = tuple,
        log_term: Callable[[], int] = int,
        arriving: Callable[[], Mapping[int, int]] = dict,
        has_diverged: Callable[[int], bool] = lambda _id: False,
    ) -> None:
        self.instance_id = 0
        self.role = Role.FOLLOWER
        self.leader_id = 0
        """The id of the leader of this term, 0 while it is unknown."""
        self.term = 1
        self.vote = 0
        """The id that got this instance's vote in `term`, 0 for none; both are sent only after they are recorded."""
        self.is_enabled = False
        self.is_candidate = False
        """True if the instance may become the leader now."""
        self.quorum = 1
        self.wait: Wait | None = None
        self.on_change: list[Callable[[], None]] = []
        """Functions called when role, leader or term have changed. They must not wait."""
        self._recorded = RaftRequest(1)
        self._is_configured_candidate = False
        self._election_timeout = 5.0
        self._death_timeout = 5.0
        self._voters: set[int] = set()
        self._lost = 0
        """The number of consecutive elections in which this instance was a candidate and nobody won."""
        self._haste = 0.0
        """The share of `election_timeout` by which the wait is shortened, because a candidate of this term lacks rows
        that are here; it is negative, which prolongs the wait, if that candidate has more rows."""
        self.has_news = False
        """True if there is a message for all instances: see `take_news`."""
        self._waits = 0
        self._random = random
        self._own_vclock = own_vclock
        self._needed = needed or own_vclock
        self._void_promotions = void_promotions
        self._log_term = log_term
        self._arriving = arriving
        self._has_diverged = has_diverged
        self._log = log

    def __repr__(self) -> str:
        return f"<raft {self.role} of {self.instance_id}: term {self.term} vote {self.vote} leader {self.leader_id}>"

    # -- questions

    @property
    def is_read_only(self) -> bool:
        """True if elections forbid writes here: only the leader accepts them."""
        return self.is_enabled and self.role is not Role.LEADER

    @property
    def recorded_term(self) -> int:
        """The newest term in the log."""
        return self._recorded.term

    @property
    def unrecorded(self) -> RaftRequest | None:
        """The row to be written to the log now; None if everything is recorded."""
        return None if self._is_recorded else RaftRequest(self.term, self.vote)

    def local_state(self) -> RaftRequest:
        """Return the state for snapshots. It has no role: after a restart another instance may lead."""
        return self._recorded

    def remote_state(self) -> RaftRequest:
        """Return the state as a message for other instances; a candidate's message, with its vclock, asks for votes."""
        vclock = VClock(self._own_vclock()).without_zero() if self.role is Role.CANDIDATE else None
        void_promotions = () if self.role is Role.FOLLOWER else self._void_promotions()
        log_term = self._log_term() if self.role is Role.CANDIDATE else 0
        return RaftRequest(self._recorded.term, self._recorded.vote, self.role, vclock, void_promotions, log_term)

    def take_news(self) -> RaftRequest | None:
        """Return the message for all instances, or None if nothing has changed since the last call."""
        if not self.has_news:
            return None
        self.has_news = False
        return self.remote_state()

    @property
    def _is_recorded(self) -> bool:
        return self._recorded.term == self.term and self._recorded.vote == self.vote

    # -- options

    def enable(self, is_enabled: bool) -> None:
        """Start or stop to take part in elections; `is_enabled` is false for `election_mode` off."""
        if is_enabled == self.is_enabled:
            return
        self.is_enabled = is_enabled
        if is_enabled:
            self._log("RAFT: start state machine")
            self.is_candidate = self._is_configured_candidate
            self._wait_as_candidate()
        else:
            self._log("RAFT: stop state machine")
            self.is_candidate = False
            self._step_down()
        # If this instance has the newest term, the others must learn it, or their messages are ignored here.
        self._announce()

    def configure_candidate(self, is_candidate: bool) -> None:
        """Set whether the instance may become the leader (`election_mode` candidate)."""
        self._is_configured_candidate = is_candidate
        if is_candidate and self.is_enabled:
            self.start_candidate()
        else:
            self.stop_candidate()

    def start_candidate(self) -> None:
        """Allow the instance to become the leader, permanently or for the one election of `box.ctl.promote`."""
        if not self.is_candidate:
            self.is_candidate = True
            if self.role is not Role.LEADER:
                self._wait_as_candidate()

    def stop_candidate(self, *, steps_down: bool = True) -> None:
        """Forbid the instance to become the leader. A leader with `steps_down` false leads to the end of its term."""
        was_candidate, self.is_candidate = self.is_candidate, False
        if self.role is Role.LEADER:
            if steps_down:
                self._step_down()
                self._announce()
        elif was_candidate:
            self.wait = None
            if self.role is Role.CANDIDATE:
                self.role = Role.FOLLOWER
                self._announce()

    def set_quorum(self, quorum: int) -> None:
        """Set the number of votes that wins; a candidate that has them already becomes the leader."""
        self.quorum = quorum
        if self.role is Role.CANDIDATE and len(self._voters) >= quorum:
            self._lead()

    def set_election_timeout(self, seconds: float) -> None:
        """Set `election_timeout` in seconds, also for a running election."""
        self._change_wait(Waiting.ELECTION_END, seconds - self._election_timeout)
        self._election_timeout = seconds

    def set_death_timeout(self, seconds: float) -> None:
        """Set the seconds of silence after which a leader counts as dead: four times `replication_timeout`."""
        self._change_wait(Waiting.LEADER_DEAD, seconds - self._death_timeout)
        self._death_timeout = seconds

    # -- events

    def recover(self, request: RaftRequest) -> None:
        """Restore term and vote from a RAFT row of the snapshot or the log, before the machine is enabled."""
        self._log(f"RAFT: recover {request_text(request)}")
        if request.term < self.term:
            return  # the row was written before the snapshot ended, and the snapshot has a later term
        if request.term > self.term:
            self.term, self.vote = request.term, 0
        self.vote = request.vote or self.vote
        self._recorded = RaftRequest(self.term, self.vote)

    def receive(self, request: RaftRequest, source: int) -> None:
        """Handle a message of the instance `source`.

        Raises:
            ClientError: PROTOCOL with type "RaftError", the message is malformed; nothing has changed then.
        """
        self._log(f"RAFT: message {request_text(request)} from {source}")
        self._check(request, source)
        if request.term < self.term:
            self._log(f"RAFT: the message is ignored due to outdated term - current term is {self.term}")
            return
        if request.term > self.term:
            self._begin_term(request.term)
        if request.vote:
            self._see_vote(request, source)
        if request.state == Role.LEADER:
            self._see_leader(source)
        elif source == self.leader_id:
            self._log(f"RAFT: the node {source} has resigned from the leader role")
            self.leader_id = 0
            if self.is_candidate:
                self._begin_election()

    def hear_term(self, term: int) -> None:
        """Note a term that another instance knows; a newer one makes this instance a follower of it."""
        if term > self.term:
            self._log(f"RAFT: an acknowledgement tells of term {term}")
            self._begin_term(term)

    def hear(self, source: int) -> None:
        """Note a heartbeat or a row of the instance `source`; if it leads, the wait for its death starts again."""
        is_leader = source == self.leader_id != 0
        if is_leader and self.is_candidate and self.role is not Role.LEADER and self._is_recorded:
            self._wait_for(Waiting.LEADER_DEAD, self._death_timeout)

    def time_out(self) -> None:
        """Begin an election, because `wait` is over."""
        self.wait = None
        self._begin_election()

    def recorded(self, request: RaftRequest) -> None:
        """Note that `request`, returned by `unrecorded`, is written to the log, and proceed with the election."""
        self._log(f"RAFT: persisted state {request_text(request)}")
        self._recorded = request
        self._announce()
        if not self._is_recorded or not self.is_candidate:
            return
        if self.leader_id:
            self._wait_for(Waiting.LEADER_DEAD, self._death_timeout)
        elif not self.vote:
            self._vote_for(self.instance_id)
        elif self.vote != self.instance_id:
            self._wait_for_election()
        elif self.quorum == 1:
            self._lead()
        else:
            self._ask_for_votes()

    def new_term(self) -> None:
        """Begin a new term although the present one may have a leader (`box.ctl.promote`)."""
        if self.is_enabled:
            self._begin_term(self.term + 1)

    # -- messages

    @staticmethod
    def _check(request: RaftRequest, source: int) -> None:
        if not request.term or request.state not in Role.__members__.values():
            raise raft_error("Invalid term or state")
        if request.state == Role.CANDIDATE and (request.vote != source or request.vclock is None):
            raise raft_error("Candidate should always vote for self and provide its vclock")

    def _see_vote(self, request: RaftRequest, source: int) -> None:
        if request.state == Role.CANDIDATE and not self.leader_id:
            self._compare(request)
        if self.role is Role.CANDIDATE:
            if request.vote != self.instance_id:
                self._log("RAFT: vote request is skipped - competing candidate")
            else:
                self._count_vote(source)
            return
        reason = self._reason_to_skip(request)
        if reason:
            self._log(f"RAFT: vote request is skipped - {reason}")
        else:
            self._vote_for(request.vote)

    def _compare(self, request: RaftRequest) -> None:
        """Compare a candidate's rows with our own, and shorten or prolong the wait for the end of the election.

        Of two instances only one that has all rows of the other can get its vote.
        """
        theirs, ours = request.vclock, VClock(self._own_vclock())
        assert theirs is not None
        has_all, lacks_none = not self._lacks(request), ours.covers(theirs, ignore_zero=True)
        if difference := self._log_terms_differ(request):
            lacks_none = difference > 0
        if has_all is not lacks_none:
            haste = _SHARE_OF_HASTE if lacks_none else -_SHARE_OF_HASTE
            self._change_wait(Waiting.ELECTION_END, (self._haste - haste) * self._election_timeout)
            self._haste = haste

    def _reason_to_skip(self, request: RaftRequest) -> str:
        """Return the reason why a follower or a leader refuses its vote; empty if it votes."""
        assert self.role is not Role.CANDIDATE
        if not self.is_enabled:
            return "RAFT is disabled"
        if self.leader_id:
            return f"the leader is already known - {self.leader_id}"
        if request.vote == self.instance_id:
            return "can't accept vote for self if not a candidate"
        if request.state != Role.CANDIDATE:
            return "this is a notification about a vote for a third node, not a request"
        if self.vote:
            return "already voted in this term"
        if self._has_diverged(request.vote):
            return "its data differs from ours"
        return self._lacks(request)

    def _log_terms_differ(self, request: RaftRequest) -> int:
        """Return the difference between our log's term and the candidate's; 0 if either is unknown."""
        ours, theirs = self._log_term(), request.log_term
        return ours - theirs if ours and theirs else 0

    def _lacks(self, request: RaftRequest) -> str:
        """Return what a leader must have and the candidate's log lacks, as text; empty if it may lead."""
        difference = self._log_terms_differ(request)
        if difference > 0:
            return "its log knows of no claim or promotion as late as ours"
        # A leader of a later term had all rows that may have been decided about before.
        needed = self._arriving() if difference < 0 else self._needed()
        assert request.vclock is not None
        return "" if request.vclock.covers(needed, ignore_zero=True) else "the vclock is not acceptable"

    def _count_vote(self, source: int) -> None:
        self._voters.add(source)
        if len(self._voters) >= self.quorum:
            self._lead()
        else:
            self._log(f"RAFT: accepted vote for self, vote count is {len(self._voters)}/{self.quorum}")

    def _see_leader(self, source: int) -> None:
        if source == self.leader_id:
            return
        if self.leader_id:
            known = self.leader_id
            self._log(f"RAFT: conflicting leader detected in one term - known is {known}, received {source}")
            return
        self._log(f"RAFT: leader is {source}, follow")
        self.role = Role.FOLLOWER
        self.leader_id = source
        self._lost = 0
        if self.is_candidate and self._is_recorded:
            self._wait_for(Waiting.LEADER_DEAD, self._death_timeout)
        self._announce()

    # -- transitions

    def _begin_election(self) -> None:
        self._log("RAFT: begin new election round")
        self._begin_term(self.term + 1)
        self._vote_for(self.instance_id)

    def _begin_term(self, term: int) -> None:
        self._log(f"RAFT: bump term to {term}, follow")
        self.term, self.vote, self.leader_id = term, 0, 0
        self.role = Role.FOLLOWER
        self._haste = 0.0
        self.wait = None
        self._announce()

    def _vote_for(self, instance_id: int) -> None:
        self._log(f"RAFT: vote for {instance_id}, follow")
        self.vote = instance_id
        self.wait = None

    def _ask_for_votes(self) -> None:
        self._log("RAFT: enter candidate state with 1 self vote")
        self.role = Role.CANDIDATE
        self._voters = {self.instance_id}
        self._wait_for_election()
        self._lost += 1
        self._announce()

    def _lead(self) -> None:
        self._log(f"RAFT: enter leader state with quorum {self.quorum}")
        self.role = Role.LEADER
        self.leader_id = self.instance_id
        self._lost = 0
        self.wait = None
        self._announce()

    def _step_down(self) -> None:
        if self.role is Role.LEADER:
            self.leader_id = 0
        self.role = Role.FOLLOWER
        self.wait = None

    def _announce(self) -> None:
        """Schedule a message for all instances, and call the functions of `on_change`."""
        self.has_news = True
        for hook in self.on_change:
            hook()

    # -- waits

    def _wait_as_candidate(self) -> None:
        """Wait for messages of a leader first, so that a restarted instance does not disturb it with a new term."""
        if self.is_candidate and self._is_recorded:
            self._wait_for(Waiting.LEADER_DEAD if self.leader_id else Waiting.LEADER_FOUND, self._death_timeout)

    def _wait_for_election(self) -> None:
        timeout = self._election_timeout
        share = min(1.0, _SHARE_OF_CHANCE * 2**self._lost)
        most = max(1, int(timeout * share * _MILLISECONDS))
        by_chance = self._random.randint(0, most) / _MILLISECONDS
        self._wait_for(Waiting.ELECTION_END, timeout * (1 - self._haste) + by_chance)

    def _wait_for(self, reason: Waiting, seconds: float) -> None:
        self._waits += 1
        self.wait = Wait(self._waits, reason, seconds)

    def _change_wait(self, reason: Waiting, difference: float) -> None:
        if self.wait is not None and self.wait.reason is reason:
            self.wait = self.wait._replace(seconds=max(0.0, self.wait.seconds + difference))
