"""Workloads under simulated faults: the product passes, and deliberately broken versions fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from box.journal.gc import Consumer, GarbageCollector
from box.journal.journal import Journal
from box.replication.elections import Elections
from box.replication.raft import Raft, Role
from box.replication.white_list import WhiteList
from box.testing.simulation import checks, run
from box.testing.simulation.faults import KINDS, Fault, draw_faults, kinds_of
from box.testing.simulation.row_workloads import SetWorkload
from box.testing.simulation.run import Outcome, Scenario, play
from box.testing.simulation.shrinking import shorten
from box.testing.simulation.simulation import Simulation
from box.testing.simulation.workloads import WORKLOADS
from box.txn.limbo import Limbo
from box.txn.promoter import Promoter
from box.txn.synchro import LimboDriver
from box.txn.transaction import Transaction
from box.txn.versions import Slot
from box.wire.messages import RaftRequest
from box.wire.vclock import VClock

VISIBLE = Slot.visible
SHORT_REST = 20.0
"""The simulated seconds in which a broken cluster may come to rest; a sound one gets more."""
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize(
    ("workload", "elections"),
    [*((workload, "off") for workload in sorted(WORKLOADS)), ("register", "candidate"), ("bank", "manual")],
)
def test_all_checks_pass(workload: str, elections: str) -> None:
    outcome = play(Scenario(11, workload=workload, elections=elections, seconds=4), deadline=120)
    assert not outcome.violations
    assert outcome.calls["ok"] > 20


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_runs_that_failed_once_pass(path: Path) -> None:
    outcome = play(Scenario.from_json(path.read_text()), deadline=120)
    assert not outcome.violations


@pytest.mark.parametrize("workload", ["async", "token", "set"])
def test_every_record_once(workload: str) -> None:
    """Five nodes with `replication_fetch_once` pass all checks."""
    options = {"replication_fetch_once": True}
    outcome = play(Scenario(3, nodes=5, workload=workload, seconds=3, options=options), deadline=120)
    assert not outcome.violations
    assert outcome.calls["ok"] > 20


def test_rows_that_overtake_what_they_build_upon_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `replication_fetch_once`, but without the order between sources, rows that arrive too early are noticed."""
    monkeypatch.setattr(WhiteList, "position_before", lambda white_list, origin: None)
    options = {"replication_fetch_once": True}
    scenarios = (Scenario(seed, nodes=5, workload="token", seconds=12, options=options) for seed in range(1, 8))
    assert any(play(scenario, deadline=120).violations for scenario in scenarios)


def play_an_absence(workload: str, amount: float) -> Outcome:
    """Play a run in which the third node is away while the others write rows and remove old files."""
    options = {"wal_max_size": 2000, "checkpoint_count": 1, "wal_cleanup_delay": 0.5}
    faults = (Fault(1.0, "away", "node3", "node1", 1.0, amount),)
    return play(Scenario(5, workload=workload, seconds=4, faults=faults, options=options), deadline=120)


def test_a_node_that_was_away_for_long_is_joined_anew_unless_it_has_local_rows() -> None:
    without, with_local_rows = play_an_absence("set", 0.1), play_an_absence("local", 0.1)
    assert not without.violations
    assert "replica is too old, initiating rebootstrap" in without.logs["node3"]
    assert not with_local_rows.violations
    assert any("Missing .xlog file" in line for line in with_local_rows.logs["node3"])


def test_a_node_that_is_killed_while_it_is_joined_anew_comes_back() -> None:
    outcome = play(Scenario(5, workload="async", seconds=20, kinds=kinds_of(["away", "kill"])), deadline=120)
    assert not outcome.violations
    assert any("replica is too old, initiating rebootstrap" in line for line in outcome.logs["node2"])


@pytest.mark.parametrize("kind", ["outage", "relapse", "lag"])
def test_points_and_lags_come_about(kind: str) -> None:
    options = {"wal_mode": "fsync"}
    outcome = play(Scenario(2, workload="async", seconds=6, kinds=(kind,), options=options), deadline=120)
    assert not outcome.violations
    expected = {"outage": "point", "relapse": "power", "lag": "stop"}[kind]
    assert any(event.kind == expected for event in outcome.trace.events)


