"""CONFIRM rows of another instance go to the journal one after another, without waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.wire.constants import RequestType

from ._world import World
from .test_synchro import remote, synchro

CONFIRM = RequestType.CONFIRM


def confirm(world: World, lsn: int, own_lsn: int, ends: list[Any], *, owner: int = 2) -> bool:
    return world.synchro.confirms.submit(synchro(CONFIRM, owner, lsn, 2, own_lsn), ends.append)


@pytest.mark.parametrize("mvcc", [False, True])
def test_transactions_and_confirms_go_to_the_log_together(mvcc: bool) -> None:
    async def body() -> None:
        world = World(mvcc=mvcc)
        space = world.space(is_sync=True)
        ends: list[Any] = []
        txns = []
        for number in range(3):
            assert world.synchro.try_enter(2)
            txns.append(remote(world, space, 2, 2 * number + 1, number))
            world.synchro.leave()
            assert confirm(world, 2 * number + 1, 2 * number + 2, ends)
        assert len(world.journal.queue) == 6
        assert world.limbo.state.name == "CONFIRMING"
        for number, txn in enumerate(txns):
            world.journal.write(1)
            assert not txn.done
            world.journal.write(1)
            assert txn.done
            assert world.get(space, number) == [number]
        assert ends == [None, None, None]
        assert world.limbo.state.name == "EMPTY"
        assert world.synchro.latch.is_free

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_transaction_of_the_next_owner_waits(mvcc: bool) -> None:
    """A transaction of the next owner waits until all CONFIRM rows under way are written, and further
    ones wait for it.
    """

    async def body() -> None:
        world = World(mvcc=mvcc)
        space = world.space(is_sync=True)
        ends: list[Any] = []
        remote(world, space, 2, 1, 1)
        assert confirm(world, 1, 2, ends)
        assert world.synchro.try_enter(2)
        world.synchro.leave()
        assert not world.synchro.try_enter(3)

        async def applier() -> Any:
            await world.synchro.enter(3)
            try:
                return remote(world, space, 3, 1, 2)
            finally:
                world.synchro.leave()

        second = asyncio.ensure_future(applier())
        await asyncio.sleep(0)
        assert not second.done()
        assert not confirm(world, 1, 3, ends)
        world.journal.write()
        txn = await second
        assert ends == [None]
        world.journal.write()
        assert not txn.done
        assert world.limbo.owner_id == 3
        assert world.synchro.latch.is_free

    asyncio.run(body())


def test_decision_waits_for_the_confirms() -> None:
    """A ROLLBACK waits until all CONFIRM rows under way are written, and keeps what they confirm."""

    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        ends: list[Any] = []
        first, second = remote(world, space, 2, 1, 1), remote(world, space, 2, 2, 2)
        assert confirm(world, 1, 3, ends)
        rollback = asyncio.ensure_future(world.synchro.apply(synchro(RequestType.ROLLBACK, 2, 2, 2, 4)))
        await asyncio.sleep(0)
        assert len(world.journal.queue) == 3
        world.journal.write()
        await asyncio.sleep(0)
        world.journal.write()
        await rollback
        assert first.error is None
        assert second.error.code == ErrorCode.SYNC_ROLLBACK
        assert world.synchro.latch.is_free

    asyncio.run(body())


def test_journal_fails() -> None:
    """If the journal fails, nothing is confirmed and each CONFIRM row gets the error."""

    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        ends: list[Any] = []
        txn = remote(world, space, 2, 1, 1)
        world.journal.write()
        assert confirm(world, 1, 2, ends)
        assert confirm(world, 1, 3, ends)
        world.journal.fail()
        assert [error.code for error in ends] == [ErrorCode.WAL_IO, ErrorCode.WAL_IO]
        assert not txn.done
        assert world.limbo.state.name == "WAITING"
        assert world.synchro.latch.is_free
        assert confirm(world, 1, 2, ends)
        world.journal.write()
        assert txn.done

    asyncio.run(body())


def test_journal_refuses() -> None:
    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        remote(world, space, 2, 1, 1)
        world.journal.write()

        def refuse(entry: object) -> None:
            raise BoxError(ErrorCode.WAL_IO, "refused")

        world.synchro.journal = type("Refusing", (), {"submit": staticmethod(refuse)})()
        ends: list[Any] = []
        with pytest.raises(BoxError, match="refused"):
            confirm(world, 1, 2, ends)
        assert ends == []
        assert world.limbo.state.name == "WAITING"
        assert world.synchro.latch.is_free

    asyncio.run(body())


def test_rows_that_are_left_to_the_slow_path() -> None:
    """The CONFIRM of a former owner, a ROLLBACK, and rows after a decision under way take the slow path."""

    async def body() -> None:
        world = World()
        space = world.space(is_sync=True)
        ends: list[Any] = []
        remote(world, space, 2, 1, 1)
        world.journal.write()
        assert not confirm(world, 1, 2, ends, owner=3)
        assert not world.synchro.confirms.submit(synchro(RequestType.ROLLBACK, 2, 1, 2, 2), ends.append)
        promote = asyncio.ensure_future(world.synchro.apply(synchro(RequestType.PROMOTE, 2, 1, 3, 1)))
        await asyncio.sleep(0)
        assert not confirm(world, 1, 2, ends)
        world.journal.write()
        await promote
        assert ends == []

    asyncio.run(body())
