"""The state machine of elections, without sockets, clock or waiting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from random import Random

import pytest

from box.errors import BoxError
from box.replication.raft import Raft, Role, Wait, Waiting, request_text
from box.wire.messages import RaftRequest
from box.wire.vclock import VClock

SELF, OTHER, THIRD = 1, 2, 3


def machine(**vclock: int) -> Raft:
    """Make a voter with the id SELF."""
    raft = Raft(Random(1), lambda: VClock.of((int(key[1:]), lsn) for key, lsn in vclock.items()))
    raft.instance_id = SELF
    raft.enable(True)
    return raft


def record(raft: Raft) -> None:
    """Write all pending records."""
    while (request := raft.unrecorded) is not None:
        raft.recorded(request)


def candidate(quorum: int = 2, **vclock: int) -> Raft:
    """Make an instance that may become the leader and waits for one."""
    raft = machine(**vclock)
    raft.set_quorum(quorum)
    raft.configure_candidate(True)
    return raft


def asking(quorum: int = 2, **vclock: int) -> Raft:
    """Make an instance that asks for votes in term 2."""
    raft = candidate(quorum, **vclock)
    raft.time_out()
    record(raft)
    return raft


def leading() -> Raft:
    """Make the leader of term 2."""
    raft = asking()
    raft.receive(RaftRequest(2, SELF, Role.FOLLOWER), OTHER)
    return raft


def request_of(source: int, term: int = 2, **vclock: int) -> RaftRequest:
    """Make a request for votes."""
    clock = VClock.of((int(key[1:]), lsn) for key, lsn in vclock.items())
    return RaftRequest(term, source, Role.CANDIDATE, clock)


def reason(raft: Raft) -> Waiting | None:
    return raft.wait.reason if raft.wait is not None else None


def test_a_voter_waits_for_nothing_and_is_read_only() -> None:
    raft = machine()
    assert (raft.role, raft.wait, raft.is_read_only) == (Role.FOLLOWER, None, True)


def test_without_elections_nobody_is_read_only() -> None:
    raft = machine()
    raft.enable(False)
    assert not raft.is_read_only


def test_a_candidate_gives_a_leader_time_to_be_heard() -> None:
    raft = candidate()
    assert raft.wait == Wait(1, Waiting.LEADER_FOUND, 5.0)
    assert raft.unrecorded is None


def test_the_end_of_the_wait_begins_a_term_with_a_vote_for_oneself() -> None:
    raft = candidate()
    raft.time_out()
    assert raft.unrecorded == RaftRequest(2, SELF)
    assert (raft.role, raft.wait) == (Role.FOLLOWER, None)


def test_nobody_is_asked_for_votes_before_the_own_one_is_recorded() -> None:
    raft = candidate()
    raft.time_out()
    news = raft.take_news()
    assert news is not None
    assert news == RaftRequest(1, 0, Role.FOLLOWER)
    record(raft)
    assert raft.take_news() == RaftRequest(2, SELF, Role.CANDIDATE, VClock())
    assert raft.take_news() is None


def test_an_election_ends_after_the_timeout_and_up_to_a_tenth_more() -> None:
    seconds = {asking().wait.seconds for _ in range(3)}  # type: ignore[union-attr]
    assert all(5.0 <= value <= 5.5 for value in seconds)


def test_a_quorum_of_one_needs_no_answers() -> None:
    raft = asking(quorum=1)
    assert (raft.role, raft.leader_id, raft.is_read_only) == (Role.LEADER, SELF, False)


def test_a_quorum_of_votes_wins() -> None:
    raft = asking(quorum=3)
    raft.receive(RaftRequest(2, SELF, Role.FOLLOWER), OTHER)
    raft.receive(RaftRequest(2, SELF, Role.FOLLOWER), OTHER)
    assert raft.role is Role.CANDIDATE
    raft.receive(RaftRequest(2, SELF, Role.FOLLOWER), THIRD)
    assert (raft.role, raft.wait) == (Role.LEADER, None)


def test_a_smaller_quorum_may_make_a_leader_at_once() -> None:
    raft = asking(quorum=3)
    raft.receive(RaftRequest(2, SELF, Role.FOLLOWER), OTHER)
    raft.set_quorum(2)
    assert raft.role is Role.LEADER


def test_an_election_that_nobody_wins_is_followed_by_the_next() -> None:
    raft = asking()
    raft.time_out()
    assert raft.unrecorded == RaftRequest(3, SELF)
    assert raft.role is Role.FOLLOWER


def test_a_vote_is_given_once_a_term() -> None:
    raft = machine()
    raft.receive(request_of(OTHER), OTHER)
    assert raft.unrecorded == RaftRequest(2, OTHER)
    record(raft)
    raft.receive(request_of(THIRD), THIRD)
    assert raft.vote == OTHER
    raft.receive(request_of(THIRD, term=3), THIRD)
    assert (raft.term, raft.vote) == (3, THIRD)


def test_a_vote_survives_a_restart() -> None:
    raft = machine()
    raft.receive(request_of(OTHER), OTHER)
    record(raft)
    again = Raft(Random(1), VClock)
    again.instance_id = SELF
    again.recover(raft.local_state())
    again.enable(True)
    again.receive(request_of(THIRD), THIRD)
    assert (again.term, again.vote) == (2, OTHER)


def test_a_row_of_a_later_term_without_a_vote_forgets_the_earlier_one() -> None:
    raft = Raft(Random(1), VClock)
    raft.recover(RaftRequest(2, OTHER))
    raft.recover(RaftRequest(3))
    assert (raft.term, raft.vote) == (3, 0)


def test_a_row_of_an_earlier_term_than_the_snapshot_s_gives_no_vote_in_that() -> None:
    """A row of a term before the snapshot's brings no vote of that term: the snapshot has later records than the log's
    start.
    """
    raft = Raft(Random(1), VClock)
    for request in (RaftRequest(4), RaftRequest(3, OTHER), RaftRequest(4)):
        raft.recover(request)
    assert raft.local_state() == RaftRequest(4)


@pytest.mark.parametrize(
    ("own", "theirs", "is_given"),
    [
        ({"r2": 5}, {"r2": 5}, True),
        ({"r2": 5}, {"r2": 6}, True),
        ({"r2": 5}, {"r2": 4}, False),
        ({"r2": 5, "r3": 1}, {"r2": 6}, False),
        ({"r0": 9, "r2": 5}, {"r2": 5}, True),
    ],
)
def test_a_vote_needs_the_rows_that_we_have(own: dict[str, int], theirs: dict[str, int], is_given: bool) -> None:
    raft = machine(**own)
    raft.receive(request_of(OTHER, **theirs), OTHER)
    assert raft.vote == (OTHER if is_given else 0)


def test_rows_without_an_effect_are_not_needed() -> None:
    """A former leader votes for a candidate without its rolled-back rows, and still announces its whole vclock."""
    raft = Raft(Random(1), lambda: VClock({1: 9, 2: 4}), needed=lambda: VClock({1: 7, 2: 4}))
    raft.instance_id = SELF
    raft.enable(True)
    raft.receive(request_of(OTHER, 2, r1=6, r2=5), OTHER)
    record(raft)
    assert raft.vote == 0
    raft.receive(request_of(THIRD, 3, r1=7, r2=5), THIRD)
    record(raft)
    assert raft.vote == THIRD
    raft.set_quorum(2)
    raft.configure_candidate(True)
    raft.time_out()
    record(raft)
    assert raft.remote_state().vclock == {1: 9, 2: 4}


def test_a_node_that_knows_the_leader_gives_no_vote_in_its_term() -> None:
    raft = machine()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    record(raft)
    raft.receive(request_of(THIRD), THIRD)
    assert (raft.leader_id, raft.vote) == (OTHER, 0)


def test_a_node_without_elections_follows_terms_and_gives_no_vote() -> None:
    raft = machine()
    raft.enable(False)
    raft.receive(request_of(OTHER), OTHER)
    assert (raft.term, raft.vote) == (2, 0)


def test_a_competing_candidate_gets_no_vote() -> None:
    raft = asking()
    raft.receive(request_of(OTHER), OTHER)
    assert (raft.role, raft.vote) == (Role.CANDIDATE, SELF)


def test_a_notice_of_a_vote_for_a_third_one_is_no_request() -> None:
    raft = machine()
    raft.receive(RaftRequest(2, THIRD, Role.FOLLOWER), OTHER)
    assert (raft.term, raft.vote) == (2, 0)


def test_an_answer_that_comes_too_late_counts_for_nothing() -> None:
    raft = machine()
    raft.receive(RaftRequest(1, SELF, Role.FOLLOWER), OTHER)
    assert (raft.role, raft.vote) == (Role.FOLLOWER, 0)


def test_messages_of_an_earlier_term_are_ignored() -> None:
    raft = leading()
    raft.receive(RaftRequest(1, 0, Role.LEADER), OTHER)
    assert (raft.role, raft.leader_id) == (Role.LEADER, SELF)


def test_a_newer_term_deposes_a_leader() -> None:
    raft = leading()
    raft.receive(RaftRequest(3, 0, Role.FOLLOWER), OTHER)
    assert (raft.role, raft.leader_id, raft.is_read_only) == (Role.FOLLOWER, 0, True)
    assert raft.unrecorded == RaftRequest(3)


def test_a_newer_term_in_an_acknowledgement_deposes_a_leader() -> None:
    raft = leading()
    raft.hear_term(2)
    raft.hear_term(0)
    assert (raft.role, raft.term, raft.unrecorded) == (Role.LEADER, 2, None)
    raft.hear_term(5)
    assert (raft.role, raft.leader_id, raft.is_read_only) == (Role.FOLLOWER, 0, True)
    assert raft.unrecorded == RaftRequest(5)


def test_a_deposed_leader_stands_again_when_its_term_is_recorded() -> None:
    raft = leading()
    raft.receive(RaftRequest(3, 0, Role.FOLLOWER), OTHER)
    raft.recorded(RaftRequest(3))
    assert raft.unrecorded == RaftRequest(3, SELF)


def test_a_loser_follows_the_winner() -> None:
    raft = asking()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    assert (raft.role, raft.leader_id, reason(raft)) == (Role.FOLLOWER, OTHER, Waiting.LEADER_DEAD)


def test_two_leaders_of_a_term_are_told_and_change_nothing() -> None:
    raft = leading()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    assert raft.leader_id == SELF


def test_what_the_leader_sends_shows_that_it_is_alive() -> None:
    raft = asking()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    before = raft.wait
    raft.hear(THIRD)
    assert raft.wait == before
    raft.hear(OTHER)
    assert before is not None
    assert raft.wait == before._replace(number=before.number + 1)


def test_the_first_silence_of_a_leader_begins_an_election() -> None:
    raft = asking()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    raft.time_out()
    assert raft.unrecorded == RaftRequest(3, SELF)


def test_a_leader_that_resigns_is_replaced_without_delay() -> None:
    raft = candidate()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    record(raft)
    raft.receive(RaftRequest(2, 0, Role.FOLLOWER), OTHER)
    assert raft.unrecorded == RaftRequest(3, SELF)


def test_a_voter_learns_that_the_leader_resigned() -> None:
    raft = machine()
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    raft.receive(RaftRequest(2, 0, Role.FOLLOWER), OTHER)
    assert (raft.leader_id, raft.term) == (0, 2)


def test_a_leader_that_becomes_a_voter_steps_down() -> None:
    raft = leading()
    raft.configure_candidate(False)
    assert (raft.role, raft.leader_id) == (Role.FOLLOWER, 0)


def test_the_leader_of_a_manual_election_leads_until_the_next_term() -> None:
    raft = leading()
    raft.stop_candidate(steps_down=False)
    assert raft.role is Role.LEADER
    raft.receive(RaftRequest(3, 0, Role.FOLLOWER), OTHER)
    record(raft)
    assert (raft.role, raft.wait) == (Role.FOLLOWER, None)


def test_a_candidate_that_may_not_win_any_more_follows() -> None:
    raft = asking()
    raft.configure_candidate(False)
    assert (raft.role, raft.wait) == (Role.FOLLOWER, None)


def test_a_stopped_leader_leaves_the_term_without_one() -> None:
    raft = leading()
    raft.enable(False)
    assert (raft.role, raft.leader_id, raft.wait) == (Role.FOLLOWER, 0, None)


def test_a_new_term_needs_elections() -> None:
    raft = machine()
    raft.new_term()
    assert raft.unrecorded == RaftRequest(2)
    raft.enable(False)
    raft.new_term()
    assert raft.unrecorded == RaftRequest(2)


def test_timeouts_that_change_count_for_the_present_wait() -> None:
    raft = asking()
    before = raft.wait
    assert before is not None
    raft.set_election_timeout(2.0)
    assert raft.wait == before._replace(seconds=before.seconds - 3.0)
    raft.receive(RaftRequest(2, 0, Role.LEADER), OTHER)
    raft.set_death_timeout(7.0)
    assert raft.wait is not None
    assert raft.wait.seconds == 7.0


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (RaftRequest(0, 0, Role.LEADER), "Invalid term or state"),
        (RaftRequest(2), "Invalid term or state"),
        (RaftRequest(2, 0, 7), "Invalid term or state"),
        (RaftRequest(2, OTHER, Role.CANDIDATE), "Candidate should always vote for self and provide its vclock"),
        (RaftRequest(2, THIRD, 2, VClock()), "Candidate should always vote for self and provide its vclock"),
    ],
)
def test_messages_that_break_the_protocol_change_nothing(request_: RaftRequest, text: str) -> None:
    raft = machine()
    with pytest.raises(BoxError, match=text) as caught:
        raft.receive(request_, OTHER)
    assert caught.value.type == "RaftError"
    assert (raft.term, raft.vote, raft.leader_id) == (1, 0, 0)


def test_the_text_of_a_message() -> None:
    assert request_text(request_of(OTHER, r1=7)) == "{term: 2, vote: 2, state: candidate, vclock: {1: 7}}"
    assert request_text(RaftRequest(3)) == "{term: 3}"
    assert request_text(RaftRequest(3, 0, 9)) == "{term: 3, state: invalid (9)}"
    assert repr(machine()) == "<raft follower of 1: term 1 vote 0 leader 0>"


class Cluster:
    """State machines whose messages, records, crashes and timers come in random order."""

    def __init__(self, seed: int, count: int, kind: type[Raft] = Raft) -> None:
        self.random = Random(seed)
        self.kind = kind
        self.quorum = count // 2 + 1
        self.lsn = dict.fromkeys(range(1, count + 1), 0)
        self.nodes = {i: self.start(i, RaftRequest(1)) for i in self.lsn}
        self.messages: list[tuple[int, int, RaftRequest]] = []
        self.leaders: dict[int, int] = {}

    def start(self, instance_id: int, state: RaftRequest) -> Raft:
        raft = self.kind(self.random, lambda: VClock.of([(1, self.lsn[instance_id])]))
        raft.instance_id = instance_id
        raft.recover(state)
        raft.set_quorum(self.quorum)
        raft.configure_candidate(True)
        raft.enable(True)
        return raft

    def step(self) -> None:
        instance_id = self.random.choice(list(self.nodes))
        raft = self.nodes[instance_id]
        match self.random.randrange(8):
            case 0 | 1 | 2 if self.messages:
                source, target, message = self.messages.pop(self.random.randrange(len(self.messages)))
                if self.random.random() > 0.1:
                    self.nodes[target].receive(message, source)
            case 3 | 4 if (request := raft.unrecorded) is not None:
                raft.recorded(request)
            case 5 if raft.wait is not None and self.random.random() < 0.3:
                raft.time_out()
            case 6 if self.random.random() < 0.05:
                self.nodes[instance_id] = self.start(instance_id, raft.local_state())
            case 7 if raft.role is Role.LEADER:
                self.lsn[instance_id] += 1
        for node_id, node in self.nodes.items():
            if (news := node.take_news()) is not None:
                self.messages += [(node_id, target, news) for target in self.nodes if target != node_id]
            if node.role is Role.LEADER:
                assert self.leaders.setdefault(node.term, node_id) == node_id, f"two leaders in term {node.term}"


def run(seed: int, count: int, kind: type[Raft] = Raft) -> int:
    """Run the cluster; return the number of terms with a leader, and fail if a term has two."""
    cluster = Cluster(seed, count, kind)
    for _ in range(1500):
        cluster.step()
    return len(cluster.leaders)


@pytest.mark.parametrize("count", [3, 5])
def test_a_term_never_has_two_leaders(count: int) -> None:
    assert sum(run(seed, count) for seed in range(60)) > 30


class Forgetful(Raft):
    """A broken state machine that votes for everybody who asks."""

    def _reason_to_skip(self, request: RaftRequest) -> str:
        reason = super()._reason_to_skip(request)
        return "" if reason.startswith("already voted") else reason


def test_a_second_vote_in_a_term_is_found_out() -> None:
    with pytest.raises(AssertionError, match="two leaders"):
        sum(run(seed, 3, Forgetful) for seed in range(200))


class Timed:
    """Two candidates with delays; `elect` returns the seconds until one leads.

    `latency` has the least and greatest seconds of a message; a record takes up to 20 ms.
    """

    def __init__(self, seed: int, kinds: list[type[Raft]], lsns: list[int], latency: tuple[float, float]) -> None:
        self.random = Random(seed)
        self.latency = latency
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.waits: dict[int, tuple[Wait, float]] = {}
        self.recording: set[int] = set()
        self.nodes = {number: self.start(number, *of) for number, of in enumerate(zip(kinds, lsns, strict=True), 1)}
        self.follow_up()

    def start(self, number: int, kind: type[Raft], lsn: int) -> Raft:
        raft = kind(Random(self.random.random()), lambda: VClock.of([(1, lsn)]))
        raft.instance_id = number
        raft.set_quorum(2)
        raft.set_election_timeout(1.0)
        raft.set_death_timeout(4.0)
        raft.configure_candidate(True)
        raft.enable(True)
        return raft

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        heappush(self.events, (seconds, len(self.events) + self.random.randrange(1 << 30), event))

    def follow_up(self) -> None:
        """Carry out what the state machines ask for."""
        for number, raft in self.nodes.items():
            self.wait(number, raft)
            request = raft.unrecorded
            if request is not None and number not in self.recording:
                self.recording.add(number)
                self.at(self.now + self.random.uniform(0, 0.02), partial(self.record, number, request))
            elif request is None and (news := raft.take_news()) is not None:
                for target in self.nodes.keys() - {number}:
                    arrival = self.now + self.random.uniform(*self.latency)
                    self.at(arrival, partial(self.nodes[target].receive, news, number))

    def wait(self, number: int, raft: Raft) -> None:
        wait, (known, since) = raft.wait, self.waits.get(number, (None, 0.0))
        if wait is None or wait == known:
            return
        if known is None or known.number != wait.number:
            since = self.now
        self.waits[number] = wait, since
        self.at(since + wait.seconds, lambda: raft.time_out() if raft.wait == wait else None)

    def record(self, number: int, request: RaftRequest) -> None:
        self.recording.discard(number)
        self.nodes[number].recorded(request)

    def elect(self, limit: float) -> float:
        while self.now < limit:
            self.now, _, event = heappop(self.events)
            event()
            self.follow_up()
            if any(raft.role is Role.LEADER for raft in self.nodes.values()):
                return self.now
        return limit


class Steady(Raft):
    """A state machine with Tarantool's pauses before a new election."""

    def _compare(self, request: RaftRequest) -> None:
        pass

    def _wait_for_election(self) -> None:
        self._lost = 0
        super()._wait_for_election()


