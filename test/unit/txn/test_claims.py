"""Claims: rows before a PROMOTE that say what it will decide, and that bind the next leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.wire.constants import Flag, RequestType
from box.wire.messages import Claim, SynchroRequest, decode_synchro, is_claim, synchro_row
from box.wire.row import Row

from ._world import World

CONFIRM, PROMOTE, REPLACE = RequestType.CONFIRM, RequestType.PROMOTE, RequestType.REPLACE
FORMER, OTHER = 2, 3


def world_of(quorum: int = 2, *, timeout: float = 1000) -> World:
    """Make instance 1 of three that elect a leader with two votes."""
    world = World(quorum=quorum, timeout=timeout)
    world.synchro.voters_needed = lambda: 2
    world.space(is_sync=True)
    return world


def waiting(world: World, *lsns: int) -> None:
    """Put synchronous transactions of the former leader into the log and the limbo."""
    space = world.schema.space(512)
    for lsn in lsns:
        ctx = world.context()
        txn = world.txns.begin(ctx)
        row = Row(REPLACE, FORMER, lsn, body=b"\x82\x10" + pack(space.id) + b"\x21" + pack([lsn]))
        world.dml.write_row(ctx, row)
        world.txns.commit_open(ctx, txn, waits=False)
    world.journal.write()


def claim_of(origin_id: int, lsn: int, claim: Claim) -> Row:
    row = synchro_row(SynchroRequest(CONFIRM, FORMER, 0, 0, origin_id, claim=claim))
    row.replica_id, row.lsn = origin_id, lsn
    return row


async def taken(world: World, row: Row) -> None:
    """Let the log have a row of another instance."""
    task = asyncio.ensure_future(world.synchro.apply(row))
    await asyncio.wait_for(world.journal.submitted.wait(), 5)
    world.journal.write()
    await task


async def written(world: World) -> Row:
    """Return the next row of this instance, and write it."""
    await asyncio.wait_for(world.journal.submitted.wait(), 5)
    world.journal.write()
    return world.journal.entries[-1].rows[0]


@asynccontextmanager
async def promotion(world: World, term: int, check: Callable[[], None] = lambda: None) -> AsyncIterator[Any]:
    task = asyncio.ensure_future(world.synchro.promote(term, check))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_promote_is_written_when_a_quorum_has_the_claim() -> None:
    """A PROMOTE is written when a quorum has its claim; that a quorum has the transactions is not enough."""

    async def body() -> None:
        world = world_of()
        waiting(world, 5, 6)
        world.synchro.on_ack(OTHER, {FORMER: 6})
        async with promotion(world, 3) as task:
            row = await written(world)
            assert decode_synchro(row).claim == Claim(3, FORMER, 6)
            assert len(world.limbo) == 2
            world.synchro.on_ack(0, {FORMER: 6, 1: row.lsn})  # an anonymous replica has no vote
            await asyncio.sleep(0.01)
            assert not world.journal.queue
            world.synchro.on_ack(OTHER, {FORMER: 6, 1: row.lsn})
            assert decode_synchro(await written(world)) == SynchroRequest(PROMOTE, FORMER, 6, 3, 1)
            await task
        assert world.all(world.schema.space(512)) == [[5], [6]]
        assert world.synchro.promotions.open_claim is None

    asyncio.run(body())


def test_the_row_of_a_claim_confirms_nothing_to_who_does_not_know_claims() -> None:
    async def body() -> None:
        world = world_of()
        waiting(world, 5, 6)
        async with promotion(world, 3):
            row = await written(world)
        assert is_claim(row)
        request = decode_synchro(row)
        assert (request.type, request.replica_id, request.lsn, request.term) == (CONFIRM, FORMER, 4, 0)

    asyncio.run(body())


def test_a_claim_is_written_once_a_term() -> None:
    """After a failed wait for a quorum another promotion of the term waits again without another claim."""

    async def body() -> None:
        world = world_of(timeout=0.01)
        async with promotion(world, 3) as task:
            row = await written(world)
            with pytest.raises(BoxError, match="collected 1 acks"):
                await task
        async with promotion(world, 3) as task:
            world.synchro.on_ack(OTHER, {1: row.lsn})
            assert (await written(world)).type == PROMOTE
            await task

    asyncio.run(body())


def test_an_instance_that_elects_itself_claims_nothing() -> None:
    async def body() -> None:
        world = world_of(1)
        world.synchro.voters_needed = lambda: 1
        waiting(world, 5)
        async with promotion(world, 3) as task:
            assert (await written(world)).type == PROMOTE
            await task

    asyncio.run(body())


@pytest.mark.parametrize(("claimed", "left"), [(6, [5, 6]), (5, [5]), (4, [])])
def test_an_open_claim_binds_the_next_leader(claimed: int, left: list[int]) -> None:
    """A claim without its PROMOTE binds the next leader, whatever waits in the limbo: its author may have written the
    PROMOTE.
    """

    async def body() -> None:
        world = world_of()
        waiting(world, 5, 6)
        await taken(world, claim_of(OTHER, 1, Claim(3, FORMER, claimed)))
        world.synchro.note_nops([Row(RequestType.NOP, FORMER, 7, flags=Flag.PROPOSED)])
        async with promotion(world, 4) as task:
            row = await written(world)
            assert decode_synchro(row).claim == Claim(4, FORMER, claimed)
            world.synchro.on_ack(OTHER, {FORMER: 6, 1: row.lsn})
            assert decode_synchro(await written(world)).lsn == claimed
            await task
        assert world.all(world.schema.space(512)) == [[key] for key in left]

    asyncio.run(body())


def test_the_claim_of_the_latest_term_binds() -> None:
    """The claim of the latest term binds, in whatever order claims arrive; older ones are dropped."""

    async def body() -> None:
        world = world_of()
        waiting(world, 5, 6)
        await taken(world, claim_of(4, 1, Claim(4, FORMER, 5)))
        await taken(world, claim_of(OTHER, 1, Claim(3, FORMER, 6)))
        record = world.synchro.promotions
        assert (record.open_claim, record.log_term) == (Claim(4, FORMER, 5), 4)
        assert record.void.needed({4: 1, OTHER: 1})[OTHER] == 0
        assert record.void.needed({4: 1, OTHER: 1})[4] == 1

    asyncio.run(body())


def test_a_candidate_with_a_claim_needs_nothing_that_the_claim_rolls_back() -> None:
    """A candidate with a claim needs none of the rows that the claim rolls back."""

    async def body() -> None:
        world = world_of()
        waiting(world, 5, 6)
        assert world.synchro.promotions.void.needed({FORMER: 6})[FORMER] == 6
        await taken(world, claim_of(OTHER, 1, Claim(3, FORMER, 5)))
        assert world.synchro.promotions.void.needed({FORMER: 6})[FORMER] == 5
        assert len(world.limbo) == 2

    asyncio.run(body())


def test_a_claim_whose_author_leads_no_longer_is_not_written() -> None:
    async def body() -> None:
        world = world_of()

        def check() -> None:
            raise BoxError(ErrorCode.INTERFERING_PROMOTE, "deposed")

        with pytest.raises(BoxError, match="deposed"):
            await world.synchro.promote(3, check)
        assert not world.journal.queue
        assert world.synchro.try_enter(2)

    asyncio.run(body())


def test_the_term_of_the_log() -> None:
    """The term of the log is that of its last claim or promotion; a PROMOTE settles the claim before it."""

    async def body() -> None:
        world = world_of()
        record = world.synchro.promotions
        assert record.log_term == 0
        await taken(world, claim_of(OTHER, 1, Claim(3, 0, 0)))
        assert (record.log_term, record.open_claim) == (3, Claim(3, 0, 0))
        row = synchro_row(SynchroRequest(PROMOTE, 0, 0, 3, OTHER))
        row.replica_id, row.lsn = OTHER, 2
        await taken(world, row)
        assert (record.log_term, record.open_claim) == (3, None)

    asyncio.run(body())


def test_a_snapshot_keeps_the_term_of_the_log_and_an_open_claim() -> None:
    async def body() -> None:
        world, again = world_of(), world_of()
        await taken(world, claim_of(OTHER, 1, Claim(3, FORMER, 5)))
        again.synchro.promotions.restore_claim(world.synchro.promotions.log_term, world.synchro.promotions.open_claim)
        record = again.synchro.promotions
        assert (record.log_term, record.open_claim) == (3, Claim(3, FORMER, 5))

    asyncio.run(body())
