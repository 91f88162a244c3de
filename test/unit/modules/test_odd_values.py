"""Odd values of arguments and options, as in Tarantool 2.8.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Lua


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("require('fio').chown('/none', {}, 1)", [None]),
        ("require('fio').chown('/none', 1, {})", [None]),
        ("utf8.sub('abc', 2^31)", [""]),
        ("utf8.sub('abc', -2^31)", [""]),
        ("utf8.sub('abc', -2^31 + 1)", ["abc"]),
        ("select(2, pcall(tonumber64, 1, box.NULL))", ["bad argument #2 to '?' (number expected, got cdata)"]),
        ("select(2, pcall(require('json').encode, {1}, {encode_max_depth = box.NULL}))", ["Too high nest level"]),
        (
            "select(2, pcall(require('decimal').new, require('ffi').typeof('float')))",
            ["expected decimal, number or string as 1 argument"],
        ),
        (
            "select(2, require('socket').getaddrinfo('127.0.0.1', -1, 1, {family = 99}))",
            ["getaddrinfo: ai_family not supported"],
        ),
        (
            "select(2, require('socket').getaddrinfo('127.0.0.1', -1, 1))",
            ["getaddrinfo: Servname not supported for ai_socktype"],
        ),
    ],
)
def test_values(shared_lua: Lua, expression: str, values: list[object]) -> None:
    assert shared_lua(f"return {expression}") == values


def test_errors_of_the_log_have_a_place(lua: Lua) -> None:
    (problem,) = lua("local log = require('log') log.level(5) return select(2, pcall(log.info, {[true] = 1}))")
    assert problem.startswith("builtin/log.lua:")
    assert problem.endswith(": table key must be a number or string")


def test_a_part_of_an_iterator_as_the_state_of_another(shared_lua: Lua) -> None:
    source = "return select(2, pcall(function() for _, x in require('fun').range(3):span(1) do end end))"
    (problem,) = shared_lua(source)
    assert problem.endswith("attempt to compare nil with number")


def test_a_table_as_a_host_is_shown_once(lua: Lua) -> None:
    (shown,) = lua(
        "return require('yaml').encode(require('net.box').connect({}, {1}, 1, {wait_connected = false}))",
        directory=True,
    )
    assert "&" not in shown


def test_limits_of_net_box_have_32_bits(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """
        local address = 'unix/:' .. (...)
        box.cfg{listen = address}
        box.schema.user.grant('guest', 'super')
        local s = box.schema.space.create('s')
        s:create_index('pk')
        for i = 1, 3 do s:insert{i} end
        local t, found = require('net.box').connect(address).space.s, {}
        for _, limit in ipairs{1.5, -1, 2^32 + 2, 1/0, 0/0} do
            found[#found + 1] = #t:select({}, {limit = limit})
        end
        found[#found + 1] = #t:select({}, {offset = 2.9})
        for _, call in ipairs{{'insert', {a = 1}}, {'update', 1, {a = 1}}, {'upsert', {1}, {a = 1}}} do
            found[#found + 1] = tostring(select(2, pcall(t[call[1]], t, call[2], call[3])))
        end
        return unpack(found)""",
        str(tmp_path / "s"),
        configure={},
        directory=True,
    ) == [1, 3, 2, 0, 0, 1, *["Tuple/Key must be MsgPack array"] * 3]
