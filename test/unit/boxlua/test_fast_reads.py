"""Fast paths of reads from Lua (look-ups in the tree, loops that read ahead) give the results of the general paths."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import box.index.rtree_columns as columns
import lua.bindings.data as data
from box.embed import LuaInstance
from box.index import rtree_geometry
from box.index.rtree import RtreeIndex
from lua.bindings.cursor import OneByOne

from .box_support import Box, Run

KEYS = (
    *("0", "1", "2", "3", "1.5", "-1", "2^53", "1e300", "0/0", "1ULL", "-1LL", "true", "nil", "box.NULL"),
    *("'a'", "'b'", "''", "'a\\0b'", "('x'):rep(5000)", "{}", "{1}", "{2}", "{'a'}", "{1, 2}", "{nil, 1}"),
    *("box.tuple.new(1)", "box.tuple.new('a')", "require('decimal').new(1)", "{{1}}", "function() end"),
)
PLACES = ("s", "s.index.pk", "s.index.name", "s.index.loose", "box.space.s", "kept")
ITERATORS = ("EQ", "REQ", "GT", "GE", "LT", "LE", "ALL")

keys, places = st.sampled_from(KEYS), st.sampled_from(PLACES)
small = st.integers(0, 4)
reads = st.one_of(
    st.builds("{}:get({})".format, places, keys),
    st.builds("{}:get({})".format, places, keys),
    st.builds("{}:select({})".format, places, keys),
)
writes = st.one_of(
    st.builds("s:replace({{{}, '{}', {}}})".format, small, st.sampled_from("abcd"), small),
    st.builds("s:replace({{{}, ('x'):rep(5000), {}}})".format, small, small),
    st.builds("s:delete({})".format, small),
    st.builds("s:update({}, {{{{'=', 3, {}}}}})".format, small, small),
)
loops = st.builds(
    """(function()
        local seen = {{}}
        for _, tuple in {}:pairs({}, {{iterator = '{}'}}) do
            table.insert(seen, tuple)
            if #seen == {} then local _ = {} end
            if #seen > 20 then break end
        end
        return seen
    end)()""".format,
    places,
    keys,
    st.sampled_from(ITERATORS),
    st.integers(1, 3),
    writes,
)
shapes = st.lists(st.sampled_from(("0", "1", "2", "3", "7", "2.5", "-1", "3LL")), min_size=2, max_size=2).map(", ".join)
rectangles = st.lists(shapes, min_size=1, max_size=2).map(", ".join)
areas = st.one_of(
    rectangles.map("{{{}}}".format),
    rectangles.map("{{{{{}}}}}".format),
    st.sampled_from(("nil", "{}", "1", "{1}", "{'a', 1}", "{{1}}", "{1, 2, 3}", "{box.NULL, 1}", "{0/0, 1}")),
)
spatial = st.sampled_from(("EQ", "GT", "GE", "LT", "LE", "ALL", "OVERLAPS", "REQ"))
spatial_writes = st.one_of(
    st.builds("s:replace({{{}, {{{}}}}})".format, st.integers(0, 30), rectangles),
    st.builds("s:delete({})".format, st.integers(0, 30)),
    st.builds("fill({})".format, st.integers(2, 9)),
    st.sampled_from(("s:truncate()", "s.index.area:drop()", "create()", "fiber.yield()")),
)
spatial_reads = st.one_of(
    st.builds("s.index.area:select({}, {{iterator = '{}', limit = {}}})".format, areas, spatial, st.integers(0, 80)),
    st.builds("s.index.area:count({}, {{iterator = '{}'}})".format, areas, spatial),
    st.builds("near({{{}}}, {})".format, shapes, st.integers(0, 80)),
)
spatial_loops = st.builds(
    """(function()
        local seen = {{}}
        for _, tuple in s.index.area:pairs({}, {{iterator = '{}'}}) do
            table.insert(seen, tuple)
            if #seen % {} == 0 then local _ = {} end
            if #seen > 70 then break end
        end
        return seen
    end)()""".format,
    areas,
    spatial,
    st.integers(1, 40),
    spatial_writes,
)
spatial_steps = st.one_of(spatial_reads, spatial_reads, spatial_loops, spatial_writes)
spatial_programs = st.lists(spatial_steps, min_size=5, max_size=30)
others = st.sampled_from(
    [
        "box.begin()",
        "box.commit()",
        "box.rollback()",
        "box.session.su('guest')",
        "box.session.su('admin')",
        "box.session.su('guest', function() return s:get(1) end)",
        "s:truncate()",
        "s.index.name:drop()",
        "s:create_index('name', {parts = {{2, 'string'}}})",
        "s.index.pk:alter({parts = {{1, 'integer'}}})",
        "s.index.name:alter({parts = {{2, 'string', collation = 'unicode_ci'}}})",
        "s:format({{'id', 'unsigned'}, {'text', 'string'}})",
        "fiber.yield()",
        "s:rename('s')",
        "s:drop()",
    ]
)
programs = st.lists(st.one_of(reads, reads, writes, loops, others), min_size=5, max_size=40)
of_kinds = st.sampled_from(
    [f"s.index.{name}" for name in ("pk", "hash", "pair", "bits", "name", "loose", "many")] + ["kept"]
)
more_keys = st.one_of(keys, st.sampled_from(("{1, 'a'}", "{3, 'c'}", "{0, 'a', 2}", "{1, 2}", "{'b', 1}", "256", "4")))
kinds_of_iteration = st.sampled_from(
    (*ITERATORS, "BITS_ALL_SET", "BITS_ANY_SET", "BITS_ALL_NOT_SET", "OVERLAPS", "eq", "no")
)
options = st.one_of(
    st.just("nil"),
    st.builds("{{iterator = '{}'}}".format, kinds_of_iteration),
    st.builds(
        "{{iterator = {}, limit = {}, offset = {}}}".format,
        st.sampled_from(("nil", "'EQ'", "box.index.EQ", "'GE'", "'REQ'", "2", "-1", "1.5", "12", "0/0")),
        st.sampled_from(("nil", "0", "1", "2", "1.5", "-1", "4294967296", "'1'")),
        st.sampled_from(("nil", "0", "1", "2", "-1")),
    ),
)
reads_of_kinds = st.one_of(
    st.builds("{}:get({})".format, of_kinds, more_keys),
    st.builds("{}:select({}, {})".format, of_kinds, more_keys, options),
    st.builds("{}:count({}, {})".format, of_kinds, more_keys, options),
)
writes_of_kinds = st.one_of(
    st.builds(
        "s:replace({{{}, '{}', {}, {{{}, {}}}}})".format,
        small,
        st.sampled_from("abcd"),
        st.integers(0, 9),
        small,
        small,
    ),
    st.builds("fill({})".format, st.integers(1, 9)),
    st.builds("s:delete({})".format, small),
    st.builds("s:update({}, {{{{'=', 3, {}}}}})".format, small, st.integers(0, 9)),
)
loops_of_kinds = st.builds(
    """(function()
        local seen = {{}}
        for _, tuple in {}:pairs({}, {{iterator = '{}'}}) do
            table.insert(seen, tuple)
            if #seen == {} then local _ = {} end
            if #seen > 90 then break end
        end
        return seen
    end)()""".format,
    of_kinds,
    more_keys,
    kinds_of_iteration,
    st.sampled_from((1, 2, 3, 15, 16, 17, 40)),
    st.one_of(writes_of_kinds, st.just("fiber.yield()"), st.just("s.index.loose:alter({parts = {3, 'integer'}})")),
)
steps_of_kinds = st.one_of(reads_of_kinds, reads_of_kinds, loops_of_kinds, writes_of_kinds, others)
programs_of_kinds = st.lists(steps_of_kinds, min_size=5, max_size=40)

PRELUDE = """
local fiber = require('fiber')
local s = box.schema.space.create('s')
s:create_index('pk')
s:create_index('name', {parts = {{2, 'string'}}})
s:create_index('loose', {parts = {{3, 'unsigned'}}, unique = false})
for id = 0, 3 do s:insert{id, ('abcd'):sub(id + 1, id + 1), id} end
local kept, results = s.index.name, {}
local before = box.stat().SELECT.total
local function note(ok, result)
    if not ok then
        result = tostring(result)
    elseif box.tuple.is(result) then
        result = result:totable()
    elseif type(result) ~= 'table' or getmetatable(result) ~= nil or result.index ~= nil then
        result = type(result)
    end
    table.insert(results, {ok, result})
