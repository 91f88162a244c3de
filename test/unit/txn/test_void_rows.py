"""Void rows, which have no effect, at the end of an origin's rows: candidates do not need them."""

from __future__ import annotations

import asyncio
from typing import Any

from box.txn.void_rows import VoidRows
from box.wire.constants import RequestType
from box.wire.messages import Promotions, RaftRequest, SynchroRequest, decode_promotions, raft_row, synchro_row
from box.wire.row import Row
from test.unit.txn._world import INSTANCE_ID, World

OTHER, THIRD = 2, 3


def test_only_the_newest_rows_count() -> None:
    """Void rows count as such only at the end; before later rows candidates need them."""
    void = VoidRows()
    void.note(1, 5, 7)
    assert void.needed({1: 7, 2: 3}) == {1: 4, 2: 3}
    assert void.needed({1: 8, 2: 3}) == {1: 8, 2: 3}
    assert void.needed({1: 6}) == {1: 6}
    assert void.needed({2: 3}) == {2: 3}
    void.note(1, 8, 8)
    assert void.needed({1: 8}) == {1: 4}
    void.note(1, 7, 8)
    assert void.needed({1: 8}) == {1: 4}, "known already"
    void.note(1, 10, 10)
    assert void.needed({1: 10}) == {1: 9}


def test_what_is_known_of_later_rows_is_kept() -> None:
    """A promotion that rolls rows back and names void decisions keeps what is known of later rows."""
    void = VoidRows()
    void.note(1, 18, 19)
    void.note(1, 17, 17)
    assert void.needed({1: 19}) == {1: 16}, "they go on"
    void.note(1, 12, 13)
    assert void.needed({1: 19}) == {1: 16}, "earlier ones"
    void.note(1, 10, 21)
    assert void.needed({1: 21}) == {1: 9}, "around them"


def test_transactions_of_nothing_but_nops() -> None:
    void = VoidRows()
    void.note_nops([Row(RequestType.NOP, 2, 5), Row(RequestType.REPLACE, 2, 6), Row(RequestType.NOP, 2, 7)])
    void.note_nops([Row(RequestType.REPLACE, 3, 5)])
    void.note_nops([Row(RequestType.NOP, 0, 9)])
    assert void.needed({0: 9, 2: 7, 3: 5}) == {0: 9, 2: 7, 3: 5}
    void.note_nops([Row(RequestType.NOP, 2, 8), Row(RequestType.NOP, 2, 9)])
    assert void.needed({2: 9}) == {2: 7}


def _decision(kind: RequestType, origin_id: int, lsn: int, *, place: int, term: int = 0) -> Row:
    row = synchro_row(SynchroRequest(kind, INSTANCE_ID, lsn, term, origin_id))
    row.replica_id, row.lsn = origin_id, place
    return row


async def _with_pending(world: World) -> Any:
    """Make a log where row 1 is confirmed by a quorum of 2, rows 2 and 3 to 4 wait, and row 5 is a CONFIRM."""
    space, plain = world.space(is_sync=True), world.space("plain", space_id=513)
    world.replace(space, 1)
    world.replace(space, 2)
    world.txns.begin(world.ctx)
    world.replace(space, 3)
    world.replace(plain, 3)
    world.commit()
    world.journal.write()
    world.synchro.acknowledge(OTHER, 1)
    await asyncio.sleep(0)
    world.journal.write()
    assert [entry.lsn for entry in world.limbo] == [2, 4]
    assert world.journal.vclock == {INSTANCE_ID: 5}
    return space


def test_what_a_promotion_rolls_back_is_void() -> None:
    """Rows that a promotion rolls back are void, and a CONFIRM after them, because the PROMOTE has decided what it
    means.
    """

    async def body() -> None:
        world = World(quorum=2)
        space = await _with_pending(world)
        assert world.synchro.promotions.void.needed(world.journal.vclock) == {INSTANCE_ID: 5}
        work = asyncio.ensure_future(world.synchro.apply(_decision(RequestType.PROMOTE, OTHER, 1, place=1, term=2)))
        await asyncio.sleep(0)
        world.journal.write()
        await work
        assert world.all(space) == [[1]]
        assert world.synchro.promotions.void.needed(world.journal.vclock) == {INSTANCE_ID: 1, OTHER: 1}

    asyncio.run(body())


def test_the_same_is_known_after_a_restart() -> None:
    """A restart finds the same void rows in the log; rows that came later are not void."""

    async def body() -> None:
        world = World(quorum=2)
        await _with_pending(world)
        again = World(quorum=2)
        again.journal.is_quick = True
        space, plain = again.space(is_sync=True), again.space("plain", space_id=513)
        for entry in world.journal.entries:
            if entry.rows[0].type == RequestType.CONFIRM:
                again.synchro.recover(entry.rows[0])
                continue
            again.txns.begin(again.ctx)
            for row in entry.rows:
                again.dml.write_row(again.ctx, row)
            again.txns.commit_open(again.ctx, again.ctx.txn, waits=False)  # type: ignore[arg-type]
        assert [entry.lsn for entry in again.limbo] == [2, 4]
        again.synchro.recover(_decision(RequestType.PROMOTE, OTHER, 1, place=1, term=2))
        assert (again.all(space), again.all(plain)) == ([[1]], [])
        assert again.synchro.promotions.void.needed({INSTANCE_ID: 5, OTHER: 1}) == {INSTANCE_ID: 1, OTHER: 1}
        assert again.synchro.promotions.void.needed({INSTANCE_ID: 6, OTHER: 1}) == {INSTANCE_ID: 6, OTHER: 1}

    asyncio.run(body())


