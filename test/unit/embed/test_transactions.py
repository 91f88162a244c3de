"""`async with node.transaction()`: which task has it, what it undoes, what others see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.eager import first_step
from box.embed import SpaceHandle
from box.errors import ErrorCode


@asynccontextmanager
async def node_with_space(directory: Path | None = None, **options: Any) -> AsyncIterator[tuple[Node, SpaceHandle]]:
    async with Node(directory, **options) as node:
        await node.eval("box.schema.space.create('s'):create_index('pk')")
        yield node, node.space["s"]


def test_the_end_of_the_block_commits_and_an_exception_rolls_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with node_with_space(tmp_path) as (node, space):
            async with node.transaction() as tx:
                await space.insert([1])
                await tx.space["s"].insert([2])
                assert await node.eval("box.space.s:insert{3} return box.space.s:len(), box.is_in_txn()") == [3, True]
            assert not tx.is_open

            async def fail() -> None:
                async with node.transaction():
                    await space.delete(1)
                    assert await space.get(1) is None
                    raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await fail()
            assert await space.select() == [[1], [2], [3]]
        async with Node(tmp_path) as again:
            assert await again.space["s"].select() == [[1], [2], [3]]

    asyncio.run(run())


def test_savepoints_undo_what_came_after_them() -> None:
    async def run() -> None:
        async with node_with_space() as (node, space):
            async with node.transaction() as tx:
                await space.insert([1])
                first = tx.savepoint()
                await space.insert([2])
                with suppress(ValueError), tx.savepoint():
                    await space.insert([3])
                    raise ValueError
                assert await space.select() == [[1], [2]]
                later = tx.savepoint()
                first.rollback()
                with pytest.raises(BoxError) as caught:
                    later.rollback()
                assert caught.value.code == ErrorCode.NO_SUCH_SAVEPOINT
                await space.insert([4])
            assert await space.select() == [[1], [4]]
            with pytest.raises(BoxError) as caught:
                first.rollback()
            assert caught.value.code == ErrorCode.NO_TRANSACTION

    asyncio.run(run())


def test_a_block_may_end_its_transaction_itself() -> None:
    async def run() -> None:
        async with node_with_space() as (node, space):
            async with node.transaction() as tx:
                await space.insert([1])
                await tx.rollback()
                await space.insert([2])
            async with node.transaction() as tx:
                await space.insert([3])
                await tx.commit()
                for refused in (tx.commit, tx.rollback, tx.space["s"].select):
                    with pytest.raises(BoxError) as caught:
                        await refused()
                    assert caught.value.code == ErrorCode.NO_TRANSACTION
            assert await space.select() == [[2], [3]]
            with pytest.raises(RuntimeError, match="entered twice"):
                async with tx:
                    pass

    asyncio.run(run())


def test_a_transaction_inside_another_is_refused_by_name() -> None:
    async def run() -> None:
        async with node_with_space() as (node, space):
            async with node.transaction():
                await space.insert([1])
                with pytest.raises(BoxError, match="active transaction") as caught:
                    async with node.transaction():
                        pass
                assert caught.value.code == ErrorCode.ACTIVE_TRANSACTION
                with pytest.raises(BoxError, match="active transaction"):
                    await node.eval("box.begin()")
            assert await space.select() == [[1]]

    asyncio.run(run())


def test_a_statement_that_fails_leaves_the_others() -> None:
    async def run() -> None:
        async with node_with_space() as (node, space):
            async with node.transaction():
                await space.insert([1])
                with pytest.raises(BoxError, match="Duplicate key"):
                    await space.insert([1])
                await space.insert([2])
            assert await space.select() == [[1], [2]]

    asyncio.run(run())


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_transaction_belongs_to_its_task(mvcc: bool) -> None:
    """Another task is outside of the transaction, and `tx` raises there; without MVCC a wait aborts it."""

    async def run() -> None:
        async with node_with_space(memtx_use_mvcc_engine=mvcc) as (node, space):

            async def other(block: Any) -> list[Any]:
                with pytest.raises(RuntimeError, match="to which its transaction belongs"):
                    block.savepoint()
                with pytest.raises(RuntimeError, match="handle of space 's' is used outside of the task 'owner'"):
                    await block.space["s"].insert([5])
                await space.insert([2])
                return await space.select()

            async def owner() -> None:
                async with node.transaction() as tx:
                    await space.insert([1])
                    assert await asyncio.create_task(other(tx)) == [[2]]

            outcome = await asyncio.gather(asyncio.create_task(owner(), name="owner"), return_exceptions=True)
            if mvcc:
                assert outcome == [None]
            else:
                assert isinstance(outcome[0], BoxError)
                assert outcome[0].code == ErrorCode.TRANSACTION_YIELD
            assert await space.select() == ([[1], [2]] if mvcc else [[2]])

    asyncio.run(run())


def test_nobody_sees_what_is_not_committed() -> None:
    """Tasks and fibers that were ready before the transaction began run after its end, and see none of its changes."""

    async def run() -> None:
        async with node_with_space() as (node, space):
            await node.eval("""
                seen = {}
                require('fiber').create(function()
                    while not stop do table.insert(seen, box.space.s:len()) require('fiber').yield() end
                end)""")
            lengths: list[int] = []

            async def look() -> None:
                lengths.append(await space.len())

            async def write() -> None:
                async with node.transaction():
                    await space.insert([1])
                    await asyncio.sleep(0)
                    await space.insert([2])
                    await asyncio.sleep(0)

            for _ in range(20):
                tasks = [asyncio.create_task(look()) for _ in range(3)]
                with pytest.raises(BoxError, match="aborted by a fiber yield"):
                    await write()
                await asyncio.gather(*tasks)
            assert lengths == [0] * 60
            await node.eval("stop = true")
            seen = await node.eval("return seen")
            assert len(seen) > 20
            assert set(seen) == {0}

    asyncio.run(run())


def test_with_versions_a_conflict_is_told() -> None:
    async def run() -> None:
        async with node_with_space(memtx_use_mvcc_engine=True) as (node, space):
            await space.insert([1, 0])
            ready = asyncio.Barrier(2)

            async def add() -> None:
                async with node.transaction():
                    row = await space.get(1)
                    await ready.wait()
                    await space.replace([1, row[1] + 1 if row else 0])

            outcomes = await asyncio.gather(add(), add(), return_exceptions=True)
            failed = [outcome for outcome in outcomes if isinstance(outcome, BoxError)]
            assert [error.code for error in failed] == [ErrorCode.TRANSACTION_CONFLICT]
            assert await space.get(1) == [1, 1]

    asyncio.run(run())


def test_a_node_that_stops_rolls_back_what_is_open(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(tmp_path)
        await node.start()
        await node.eval("box.schema.space.create('s'):create_index('pk')")

        async def write() -> None:
            async with node.transaction():
                await node.space["s"].insert([1])
                await node.stop()

        with pytest.raises(BoxError, match="fiber is cancelled"):
            await write()
        async with Node(tmp_path) as again:
            assert await again.space["s"].select() == []

    asyncio.run(run())


def test_a_cancelled_statement_is_undone_with_its_transaction() -> None:
    """A statement whose trigger waits is undone with its transaction when it is cancelled."""

    async def run() -> None:
        async with node_with_space(memtx_use_mvcc_engine=True) as (node, space):
            await node.eval("box.space.s:before_replace(function() require('fiber').sleep(100) end)")

            async def write() -> None:
                async with node.transaction():
                    await space.insert([1])

            task = asyncio.create_task(write())
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await space.select() == []

    asyncio.run(run())


def test_a_loop_of_another_kind_is_refused_by_name() -> None:
    """A loop of an unknown kind raises an error with its name: without MVCC the node must notice when
    the task yields.
    """

    class OtherLoop(asyncio.SelectorEventLoop):
        def __getattribute__(self, name: str) -> Any:
            if name == "_ready" and object.__getattribute__(self, "is_other"):
                raise AttributeError(name)
            return super().__getattribute__(name)

        is_other = False

    async def run() -> None:
        async with node_with_space() as (node, _):
            loop = asyncio.get_running_loop()
            OtherLoop.is_other = True
            try:
                with pytest.raises(BoxError, match="does not support transactions without memtx_use_mvcc_engine"):
                    node._embedding.contexts.begin()
            finally:
                OtherLoop.is_other = False
            assert isinstance(loop, OtherLoop)

    with asyncio.Runner(loop_factory=OtherLoop) as runner:
        runner.run(run())


def test_a_node_with_versions_is_as_direct_as_one_without_while_tasks_take_turns(tmp_path: Path) -> None:
    """Changes by themselves make no versions, and those of a transaction none until its task awaits something."""

    async def run() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            space = await node.schema.create_space("s", format=["id", "value"])
            await space.create_index("pk", parts=[[1, "unsigned"]])
            core = node._embedding.core
            general: list[Any] = []
            write = core.dml._write_generally
            core.dml._write_generally = lambda *args: (general.append(args), write(*args))[1]  # type: ignore[method-assign]
            await space.replace([1, 1])
            await space.replace_many([[number, 1] for number in range(2, 50)])
            slots = core.tuples._slots.by_index  # type: ignore[attr-defined]
            assert not general
            seen = []

            async def look() -> None:
                seen.append(await space.get(1))

            async with node.transaction():
                await space.replace([1, 2])
                await space.insert([100, 2])
                assert not slots
                await asyncio.create_task(look())
                assert len(slots) == 1
                await space.update(1, [["+", "value", 1]])
                await asyncio.create_task(look())
            assert seen == [(1, 1), (1, 1)]
            assert await space.get(1) == (1, 3)
            async with node.transaction():
                await space.delete(1)
            assert (await space.len(), general, slots) == (49, [], {})
            result = await node.eval(
                """
                local fiber, s, seen = require('fiber'), box.space.s, {}
                box.begin()
                s:replace{2, 'own'}
                fiber.create(function() table.insert(seen, s:get(2)[2]) end)
                s:replace{3, 'own'}
                fiber.yield()
                box.rollback()
                return seen, s:get(2)[2], s:get(3)[2]
                """
            )
            assert result == [[1], 1, 1]

    asyncio.run(run())


def test_fibers_that_a_transaction_starts_see_none_of_its_changes() -> None:
    """Lua that runs as part of a transaction may start fibers, and a task may begin in the middle of another's step."""

    async def run() -> None:
        async with Node(wal_mode="none", memtx_use_mvcc_engine=True) as node:
            space = await node.schema.create_space("s", format=["id", "value"])
            await space.create_index("pk", parts=[[1, "unsigned"]])
            await space.replace([1, "old"])
            source = """
                local seen
                require('fiber').create(function()
                    seen = box.space.s:get(1)[2]
                    box.space.s:replace{1, 'other'}
                end)
                return seen
            """
            with suppress(ZeroDivisionError):
                async with node.transaction():
                    await space.replace([1, "own"])
                    assert await node.eval(source) == "old"
                    raise ZeroDivisionError
            assert await space.get(1) == (1, "other")

            async def other() -> Any:
                before = await space.get(1)
                await space.replace([1, "eager"])
                return before

            with suppress(ZeroDivisionError):
                async with node.transaction():
                    await space.replace([1, "own"])
                    task, before = first_step(asyncio.get_running_loop(), other())
                    assert (task, before) == (None, (1, "other"))
                    raise ZeroDivisionError
            assert await space.get(1) == (1, "eager")

    asyncio.run(run())
