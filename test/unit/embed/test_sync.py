"""`from box.sync import Node`: the node for programs without a loop, from any thread."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import box
from box import BoxError, TransactionConflictError
from box.embed import IndexHandle, PreparedStatement, SchemaRequests, SequenceHandle, SpaceHandle, TransactionBlock
from box.errors import DiskWriteError, ErrorCode, FiberIsCancelled
from box.sync import BlockingPrepared, BlockingSpace, BlockingTransaction, Node
from box.sync.blocking_handles import BlockingIndex
from box.sync.blocking_schema import BlockingSchema, BlockingSequence
from test.support import wait_until


def space_of(node: Node) -> BlockingSpace:
    space = node.schema.create_space("s", format=["id", {"name": "value", "is_nullable": True}])
    space.create_index("pk", parts=[[1, "unsigned"]])
    return space


def test_a_script_stores_and_reads(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        space = space_of(node)
        by_value = space.create_index("value", parts=[[2, "string"]], unique=False)
        assert space.insert({"id": 1, "value": "one"}) == [1, "one"]
        assert space.replace([2, "two"]) == [2, "two"]
        assert space.update(2, [["=", "value", "deux"]]) == [2, "deux"]
        space.upsert([3, "three"], [])
        assert (space.get(3), space.delete(3), space.get(3)) == ([3, "three"], [3, "three"], None)
        assert (space.select(1, iterator="gt"), space.count(), space.len()) == ([[2, "deux"]], 2, 2)
        assert (space.min(), space.max(), space.random(1) in space.select()) == ([1, "one"], [2, "deux"], True)
        assert [row.id for row in by_value] == [2, 1]
        assert (by_value.select("one"), by_value.count("one")) == ([[1, "one"]], 1)
        assert space.index["value"].min() == [2, "deux"]
        assert (list(node.space), "s" in node.space, len(node.space), node.space.get("t")) == (["s"], True, 1, None)
        assert repr(node.space) == "<spaces: s>"
        assert node.eval("return box.space.s:len(), ...", "x") == [2, "x"]
        assert node.call("tostring", 5) == "5"
        node.schema.create_user("alice")
        node.schema.grant("alice", "read", "space", "s")
        assert "alice" in node.schema.users()
        assert node.info["status"] == "running"
        node.configure(read_only=True)
        with pytest.raises(BoxError) as caught:
            space.insert([9])
        assert caught.value.code == ErrorCode.READONLY
    with pytest.raises(BoxError) as caught:
        node.eval("return 1")
    assert caught.value.code == ErrorCode.LOADING
    with pytest.raises(BoxError) as caught:
        space.len()
    assert caught.value.code == ErrorCode.LOADING
    with node:
        assert node.space["s"].select() == [[1, "one"], [2, "deux"]]


def test_long_iterations_come_in_pieces() -> None:
    with Node() as node:
        space = space_of(node)
        node.eval("for i = 1, 1000 do box.space.s:insert{i} end")
        assert [row.id for row in space.pairs(500, iterator="lt")] == list(range(499, 0, -1))
        assert sum(1 for _ in space) == 1000


def test_a_transaction_belongs_to_its_thread() -> None:
    with Node() as node, ThreadPoolExecutor(1) as pool:
        space = space_of(node)
        with node.transaction() as tx:
            space.insert([1])
            with pytest.raises(ValueError, match="undo"), tx.savepoint():  # noqa: PT012
                space.insert([2])
                raise ValueError("undo")
            assert node.eval("return box.is_in_txn(), box.space.s:len()") == [True, 1]
            assert pool.submit(space.select).result(10) == []
            pool.submit(space.insert, [3]).result(10)
            with pytest.raises(BoxError) as caught, node.transaction():
                pass
            assert caught.value.code == ErrorCode.ACTIVE_TRANSACTION
        assert space.select() == [[1], [3]]
        with pytest.raises(ValueError, match="no"), node.transaction():  # noqa: PT012
            space.delete(1)
            raise ValueError("no")
        with node.transaction() as tx:
            space.delete(1)
            tx.rollback()
            space.insert([4])
        assert space.select() == [[1], [3], [4]]
    refusal = pytest.raises(BoxError, match="does not support transactions without memtx_use_mvcc_engine")
    with Node(memtx_use_mvcc_engine=False) as node, refusal:
        node.transaction()


def test_many_threads_write_at_once() -> None:
    with Node() as node, ThreadPoolExecutor(8) as pool:
        space = space_of(node)

        def work(first: int) -> None:
            for number in range(first, first + 20):
                space.insert([number])
                with node.transaction():
                    space.insert([number + 10_000])
                    space.insert([number + 20_000])

        for outcome in [pool.submit(work, number * 100) for number in range(8)]:
            outcome.result(60)
        assert space.len() == 8 * 60


def test_versions_are_kept_only_where_somebody_needs_them() -> None:
    """A single change takes the fast path while no transaction needs versions, and conflicts with one that has read."""
    with Node() as node, ThreadPoolExecutor(1) as other:
        space = space_of(node)
        space.insert_many([[1, 0], [2, 0]])
        dml, general = node.asynchronous._embedding.core.dml, []
        write = dml._write_generally
        dml._write_generally = lambda *args: (general.append(args), write(*args))[1]  # type: ignore[method-assign]
        space.replace([1, 1])
        space.update(1, {"value": 2})
        space.upsert([3, 3], {"value": 4})
        assert space.delete(3) == (3, 3)
        assert not general
        with pytest.raises(TransactionConflictError), node.transaction():  # noqa: PT012
            assert space.get(1) == (1, 2)
            other.submit(space.replace, [1, 5]).result(10)
            assert space.get(1) == (1, 2)
            space.replace([2, 2])
        assert len(general) == 1
        assert (space.get(1), space.get(2)) == ((1, 5), (2, 0))
        space.replace([1, 6])
        assert len(general) == 1


def test_changes_of_a_transaction_are_made_in_place_until_another_thread_has_its_turn(tmp_path: Path) -> None:
    """A transaction keeps no versions while its thread is alone; others see none of its changes before the commit."""
    with Node(tmp_path) as node, ThreadPoolExecutor(1) as other:
        space = space_of(node)
        space.insert([1, 0])
        core = node.asynchronous._embedding.core
        with node.transaction() as tx:
            space.replace([1, 1])
            space.insert([2, 2])
            assert space.get(1) == (1, 1)
            assert tx._txn is not None
            assert tx._txn.is_lone
            assert not core.tuples.has_versions or not core.tuples._slots.by_index  # type: ignore[attr-defined]
            assert other.submit(space.select).result(10) == [(1, 0)]
            assert not tx._txn.is_lone
            space.update(2, {"value": 3})
            assert other.submit(space.get, 2).result(10) is None
        assert space.select() == [(1, 1), (2, 3)]
        with suppress(RuntimeError), node.transaction():
            space.delete(1)
            space.replace([2, 9])
            raise RuntimeError
        assert space.select() == [(1, 1), (2, 3)]
        with node.transaction() as tx:
            space.replace_many([[number, 0] for number in range(3, 2000)])
            assert tx._txn is not None
            assert not tx._txn.is_lone
        assert space.len() == 1999
        wait_until(lambda: not core.tuples.has_versions)  # the versions of many statements are merged in slices
    with Node(tmp_path) as node:
        assert node.space["s"].len() == 1999


def test_the_loop_sees_nothing_of_a_lone_transaction() -> None:
    """Lua that runs as part of the transaction sees its changes, and code of the loop sees none of them."""
    with Node() as node:
        space = space_of(node)
        thread = node._running.thread

        async def count() -> int:
            return await node.asynchronous.space["s"].len()

        with node.transaction() as tx:
            space.insert([1, 1])
            assert asyncio.run_coroutine_threadsafe(count(), thread.loop).result(10) == 0
            assert tx._txn is not None
            assert not tx._txn.is_lone
            assert node.eval("return box.space.s:len()") == 1
            space.insert([2, 2])
        assert asyncio.run_coroutine_threadsafe(count(), thread.loop).result(10) == 2


def test_a_lone_transaction_that_the_log_refuses_leaves_no_trace(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        space = space_of(node)
        space.insert([1, 0])
        node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
        with pytest.raises(DiskWriteError), node.transaction():  # noqa: PT012
            space.replace([1, 1])
            space.insert([2, 2])
        with pytest.raises(DiskWriteError):
            space.insert_many([[3, 3], [4, 4]])
        node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")
        assert space.select() == [(1, 0)]


@pytest.mark.parametrize("seed", range(3))
def test_transactions_of_threads_are_serial(tmp_path: Path, seed: int) -> None:
    """Transfers of threads between accounts, alone and in transactions, are serializable: indexes agree and the sum
    stays.
    """
    accounts = 6
    with Node(tmp_path) as node, ThreadPoolExecutor(4) as pool:
        space = node.schema.create_space("s", format=["id", ("balance", "integer")])
        space.create_index("pk", parts=[[1, "unsigned"]])
        space.create_index("by_balance", parts=[[2, "integer"], [1, "unsigned"]])
        space.insert_many([number, 100] for number in range(accounts))
        extra = node.schema.create_space("extra", format=["id", "n"])
        extra.create_index("pk", parts=[[1, "unsigned"]])

        def work(worker: int) -> int:
            rnd, done = random.Random(seed * 10 + worker), 0
            while done < 40:
                one, two = rnd.sample(range(accounts), 2)
                extra.replace([worker, done])
                try:
                    with node.transaction():
                        rows = [space.get(one), space.get(two)]
                        assert sum(row.balance for row in space.select()) == 100 * accounts
                        space.update(one, {"balance": rows[0].balance - 1})  # type: ignore[union-attr]
                        space.update(two, {"balance": rows[1].balance + 1})  # type: ignore[union-attr]
                    done += 1
                except TransactionConflictError:
                    continue
            return done

        assert [end.result(60) for end in [pool.submit(work, number) for number in range(4)]] == [40] * 4
        rows = space.select()
        assert sorted(rows) == sorted(space.select(index="by_balance"))
        assert not node.asynchronous._embedding.core.tuples.has_versions
    with Node(tmp_path) as node:
        assert node.space.s.select() == rows
        assert node.space.extra.select() == [[number, 39] for number in range(4)]


def test_what_waits_ends_when_the_node_stops() -> None:
    before = set(threading.enumerate())
    with ThreadPoolExecutor(3) as pool:
        node = Node()
        node.start()
        space = space_of(node)
        started = threading.Barrier(3)

        def wait_in_lua() -> Any:
            started.wait(10)
            return node.eval("waits = (waits or 0) + 1 require('fiber').sleep(100)")

        def wait_in_transaction() -> Any:
            with node.transaction():
                return wait_in_lua()

        waiting = [pool.submit(wait_in_lua), pool.submit(wait_in_transaction)]
        changes = space.changes()
        started.wait(10)
        end = pool.submit(next, changes, None)
        deadline = time.monotonic() + 10
        while node.eval("return waits") != 2 or changes.asynchronous._reader is None:
            assert time.monotonic() < deadline
        node.stop()
        node.stop()
        for outcome in waiting:
            with pytest.raises(FiberIsCancelled):
                outcome.result(10)
        assert end.result(10) is None
    assert set(threading.enumerate()) <= before


def test_a_commit_after_the_node_has_stopped_says_so() -> None:
    node = Node()
    node.start()
    space = space_of(node)

    def commit_late() -> None:
        with node.transaction() as block:
            space.insert([1])
            node.stop()
            block.commit()

    with pytest.raises(FiberIsCancelled):
        commit_late()


def test_triggers_and_changes() -> None:
    with Node() as node:
        space = space_of(node)
        seen: list[Any] = []

        def blocking(old: Any, new: Any) -> None:
            space.insert([7])

        trigger = space.on_replace(lambda old, new: seen.append((old, new)))
        with space.changes() as changes:
            space.insert([1])
            assert next(changes).new == [1]
        assert list(changes) == []
        trigger.remove()
        trigger = space.before_replace(blocking)
        with pytest.raises(BoxError, match="a blocking call in the thread of its node"):
            space.insert([2])
        trigger.remove()
        assert seen == [(None, [1])]

        @node.function
        async def double(value: int) -> int:
            rows = await node.asynchronous.space["s"].select()
            return value * 2 + len(rows)

        assert node.call("double", 4) == 9


def test_functions_and_triggers_of_the_node() -> None:
    """They can be declared before the start, stay declared, and run in the node's thread."""
    node, told = Node(listen="127.0.0.1:0"), []

    @node.function("shop.twice")
    def twice(value: int) -> int:
        return value * 2

    connects = node.on_connect(lambda session: told.append(("in", session.user, threading.current_thread().name)))
    node.on_disconnect(lambda session: told.append(("out", session.user)))
    node.on_shutdown(lambda: told.append("end"))
    source = "local c = require('net.box').connect((...)) local ok = c:ping() c:close() return ok"
    assert not node.is_running
    for _ in range(2):
        with node:
            assert node.is_running
            assert node.call("shop.twice", 4) == 8
            assert node.eval(source, node.info["listen"])
            wait_until(lambda: ("out", "guest") in told)
        assert told == [("in", "guest", "box"), ("out", "guest"), "end"]
        told.clear()
    connects.remove()
    with node:
        node.function("late")(twice)
        assert node.call("late", 1) == 2
        assert node.eval(source, node.info["listen"])
    assert ("in", "guest", "box") not in told


