"""Statements of transactions with versions give the same results on the fast path, in place and on the general path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError
from box.session import Context
from box.txn.mvcc import MvccStorage
from box.wire.change import Request

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "unsigned")])
LOOSE = ("loose", "TREE", False, [(3, "unsigned")])
HASHED = ("hashed", "HASH", True, [(2, "unsigned")])
MANY = ("many", "TREE", True, [(4, "unsigned", False, "[*]")])
EXTRAS: tuple[tuple[Any, ...], ...] = ((), (SK,), (LOOSE, SK), (HASHED,), (MANY, LOOSE))

small = st.integers(0, 3)
rows = st.builds(lambda *row: pack([*row]), small, small, small, st.lists(small, max_size=2))
operations = st.sampled_from(
    ([["=", 2, 1]], [["=", 2, 2], ["+", 3, 1]], [["-", 3, 9]], [["=", 1, 3]], [["!", 4, [3]]], [["=", 4, 7]], [])
)
requests = st.one_of(
    st.builds(lambda raw: lambda: Request.insert(raw), rows),
    st.builds(lambda raw: lambda: Request.replace(raw), rows),
    st.builds(lambda raw: lambda: Request.replace(raw), rows),
    st.builds(lambda key, ops: lambda: Request.update([key], ops, 0, 1), small, operations),
    st.builds(lambda raw, ops: lambda: Request.upsert(raw, ops, 1), rows, operations),
    st.builds(lambda key: lambda: Request.delete([key]), small),
)
control = st.sampled_from(
    ["begin", "begin", "commit", "rollback", "savepoint", "rollback_to", "written", "failed", "get", "all", "last"]
)
programs = st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 1, 2]), st.one_of(requests, requests, control)), max_size=40)


class Way:
    """A world with versions in which changes take one of the ways; `lone`: transactions begin as lone ones."""

    def __init__(self, extra: tuple[Any, ...], *, is_fast: bool, lone: bool = False) -> None:
        self.world = World(mvcc=True)
        self.world.dml._planner._fast_allowed = is_fast
        self.space = self.world.space("s", *extra)
        self.players = [self.world.context() for _ in range(3)]
        self.savepoints: dict[Context, Any] = {}
        self.commits: list[Any] = []
        self.lone = lone
        self.shared = 0

    def do(self, player: int, step: Any) -> Any:
        """Take a step of a player; return its result, or the error's name and text."""
        for other in self.players:
            if other is not self.players[player]:
                self.share(other)
        try:
            return self._take(self.players[player], step)
        except BoxError as error:
            return code(error), error.message

    def share(self, ctx: Context) -> None:
        if ctx.txn is not None and ctx.txn.is_lone:
            self.shared += 1
            self.world.txns.share(ctx.txn)

    def _take(self, ctx: Context, step: Any) -> Any:
        world = self.world
        if not isinstance(step, str):
            result = world.write(self.space, step(), ctx)
            if world.pending is not None:
                self.commits.append(world.pending)
            return result
        match step:
            case "get":
                return [world.get(self.space, key, ctx=ctx) for key in range(4)]
            case "all":
                return [world.all(self.space, ctx, iid) for iid, index in self.space.indexes.items()]
            case "last":
                return world.dml.reads.max(ctx, self.space, 0, [])
            case "begin":
                (world.txns.begin_lone if self.lone else world.txns.begin)(ctx)
            case "savepoint":
                self.savepoints[ctx] = world.txns.savepoint(ctx)
            case "rollback_to" if ctx in self.savepoints:
                world.txns.rollback_to_savepoint(ctx, self.savepoints[ctx])
            case "rollback":
                world.txns.rollback(ctx)
            case "commit":
                self.share(ctx)
                world.commit(ctx)
                if world.pending is not None:
                    self.commits.append(world.pending)
            case "written":
                self.share_all()
                world.journal.write()
            case "failed":
                self.share_all()
                world.journal.fail()
        return None

    def share_all(self) -> None:
        for ctx in self.players:
            self.share(ctx)

    def state(self) -> Any:
        """Return everything that is visible from outside, for comparisons."""
        world = self.world
        outcomes = [(commit.done, commit.error and commit.error.message, commit.result) for commit in self.commits]
        states = [ctx.txn and ctx.txn.state for ctx in self.players]
        seen: Any = None
        if not any(ctx.txn is not None and ctx.txn.is_lone for ctx in self.players):
            seen = [world.all(self.space, None, iid) for iid in self.space.indexes]
        return world.journal.rows, len(world.journal.queue), world.dml.counters[2:], outcomes, states, seen

    def end(self) -> None:
        for ctx in self.players:
            self.share(ctx)
            self.world.txns.rollback(ctx)
        self.world.journal.write()


