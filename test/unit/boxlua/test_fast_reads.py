"""Fast paths of reads from Lua (look-ups in the tree, loops that read ahead) give the results of the general paths."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lua.bindings.data as data
from box.embed import LuaInstance
from lua.bindings.cursor import OneByOne

from .box_support import Box

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


async def run(program: list[str]) -> Any:
    """Run steps in one fiber; return their results and the number of counted reads."""
    instance = LuaInstance()
    try:
        await instance.configure({"log_level": 0, "wal_mode": "none"})
        return await Box(instance).raw(PRELUDE, program)
    finally:
        await instance.stop()


def one_by_one(dml: Any, ctx: Any, space: Any, iid: int, iterator: int, key: list[Any], after: bytes) -> OneByOne:
    assert not after, "the programs read no pages"
    return OneByOne(dml.reads.cursor(ctx, space, iid, iterator, key))


def no_finder(self: Any, space_id: int, iid: int) -> None:
    return None


no_finder._exported_as = "index_finder"  # type: ignore[attr-defined]


@settings(max_examples=15, deadline=None, phases=[Phase.generate])  # each starts two nodes: no time to shrink
@given(programs)
def test_fast_reads_give_the_results_of_general_ones(program: list[str]) -> None:
    """Fast and general reads agree for any key while rows, indexes, users and transactions change; loops see each
    change.
    """

    async def body() -> None:
        fast = await run(program)
        with (
            mock.patch.object(data, "open_cursor", one_by_one),
            mock.patch.object(data.DataBinding, "finder", no_finder),
        ):
            general = await run(program)
        for step, one, other in zip(program, fast[0], general[0], strict=True):
            assert one == other, step
        assert fast == general

    asyncio.run(body())
