"""Spaces with HASH indexes in Tarantool's order. The expected orders were observed on 2.8.1."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from box import Node
from test.support import until

from .box_support import Box, Run

SPACE = """
    s = box.schema.space.create('s')
    s:create_index('pk', {type = 'hash', parts = {{1, 'unsigned'}}})
    s:create_index('sk', {type = 'hash', parts = {{2, 'unsigned'}}})
"""
FUNCTIONS = """
    function order(index) return index:pairs():map(function(t) return t[1] end):totable() end
    function both() return {order(s.index[0]), order(s.index[1])} end
"""
ROWS = "for k = 0, 5 do s:insert{k * 8, k * 8} end "


@pytest.fixture(autouse=True)
def with_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUNABOX_HASH_ORDER", "slots")


def test_refused_changes_move_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS)
        await box("pcall(s.insert, s, {16, 1})")
        assert await box("return both()") == [[0, 16, 8, 24, 32, 40], [0, 8, 16, 24, 32, 40]]
        await box("pcall(s.insert, s, {3, 24})")
        assert await box("return both()") == [[0, 16, 8, 32, 40, 24], [0, 8, 24, 16, 32, 40]]
        await box("pcall(s.update, s, {8}, {{'=', 1, 4}})")
        assert await box("return both()") == [[0, 16, 8, 32, 40, 24], [0, 8, 24, 16, 32, 40]]
        await box("pcall(s.replace, s, {8, 24})")
        assert await box("return both()") == [[0, 16, 8, 32, 40, 24], [0, 8, 40, 16, 32, 24]]

    run(body)


def test_a_rollback_undoes_changes_in_the_same_table(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS)
        await box("pcall(s.insert, s, {16, 1}) pcall(s.insert, s, {3, 24}) pcall(s.replace, s, {8, 24})")
        await box("box.begin() s:delete{8} s:insert{100, 100} s:update({16}, {{'=', 2, 17}}) box.rollback()")
        assert await box("return both()") == [[0, 16, 32, 8, 40, 24], [0, 40, 16, 8, 24, 32]]

    run(body)


def test_deletions_during_an_iteration_skip_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS)
        await box("pcall(s.insert, s, {16, 1}) pcall(s.insert, s, {3, 24}) pcall(s.replace, s, {8, 24})")
        await box("box.begin() s:delete{8} s:insert{100, 100} s:update({16}, {{'=', 2, 17}}) box.rollback()")
        await box("seen = {} for _, t in s:pairs() do table.insert(seen, t[1]) s:delete{t[1]} end")
        assert await box("return {seen, order(s)}") == [[0, 16, 32, 40, 24], [8]]

    run(body)


def test_large_rollbacks_and_failed_writes_undo_change_by_change(run: Run, tmp_path: Path) -> None:
    """The order is the same as with single changes that are undone in the opposite order."""

    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS)
        await box("box.begin() for k = 101, 3100 do s:insert{k * 8 + 1, k} end box.rollback()")
        rolled_back = await box("return both()")
        await box("s:drop()" + SPACE + FUNCTIONS + ROWS)
        await box("for k = 101, 3100 do s:insert{k * 8 + 1, k} end for k = 3100, 101, -1 do s:delete{k * 8 + 1} end")
        assert await box("return both()") == rolled_back
        await box("s:drop()" + SPACE + FUNCTIONS + ROWS)
        await box("box.error.injection.set('ERRINJ_WAL_IO', true)")
        await box("box.begin() for k = 101, 3100 do s:insert{k * 8 + 1, k} end pcall(box.commit)")
        await box("box.error.injection.set('ERRINJ_WAL_IO', false)")
        assert await box("return both()") == rolled_back

    run(body, tmp_path, wal_mode="write")


def test_an_index_is_built_in_the_order_of_the_primary_one(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(
            SPACE
            + FUNCTIONS
            + "s:insert{8, 8} for k = 20, 0, -1 do s:replace{k, k * 3} end s:delete{5} s:replace{77, 1}"
        )
        await box("s:create_index('late', {type = 'hash', parts = {{2, 'unsigned'}}})")
        late = "0 77 1 12 20 2 13 8 3 14 9 4 15 10 11 16 6 17 7 18 19"
        assert await box("return order(s.index.late)") == list(map(int, late.split()))
        assert (await box.fails("s:create_index('wrong', {type = 'hash', parts = {{3, 'string'}}})")).endswith(
            "Tuple field 3 required by space format is missing"
        )

    run(body)


def test_a_restart_keeps_the_order_of_the_snapshot_and_builds_the_other_indexes_anew(run: Run, tmp_path: Path) -> None:
    async def first(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS + "pcall(s.insert, s, {16, 1}) box.snapshot() s:insert{2, 100} s:delete{32}")
        assert await box("return both()") == [[0, 16, 2, 24, 40, 8], [0, 8, 16, 24, 2, 40]]

    async def second(box: Box) -> None:
        await box("s = box.space.s " + FUNCTIONS)
        assert await box("return both()") == [[0, 16, 2, 24, 40, 8], [0, 16, 24, 40, 2, 8]]

    run(first, tmp_path, wal_mode="write")
    run(second, tmp_path, wal_mode="write")


def test_versions_of_tuples_live_in_slots(run: Run) -> None:
    """An open transaction sees its own changes in the order of the slots, others do not see them."""

    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS + "fiber = require('fiber')")
        await box("""
            open = fiber.channel(1)
            writer = fiber.new(function()
                box.begin() s:delete{16} s:insert{3, 3} own = order(s) open:get() box.commit()
            end)
            writer:set_joinable(true)
            fiber.yield()
        """)
        assert await box("return own") == [0, 8, 3, 32, 40, 24]
        assert await box("return {order(s), s:len(), s:select({8}, {iterator = 'GT', limit = 1})}") == [
            [0, 8, 16, 32, 40, 24],
            6,
            [[16, 16]],
        ]
        await box("open:put(1) writer:join()")
        assert await box("return both()") == [[0, 8, 3, 32, 40, 24], [0, 8, 3, 32, 40, 24]]
        message = await box.fails("s:insert{24, 1}")
        assert message.startswith('Duplicate key exists in unique index "pk"')
        assert await box("return order(s)") == [0, 8, 3, 32, 40, 24]

    run(body, memtx_use_mvcc_engine=True)


def test_a_long_query_sees_one_state(run: Run) -> None:
    """A query that waits for its next turn goes on with the tuples that the index had before the turn."""

    async def body(box: Box) -> None:
        await box("""
            t = box.schema.space.create('T', {format = {{'A', 'unsigned'}, {'B', 'unsigned'}}})
            t:create_index('pk', {type = 'hash', parts = {1}})
            box.begin() for k = 1, 6000 do t:insert{k * 7, k} end box.commit()
            fiber = require('fiber')
            changes, is_over = 0, false
            fiber.create(function()
                while not is_over do
                    changes = changes + 1
                    t:replace{changes * 7 + 1, 1}
                    t:delete{changes * 7}
                    fiber.yield()
                end
            end)
            rows = box.execute("SELECT COUNT(*), SUM(B) FROM T WHERE LENGTH(QUOTE(A)) > 0").rows
            is_over = true
        """)
        assert await box("return rows[1]:totable()") == [6000, 6000 * 6001 // 2]
        assert await box("return changes") > 1

    run(body)


def test_without_the_variable_the_order_is_that_of_keys(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUNABOX_HASH_ORDER", "keys")

    async def body(box: Box) -> None:
        await box(SPACE + FUNCTIONS + ROWS + "pcall(s.insert, s, {16, 1})")
        assert await box("return both()") == [[0, 8, 16, 24, 32, 40]] * 2

    run(body)


def test_a_hot_standby_builds_the_other_indexes_before_it_follows(tmp_path: Path) -> None:
    """A standby builds its secondary indexes when it has read what is there; later changes are made one by one."""
    log = tmp_path / "standby.log"

    async def main() -> None:
        async with Node(tmp_path, log_level=0) as master:
            await master.eval(SPACE + FUNCTIONS + ROWS + "pcall(s.insert, s, {16, 1})")
            standby = Node(tmp_path, log_level=5, log=str(log), hot_standby=True)
            start = asyncio.ensure_future(standby.start())
            await until(lambda: log.exists() and "Entering hot standby mode" in log.read_text())
            await master.eval("""
                s:insert{2, 100} s:delete{32}
                for k = 20, 40, 3 do s:replace{k, k * 3 + 1} end
                s:delete{24}
            """)
        await start
        assert await standby.eval("s = box.space.s " + FUNCTIONS + "return both()") == [
            [0, 8, 2, 35, 20, 38, 23, 40, 26, 16, 29, 32],
            [0, 32, 16, 38, 2, 8, 23, 40, 35, 20, 29, 26],
        ]
        await standby.stop()

    asyncio.run(asyncio.wait_for(main(), 60))
    lines = [line.partition("I> ")[2] for line in log.read_text().splitlines()]
    built = lines.index("Building secondary indexes in space 's'...")
    assert lines[built + 1 : built + 4] == [
        "Adding 6 keys to HASH index 'sk' ...",
        "Space 's': done",
        "Entering hot standby mode",
    ]
