"""`fun` as in Tarantool 2.8.1 where its iterators are odd: holes, states, lengths, texts of errors."""

from __future__ import annotations

import pytest

from .conftest import Lua


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("fun.iter({1, 2, 3}):drop(1):length()", [3]),
        ("fun.iter({1, 2, 3}):drop(1):nth(1)", [1]),
        ("fun.nth(1.5, 'abc')", ["a"]),
        ("fun.range(20):is_prefix_of(fun.range(15))", []),
        ("fun.range(5):is_prefix_of(fun.range(15))", [True]),
        ("#fun.zip({1, 2, 3}, {}):totable()", [0]),
        ("unpack(fun.chain({1}, '', {2}):totable())", [1]),
        ("unpack(fun.tabulate(function(i) if i ~= 1 then return i end end):take(3):totable())", [0, 2]),
        ("unpack(fun.iter(setmetatable({}, {__ipairs = function() return ipairs({7}) end})):totable())", [7]),
        ("fun.maximum_by, fun.iter({}).maximum_by", [None, None]),
        ("fun.iter({}).op.add(1, 2)", [3]),
    ],
)
def test_results(lua: Lua, expression: str, values: list[object]) -> None:
    assert list(lua(f"local fun = require('fun') return {expression}")) == values


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("fun.range({}, 1, 1)", "start must be a number"),
        ("fun.range(1, 'x', 1)", "stop must be a number"),
        ("fun.wrap():totable()", "attempt to call local 'gen_x' (a nil value)"),
        ("fun.wrap():filter(print):sum()", "attempt to call local 'gen_x' (a nil value)"),
        ("fun.wrap():tail()", "attempt to call local 'gen' (a nil value)"),
        ("fun.wrap():chain('a', true)", 'object true of type "boolean" is not iterable'),
        ("fun.zip(false, 5)", 'object 5 of type "number" is not iterable'),
        ("fun.iter({}).take_n(5)", "attempt to index local 'self' (a number value)"),
        ("fun.iter({1}):grep():sum()", "attempt to call local 'fun' (a nil value)"),
    ],
)
def test_errors(lua: Lua, call: str, problem: str) -> None:
    (text,) = lua(f"local fun = require('fun') return tostring(select(2, pcall(function() return {call} end)))")
    assert text.endswith(problem)


def test_a_cycle_begins_again_with_a_copy_of_its_state(lua: Lua) -> None:
    """A step may change its state in place."""
    source = """
        local function step(_, state) if state.at < 2 then state.at = state.at + 1 return state, state.at end end
        return unpack(require('fun').wrap(step, nil, {at = 0}):cycle():take(5):totable())
    """
    assert list(lua(source)) == [1, 2, 1, 2, 1]


def test_members_become_global_unless_a_global_exists(lua: Lua) -> None:
    source = """
        local said, real = {}, print
        print = function(text) table.insert(said, text) end
        zip = 5
        require('fun')()
        local kept = zip
        require('fun')(true)
        print = real
        return kept, type(zip), said[1]
    """
    kept, kind, said = lua(source)
    assert (kept, kind) == (5, "function")
    assert said == "NOTICE: function zip already exists in global scope. Skipped."
