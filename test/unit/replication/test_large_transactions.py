"""Large transactions of another instance are executed in slices, with the result of an execution at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box import Node
from box.data.codec import pack, unpack
from box.errors import ErrorCode, client_error
from box.index import IteratorType
from box.index.ordered import OrderedIndex
from box.replication import row_executor
from box.replication.row_executor import RowExecutor
from box.txn import laying_over, staged
from box.wire.change import Request
from box.wire.row import Row
from test.unit.replication.pair import (
    INDEXED,
    MISSING,
    ORIGIN,
    PLAIN,
    SYNCHRONOUS,
    TRIGGERED,
    Pair,
    Replica,
    changes,
    decisions,
    go_through,
    transaction,
)

DEADLINE = 20.0
steps = st.lists(
    st.one_of(
        st.lists(changes, min_size=1, max_size=12),
        st.lists(changes.filter(lambda change: change[1] not in (TRIGGERED, MISSING)), min_size=1, max_size=12),
        st.sampled_from(["written", "failed", "refuse"]),
        st.tuples(st.just("decide"), decisions),
    ),
    max_size=12,
)


@contextmanager
def small_slices(rows: int = 1, keys: int = 1) -> Iterator[None]:
    """Make every transaction count as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_executor, "STAGED_ROWS", 1)
        patch.setattr(row_executor, "_SLICE_ROWS", rows)
        patch.setattr(staged, "_SLICE_ROWS", rows)
        patch.setattr(laying_over, "MERGED_KEYS", keys)
        yield


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans(), st.integers(1, 4), st.booleans())
def test_slices_have_the_outcome_of_one_go(program: list[Any], skips: bool, slice_rows: int, mvcc: bool) -> None:
    """Execution in slices and at once give equal indexes, log rows, counters, triggers, limbo and errors.

    This holds after each step, also when synchronous transactions are confirmed or rolled back, when the log fails or
    refuses, and with MVCC.
    """

    async def apply(pair: Pair, step: Any) -> None:
        with small_slices(slice_rows):
            found = await pair.one.apply(*transaction(step, pair.lsn))
        assert found == await pair.other.apply(*transaction(step, pair.lsn))
        pair.lsn += len(step)

    go_through(program, skips, apply, mvcc=mvcc)


class History:
    """The events in their order, with what readers saw at each."""

    def __init__(self, replica: Replica, patch: pytest.MonkeyPatch) -> None:
        self.replica = replica
        self.events: list[tuple[str, Any]] = []
        publish = RowExecutor._publish

        def publishing(sink: RowExecutor, ctx: Any, transaction: Any) -> None:
            publish(sink, ctx, transaction)
            self.events.append(("transaction", None))

        patch.setattr(RowExecutor, "_publish", publishing)

    def write(self, request: Request, space_id: int) -> None:
        world = self.replica.world
        self.events.append(("write", (request.type, request.body(space_id))))
        world.write(world.schema.space(space_id), request, world.context())

    def read(self) -> None:
        world = self.replica.world
        self.events.append(
            ("read", [world.all(space, iid=iid) for space in self.replica.spaces for iid in space.indexes])
        )


_writes = st.tuples(st.sampled_from(["replace", "delete"]), st.sampled_from([PLAIN, INDEXED]), st.integers(0, 9))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([3, 3, 5]), st.sampled_from([PLAIN, INDEXED]), st.integers(0, 9)), min_size=2),
    st.lists(st.tuples(st.integers(0, 2), st.one_of(_writes, st.none())), max_size=20),
    st.integers(1, 3),
)
def test_others_see_it_whole_or_not_at_all(rows: list[Any], others: list[Any], size: int) -> None:
    """Readers and writers between the slices see a history in which the whole transaction is one event."""

    def fields(number: int, mark: str) -> tuple[Any, ...]:
        return number, f"{mark}{number}", number

    async def body(patch: pytest.MonkeyPatch) -> None:
        replica, model = Replica(skips_conflicts=False), Replica(skips_conflicts=False)
        history = History(replica, patch)
        changed = [(kind, space, fields(number, "theirs"), [], 0) for kind, space, number in rows]
        task = asyncio.ensure_future(replica.apply(*transaction(changed, 1)))
        for turns, write in others:
            for _ in range(turns):
                await asyncio.sleep(0)
            if write is None:
                history.read()
            else:
                kind, space, number = write
                raw = pack(list(fields(number, "ours")))
                history.write(Request.replace(raw) if kind == "replace" else Request.delete([number]), space)
        assert await task is None
        await replica.world.txns.work.wait()
        history.read()
        if ("transaction", None) not in history.events:
            return  # somebody was in its way: it was executed in one go
        for event, details in history.events:
            if event == "transaction":
                assert await model.apply(*transaction(changed, 1)) is None
            elif event == "write":
                world = model.world
                kind, raw = details
                txn_row = Row(kind, body=raw)
                world.txns.begin(world.ctx)
                world.dml.write_row(world.ctx, txn_row)
                world.txns.commit(world.ctx)
            else:
                seen = [model.world.all(space, iid=iid) for space in model.spaces for iid in space.indexes]
                assert details == seen

    with small_slices(size, size), pytest.MonkeyPatch.context() as patch:
        asyncio.run(body(patch))


