"""Promotions that a later leader had not received before it was elected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.errors import BoxError
from box.txn.promotion_history import Promotion, PromotionHistory, Standing, VoidPromotions
from box.wire.constants import Flag, RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row

from ._world import World, code
from .test_synchro import commit_of, remote


@pytest.mark.parametrize(
    ("term", "vclock", "left"),
    [
        (5, {}, []),
        (5, {1: 1}, [2]),
        (5, {1: 1, 2: 9}, [2]),
        (5, {1: 1, 2: 9, 3: 4}, [2]),
        (5, {2: 9, 3: 4}, []),
        (5, {2: 10}, [2, 3]),
        (5, {3: 5}, [2, 3, 4]),
        (4, {}, [2, 3, 4]),
        (3, {}, [2, 3, 4]),
    ],
)
def test_what_a_leader_had_not(term: int, vclock: dict[int, int], left: list[int]) -> None:
    """The promotions that a leader lacked are the newest ones, back to the first that it had or that is not older than
    its term.
    """
    promotions = PromotionHistory()
    for promotion in (Promotion(2, 1, 1, 0), Promotion(3, 2, 10, 0), Promotion(4, 3, 5, 0)):
        promotions.add(promotion)
    expected = [promotion.term for promotion in promotions.unknown(Standing(term, vclock))]
    assert [promotion.term for promotion in promotions.withdraw_unknown(Standing(term, vclock))] == expected
    assert [*left, *reversed(expected)] == [2, 3, 4]
    assert promotions.latest == {0: (0, 0), 1: (1, 1), 2: (2, 10), 3: (3, 5)}[len(left)]


def test_what_a_leader_has_without_an_effect() -> None:
    """Promotions that a leader has without an effect count as lacking; of very many only the newest are compared."""
    promotions = PromotionHistory()
    promotions.add(Promotion(2, 1, 1, 0))
    promotions.add(Promotion(3, 2, 10, 0))
    assert promotions.unknown(Standing(5, {1: 9, 2: 19})) == []
    assert [promotion.term for promotion in promotions.unknown(Standing(5, {1: 9, 2: 19}, [(2, 10)]))] == [3]
    assert promotions.unknown(Standing(5, {1: 9, 2: 19}, [(1, 1)])) == []
    void = VoidPromotions()
    void.note((1, lsn) for lsn in range(100))
    void.note([(1, 40)])
    assert void.known == (*((1, lsn) for lsn in range(36, 40)), *((1, lsn) for lsn in range(41, 100)), (1, 40))


def promote(term: int, origin: int, own_lsn: int, owner: int = 0, lsn: int = 0) -> Row:
    row = synchro_row(SynchroRequest(RequestType.PROMOTE, owner, lsn, term, origin))
    row.replica_id, row.lsn = origin, own_lsn
    return row


def led(*, commits: int) -> tuple[World, Any, list[Any]]:
    """Make a history: instance 2 led in term 2; this instance led in term 3 and wrote rows that no other one has."""
    world = World(quorum=2)
    space = world.space(is_sync=True)
    world.journal.vclock[2] = 10
    world.synchro.recover(promote(2, 2, 1))
    world.journal.vclock[1] = 1
    world.synchro.recover(promote(3, 1, 1, 2, 10))
    waiting = [commit_of(world, space, number) for number in range(commits)]
    world.journal.write()
    return world, space, waiting


@pytest.mark.parametrize("commits", [0, 2])
def test_rows_of_a_leader_that_knows_nothing_of_ours(commits: int) -> None:
    """Rows of a leader that lacks our promotion are not void; our own rows become so, and our log records it."""

    async def body() -> None:
        world, space, waiting = led(commits=commits)
        world.journal.is_quick = True
        assert world.limbo.is_outdated(2)
        await world.synchro.learn_leader(Standing(4, {2: 14}))
        assert not world.limbo.is_outdated(2)
        assert world.limbo.is_empty
        assert [code(commit.error) for commit in waiting] == ["SYNC_ROLLBACK"] * commits
        assert [kind for kind, _ in world.journal.rows[commits:]] == ([RequestType.ROLLBACK] if commits else [])
        assert world.synchro.promotions.latest == (2, 1)
        assert world.synchro.promotions.void.needed(world.journal.vclock)[1] == 0
        txn = remote(world, space, 2, 11, 7)
        await world.synchro.apply(promote(4, 2, 12, 2, 11))
        assert txn.done
        assert txn.error is None
        assert world.all(space) == [[7]]

    asyncio.run(body())


def test_a_promotion_that_is_on_its_way_to_the_log() -> None:
    """A promotion that is on its way to the log when the leader's rows arrive does not make them void."""

    async def body() -> None:
        world = World(quorum=2)
        world.journal.vclock[2] = 10
        world.synchro.recover(promote(2, 2, 1))
        promotion = asyncio.ensure_future(world.synchro.promote(3))
        await world.journal.submitted.wait()
        learning = asyncio.ensure_future(world.synchro.learn_leader(Standing(4, {2: 14})))
        await asyncio.sleep(0)
        world.journal.write()
        await promotion
        await learning
        assert world.synchro.promotions.latest == (2, 1)
        assert not world.limbo.is_outdated(2)
        assert world.synchro.try_enter(2)

    asyncio.run(body())


