"""The fast path of usual changes has the same results as the general path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error
from box.wire.change import INSERT, Request

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "string")])
BY_THREE = ("three", "TREE", False, [(3, "unsigned", True)])
BITS = ("bits", "BITSET", False, [(3, "unsigned")])
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


EXTRAS: tuple[tuple[Any, ...], ...] = ((), (SK,), (BY_THREE,), (SK, BY_THREE), (BITS,), (SK, BITS))

keys = st.integers(0, 4)
tuples = st.one_of(
    st.tuples(keys, st.sampled_from("abcd"), st.integers(0, 3)),
    st.tuples(keys, st.sampled_from("abcd"), st.integers(0, 3), st.just("x" * 40)),
    st.tuples(keys, st.sampled_from(["a", 5, None])),
    st.sampled_from([(), ("wrong", "a", 1), (1, "a", None)]),
).map(lambda fields: pack(list(fields)))
broken = st.sampled_from([b"", b"\xc1", b"\x01", b"\x92\x01", pack({"a": 1})])
operations = st.sampled_from(OPS)
key_lists = st.one_of(keys.map(lambda key: [key]), st.sampled_from([["wrong"], [], [1, 1], [None], [-1], [1.0]]))
bases = st.integers(0, 1)
raws = st.one_of(tuples, tuples, tuples, broken)

requests = st.one_of(
    st.builds(lambda raw: lambda: Request.insert(raw), raws),
    st.builds(lambda raw: lambda: Request.replace(raw), raws),
    st.builds(lambda *args: lambda: Request.update(*args), key_lists, operations, st.just(0), bases),
    st.builds(lambda *args: lambda: Request.upsert(*args), raws, operations, bases),
    st.builds(lambda key: lambda: Request.delete(key), key_lists),
)
control = st.sampled_from(
    ["begin", "begin", "commit", "rollback", "savepoint", "rollback_to", "written", "failed", "refuse", "read_only"]
)
programs = st.lists(st.one_of(requests, requests, requests, control), max_size=50)


class Way:
    """A world in which usual changes take the fast path, or in which none does."""

    def __init__(self, extra: tuple[Any, ...], *, is_fast: bool, is_sync: bool = False, quorum: int = 1) -> None:
        self.world = World(quorum=quorum)
        self.world.dml._planner._fast_allowed = is_fast
        self.world.dml.max_tuple_size = 60
        self.space = self.world.space("s", *extra, is_sync=is_sync)
        self.savepoint: Any = None
        self.commits: list[Any] = []

    def do(self, step: Any) -> Any:
        """Take a step; return its result, or the error's name and text."""
        try:
            return self._control(step) if isinstance(step, str) else self._write(step())
        except BoxError as error:
            return code(error), error.message

    def _write(self, request: Request) -> Any:
        result = self.world.write(self.space, request)
        if self.world.pending is not None:
            self.commits.append(self.world.pending)
        return result

    def _control(self, step: str) -> Any:
        world, ctx = self.world, self.world.ctx
        if step == "written":
            world.journal.write()
        elif step == "failed":
            world.journal.fail()
        elif step == "refuse":
            world.journal.refuses = not world.journal.refuses
        elif step == "read_only":
            world.dml.is_read_only = not world.dml.is_read_only
        elif step == "begin":
            world.txns.begin(ctx)
        elif step == "savepoint":
            self.savepoint = world.txns.savepoint(ctx)
        elif step == "rollback_to" and self.savepoint is not None:
            world.txns.rollback_to_savepoint(ctx, self.savepoint)
        elif step == "rollback":
            world.txns.rollback(ctx)
        elif step == "commit":
            world.commit()
            if world.pending is not None:
                self.commits.append(world.pending)
        return None

    def state(self) -> Any:
        """Return everything that is visible from outside, for comparisons."""
        world = self.world
        outcomes = [(commit.done, commit.error and commit.error.message, commit.result) for commit in self.commits]
        contents = [world.all(self.space, iid=iid) for iid in self.space.indexes]
        return world.journal.rows, len(world.journal.queue), world.dml.counters, contents, outcomes


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXTRAS), programs)
def test_both_ways_agree(extra: tuple[Any, ...], program: list[Any]) -> None:
    """The fast and the general path give equal results, errors, counters, journal rows, commits and indexes after each
    step.
    """

    async def body() -> None:
        fast, general = Way(extra, is_fast=True), Way(extra, is_fast=False)
        for step in program:
            assert fast.do(step) == general.do(step)
            assert fast.state() == general.state()
        plans = [way.world.dml._planner.plan(way.space).is_usual for way in (fast, general)]
        assert plans == [True, False]

    asyncio.run(body())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXTRAS), programs, st.integers(1, 2))
