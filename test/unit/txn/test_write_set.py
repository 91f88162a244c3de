"""Large MVCC transactions are compared with others as a whole, with the same result as change by change.

Their ends take no long turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.index import IteratorType
from box.index.ordered import OrderedIndex
from box.session import Context
from box.txn import dml, following, lifecycle, mvcc, slots
from box.txn.mvcc import MvccStorage
from box.txn.transaction import TxnState
from box.wire.change import Request
from test.unit.txn._world import World, code

UNIQUE = ("unique", "TREE", True, [(2, "unsigned")])
LOOSE = ("loose", "TREE", False, [(3, "unsigned")])
small = st.integers(0, 7)
reads = st.tuples(st.sampled_from(["get", "select", "first"]), st.integers(0, 2), small, st.integers(0, 6))
writes = st.one_of(
    st.tuples(st.just("replace"), small, small, small),
    st.tuples(st.just("delete"), small, small, small),
)
ITERATORS = tuple(IteratorType[name] for name in ("EQ", "REQ", "LT", "LE", "GE", "GT", "ALL"))


def _read(world: World, space: Any, ctx: Any, read: tuple[str, int, int, int]) -> None:
    kind, iid, key, number = read
    if kind == "get":
        world.get(space, key, ctx=ctx, iid=iid % 2)
        return
    iterator = ITERATORS[number]
    whole = [] if iterator == IteratorType.ALL else [key]
    limit = 1 if kind == "first" else 100
    world.dml.reads.select(ctx, space, iid, iterator, 0, limit, whole)


def _write(world: World, space: Any, ctx: Any, write: tuple[str, int, int, int]) -> None:
    kind, *fields = write
    try:
        if kind == "replace":
            world.replace(space, *fields, ctx=ctx)
        else:
            world.write(space, Request.delete([fields[0]]), ctx)
    except BoxError as error:
        if code(error) != "TUPLE_FOUND":
            raise


async def _outcome(
    before: list[Any], read: list[Any], written: list[Any], reader_writes: bool, is_large: bool
) -> tuple[TxnState, list[Any]]:
    """Return what happens to a reader when a transaction commits, and what it sees then."""
    world = World(mvcc=True)
    world.journal.is_quick = True
    space = world.space("s", UNIQUE, LOOSE)
    for write in before:
        _write(world, space, None, write)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dml, "_GATHERED_AT_ONCE", 3 if is_large else 10**9)
        patch.setattr(slots, "MANY", 1 if is_large else 10**9)
        patch.setattr(slots, "SLICE", 1)
        writer, reader = world.context(), world.context()
        world.txns.begin(writer)
        txn = world.txns.begin(reader)
        for action in read:
            _read(world, space, reader, action)
        if reader_writes:
            world.replace(space, 100, 100, 100, ctx=reader)
        for write in written:
            _write(world, space, writer, write)
        world.commit(writer)
        state = txn.state
        seen = [] if state is TxnState.CONFLICTED else world.all(space, reader)
        world.txns.rollback(reader)
        await world.txns.work.wait()
    return state, [*seen, *world.all(space)]


@settings(max_examples=80, deadline=None)
@given(st.lists(writes, max_size=6), st.lists(reads, max_size=3), st.lists(writes, max_size=12), st.booleans())
def test_a_large_transaction_is_to_readers_what_a_small_one_is(
    before: list[Any], read: list[Any], written: list[Any], reader_writes: bool
) -> None:
    """A reader goes on, gets a read view or conflicts with a large transaction as with a small one."""

    async def body() -> None:
        assert await _outcome(before, read, written, reader_writes, True) == await _outcome(
            before, read, written, reader_writes, False
        )

    asyncio.run(body())


@pytest.mark.parametrize(
    ("read", "is_hit"),
    [
        (("get", 0, 1, 0), True),
        (("get", 0, 5, 0), True),
        (("get", 0, 6, 0), False),
        (("get", 1, 5, 0), True),
        (("select", 2, 5, 0), True),
        (("select", 2, 6, 0), False),
        (("select", 0, 6, 5), False),
        (("select", 0, 2, 4), True),
        (("first", 0, 0, 4), False),
    ],
)
def test_what_a_reader_has_read_decides(read: tuple[str, int, int, int], is_hit: bool) -> None:
    """True if a reader conflicts depends on the tuples, keys and ranges that it has read, in any index."""
    before = [("replace", 0, 0, 0), ("replace", 1, 1, 1)]
    written = [("replace", 1, 1, 2), ("replace", 4, 4, 4), ("replace", 5, 5, 5), ("delete", 4, 0, 0)]
    state, _ = asyncio.run(_outcome(before, [read], written, False, True))
    assert state is (TxnState.IN_READ_VIEW if is_hit else TxnState.INPROGRESS)


@pytest.mark.parametrize("ending", ["commit", "rollback", "failure"])
def test_the_end_of_a_large_transaction_leaves_its_slots_for_later(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a large transaction is visible at once, and its versions are removed later, a slice a turn."""
    monkeypatch.setattr(slots, "MANY", 10)
    monkeypatch.setattr(slots, "SLICE", 4)

    async def body() -> None:
        world = World(mvcc=True)
        space = world.space("s", UNIQUE)
        storage = world.storage
        assert isinstance(storage, MvccStorage)
        world.txns.begin(world.ctx)
        for number in range(20):
            world.replace(space, number, number)
        if ending == "rollback":
            world.txns.rollback(world.ctx)
        else:
            world.commit()
            if ending == "commit":
                world.journal.write()
            else:
                world.journal.fail()
        committed = [[number, number] for number in range(20)] if ending == "commit" else []
        turns, left = 0, 40
        while left:
            assert world.all(space) == world.all(space, iid=1) == committed
            assert world.get(space, 3) == (committed[3] if committed else None)
            await asyncio.sleep(0)
            slots = sum(map(len, storage._slots.by_index.values()))
            assert left - slots <= 8
            left, turns = slots, turns + 1
        assert turns >= 5
        assert world.all(space) == committed
        assert len(space.index(0)) == len(committed)

    asyncio.run(body())


