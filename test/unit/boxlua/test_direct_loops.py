"""Loops and reads that begin with a direct search (`lua/bindings/direct_reads.py`) see each change, as others do."""

from __future__ import annotations

import pytest

from .box_support import Box, Run

CREATE = """
    fiber = require('fiber')
    s = box.schema.space.create('test')
    s:create_index('pk')
    s:create_index('loose', {parts = {{2, 'unsigned'}}, unique = false})
    s:create_index('hash', {type = 'HASH', parts = {{1, 'unsigned'}}})
    s:create_index('area', {type = 'RTREE', unique = false, parts = {{3, 'array'}}})
    s:create_index('bits', {type = 'BITSET', unique = false, parts = {{2, 'unsigned'}}})
    for id = 1, 40 do s:insert{id, id <= 30 and 5 or 6, {id <= 30 and 5 or 6, 5}} end
    function numbers(index, key, iterator, change, step)
        local seen = {}
        for _, tuple in s.index[index]:pairs(key, {iterator = iterator}) do
            table.insert(seen, tuple[1])
            if #seen == (step or 1) then change() end
        end
        return seen
    end
    function fill() s:truncate() for id = 1, 10, 3 do s:insert{id, 5, {5, 5}} end end
    function nothing() end
    fill()
"""
LOOPS = (
    ("loose", "5", "EQ"),
    ("loose", "{5}", "GE"),
    ("pk", "nil", "ALL"),
    ("pk", "0", "GT"),
    ("hash", "nil", "ALL"),
    ("area", "{5, 5}", "EQ"),
    ("area", "{0, 0, 9, 9}", "OVERLAPS"),
)
BACKWARDS = (("loose", "5", "REQ"), ("loose", "5", "LE"), ("pk", "50", "LT"))
CHANGE = "s:delete(4) s:replace{8, 5, {5, 5}} s:replace{11, 5, {5, 5}}"


@pytest.mark.parametrize("way", ["function() %s end", "function() fiber.create(function() %s end) fiber.yield() end"])
def test_the_rest_of_a_loop_is_what_is_there_then(run: Run, way: str) -> None:
    """A change by the loop or another fiber shows in its next steps, from the first step to the last."""

    async def body(box: Box) -> None:
        await box(CREATE)
        for index, key, iterator in (*LOOPS, *BACKWARDS):
            is_forward = (index, key, iterator) not in BACKWARDS
            call = f"return numbers('{index}', {key}, '{iterator}', {way % CHANGE}, %d)"
            for step in range(1, 5):
                await box("fill()")
                old, new = [1, 4, 7, 10], [1, 7, 8, 10, 11]
                if not is_forward:
                    old, new = old[::-1], new[::-1]
                last = old[step - 1]
                rest = [number for number in new if (number > last if is_forward else number < last)]
                assert await box(call % step) == old[:step] + rest, (index, key, iterator, step)

    run(body)