end
local function try(source)
    local run = setfenv(assert(loadstring('return ' .. source, '=step')), setmetatable({
        s = s, kept = kept, fiber = fiber,
    }, {__index = _G}))
    note(pcall(run))
end
for _, source in ipairs(...) do try(source) end
if box.is_in_txn() then box.rollback() end
return results, box.stat().SELECT.total - before
"""


PRELUDE_OF_KINDS = PRELUDE.replace(
    "for id = 0, 3 do s:insert{id, ('abcd'):sub(id + 1, id + 1), id} end",
    """
s:create_index('hash', {type = 'HASH', parts = {{1, 'unsigned'}}})
s:create_index('pair', {type = 'HASH', parts = {{1, 'unsigned'}, {2, 'string'}}})
s:create_index('bits', {type = 'BITSET', unique = false, parts = {{3, 'unsigned'}}})
s:create_index('many', {unique = false, parts = {{'[4][*]', 'unsigned'}}})
local function fill(step)
    for id = 0, 60 do s:replace{id, ('abcd'):sub(id % 4 + 1, id % 4 + 1) .. id, id % step, {id % 3, 7}} end
    return step
end
for id = 0, 3 do s:insert{id, ('abcd'):sub(id + 1, id + 1), id, {id}} end
""",
).replace("fiber = fiber,", "fiber = fiber, fill = fill,")
_OTHERS = "fiber = fiber, fill = fill, near = near, create = create,"
SPATIAL_PRELUDE = (
    PRELUDE[: PRELUDE.index("s:create_index('name'")]
    + """
