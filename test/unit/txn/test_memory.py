"""`memtx_memory`: the memory that tuples and indexes take, and the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError
from box.index.memory import TUPLE_COST
from box.schema.space import Space
from box.txn.versions import Slot
from box.wire.change import Request
from box.wire.row import Row

from ._world import World, code

SK = ("sk", "TREE", False, [(2, "string")])
TOO_LITTLE = "Failed to allocate %d bytes in slab allocator for memtx_tuple"


def metered(*, mvcc: bool = False, **opts: Any) -> tuple[World, Space]:
    """Make a space whose tuples are counted from the beginning."""
    world = World(mvcc=mvcc)
    space = world.space("s", SK, **opts)
    space.index(0).use_memory(world.schema.memory)
    return world, space


def counted(space: Space) -> tuple[int, int]:
    """Count the bytes of tuples, and of tuples and indexes, from what is stored."""
    values = [each.base or b"" if isinstance(each, Slot) else each for each in space.index(0).values_list()]
    size = sum(map(len, values))
    weight = TUPLE_COST + sum(index.place_cost for index in space.indexes.values())
    return size, size + weight * len(values)


def check(world: World, space: Space) -> None:
    """Assert that the counters equal a new count."""
    assert (space.index(0).tuple_bytes, world.schema.memory.used) == counted(space)


keys = st.integers(0, 5)
tuples = st.builds(lambda key, size: pack([key, "x" * size]), keys, st.integers(0, 40))
requests = st.one_of(
    st.builds(lambda raw: lambda: Request.insert(raw), tuples),
    st.builds(lambda raw: lambda: Request.replace(raw), tuples),
    st.builds(lambda key, size: lambda: Request.update([key], [["=", 2, "y" * size]], 0, 1), keys, st.integers(0, 40)),
    st.builds(lambda raw: lambda: Request.upsert(raw, [["=", 2, "upserted"]], 1), tuples),
    st.builds(lambda key: lambda: Request.delete([key]), keys),
)
control = st.sampled_from(["begin", "commit", "rollback", "written", "failed"])


@pytest.mark.parametrize("mvcc", [False, True])
@given(program=st.lists(st.one_of(requests, requests, control), max_size=40), is_fast=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_sum_is_that_of_the_tuples(mvcc: bool, program: list[Any], is_fast: bool) -> None:
    """The counters stay right through writes, undos and rollbacks, on the fast path and on the general one."""

    async def run() -> None:
        world, space = metered(mvcc=mvcc)
        world.dml._planner._fast_allowed = is_fast
        for step in program:
            with suppress(BoxError):
                _take(world, space, step)
            if not mvcc:
                check(world, space)
        if world.ctx.txn is not None:
            world.txns.rollback(world.ctx)
        world.journal.write()
        check(world, space)

    asyncio.run(run())


def _take(world: World, space: Space, step: str | Callable[[], Request]) -> None:
    txn = world.ctx.txn
    if callable(step):
        world.write(space, step())
    elif step == "begin" and txn is None:
        world.txns.begin(world.ctx)
    elif step == "commit" and txn is not None:
        world.commit()
    elif step == "rollback" and txn is not None:
        world.txns.rollback(world.ctx)
    elif step == "written":
        world.journal.write()
    elif step == "failed":
        world.journal.fail()


@pytest.mark.parametrize("mvcc", [False, True])
def test_a_tuple_over_the_limit_is_refused(mvcc: bool) -> None:
    """A tuple over the limit is refused and nothing changes; smaller tuples still fit, also in its transaction."""

    async def run() -> None:
        world, space = metered(mvcc=mvcc)
        world.journal.is_quick = True
        world.replace(space, 1, "small")
        world.dml.memory_limit = world.schema.memory.used + 1000
        large = pack([2, "x" * 2000])
        for request in (Request.insert(large), Request.replace(large), Request.upsert(large, [], 1)):
            with pytest.raises(BoxError) as refused:
                world.write(space, request)
            assert (code(refused.value), refused.value.type) == ("MEMORY_ISSUE", "OutOfMemory")
            assert refused.value.message == TOO_LITTLE % (len(large) + 14 + 4)
        with pytest.raises(BoxError):
            world.write(space, Request.update([1], [["=", 2, "x" * 2000]], 0, 1))
        world.txns.begin(world.ctx)
        with pytest.raises(BoxError):
            world.insert(space, 2, "x" * 2000)
        world.insert(space, 3, "fits")
        world.commit()
        assert world.all(space) == [[1, "small"], [3, "fits"]]
        check(world, space)

    asyncio.run(run())


def fill(world: World, space: Space) -> int:
    """Insert tuples until there is no room, and return their number."""
    for number in range(100):
        try:
            world.insert(space, number, "x" * 500)
        except BoxError as error:
            if code(error) != "MEMORY_ISSUE":
                raise
            return number
    raise AssertionError("there is no limit")


@pytest.mark.parametrize("mvcc", [False, True])
def test_deletes_make_room_and_open_transactions_take_it(mvcc: bool) -> None:
    async def run() -> None:
        world, space = metered(mvcc=mvcc)
        world.journal.is_quick = True
        world.dml.memory_limit = 10_000
        world.txns.begin(world.ctx)
        assert 10 < fill(world, space) < 20
        world.txns.rollback(world.ctx)
        assert world.schema.memory.used == 0
        assert 10 < fill(world, space) < 20
        world.write(space, Request.delete([0]))
        world.write(space, Request.delete([1]))
        world.insert(space, 0, "x" * 500)
        check(world, space)

    asyncio.run(run())


def test_a_run_of_another_instance_ends_at_the_limit() -> None:
    """A run of another instance executes the changes that fit; the first one that does not fit is refused."""

    async def run() -> None:
        world, space = metered()
        world.dml.memory_limit = 5_000
        bodies = [space.tuple_prefix + pack([number, "x" * 500]) for number in range(20)]
        rows = [Row(3, replica_id=2, lsn=number + 1, body=body) for number, body in enumerate(bodies)]
        world.txns.begin(world.ctx)
        done = world.dml.write_rows(world.ctx, rows)
        assert 5 < done < 10
        with pytest.raises(BoxError) as refused:
            world.dml.write_row(world.ctx, rows[done])
        assert code(refused.value) == "MEMORY_ISSUE"
        assert len(space.index(0)) == done
        check(world, space)

    asyncio.run(run())


def test_a_large_transaction_of_another_instance_counts_as_it_grows() -> None:
    """A large transaction of another instance counts towards the limit while it is executed, before it is merged."""

    async def run() -> None:
        world, space = metered()
        world.replace(space, 0, "there")
        world.replace(space, 1, "goes")
        rows = [Row(3, replica_id=2, lsn=1, body=space.tuple_prefix + pack([0, "x" * 50]))]
        rows += [
            Row(3, replica_id=2, lsn=number, body=space.tuple_prefix + pack([number, "x" * 500]))
            for number in range(2, 300)
        ]
        rows.append(Row(5, replica_id=2, lsn=300, body=space.key_prefix + pack([1])))
        staged = world.dml.stage(world.ctx, rows)
        assert staged is not None
        while staged.go_on():
            pass
        assert staged.is_valid
        staged.publish(world.txns.begin(world.ctx), world.txns.work)
        await world.txns.work.wait()
        assert len(space.index(0)) == 299
        check(world, space)

        world.dml.memory_limit = world.schema.memory.used + 100_000
        more = [
            Row(3, replica_id=2, lsn=number, body=space.tuple_prefix + pack([number, "x" * 500]))
            for number in range(1000, 1300)
        ]
        staged = world.dml.stage(world.context(), more)
        assert staged is not None
        while staged.go_on():
            pass
        assert not staged.is_valid
        staged.close()
        check(world, space)

    asyncio.run(run())