def test_a_key_of_a_transaction_that_was_rolled_back_is_free_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of a large transaction that was rolled back are free at once, before its versions are removed."""
    monkeypatch.setattr(slots, "MANY", 2)
    monkeypatch.setattr(slots, "SLICE", 1)

    async def body() -> None:
        world = World(mvcc=True)
        world.journal.is_quick = True
        space = world.space("s", UNIQUE)
        world.insert(space, 0, 0)
        txn = world.txns.begin(world.ctx)
        for number in range(6):
            world.replace(space, number, 10 + number)
        world.txns.rollback(world.ctx)
        assert txn.state is TxnState.ABORTED
        other = world.context()
        world.txns.begin(other)
        assert world.get(space, 0, ctx=other) == [0, 0]
        world.insert(space, 5, 15, ctx=other)
        world.insert(space, 4, 16)
        assert world.all(space) == [[0, 0], [4, 16]]
        await asyncio.sleep(0)
        world.commit(other)
        assert world.all(space) == [[0, 0], [4, 16], [5, 15]]
        await world.txns.work.wait()
        assert world.all(space) == [[0, 0], [4, 16], [5, 15]]
        assert world.all(space, iid=1) == [[0, 0], [5, 15], [4, 16]]
        assert [space.index(0).find(key) for key in range(4)].count(None) == 3

    asyncio.run(body())


def _calls(turn: Callable[[], object]) -> int:
    """Count the calls of Python and C functions in a turn."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        turn()
    finally:
        sys.setprofile(None)
    return count


