"""Changes of spaces with multikey indexes on the fast path, on the general path and with MVCC."""

from __future__ import annotations

import asyncio
import random

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.schema.space import Space
from box.wire.change import Request

from ._world import World, code

TAGS = ("tags", "TREE", True, [(2, "unsigned", False, "[*]")])
LOOSE = ("loose", "TREE", False, [(2, "unsigned", False, "[*]")])


def assert_in_step(world: World, space: Space) -> None:
    """Assert that every index has exactly the keys of the tuples in the primary index."""
    rows = world.all(space)
    for iid in (1, 2):
        expected = sorted((tag, row) for row in rows for tag in set(row[1]))
        assert world.all(space, iid=iid) == [row for _, row in expected]
        assert len(space.indexes[iid]) == len(expected)


def step(world: World, space: Space, source: random.Random) -> None:
    tags = [source.randrange(9) for _ in range(source.randrange(4))]
    key = source.randrange(6)
    requests = (
        lambda: Request.insert(pack([key, tags])),
        lambda: Request.replace(pack([key, tags])),
        lambda: Request.replace(pack([key, tags])),
        lambda: Request.update([key], [["=", 2, tags]], 0, 1),
        lambda: Request.upsert(pack([key, tags]), [["=", 2, tags]], 1),
        lambda: Request.delete([key]),
        lambda: Request.delete([source.randrange(9)], 1),
    )
    try:
        world.write(space, source.choice(requests)())
    except BoxError as error:
        if code(error) != "TUPLE_FOUND":
            raise


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_indexes_keep_in_step(mvcc: bool, seed: int) -> None:
    """Indexes agree after autocommits and after transactions that commit, roll back or fail."""
    asyncio.run(_keep_in_step(mvcc, seed))


async def _keep_in_step(mvcc: bool, seed: int) -> None:
    world, source = World(mvcc=mvcc), random.Random(seed)
    space = world.space("s", TAGS, LOOSE)
    for _ in range(80):
        for _ in range(source.randrange(3)):
            step(world, space, source)
        world.journal.write()
        assert_in_step(world, space)
        world.txns.begin(world.ctx)
        for _ in range(source.randrange(5)):
            step(world, space, source)
        match source.randrange(3):
            case 0:
                world.commit()
                world.journal.write()
            case 1:
                world.txns.rollback(world.ctx)
            case _:
                world.commit()
                world.journal.fail()
        assert_in_step(world, space)


def test_a_reader_is_in_conflict_by_the_key_that_it_has_read() -> None:
    """With MVCC a read of a range of a multikey index, up to its last tuple, conflicts with later changes in it."""

    async def body() -> None:
        world = World(mvcc=True)
        world.journal.is_quick = True
        space = world.space("s", TAGS, LOOSE)
        world.replace(space, 1, [1, 5])
        other = world.context()
        world.txns.begin(other)
        found = world.dml.reads.select(other, space, 2, 5, 0, 2, [])
        assert [unpack(raw) for raw in found] == [[1, [1, 5]], [1, [1, 5]]]
        world.replace(space, 3, [3], ctx=other)
        world.replace(space, 2, [2])
        with pytest.raises(BoxError, match="conflict"):
            world.commit(other)

    asyncio.run(body())
