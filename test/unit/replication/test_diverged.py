"""Rows of a leader that was deposed, does not know it, and decides alone."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from box.errors import BoxError
from box.replication.raft import Raft, Role
from box.wire.constants import Flag, RequestType
from box.wire.messages import RaftRequest, SynchroRequest, synchro_row
from box.wire.row import Row
from box.wire.vclock import VClock

from .pair import ORIGIN, SYNCHRONOUS, Replica, change_body

NEXT = 3
"""The id of the leader that follows `ORIGIN`."""


def _insert(lsn: int) -> Row:
    body = change_body(RequestType.INSERT, SYNCHRONOUS, (lsn, "a", 1), [], 0)
    return Row(RequestType.INSERT, ORIGIN, lsn, flags=Flag.WAIT_SYNC | Flag.WAIT_ACK, body=body, is_commit=True)


def _decision(kind: RequestType, author: int, lsn: int, about: int, term: int = 0) -> Row:
    row = synchro_row(SynchroRequest(kind, ORIGIN, about, term, author))
    row.replica_id, row.lsn = author, lsn
    return row


@pytest.mark.parametrize(
    ("kind", "about", "error"),
    [
        (RequestType.ROLLBACK, 1, "rolls back what PROMOTE {replica 2, lsn 1, term 2} of instance 3, lsn 1 has"),
        (RequestType.CONFIRM, 2, "confirms what PROMOTE {replica 2, lsn 1, term 2} of instance 3, lsn 1 has"),
        (RequestType.ROLLBACK, 2, None),
        (RequestType.CONFIRM, 1, None),
    ],
    ids=["confirmed, rolled back", "rolled back, confirmed", "rolled back twice", "confirmed twice"],
)
def test_a_decision_of_a_deposed_leader(kind: RequestType, about: int, error: str | None) -> None:
    """A decision of a deposed leader becomes a NOP if this instance decided alike, and is an error otherwise."""

    async def body() -> tuple[str | None, list[Any]]:
        replica = Replica(skips_conflicts=False)
        synchro: Any = replica.world.synchro
        elections: Any = replica.sink._elections
        elections.is_outdated, elections.is_new_claim = synchro.limbo.is_outdated, lambda claim: False
        for lsn in (1, 2):
            assert await replica.apply(_insert(lsn)) is None
        replica.world.journal.write()
        synchro.recover(_decision(RequestType.PROMOTE, NEXT, 1, 1, term=2))
        told = None
        try:
            await replica.sink.apply(replica.world.ctx, [_decision(kind, ORIGIN, 3, about)])
        except BoxError as failure:
            told = failure.message
        replica.world.journal.write()
        return told, replica.world.journal.rows

    told, rows = asyncio.run(body())
    if error is None:
        assert told is None
        assert [row[0] for row in rows] == [RequestType.INSERT, RequestType.INSERT, RequestType.NOP]
    else:
        assert told is not None
        assert error in told
        assert [row[0] for row in rows] == [RequestType.INSERT, RequestType.INSERT]


def test_a_decision_that_is_here_already_contradicts_nothing() -> None:
    """A decision that is known here already is no contradiction: other members may send it again."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False)
        rollback = _decision(RequestType.ROLLBACK, ORIGIN, 3, 2)
        replica.world.synchro.recover(_decision(RequestType.PROMOTE, NEXT, 1, 2, term=2))
        assert replica.sink.contradicts([rollback])
        replica.sink.applied.follow(ORIGIN, 3)
        assert not replica.sink.contradicts([rollback])

    asyncio.run(body())


def test_nobody_votes_for_an_instance_that_has_diverged() -> None:
    lines: list[str] = []
    raft = Raft(Random(1), dict, lines.append, has_diverged=lambda instance_id: instance_id == ORIGIN)
    raft.instance_id = 1
    raft.enable(True)
    for candidate in (ORIGIN, NEXT):
        raft.receive(RaftRequest(2, candidate, Role.CANDIDATE, VClock()), candidate)
        assert raft.vote == (0 if candidate == ORIGIN else NEXT)
    assert "RAFT: vote request is skipped - its data differs from ours" in lines
