"""Synchronous transactions from the request to the outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import Flag, RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row
from box.wire.vclock import VClock

from ._world import World, code

CONFIRM, ROLLBACK, PROMOTE = RequestType.CONFIRM, RequestType.ROLLBACK, RequestType.PROMOTE


def commit_of(world: World, space: Any, *fields: Any) -> Any:
    world.replace(space, *fields)
    return world.pending


def remote(world: World, space: Any, replica_id: int, lsn: int, *fields: Any) -> Any:
    """Hand a transaction of another instance to the journal."""
    ctx = world.context()
    txn = world.txns.begin(ctx)
    body = b"\x82\x10" + pack(space.id) + b"\x21" + pack(list(fields))
    row = Row(RequestType.REPLACE, replica_id, lsn, body=body)
    world.dml.write_row(ctx, row)
    world.txns.commit_open(ctx, txn, waits=False)
    return txn


def synchro(kind: int, owner: int, lsn: int, origin: int, own_lsn: int) -> Row:
    row = synchro_row(SynchroRequest(kind, owner, lsn, 1, origin))
    row.replica_id, row.lsn = origin, own_lsn
    return row


def test_quorum_of_one() -> None:
    """With a quorum of one, a commit returns when the CONFIRM is written."""

    async def body() -> None:
        world = World(quorum=1)
        space = world.space(is_sync=True)
        commit = commit_of(world, space, 1)
        assert world.synchro.info() == {"queue": {"len": 1}, "quorum": 1}
        world.journal.write(1)
        assert not commit.done
        assert len(world.journal.queue) == 1
        world.journal.write()
        assert commit.done
        assert commit.error is None
        assert world.journal.rows[1] == (CONFIRM, {2: 1, 3: 1})
        assert world.journal.entries[0].rows[0].flags == Flag.WAIT_SYNC | Flag.WAIT_ACK

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_quorum_by_acknowledgements_and_others_behind(mvcc: bool) -> None:
    """A commit returns after enough acknowledgements; asynchronous transactions wait for synchronous ones before them."""

    async def body() -> None:
        world = World(quorum=2, mvcc=mvcc)
        space, plain = world.space(is_sync=True), world.space("plain", space_id=513)
        first, second = commit_of(world, space, 1), commit_of(world, plain, 1)
        world.journal.write()
        third = commit_of(world, space, 2)
        world.journal.write()
        assert [row.flags for entry in world.journal.entries for row in entry.rows] == [6, 2, 6]
        world.synchro.on_ack(2, VClock({1: 1}))
        world.journal.write()
        assert (first.done, second.done, third.done) == (True, True, False)
        world.synchro.set_quorum(1)
        world.journal.write()
        assert third.done
        assert world.limbo.is_empty

    asyncio.run(body())


def test_unwritten_follower_of_a_confirmed_transaction() -> None:
    """A CONFIRM does not commit an asynchronous transaction whose own write is not complete."""

    async def body() -> None:
        world = World(quorum=1)
        space, plain = world.space(is_sync=True), world.space("plain", space_id=513)
        first = commit_of(world, space, 1)
        world.journal.write(1)
        second = commit_of(world, plain, 1)
        world.journal.write(1)
        assert first.done
        assert not second.done
        assert world.limbo.is_empty
        world.journal.write(1)
        assert second.done
        assert second.error is None

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_timeout(mvcc: bool) -> None:
    """On a timeout the first transaction gets the timeout error and later ones the rollback; the data is as before."""

    async def body() -> None:
        world = World(quorum=2, timeout=0.01, mvcc=mvcc)
        space, plain = world.space(is_sync=True), world.space("plain", space_id=513)
        commits = [commit_of(world, space, 1, "a"), commit_of(world, space, 1, "b"), commit_of(world, plain, 1)]
        world.journal.write()
        await world.journal.submitted.wait()
        with pytest.raises(BoxError) as failure:
            world.replace(space, 5)
        assert code(failure.value) == "SYNC_ROLLBACK"
        world.journal.write()
        codes = [code(commit.error) for commit in commits]
        assert codes == ["SYNC_QUORUM_TIMEOUT", "SYNC_ROLLBACK", "SYNC_ROLLBACK"]
        assert world.journal.rows[-1] == (ROLLBACK, {2: 1, 3: 1})
        assert world.all(space) == world.all(plain) == []
        assert world.limbo.rollback_count == 3

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_failed_writes(mvcc: bool) -> None:
    """A transaction whose write fails leaves the limbo; a CONFIRM whose write fails is tried again."""

    async def body() -> None:
        world = World(quorum=1, mvcc=mvcc)
        space = world.space(is_sync=True)
        errors: list[BoxError] = []
        world.synchro.on_write_error = errors.append
        kept, lost = commit_of(world, space, 1), commit_of(world, space, 2)
        world.journal.fail(keep=1)
        assert code(lost.error) == "WAL_IO"
        assert len(world.limbo) == 1
        world.journal.write(1)
        world.journal.fail()
        assert not kept.done
        assert code(errors[0]) == "WAL_IO"
        assert world.synchro.latch.is_free
        again = commit_of(world, space, 3)
        world.journal.write()
        world.journal.write()
        assert kept.done
        assert again.done
        assert kept.error is None
        world.journal.refuses = True
        with pytest.raises(BoxError) as failure:
            world.replace(space, 4)
        assert code(failure.value) == "WAL_IO"
        assert world.limbo.is_empty
        assert world.all(space) == [[1], [3]]
        world.synchro.stop()

    asyncio.run(body())


def test_transactions_of_another_instance() -> None:
    """Transactions of another instance stay in the limbo, and make it read-only, until the owner's CONFIRM is in the
    log.
    """

    async def body() -> None:
        world = World(mvcc=True)
        space = world.space(is_sync=True)
        changes: list[bool] = []
        world.synchro.on_change = lambda: changes.append(world.limbo.is_read_only)
        txn = remote(world, space, 2, 1, 7)
        world.journal.write()
        assert not txn.done
        assert changes == [True]
        with pytest.raises(BoxError) as failure:
            world.replace(space, 1)
        assert code(failure.value) == "READONLY"
        with pytest.raises(BoxError) as failure:
            remote(world, space, 3, 1, 8)
        assert code(failure.value) == "UNCOMMITTED_FOREIGN_SYNC_TXNS"
        applied = asyncio.ensure_future(world.synchro.apply(synchro(CONFIRM, 2, 1, 2, 2)))
        await asyncio.sleep(0)
        assert not world.synchro.try_enter(2)
        assert world.get(space, 7) is None
        world.journal.write()
        await applied
        assert txn.done
        assert world.get(space, 7) == [7]
        assert changes[-1] is False
        assert world.synchro.try_enter(2)
        world.synchro.leave()

    asyncio.run(body())


def test_confirm_that_cannot_be_written() -> None:
    """A CONFIRM of another instance takes effect only once it is in the log, and may come again."""

    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        txn = remote(world, space, 2, 1, 7)
        world.journal.write()
        world.journal.refuses = True
        with pytest.raises(BoxError) as failure:
            await world.synchro.apply(synchro(CONFIRM, 2, 1, 2, 2))
        assert code(failure.value) == "WAL_IO"
        world.journal.refuses = False
        applied = asyncio.ensure_future(world.synchro.apply(synchro(CONFIRM, 2, 1, 2, 2)))
        await asyncio.sleep(0)
        world.journal.fail()
        with pytest.raises(BoxError):
            await applied
        assert not txn.done
        assert len(world.limbo) == 1
        assert world.synchro.latch.is_free
        world.journal.is_quick = True
        await world.synchro.apply(synchro(CONFIRM, 2, 1, 2, 2))
        assert txn.done

    asyncio.run(body())


def test_a_late_confirm_of_the_former_owner() -> None:
    """A late CONFIRM of the former owner does not affect transactions of the new owner, whose LSNs may be smaller."""

    async def body() -> None:
        world = World(quorum=2)
        commit = commit_of(world, world.space(is_sync=True), 1)
        world.journal.write()
        applied = asyncio.ensure_future(world.synchro.apply(synchro(CONFIRM, 2, 8, 2, 9)))
        await asyncio.sleep(0)
        world.journal.write()
        await applied
        assert not commit.done
        assert world.limbo.confirmed_lsn == 0
        world.synchro.on_ack(2, VClock({1: 1}))
        world.journal.write()
        assert commit.done
        assert commit.error is None

    asyncio.run(body())


@pytest.mark.parametrize("is_written", [True, False])
def test_a_quorum_that_comes_while_a_foreign_row_is_written(is_written: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum reached while a row of another instance is written is confirmed afterwards, also if that write fails."""
    monkeypatch.setattr("box.txn.synchro.RETRY_DELAY", 0)

    async def body() -> None:
        world = World(quorum=2)
        commit = commit_of(world, world.space(is_sync=True), 1)
        world.journal.write()
        applied = asyncio.ensure_future(world.synchro.apply(synchro(CONFIRM, 2, 8, 2, 9)))
        await asyncio.sleep(0)
        world.synchro.on_ack(2, VClock({1: 1}))
        assert len(world.journal.queue) == 1
        if is_written:
            world.journal.write()
        else:
            world.journal.fail()
        await asyncio.gather(applied, return_exceptions=True)
        async with asyncio.timeout(5):
            await world.journal.submitted.wait()
        world.journal.write()
        assert commit.done
        assert commit.error is None

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_applier_waits_for_a_change_of_owner(mvcc: bool) -> None:
    """Rows of the next owner wait while a CONFIRM is being written, and are accepted then.

    This is the race that the qsync mail describes under "a problem not related to the patch".
    """

    async def body() -> None:
        world = World(mvcc=mvcc)
        space = world.space(is_sync=True)
        first = remote(world, space, 2, 1, 1)
        world.journal.write()
        confirm = asyncio.ensure_future(world.synchro.apply(synchro(CONFIRM, 2, 1, 2, 2)))
        await asyncio.sleep(0)

        async def applier() -> Any:
            await world.synchro.enter(3)
            try:
                return remote(world, space, 3, 1, 2)
            finally:
                world.synchro.leave()

        second = asyncio.ensure_future(applier())
        await asyncio.sleep(0)
        assert not second.done()
        world.journal.write()
        await confirm
        txn = await second
        world.journal.write()
        assert first.done
        assert not txn.done
        assert world.limbo.owner_id == 3

    asyncio.run(body())


