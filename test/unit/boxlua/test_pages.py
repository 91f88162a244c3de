"""Pagination in Lua: `after` and `fetch_pos` of select, `after` of pairs, index:tuple_pos. Results are
those of 2.11.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box import BoxError, Node

SPACES = """
local s = box.schema.space.create('s')
s:create_index('pk')
s:create_index('sk', {unique = false, parts = {{2, 'unsigned', is_nullable = true}}})
s:create_index('un', {parts = {{3, 'string', is_nullable = true}}})
for i = 1, 10 do
    s:insert({i, i % 3, i > 5 and 'x' .. i or nil})
end
local h = box.schema.space.create('h')
h:create_index('pk', {type = 'hash'})
h:insert({1})
local m = box.schema.space.create('m')
m:create_index('pk')
m:create_index('mk', {unique = false, parts = {{2, 'unsigned', path = '[*]'}}})
m:insert({1, {1, 2, 3}})
m:insert({2, {2, 3}})
m:insert({3, {7}})
box.schema.func.create('f', {
    body = 'function(t) return {t[1] * 2} end', is_deterministic = true, is_sandboxed = true,
})
box.schema.func.create('fm', {
    body = 'function(t) return {{t[1] * 2}, {t[1] * 2 + 1}} end', is_deterministic = true, is_sandboxed = true,
    opts = {is_multikey = true},
})
m:create_index('fk', {func = 'f', parts = {{1, 'unsigned'}}})
m:create_index('fm', {func = 'fm', parts = {{1, 'unsigned'}}})
local c = box.schema.space.create('c')
c:create_index('pk', {parts = {{1, 'string', collation = 'unicode_ci'}}})
c:insert({'A'})
c:insert({'b'})
"""
INVALID = "Iterator position is invalid"


def ask(*sources: str, **options: Any) -> list[Any]:
    """Evaluate expressions on a node with some spaces; the text of an error stands for its result."""

    async def scenario() -> list[Any]:
        async with Node(**options) as node:
            await node.eval(SPACES)
            found: list[Any] = []
            for source in sources:
                try:
                    found.append(await node.eval(source))
                except BoxError as error:
                    found.append(str(error))
            return found

    return asyncio.run(scenario())


def page(call: str) -> str:
    """Return Lua source that selects a page and returns the first fields and the position."""
    return f"""
        local s, h, m, c = box.space.s, box.space.h, box.space.m, box.space.c
        local rows, position = {call}
        local keys = {{}}
        for i, row in ipairs(rows) do keys[i] = row[1] end
        return {{keys, position}}
    """


PAGES = [
    ("s:select(nil, {limit = 3, fetch_pos = true})", [1, 2, 3], "kQM"),
    ("s:select(nil, {limit = 3})", [1, 2, 3], None),
    ("s.index.sk:select(nil, {limit = 3, fetch_pos = true})", [3, 6, 9], "kgAJ"),
    ("s.index.sk:select(1, {limit = 2, fetch_pos = true})", [1, 4], "kgEE"),
    ("s.index.un:select(nil, {limit = 2, fetch_pos = true})", [1, 2], "ksAC"),
    ("s.index.un:select(nil, {limit = 2, after = 'ksAF', fetch_pos = true})", [10, 6], "kqJ4NgY"),
    ("s:select(nil, {limit = 3, fetch_pos = true, after = 'kQM'})", [4, 5, 6], "kQY"),
    ("s:select(nil, {limit = 3, fetch_pos = true, after = s:get(4)})", [5, 6, 7], "kQc"),
    ("s:select(nil, {limit = 3, fetch_pos = true, after = {4}})", [5, 6, 7], "kQc"),
    ("s:select(nil, {limit = 2, after = ''})", [1, 2], None),
    ("s:select(nil, {limit = 2, after = box.NULL})", [1, 2], None),
    ("s:select(nil, {fetch_pos = true, after = {100}})", [], None),
    ("s:select(nil, {limit = 0, fetch_pos = true})", [], None),
    ("s:select(nil, {limit = 2, offset = 2, fetch_pos = true, after = 'kQM'})", [6, 7], "kQc"),
    ("s:select(nil, {limit = 2, fetch_pos = 1})", [1, 2], "kQI"),
    ("s.index.sk:select(nil, {limit = 2, after = {4, 1}})", [7, 10], None),
    ("s.index.sk:select(nil, {limit = 2, after = {4}})", [3, 6], None),
    ("s.index.sk:select(1, {iterator = 'REQ', limit = 2, after = {7, 1}})", [4, 1], None),
    ("s:select(5, {iterator = 'GE', limit = 2, after = {5}})", [6, 7], None),
    ("s:select(5, {iterator = 'LT', limit = 2, after = {5}})", [4, 3], None),
    ("s:select(5, {after = {5}})", [], None),
    ("s.index.sk:select(1, {iterator = 'GT', limit = 2, after = {4, 1}})", [7, 10], None),
    ("s.index.sk:select(1, {iterator = 'LT', limit = 2, after = {4, 1}})", [1, 9], None),
    ("m.index.mk:select(nil, {limit = 2, fetch_pos = true})", [1, 1], "kgIB"),
    ("m.index.mk:select(nil, {limit = 2, fetch_pos = true, after = 'kgIB'})", [2, 1], "kgMB"),
    ("m.index.fk:select(nil, {limit = 2, fetch_pos = true})", [1, 2], "kgQC"),
    ("m.index.fk:select(nil, {limit = 2, fetch_pos = true, after = 'kgIB'})", [2, 3], "kgYD"),
    ("m.index.fm:select(nil, {limit = 3, fetch_pos = true})", [1, 1, 2], "kgQC"),
    ("c:select(nil, {limit = 1, fetch_pos = true})", ["A"], "kaFB"),
    ("c:select('a', {after = {'A'}})", [], None),
    ("box.space._vspace:select(nil, {limit = 1, after = {280}, fetch_pos = true})", [281], "kc0BGQ"),
]
REFUSALS = [
    *(
        (f"s:select(nil, {{after = {after}}})", INVALID)
        for after in ("1", "true", "'abcd'", "'###'", "'A'", "{}", "{'x'}", "'kgEC'")
    ),
    ("s:select(nil, {after = {a = 1}})", "Tuple/Key must be MsgPack array"),
    ("s.index.sk:select(nil, {after = {box.NULL, 1}})", INVALID),
    ("s.index.sk:select(1, {after = {4, 2}})", INVALID),
    ("s.index.sk:select(1, {iterator = 'REQ', after = {7, 2}})", INVALID),
    ("s:select(5, {iterator = 'GE', after = {3}})", INVALID),
    ("s:select(5, {iterator = 'LT', after = {6}})", INVALID),
    ("s:select(5, {iterator = 'ALL', after = {3}})", INVALID),
    ("h:select(nil, {fetch_pos = true})", "Index 'pk' (HASH) of space 'h' (memtx) does not support pagination"),
    ("h:select(1, {after = {1}})", "Index 'pk' (HASH) of space 'h' (memtx) does not support pagination"),
    ("h:select(1, {after = '##'})", INVALID),
    ("m.index.mk:select(nil, {after = {1, {2}}})", "Multikey index does not support position by tuple"),
    ("m.index.fk:select(nil, {after = {1, {2}}})", "Functional index does not support position by tuple"),
    (
        "box.space._session_settings:select(nil, {fetch_pos = true})",
        "Index 'primary' (TREE) of space '_session_settings' (service) does not support pagination",
    ),
    (
        "s:select('x', {after = '##'})",
        "Supplied key type of part 0 does not match index part type: expected unsigned",
    ),
    ("s:select('x', {after = {'y'}})", INVALID),
    ("s:select(1, {iterator = 'XX', after = 1})", "Unknown iterator type 'XX'"),
    ("s:select(1, {iterator = 'OVERLAPS', after = '##'})", INVALID),
    ("s:select({1, 2}, {after = '##'})", "Invalid key part count (expected [0..1], got 2)"),
]


@pytest.mark.parametrize("mvcc", [False, True])
def test_pages(mvcc: bool) -> None:
    found = ask(*(page(call) for call, _, _ in PAGES), memtx_use_mvcc_engine=mvcc)
    for (call, keys, position), answer in zip(PAGES, found, strict=True):
        assert answer == ([keys] if position is None else [keys, position]), call


def test_wrong_positions_are_refused_in_the_order_of_2_11() -> None:
    found = ask(*(page(call) for call, _ in REFUSALS))
    for (call, text), answer in zip(REFUSALS, found, strict=True):
        assert answer == text, call


def test_position_of_a_tuple() -> None:
    calls = ["s.index.pk:tuple_pos{5}", "s.index.pk:tuple_pos(s:get(5))", "s.index.pk:tuple_pos(5)"]
    calls += ["s.index.sk:tuple_pos{5, 2}", "h.index.pk:tuple_pos{1}"]
    prologue = "local s, h, m = box.space.s, box.space.h, box.space.m return "
    assert ask(*(prologue + call for call in calls)) == ["kQU", "kQU", "kQU", "kgIF", "kQE"]
    wrong = ["s.index.pk:tuple_pos()", "s.index.pk:tuple_pos(nil)", "s.index.pk:tuple_pos('kQE')"]
    wrong += ["m.index.mk:tuple_pos{1, {2}}", "s.index.pk.tuple_pos()"]
    *found, last = ask(*(prologue + call for call in wrong))
    assert found == [
        "Usage index:tuple_pos(tuple)",
        INVALID,
        INVALID,
        "Multikey index does not support position by tuple",
    ]
    assert "Use index:tuple_pos(...) instead of index.tuple_pos(...)" in last


@pytest.mark.parametrize("mvcc", [False, True])
def test_loops_begin_behind_a_position(mvcc: bool) -> None:
    source = """
        local found = {{}, {}}
        for _, row in box.space.s:pairs(nil, {after = {7}}) do table.insert(found[1], row[1]) end
        for _, row in box.space.s:pairs(5, {iterator = 'LE', after = {3}}) do table.insert(found[2], row[1]) end
        return found
    """
    bad = "box.space.s:pairs(nil, {after = 7})"
    assert ask(source, bad, memtx_use_mvcc_engine=mvcc) == [[[8, 9, 10], [2, 1]], INVALID]


def test_a_transaction_that_reads_a_page_conflicts_with_changes_of_it_only() -> None:
    source = """
        local fiber, s = require('fiber'), box.space.s
        local function run(key)
            box.begin()
            s:select(nil, {limit = 3, after = 'kQM', fetch_pos = true})
            s:replace({100, 1})
            local writer = fiber.new(function() s:replace({key, 1, 'new' .. key}) end)
            writer:set_joinable(true)
            writer:join()
            return (pcall(box.commit))
        end
        return {run(2), run(5), run(9)}
    """
    assert ask(source, memtx_use_mvcc_engine=True) == [[True, False, True]]