def _replaces(count: int, space: int = PLAIN, first: int = 0) -> list[Row]:
    return transaction([(3, space, (first + number, f"n{number}", number), [], 0) for number in range(count)], 1)


def _contents(space: Any, iid: int = 0) -> list[Any]:
    """Read a space by a scan, which does not merge pending slices."""
    return [unpack(raw) for raw in space.index(iid).scan(IteratorType.ALL, [])]


def _run(body: Callable[[Replica], Any]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE):
            await body(Replica(skips_conflicts=False))

    asyncio.run(main())


@pytest.mark.parametrize("space", [PLAIN, INDEXED, SYNCHRONOUS])
def test_others_have_their_turns(space: int) -> None:
    """With 20,000 rows no turn of the loop executes, merges or frees more than one slice."""

    async def body(replica: Replica) -> None:
        world, turns, seen = replica.world, 0, set()

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1
                seen.add(len(world.schema.space(space).index(0)))

        counter = asyncio.ensure_future(count())
        assert await replica.apply(*_replaces(20000, space)) is None
        executed = turns
        assert executed >= 20000 // staged._SLICE_ROWS - 1
        world.journal.write()
        await world.txns.work.wait()
        assert turns - executed >= 20000 // laying_over.MERGED_KEYS - 1
        counter.cancel()
        assert seen == {0, 20000}
        assert len(world.journal.entries) == 1

    _run(body)


