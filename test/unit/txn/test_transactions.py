"""Transactions without MVCC: atomicity, savepoints, nesting, yields, triggers; generated programs against a model."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.txn.mvcc import MvccStorage
from box.txn.transaction import Statement
from box.wire.change import Request
from box.wire.constants import Key, RequestType

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "unsigned")])


def test_begin_commit_rollback() -> None:
    """A transaction commits all statements or none; a second begin is refused; commit and rollback without one do
    nothing.
    """

    async def body() -> None:
        world = World()
        space = world.space()
        txns, ctx = world.txns, world.ctx
        txns.commit(ctx)
        txns.rollback(ctx)
        txns.begin(ctx)
        assert txns.is_in_txn(ctx)
        with pytest.raises(BoxError) as failure:
            txns.begin(ctx)
        assert code(failure.value) == "ACTIVE_TRANSACTION"
        world.replace(space, 1)
        world.replace(space, 2)
        txns.rollback(ctx)
        assert not txns.is_in_txn(ctx)
        assert world.all(space) == []
        txns.begin(ctx)
        world.replace(space, 1)
        world.replace(space, 2)
        pending = txns.commit(ctx)
        assert pending is not None
        world.journal.write()
        await pending.wait()
        assert [unpack(row.body)[Key.TUPLE] for row in world.journal.entries[0].rows] == [[1], [2]]
        txns.begin(ctx)
        assert txns.commit(ctx) is None
        assert len(world.journal.entries) == 1

    asyncio.run(body())


def test_failed_statement_keeps_the_transaction() -> None:
    """A statement's error undoes that statement alone."""

    async def body() -> None:
        world = World()
        space = world.space("s", SK)
        world.txns.begin(world.ctx)
        world.insert(space, 1, 10)
        with pytest.raises(BoxError):
            world.insert(space, 2, 10)
        world.insert(space, 2, 20)
        world.txns.commit(world.ctx)
        world.journal.write()
        assert world.all(space) == world.all(space, iid=1) == [[1, 10], [2, 20]]

    asyncio.run(body())


