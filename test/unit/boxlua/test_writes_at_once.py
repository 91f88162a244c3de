"""Changes in Lua where tuples have versions: the log gets each at once, so nobody can see it before it is written."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from box.embed import LuaInstance
from box.journal import journal

from .box_support import Box, Run

SPACE = """
    s = box.schema.space.create('s')
    s:create_index('pk')
    fiber = require('fiber')
    function yields(work)
        local id = fiber.self():id()
        local before = fiber.info()[id].csw
        for i = 1, 3 do work(i) end
        return fiber.info()[id].csw - before
    end
"""
WRITES = {
    "replace": "function(i) s:replace{i, 'a'} end",
    "update": "function(i) s:update(1, {{'=', 2, i}}) end",
    "commit": "function(i) box.begin() s:replace{i, 'a'} s:replace{i + 10, 'a'} box.commit() end",
}


@pytest.fixture(autouse=True)
def slow_writes_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the node write at once even on a busy machine, where the log's thread takes over after slow writes."""
    monkeypatch.setattr(journal, "_SLOW_WRITE", math.inf)


def refuse_general_path(monkeypatch: pytest.MonkeyPatch, instance: LuaInstance) -> None:
    """Let every change fail that takes the general path or makes versions of tuples."""

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("this change needs no versions")

    monkeypatch.setattr(instance.node.dml._general, "run", refuse)
    monkeypatch.setattr(instance.node.tuples, "make_versions", refuse)
    monkeypatch.setattr(instance.node.tuples, "put", refuse)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_yields_and_makes_no_versions(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + "s:replace{1, 'x'}")
        refuse_general_path(monkeypatch, box.instance)
        assert await box(f"return yields({write})") == 3

    run(body, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


def test_what_statements_return(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(box: Box) -> None:
        await box(SPACE)
        refuse_general_path(monkeypatch, box.instance)
        assert await box("return s:insert{1, 'a'}") == [1, "a"]
        assert await box("return s:replace{1, 'b'}") == [1, "b"]
        assert await box("return s:update(1, {{'=', 2, 'c'}})") == [1, "c"]
        assert await box("return s:update(2, {{'=', 2, 'c'}})") is None
        assert await box("return s:upsert({2, 'd'}, {})") is None
        assert await box("return s:delete(1)") == [1, "c"]
        assert await box("return s:delete(1)") is None
        assert await box.fails("s:insert{2, 'e'}") == (
            'Duplicate key exists in unique index "pk" in space "s" with old tuple - [2, "d"] and new tuple - [2, "e"]'
        )
        assert await box("return s:select()") == [[2, "d"]]

    run(body, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


def test_a_transaction_that_yields_is_isolated(run: Run, tmp_path: Path) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + "s:replace{1, 'a'}")
        seen = """
            box.begin()
            s:replace{1, 'b'}
            local other
            fiber.create(function() other = s:get(1)[2] end)
            fiber.yield()
            box.commit()
            return other, s:get(1)[2]
        """
        assert await box(seen) == ["a", "b"]

    run(body, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


def test_a_write_that_fails_is_undone(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + "s:replace{1, 'a'}")
        writer = box.instance.node.journal._writer

        def fail(data: bytes) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(writer, "_write_or_make_room", fail)
            for change in (
                "s:replace{1, 'b'}",
                "s:insert{2, 'b'}",
                "s:delete(1)",
                "box.begin() s:delete(1) s:replace{2} box.commit()",
            ):
                assert await box.fails(change) == "Failed to write to disk"
                assert await box("return s:select()") == [[1, "a"]]
        await box("s:replace{2, 'c'}")

    run(body, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)

    async def after(box: Box) -> None:
        assert await box("return box.space.s:select()") == [[1, "a"], [2, "c"]]

    run(after, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


def test_a_busy_log_takes_the_usual_way(run: Run, tmp_path: Path) -> None:
    """While the log's thread writes, changes get versions, and readers do not see them before they are written."""

    async def body(box: Box) -> None:
        await box(SPACE + "s:replace{1, 'a'}")
        await box("box.error.injection.set('ERRINJ_WAL_DELAY', true)")
        work = asyncio.ensure_future(box.raw("return s:replace{1, 'b'}"))
        await asyncio.sleep(0)
        other = Box(box.instance)
        assert await other("return s:get(1)") == [1, "a"]
        await other("box.error.injection.set('ERRINJ_WAL_DELAY', false)")
        assert await work == [[1, "b"]]
        assert await other("return s:get(1)") == [1, "b"]

    run(body, tmp_path, wal_mode="write", memtx_use_mvcc_engine=True)


HISTORY = """
    local seed, log, ended = ..., {}, fiber.channel(3)
    math.randomseed(seed)
    local random = math.random
    local function note(name, ok, ...)
        local found = {name, ok}
        for _, value in ipairs{...} do
            value = box.tuple.is(value) and value:totable() or value
            table.insert(found, type(value) == 'cdata' and value.message or value)
        end
        table.insert(log, require('json').encode(found))
    end
    local actions = {
        function() return s:replace{random(4), random(3)} end,
        function() return s:insert{random(4), random(3)} end,
        function() return s:update(random(4), {{'+', 2, 1}}) end,
        function() return s:upsert({random(4), random(3)}, {{'+', 2, 1}}) end,
        function() return s:delete(random(4)) end,
        function() return s:get(random(4)) end,
        function() return unpack(s.index.second:select(random(3))) end,
        function() return s:count() end,
        function() box.begin() end,
        function() box.commit() end,
        function() box.commit() end,
        function() box.rollback() end,
    }
    local turns = {}
    for name = 1, 3 do
        turns[name] = fiber.channel(1)
        fiber.create(function()
            for number in function() return turns[name]:get() end do
                note(('%d.%d'):format(name, number), pcall(actions[number]))
                ended:put(true)
            end
        end)
    end
    for _ = 1, 30 do    -- one fiber acts, or several in one round
        local first, count = random(3), random(3)
        for place = first, first + count - 1 do turns[place % 3 + 1]:put(random(#actions)) end
        for _ = 1, count do ended:get() end
    end
    for name = 1, 3 do turns[name]:close() end
    note('rest', true, unpack(s:select()))
    s:truncate()
    return log
"""
HISTORIES = 60


def test_histories_are_those_with_versions(run: Run, tmp_path: Path) -> None:
    """Fibers that change and read the same tuples see what they see if every change makes versions."""

    async def body(box: Box) -> list[Any]:
        await box(SPACE + "s:create_index('second', {parts = {{2, 'unsigned'}}, unique = false})")
        return [await box(HISTORY, seed) for seed in range(HISTORIES)]

    async def at_once(box: Box) -> None:
        found.append(await body(box))

    async def with_versions(box: Box) -> None:
        node = box.instance.node
        node.dml.store_now, node.dml.commit_now = node.dml.store, node.txns.commit
        begin = node.txns.begin_limited

        def begin_shared(ctx: Any, *arguments: Any) -> Any:
            begin(ctx, *arguments).is_lone = False
            return ctx.txn

        node.txns.begin_limited = begin_shared  # type: ignore[method-assign]
        found.append(await body(box))

    found: list[list[Any]] = []
    for number, work in enumerate((at_once, with_versions)):
        directory = tmp_path / str(number)
        directory.mkdir()
        run(work, directory, wal_mode="write", memtx_use_mvcc_engine=True)
    for seed, (own, expected) in enumerate(zip(*found, strict=True)):
        assert own == expected, seed
    assert len({text for history in found[0] for text in history}) > 100
