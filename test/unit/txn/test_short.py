"""The short cut of usual changes does what the whole way does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error
from box.wire.change import Request

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "string")])
BY_THREE = ("three", "TREE", False, [(3, "unsigned", True)])
OPS: tuple[list[Any], ...] = (
    [["=", 2, "x"]],
    [["=", 2, "y"], ["+", 3, 1]],
    [["+", 3, 5]],
    [["-", 3, 5]],
    [["=", 1, 3]],
    [["!", 4, "new"]],
    [["#", 4, 1]],
    [["=", 9, 1]],
    [["+", 2, 1]],
    [["^", 3, 1]],
    [["?", 3, 1]],
    [],
)


def _step(world: World, space: Any, dice: random.Random) -> Any:
    """One random request: what it returns, or the error's name and text."""
    key = dice.randrange(6)
    raw = pack([key, dice.choice("abcdef"), dice.randrange(4)])
    choice = dice.randrange(8)
    ops = dice.choice(OPS)
    try:
        if choice == 0:
            return world.write(space, Request.insert(raw))
        if choice == 1:
            return world.write(space, Request.replace(raw))
        if choice == 2:
            return world.write(space, Request.update([key], ops))
        if choice == 3:
            return world.write(space, Request.upsert(raw, ops))
        if choice == 4:
            return world.write(space, Request.delete([key]))
        if choice == 5:
            return world.write(space, Request.update(["wrong"], ops))
        if choice == 6:
            return world.write(space, Request.delete([key, key]))
        return _transaction(world, space, dice)
    except BoxError as error:
        return code(error), error.message


def _transaction(world: World, space: Any, dice: random.Random) -> list[Any]:
    ctx = world.ctx
    if ctx.txn is not None:
        return []
    world.txns.begin(ctx)
    results = [_step(world, space, dice) for _ in range(3)]
    savepoint = world.txns.savepoint(ctx)
    results += [_step(world, space, dice) for _ in range(3)]
    ending = dice.randrange(3)
    if ending == 0:
        world.txns.rollback(ctx)
        return results
    if ending == 1:
        world.txns.rollback_to_savepoint(ctx, savepoint)
    world.txns.commit(ctx)
    return results


@pytest.mark.parametrize("extra", [(), (SK,), (BY_THREE,), (SK, BY_THREE)])
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_agree(extra: tuple[Any, ...], seed: int) -> None:
    """Results, errors, counters, journal rows and the contents of all indexes are the same.

    With versions of tuples nothing takes the short cut.
    """

    async def body() -> None:
        worlds = World(), World(mvcc=True)
        spaces = [world.space("s", *extra) for world in worlds]
        dice = [random.Random(seed) for _ in worlds]
        for world in worlds:
            world.journal.is_quick = True
        for _ in range(400):
            quick, whole = (_step(*args) for args in zip(worlds, spaces, dice, strict=True))
            assert quick == whole
        quick_world, whole_world = worlds
        assert quick_world.dml.counters == whole_world.dml.counters
        assert quick_world.journal.rows == whole_world.journal.rows
        for iid in spaces[0].indexes:
            assert quick_world.all(spaces[0], iid=iid) == whole_world.all(spaces[1], iid=iid)

    asyncio.run(body())


@pytest.mark.parametrize("extra", [(), (SK,)])
def test_failed_writes_of_every_kind_are_undone(extra: tuple[Any, ...]) -> None:
    """What the log refuses, at once or later, leaves no trace."""

    async def body() -> None:
        world = World()
        space = world.space("s", *extra)
        world.journal.is_quick = True
        world.replace(space, 1, "a", 1)
        before = world.all(space)
        for refuses in (True, False):
            world.journal.is_quick, world.journal.refuses = False, refuses
            changes: tuple[Callable[[], object], ...] = (
                lambda: world.write(space, Request.update([1], [["=", 2, "b"]])),
                lambda: world.write(space, Request.upsert(pack([1, "c", 1]), [["=", 2, "d"]])),
                lambda: world.write(space, Request.upsert(pack([2, "c", 1]), [])),
                lambda: world.write(space, Request.delete([1])),
                lambda: world.write(space, Request.delete([7])),
            )
            for change in changes:
                if refuses:
                    with pytest.raises(BoxError) as raised:
                        change()
                    assert code(raised.value) == "WAL_IO"
                else:
                    change()
                    pending = world.pending
                    assert pending is not None
                    world.journal.fail()
                    assert pending.error is not None
                assert world.all(space) == before

    asyncio.run(body())


def test_a_void_journal_gets_no_rows() -> None:
    """Without a log a write is only counted; a refusal undoes it."""

    async def body() -> None:
        world = World()
        space = world.space()
        passed = 0

        def pass_row() -> None:
            nonlocal passed
            if world.journal.refuses:
                raise client_error(ErrorCode.WAL_IO)
            passed += 1

        world.journal.is_void = True
        world.journal.pass_row = pass_row  # type: ignore[method-assign]
        world.replace(space, 1, "a")
        assert unpack(world.write(space, Request.update([1], [["=", 2, "b"]])) or b"") == [1, "b"]
        assert (passed, world.journal.queue, world.pending) == (2, [], None)
        world.journal.refuses = True
        with pytest.raises(BoxError):
            world.replace(space, 1, "c")
        assert world.get(space, 1) == [1, "b"]

    asyncio.run(body())
