"""Mistakes in key definitions and in sources of a merger are told in Tarantool's order."""

from __future__ import annotations

import pytest

from .conftest import Lua


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("key_def.new{{fieldno = 1, type = 'nope'}, {}}", "Unknown field type: nope"),
        ("key_def.new{{fieldno = 1, type = 'string'}, {}}", "fieldno or field must not be nil"),
        (
            "key_def.new{{fieldno = 1, type = 'string'}}:compare({1}, {x = 1})",
            "Supplied key type of part 0 does not match index part type: expected string",
        ),
        (
            "key_def.new{{fieldno = 1, type = 'string'}}:compare({1}, 5)",
            "Supplied key type of part 0 does not match index part type: expected string",
        ),
        ("merger.new(k, {nil, s})", "expected cdata as 3 argument"),
        ("merger.new(k, {nil, s}, {})", "expected cdata as 4 argument"),
    ],
)
def test_the_first_mistake_is_told(lua: Lua, call: str, problem: str) -> None:
    (text,) = lua(
        f"""local key_def, merger = require('key_def'), require('merger')
        local k, s = key_def.new{{{{fieldno = 1, type = 'unsigned'}}}}, merger.new_source_fromtable({{}})
        return tostring(select(2, pcall(function() local result = {call} return result end)))"""
    )
    assert text.endswith(problem)


def test_parts_that_tell_nothing_more_are_not_merged(lua: Lua) -> None:
    """A part with a collation says no more than one of the same field without."""
    assert lua(
        """local key_def = require('key_def')
        local plain = key_def.new{{fieldno = 2, type = 'string'}}
        local folded = key_def.new{{fieldno = 2, type = 'string', collation = 'unicode_ci'}}
        return #plain:merge(folded):totable(), #folded:merge(plain):totable(), plain.parts == nil"""
    ) == [1, 2, True]


def test_what_is_no_tuple_stays_the_next_one(lua: Lua) -> None:
    assert lua(
        """local source = require('merger').new_source_fromtable({5, {1}})
        local found = {}
        for i = 1, 2 do found[i] = tostring(select(2, pcall(source.select, source))) end
        return found"""
    ) == [["A tuple or a table expected, got number"] * 2]


def test_a_merger_begins_anew_after_a_failure(lua: Lua) -> None:
    assert lua(
        """local key_def, merger = require('key_def'), require('merger')
        local k, is_broken = key_def.new{{fieldno = 1, type = 'unsigned'}}, true
        local late = merger.new_table_source(function(_, state)
            if is_broken then error('broken', 0) end
            if state == nil then return 1, {{1}} end
        end)
        local m = merger.new(k, {late})
        local ok, problem = pcall(m.select, m)
        is_broken = false
        return ok, problem, #m:select()"""
    ) == [False, "broken", 1]


def test_comparisons_return_differences_of_bytes(lua: Lua) -> None:
    """Unsigned numbers compare as they are packed, texts without a collation byte by byte."""
    assert lua(
        """local key_def = require('key_def')
        local function compare(kind, one, other)
            return key_def.new{{fieldno = 1, type = kind}}:compare({one}, {other})
        end
        return compare('unsigned', 3, 1), compare('unsigned', 1, 300), compare('unsigned', 300, 301),
            compare('string', 'B', 'a'), compare('string', 'ab', 'a'), compare('scalar', 'a', 'é'),
            compare('integer', 9, 1), compare('scalar', 1, 'a')"""
    ) == [2, -204, -1, -31, 1, -98, 1, -1]


def test_equal_tuples_of_a_merger_come_in_the_order_of_its_heap(lua: Lua) -> None:
    """The source of the last tuple does not stay the first one."""
    assert lua(
        """local key_def, merger = require('key_def'), require('merger')
        local k = key_def.new{{fieldno = 1, type = 'unsigned'}}
        local function merged(is_reverse)
            local sources, shown = {}, {}
            for i = 1, 3 do
                local list = {{1, i * 10 + 1}, {1, i * 10 + 2}}
                sources[i] = merger.new_source_fromtable(list)
            end
            for _, tuple in merger.new(k, sources, {reverse = is_reverse}):pairs() do
                shown[#shown + 1] = tuple[2]
            end
            return shown
        end
        return merged(false), merged(true)"""
    ) == [[11, 21, 12, 22, 31, 32], [31, 32, 21, 22, 11, 12]]