def test_files_are_kept_for_a_node_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not play_an_absence("set", 0.9).violations
    monkeypatch.setattr(checks, "_REST", SHORT_REST)
    monkeypatch.setattr(Consumer, "advance", lambda consumer, vclock: None)
    monkeypatch.setattr(GarbageCollector, "register_consumer", lambda self, name, vclock: Consumer(self, name, vclock))
    assert any("does not come to rest" in text for text in play_an_absence("set", 0.9).violations)


def test_a_run_without_faults_refuses_nothing() -> None:
    outcome = play(Scenario(5, nodes=2, workload="set", seconds=3, kinds=()), deadline=120)
    assert not outcome.violations
    assert set(outcome.calls) == {"ok"}


def test_faults_follow_from_their_seed_and_their_kinds() -> None:
    def make(seed: int, kinds: tuple[str, ...]) -> list[Fault]:
        return draw_faults(Simulation.random_of(seed, "faults"), ["a", "b"], kinds, 50)

    assert make(1, KINDS) == make(1, KINDS) != make(2, KINDS)
    assert {fault.kind for fault in make(1, kinds_of(["clock", "kill"]))} == {"jump", "drift", "kill"}
    assert make(1, kinds_of(["none"])) == []


def test_a_scenario_survives_its_file() -> None:
    scenario = Scenario(3, nodes=5, workload="list", seconds=9).with_faults()
    assert Scenario.from_json(scenario.to_json()) == scenario
    text = scenario.to_json()
    for other in ("", "{}", "[1]", text.replace("node", "knot"), text.replace("list", "lost")):
        with pytest.raises(ValueError, match="not a scenario"):
            Scenario.from_json(other)


def test_an_answer_before_the_write_is_found_and_few_faults_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(1, 20)
    submit = Journal.submit

    def acknowledge_early(journal: Journal, entry: Any) -> None:
        """Answer the writer before the write, and ignore the journal's outcome."""
        submit(journal, entry)
        if entry in journal._pending:
            told, entry.on_complete = entry.on_complete, lambda entry: None
            journal._loop.call_soon(told, entry)

    monkeypatch.setattr(Journal, "submit", acknowledge_early)
    kinds = kinds_of(["process", "write"])
    outcome = next(
        found
        for seed in seeds
        if (found := play(Scenario(seed, nodes=1, workload="async", seconds=8, kinds=kinds), deadline=60)).violations
    )
    short = shorten(outcome, runs=12, deadline=60)
    assert short.violations
    assert 0 < len(short.scenario.faults or ()) <= len(outcome.scenario.faults or ())


def make_quorum_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the quorum smaller by one."""
    quorum_ack = Limbo._quorum_ack

    def one_too_small(limbo: Limbo) -> int:
        limbo._quorum -= 1
        try:
            return quorum_ack(limbo)
        finally:
            limbo._quorum += 1

    monkeypatch.setattr(Limbo, "_quorum_ack", one_too_small)


def test_a_quorum_that_is_one_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [Scenario(seed, workload="set", seconds=6, kinds=kinds_of(["isolate", "slow"])) for seed in range(6)]
    make_quorum_too_small(monkeypatch)
    violations = (text for scenario in scenarios for text in play(scenario, deadline=60).violations)
    assert any("is confirmed, and only" in text for text in violations)


def test_a_long_run_ends_early_when_it_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortening a run that fails early drops its later time, and faults of other kinds."""
    make_quorum_too_small(monkeypatch)
    scenario = Scenario(3, workload="set", seconds=120, kinds=kinds_of(["isolate", "slow", "snapshot", "jump"]), rate=2)
    outcome = play(scenario, deadline=60)
    assert outcome.noticed is not None
    told: list[str] = []
    short = shorten(outcome, runs=20, deadline=60, tell=told.append)
    assert short.violations
    assert short.scenario.seconds <= outcome.noticed + 1 < 60
    assert len(short.scenario.faults or ()) < len(outcome.scenario.faults or ()) / 4
    assert told


def test_a_callback_that_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_for_ever(workload: SetWorkload) -> Any:
        while True:
            sum(range(1000))

    monkeypatch.setattr(SetWorkload, "watch", look_for_ever)
    monkeypatch.setattr(run, "_GRACE", 0.2)
    outcome = play(Scenario(1, workload="set", seconds=1), deadline=1.0)
    assert any("the time for this run is over" in text for text in outcome.violations)