@pytest.mark.parametrize("latency", [(0.0, 0.01), (0.05, 0.15), (0.1, 0.3), (0.2, 0.5)])
@pytest.mark.parametrize("lsns", [[5, 5], [5, 6], [6, 5]])
@pytest.mark.parametrize("kinds", [[Raft, Raft], [Raft, Steady], [Steady, Raft]], ids=["ours", "first", "second"])
def test_a_leader_is_found_while_messages_are_slow(
    kinds: list[type[Raft]], lsns: list[int], latency: tuple[float, float]
) -> None:
    """With slow messages one of two candidates is elected in less than 25 seconds."""
    assert max(Timed(seed, kinds, lsns, latency).elect(60) for seed in range(40)) < 25


def test_tarantools_pause_before_a_claim_may_find_no_vote() -> None:
    """With Tarantool's pauses the same elections often fail for a minute, so the test above is not trivial."""
    found = [Timed(seed, [Steady, Steady], [5, 6], (0.1, 0.3)).elect(60) for seed in range(40)]
    assert sum(seconds >= 60 for seconds in found) > 5


def test_chance_grows_with_elections_that_nobody_wins() -> None:
    """The random pause grows with each election without a winner, until there is a leader."""
    raft = asking()
    longest = 0.0
    for _ in range(8):
        assert raft.wait is not None
        assert 5.0 <= raft.wait.seconds <= 10.0
        longest = max(longest, raft.wait.seconds)
        raft.time_out()
        record(raft)
    assert longest > 6.0
    raft.receive(RaftRequest(raft.term, OTHER, Role.LEADER), OTHER)
    raft.time_out()
    record(raft)
    assert raft.wait is not None
    assert raft.wait.seconds <= 5.5


def test_a_candidate_with_more_rows_asks_sooner_and_one_with_less_later() -> None:
    ahead, behind = asking(r1=6), asking(r1=4)
    for raft in (ahead, behind):
        assert raft.wait is not None
        assert raft.wait.seconds >= 5.0
        raft.receive(request_of(OTHER, r1=5), OTHER)
        raft.receive(request_of(OTHER, r1=5), OTHER)  # once more: no other wait by that
    assert ahead.wait is not None
    assert behind.wait is not None
    assert 2.5 <= ahead.wait.seconds <= 3.0
    assert 7.5 <= behind.wait.seconds <= 8.0
    neither = asking(r1=5)
    neither.receive(request_of(OTHER, r1=4, r2=1), OTHER)
    assert neither.wait is not None
    assert neither.wait.seconds >= 5.0
