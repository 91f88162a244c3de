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
