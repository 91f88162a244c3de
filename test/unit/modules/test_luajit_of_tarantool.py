"""Functions of LuaJIT 2.1, which Tarantool has, on LuaJIT 2.0. Expected values were printed by a running Tarantool."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua


def test_texts_are_formatted_with_their_zero_bytes(lua: Lua) -> None:
    assert lua(
        r"""
        local object = setmetatable({}, {__tostring = function() return 'x\0y' end})
        return ('%-4s|%5s|%.2s|%s'):format('a\0b', 'a\0', 'a\0\0', object), ('%c%%%3c|'):format(0, '256'),
            ('%s %d'):format('a\0', 5)
        """
    ) == ["a\0b |   a\0|a\0|x\0y", "\0%  \0|", "a\0 5"]


def test_halves_are_rounded_away_from_zero(lua: Lua) -> None:
    assert lua(
        r"""
        return ('%.0f %.0f %.1f %.2f'):format(2.5, -2.5, 0.25, '0.125'), ('%.3g %g %.14g'):format(1.125, 2^21 + 0.5,
            12345678901234.5), ('%.1e|%5.1f|%.0f'):format(25, 0.35, 0.5), ('%.1f %.2f'):format(0/0, 1/0),
            ('%.0f'):format(2^53), ('%.20f'):format(0.5)
        """
    ) == [
        "3 -3 0.3 0.13", "1.13 2.09715e+06 12345678901235", "2.5e+01|  0.3|1", "nan inf",
        "9007199254740992", "0.50000000000000000000",
    ]  # fmt: skip


def test_encoders_round_halves_to_even_digits(lua: Lua) -> None:
    """As the C library does."""
    assert lua("return require('json').encode(12345678901234.5), tostring(box.tuple.new{12345678901234.5})") == [
        "12345678901234",
        "[12345678901234]",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("('%'):format(1)", "invalid option '%' to 'format'"),
        ("('a %1$s'):format(1)", "invalid option '%1$' to 'format'"),
        ("('%10.123d'):format(1)", "invalid option '%10.123' to 'format'"),
        ("('%d %z'):format('x')", "bad argument #1 to 'format' (number expected, got string)"),
        ("('%s %d'):format('a\\0', {})", "bad argument #2 to 'format' (number expected, got table)"),
        ("debug.sethook(box.NULL)", "bad argument #2 to 'sethook' (string expected, got no value)"),
    ],
)
def test_errors_name_the_caller(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError) as caught:
        lua(f"local result = {call} return result")
    assert caught.value.message.replace("got nil", "got no value") == f"test.lua:1: {message}"


def test_trigonometry_of_large_numbers(lua: Lua) -> None:
    assert lua(
        """
        return ('%.14g'):rep(4, ' '):format(math.sin(1e22), math.cos(1e22), math.tan('1e15'), math.log10(1000)),
            select(2, pcall(math.deg, {})), math.deg(math.pi), math.rad('180') == math.pi, string.gfind
        """
    ) == [
        "-0.85220084976719 0.52321478539514 -1.6724147821276 3",
        "[builtin:deg]:0: attempt to perform arithmetic on a table value",
        180,
        True,
        None,
    ]


def test_formats_of_reading_need_no_asterisk(lua: Lua, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("one 12\n0x10 three\n\nfive")
    assert lua(
        r"""
        local path = ...
        local function read(...)
            local file = io.open(path)
            local results = {file:read(...)}
            file:close()
            return results
        end
        local lines = {}
        for line in io.lines(path, 'L') do
            lines[#lines + 1] = line
        end
        for one, rest in io.open(path):lines(1, 'l') do
            lines[#lines + 1] = one .. '|' .. rest
            break
        end
        local file = io.open(path)
        local _, problem = pcall(function() local text = file:read('l', 'x') return text end)
        return read('a'), read('line', 'n', '*l'), read(100, 1, 'x'), lines, problem
        """,
        str(path),
    ) == [
        ["one 12\n0x10 three\n\nfive"],
        ["one 12", 16, " three"],
        ["one 12\n0x10 three\n\nfive"],
        ["one 12\n", "0x10 three\n", "\n", "five", "o|ne 12"],
        "test.lua:18: bad argument #2 to 'read' (invalid format)",
    ]
