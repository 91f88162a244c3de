"""Decisions about synchronous transactions that contradict each other, and how they are prevented and found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.txn.decisions import SPLIT_BRAIN
from box.wire.constants import Flag, RequestType
from box.wire.row import Row

from ._world import World, code
from .test_synchro import CONFIRM, PROMOTE, ROLLBACK, commit_of, remote, synchro


def elected(world: World, *, leads: bool = True, voters: int = 2) -> None:
    """Turn elections on; with `leads` this instance decides."""
    world.synchro.voters_needed = lambda: voters
    world.synchro.may_decide = lambda: leads


async def told(commit: Any) -> BoxError:
    with pytest.raises(BoxError) as caught:
        await asyncio.wait_for(commit.wait(), 5)
    return caught.value


def test_a_deposed_leader_leaves_the_outcome_to_the_next() -> None:
    """After a timeout at a deposed leader its caller gets "unknown"; the next leader's PROMOTE may still commit the
    row.
    """

    async def body() -> None:
        world = World(quorum=2, timeout=0.01)
        space = world.space(is_sync=True)
        elected(world, leads=False)
        commit = commit_of(world, space, 1)
        world.journal.write()
        error = await told(commit)
        assert error.code == ErrorCode.SYNC_QUORUM_TIMEOUT
        assert error.fields is not None
        assert error.fields["outcome"] == "unknown"
        assert not world.journal.queue
        assert len(world.limbo) == 1
        applying = asyncio.ensure_future(world.synchro.apply(synchro(PROMOTE, 1, 1, 2, 1)))
        await world.journal.submitted.wait()
        world.journal.write()
        await applying
        assert commit.done
        assert commit.error is None
        assert world.all(space) == [[1]]

    asyncio.run(body())


def test_a_leader_without_contact_decides_nothing() -> None:
    """A leader without contact to a quorum rolls nothing back, because it may be deposed; it confirms what is
    acknowledged later.
    """

    async def body() -> None:
        world = World(quorum=2, timeout=0.01)
        space = world.space(is_sync=True)
        elected(world)
        commits = [commit_of(world, space, key) for key in (1, 2)]
        world.journal.write()
        for error in await asyncio.gather(*map(told, commits)):
            assert error.fields is not None
            assert error.fields["outcome"] == "unknown"
        assert not world.journal.queue
        world.synchro.on_ack(2, {1: 2})
        world.journal.write()
        assert [commit.error for commit in commits] == [None, None]
        assert world.limbo.is_empty

    asyncio.run(body())


def test_a_leader_in_contact_proposes_before_it_rolls_back() -> None:
    """A leader in contact writes a proposal, and its ROLLBACK when a quorum has it; callers are refused only then."""

    async def body() -> None:
        world = World(quorum=3, timeout=0.05)
        space = world.space(is_sync=True)
        elected(world)
        commit = commit_of(world, space, 1)
        world.journal.write()
        world.synchro.on_ack(2, {})
        await asyncio.wait_for(world.journal.submitted.wait(), 5)
        world.journal.write()
        proposal = world.journal.entries[-1].rows[0]
        assert (proposal.type, proposal.flags) == (RequestType.NOP, Flag.PROPOSED)
        assert not commit.done
        with pytest.raises(BoxError) as refused:
            world.replace(space, 2)
        assert code(refused.value) == "SYNC_ROLLBACK"
        world.synchro.on_ack(2, {1: proposal.lsn})
        world.journal.write()
        assert world.journal.rows[-1][0] == ROLLBACK
        assert commit.done
        assert commit.error.fields is None
        assert world.all(space) == []

    asyncio.run(body())


def test_a_leader_with_a_proposal_rolls_back() -> None:
    """A new leader with a proposal rolls back what it names, because its author may have done so."""

    async def body() -> None:
        world = World(quorum=2)
        space = world.space(is_sync=True)
        remote(world, space, 2, 5, 1)
        world.journal.write()
        world.synchro.note_nops([Row(RequestType.NOP, 2, 6, flags=Flag.PROPOSED)])
        promotion = asyncio.ensure_future(world.synchro.promote(3, lambda: None))
        await asyncio.wait_for(world.journal.submitted.wait(), 5)
        world.journal.write()
        await promotion
        assert world.all(space) == []
        assert world.limbo.is_empty

    asyncio.run(body())


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ((ROLLBACK, 2, 5, 2, 6), (PROMOTE, 2, 5, 3, 1)),
        ((ROLLBACK, 2, 5, 2, 6), (CONFIRM, 2, 5, 2, 7)),
        ((CONFIRM, 2, 5, 2, 6), (ROLLBACK, 2, 5, 2, 7)),
        ((CONFIRM, 2, 5, 2, 6), (PROMOTE, 2, 4, 3, 1)),
    ],
    ids=["rolled back, promoted", "rolled back, confirmed", "confirmed, rolled back", "confirmed, promoted without"],
)
@pytest.mark.parametrize("is_recovered", [False, True])
def test_a_contradiction_is_never_silent(
    earlier: tuple[int, int, int, int, int], later: tuple[int, int, int, int, int], is_recovered: bool
) -> None:
    """A contradicting decision is not written and box.info shows it; one in the log is found at the start."""

    async def body() -> None:
        world, found = World(quorum=3), []
        world.synchro.on_contradiction = lambda *told: found.append(told)
        space = world.space(is_sync=True)
        remote(world, space, 2, 5, 1)
        world.journal.write()
        world.synchro.recover(synchro(*earlier))
        before = world.all(space)
        if is_recovered:
            world.synchro.recover(synchro(*later))
        else:
            with pytest.raises(BoxError, match="Split-Brain discovered") as caught:
                await world.synchro.apply(synchro(*later))
            assert caught.value.code == SPLIT_BRAIN
            assert found == [(caught.value, world.limbo.instance_id)]
            assert not world.journal.queue
        assert world.all(space) == before
        contradiction = world.synchro.info()["contradiction"]
        assert "{replica 2, lsn 5}" in contradiction
        assert contradiction.count("of instance") == 2
        with pytest.raises(BoxError, match="Split-Brain discovered"):
            world.synchro.check_consistent()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("lsns", "kind", "lsn"), [((5,), ROLLBACK, 5), ((5, 6), CONFIRM, 6)], ids=["confirmed here", "rolled back here"]
)
def test_a_deposed_leader_that_decides_alone_has_diverged(lsns: tuple[int, ...], kind: int, lsn: int) -> None:
    """A deposed leader that rolls back what a promotion has confirmed, or confirms what it has rolled back, has
    diverged.
    """

    async def body() -> None:
        world, found = World(quorum=3), []
        world.synchro.on_contradiction = lambda *told: found.append(told)
        space = world.space(is_sync=True)
        for number in lsns:
            remote(world, space, 2, number, number)
        world.journal.write()
        world.synchro.recover(synchro(PROMOTE, 2, 5, 3, 1))
        with pytest.raises(BoxError, match="Split-Brain discovered") as caught:
            await world.synchro.apply(synchro(kind, 2, lsn, 2, 9))
        assert found == [(caught.value, 2)]
        assert not world.journal.queue
        assert world.all(space) == [[5]]
        assert world.synchro.info()["contradiction"] == caught.value.message
        assert list(world.synchro.promotions.diverged) == [2]
        world.synchro.check_consistent()

    asyncio.run(body())


def test_a_snapshot_keeps_what_was_confirmed() -> None:
    """An instance that starts from a snapshot finds out which former leader has diverged."""

    async def body() -> None:
        earlier, later = World(quorum=3), World(quorum=3)
        space = earlier.space(is_sync=True)
        remote(earlier, space, 2, 5, 1)
        earlier.journal.write()
        earlier.synchro.recover(synchro(PROMOTE, 2, 5, 3, 1))
        kept = earlier.synchro.promotions.kept()
        assert kept is not None
        later.synchro.promotions.restore(kept)
        with pytest.raises(BoxError, match="rolls back what a decision before the snapshot has confirmed here"):
            await later.synchro.apply(synchro(ROLLBACK, 2, 5, 2, 6))
        assert list(later.synchro.promotions.diverged) == [2]

    asyncio.run(body())


@pytest.mark.parametrize("is_nop", [False, True], ids=["rolled back", "came as a NOP"])
def test_a_snapshot_keeps_what_has_no_effect(is_nop: bool) -> None:
    """An instance that starts from a snapshot finds out that a former leader confirms what has no effect here."""

    async def body() -> None:
        earlier, later = World(quorum=3), World(quorum=3)
        space = earlier.space(is_sync=True)
        for lsn in (5,) if is_nop else (5, 6):
            remote(earlier, space, 2, lsn, lsn)
        earlier.journal.write()
        earlier.synchro.recover(synchro(PROMOTE, 2, 5, 3, 1))
        if is_nop:
            earlier.synchro.promotions.note_nops([Row(RequestType.NOP, 2, 6)])
        kept = earlier.synchro.promotions.kept()
        assert kept is not None
        assert kept.without_effect == {2: [(6, 6)]}
        later.synchro.promotions.restore(kept)
        with pytest.raises(BoxError, match="confirms what a decision before the snapshot has rolled back here"):
            await later.synchro.apply(synchro(CONFIRM, 2, 6, 2, 7))
        assert list(later.synchro.promotions.diverged) == [2]

    asyncio.run(body())


def test_a_promotion_that_knows_of_the_rollback_contradicts_nothing() -> None:
    """A promotion that decides about an older or a newer LSN than a rollback does not contradict it."""

    async def body() -> None:
        world = World(quorum=3)
        space = world.space(is_sync=True)
        remote(world, space, 2, 5, 1)
        world.journal.write()
        world.synchro.recover(synchro(ROLLBACK, 2, 5, 2, 6))
        for number, lsn in enumerate((0, 4, 7), 1):
            world.synchro.recover(synchro(PROMOTE, 2, lsn, 3, number))
        assert world.synchro.promotions.contradiction is None
        assert "contradiction" not in world.synchro.info()

    asyncio.run(body())
