"""Triggers of spaces that wait: what is in memory afterwards is what the log has, and nobody sees what is undone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from box import Node

from .box_support import Box, Run

_SPACES = """
    fiber = require('fiber')
    s, o = box.schema.space.create('s'), box.schema.space.create('o')
    s:create_index('pk') o:create_index('pk')
"""
_ABORTED = "Transaction has been aborted by a fiber yield"


def test_others_never_see_what_a_trigger_stores_after_it_has_waited(run: Run) -> None:
    """The fiber of a statement goes on in a later turn than its trigger ends."""

    async def body(box: Box) -> None:
        await box(_SPACES)
        await box("s:on_replace(function() fiber.yield() o:upsert({3, 1}, {{'+', 2, 1}}) end)")
        await box(
            "fibers = {} for i = 1, 5 do fibers[i] = fiber.new(s.replace, s, {i}) fibers[i]:set_joinable(true) end"
        )
        errors = await box("local r = {} for i = 1, 5 do r[i] = tostring(select(2, fibers[i]:join())) end return r")
        assert errors == [_ABORTED] * 5
        assert await box("return o:select(), s:select()") == [[], []]

    run(body)


def test_a_statement_whose_before_replace_trigger_waits_again_stores_nothing(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SPACES)
        await box("s:before_replace(function(old, new) fiber.yield() return new end)")
        message = await box.fails(
            "box.begin() o:replace{1} fiber.yield() for i = 1, 3 do pcall(s.replace, s, {i}) end box.commit()"
        )
        assert message == _ABORTED
        assert await box("return s:select(), o:select()") == [[], []]

    run(body)


def test_errors_after_a_wait_undo_what_other_triggers_have_stored(run: Run) -> None:
    """Triggers of two spaces fire each other, and wait, until the limit of nested statements."""

    async def body(box: Box) -> None:
        await box(_SPACES)
        await box("s:on_replace(function() fiber.yield() o:replace{1} end)")
        await box("o:on_replace(function() fiber.yield() s:replace{1} end)")
        for _ in range(3):
            message = await box.fails("s:replace{1}")
            assert message == "Can not execute a nested statement: nesting limit reached"
            assert await box("return s:select(), o:select()") == [[], []]

    run(body)


@pytest.mark.parametrize(
    ("trigger", "rows"),
    [
        ("if new and new[2] ~= 2 then s:replace{1, 2} end return new", [[1, 1]]),
        ("if new and new[2] ~= 2 then s:delete{1} end return new", [[1, 1]]),
        ("s:truncate() return new", [[1, 1]]),
        ("o:replace{5} return new", [[1, 1]]),
    ],
)
def test_the_log_has_the_order_of_the_changes(tmp_path: Path, trigger: str, rows: list[list[int]]) -> None:
    """A before_replace trigger changes the space before its statement does."""

    async def main() -> tuple[Any, Any]:
        options: dict[str, Any] = {"log_level": 1, "log": str(tmp_path / "log")}
        async with Node(str(tmp_path), **options) as node:
            await node.eval(f"{_SPACES} s:before_replace(function(old, new) {trigger} end) s:replace{{1, 1}}")
            before = await node.eval("return s:select()")
        async with Node(str(tmp_path), **options) as node:
            return before, await node.eval("return box.space.s:select()")

    assert asyncio.run(main()) == (rows, rows)


def test_the_log_has_the_order_of_the_changes_if_the_trigger_is_taken_away_meanwhile(tmp_path: Path) -> None:
    async def main() -> tuple[Any, Any]:
        options: dict[str, Any] = {"log_level": 1, "log": str(tmp_path / "log"), "memtx_use_mvcc_engine": True}
        async with Node(str(tmp_path), **options) as node:
            await node.eval(
                f"""{_SPACES}
                trigger = function(old, new) s:truncate() fiber.yield() return new end
                s:before_replace(trigger)
                local f = fiber.new(s.replace, s, {{1, 1}})
                f:set_joinable(true)
                fiber.yield()
                s:before_replace(nil, trigger)
                assert(f:join())
                """
            )
            before = await node.eval("return s:select()")
        async with Node(str(tmp_path), **options) as node:
            return before, await node.eval("return box.space.s:select()")

    assert asyncio.run(main()) == ([[1, 1]], [[1, 1]])


@pytest.mark.parametrize("kind", ["on_replace", "before_replace"])
@pytest.mark.parametrize("mvcc", [False, True])
def test_a_task_is_cancelled_while_a_trigger_waits(kind: str, *, mvcc: bool) -> None:
    problems: list[Any] = []

    async def main() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with Node(None, memtx_use_mvcc_engine=mvcc, log_level=1) as node:
            await node.eval(
                f"""{_SPACES}
                started, ended = fiber.cond(), fiber.cond()
                s:{kind}(function(old, new)
                    started:broadcast()
                    pcall(fiber.sleep, 0.01)
                    ended:broadcast()
                    return new
                end)
                """
            )

            async def store() -> None:
                async with node.transaction():
                    await node.eval("o:replace{1} s:replace{1}")

            task = asyncio.create_task(store())
            await node.eval("started:wait()")
            waits = asyncio.create_task(node.eval("ended:wait()"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await waits
            await asyncio.sleep(0.01)
            return await node.eval("return {s:select(), o:select()}")

    assert asyncio.run(main()) == [[], []]
    assert problems == []


def test_a_snapshot_waits_for_a_statement_of_a_transaction_with_definitions(tmp_path: Path) -> None:
    async def main() -> Any:
        options: dict[str, Any] = {"log_level": 1, "log": str(tmp_path / "log"), "memtx_use_mvcc_engine": True}
        async with Node(str(tmp_path), **options) as node:
            await node.eval(
                f"""{_SPACES}
                s:on_replace(function() fiber.sleep(0.02) end)
                f = fiber.new(function() box.begin() o:create_index('k') s:replace{{1}} box.commit() end)
                f:set_joinable(true)
                fiber.yield()
                """
            )
            assert await node.eval("return box.snapshot()") == "ok"
            # The transaction commits, or makes way if the snapshot comes between its statements.
            return await node.eval("local committed = f:join() return {committed, o.index.k ~= nil, #s:select() == 1}")

    assert asyncio.run(main()) in ([True] * 3, [False] * 3)


def test_after_a_trigger_that_waits_a_statement_has_its_result_and_the_commit_fails(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SPACES + "s:on_replace(function() fiber.yield() end)")
        found = await box("box.begin() local t = s:insert{1} local n = s:len() box.rollback() return t, n")
        assert found == [[1], 0]
        message = await box.fails("box.begin() s:insert{1} s:insert{2} box.commit()")
        assert message == "Transaction has been aborted by a fiber yield"
        assert await box("return box.is_in_txn(), s:len()") == [False, 0]

    run(body)


def test_a_trigger_of_a_system_space_that_waits_keeps_the_definition_as_it_was(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SPACES + "name, fields = s.name, #s:format() wait = function() fiber.yield() end")
        await box("box.space._space:on_replace(wait)")
        for statement in ("s:rename('t')", "s:format({{'id'}})", "box.schema.space.create('t')"):
            assert await box.fails(statement) == "Transaction has been aborted by a fiber yield"
        await box("box.space._space:on_replace(nil, wait)")
        assert await box("return box.space.t == nil, box.space[name].name == name, #s:format() == fields") == [True] * 3

    run(body)