def test_both_ways_agree_on_synchronous_spaces(extra: tuple[Any, ...], program: list[Any], quorum: int) -> None:
    """The fast and the general path give equal results on synchronous spaces, and leave equal transactions in the
    limbo.
    """

    async def body() -> None:
        fast, general = (Way(extra, is_fast=is_fast, is_sync=True, quorum=quorum) for is_fast in (True, False))
        for step in program:
            assert fast.do(step) == general.do(step)
            assert fast.state() == general.state()
            assert [len(way.world.limbo) for way in (fast, general)] == [len(fast.world.limbo)] * 2
            await asyncio.sleep(0)
        plans = [way.world.dml._planner.plan(way.space).is_usual for way in (fast, general)]
        assert plans == [True, False]

    asyncio.run(body())


@pytest.mark.parametrize("extra", [(), (SK,)])
def test_failed_writes_of_every_kind_are_undone(extra: tuple[Any, ...]) -> None:
    """Changes that the log refuses, at once or later, leave no trace."""

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


@pytest.mark.parametrize("count", [1, 1500])
def test_a_void_journal_counts_the_rows_of_a_transaction_on_the_fast_path(count: int) -> None:
    """With `wal_mode` none a fast transaction makes no rows, only counts them; a statement of the general path makes
    them all.
    """

    async def body() -> None:
        world = World()
        space, other = world.space(), world.space("local", space_id=513, group_id=1)
        world.insert(space, 0, "a")
        world.journal.write()
        world.journal.is_void, passed = True, []
        world.journal.pass_rows = passed.append  # type: ignore[method-assign]

        def change() -> None:
            world.txns.begin(world.ctx)
            for number in range(1, count + 1):
                world.insert(space, number, "b")
            world.write(space, Request.update([0], [["=", 2, "c"]]))
            world.write(space, Request.delete([1]))

        change()
        savepoint = world.txns.savepoint(world.ctx)
        world.replace(space, 7, "d")
        world.txns.rollback_to_savepoint(world.ctx, savepoint)
        world.commit()
        assert (passed, world.journal.queue, world.pending) == ([count + 2], [], None)
        before = world.all(space)
        assert before[:2] == [[0, "c"], [2, "b"]][: len(before)]
        for number in range(1, count + 1):
            world.write(space, Request.delete([number]))
        del passed[:]
        change()
        world.replace(other, 1)
        world.commit()
        assert passed == []
        (entry,) = world.journal.queue
        assert [row.type for row in entry.rows if not row.group_id][:count] == [INSERT] * count
        assert len(entry.rows) == count + 4  # a NOP closes the transaction for replicas
        world.journal.write()
        assert world.all(space) == before

        def refuse(count: int) -> None:
            raise client_error(ErrorCode.WAL_IO)

        world.journal.pass_rows = refuse  # type: ignore[method-assign]
        world.txns.begin(world.ctx)
        world.replace(space, 0, "e")
        with pytest.raises(BoxError):
            world.commit()
        assert world.all(space) == before

    asyncio.run(body())


def test_a_void_journal_gets_no_rows() -> None:
    """With `wal_mode` none a write is only counted, and a refusal undoes it."""

    async def body() -> None:
        world = World()
        space = world.space()
        passed = 0

        def pass_rows(count: int) -> None:
            nonlocal passed
            if world.journal.refuses:
                raise client_error(ErrorCode.WAL_IO)
            passed += count

        world.journal.is_void = True
        world.journal.pass_rows = pass_rows  # type: ignore[method-assign]
        world.replace(space, 1, "a")
        assert unpack(world.write(space, Request.update([1], [["=", 2, "b"]])) or b"") == [1, "b"]
        assert (passed, world.journal.queue, world.pending) == (2, [], None)
        world.journal.refuses = True
        with pytest.raises(BoxError):
            world.replace(space, 1, "c")
        assert world.get(space, 1) == [1, "b"]

    asyncio.run(body())
