"""The undo of a large transaction whose write has failed is prepared in slices, done at once and merged in slices."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.index.ordered import OrderedIndex
from box.txn import laying_over, lifecycle, staged_undo
from box.txn.staged_undo import StagedUndo
from box.wire.change import Request
from test.unit.journal.faulty import FaultyStorage, failing

from ._world import World, code
from .test_with_journal import create, rows, running

DEADLINE = 60.0
COUNT = 6000
SPACES: tuple[tuple[Any, ...], ...] = (
    (),
    (("name", "TREE", True, [(2, "string", True)]), ("group", "HASH", True, [(1, "unsigned"), (3, "unsigned")])),
    (("group", "TREE", False, [(3, "unsigned", True)]),),
)

changes = st.tuples(
    st.sampled_from(["replace", "replace", "insert", "delete", "rename"]),
    st.integers(0, len(SPACES) - 1),
    st.integers(0, 7),
    st.integers(0, 7),
)


@contextmanager
def small_slices() -> Iterator[None]:
    """Make transactions large from three statements on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "UNDONE_STATEMENTS", 3)
        patch.setattr(staged_undo, "_SLICE_STATEMENTS", 2)
        patch.setattr(staged_undo, "MERGED_KEYS", 1)
        patch.setattr(laying_over, "MERGED_KEYS", 1)
        yield


def request_of(change: tuple[str, int, int, int]) -> Request:
    kind, _, key, other = change
    row = pack([key, f"name {other}" if other else None, other])
    if kind == "delete":
        return Request.delete([key])
    if kind == "rename":
        return Request.update([key], [["=", 2, f"name {other}"]])
    return Request.insert(row) if kind == "insert" else Request.replace(row)


class Scene:
    """Spaces with tuples, and the contents of their indexes."""

    def __init__(self, *, is_sync: bool = False, mvcc: bool = False) -> None:
        self.world = World(mvcc=mvcc)
        self.world.journal.is_quick = True
        self.spaces = [
            self.world.space(f"s{n}", *extra, space_id=512 + n, is_sync=is_sync) for n, extra in enumerate(SPACES)
        ]

    def commit(self, transaction: list[Any]) -> None:
        """Commit several changes in one transaction, or a single one by itself."""
        ctx = self.world.context()
        if len(transaction) > 1:
            self.world.txns.begin(ctx)
        for change in transaction:
            self.change(change, ctx)
        self.world.txns.commit(ctx)

    def change(self, change: tuple[str, int, int, int], ctx: Any = None) -> None:
        try:
            self.world.write(self.spaces[change[1]], request_of(change), ctx or self.world.context())
        except BoxError as error:
            if code(error) not in ("TUPLE_FOUND", "WAL_IO"):
                raise

    def contents(self) -> list[Any]:
        world = self.world
        return [
            (world.all(space, iid=iid), len(index)) for space in self.spaces for iid, index in space.indexes.items()
        ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(changes, max_size=12),
    st.lists(st.lists(changes, min_size=1, max_size=8), min_size=1, max_size=5),
    st.lists(changes, max_size=6),
    st.lists(changes, max_size=8),
)
def test_a_failed_write_leaves_what_was_there(
    before: list[Any], transactions: list[list[Any]], refused: list[Any], after: list[Any]
) -> None:
    """After a failed write all indexes are as before, whatever else was committed or tried meanwhile.

    While the undo is prepared, readers see the whole transaction; once it is done, nobody does. Changes go on between
    merges.
    """

    async def body() -> None:
        scene = Scene()
        world, journal = scene.world, scene.world.journal
        for change in before:
            scene.change(change)
        expected = scene.contents()
        journal.is_quick = False
        for transaction in transactions:
            scene.commit(transaction)
        changed = scene.contents()
        journal.refuses = True
        for number, _ in enumerate(world.txns.prepare_rollback(list(journal.queue))):
            assert scene.contents() == changed
            if number < len(refused):
                scene.change(refused[number])
        journal.fail()
        assert scene.contents() == expected
        journal.refuses, journal.is_quick = False, True
        other = Scene()
        for change in before:
            other.change(change)
        for change in after:
            await asyncio.sleep(0)
            scene.change(change)
            other.change(change)
            assert scene.contents() == other.contents()
        await world.txns.work.wait()
        assert scene.contents() == other.contents()

    with small_slices():
        asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    st.lists(changes, max_size=12),
    st.lists(st.lists(changes, min_size=1, max_size=8), min_size=1, max_size=5),
    st.lists(changes, max_size=8),
)
def test_a_rollback_of_the_limbo_leaves_what_was_there(
    mvcc: bool, before: list[Any], transactions: list[list[Any]], after: list[Any]
) -> None:
    """A rollback of synchronous transactions without a quorum restores all indexes; nobody can commit while it is
    prepared.
    """

    async def body() -> None:
        scene, other = Scene(is_sync=True, mvcc=mvcc), Scene(is_sync=True, mvcc=mvcc)
        world = scene.world
        for change in before:
            scene.change(change)
            other.change(change)
        await world.txns.work.wait()
        expected = scene.contents()
        world.synchro.set_quorum(2)
        for transaction in transactions:
            scene.commit(transaction)
        seen = scene.contents()
        world.synchro.set_timeout(0)
        while not world.limbo.is_empty:
            assert world.limbo.is_rolling_back
            assert scene.contents() == seen
            with pytest.raises(BoxError, match="A rollback for a synchronous transaction is received"):
                world.replace(scene.spaces[0], 100, ctx=world.context())
            assert scene.contents() == seen
            await asyncio.sleep(0)
        assert [rows for rows, _ in scene.contents()] == [rows for rows, _ in expected]
        world.synchro.set_quorum(1)
        for change in after:
            await asyncio.sleep(0)
            scene.change(change)
            other.change(change)
            assert [rows for rows, _ in scene.contents()] == [rows for rows, _ in other.contents()]
        for each in (world, other.world):
            await each.txns.work.wait()
        assert scene.contents() == other.contents()

    with small_slices():
        asyncio.run(body())


