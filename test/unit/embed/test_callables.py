"""Python functions called from Lua and by writes: functions, triggers, streams of changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node
from box.embed import Change, ChangesLost, SessionInfo
from box.errors import ErrorCode
from test.support import until

CONNECT = "return pcall(function() return require('net.box').connect(...):ping() end)"


async def with_space(node: Node) -> Any:
    space = await node.schema.create_space("s", format=["id", {"name": "value", "is_nullable": True}])
    await space.create_index("pk", parts=[[1, "unsigned"]])
    return space


def test_python_functions_are_functions_of_lua() -> None:
    async def run() -> None:
        node = Node()

        @node.function
        def add(*numbers: int) -> int:
            return sum(numbers)

        async with node:

            @node.function("tools.split")
            def split(text: str) -> tuple[str, ...]:
                return tuple(text.split())

            @node.function
            async def slow(value: Any) -> Any:
                await asyncio.sleep(0.001)
                return value

            @node.function
            def wrong(kind: str) -> None:
                raise ValueError("no such kind") if kind == "value" else BoxError(ErrorCode.NO_SUCH_USER, "nobody")

            assert await node.eval("return add(1, 2, 3), add()") == [6, 0]
            assert await node.eval("return tools.split('a b')") == ["a", "b"]
            assert await node.call("slow", {"deep": [2**63]}) == {"deep": [2**63]}
            assert await node.eval("local l = {} for i = 1, 3 do l[i] = slow(i) end return l") == [1, 2, 3]
            with pytest.raises(BoxError, match="ValueError: no such kind") as caught:
                await node.call("wrong", "value")
            assert caught.value.type == "LuajitError"
            with pytest.raises(BoxError) as caught:
                await node.call("wrong", "box")
            assert (caught.value.code, caught.value.message) == (ErrorCode.NO_SUCH_USER, "nobody")
            with pytest.raises(BoxError, match="positional argument"):
                await node.eval("wrong()")
        async with node:
            assert await node.call("add", 20, 1) == 21

    asyncio.run(run())


def test_a_function_belongs_to_the_transaction_of_its_caller() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await with_space(node)

            @node.function
            async def put(key: int) -> bool:
                await space.insert([key])
                return bool(await node.eval("return box.is_in_txn()"))

            @node.function
            async def wait(key: int) -> None:
                await space.insert([key])
                await asyncio.sleep(0)

            @node.function
            async def both(key: int) -> None:
                async with node.transaction() as tx:
                    await space.insert([key])
                    tx.savepoint()
                    await space.insert([key + 1])

            assert await node.eval("box.begin() local is_in = put(1) box.rollback() return is_in") is True
            assert await space.select() == []
            with pytest.raises(BoxError, match="aborted by a fiber yield"):
                await node.eval("box.begin() wait(2) box.commit()")
            assert await space.select() == []
            await node.call("both", 3)
            with pytest.raises(BoxError, match="active transaction"):
                await node.eval("box.begin() both(5)")
            assert await space.select() == [[3], [4]]

    asyncio.run(run())


def test_triggers_of_a_space() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await with_space(node)
            log = await node.schema.create_space("log")
            await log.create_index("pk")
            seen: list[Any] = []

            async def note(old: Any, new: Any) -> None:
                seen.append((old, new))
                await log.insert([len(seen)])

            def check(old: Any, new: Any) -> Any:
                if new is not None and new.value == "bad":
                    raise ValueError("bad value")
                if new is not None and new.value == "skip":
                    return old
                return new if new is None or new.value != "change" else {"id": new.id, "value": "changed"}

            trigger = space.on_replace(note)
            checker = space.before_replace(check)
            assert await space.insert([1, "one"]) == [1, "one"]
            assert await space.replace([1, "change"]) == [1, "changed"]
            assert await space.replace([1, "skip"]) is None
            with pytest.raises(BoxError, match="ValueError: bad value"):
                await space.insert([2, "bad"])
            await node.eval("box.space.s:delete(1)")
            assert seen == [(None, [1, "one"]), ([1, "one"], [1, "changed"]), ([1, "changed"], None)]
            assert await log.select() == [[1], [2], [3]]
            trigger.remove()
            checker.remove()
            trigger.remove()
            await space.insert([2, "bad"])
            assert len(seen) == 3

    asyncio.run(run())


def test_a_trigger_that_waits_costs_the_transaction_without_versions() -> None:
    async def run(mvcc: bool) -> None:
        async with Node(memtx_use_mvcc_engine=mvcc) as node:
            space = await with_space(node)

            async def wait(old: Any, new: Any) -> None:
                await asyncio.sleep(0.001)

            space.on_replace(wait)
            if mvcc:
                assert await space.insert([1]) == [1]
                return
            with pytest.raises(BoxError) as caught:
                await space.insert([1])
            assert caught.value.code == ErrorCode.TRANSACTION_YIELD
            assert await space.select() == []

    asyncio.run(run(False))
    asyncio.run(run(True))


def test_triggers_of_a_transaction() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await with_space(node)
            told: list[Any] = []

            async def later(changes: list[Change]) -> None:
                await asyncio.sleep(0)
                told.append([(change.old, change.new) for change in changes])

            def fail(changes: list[Change]) -> None:
                raise ValueError("too late")

            async with node.transaction() as tx:
                tx.on_commit(later)
                tx.on_commit(fail)
                tx.on_rollback(told.append)
                await space.insert([1])
                await space.replace([1, "x"])
            assert told == [[(None, [1]), ([1], [1, "x"])]]
            async with node.transaction() as tx:
                tx.on_commit(later)
                tx.on_rollback(lambda changes: told.append(changes))
                await space.delete(1)
                await tx.rollback()
            assert [(change.old, change.new) for change in told[1]] == [([1, "x"], None)]
            assert len(told) == 2

    asyncio.run(run())


def test_triggers_of_sessions_and_of_the_end(tmp_path: Path) -> None:
    async def run() -> None:
        address = f"unix/:{tmp_path}/socket"
        node = Node(tmp_path, listen=address)
        told: list[Any] = []
        refused: list[SessionInfo] = []

        async def connected(session: SessionInfo) -> None:
            told.append(("on", session.type, session.user))
            await node.space["s"].insert([session.id])

        def refuse(session: SessionInfo) -> None:
            refused.append(session)
            raise ValueError("not now")

        async def shut_down() -> None:
            told.append(await node.space["s"].len())

        node.on_connect(connected)
        node.on_disconnect(lambda session: told.append(("off", session.type, session.user)))
        node.on_shutdown(shut_down)
        async with node:
            await with_space(node)
            await node.eval("local c = require('net.box').connect(...) c:ping() c:close()", address)
            await until(lambda: len(told) == 2)
            assert told == [("on", "binary", "guest"), ("off", "binary", "guest")]
            trigger = node.on_connect(refuse)
            assert await node.eval("return require('net.box').connect(...).state", address) != "active"
            await until(lambda: refused)
            trigger.remove()
        assert told[-1] == 1

    asyncio.run(run())


def test_changes_are_told_in_the_order_of_commits(tmp_path: Path) -> None:
    """A stream has changes in the order of commits, with the LSN of their rows, and none that are rolled back."""

    async def run() -> None:
        async with Node(tmp_path) as node:
            space = await with_space(node)
            await space.insert([1, "before"])
            stream = space.changes()
            lsn = node.info["lsn"]
            await space.replace([1, "one"])
            async with node.transaction() as tx:
                await space.insert([2])
                with tx.savepoint() as undone:
                    await space.insert([3])
                    undone.rollback()
                await space.delete(1)
            async with node.transaction() as tx:
                await space.insert([9])
                await tx.rollback()
            with pytest.raises(BoxError):
                await space.insert([2])
            await node.eval("box.space.s:update(2, {{'=', 2, 'two'}})")
            found = [await anext(stream) for _ in range(4)]
            assert found == [
                Change([1, "before"], [1, "one"], lsn + 1, 1),  # type: ignore[arg-type]
                Change(None, [2], lsn + 2, 1),  # type: ignore[arg-type]
                Change([1, "one"], None, lsn + 3, 1),  # type: ignore[arg-type]
                Change([2], [2, "two"], lsn + 4, 1),  # type: ignore[arg-type]
            ]
            assert found[3].new is not None
            assert found[3].new.value == "two"
            waiting = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="two tasks"):
                await anext(stream)
            await space.insert([5])
            assert (await waiting).new == [5]
            stream.close()
            await space.insert([6])
            assert [change async for change in stream] == []

    asyncio.run(run())


def test_a_slow_reader_of_changes_is_told_that_it_lost_some() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await with_space(node)
            stream = space.changes(limit=3)
            for number in range(10):
                await space.insert([number])
            found = [(await anext(stream)).new for _ in range(3)]
            assert found == [[0], [1], [2]]
            with pytest.raises(ChangesLost, match="too slow: 3 changes of"):
                await anext(stream)
            assert [change async for change in stream] == []
            assert not node._embedding.watchers
            assert node._embedding.core.schema.space_by_name("s").on_replace == []
            with pytest.raises(BoxError, match="must be positive"):
                space.changes(limit=0)

    asyncio.run(run())


def test_a_stream_of_changes_ends_with_its_space_and_its_node() -> None:
    async def run() -> None:
        async with Node() as node:
            space = await with_space(node)
            async with space.changes() as stream:
                await space.insert([1])
                await space.drop()
                assert (await anext(stream)).new == [1]
                with pytest.raises(BoxError) as caught:
                    await anext(stream)
                assert caught.value.code == ErrorCode.NO_SUCH_SPACE
            space = await with_space(node)
            stream = space.changes()
            waiting = asyncio.create_task(anext(stream, None))
            await asyncio.sleep(0)
        assert await waiting is None

    asyncio.run(run())


@pytest.mark.parametrize("mvcc", [False, True])
def test_each_change_is_told_once_however_transactions_overlap(mvcc: bool) -> None:
    async def run() -> None:
        async with Node(memtx_use_mvcc_engine=mvcc) as node:
            space = await with_space(node)
            stream = space.changes()

            async def write(first: int) -> None:
                async with node.transaction():
                    for key in range(first, first + 3):
                        await space.insert([key])
                        if mvcc:
                            await asyncio.sleep(0)

            await asyncio.gather(*(write(number * 10) for number in range(5)))
            stream.close()
            keys = [change.new[0] async for change in stream if change.new is not None]
            assert sorted(keys) == [number * 10 + place for number in range(5) for place in range(3)]

    asyncio.run(run())


def test_an_exception_whose_text_cannot_be_made() -> None:
    """A function and a trigger fail with the type of such an exception."""

    class Unspoken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(*_: Any) -> None:
        raise Unspoken

    async def run() -> None:
        async with Node() as node:
            node.function("fail")(fail)
            space = await with_space(node)
            space.on_replace(fail)
            for failing in (node.call("fail"), space.insert([1])):
                with pytest.raises(BoxError, match=r"^Unspoken$"):
                    await failing

    asyncio.run(run())


def test_triggers_that_only_log_survive_such_an_exception(tmp_path: Path) -> None:
    """The commit counts, and the node stops."""

    class Unspoken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(*_: Any) -> None:
        raise Unspoken

    async def run() -> None:
        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with Node(tmp_path, log="log") as node:
            node.on_shutdown(fail)
            space = await with_space(node)
            async with node.transaction() as tx:
                tx.on_commit(fail)
                await space.insert([1])
        assert not problems
        text = (tmp_path / "log").read_text()
        assert "on_commit trigger in Python failed: Unspoken" in text
        assert "on_shutdown trigger in Python failed: Unspoken" in text

    asyncio.run(run())
