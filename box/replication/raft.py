"""Raft: who may write, decided by terms and votes.

```
role        event                                        what happens                                   next
any         a message of a newer term, or an             the term and an empty vote are to be recorded  FOLLOWER
            acknowledgement of who has heard of one
FOLLOWER    a candidate asks, no vote and no leader yet  its vote is to be recorded, if its log is as    FOLLOWER
                                                         late as ours (see below)
FOLLOWER    a message of a leader                        it is the leader of the term                   FOLLOWER
FOLLOWER,   the wait is over                             the next term and a vote for ourselves are     FOLLOWER
CANDIDATE                                                to be recorded
FOLLOWER    everything is recorded, the vote is ours     ask for votes, unless a quorum is one          CANDIDATE,
                                                                                                        LEADER
FOLLOWER    everything is recorded, no vote, no leader   vote for ourselves                             FOLLOWER
CANDIDATE   a vote for us completes the quorum           tell everybody                                 LEADER
CANDIDATE   a message of a leader of this term           it is the leader of the term                   FOLLOWER
LEADER      stopped, or not a candidate any more         the term has no leader                         FOLLOWER
```

What a candidate may be (`is_candidate`) waits for: the leader's silence of `death_timeout` seconds, or of the same time
for a leader that it does not know yet after a start, or for the end of an election (`election_timeout` and up to a
tenth more, by chance, so that not everybody asks at once).

Where messages take as long as that tenth, those who ask at the same time ask at the same time again, and a candidate
that others cannot vote for keeps the others from asking before it does. Hence two things that Tarantool does not do,
which concern nothing but how long an instance waits:

```
election that nobody won      the next one ends after twice the chance, up to `election_timeout` itself
a candidate lacks our rows    this instance asks again after half of the time: the other can vote for it
a candidate has more rows     this instance gives it half of the time more
```

**Who may be voted for.** Each leader writes a claim before its PROMOTE. The term of a log is that of the newest of both
in it; a candidate tells its own.

```
the candidate's log                  vote   because
is of a later term than ours         yes    it has all that the leader of that term had, and so all that was decided
                                            before it; what we have beyond that was not
is of an earlier term                no     it lacks a claim that a majority may have
is of the same term, or one of the   if its vclock covers ours, but for rows that the newest claim or promotion here
two terms is not known               has made void (`box.txn.void_rows`)
```

A follower takes rows in the order of the leader's log. So whoever has a claim has all that its author had when it wrote
it. Rows that are on their way to a voter's log when it is asked count as well: they get there after its vote, and a
leader that is not told of terms would count them.

**Decisions about synchronous transactions.** An election is won by a majority. So whatever a majority has in its logs
while it knows of no later term, each later leader has: a voter of that leader has it, and votes for nobody who lacks it
in a log of the same term; and the leader of any later term that a log is of has it for the same reason. Every decision
rests on that:

```
state of the owner of the limbo        what it may write     why no two instances end with different outcomes
leader, its PROMOTE is written         CONFIRM(r)            a majority has r: each later leader confirms it, too
leader, heard a majority since r       a proposal            it decides nothing yet
leader, a majority has the proposal    ROLLBACK              each later leader has the proposal, and rolls r back
leader, no majority heard since r      nothing               callers learn that the outcome is not known
deposed                                nothing               the PROMOTE of the latest leader decides
latest leader                          its claim(n), once    it decides nothing yet
latest leader, a majority has the      PROMOTE(n)            each later leader has the claim, and writes the same
claim                                                        decision, or has the PROMOTE
follower                               nothing               it acts on the rows of the leader, in the order of its log
```

What a claim says, in this order:

```
an open claim is in the log (no        the same n: its       two open claims: that of the later term. Its author had the
PROMOTE of its term or a later one)    author may have       other one, or that reached no majority and nothing was
                                       written the PROMOTE   written after it
a proposal of the former leader        nothing is confirmed  a majority may have it, and its author the ROLLBACK
otherwise                              all that waits here   what is not here reached no majority
```

What may happen in between:

```
the leader ends after the claim        who leads next has the claim and repeats it, or lacks it: no majority had it,
                                       there is no PROMOTE, and the next claim is of a later term
rows come to the leader after the      they had reached no majority when it was elected: its PROMOTE rolls them back
claim
the claim reaches a majority late,     acknowledgements tell the term: the leader of an earlier one hears of its end
when another one has been elected      before it counts them
a PROMOTE that only its author has     its author and the next leader have written the same decision about the former
                                       owner; its own rows behind it have reached no majority
snapshots, joins                       both keep the term of the log, and an open claim
```

Without the claim a PROMOTE had its effect at once where it came first. If its author was cut off then, and somebody led
who had other rows of the former leader, both decisions had had their effect. Where one vote elects there is no claim.

A deposed leader takes back what it wrote after the last row that the next leader has; a PROMOTE that reached no
majority has no effect (`box.txn.promotion_history`), and an instance that had acted on it already says that it differs
(`box.txn.decisions`). A leader takes the rows of all others when a majority has its PROMOTE: rows of former leaders
that wait for a decision are NOPs from then on, whoever leads.

2.8.1 has CONFIRM and PROMOTE of this only. A leader of 2.8.1 writes its PROMOTE without a claim, and ROLLBACK when its
timeout is over, whether it leads or not, and takes no rows of those who do not lead. A claim is a CONFIRM of what is
confirmed already, with a key that 2.8.1 skips: it keeps the row in its log, acknowledges it, and votes for nobody who
lacks it. With 2.8.1 in a cluster this remains: its ROLLBACK may contradict the next leader's PROMOTE, and so may a
PROMOTE of its own that reached no majority, which makes instances of ours stop with "Split-Brain discovered"; a leader
of 2.8.1 confirms what waits although it has a proposal or a claim to the contrary; its acknowledgements tell no term;
and rows that only a former leader has arrive when that leads again. An `election_mode` whose quorum is no majority
loses the argument altogether.

Acknowledgements of 2.8.1 tell no term. Ours do: a leader that nobody else tells of its end would take the rows that
others have got rolled back, without an effect, for rows that they keep.

A former leader keeps rows that were rolled back when another one took over, and nobody else needs them. 2.8.1 votes for
nobody who lacks them, so that with two instances left, one of which has such rows and the other one newer rows of the
next leader, nobody can win. Here they are not asked for: where the promotion is known by the void rows, where it is not
yet by the terms of the logs. They are taken from a candidate that has them, since a 2.8.1 asks for them.

A pure state machine: no clock, no files, no waiting. Events are methods; what is to be done after each of them is in
`unrecorded` (a row to write to the WAL; until `recorded` the instance is a frozen follower), `wait` (a timer) and
`take_news` (a message for everybody). Only what is recorded is told to others: an instance that forgot a vote could
give a second one in the same term.

Source: Tarantool's behaviour as of 2.8.1.
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
_SHARE_OF_HASTE: Final = 0.5
_MILLISECONDS: Final = 1000


class Role(IntEnum):
    """See the table above. The values travel in messages."""

    FOLLOWER = 1
    CANDIDATE = 2
    LEADER = 3

    def __str__(self) -> str:
        return self.name.lower()


class Waiting(Enum):
    """Reasons to wait of an instance that may become the leader."""

    LEADER_FOUND = auto()
    LEADER_DEAD = auto()
    ELECTION_END = auto()


class Wait(NamedTuple):
    """A timer: `Raft.time_out` is called `seconds` after it began. `number` tells one wait from the next; the same
    number with other seconds has begun when it did before."""

    number: int
    reason: Waiting
    seconds: float


def raft_error(text: str) -> BoxError:
    """The error of a message that breaks the protocol."""
    return BoxError(ErrorCode.PROTOCOL, text, type="RaftError")


def request_text(request: RaftRequest) -> str:
    """A message as the log shows it: `{term: 2, vote: 1, state: candidate, vclock: {1: 7}}`."""
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
    """See the module's text. `own_vclock` gives the rows that this instance has, `needed` those that a leader
    has to have, the same unless it is given, `void_promotions` what else goes with a message that asks for votes or
    tells of a leader (`RaftRequest`), `log_term` the term of the newest claim or promotion in the log (0: not known),
    `arriving` those rows that are on their way to the log. `log` takes lines of level info."""

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
    ) -> None:
        self.instance_id = 0
        self.role = Role.FOLLOWER
        self.leader_id = 0
        """The leader of this term, 0 while it is not known."""
        self.term = 1
        self.vote = 0
        """The newest term and vote; others learn them when they are recorded."""
        self.is_enabled = False
        self.is_candidate = False
        """Whether the instance may become the leader now."""
        self.quorum = 1
        self.wait: Wait | None = None
        self.on_change: list[Callable[[], None]] = []
        """Called when role, leader or term have changed. Must not wait."""
        self._recorded = RaftRequest(1)
        self._is_configured_candidate = False
        self._election_timeout = 5.0
        self._death_timeout = 5.0
        self._voters: set[int] = set()
        self._lost = 0
        """Elections in a row that this instance has asked in, and nobody has won."""
        self._haste = 0.0
        """The share of `election_timeout` by which it waits less, because a candidate of this term lacks rows that are
        here; below 0: more, because that one has more."""
        self.has_news = False
        """There is a message for everybody: see `take_news`."""
        self._waits = 0
        self._random = random
        self._own_vclock = own_vclock
        self._needed = needed or own_vclock
        self._void_promotions = void_promotions
        self._log_term = log_term
        self._arriving = arriving
        self._log = log

    def __repr__(self) -> str:
        return f"<raft {self.role} of {self.instance_id}: term {self.term} vote {self.vote} leader {self.leader_id}>"

    # -- questions

    @property
    def is_read_only(self) -> bool:
        """Whether elections forbid writes here: only the leader takes them."""
        return self.is_enabled and self.role is not Role.LEADER

    @property
    def recorded_term(self) -> int:
        """The newest term in the WAL."""
        return self._recorded.term

    @property
    def unrecorded(self) -> RaftRequest | None:
        """The row to be written to the WAL now; None if everything is there."""
        return None if self._is_recorded else RaftRequest(self.term, self.vote)

    def local_state(self) -> RaftRequest:
        """The state that snapshots and logs keep. The role is not kept: after a restart somebody else may lead."""
        return self._recorded

    def remote_state(self) -> RaftRequest:
        """The state that other instances are told: a candidate's vclock is its request for votes."""
        vclock = VClock(self._own_vclock()).without_zero() if self.role is Role.CANDIDATE else None
        void_promotions = () if self.role is Role.FOLLOWER else self._void_promotions()
        log_term = self._log_term() if self.role is Role.CANDIDATE else 0
        return RaftRequest(self._recorded.term, self._recorded.vote, self.role, vclock, void_promotions, log_term)

    def take_news(self) -> RaftRequest | None:
        """The message for everybody if there is one; the next call gives None until something changes."""
        if not self.has_news:
            return None
        self.has_news = False
        return self.remote_state()

    @property
    def _is_recorded(self) -> bool:
        return self._recorded.term == self.term and self._recorded.vote == self.vote

    # -- options

    def enable(self, is_enabled: bool) -> None:
        """Take part in elections (`election_mode` other than off), or not."""
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
        # A term newer than everybody else's must be known to them, or their messages are ignored here.
        self._announce()

    def configure_candidate(self, is_candidate: bool) -> None:
        """Whether the instance may become the leader (`election_mode` candidate)."""
        self._is_configured_candidate = is_candidate
        if is_candidate and self.is_enabled:
            self.start_candidate()
        else:
            self.stop_candidate()

    def start_candidate(self) -> None:
        """Let the instance become the leader, also for the one election of `box.ctl.promote`."""
        if not self.is_candidate:
            self.is_candidate = True
            if self.role is not Role.LEADER:
                self._wait_as_candidate()

    def stop_candidate(self, *, steps_down: bool = True) -> None:
        """The instance takes part in no new election. A leader that does not step down leads to the end of its term."""
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
        """The number of votes that wins."""
        self.quorum = quorum
        if self.role is Role.CANDIDATE and len(self._voters) >= quorum:
            self._lead()

    def set_election_timeout(self, seconds: float) -> None:
        """`election_timeout`; counts for an election that is under way as well."""
        self._change_wait(Waiting.ELECTION_END, seconds - self._election_timeout)
        self._election_timeout = seconds

    def set_death_timeout(self, seconds: float) -> None:
        """Silence that makes a leader dead: four times `replication_timeout`."""
        self._change_wait(Waiting.LEADER_DEAD, seconds - self._death_timeout)
        self._death_timeout = seconds

    # -- events

    def recover(self, request: RaftRequest) -> None:
        """A RAFT row of the snapshot or the log, before the machine is enabled."""
        self._log(f"RAFT: recover {request_text(request)}")
        if request.term < self.term:
            return  # a row of the log from before the end of the snapshot, which knows a later term
        if request.term > self.term:
            self.term, self.vote = request.term, 0
        self.vote = request.vote or self.vote
        self._recorded = RaftRequest(self.term, self.vote)

    def receive(self, request: RaftRequest, source: int) -> None:
        """A message of the instance `source`. RaftError if it breaks the protocol, and then nothing has changed."""
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
        """Somebody has heard of `term`."""
        if term > self.term:
            self._log(f"RAFT: an acknowledgement tells of term {term}")
            self._begin_term(term)

    def hear(self, source: int) -> None:
        """A heartbeat or a row came from the instance `source`: if it leads, it is alive."""
        is_leader = source == self.leader_id != 0
        if is_leader and self.is_candidate and self.role is not Role.LEADER and self._is_recorded:
            self._wait_for(Waiting.LEADER_DEAD, self._death_timeout)

    def time_out(self) -> None:
        """The wait that `wait` describes is over."""
        self.wait = None
        self._begin_election()

    def recorded(self, request: RaftRequest) -> None:
        """`request`, which `unrecorded` gave, is in the WAL."""
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
        """Begin a term without waiting for the end of the present leader (`box.ctl.promote`)."""
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
        """See who can win against whom: the one that has all rows of the other, and more."""
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
        """The reason why a follower or a leader does not give its vote; empty if it does."""
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
        return self._lacks(request)

    def _log_terms_differ(self, request: RaftRequest) -> int:
        """Our log's term minus the candidate's; 0 where either is not known."""
        ours, theirs = self._log_term(), request.log_term
        return ours - theirs if ours and theirs else 0

    def _lacks(self, request: RaftRequest) -> str:
        """What a candidate's log lacks that a leader has to have; empty if it may lead."""
        difference = self._log_terms_differ(request)
        if difference > 0:
            return "its log knows of no claim or promotion as late as ours"
        # What the leader of a later term had is all that anybody may have decided about before.
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
        """Something that others may see has changed."""
        self.has_news = True
        for hook in self.on_change:
            hook()

    # -- waits

    def _wait_as_candidate(self) -> None:
        """Give a leader time to be heard: a restart must not disturb it with a new term."""
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