def test_with_versions_the_transaction_is_open_meanwhile() -> None:
    """With MVCC others run between the slices and see the transaction completely or not at all."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False, mvcc=True)
        world, turns, seen = replica.world, 0, set()
        space = world.schema.space(INDEXED)

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1
                seen.add(len(world.all(space)))

        counter = asyncio.ensure_future(count())
        assert await replica.apply(*_replaces(900, INDEXED)) is None
        assert turns >= 900 // row_executor._SLICE_ROWS
        world.journal.write()
        await world.txns.work.wait()
        await asyncio.sleep(0)
        counter.cancel()
        assert seen == {0, 900}
        assert len(world.journal.entries) == 1
        assert world.dml.counters[3] == 900

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_executor, "STAGED_ROWS", 100)
        asyncio.run(asyncio.wait_for(body(), DEADLINE))


@pytest.mark.parametrize("way", ["conflict", "cancel", "failure"])
def test_an_open_transaction_with_versions_can_be_given_up(way: str) -> None:
    """An open transaction with MVCC is rolled back if another one changes what it has read, its applier stops or the
    log fails.
    """

    async def body() -> None:
        replica = Replica(skips_conflicts=False, mvcc=True)
        world = replica.world
        space = world.schema.space(INDEXED)
        world.write(space, Request.replace(pack([0, "before", 1])))
        if way == "conflict":
            world.journal.write()
        changed = [(4, INDEXED, (0,), [["=", 3, 7]], 0)] if way == "conflict" else []
        rows = transaction([*changed, *[(3, INDEXED, (n, f"n{n}", n), [], 0) for n in range(1, 300)]], 1)
        task = asyncio.ensure_future(replica.apply(*rows))
        for _ in range(3):
            await asyncio.sleep(0)
        if way == "conflict":
            world.write(space, Request.replace(pack([0, "ours", 1])), world.context())
        elif way == "cancel":
            task.cancel()
        else:
            replica.sink._fail(client_error(ErrorCode.WAL_IO))
            world.journal.fail()
        await asyncio.wait([task])
        world.journal.write()
        await world.txns.work.wait()
        found = _contents_with_versions(replica, INDEXED)
        if way == "conflict":
            assert task.result() is None
            assert found == [[0, "ours", 7], *[[n, f"n{n}", n] for n in range(1, 300)]]
            assert world.dml.counters[4] == 1
        elif way == "cancel":
            assert task.cancelled()
            assert found == [[0, "before", 1]]
        else:
            assert "WAL_IO" in (task.result() or "")
            assert found == []
        assert world.ctx.txn is None
        assert not replica.sink._executor._large.locked()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_executor, "STAGED_ROWS", 100)
        asyncio.run(asyncio.wait_for(body(), DEADLINE))


def _contents_with_versions(replica: Replica, space_id: int) -> list[Any]:
    world = replica.world
    return world.all(world.schema.space(space_id))


def test_a_failure_of_the_log_takes_back_all() -> None:
    """A failure of the log while changes are merged undoes them all, and later changes of others."""

    async def body(replica: Replica) -> None:
        world = replica.world
        space = world.schema.space(INDEXED)
        for number in range(0, 3000, 2):
            world.write(space, Request.replace(pack([number, f"old{number}", 1])))
        world.journal.write()
        before = [_contents(space, iid) for iid in space.indexes]
        assert await replica.apply(*_replaces(3000, INDEXED)) is None
        for _ in range(5):
            await asyncio.sleep(0)
        index = space.index(0)
        assert isinstance(index, OrderedIndex)
        assert index.is_layered
        world.write(space, Request.replace(pack([2999, "ours", 7])))
        world.write(space, Request.delete([0]))
        world.journal.fail()
        assert [_contents(space, iid) for iid in space.indexes] == before
        await world.txns.work.wait()
        assert [_contents(space, iid) for iid in space.indexes] == before
        assert replica.failures == [ErrorCode.WAL_IO]
        assert replica.sink.applied[ORIGIN] == 0

    _run(body)


def test_a_failure_before_it_stops_it() -> None:
    """If a row before a large transaction fails, it is not executed: it must not follow a gap."""

    async def body(replica: Replica) -> None:
        world = replica.world
        first = Row(3, ORIGIN, 1, tsn=1, body=Request.replace(pack([1, "a", 1])).body(PLAIN))
        assert await replica.apply(first) is None
        rows = _replaces(3000)
        for row in rows:
            row.lsn += 1
            row.tsn += 1
        task = asyncio.ensure_future(replica.apply(*rows))
        for _ in range(5):
            await asyncio.sleep(0)
        world.journal.fail()
        assert "WAL_IO" in (await task or "")
        assert _contents(world.schema.space(PLAIN)) == []
        assert not world.journal.queue

    _run(body)


def test_an_applier_that_stops_leaves_nothing() -> None:
    async def body(replica: Replica) -> None:
        world = replica.world
        task = asyncio.ensure_future(replica.apply(*_replaces(3000)))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        index = world.schema.space(PLAIN).index(0)
        assert isinstance(index, OrderedIndex)
        assert (len(index), index.is_layered, index.listeners) == (0, False, [])
        assert await replica.apply(*_replaces(3000)) is None  # no lock is left behind
        assert len(index) == 3000

    _run(body)


@pytest.mark.parametrize("change", ["replace", "unique", "trigger", "plan"])
def test_a_conflicting_change_makes_the_rest_execute_at_once(change: str) -> None:
    """A writer of a key or unique key that the transaction uses, a new trigger or a new format makes the rest execute
    at once.
    """

    async def body(replica: Replica) -> None:
        world = replica.world
        space = world.schema.space(INDEXED)
        task = asyncio.ensure_future(replica.apply(*_replaces(3000, INDEXED)))
        for _ in range(5):
            await asyncio.sleep(0)
        if change == "replace":
            world.write(space, Request.replace(pack([0, "ours", 1])))
        elif change == "unique":
            world.write(space, Request.replace(pack([9999, "n0", 1])))
        elif change == "trigger":
            space.on_replace.append(replica.spaces[2].on_replace[0])
        else:
            space.install(space.layout)
        error = await task
        rows = _contents(space)
        if change == "unique":
            assert "TUPLE_FOUND" in (error or "")
            assert rows == [[9999, "n0", 1]]
            return
        assert error is None
        assert rows == [[number, f"n{number}", number] for number in range(3000)]
        assert len(replica.heard) == (3000 if change == "trigger" else 0)
        if change == "replace":
            assert [unpack(raw) for raw in space.index(1).values_list()] == sorted(rows, key=lambda row: row[1])

    _run(body)


def test_two_origins_one_after_the_other() -> None:
    """A large transaction of a second origin waits until the first one is merged."""

    async def body(replica: Replica) -> None:
        world, rows = replica.world, _replaces(3000, first=1000)
        for row in rows:
            row.replica_id = ORIGIN + 1
        assert await asyncio.gather(replica.apply(*_replaces(3000)), replica.apply(*rows)) == [None, None]
        found = _contents(world.schema.space(PLAIN))
        assert len(found) == 4000
        assert found[2000][1] == "n1000"
        assert dict(replica.sink.applied) == {ORIGIN: 3000, ORIGIN + 1: 3000}

    _run(body)


def _space(node: Node) -> Any:
    return node._embedding.core.schema.space_by_name("goods")


async def _work_beside(node: Node, work: str, turns: int) -> list[Any]:
    """Run other work beside a large transaction, and return the rows at the end."""
    goods = await node.schema.create_space("goods")
    await goods.create_index("pk")
    await node.eval("for id = 3001, 6000 do box.space.goods:replace{id, 'old', 1} end")
    rows, instance = _replaces(3000, _space(node).id), node._embedding.core
    task = asyncio.ensure_future(instance.replication.sink.apply(instance.new_context(), rows))
    for _ in range(turns):
        await asyncio.sleep(0)
    wanted = {6000}
    if work == "create_index":
        await goods.create_index("name", parts=[(2, "string")], unique=False)
    elif work == "truncate":
        await goods.truncate()
        wanted = {0, 3000}
    elif work == "snapshot":
        await node.eval("box.snapshot()")
    elif work == "format":
        await node.eval("box.space.goods:format({{'id', 'unsigned'}, {'name', 'string'}})")
    else:
        assert len(await goods.select(limit=10000)) in (3000, 6000)
    await task
    await instance.txns.work.wait()
    found = await goods.select(limit=10000)
    assert len(found) in wanted
    assert await goods.count() == len(found)
    if work == "create_index":
        named = await goods.index["name"].select(limit=10000)
        assert sorted(row[1] for row in found) == [row[1] for row in named]
    assert not _space(node).index(0).listeners
    await node._embedding.core.journal.sync()
    return [list(row) for row in found]


@pytest.mark.parametrize("turns", [3, 45])
@pytest.mark.parametrize("work", ["create_index", "truncate", "snapshot", "format", "select"])
def test_work_on_its_space_beside_it(work: str, turns: int, tmp_path: Path) -> None:
    """Work on the space beside a large transaction has the same result as before or after it, also after a restart.

    The work is an index build, a truncation, a checkpoint, a check of a format, or a long select.
    """

    async def main() -> None:
        options: dict[str, Any] = {"log": f"{tmp_path}/log"}
        async with asyncio.timeout(DEADLINE):
            async with Node(tmp_path, **options) as node:
                found = await _work_beside(node, work, turns)
            async with Node(tmp_path, **options) as again:
                assert [list(row) for row in await again.space["goods"].select(limit=10000)] == found

    asyncio.run(main())


def test_writes_find_tuples_by_the_fast_path_again_when_all_is_merged(tmp_path: Path) -> None:
    """While changes lie over an index, writes look at both of its trees; when all is merged, they take the fast path
    again.
    """

    async def main() -> None:
        async with Node(tmp_path, log=f"{tmp_path}/log") as node:
            goods = await node.schema.create_space("goods")
            await goods.create_index("pk")
            rows, instance = _replaces(3000, _space(node).id), node._embedding.core
            task = asyncio.ensure_future(instance.replication.sink.apply(instance.new_context(), rows))
            index = _space(node).index(0)
            async with asyncio.timeout(DEADLINE):
                while not index.is_layered:
                    await asyncio.sleep(0)
                assert instance.dml._planner.plan(_space(node)).find == index.find
                await task
                await instance.txns.work.wait()
                await goods.replace((2, "new", 2))
            assert not index.is_layered
            assert _space(node).write_plan.find == index.find

    asyncio.run(main())