def test_a_refused_tuple_stays_in_its_table(lua: Lua) -> None:
    assert lua(
        """local key_def, merger = require('key_def'), require('merger')
        local k = key_def.new{{fieldno = 1, type = 'unsigned'}}
        local source = merger.new_source_fromtable({{1}, {'x'}})
        local m = merger.new(k, {source})
        local first, second = pcall(m.select, m), pcall(m.select, m)
        local maps = merger.new_source_fromtable({{a = 1}})
        local broken = merger.new_tuple_source(ipairs, 'x')
        local function problem(...) return tostring(select(2, pcall(...))) end
        return first, second, source:select(), problem(maps.select, maps), problem(broken.select, broken),
            problem(source.select, source, box.NULL), problem(source.select, source, {limit = 5LL}):sub(1, 40),
            key_def.new{{fieldno = 1/0, type = 'any', is_nullable = {}}}:totable()"""
    )[2:] == [
        [["x"]], "Tuple/Key must be MsgPack array", "bad argument #1 to '?' (table expected, got string)",
        "Bad params, use: merge_source:select([{buffer = <cdata<struct ibuf>> or <nil>, limit = <number> or <nil>}])",
        'Bad param "limit", use: merge_source:sel',
        [{"type": "any", "fieldno": 0, "is_nullable": True}],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        "k:extract_key(5)",
        "k:compare({1}, 5)",
        "k:compare_with_key({1}, 5)",
        "merger.new_source_fromtable({5}):select()",
        "merger.new(k, {merger.new_tuple_source(function() return 1, 5 end)}):select()",
    ],
)
def test_what_is_no_tuple_raises_an_error_object(lua: Lua, call: str) -> None:
    assert lua(
        f"""local key_def, merger = require('key_def'), require('merger')
        local k = key_def.new{{{{fieldno = 1, type = 'unsigned'}}}}
        local _, problem = pcall(function() return {call} end)
        return problem.type, problem.message"""
    ) == ["IllegalParams", "A tuple or a table expected, got number"]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("box.tuple.new{1, print}", "LuajitError"),
        ("box.tuple.new(1, print)", None),
        ("k:extract_key{1, print}", "LuajitError"),
        ("merger.new_source_fromtable({{print}}):select()", "LuajitError"),
        ("s:insert{print}", None),
        ("s:insert(print)", None),
    ],
)
def test_what_cannot_be_encoded(lua: Lua, call: str, kind: str | None) -> None:
    """C functions that make a tuple of a table raise objects, the others texts; frommap returns a text."""
    found = lua(
        f"""box.cfg{{log_level = 1}}
        local key_def, merger = require('key_def'), require('merger')
        local k = key_def.new{{{{fieldno = 1, type = 'unsigned'}}}}
        local s = box.schema.space.create('s', {{format = {{{{'a', 'any'}}}}}})
        s:create_index('pk', {{parts = {{1, 'scalar'}}}})
        local _, problem = pcall(function() return {call} end)
        local kind = type(problem) ~= 'string' and problem.type or nil
        return kind, tostring(problem):match('unsupported.*'), s:frommap{{a = print}}"""
    )
    text = "unsupported Lua type 'function'"
    assert found == [kind, text, None, text]


def test_what_is_no_tuple_is_encoded_first(lua: Lua) -> None:
    assert lua(
        """box.cfg{log_level = 1}
        local ffi, s = require('ffi'), box.schema.space.create('s')
        s:create_index('pk')
        local texts = {}
        for i, value in ipairs({ffi.new('int[2]'), 5LL}) do
            texts[i] = tostring(select(2, pcall(s.insert, s, value))):match('unsupported.*') or 'no array'
        end
        return texts"""
    ) == [["unsupported Lua type 'cdata'", "no array"]]
