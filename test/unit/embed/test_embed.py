"""`from box import Node`: nodes in Python programs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from box import BoxError, Node
from box.errors import ErrorCode


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


def test_a_wrong_option_leaves_nothing_running(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(BoxError, match="Incorrect value for option 'wal_mode': never"):
            async with Node(tmp_path, wal_mode="never"):
                pass
        with pytest.raises(BoxError, match=r"Can't open path|error reading directory"):
            async with Node(tmp_path / "missing"):
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

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() == before


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
            sessions = node.instance.node.sessions.by_id
            before = len(sessions)
            for number in range(50):
                await node.eval("return ...", number)
                await node.call("tostring", number)
            assert len(sessions) == before

    asyncio.run(run())