def test_hooks_of_a_transaction() -> None:
    with Node() as node:
        space, told = space_of(node), []

        def hook(name: str) -> Any:
            return lambda changes: told.append((name, [change.new for change in changes]))

        with node.transaction() as transaction:
            transaction.on_commit(hook("commit"))
            transaction.on_rollback(hook("never"))
            space.insert([1])
        with suppress(ZeroDivisionError), node.transaction() as transaction:
            transaction.on_commit(hook("never"))
            transaction.on_rollback(hook("rollback"))
            space.insert([2])
            _ = 1 // 0
        assert told == [("commit", [[1]]), ("rollback", [[2]])]
        assert space.select() == [[1]]
        with pytest.raises(BoxError, match="No active transaction"):
            transaction.on_commit(hook("never"))


def test_a_start_that_fails_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(BoxError, match="wal_mode"):
        Node(tmp_path, wal_mode="never").start()
    assert set(threading.enumerate()) <= before
    with Node(tmp_path) as node, pytest.raises(BoxError) as caught:
        node.start()
    assert caught.value.code == ErrorCode.ALREADY_RUNNING


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [
        (BlockingSpace, SpaceHandle),
        (BlockingIndex, IndexHandle),
        (BlockingSchema, SchemaRequests),
        (BlockingSequence, SequenceHandle),
    ],
)
def test_a_facade_has_all_methods_with_their_arguments(blocking: type, asynchronous: type) -> None:
    """The blocking classes have all methods of the asynchronous ones, with equal arguments, and none
    that is awaited.
    """
    for name, method in inspect.getmembers(asynchronous, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            facade = getattr(blocking, name)
            assert not inspect.iscoroutinefunction(facade), name
            assert f"ee `box.{asynchronous.__name__}.{name}`" in " ".join(facade.__doc__.split())
            given = [list(inspect.signature(one).parameters.values())[1:] for one in (facade, method)]
            if name != "create_space":  # its arguments are those of its overloads
                assert [(one.name, one.kind, one.default) for one in given[0]] == [
                    (one.name, one.kind, one.default) for one in given[1]
                ]


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [
        (Node, box.Node),
        (BlockingSpace, SpaceHandle),
        (BlockingIndex, IndexHandle),
        (BlockingTransaction, TransactionBlock),
        (BlockingPrepared, PreparedStatement),
        (BlockingSchema, SchemaRequests),
        (BlockingSequence, SequenceHandle),
    ],
)
def test_a_blocking_class_has_all_names_of_its_counterpart(blocking: type, asynchronous: type) -> None:
    names = {name for name in dir(asynchronous) if not name.startswith("_")}
    assert names <= set(dir(blocking))