def test_what_a_promotion_confirms_is_not_void() -> None:
    """Rows that a promotion confirms are not void, but a CONFIRM after it is: nobody who has the PROMOTE needs it."""

    async def body() -> None:
        world = World(quorum=2)
        space = await _with_pending(world)
        work = asyncio.ensure_future(world.synchro.apply(_decision(RequestType.PROMOTE, OTHER, 4, place=1, term=2)))
        await asyncio.sleep(0)
        world.journal.write()
        await work
        assert world.all(space) == [[1], [2], [3]]
        assert world.synchro.promotions.void.needed(world.journal.vclock) == {INSTANCE_ID: 4, OTHER: 1}

    asyncio.run(body())


def test_a_promotion_that_nobody_else_got_is_void_after_the_next() -> None:
    """A promotion that no other instance received is void after the next one; else its owner refuses
    its vote for ever.
    """

    async def body() -> None:
        synchro = World(quorum=2).synchro
        void = synchro.promotions.void
        for kind, place, term in ((RequestType.CONFIRM, 5, 0), (RequestType.PROMOTE, 6, 3)):
            synchro.recover(_decision(kind, INSTANCE_ID, 4, place=place, term=term))
        assert void.needed({INSTANCE_ID: 6}) == {INSTANCE_ID: 6}
        synchro.recover(_decision(RequestType.PROMOTE, OTHER, 4, place=1, term=2))
        assert void.needed({INSTANCE_ID: 6, OTHER: 1}) == {INSTANCE_ID: 6, OTHER: 1}, "of an earlier term"
        synchro.recover(_decision(RequestType.PROMOTE, OTHER, 4, place=2, term=4))
        assert void.needed({INSTANCE_ID: 6, OTHER: 2}) == {INSTANCE_ID: 4, OTHER: 2}

    asyncio.run(body())


def test_what_a_snapshot_has_kept_is_known_again() -> None:

    async def body() -> None:
        synchro, again = World(quorum=2).synchro, World(quorum=2).synchro
        assert synchro.promotions.kept() is None
        synchro.recover(_decision(RequestType.PROMOTE, INSTANCE_ID, 4, place=6, term=3))
        synchro.recover(_decision(RequestType.PROMOTE, OTHER, 4, place=2, term=4))
        kept = decode_promotions(raft_row(RaftRequest(4), synchro.promotions.kept()))
        assert kept is not None
        again.promotions.restore(kept)
        assert again.promotions.kept() == synchro.promotions.kept() == kept
        assert again.limbo.owner_id == OTHER
        assert again.promotions.latest == (OTHER, 2)
        assert (again.limbo.is_outdated(INSTANCE_ID), again.limbo.is_outdated(OTHER)) == (True, False)
        assert again.promotions.void.needed({INSTANCE_ID: 6}) == {INSTANCE_ID: 5}

    asyncio.run(body())


def test_promotions_without_an_effect_are_remembered() -> None:
    """Void promotions are those after one of a later term; not those whose decisions a snapshot has kept."""

    async def body() -> None:
        synchro, again = World(quorum=2).synchro, World(quorum=2).synchro
        rows = [
            _decision(RequestType.PROMOTE, INSTANCE_ID, 4, place=6, term=3),
            _decision(RequestType.PROMOTE, OTHER, 4, place=2, term=4),
            _decision(RequestType.PROMOTE, THIRD, 4, place=1, term=2),
        ]
        for row in rows:
            synchro.recover(row)
        assert synchro.promotions.void_promotions.known == ((THIRD, 1),)
        kept = synchro.promotions.kept()
        assert kept is not None
        again.promotions.restore(kept)
        for row in rows:
            again.recover(row)
        assert again.promotions.void_promotions.known == ()

    asyncio.run(body())


def test_what_a_log_tells_of_a_promotion_that_was_withdrawn() -> None:
    """A withdrawn promotion in the log makes void the rows that follow it from instances that it outdates.

    A snapshot of an earlier version may have kept decisions of a promotion that comes after these rows.
    """

    async def body() -> None:
        promotions = World(quorum=2).synchro.promotions
        promotions.restore(Promotions(OTHER, {INSTANCE_ID: 3, OTHER: 4}, (OTHER, 2), {}))
        promotions.note_recovered(INSTANCE_ID, set(), {OTHER: 4})
        assert promotions.void_promotions.known == ()
        promotions.note_recovered(OTHER, {(OTHER, 2)}, {OTHER: 4})
        assert promotions.void_promotions.known == ()
        assert promotions.void.needed({OTHER: 4}) == {OTHER: 4}
        promotions.note_recovered(INSTANCE_ID, {(OTHER, 2)}, {OTHER: 4})
        assert promotions.void_promotions.known == ((OTHER, 2),)
        assert promotions.void.needed({OTHER: 4}) == {OTHER: 1}, "nor is anything behind it needed"

    asyncio.run(body())