def test_wait_confirm() -> None:
    """A checkpoint waits for the transactions that are in the limbo when it begins."""

    async def body() -> None:
        world = World(quorum=2, timeout=100)
        space = world.space(is_sync=True)
        await world.synchro.wait_confirm()
        commit_of(world, space, 1)
        world.journal.write()
        waiting = asyncio.ensure_future(world.synchro.wait_confirm())
        await asyncio.sleep(0)
        world.synchro.acknowledge(2, 1)
        world.journal.write()
        await waiting
        commit_of(world, space, 2)
        world.journal.write()
        waiting = asyncio.ensure_future(world.synchro.wait_confirm())
        await asyncio.sleep(0)
        world.synchro.set_timeout(0.001)
        await asyncio.sleep(0)
        with pytest.raises(BoxError) as failure:
            await waiting
        assert code(failure.value) in ("SYNC_QUORUM_TIMEOUT", "SYNC_ROLLBACK")
        world.synchro.stop()

    asyncio.run(body())


def test_a_promotion_ends_with_the_time_as_leader() -> None:
    """A promotion fails when the instance stops to lead, though a quorum has acknowledged: its rows may be void
    elsewhere.
    """

    async def body() -> None:
        world = World(quorum=2, timeout=1000)
        txn = remote(world, world.space(is_sync=True), 2, 1, 1)
        world.journal.write()
        leaders: list[int] = []

        def check_leads() -> None:
            for leader in leaders:
                raise client_error(ErrorCode.INTERFERING_PROMOTE, leader)

        promotion = asyncio.ensure_future(world.synchro.promote(7, check_leads))
        await asyncio.sleep(0)
        leaders.append(3)
        world.synchro.on_ack(3, {2: 1})
        with pytest.raises(BoxError, match="Instance with replica id 3 was promoted first"):
            await promotion
        assert not txn.done
        assert world.limbo.owner_id == 2
        assert [kind for kind, _ in world.journal.rows] == [RequestType.REPLACE]

    asyncio.run(body())


