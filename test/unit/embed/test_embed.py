"""`from box import Node`: nodes in Python programs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.errors import ErrorCode
from box.index.iterator_type import IteratorType
from test.support import until


def test_a_node_in_memory_stores_python_values() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            space = node.space["s"]
            assert await space.insert([1, "a", {"k": [1.5, None]}]) == [1, "a", {"k": [1.5, None]}]
            assert await space.replace((2, "b")) == [2, "b"]
            assert await space.get(2) == [2, "b"]
            assert await space.get(3) is None
            assert await space.select() == [[1, "a", {"k": [1.5, None]}], [2, "b"]]
            assert await space.select(1, iterator="GT", limit=1) == [[2, "b"]]
            assert await space.update(2, [["=", 2, "c"]]) == [2, "c"]
            await space.upsert([3, 1], [["+", 2, 1]])
            await space.upsert([3, 1], [["+", 2, 1]])
            assert await space.delete(3) == [3, 2]
            assert (await space.count(), await space.len()) == (2, 2)

    asyncio.run(run())


def test_iterators_have_the_names_of_lua() -> None:
    """Iterators have Lua's names in either case; the default without a key is ALL; an unknown one
    raises Lua's error.
    """

    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            await node.eval("box.schema.space.create('h'):create_index('pk', {type = 'hash'})")
            space, hashed = node.space["s"], node.space["h"]
            for number in range(3):
                await space.insert([number])
            await hashed.insert([1])
            assert await space.select(1, iterator="ge") == [[1], [2]]
            assert await space.count(1, iterator=IteratorType.LT) == 1
            assert (await hashed.select(), await hashed.count()) == ([[1]], 1)
            for read in (space.select, space.count):
                with pytest.raises(BoxError, match="Unknown iterator type 'NEXT'") as caught:
                    await read(1, iterator="NEXT")
                assert caught.value.code == ErrorCode.ITERATOR_TYPE

    asyncio.run(run())


def test_lua_is_evaluated_and_called_with_values_in_and_out() -> None:
    async def run() -> None:
        async with Node() as node:
            assert await node.eval("return 1 + ...", 2) == 3
            assert await node.eval("return 1, 'two', nil, {4}") == [1, "two", None, [4]]
            assert await node.eval("local x = 1") is None
            await node.eval("function twice(x) require('fiber').sleep(0) return x * 2 end")
            assert await node.call("twice", 21) == 42
            await node.eval("function make(name) box.schema.space.create(name) end")
            await node.call("make", "made")
            assert "made" in node.space

    asyncio.run(run())


def test_errors_have_code_and_text() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            await node.space["s"].insert([1])
            with pytest.raises(BoxError) as caught:
                await node.space["s"].insert([1])
            assert caught.value.code == ErrorCode.TUPLE_FOUND
            with pytest.raises(BoxError, match="Space 'nothing' does not exist"):
                node.space["nothing"]
            with pytest.raises(BoxError, match="attempt to index"):
                await node.eval("return nothing.field")
            with pytest.raises(BoxError) as caught:
                await node.eval("box.error(box.error.NO_SUCH_USER, 'x')")
            assert (caught.value.code, caught.value.message) == (ErrorCode.NO_SUCH_USER, "User 'x' is not found")

    asyncio.run(run())


@pytest.mark.parametrize("wait", ["", "require('fiber').yield()"])
def test_a_transaction_that_is_left_open_is_rolled_back(wait: str) -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
            await node.eval("function f(text) box.begin() s:insert{1} if text then error(text) end end")
            with pytest.raises(BoxError, match="Transaction is active at return from function"):
                await node.eval(f"{wait} f()")
            with pytest.raises(BoxError, match="no"):
                await node.eval(f"{wait} f('no')")
            with pytest.raises(BoxError, match="Transaction is active at return from function"):
                await node.call("f")
            with pytest.raises(BoxError, match="never"):
                await node.call("f", "never")
            assert await node.space["s"].select() == []

    asyncio.run(run())


@pytest.mark.parametrize("size", [10, 4050, 4075, 4076, 4077, 4078, 5000, 100_000])
def test_tuples_of_all_sizes_are_found(size: int) -> None:
    """Tuples of all sizes are found, also around the size of the memory that Lua shares with Python."""

    async def run() -> None:
        async with Node() as node:
            await node.eval("s = box.schema.space.create('s') s:create_index('pk')")
            text = "x" * size
            await node.space["s"].insert([1, text])
            assert await node.eval("return s:get(1), s:get{1}, s:select(1), s:get(2), s:select(2)") == [
                *[[1, text]] * 2,
                [[1, text]],
                None,
                [],
            ]

    asyncio.run(run())


def test_a_fiber_that_writes_all_the_time_leaves_room_for_others(tmp_path: Path) -> None:
    """A fiber that writes all the time leaves turns to timers, other fibers and requests of Python."""

    async def run() -> None:
        async with Node(tmp_path) as node:
            await node.eval("""
                local fiber = require('fiber')
                s = box.schema.space.create('s') s:create_index('pk')
                yields, sleeps, writes = 0, 0, 0
                fiber.create(function() while not stop do s:replace{1} writes = writes + 1 end end)
                fiber.create(function() while not stop do fiber.yield() yields = yields + 1 end end)
                fiber.create(function() while not stop do fiber.sleep(0.001) sleeps = sleeps + 1 end end)""")
            start = asyncio.get_running_loop().time()
            seen: list[list[int]] = []
            while not seen or min(seen[-1]) < 10:
                assert asyncio.get_running_loop().time() < start + 10
                seen.append(await node.eval("return yields, sleeps, writes"))
                await asyncio.sleep(0)
            await node.eval("stop = true")
            assert len(seen) > 1

    asyncio.run(run())


@pytest.mark.parametrize("fibers", [1, 3, 1500])
def test_writes_of_many_fibers_complete_in_order(tmp_path: Path, fibers: int) -> None:
    async def run() -> None:
        async with Node(tmp_path) as node:
            order = await node.eval(
                """
                local fiber, count = require('fiber'), ...
                s = box.schema.space.create('s') s:create_index('pk')
                local order, list = {}, {}
                for number = 1, count do
                    list[number] = fiber.new(function()
                        for round = 1, 2 do
                            s:insert{number + count * (round - 1)}
                            table.insert(order, number + count * (round - 1))
                        end
                    end)
                    list[number]:set_joinable(true)
                end
                for _, f in ipairs(list) do f:join() end
                return order""",
                fibers,
            )
            assert order == list(range(1, 2 * fibers + 1))
        async with Node(tmp_path) as node:
            assert await node.space["s"].len() == 2 * fibers

    asyncio.run(run())


def test_a_space_is_truncated() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('a.b'):create_index('pk')")
            await node.space["a.b"].insert([1])
            await node.space["a.b"].truncate()
            assert await node.space["a.b"].len() == 0

    asyncio.run(run())


def test_data_of_a_directory_is_there_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path) as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            for number in range(100):
                await node.space["s"].insert([number])
            await node.eval("box.snapshot()")
            await node.space["s"].insert([100])
        async with Node(tmp_path) as node:
            assert await node.space["s"].len() == 101

    asyncio.run(run())


def test_an_index_that_excludes_nils_is_filled_at_start(tmp_path: Path) -> None:
    """An index with exclude_null is filled at the start, from a snapshot and from the log."""

    async def run() -> None:
        create = "local s = box.schema.space.create('s') s:create_index('pk') "
        async with Node(tmp_path) as node:
            await node.eval(create + "s:create_index('sk', {parts = {{2, 'unsigned', exclude_null = true}}})")
            for row in ([1, None], [2, 5], [3, None], [4, 1]):
                await node.space["s"].insert(row)
            await node.eval("box.snapshot()")
            await node.space["s"].insert([5, None])
        async with Node(tmp_path) as node:
            assert await node.space["s"].len() == 5
            assert await node.space["s"].select(index="sk") == [[4, 1], [2, 5]]
            with pytest.raises(BoxError, match="Duplicate key"):
                await node.space["s"].insert([6, 5])

    asyncio.run(run())


def test_a_wrong_option_leaves_nothing_running(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(BoxError, match="Incorrect value for option 'wal_mode': never"):
            async with Node(tmp_path, wal_mode="never"):
                pass
        with pytest.raises(BoxError, match=f"can't create directory '{tmp_path}/missing/deeper': No such file"):
            async with Node(tmp_path / "missing" / "deeper"):
                pass
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_directory_belongs_to_one_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path):
            with pytest.raises(BoxError) as caught:
                async with Node(tmp_path):
                    pass
            assert caught.value.code == ErrorCode.ALREADY_RUNNING

    asyncio.run(run())


def test_several_nodes_live_on_one_loop_and_leave_nothing_behind() -> None:
    async def run() -> None:
        async with Node() as one, Node() as two:
            for node, value in ((one, "first"), (two, "second")):
                await node.eval("box.schema.space.create('s'):create_index('pk') name = ...", value)
                await node.space["s"].insert([1, value])
            assert await one.eval("return name, box.space.s:get(1)") == ["first", [1, "first"]]
            assert await two.eval("return name, box.space.s:get(1)") == ["second", [1, "second"]]
            assert one.info["uuid"] != two.info["uuid"]
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    before = set(threading.enumerate())
    asyncio.run(run())
    assert set(threading.enumerate()) <= before


def test_triggers_and_transactions_work_from_python() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            await node.eval("seen = {} box.space.s:on_replace(function(old, new) table.insert(seen, new[1]) end)")
            await node.space["s"].insert([7])
            assert await node.eval("return seen") == [7]
            await node.eval("box.begin() box.space.s:insert{8} box.rollback()")
            assert await node.space["s"].get(8) is None

    asyncio.run(run())


def test_calls_leave_no_sessions_behind() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("return 1")
            sessions = node._embedding.core.sessions.by_id
            before = len(sessions)
            for number in range(50):
                await node.eval("return ...", number)
                await node.call("tostring", number)
            assert len(sessions) == before

    asyncio.run(run())


@pytest.mark.parametrize("chunk", ["require('fiber').sleep(100)", "box.begin() require('fiber').sleep(100)"])
def test_a_call_that_waits_when_its_node_stops_is_cancelled(chunk: str) -> None:
    """A waiting call is cancelled when its node stops, also with an open transaction."""

    async def run() -> None:
        node = Node()
        await node.start()
        call = asyncio.create_task(node.eval(chunk))
        await asyncio.sleep(0)
        await node.stop()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(run())


async def _with_sync_space(directory: Path) -> Node:
    """Start a node whose synchronous transactions have no quorum."""
    node = Node(directory, replication_synchro_quorum=2, replication_synchro_timeout=1000)
    await node.start()
    await node.eval("box.schema.space.create('s', {is_sync = true}):create_index('pk')")
    await node.eval("box.schema.space.create('plain'):create_index('pk')")
    return node


async def _fill_limbo(node: Node, count: int) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while len(node._embedding.core.limbo) < count:
        assert asyncio.get_running_loop().time() < deadline, "the transactions are not in the limbo"
        await asyncio.sleep(0)


def test_a_write_without_a_quorum_ends_when_its_node_stops(tmp_path: Path) -> None:
    """A write without a quorum raises "fiber is cancelled" when its node stops; its transaction waits in the log."""

    async def run() -> None:
        node = await _with_sync_space(tmp_path)
        writes = [asyncio.create_task(node.space[name].insert([1])) for name in ("s", "plain")]
        await _fill_limbo(node, 2)
        async with asyncio.timeout(10):
            await node.stop()
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, BoxError)
            assert (outcome.type, outcome.message) == ("FiberIsCancelled", "fiber is cancelled")
        async with Node(tmp_path, replication_synchro_quorum=1, replication_synchro_timeout=0.01) as again:
            assert len(again._embedding.core.limbo) == 2
            await again.eval("box.ctl.promote()")
            assert await again.space["s"].select() == await again.space["plain"].select() == [[1]]

    asyncio.run(run())


def test_a_call_without_a_quorum_ends_when_its_node_stops(tmp_path: Path) -> None:
    """A Lua call without a quorum is cancelled when its node stops, and does not go on after its write."""

    async def run() -> None:
        node = await _with_sync_space(tmp_path)
        trace = tmp_path / "went on"
        chunk = "pcall(box.space.s.insert, box.space.s, {1}) io.open(..., 'w'):close()"
        call = asyncio.create_task(node.eval(chunk, str(trace)))
        await _fill_limbo(node, 1)
        async with asyncio.timeout(10):
            await node.stop()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert not trace.exists()

    asyncio.run(run())


def test_a_write_on_its_way_to_the_log_ends_when_its_node_stops(tmp_path: Path) -> None:
    """A write on its way to the log when its node stops is written, and returns."""

    async def run() -> None:
        node = await _with_sync_space(tmp_path)
        node._embedding.core.errinj.set("ERRINJ_WAL_DELAY", True)
        write = asyncio.create_task(node.space["plain"].insert([1]))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await node.stop()
            assert await write == [1]
        async with Node(tmp_path) as again:
            assert await again.space["plain"].select() == [[1]]

    asyncio.run(run())


async def _with_a_slow_trigger(tmp_path: Path, **options: Any) -> Node:
    """Start a node with the spaces `s`, whose trigger waits until `go_on()` is called, and `plain`."""
    node = Node(tmp_path, **options)
    await node.start()
    await node.eval(
        """
        local fiber = require('fiber')
        local gate, waiting = fiber.channel(), 0
        local s = box.schema.space.create('s')
        s:create_index('pk')
        box.schema.space.create('plain'):create_index('pk')
        s:before_replace(function() waiting = waiting + 1 gate:get() end)
        function count_waiting() return waiting end
        function go_on() gate:put(true) end
        """
    )
    return node


async def waiting(node: Node, count: int) -> None:
    async def is_so() -> bool:
        return bool(await node.call("count_waiting") == count)

    await until(is_so, "the trigger waits")


@pytest.mark.parametrize("mvcc", [False, True])
def test_calls_do_not_share_a_transaction(tmp_path: Path, mvcc: bool) -> None:
    """While a trigger of one call waits, another call writes in its own transaction and returns."""

    async def run() -> None:
        node = await _with_a_slow_trigger(tmp_path, memtx_use_mvcc_engine=mvcc)
        first = asyncio.create_task(node.space["s"].insert([1, "first"]))
        await waiting(node, 1)
        assert await node.space["plain"].insert([1]) == [1]
        second = asyncio.create_task(node.space["s"].insert([2, "second"]))
        await waiting(node, 2)
        assert await node.space["plain"].select() == [[1]]
        await node.call("go_on")
        await node.call("go_on")
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        if mvcc:
            assert outcomes == [[1, "first"], [2, "second"]]
        else:
            messages = [outcome.message for outcome in outcomes if isinstance(outcome, BoxError)]
            assert messages == ["Transaction has been aborted by a fiber yield"] * 2
        await node.stop()
        async with Node(tmp_path) as again:
            assert await again.space["plain"].select() == [[1]]
            assert await again.space["s"].select() == ([[1, "first"], [2, "second"]] if mvcc else [])

    asyncio.run(run())


def test_a_write_whose_trigger_waits_ends_with_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        node = await _with_a_slow_trigger(tmp_path)
        write = asyncio.create_task(node.space["s"].insert([1]))
        await waiting(node, 1)
        async with asyncio.timeout(10):
            await node.stop()
            with pytest.raises(BoxError, match="fiber is cancelled"):
                await write

    asyncio.run(run())


def test_a_handle_is_refused_in_another_thread(tmp_path: Path) -> None:
    """A handle raises in another thread; calls through the node's loop work there."""

    async def run() -> None:
        async with Node(tmp_path) as node:
            await node.eval("box.schema.space.create('s'):create_index('pk')")
            loop, space = asyncio.get_running_loop(), node.space["s"]

            def elsewhere() -> list[str]:
                refusals = []
                calls = (
                    space.insert([1]),
                    space.select(),
                    node.eval("return 1"),
                    node.configure(read_only=True),
                    node.stop(),
                )
                for call in calls:
                    with pytest.raises(RuntimeError) as caught:
                        asyncio.run(call)
                    refusals.append(str(caught.value))
                assert asyncio.run_coroutine_threadsafe(space.insert([2]), loop).result(10) == [2]
                return refusals

            refusals = await asyncio.to_thread(elsewhere)
            assert refusals[0].startswith("the handle of space 's' is used outside of the thread of its node")
            assert all("outside of the thread" in text for text in refusals)
            assert await space.select() == [[2]]

    asyncio.run(run())


EXITING = """
import asyncio, sys
from box import Node

async def main():
    async with Node(sys.argv[1], wal_mode="write", log_level=1) as node:
        await node.eval("box.schema.space.create('s'):create_index('pk') box.space.s:replace{1}")
        try:
            await node.eval("os.exit(3)")
        finally:
            print("leaving", flush=True)
    print("never", flush=True)

try:
    asyncio.run(main())
finally:
    print("end", flush=True)
"""


def test_os_exit_raises_system_exit_in_the_program_and_stops_the_node_in_order(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXITING, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, "leaving\nend\n"), done.stderr
    assert "Traceback" not in done.stderr