local function create() s:create_index('area', {type = 'RTREE', unique = false, parts = {{2, 'array'}}}) end
create()
local kept = s.index.area
local function fill(step)
    for id = 0, 30 do s:replace{id, {id % step, id % 7}} end
    for id = 31, 150 do s:replace{id, {id % step, id % 7, id % step + id % 3, 9}} end
    return step
end
fill(5)
-- The distances of neighbours, since those of one distance come in any order.
local function near(point, limit)
    local seen = {}
    for i, tuple in ipairs(s.index.area:select(point, {iterator = 'NEIGHBOR', limit = limit})) do
        local value, sum = tuple[2], 0
        for n = 1, 2 do
            local a, b, p = tonumber(value[n]), tonumber(value[#value - 2 + n]), tonumber(point[n])
            a, b = math.min(a, b), math.max(a, b)
            sum = sum + math.max(a - p, p - b, 0) ^ 2
        end
        seen[i] = sum
    end
    return seen
end
local results = {}
"""
    + PRELUDE[PRELUDE.index("local before") :].replace(
        "fiber = fiber,", "fiber = fiber, fill = fill, near = near, create = create,"
    )
)


async def run(program: list[str], prelude: str = PRELUDE) -> Any:
    """Run steps in one fiber; return their results and the number of counted reads."""
    instance = LuaInstance()
    try:
        await instance.configure({"log_level": 0, "wal_mode": "none"})
        return await Box(instance).raw(prelude, program)
    finally:
        await instance.stop()


def one_by_one(dml: Any, ctx: Any, space: Any, iid: int, iterator: int, key: list[Any], after: bytes) -> OneByOne:
    assert not after, "the programs read no pages"
    return OneByOne(dml.reads.cursor(ctx, space, iid, iterator, key), space, iid)


def no_finder(self: Any, space_id: int, iid: int) -> None:
    return None


def no_searches(self: Any, space_id: int, iid: int) -> None:
    return None


no_finder._exported_as = "index_finder"  # type: ignore[attr-defined]
no_searches._exported_as = "index_searches"  # type: ignore[attr-defined]


@settings(max_examples=15, deadline=None, phases=[Phase.generate])  # each starts two nodes: no time to shrink
@given(programs)
def test_fast_reads_give_the_results_of_general_ones(program: list[str]) -> None:
    """Fast and general reads agree for any key while rows, indexes, users and transactions change; loops see each
    change.
    """

    compare(program, PRELUDE)


@settings(max_examples=25, deadline=None, phases=[Phase.generate])
@given(programs_of_kinds)
def test_searches_give_the_results_of_general_reads(program: list[str]) -> None:
    """Direct searches in all kinds of indexes agree with general reads, in `get`, `select`, `count` and loops."""
    compare(program, PRELUDE_OF_KINDS)


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(spatial_programs)
def test_fast_reads_of_rectangles_give_the_results_of_general_ones(program: list[str]) -> None:
    """Loops over an RTREE that read ahead, and its searches beside them, agree with loops that read one by one."""
    compare(program, SPATIAL_PRELUDE)


def compare(program: list[str], prelude: str) -> None:
    """Run a program with fast paths and without them, and compare the results."""

    async def body() -> None:
        fast = await run(program, prelude)
        with (
            mock.patch.object(data, "open_cursor", one_by_one),
            mock.patch.object(data.DataBinding, "finder", no_finder),
            mock.patch.object(data.DataBinding, "searches", no_searches),
            mock.patch.object(columns, "rank", return_value=False),
            mock.patch.object(RtreeIndex, "_equal", return_value=None),
        ):
            rtree_geometry.geometry_of.cache_clear()
            general = await run(program, prelude)
        rtree_geometry.geometry_of.cache_clear()
        for step, one, other in zip(program, fast[0], general[0], strict=True):
            assert one == other, step
        assert fast == general

    asyncio.run(body())


def test_keys_of_more_than_64_bits_are_not_cut(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("n = box.schema.space.create('n') n:create_index('pk', {parts = {{1, 'number'}}}) n:replace{0}")
        await box("u = box.schema.space.create('u') u:create_index('pk') u:replace{0}")
        found = await box("return n:get(2^64) == nil, n:count(2^64, {iterator = 'LE'}), n:pairs(-2^64):length()")
        assert found == [True, 1, 0]
        refused = "Supplied key type of part 0 does not match index part type: expected unsigned"
        for read in ("u:get(2^64)", "u:select(2^64)", "u:count(2^64)", "u:pairs(2^70)", "u:get{2^64}"):
            assert await box.fails(read) == refused

    run(body)
