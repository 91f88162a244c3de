"""Functions of the standard library that are Lua functions here look like C functions, as they are in Tarantool."""

from __future__ import annotations

from pathlib import Path

from .conftest import Lua


def test_they_cannot_be_dumped(lua: Lua) -> None:
    """Programs that serialize functions write their names instead."""
    assert lua(
        """
        local texts = {}
        for i, f in ipairs({print, pairs, require, xpcall, string.dump, coroutine.wrap, table.new}) do
            local ok, text = pcall(string.dump, f)
            texts[i] = not ok and text
        end
        return texts, type(string.dump(function() end)), type(string.dump(os.exit)), select(2, pcall(string.dump, 1))
        """
    ) == [
        ["unable to dump given function"] * 7,
        "string",
        "string",
        "bad argument #1 to '?' (function expected, got number)",
    ]


def test_getinfo_describes_them_as_functions_in_c(lua: Lua) -> None:
    assert lua(
        """
        local info = debug.getinfo(print)
        return info.what, info.short_src, info.source, info.linedefined, info.func == print,
            debug.getinfo(require, 'L').activelines, debug.getinfo(pairs, 'S').what,
            debug.getinfo(function() end, 'S').what, select(2, pcall(debug.getinfo, print, '?'))
        """
    ) == ["C", "[C]", "=[C]", -1, True, None, "C", "Lua", "bad argument #2 to '?' (invalid option)"]


def test_traces_show_require_and_dofile_as_functions_in_c(lua: Lua, tmp_path: Path) -> None:
    (tmp_path / "traced.lua").write_text("trace = debug.traceback()\nlevel = debug.getinfo(2, 'Sn')\nreturn 1, nil")
    first, count, second, what, name = lua(
        """
        local directory = ...
        package.path = directory .. '/?.lua'
        local count = select('#', dofile(directory .. '/traced.lua'))
        local first = trace
        require('traced')
        return first, count, trace, level.what, level.name
        """,
        str(tmp_path),
    )
    assert first.split("\n\t")[1].endswith("traced.lua:1: in main chunk")
    assert first.split("\n\t")[2] == "[C]: in function 'dofile'"
    assert count == 2
    assert second.split("\n\t")[2] == "[C]: in function 'require'"
    assert (what, name) == ("C", "require")


def test_the_trace_of_a_module_that_is_missing_begins_with_require(lua: Lua) -> None:
    assert lua(
        """
        local _, trace = xpcall(function() local there = require('no.such.module') return there end, debug.traceback)
        return trace:match('stack traceback:\\n\\t([^\\n]*)')
        """
    ) == ["[C]: in function 'require'"]


def test_the_handler_of_an_error_sees_require_as_a_function_in_c(lua: Lua) -> None:
    assert lua(
        """
        local function handler()
            local level, seen = 2, {}
            repeat
                local info = debug.getinfo(level, 'S')
                seen[#seen + 1] = info.what
                level = level + 1
            until info.what ~= 'C'
            return seen
        end
        return select(2, xpcall(function() local there = require('no.such.module') return there end, handler))
        """
    ) == [["C", "C", "Lua"]]


def test_errors_of_require(lua: Lua, tmp_path: Path) -> None:
    """The error of a module that requires itself has the place of the call, which a tail call does not leave."""
    (tmp_path / "tail.lua").write_text("return require('tail')\n")
    (tmp_path / "call.lua").write_text("local M = require('call')\nreturn M\n")
    assert lua(
        """
        package.path = ... .. '/?.lua'
        local function text(name) return (tostring(select(2, pcall(require, name))):gsub('^.*/', '')) end
        return text('tail'), text('call'), #package.loaders
        """,
        str(tmp_path),
    ) == [
        "loop or previous error loading module 'tail'",
        "call.lua:1: loop or previous error loading module 'call'",
        8,
    ]