def test_a_promotion_whose_turn_comes_after_the_time_as_leader() -> None:
    """A promotion that waits for its turn at the limbo fails if the instance stops to lead meanwhile."""

    async def body() -> None:
        world = World()
        leaders: list[int] = []

        def check_leads() -> None:
            for leader in leaders:
                raise client_error(ErrorCode.INTERFERING_PROMOTE, leader)

        assert world.synchro.try_enter(2)
        promotion = asyncio.ensure_future(world.synchro.promote(7, check_leads))
        await asyncio.sleep(0)
        leaders.append(3)
        world.synchro.leave()
        with pytest.raises(BoxError, match="Instance with replica id 3 was promoted first"):
            await promotion
        assert not world.journal.queue
        assert world.synchro.try_enter(2)

    asyncio.run(body())


def test_promote() -> None:
    """A promotion confirms what a quorum has, and makes this instance the owner."""

    async def body() -> None:
        world = World(quorum=2, timeout=0.01)
        space = world.space(is_sync=True)
        txn = remote(world, space, 2, 1, 1)
        world.journal.write()
        with pytest.raises(BoxError, match=r"Couldn't wait for quorum 2: timeout after 0.01 seconds, collected 1 acks"):
            await world.synchro.promote()
        world.synchro.on_ack(3, {2: 1})
        promotion = asyncio.ensure_future(world.synchro.promote())
        await world.journal.submitted.wait()
        with pytest.raises(BoxError, match=r"box.ctl.promote does not support simultaneous invocations"):
            await world.synchro.promote()
        world.journal.write()
        await promotion
        assert txn.done
        assert txn.error is None
        assert world.journal.rows[-1] == (PROMOTE, {2: 2, 3: 1, 0x53: 1})
        assert world.limbo.owner_id == 1
        assert not world.limbo.is_read_only

    asyncio.run(body())


