"""Log messages from Lua, and reports of the module tap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua


def logged(tmp_path: Path) -> list[str]:
    """Run Lua code and return its log lines, from the level's letter on, with the place if there is one."""
    text = (tmp_path / "x.log").read_text()
    return re.findall(r"main/\d+/\S+ ((?:test\.lua:\d+ )?[A-Z!]> .*)", text)


def test_messages_have_their_level_and_place(lua: Lua, tmp_path: Path) -> None:
    lua(
        """local log = require('log')
        log.info('a %d %s', 1, 'x')
        log.info('100%')
        log.warn({a = 1})
        log.error('bad')
        log.verbose('not shown')
        log.level('debug')
        log.debug('shown')""",
        configure={"log": str(tmp_path / "x.log"), "log_level": 5},
    )
    lines = logged(tmp_path)
    at = lines.index("I> a 1 x")
    assert lines[at : at + 4] == ["I> a 1 x", "I> 100%", 'test.lua:4 W> {"a":1}', "test.lua:5 E> bad"]
    assert lines[at + 4 : at + 6] == ["D> log: level set to 7", "D> shown"]


def test_a_message_that_cannot_be_formatted(lua: Lua, tmp_path: Path) -> None:
    """The error has the place of the caller, whatever the message is."""
    texts = lua(
        """local log = require('log')
        local function problem(...)
            local _, text = pcall(function(...) log.info(...) return 1 end, ...)
            return text
        end
        return problem(nil, 1), problem('%d', 'a'), problem({}, 1)""",
        configure={"log": str(tmp_path / "x.log"), "log_level": 5},
    )
    assert texts == [
        "test.lua:3: bad argument #1 to '?' (string expected, got nil)",
        "test.lua:3: bad argument #2 to '?' (number expected, got string)",
        "test.lua:3: bad argument #1 to '?' (string expected, got table)",
    ]


def test_what_a_report_shows_of_a_value_that_is_not_nil(lua: Lua, printed: list[str]) -> None:
    """`false` and the text 'nil' count as nil."""
    lua("""
        local t = require('tap').test('a')
        t.trace = false
        t:isnil({1, 2}, 'table') t:isnil(false, 'false') t:isnil('nil', 'text') t:isnil(5, 'number')
    """)
    lines = "".join(printed).splitlines()[1:]
    # LuaJIT 2.1 shows the fields of a report in another order.
    assert sorted(lines) == sorted(
        [
            "not ok - table",
            "  ---",
            "  expected: nil",
            "  got:",
            "  - 1",
            "  - 2",
            "  ...",
            "ok - false",
            "ok - text",
            "not ok - number",
            "  ---",
            "  expected: nil",
            "  got: 5",
            "  ...",
        ]
    )


def test_a_place_has_its_folders_in_json_alone(lua: Lua, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    lua(
        """local say = loadstring("require('log').warn(...)", '@builtin/sub/a.lua')
        say('plain')
        require('log').log_format('json')
        say('in/json')""",
        configure={"log": str(path), "log_level": 5},
    )
    plain, described = path.read_text().splitlines()[-2:]
    assert plain.endswith(" a.lua:1 W> plain")
    assert re.search(
        r'"message": "in\\/json", "pid": \d+ , "cord_name".*"file": "builtin\\/sub\\/a.lua", "line": 1}', described
    )


def test_settings_are_those_of_box_cfg(lua: Lua) -> None:
    assert lua(
        """local log = require('log')
        log.level(3)
        local level = box.cfg.log_level
        log.cfg{level = 'error', format = 'json'}
        return level, log.cfg.level, log.cfg.format, box.cfg.log_level, log.pid()""",
        configure={},
    ) == [3, 2, "json", 2, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("log.level()", "must be a number or a string"),
        ("log.level('xx')", "expected .*crit.*"),
        ("log.log_format('xx')", "expected json,plain|expected plain,json"),
        ("log.cfg{format = 'xx'}", "log.cfg: 'format' expected"),
        ("log.cfg{nonblock = 'a'}", "log.cfg: 'nonblock' option must be 'true' or 'false'"),
    ],
)
def test_settings_are_checked(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        lua(f"local log = require('log') {call}")


def test_reports(lua: Lua, printed: list[str]) -> None:
    assert lua(
        """local t = require('tap').test('root')
        t:plan(4)
        t:ok(true, 'fine')
        t:is_deeply({a = {1}}, {a = {1}}, 'deep')
        t:test('inner', function(t) t:plan(1) t:like('abc', 'b', 'like') end)
        t:is(box.NULL, nil, 'nothing')
        return t:check()"""
    ) == [True]
    assert "".join(printed).splitlines() == [
        "TAP version 13", "1..4", "ok - fine", "ok - deep", "    # inner", "    1..1", "    ok - like",
        "    # inner: end", "ok - inner", "ok - nothing",
    ]  # fmt: skip


def test_reports_of_failures_tell_what_and_where(lua: Lua, printed: list[str]) -> None:
    assert lua(
        """local t = require('tap').test('root')
        t:plan(2)
        t:is(1, 2, 'one')
        return t:check()"""
    ) == [False]
    text = "".join(printed)
    assert "not ok - one\n  ---\n" in text
    assert "  got: 1\n" in text
    assert "  expected: 2\n" in text
    assert "  filename: test.lua\n" in text
    assert text.endswith("# bad plan: planned 2 run 1\n")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("log.info('%d', 'x')", "bad argument #2 to '?' (number expected, got string)"),
        ("log.cfg{log = 'other'}", "log.cfg: 'log' can't be set dynamically"),
        ("log.cfg{nonblock = true}", "log.cfg: 'nonblock' can't be set dynamically"),
        ("log.cfg(1)", "attempt to index local 'cfg' (a number value)"),
    ],
)
def test_wrong_calls_of_the_log(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError) as failure:
        lua(f"local log = require('log') log.level(5) {call}", configure={})
    assert failure.value.message.endswith(message)
