"""Many tuples stored together without a log leave what a transaction of them leaves, and make no transaction object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box import BoxError, Node, ReadOnlyError
from box.data.codec import pack
from box.errors import ErrorCode, client_error
from box.sync import Node as BlockingNode
from box.txn.lifecycle import TransactionManager

from ._world import FakeJournal, World, code

INSERT, REPLACE = 2, 3
DEADLINE = 30

keys = st.one_of(st.integers(0, 200), st.integers(0, 200), st.sampled_from([-1, "text", None]))
batches = st.lists(
    st.tuples(st.sampled_from([INSERT, REPLACE]), st.lists(st.tuples(keys, st.integers(0, 60)), min_size=1)), max_size=6
)
extras = st.sampled_from([(), (("sk", "TREE", True, [(2, "string")]),), (("h", "HASH", True, [(2, "string")]),)])


class VoidJournal(FakeJournal):
    """A journal that keeps no rows; `room` is the number of rows that it counts before it refuses."""

    is_void = True
    room = 10**9

    def pass_rows(self, count: int) -> None:
        if count > self.room:
            raise client_error(ErrorCode.WAL_IO)
        self.room -= count


class Storing:
    """A world that stores many tuples at once, by themselves or in a transaction."""

    def __init__(self, extra: tuple[Any, ...], room: int, *, is_alone: bool, mvcc: bool) -> None:
        self.world = World(mvcc=mvcc)
        self.journal = VoidJournal()
        self.world.txns.journal = self.journal
        self.space = self.world.space("s", *extra)
        self.world.schema.memory.room = room
        self.is_alone = is_alone

    def store(self, kind: int, raws: list[bytes]) -> Any:
        """Return None, or the error's name and text."""
        world, ctx = self.world, self.world.context()
        try:
            if self.is_alone:
                assert world.dml.store_alone(ctx, self.space, kind, raws)
            else:
                world.txns.begin(ctx)
                world.dml.store_all(ctx, self.space, kind, raws, commits=True)
                world.txns.commit(ctx)
        except BoxError as error:
            world.txns.fiber_stopped(ctx)
            return code(error), error.message
        return None

    def state(self) -> Any:
        world = self.world
        contents = [world.all(self.space, iid=iid) for iid in self.space.indexes]
        room = self.journal.room
        return contents, world.dml.counters, room, world.schema.memory.room, self.space.index(0).tuple_bytes


@settings(deadline=None)
@given(extras, batches, st.sampled_from([1 << 30, 1 << 30, 5000]), st.sampled_from([10**9, 10**9, 100]), st.booleans())
def test_as_in_a_transaction(extra: tuple[Any, ...], program: Any, room: int, rows: int, mvcc: bool) -> None:
    """Errors, contents, counters, counted rows and memory are equal: wrong and taken keys, no memory, a log that
    refuses.
    """

    async def body() -> None:
        alone, together = (Storing(extra, room, is_alone=is_alone, mvcc=mvcc) for is_alone in (True, False))
        alone.journal.room = together.journal.room = rows
        for kind, batch in program:
            raws = [pack([key, f"{key} {size}" + "x" * size]) for key, size in batch]
            assert alone.store(kind, raws) == together.store(kind, raws)
            assert alone.state() == together.state()

    asyncio.run(body())


def test_no_transaction_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`insert_many` and `replace_many` of nodes without a log make no transaction, with and without versions."""
    begun: list[Any] = []
    begin = TransactionManager.begin

    def noted(self: TransactionManager, *args: Any) -> Any:
        begun.append(args)
        return begin(self, *args)

    async def test() -> None:
        async with Node(wal_mode="none", log_level=1) as node:
            space = await node.schema.create_space("s", format=["id"])
            await space.create_index("pk")
            monkeypatch.setattr(TransactionManager, "begin", noted)
            assert await space.insert_many([[number] for number in range(3000)]) == 3000
            monkeypatch.undo()
            assert await space.len() == 3000

    asyncio.run(asyncio.wait_for(test(), DEADLINE))
    with BlockingNode(wal_mode="none", log_level=1) as node:
        space = node.schema.create_space("s", format=["id"])
        space.create_index("pk")
        monkeypatch.setattr(TransactionManager, "begin", noted)
        assert space.replace_many([[number] for number in range(3000)]) == 3000
        monkeypatch.undo()
        assert space.len() == 3000
    assert begun == []


def run(test: Callable[[Node, Any], Awaitable[None]], **options: Any) -> None:
    async def body() -> None:
        async with Node(wal_mode="none", log_level=1, **options) as node:
            space = await node.schema.create_space("s", format=["id", "name"])
            await space.create_index("pk")
            await test(node, space)

    asyncio.run(asyncio.wait_for(body(), DEADLINE))


def test_a_read_only_node_refuses() -> None:
    async def test(node: Node, space: Any) -> None:
        await node.eval("box.cfg{read_only = true}")
        with pytest.raises(ReadOnlyError):
            await space.insert_many([[1, "a"], [2, "b"]])
        assert await space.len() == 0

    run(test)


def test_triggers_see_each_row() -> None:
    async def test(node: Node, space: Any) -> None:
        seen: list[Any] = []
        space.on_replace(lambda old, new: seen.append(new[0]))
        await space.insert_many([[1, "a"], [2, "b"]])
        assert seen == [1, 2]

    run(test)


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_stream_gets_each_row(mvcc: bool) -> None:
    async def test(node: Node, space: Any) -> None:
        async with space.changes() as stream:
            await space.insert_many([[1, "a"], [2, "b"]])
            assert [(await anext(stream)).new[0] for _ in range(2)] == [1, 2]

    run(test, memtx_use_mvcc_engine=mvcc)


def test_checks_hold() -> None:
    async def test(node: Node, space: Any) -> None:
        await node.execute("CREATE TABLE small (id INTEGER PRIMARY KEY, CHECK (id < 10))")
        small = node.space["SMALL"]
        with pytest.raises(BoxError, match="Check constraint failed"):
            await small.insert_many([[1], [10]])
        assert await small.len() == 0
        assert await small.insert_many([[1], [2]]) == 2

    run(test)


def test_an_open_transaction_keeps_what_it_has_read() -> None:
    """With versions, a transaction that has read an empty space still finds it empty."""

    async def test(node: Node, space: Any) -> None:
        read, written = asyncio.Event(), asyncio.Event()

        async def reader() -> None:
            async with node.transaction():
                assert await space.select() == []
                read.set()
                await written.wait()
                assert await space.select() == []

        task = asyncio.create_task(reader())
        await read.wait()
        await space.insert_many([[1, "a"], [2, "b"]])
        written.set()
        await task
        assert await space.len() == 2

    run(test, memtx_use_mvcc_engine=True)
