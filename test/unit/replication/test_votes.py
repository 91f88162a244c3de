"""Which of two logs is the later one, and so which candidate may get a vote."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from box.replication.raft import Raft, Role
from box.wire.messages import RaftRequest
from box.wire.vclock import VClock

from .test_raft import OTHER, SELF, record, request_of


@pytest.mark.parametrize(
    ("ours", "theirs", "vclock", "is_chosen"),
    [
        (3, 4, {"r2": 1}, True),
        (4, 3, {"r1": 9, "r2": 9}, False),
        (3, 3, {"r1": 9, "r2": 4}, True),
        (3, 3, {"r1": 8, "r2": 9}, False),
        (0, 4, {"r1": 8, "r2": 9}, False),
        (0, 4, {"r1": 9, "r2": 9}, True),
        (3, 0, {"r1": 8, "r2": 9}, False),
        (3, 0, {"r1": 9, "r2": 4}, True),
    ],
    ids=["later", "earlier", "same", "same, fewer rows", "ours unknown, fewer", "ours unknown", "fewer", "unknown"],
)
def test_the_term_of_the_log_comes_before_its_rows(
    ours: int, theirs: int, vclock: dict[str, int], is_chosen: bool
) -> None:
    """The term of the last row decides before the number of rows; if either side has no term, rows alone count, as in
    Tarantool.
    """
    raft = Raft(Random(1), lambda: VClock({1: 9, 2: 4}), log_term=lambda: ours)
    raft.instance_id = SELF
    raft.enable(True)
    raft.receive(replace(request_of(OTHER, 5, **vclock), log_term=theirs), OTHER)
    record(raft)
    assert raft.vote == (OTHER if is_chosen else 0)


def test_rows_on_their_way_to_the_log_are_asked_for_whatever_the_term() -> None:
    """A candidate without a term must have the rows on their way to our log, too: a leader may count them as
    acknowledged.
    """
    raft = Raft(Random(1), lambda: VClock({1: 9, 2: 4}), log_term=lambda: 3, arriving=lambda: VClock({2: 5}))
    raft.instance_id = SELF
    raft.enable(True)
    for term, lsn in ((5, 4), (6, 5)):
        raft.receive(replace(request_of(OTHER, term, r2=lsn), log_term=4), OTHER)
        record(raft)
        assert raft.vote == (OTHER if lsn == 5 else 0)


def test_a_candidate_tells_the_term_of_its_log() -> None:
    raft = Raft(Random(1), VClock, log_term=lambda: 1)
    raft.instance_id = SELF
    raft.enable(True)
    raft.set_quorum(2)
    raft.configure_candidate(True)
    assert raft.remote_state().log_term == 0
    raft.time_out()
    record(raft)
    assert raft.remote_state() == RaftRequest(2, SELF, Role.CANDIDATE, VClock(), (), 1)