def test_what_is_on_its_way_to_the_log_is_rolled_back_too() -> None:
    """A row that is on its way to the log when a promotion is withdrawn is rolled back, too."""

    async def body() -> None:
        world, space, _ = led(commits=0)
        waiting = commit_of(world, space, 7)
        learning = asyncio.ensure_future(world.synchro.learn_leader(Standing(4, {2: 14})))
        await asyncio.sleep(0)
        world.journal.write()
        await learning
        assert code(waiting.error) == "SYNC_ROLLBACK"
        assert world.limbo.is_empty
        assert not world.limbo.is_outdated(2)
        assert [kind for kind, _ in world.journal.rows] == [RequestType.REPLACE, RequestType.ROLLBACK]

    asyncio.run(body())


@pytest.mark.parametrize("is_told", [True, False])
def test_a_promotion_without_an_effect_that_comes_behind_its_leader(is_told: bool) -> None:
    """A void promotion that arrives after its successor changes nothing: waiting transactions stay, also after a
    restart.
    """

    async def body() -> None:
        world, again = World(quorum=2), World(quorum=2)
        space, same = world.space(is_sync=True), again.space(is_sync=True)
        world.journal.is_quick = again.journal.is_quick = True
        waiting = remote(world, space, 2, 11, 7)
        await world.synchro.learn_leader(Standing(4, {2: 14, 3: 1}, [(3, 1)] if is_told else []))
        row = promote(3, 3, 1)
        await world.synchro.apply(row)
        assert waiting.done == (not is_told)
        assert bool(row.flags & Flag.VOID) == is_told
        promotions = world.synchro.promotions
        assert promotions.void_promotions.known == (((3, 1),) if is_told else ())
        assert promotions.void.needed({3: 1})[3] == (0 if is_told else 1)
        assert world.limbo.replica_term(3) == (0 if is_told else 3)
        started = remote(again, same, 2, 11, 7)
        again.synchro.recover(row)
        assert started.done == waiting.done
        assert again.synchro.promotions.void_promotions.known == promotions.void_promotions.known

    asyncio.run(body())


@pytest.mark.parametrize(("term", "vclock"), [(4, {1: 1, 2: 14}), (3, {2: 14}), (2, {})])
def test_rows_of_a_leader_that_knows(term: int, vclock: dict[int, int]) -> None:
    """Rows of a leader that has our promotion, or that came no later, withdraw nothing."""

    async def body() -> None:
        world, space, waiting = led(commits=2)
        await world.synchro.learn_leader(Standing(term, vclock))
        assert world.limbo.is_outdated(2)
        assert len(world.limbo) == 2
        assert not any(commit.done for commit in waiting)
        assert world.all(space) == [[0], [1]]

    asyncio.run(body())


@pytest.mark.parametrize("known", [1, 2])
def test_what_waits_is_of_a_third_instance(known: int) -> None:
    """Waiting transactions of a third instance are rolled back with a withdrawn promotion, before the leader's rows are
    applied.
    """

    async def body() -> None:
        world = World(quorum=2)
        space = world.space(is_sync=True)
        world.synchro.recover(promote(2, 2, 1))
        world.synchro.recover(promote(3, 3, 1, 2, 10))
        world.journal.is_quick = True
        waiting = remote(world, space, 3, 2, 5)
        await world.synchro.learn_leader(Standing(4, {2: 14, 3: known - 1}))
        assert world.limbo.is_empty == (known == 1)
        assert waiting.done == (known == 1)
        assert world.limbo.is_outdated(2) == (known == 2)
        decisions = [kind for kind, _ in world.journal.rows if kind == RequestType.ROLLBACK]
        assert len(decisions) == (known == 1)

    asyncio.run(body())


def test_a_rollback_that_cannot_be_written() -> None:
    """If the rollback cannot be written, nothing changes and the latch is released."""

    async def body() -> None:
        world, _, waiting = led(commits=1)
        world.journal.refuses = True
        with pytest.raises(BoxError, match="Failed to write to disk"):
            await world.synchro.learn_leader(Standing(4, {2: 14}))
        assert world.limbo.is_outdated(2)
        assert not waiting[0].done
        assert world.synchro.try_enter(2)

    asyncio.run(body())