async def _turn_of_an_end(beside: str, ending: str, count: int) -> int:
    """Return the calls of the longest turn at the end of a transaction of `count` statements."""
    world = World(mvcc=True)
    space = world.space("s", *([] if ending == "second commit, one index" else [UNIQUE]))
    for number in range(count // 2):
        world.insert(space, number, number)
    world.journal.write()
    await world.txns.work.wait()
    view = world.storage.open_view(space)
    if beside != "a view":
        view.close()
    world.txns.begin(world.ctx)
    for number in range(count):
        world.replace(space, number, number + 10**6)
    reader, rival = world.context(), world.context()
    if beside == "a rival":
        world.txns.begin(rival)
        for number in range(count // 2):
            world.write(space, Request.update([number], [["=", 2, number + 2 * 10**6]]), rival)
    elif beside == "a blind rival":
        world.txns.begin(rival)
        for number in range(count // 2):
            world.replace(space, number, number + 2 * 10**6, ctx=rival)

    def read() -> None:
        if beside == "a reader":
            world.txns.begin(reader)
            _read(world, space, reader, ("first", 0, 3, 4))
            _read(world, space, reader, ("get", 0, 10**9, 0))

    if ending == "commit":
        read()
    if ending.startswith("second commit"):
        return await _turn_of_a_second_commit(world, space, rival, count // 2)
    if ending == "rollback":
        return _calls(lambda: world.txns.rollback(rival))
    calls = _calls(world.commit)
    (entry,) = world.journal.queue
    if ending == "failure":
        read()
        list(world.txns.prepare_rollback([entry]))
        entry.error = client_error(ErrorCode.WAL_IO)
    calls = max(calls, _calls(lambda: entry.on_complete(entry)))
    seen = view.fetch(count) or world.all(space)
    assert len(seen) == (count if beside != "a view" and ending == "commit" else count // 2)
    assert rival.txn is None or rival.txn.state is (TxnState.CONFLICTED if beside == "a rival" else TxnState.INPROGRESS)
    if reader.txn is not None:
        assert reader.txn.state is (TxnState.IN_READ_VIEW if ending == "commit" else TxnState.CONFLICTED)
    return calls


async def _turn_of_a_second_commit(world: World, space: Any, rival: Context, count: int) -> int:
    """Return the calls of a turn that commits a transaction after another one of the same keys, with one reader."""
    world.commit()
    world.journal.write()
    reader = world.txns.begin(other := world.context())
    assert world.get(space, count - 1, ctx=other) == [count - 1, count - 1 + 10**6]
    txn = rival.txn
    assert txn is not None
    calls = _calls(lambda: world.txns.commit(rival))
    while not txn.psn:
        assert world.get(space, 0) == [0, 10**6]
        calls = max(calls, await _calls_of_a_turn())
    assert reader.state is TxnState.IN_READ_VIEW
    assert world.get(space, count - 1, ctx=other) == [count - 1, count - 1 + 10**6]
    world.journal.write()
    assert [row[1] for row in world.all(space)[:count]] == [number + 2 * 10**6 for number in range(min(count, 1000))]
    return calls


async def _calls_of_a_turn() -> int:
    """Return the calls of a turn of the loop, without those of the measurement."""
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        await asyncio.sleep(0)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("beside", "ending"),
    [
        *product(["a view", "a reader", "a rival", "a blind rival"], ["commit", "failure"]),
        *product(["a rival", "a blind rival"], ["rollback"]),
        *product(["a blind rival"], ["second commit", "second commit, one index"]),
    ],
)
def test_the_end_of_a_large_transaction_does_not_look_at_all_of_it(
    beside: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a large transaction does not visit all its changes, also with readers and writers of the same keys."""
    monkeypatch.setattr(dml, "_GATHERED_AT_ONCE", 16)
    monkeypatch.setattr(lifecycle, "UNDONE_STATEMENTS", 32)
    monkeypatch.setattr(lifecycle, "_MANY_STATEMENTS", 32)
    monkeypatch.setattr(slots, "MANY", 16)
    monkeypatch.setattr(slots, "SLICE", 16)
    few, many = (asyncio.run(_turn_of_an_end(beside, ending, count)) for count in (64, 960))
    assert many < 2 * few


def test_what_was_gathered_stays_when_later_statements_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Savepoints do not make a large transaction gather its changes again from the beginning."""
    monkeypatch.setattr(dml, "_GATHERED_AT_ONCE", 4)

    async def body() -> None:
        world = World(mvcc=True)
        world.journal.is_quick = True
        space = world.space("s", UNIQUE)
        storage = world.storage
        assert isinstance(storage, MvccStorage)
        txn = world.txns.begin(world.ctx)
        world.replace(space, 0, 0)
        first = world.txns.savepoint(world.ctx)
        for number in range(1, 10):
            world.replace(space, number, number)
        second = world.txns.savepoint(world.ctx)
        world.replace(space, 20, 20)
        world.txns.rollback_to_savepoint(world.ctx, second)
        assert storage._written[txn].gathered == 8
        world.txns.rollback_to_savepoint(world.ctx, first)
        assert storage._written[txn].gathered == 0
        world.commit()
        assert world.all(space) == [[0, 0]]

    asyncio.run(body())


@settings(max_examples=40, deadline=None)
@given(st.lists(writes, max_size=6), st.lists(st.lists(writes, max_size=6), max_size=4), st.integers(0, 4))
def test_listeners_of_an_index_hear_what_counts(before: list[Any], programs: list[list[Any]], kept: int) -> None:
    """Listeners of an index get all changes of prepared transactions, and their undo if the write fails."""

    async def body() -> None:
        world = World(mvcc=True)
        space = world.space("s")
        for write in before:
            _write(world, space, None, write)
        world.journal.write()
        await world.txns.work.wait()
        index = space.index(0)
        assert isinstance(index, OrderedIndex)
        found = {fields[0]: fields for fields in world.all(space)}
        heard: list[Iterator[tuple[bytes | None, bytes | None]]] = []
        index.followers.append(heard.append)
        contexts = [world.context() for _ in programs]
        for ctx, program in zip(contexts, programs, strict=True):
            world.txns.begin(ctx)
            for write in program:
                _write(world, space, ctx, write)
        for ctx in contexts:
            with suppress(BoxError):
                world.txns.commit(ctx)
        await world.txns.commits.wait()
        world.journal.fail(kept)
        world.journal.write()
        await world.txns.work.wait()
        for old, new in chain.from_iterable(heard):
            if old is not None:
                fields = unpack(old)
                assert found.pop(fields[0]) == fields
            if new is not None:
                fields = unpack(new)
                assert found.setdefault(fields[0], fields) == fields
        assert sorted(found.values()) == world.all(space)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "MANY", 3)
        patch.setattr(following, "_MANY", 3)
        patch.setattr(mvcc, "_MANY_COMPARED", 2)
        asyncio.run(body())
