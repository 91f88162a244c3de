"""Selects of many tuples read in slices, and return the tuples of one moment."""

from __future__ import annotations

import asyncio

import pytest

from box.data.codec import pack
from box.errors import BoxError
from box.index import IteratorType, long_read
from box.schema.space import Space
from box.session import Context
from box.txn import reads
from box.wire.change import Request

from ._world import World, code

COUNT = 300


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a few tuples count as many, and read slices of seven."""
    monkeypatch.setattr(reads, "LONG", 100)
    monkeypatch.setattr(long_read, "_SLICE", 7)
    monkeypatch.setattr(long_read, "_VIEW_SLICE", 5)


def world_with(kind: str = "TREE", *, mvcc: bool = False) -> tuple[World, Space]:
    world = World(mvcc=mvcc)
    world.journal.is_quick = True
    space = world.space("s", ("sk", "TREE", False, [(2, "unsigned")]), kind=kind)
    for number in range(COUNT):
        world.replace(space, number, number % 10)
    return world, space


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("kind", ["TREE", "HASH"])
def test_it_finds_what_a_select_finds(kind: str, mvcc: bool) -> None:
    """A sliced select returns what an ordinary one does, for every iterator, key, offset and limit."""

    async def run() -> None:
        world, space = world_with(kind, mvcc=mvcc)
        if mvcc:
            change_some(world, space, world.context())
        taken = 0
        for iid, iterator, key in (
            *((0, iterator, []) for iterator in list(IteratorType)[:7]),
            *((1, iterator, [4]) for iterator in list(IteratorType)[:7]),
        ):
            if kind == "HASH" and iid == 0 and iterator not in (IteratorType.ALL, IteratorType.GT):
                continue
            for offset in (0, 1, 50, 2000):
                for limit in (100, 150, 2**32 - 1):
                    arguments = (space, iid, iterator, offset, limit, key)
                    long = world.dml.reads.begin_long(world.ctx, *arguments)
                    if long is None:
                        continue
                    rows: list[bytes] = []
                    steps = 1
                    while long.take(rows):
                        steps += 1
                    assert rows == world.dml.reads.select(world.ctx, *arguments)
                    assert steps > len(rows) // 8
                    assert not space.indexes[iid].listeners  # type: ignore[attr-defined]
                    taken += 1
        assert taken >= 24

    asyncio.run(run())


def change_some(world: World, space: Space, ctx: Context) -> None:
    """Make changes in a transaction that stays open, invisible to others."""
    world.txns.begin(ctx)
    for number in range(0, COUNT, 11):
        world.write(space, Request.replace(pack([number, 4])), ctx)
        world.write(space, Request.delete([number + 1]), ctx)
        world.write(space, Request.replace(pack([COUNT + 5000 + number, 4])), ctx)


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("iterator", [IteratorType.ALL, IteratorType.GE, IteratorType.LE])
@pytest.mark.parametrize("offset", [0, 30])
@pytest.mark.parametrize("steps", [0, 1, 10, 37])
def test_changes_meanwhile_are_not_in_it(iterator: IteratorType, offset: int, steps: int, mvcc: bool) -> None:
    """Changes during a sliced select, before or behind its position, are not in its result."""

    async def run() -> None:
        world, space = world_with(mvcc=mvcc)
        if mvcc:
            change_some(world, space, world.context())
        arguments = (space, 0, iterator, offset, 250, [] if iterator is IteratorType.ALL else [COUNT // 2])
        expected = world.dml.reads.select(world.ctx, *arguments)
        long = world.dml.reads.begin_long(world.ctx, *arguments)
        assert long is not None
        rows: list[bytes] = []
        goes_on = True
        for _ in range(steps):
            goes_on = goes_on and long.take(rows)
        number = 0
        while goes_on:
            for key in (number % COUNT, COUNT - 1 - number % COUNT, 150 + number % 20):
                world.replace(space, key, 1000 + number)
            world.write(space, Request.delete([(number * 7) % COUNT]))
            world.replace(space, COUNT + number, 5)
            number += 1
            goes_on = long.take(rows)
        assert rows == expected
        assert not space.indexes[0].listeners  # type: ignore[attr-defined]

    asyncio.run(run())


@pytest.mark.parametrize("steps", [0, 3])
def test_an_emptied_index_is_read_anew(steps: int) -> None:
    async def run() -> None:
        world, space = world_with()
        long = world.dml.reads.begin_long(world.ctx, space, 0, IteratorType.ALL, 0, 2**32 - 1, [])
        assert long is not None
        rows: list[bytes] = []
        for _ in range(steps):
            assert long.take(rows)
        space.indexes[0].clear()
        assert not long.take(rows)
        assert rows == []

    asyncio.run(run())


def test_one_that_is_given_up_leaves_nothing() -> None:
    """A sliced select that is cancelled leaves nothing behind."""

    async def run() -> None:
        world, space = world_with()
        for iterator in (IteratorType.ALL, IteratorType.LE):
            for changes in (0, 1):
                long = world.dml.reads.begin_long(world.ctx, space, 0, iterator, 0, 2**32 - 1, [])
                assert long is not None
                assert long.take([])
                for key in range(changes):
                    world.replace(space, COUNT - 1 - key, 7)
                long.close()
                long.close()
                assert not space.indexes[0].listeners  # type: ignore[attr-defined]
                assert not long.take([])

    asyncio.run(run())


def test_what_is_read_at_once() -> None:
    """Few tuples, a small limit and a select in a transaction are read at once."""

    async def run() -> None:
        world, space = world_with()
        begin = world.dml.reads.begin_long
        assert begin(world.ctx, space, 0, IteratorType.ALL, 0, 99, []) is None
        assert begin(world.ctx, world.space("few", space_id=513), 0, IteratorType.ALL, 0, 1000, []) is None
        world.txns.begin(world.ctx)
        assert begin(world.ctx, space, 0, IteratorType.ALL, 0, 1000, []) is None
        world.txns.rollback(world.ctx)

    asyncio.run(run())


def test_errors_are_those_of_a_select() -> None:
    async def run() -> None:
        world, space = world_with()
        for iid, iterator, key in ((9, 2, []), (0, 12, []), (0, 2, ["text"]), (0, 2, [1, 2])):
            arguments = (space, iid, iterator, 0, 2**32 - 1, key)
            with pytest.raises(BoxError) as at_once:
                world.dml.reads.select(world.ctx, *arguments)
            with pytest.raises(BoxError) as long:
                world.dml.reads.begin_long(world.ctx, *arguments)
            assert (code(long.value), long.value.message) == (code(at_once.value), at_once.value.message)

    asyncio.run(run())