@pytest.mark.parametrize("alone", [True, False])
def test_large_ones_are_undone_in_slices(alone: bool) -> None:
    """One large transaction, or several that fail together, are undone in slices."""

    async def body() -> None:
        scene = Scene()
        world = scene.world
        world.journal.is_quick = False
        for first in (0,) if alone else (0, 4):
            ctx = world.context()
            world.txns.begin(ctx)
            for key in range(first, first + 4):
                scene.change(("replace", 1, key, key), ctx)
            world.txns.commit(ctx)
            scene.change(("replace", 1, 5, 1))
        steps = len(list(world.txns.prepare_rollback(list(world.journal.queue))))
        world.journal.fail()
        index = scene.spaces[1].indexes[0]
        assert isinstance(index, OrderedIndex)
        assert (steps, index.is_layered, len(index)) == (2 if alone else 4, True, 0)
        await world.txns.work.wait()
        assert not index.is_layered
        assert [*scene.contents()] == [*Scene().contents()]

    with small_slices():
        asyncio.run(body())


@pytest.mark.parametrize("stops", [False, True])
def test_a_rollback_of_the_limbo_is_made_ready_in_slices(stops: bool) -> None:
    """A rollback of the limbo is prepared in slices, and ends at once when the node stops."""

    async def body() -> None:
        scene = Scene(is_sync=True)
        world = scene.world
        world.synchro.set_quorum(2)
        scene.commit([("replace", 1, key, key) for key in range(8)])
        scene.commit([("replace", 1, 1, 5)])
        scene.commit([("delete", 1, key, key) for key in range(3)])
        world.synchro.set_timeout(0)
        turns = 0
        while not world.limbo.is_empty:
            turns += 1
            if stops and turns == 3:
                world.synchro.stop()
            else:
                await asyncio.sleep(0)
        assert turns == (3 if stops else 6)
        assert scene.contents() == Scene().contents()
        assert world.synchro.latch.is_free

    with small_slices():
        asyncio.run(body())


def test_many_small_ones_between_two_large_ones() -> None:
    """Many small transactions between two large ones are visited in slices, too."""

    async def body() -> None:
        scene = Scene()
        world = scene.world
        world.journal.is_quick = False
        scene.commit([("replace", 1, key, key) for key in range(4)])
        for number in range(40):
            scene.change(("replace", 1, 4 + number % 4, 100 + number))
        scene.commit([("replace", 1, key, key + 4) for key in range(4)])
        steps = len(list(world.txns.prepare_rollback(list(world.journal.queue))))
        world.journal.fail()
        assert steps == 24
        assert scene.contents() == Scene().contents()

    with small_slices():
        asyncio.run(body())