def test_a_change_before_the_first_step_counts(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        for index, key, iterator in LOOPS:
            await box("fill()")
            found = await box(
                f"local gen, param, state = s.index.{index}:pairs({key}, {{iterator = '{iterator}'}})"
                f" {CHANGE} local seen = {{}}"
                " for _, tuple in gen, param, state do table.insert(seen, tuple[1]) end return seen"
            )
            assert found == [1, 7, 8, 10, 11], (index, key, iterator)

    run(body)


def test_a_loop_by_a_full_key_finds_one_tuple(run: Run) -> None:
    """What is put under the key during the loop is no second tuple."""

    async def body(box: Box) -> None:
        await box(CREATE)
        for index in ("pk", "hash"):
            assert await box(f"return numbers('{index}', 4, 'EQ', function() s:replace{{4, 9, {{1, 1}}}} end)") == [4]
            assert await box(f"return numbers('{index}', 5, 'EQ', nothing)") == []

    run(body)


def test_a_long_loop_goes_on_after_its_first_tuples(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(CREATE)
        for count in (15, 16, 17, 80, 81):
            await box("s:truncate() for id = 1, ... do s:insert{id, 5, {5, 5}} end", count)
            for index, key, iterator in (*LOOPS, ("bits", "1", "BITS_ANY_SET")):
                for change in ("nothing", "fiber.yield"):
                    found = await box(f"return numbers('{index}', {key}, '{iterator}', {change})")
                    assert found == list(range(1, count + 1)), (count, index, key, iterator)

    run(body)


def test_a_key_of_another_type_is_refused_as_ever(run: Run) -> None:
    """A text is no key of binary parts, and no search by such a key counts twice as a request or as an error."""

    async def body(box: Box) -> None:
        await box(CREATE + "s:create_index('raw', {parts = {{4, 'varbinary', is_nullable = true}}, unique = false})")
        await box("s.index.raw:select{} s.index.hash:select(1)")
        wrong = "Supplied key type of part 0 does not match index part type: expected"
        before = await box("return {box.stat().SELECT.total, box.stat().ERROR.total}")
        assert await box.fails("s.index.raw:select('a')") == f"{wrong} varbinary"
        assert await box.fails("s.index.raw:count('a')") == f"{wrong} varbinary"
        assert await box.fails("s.index.raw:pairs('a')") == f"{wrong} varbinary"
        assert await box.fails("s.index.hash:get{'a'}") == f"{wrong} unsigned"
        assert await box("return {box.stat().SELECT.total, box.stat().ERROR.total}") == [before[0] + 1, before[1] + 4]

    run(body)


def test_the_first_read_of_a_transaction_with_a_wrong_key_binds_it_to_no_engine(run: Run) -> None:
    """After it a transaction may wait; after a read with a right key it may not."""

    async def body(box: Box) -> None:
        await box(CREATE + "s.index.loose:select(5)")
        read = "box.begin() local ok = pcall(s.index.loose.select, s.index.loose, ...) fiber.yield()"
        assert (await box.raw(f"{read} return ok, pcall(box.commit)", "a"))[:2] == [False, True]
        assert (await box.raw(f"{read} return ok, pcall(box.commit)", 5))[:2] == [True, False]

    run(body)


def test_a_finalizer_that_searches_leaves_the_search_around_it_alone(run: Run) -> None:
    """Both leave their tuple in the same memory."""

    async def body(box: Box) -> None:
        await box(CREATE + "s:create_index('pair', {type = 'HASH', parts = {{1, 'unsigned'}, {2, 'unsigned'}}})")
        assert await box("""
            local ffi, index, pair = require('ffi'), s.index.area, s.index.pair
            local wrong, runs = 0, 0
            local function search()
                runs = runs + 1
                index:select({5, 5}, {limit = 1})
                pair:get{7, 5}
            end
            -- Little else is allocated here, so that many finalizers interrupt the copy of a tuple.
            local box, options, key = {0, 0, 9, 9}, {iterator = 10, limit = 1, offset = 1}, {10, 5}
            local reads = {
                function() return index:select(box, options)[1][1] == 4 end,
                function() return pair:get(key)[1] == 10 end,
                function() for _, tuple in pair:pairs(key) do return tuple[1] == 10 end end,
            }
            for _, read in ipairs(reads) do
                for round = 1, 20000 do
                    if round % 10 == 0 then ffi.gc(ffi.new('char[10]'), search) end
                    if not read() then wrong = wrong + 1 end
                end
            end
            return {wrong, runs > 0}
        """) == [0, True]

    run(body)


MANY_KEYS = """
    math.randomseed(...)
    local function random(most) return math.random(0, most) end
    box.schema.func.create('one', {
        body = 'function(tuple) return {tuple[3]} end', is_deterministic = true, is_sandboxed = true,
    })
    box.schema.func.create('many', {
        body = [[function(tuple)
            local keys = {}
            for _, number in ipairs(tuple[2]) do table.insert(keys, {number}) end
            return keys
        end]], is_deterministic = true, is_sandboxed = true, opts = {is_multikey = true},
    })
    local s = box.schema.space.create('many')
    s:create_index('pk')
    local indexes = {
        s:create_index('elements', {parts = {{'[2][*]', 'unsigned'}}, unique = false}),
        s:create_index('one', {parts = {{1, 'unsigned'}}, func = 'one', unique = false}),
        s:create_index('many', {parts = {{1, 'unsigned'}}, func = 'many', unique = false}),
        s:create_index('area', {type = 'RTREE', parts = {{4, 'array'}}, unique = false}),
        s:create_index('bits', {type = 'BITSET', parts = {{3, 'unsigned'}}, unique = false}),
    }
    local function write(id)
        local elements = {}
        for place = 1, random(3) do elements[place] = random(9) end
        s:replace{id, elements, random(9), {random(9), random(9)}}
    end
    for id = 1, 70 do write(id) end
    local searches = require('box.direct').searches
    local function seen(index, key, iterator, length, step, change)
        local found = {}
        for _, tuple in index:pairs(key, {iterator = iterator}) do
            table.insert(found, tuple[1])
            if #found == step then change() end
            if #found == length then break end
        end
        return found
    end
    local trees, kinds = {'EQ', 'REQ', 'GE', 'GT', 'LE', 'LT', 'ALL'}, {}
    kinds.area = {'EQ', 'OVERLAPS', 'GE', 'LE', 'NEIGHBOR', 'ALL'}
    kinds.bits = {'EQ', 'BITS_ALL_SET', 'BITS_ANY_SET', 'BITS_ALL_NOT_SET', 'ALL'}
    local wrong = {}
    for round = 1, 150 do
        local index = indexes[1 + random(#indexes - 1)]
        local list = kinds[index.name] or trees
        local iterator = list[1 + random(#list - 1)]
        local key = index.name == 'area' and {random(9), random(9)} or random(9)
        local length, step, id, seed = 1 + random(120), 1 + random(60), 1 + random(69), random(1e6)
        local kind = random(3)
        local function change()
            math.randomseed(seed)
            if kind == 0 then return end
            for other = id, id + kind * 2 do
                if random(2) == 0 then s:delete(other) else write(other) end
            end
        end
        local before = s:select()
        local function refill()
            s:truncate()
            for _, tuple in ipairs(before) do s:replace(tuple) end
        end
        refill()
        local direct = seen(index, key, iterator, length, step, change)
        refill()
        index:select({}, {iterator = 'ALL', limit = 1})    -- finds the direct searches of the index
        local search = searches[index]
        searches[index] = false
        local general = seen(index, key, iterator, length, step, change)
        searches[index] = search
        if require('json').encode(direct) ~= require('json').encode(general) then
            table.insert(wrong, {index.name, iterator, key, length, step, direct, general})
        end
    end
    return wrong
"""


@pytest.mark.parametrize("seed", range(2))
def test_a_loop_that_meets_tuples_often_goes_on_as_a_general_cursor(run: Run, seed: int) -> None:
    """Indexes of all kinds, with changes in the middle of the loop, and first chunks of many sizes."""

    async def body(box: Box) -> None:
        assert await box(MANY_KEYS, seed + 1) == []

    run(body)