@pytest.mark.parametrize("extra", EXTRAS, ids=["pk", "unique", "two", "hash", "multikey"])
@settings(max_examples=60, deadline=None)
@given(program=programs)
def test_all_ways_agree(extra: tuple[Any, ...], program: list[tuple[int, Any]]) -> None:
    """Results, errors, conflicts, journal rows and indexes are equal after each step, and no version stays."""

    async def body() -> None:
        general, fast, lone = (Way(extra, is_fast=False), Way(extra, is_fast=True), Way(extra, is_fast=True, lone=True))
        for player, step in program:
            expected = general.do(player, step)
            assert fast.do(player, step) == expected
            assert lone.do(player, step) == expected
            *others, seen = general.state()
            assert fast.state() == (*others, seen)
            *lone_others, lone_seen = lone.state()
            assert lone_others == others
            assert lone_seen is None or lone_seen == seen
        for way in (general, fast, lone):
            way.end()
            storage = way.world.storage
            assert isinstance(storage, MvccStorage)
            left = (storage._slots.by_index, storage._readers.by_txn, storage._writes, storage._written)
            assert left == ({}, {}, {}, {})
        memory = [way.world.schema.memory.room for way in (general, fast, lone)]
        assert memory == memory[:1] * 3

    asyncio.run(body())


def _changes(count: int) -> list[Callable[[], Request]]:
    return [lambda number=number: Request.replace(pack([number, number, 0, []])) for number in range(count)]  # type: ignore[misc]


def test_a_lone_transaction_makes_no_versions_until_another_has_its_turn() -> None:
    """Changes are made in place; sharing hides them from others, and a rollback restores what was there."""

    async def body() -> None:
        way = Way((SK,), is_fast=True, lone=True)
        storage = way.world.storage
        assert isinstance(storage, MvccStorage)
        way.do(1, _changes(1)[0])
        way.world.journal.write()
        way.do(0, "begin")
        for change in _changes(5):
            way.do(0, change)
        assert not storage._slots.by_index
        assert way.do(1, "get")[1] is None  # another player's turn: the changes have got versions
        assert way.shared == 1
        assert len(storage._slots.by_index) == 2
        assert way.do(0, "get")[1] == [1, 1, 0, []]
        way.do(0, "rollback")
        assert way.do(0, "get") == [[0, 0, 0, []], None, None, None]

    asyncio.run(body())


def test_a_long_lone_transaction_gets_versions_by_itself() -> None:
    """The work that sharing takes has a bound."""

    async def body() -> None:
        way = Way((), is_fast=True, lone=True)
        way.do(0, "begin")
        for change in _changes(1000):
            way.do(0, change)
        txn = way.players[0].txn
        assert txn is not None
        assert not txn.is_lone
        way.do(0, "commit")
        way.world.journal.write()
        assert way.do(1, "last") == pack([999, 999, 0, []])

    asyncio.run(body())


def test_a_transaction_is_not_lone_beside_another_one() -> None:
    async def body() -> None:
        way = Way((), is_fast=True, lone=True)
        way.do(0, "begin")
        way.do(0, _changes(1)[0])
        way.do(1, "begin")
        assert [ctx.txn is not None and ctx.txn.is_lone for ctx in way.players] == [False, False, False]

    asyncio.run(body())


def test_a_batch_by_itself_makes_no_versions_if_the_log_takes_it_at_once() -> None:
    async def body() -> None:
        way = Way((SK,), is_fast=True)
        world, storage = way.world, way.world.storage
        assert isinstance(storage, MvccStorage)
        world.journal.is_void, world.journal.pass_rows = True, lambda count: None  # type: ignore[method-assign]
        raws = [pack([number, number, 0, []]) for number in range(2000)]
        for is_void, made in ((True, 0), (False, 2)):
            world.journal.is_void = is_void
            ctx = world.context()
            world.txns.begin(ctx)
            world.dml.store_all(ctx, way.space, 3, raws, commits=True)
            assert len(storage._slots.by_index) == made
            world.txns.commit(ctx)
            assert len(world.all(way.space)) == 1000
            assert world.dml.reads.len(ctx, way.space) == 2000
        world.journal.is_void = True
        ctx = world.context()
        world.txns.begin(ctx)
        with pytest.raises(BoxError, match="Duplicate key"):
            world.dml.store_all(ctx, way.space, 3, [pack([1, 7777, 0, []]), pack([2, 5, 0, []])], commits=True)
        world.txns.rollback(ctx)
        assert world.get(way.space, 1) == [1, 1, 0, []]

    asyncio.run(body())


def test_a_change_by_itself_makes_no_versions_without_a_log() -> None:
    """In a node with MVCC and without a log, a `replace` in Lua took ten times as long as without MVCC."""

    async def body() -> None:
        way = Way((SK,), is_fast=True)
        world, storage = way.world, way.world.storage
        assert isinstance(storage, MvccStorage)
        world.journal.is_void, world.journal.pass_rows = True, lambda count: None  # type: ignore[method-assign]
        for number in range(3):
            world.dml.store(world.context(), way.space, 3, pack([number, number, 0, []]))
        assert not storage._slots.by_index
        reader = world.context()
        world.txns.begin(reader)
        assert world.dml.reads.get(reader, way.space, 0, [1]) == pack([1, 1, 0, []])
        world.dml.store(world.context(), way.space, 3, pack([1, 10, 0, []]))
        assert world.dml.reads.get(reader, way.space, 0, [1]) == pack([1, 1, 0, []]), "the reader has its view"

    asyncio.run(body())