def test_other_indexes_meanwhile() -> None:
    """If indexes change meanwhile, the prepared undo is dropped and statements are undone one by one."""

    async def body() -> None:
        scene = Scene()
        world, space = scene.world, scene.spaces[1]
        world.journal.is_quick = False
        ctx = world.context()
        world.txns.begin(ctx)
        for key in range(4):
            scene.change(("replace", 1, key, key), ctx)
        world.txns.commit(ctx)
        list(world.txns.prepare_rollback(list(world.journal.queue)))
        dropped = space.indexes.pop(2)
        world.journal.fail()
        assert [len(index) for index in space.indexes.values()] == [0, 0]
        assert len(dropped) == 4

    with small_slices():
        asyncio.run(body())


@pytest.mark.parametrize("unusual", [False, True])
def test_with_a_disk_that_is_full(unusual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, readers between two turns see all of the transaction or nothing, and writes meanwhile are
    refused.

    Later writes succeed. A transaction with a change of a system space is undone in the same way.
    """
    published: list[StagedUndo] = []
    publish = StagedUndo.publish

    def publishing(undo: StagedUndo, add_work: Any) -> None:
        published.append(undo)
        publish(undo, add_work)

    monkeypatch.setattr(StagedUndo, "publish", publishing)

    async def body() -> None:
        disk = FaultyStorage()
        async with running(disk) as node:
            spaces = [await create(node, 512, "one"), await create(node, 513, "two")]
            await node.dml.execute(node.new_context(), spaces[0], Request.replace(pack([0, "old"])))
            works, disk.on_write = disk.on_write, failing(errno.ENOSPC)
            ctx = node.new_context()
            node.txns.begin(ctx)
            if unusual:
                node.dml.write(ctx, node.schema.space(272), Request.replace(pack(["key", "value"])))
            for number in range(COUNT):
                node.dml.write(ctx, spaces[number % 2], Request.replace(pack([number, "new"])))
            pending = node.txns.commit(ctx)
            assert pending is not None
            seen, refused = set(), 0
            while not pending.done:
                seen.add(tuple(len(space.indexes[0]) for space in spaces))
                try:
                    node.dml.write(node.new_context(), spaces[1], Request.replace(pack([1, "refused"])))
                except BoxError as error:
                    refused += error.code == ErrorCode.WAL_IO
                await asyncio.sleep(0)
            assert seen == {(COUNT // 2, COUNT // 2)}
            assert pending.error is not None
            assert pending.error.code == ErrorCode.WAL_IO
            assert [len(space.indexes[0]) for space in spaces] == [1, 0]
            assert (rows(node, 512), rows(node, 513)) == ([[0, "old"]], [])
            assert len(published) == 1
            assert refused >= COUNT // staged_undo._SLICE_STATEMENTS
            disk.on_write = works
            await node.txns.work.wait()
            await node.dml.execute(node.new_context(), spaces[1], Request.replace(pack([5, "later"])))
        async with running(disk) as node:
            assert (rows(node, 512), rows(node, 513)) == ([[0, "old"]], [[5, "later"]])

    asyncio.run(asyncio.wait_for(body(), DEADLINE))


def test_a_node_that_stops_meanwhile() -> None:
    """A node that stops during the undo of a transaction ends the undo at once, and the caller gets the error."""

    async def body() -> None:
        disk = FaultyStorage()
        async with running(disk) as node:
            space = await create(node, 512, "one")
            disk.on_write = failing(errno.ENOSPC)
            ctx = node.new_context()
            node.txns.begin(ctx)
            for number in range(COUNT):
                node.dml.write(ctx, space, Request.replace(pack([number, "new"])))
            pending = node.txns.commit(ctx)
            assert pending is not None
            journal = node.journal
            assert journal is not None
            while journal._preparation is None:
                await asyncio.sleep(0)
            await journal.stop()
            assert pending.done
            assert pending.error is not None
            assert len(space.indexes[0]) == 0

    asyncio.run(asyncio.wait_for(body(), DEADLINE))