def test_savepoints() -> None:
    """A rollback to a savepoint undoes what came after it, and drops later savepoints."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space()
        txns, ctx = world.txns, world.ctx
        with pytest.raises(BoxError) as failure:
            txns.savepoint(ctx)
        assert code(failure.value) == "NO_TRANSACTION"
        txns.begin(ctx)
        empty = txns.savepoint(ctx)
        world.insert(space, 1)
        first = txns.savepoint(ctx)
        world.insert(space, 2)
        second = txns.savepoint(ctx)
        txns.rollback_to_savepoint(ctx, first)
        assert world.all(space) == [[1]]
        world.insert(space, 3)
        with pytest.raises(BoxError) as failure:
            txns.rollback_to_savepoint(ctx, second)
        assert code(failure.value) == "NO_SUCH_SAVEPOINT"
        txns.rollback_to_savepoint(ctx, first)
        txns.rollback_to_savepoint(ctx, empty)
        assert world.all(space) == []
        world.insert(space, 4)
        txns.commit(ctx)
        assert [row[1][0x21] for row in world.journal.rows] == [[4]]
        txns.begin(ctx)
        with pytest.raises(BoxError) as failure:
            txns.rollback_to_savepoint(ctx, empty)
        assert code(failure.value) == "NO_SUCH_SAVEPOINT"

    asyncio.run(body())


@pytest.mark.parametrize("reads_only", [False, True])
def test_yield(reads_only: bool) -> None:
    """Without MVCC a transaction that yields after its first statement is aborted; an empty one is not."""

    async def body() -> None:
        world = World()
        space = world.space()
        txns, ctx = world.txns, world.ctx
        txns.begin(ctx)
        txns.on_yield(ctx)
        txns.commit(ctx)
        txns.begin(ctx)
        if reads_only:
            world.get(space, 1, ctx=ctx)
        else:
            world.insert(space, 1)
        txns.on_yield(ctx)
        assert world.all(space) == []
        with pytest.raises(BoxError) as failure:
            txns.commit(ctx)
        assert code(failure.value) == "TRANSACTION_YIELD"
        assert ctx.txn is None

    asyncio.run(body())


def test_every_yield_undoes_what_came_before_it() -> None:
    """What an aborted transaction writes after the yield is undone by its next yield, so that others never see it."""

    async def body() -> None:
        world = World()
        space = world.space("s", SK)
        world.journal.is_quick = True
        txns, ctx = world.txns, world.ctx
        txns.begin(ctx)
        for key in (1, 2, 3):
            world.insert(space, key, key)
            assert world.all(space, ctx) == [[key, key]]
            txns.on_yield(ctx)
            assert world.all(space) == world.all(space, iid=1) == []
        assert world.insert(space, 3, 3, ctx=world.context()) == [3, 3]
        world.insert(space, 4, 4)
        with pytest.raises(BoxError) as failure:
            txns.commit(ctx)
        assert code(failure.value) == "TRANSACTION_YIELD"
        assert world.all(space) == [[3, 3]]

    asyncio.run(body())


def test_hooks() -> None:
    """on_commit triggers run in order and on_rollback newest first; one that waits is finished before the commit
    returns.
    """

    async def body() -> None:
        world = World()
        space = world.space()
        notes: list[Any] = []

        async def later(statements: list[Statement]) -> None:
            await asyncio.sleep(0)
            notes.append("later")

        def broken(statements: list[Statement]) -> None:
            raise RuntimeError("trigger")

        problems: list[Any] = []
        world.loop.set_exception_handler(lambda loop, problem: problems.append(problem))
        txn = world.txns.begin(world.ctx)
        statement = world.txns.begin_statement(txn, space, RequestType.REPLACE)
        statement.on_commit.append(lambda: notes.append("statement"))
        txn.hooked.append(statement)
        txn.nesting.pop()
        world.replace(space, 1)
        txn.on_commit += [lambda s: notes.append((s[-1].old, s[-1].new)), later, broken]
        txn.on_rollback.append(lambda s: notes.append("wrong"))
        world.txns.commit(world.ctx)
        world.journal.write()
        assert not txn.done
        await txn.wait()
        assert notes == ["statement", (None, pack([1])), "later"]
        assert len(problems) == 1
        notes.clear()
        txn = world.txns.begin(world.ctx)
        statement = world.txns.begin_statement(txn, space, RequestType.REPLACE)
        txn.nesting.pop()
        world.replace(space, 2)
        statement.on_rollback += [lambda: notes.append("undo 1"), lambda: notes.append("undo 2")]
        txn.on_rollback += [lambda s: notes.append("first"), lambda s: notes.append("second")]
        world.txns.rollback(world.ctx)
        assert notes == ["undo 2", "undo 1", "second", "first"]

    asyncio.run(body())


def test_fiber_that_ends_with_an_open_transaction() -> None:
    """A fiber that ends with an open transaction rolls it back."""

    async def body() -> None:
        world = World()
        space = world.space()
        world.txns.begin(world.ctx)
        world.insert(space, 1)
        world.txns.fiber_stopped(world.ctx)
        world.txns.fiber_stopped(world.ctx)
        assert world.all(space) == []

    asyncio.run(body())


def test_commit_goes_on_when_its_waiter_is_cancelled() -> None:
    """A commit goes on when the task that waits for it is cancelled."""

    async def body() -> None:
        world = World()
        space = world.space()
        world.replace(space, 1)
        pending = world.pending
        assert pending is not None
        waiter = asyncio.ensure_future(pending.wait())
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        world.journal.write()
        assert pending.done
        assert world.all(space) == [[1]]

    asyncio.run(body())


class Model:
    """The model: dictionaries that are copied at every begin and savepoint."""

    def __init__(self) -> None:
        self.data: dict[int, int] = {}
        self.saved: list[dict[int, int]] = []

    def put(self, key: int, value: int, insert: bool) -> bool:
        if (insert and key in self.data) or any(v == value and k != key for k, v in self.data.items()):
            return False
        self.data[key] = value
        return True


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_generated_programs(seed: int, mvcc: bool) -> None:
    """Random statements, savepoints, rollbacks and journal failures leave both indexes as in the model."""

    async def body() -> None:
        world = World(mvcc=mvcc)
        space = world.space("s", SK)
        txns, ctx, dice, model = world.txns, world.ctx, random.Random(seed), Model()

        def statement() -> None:
            key, value, insert = dice.randrange(6), dice.randrange(6), dice.random() < 0.3
            kind = dice.random()
            if kind < 0.2:
                expected = model.data.pop(key, None) is not None
                assert (world.dml.write(ctx, space, Request.delete([key])) is not None) == expected
            elif kind < 0.3:
                if key in model.data and model.put(key, value, False):
                    world.dml.write(ctx, space, Request.update([key], [["=", 2, value]]))
            elif model.put(key, value, insert):
                (world.insert if insert else world.replace)(space, key, value)
            else:
                with pytest.raises(BoxError):
                    (world.insert if insert else world.replace)(space, key, value)

        def check() -> None:
            expected = [[key, value] for key, value in sorted(model.data.items())]
            assert world.all(space, ctx) == expected
            assert sorted(world.all(space, ctx, iid=1)) == expected
            assert world.dml.reads.len(ctx, space, 1) == len(expected)

        for _ in range(60):
            before = dict(model.data)
            txns.begin(ctx)
            marks: list[tuple[Any, dict[int, int]]] = []
            for _ in range(dice.randrange(8)):
                choice = dice.random()
                if choice < 0.2:
                    marks.append((txns.savepoint(ctx), dict(model.data)))
                elif choice < 0.35 and marks:
                    del marks[dice.randrange(len(marks)) + 1 :]
                    txns.rollback_to_savepoint(ctx, marks[-1][0])
                    model.data = dict(marks[-1][1])
                else:
                    statement()
                check()
            if dice.random() < 0.3:
                txns.rollback(ctx)
                model.data = before
            else:
                txns.commit(ctx)
                if dice.random() < 0.3:
                    world.journal.fail()
                    model.data = before
                else:
                    world.journal.write()
            check()
        if isinstance(world.storage, MvccStorage):
            assert not world.storage._slots.by_index

    asyncio.run(body())