def test_a_run_that_takes_too_long_says_who_waits() -> None:
    outcome = play(Scenario(1, workload="set", seconds=1000), deadline=0.5)
    assert any("node1" in text and "the time for this run is over" in text for text in outcome.violations)


async def at_once(*_: Any) -> None:
    """Return at once instead of waiting."""


def sees_its_writer(slot: Slot, txn: Transaction | None) -> bytes | None:
    """A broken `Slot.visible`: a read view includes the transaction that it should exclude."""
    if txn is None or not txn.read_view:
        return VISIBLE(slot, txn)
    txn.read_view += 1
    try:
        return VISIBLE(slot, txn)
    finally:
        txn.read_view -= 1


def claim_a_vote(raft: Raft) -> RaftRequest:
    """A broken `Raft.local_state`: it reports a vote before it is written."""
    return RaftRequest(raft.recorded_term, raft._recorded.vote % 3 + 1)


def recover_in_any_order(raft: Raft, request: RaftRequest) -> None:
    """A broken `Raft.recover`: it takes a vote of a past term."""
    if request.term > raft.term:
        raft.term, raft.vote = request.term, 0
    raft.vote = request.vote or raft.vote
    raft._recorded = RaftRequest(raft.term, raft.vote)


def tell_before_recorded(raft: Raft) -> RaftRequest:
    """A broken `Raft.remote_state`: it reports state before the log has it."""
    vclock = VClock(raft._own_vclock()).without_zero() if raft.role is Role.CANDIDATE else None
    return RaftRequest(raft.term, raft.vote, raft.role, vclock)


@pytest.mark.parametrize(
    ("scenario", "broken", "text"),
    [
        (
            Scenario(1, workload="set", seconds=8, kinds=("doubt",)),
            (LimboDriver, "wait_confirm", at_once),
            "refused, and there all the same",
        ),
        (
            Scenario(4, nodes=5, workload="set", seconds=8, kinds=("heir",), elections="candidate"),
            (Promoter, "_wait", at_once),
            "is confirmed, and only",
        ),
        (
            Scenario(
                1, workload="register", seconds=15, kinds=kinds_of(["promote", "flush", "latency"]), elections="manual"
            ),
            (Raft, "remote_state", tell_before_recorded),
            "by the votes of",
        ),
        (
            Scenario(2, workload="register", seconds=6, kinds=("stumble",), elections="candidate"),
            (Elections, "_has_taken_over", True),
            "does not come to rest",
        ),
        (
            Scenario(1, workload="transactions", seconds=4, kinds=()),
            (Slot, "visible", sees_its_writer),
            "has changed",
        ),
        (
            Scenario(1, workload="register", seconds=3, kinds=(), elections="manual"),
            (Raft, "local_state", claim_a_vote),
            "tells of term",
        ),
        (
            Scenario(14, workload="register", seconds=8, kinds=("rivals",), elections="manual"),
            (Raft, "recover", recover_in_any_order),
            "tells of term",
        ),
    ],
    ids=["snapshot", "promotion", "vote", "leader", "read view", "claim", "rivals"],
)
def test_faults_that_look_for_their_moment_find_what_chance_does_not(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, broken: tuple[type, str, Any], text: str
) -> None:
    """Faults that wait for a certain state find defects that random times miss.

    The defects: a snapshot that does not wait for the limbo, a promotion without a quorum, a vote announced before it
    is recorded, a leader that is writable before its PROMOTE, a read view with its writer, a vote that is not in the
    log, and a vote of a past term.
    """
    assert not play(scenario, deadline=60).violations
    monkeypatch.setattr(checks, "_REST", SHORT_REST)
    monkeypatch.setattr(*broken)
    assert any(text in violation for violation in play(scenario, deadline=60).violations)


def test_clocks_that_differ_do_not_keep_a_cluster_from_rest() -> None:
    """A node whose clock is minutes wrong is out of sync by `replication_sync_lag`, until the clock is corrected at the
    end.
    """
    faults = (Fault(0.5, "jump", "node1", "node1", 1.0, 0.54), Fault(1.0, "sources", "node1", "node1", 0.1, 0.5))
    scenario = Scenario(7, workload="unique", seconds=2, faults=faults, elections="manual")
    assert not play(scenario, deadline=60).violations
