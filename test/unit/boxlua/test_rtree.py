"""RTREE indexes in Lua: reads, writes and rollbacks, changed definitions, conflicts, restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from .box_support import Box, Run

PREPARE = """
    s = box.schema.space.create('s')
    s:create_index('pk')
    i = s:create_index('i', {type = 'rtree', parts = {2, 'array'}})
    function ids(tuples)
        local found = {}
        for n, t in ipairs(tuples) do found[n] = t[1] end
        table.sort(found)
        return found
    end
    function near(point, limit)
        local found = {}
        for n, t in ipairs(s.index.i:select(point, {iterator = 'NEIGHBOR', limit = limit})) do found[n] = t[1] end
        return found
    end
"""
FILL = "for x = 1, 10 do for y = 1, 10 do s:replace{x * 100 + y, {x, y}} end end "


def test_reads(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(PREPARE + FILL)
        assert await box("return i.type, i.dimension, i.unique, i:len()") == ["RTREE", 2, None, 100]
        assert await box("return ids(i:select({1, 1, 2, 2}, {iterator = 'LE'}))") == [101, 102, 201, 202]
        assert await box("return ids(i:select({{1, 1, 2.5, 1}}, {iterator = 'OVERLAPS'}))") == [101, 201]
        assert await box("return ids(i:select{3, 4})") == [304]
        assert await box("return near({0, 0}, 3)[1], #near({0, 0}, 7)") == [101, 7]
        assert await box("return i:count({5, 5, 20, 20}, {iterator = 'LT'})") == 25
        await box("n = 0 for _, t in i:pairs({0, 0}, {iterator = 'NEIGHBOR'}) do n = n + 1 s:delete(t[1]) end")
        assert await box("return n, s:len(), i:len(), #i:select{}") == [100, 0, 0, 0]

    run(body)


def test_writes_of_a_transaction_are_taken_back(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(PREPARE + FILL)
        await box("""
            box.begin()
            s:update(101, {{'=', 2, {50, 50}}}) s:delete(102) s:insert{1, {60, 60, 61, 61}}
            inside = {i:count({40, 40, 70, 70}, {iterator = 'OVERLAPS'}), i:count{1, 2}}
            box.rollback()
        """)
        assert await box("return inside") == [2, 0]
        assert await box("return i:count({40, 40, 70, 70}, {iterator = 'OVERLAPS'}), i:count{1, 2}") == [0, 1]
        text = "RTree: Field must be an array with 2 (point) or 4 (rectangle/box) numeric coordinates"
        assert await box("return select(2, pcall(s.insert, s, {2, {1, 2, 3}})).message") == text
        assert await box("return s:get(2), i:len()") == [None, 100]

    run(body)


def test_a_definition_that_changes(run: Run) -> None:
    """Another dimension or distance makes another index; several indexes work side by side."""

    async def body(box: Box) -> None:
        await box(PREPARE + "s:replace{1, {3, 3}} s:replace{2, {0, 5}} s:replace{3, {9, 9, 1, 1}}")
        assert await box("return near({0, 0}, 2)") == [3, 1]
        assert await box("i:alter{distance = 'manhattan'} return near({0, 0}, 2)") == [3, 2]
        failed = "return select(2, pcall(i.alter, i, {dimension = 3})).message"
        assert (await box(failed)).startswith("RTree: Field must be an array with 3 (point) or 6 (rectangle/box)")
        assert await box("return i.dimension, near({0, 0}, 9)") == [2, [3, 2, 1]]
        await box("s:truncate() j = s:create_index('j', {type = 'rtree', dimension = 1, parts = {{3, 'array'}}})")
        await box("s:insert{1, {1, 1}, {7}} s:insert{2, {2, 2}, {5, 8}}")
        assert await box("return ids(j:select({{6, 7}}, {iterator = 'GE'})), ids(i:select{2, 2})") == [[2], [2]]
        await box("i:drop() s:replace{1, {}, {9}}")
        assert await box("return j:count({{9}})") == 1

    run(body)


def test_transactions_that_wait_see_their_own_tuples(run: Run) -> None:
    """A transaction that has read a window conflicts with tuples that appear inside, not outside."""

    async def body(box: Box) -> None:
        await box(
            PREPARE
            + FILL
            + """
            fiber = require('fiber')
            function compete(point)
                local outcome
                box.begin()
                local seen = i:count({1, 1, 2, 2}, {iterator = 'LE'})
                s:replace{1000, {90, 90}}
                local other = fiber.new(function()
                    outcome = i:count({90, 90})
                    s:replace{2000, point}
                end)
                other:set_joinable(true) other:join()
                return outcome, seen, i:count({90, 90}), (pcall(box.commit))
            end
        """
        )
        assert await box("return compete{1.5, 1.5}") == [0, 4, 1, False]
        await box("s:delete(2000)")
        assert await box("return compete{5, 5}") == [0, 4, 1, True]

    run(body, memtx_use_mvcc_engine=True)


@pytest.mark.parametrize("snapshot", [True, False])
def test_after_a_restart(run: Run, tmp_path: Path, snapshot: bool) -> None:
    async def write(box: Box) -> None:
        await box(PREPARE + FILL + "s:delete(101)" + ("box.snapshot()" if snapshot else ""))
        await box("s:replace{1, {50, 50}} s:delete(1010)")

    async def read(box: Box) -> None:
        await box("s = box.space.s i = s.index.i")
        assert await box("return i:len(), i:count({1, 1, 2, 2}, {iterator = 'LE'})") == [99, 3]
        assert await box("return i:select({60, 60}, {iterator = 'NEIGHBOR', limit = 1})[1][1]") == 1

    run(write, tmp_path, wal_mode="write")
    run(read, tmp_path, wal_mode="write")