def test_what_waits_when_the_node_closes() -> None:
    """When the node closes, waiting promotions, joins and writers get an error; what is in the log is neither undone
    nor done.
    """

    async def body() -> None:
        world = World(quorum=2, timeout=1000)
        commit = commit_of(world, world.space(is_sync=True), 1)
        world.journal.write()
        waits = [world.synchro.promote(), world.synchro.wait_confirm(), commit.wait()]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.sleep(0)
        world.synchro.stop()
        world.synchro.abandon()
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*tasks, world.synchro.wait_confirm(), return_exceptions=True)
        assert [outcome.type for outcome in outcomes if isinstance(outcome, BoxError)] == ["FiberIsCancelled"] * 4
        assert [kind for kind, _ in world.journal.rows] == [RequestType.REPLACE]
        assert len(world.limbo) == 1

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_recovered_rows(mvcc: bool) -> None:
    """CONFIRM and ROLLBACK rows take effect at once during recovery."""

    async def body() -> None:
        world = World(mvcc=mvcc)
        world.journal.is_quick = True
        space = world.space(is_sync=True)
        txns = [remote(world, space, 1, lsn, lsn) for lsn in (1, 2, 3)]
        assert [txn.done for txn in txns] == [False] * 3
        world.synchro.recover(synchro(CONFIRM, 1, 1, 1, 4))
        world.synchro.recover(synchro(ROLLBACK, 1, 2, 1, 5))
        assert [txn.error and code(txn.error) for txn in txns] == [None, "SYNC_ROLLBACK", "SYNC_ROLLBACK"]
        assert world.all(space) == [[1]]

    asyncio.run(body())


def test_nops_and_snapshot_rows_do_not_wait() -> None:
    """NOPs never wait for the limbo; rows of a snapshot count as confirmed."""

    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        remote(world, space, 2, 1, 1)
        world.journal.write()
        ctx = world.context()
        txn = world.txns.begin(ctx)
        world.dml.run_nop(ctx, Row(RequestType.NOP, 3, 1))
        world.txns.commit_open(ctx, txn, waits=False)
        world.journal.write()
        assert txn.done
        loaded = world.txns.begin(ctx)
        loaded.force_async = True
        world.dml.write_row(ctx, Row(RequestType.INSERT, body=space.tuple_prefix + pack([9])))
        world.txns.commit(ctx)
        world.journal.write()
        assert loaded.done

    asyncio.run(body())


def test_many_synchronous_changes_are_told_of() -> None:
    """Many synchronous changes in a turn are sent to replicas early; asynchronous ones do not cause that."""

    async def body() -> None:
        world, told = World(quorum=1), 0

        def on_many_held() -> None:
            nonlocal told
            told += 1

        world.dml.on_many_held = on_many_held
        space, other = world.space(is_sync=True), world.space("other", space_id=513)
        for number in range(120):
            world.replace(other, number)
        world.journal.write()
        assert told == 0
        for number in range(120):
            world.replace(space, number)
        assert told == 2
        assert len(world.limbo) == 120
        while world.journal.queue:  # also the decisions
            world.journal.write()
        assert world.limbo.is_empty

    asyncio.run(body())
