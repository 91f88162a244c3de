"""Functions that Tarantool 2.11 adds to the modules `log` and `uri`, with its texts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Lua

EVERY_BYTE = "(function() local t = {} for i = 0, 255 do t[i + 1] = string.char(i) end return table.concat(t) end)()"


def test_the_log_of_a_module_has_its_name_and_level(lua: Lua, tmp_path: Path) -> None:
    lua(
        """local log = require('log')
        log.cfg{modules = {mine = 'debug', quiet = 'error'}}
        for _, name in ipairs{'mine', 'quiet', 'other'} do
            local logger = log.new(name)
            logger.error('e%d', 1)
            logger.info('i')
            logger.debug('d')
        end""",
        configure={"log": str(tmp_path / "x.log"), "log_level": 5, "wal_mode": "none"},
    )
    lines = re.findall(r"main/\d+/[^/\s]+/(\w+ .*)", (tmp_path / "x.log").read_text())
    assert lines == [
        "mine test.lua:5 E> e1", "mine I> i", "mine D> d", "quiet test.lua:5 E> e1", "other test.lua:5 E> e1",
        "other I> i",
    ]  # fmt: skip


def test_lines_in_json_name_the_module(lua: Lua, tmp_path: Path) -> None:
    lua(
        "require('log').new('mine').info('text')",
        configure={"log": str(tmp_path / "x.log"), "log_level": 5, "log_format": "json", "wal_mode": "none"},
    )
    (line,) = [line for line in map(json.loads, (tmp_path / "x.log").read_text().splitlines()) if "module" in line]
    assert (line["module"], line["message"], line["level"]) == ("mine", "text", "INFO")


def test_there_is_one_log_for_a_module(lua: Lua) -> None:
    assert lua(
        """local log = require('log')
        log.cfg{modules = {a = 'warn'}}
        return log.new('a') == log.new('a'), log.new('a').name, log.cfg.modules"""
    ) == [True, "a", {"a": "warn"}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("log.new", "Illegal parameters, name should be a string"),
        ("log.cfg, {modules = 5}", "Incorrect value for option 'modules': should be of type table"),
        ("log.cfg, {modules = {'debug'}}", "Incorrect value for option 'module name': should be of type string"),
        ("log.cfg, {modules = {x = {}}}", "option 'log_modules.x': should be one of types number, string"),
    ],
)  # fmt: skip
def test_wrong_modules_of_the_log(shared_lua: Lua, call: str, message: str) -> None:
    (text,) = shared_lua(f"local log = require('log') return tostring(select(2, pcall({call})))")
    assert text.endswith(message)


def test_a_wrong_level_of_a_module(lua: Lua) -> None:
    (text,) = lua("return tostring(select(2, pcall(require('log').cfg, {modules = {x = 'bad'}})))")
    assert text.startswith("Incorrect value for option 'log_modules.x': expected ")


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ("RFC3986", "-.0-9A-Z_a-z~"),
        ("PATH", "!$&-;=@A-Z_a-z~"),
        ("PATH_PART", "!$&-.0-;=@A-Z_a-z~"),
        ("QUERY", "!$&-9;=?A-Z_a-z~"),
        ("QUERY_PART", "!$'-9;?A-Z_a-z~"),
        ("FRAGMENT", "!$&-9;=?A-Z_a-z~"),
        ("FORM_URLENCODED", "*.0-9A-Z_a-z-"),
    ],
)
def test_a_part_of_a_uri_keeps_its_characters(shared_lua: Lua, part: str, kept: str) -> None:
    """All other bytes become a percent sign and two digits; a space in a form becomes a plus."""
    pattern = re.compile(f"[{kept}]")
    expected = "".join(chr(i) if pattern.match(chr(i)) else f"%{i:02X}" for i in range(256))
    if part == "FORM_URLENCODED":
        expected = expected.replace("%20", "+", 1)
    source = f"local uri = require('uri') local e = uri.escape({EVERY_BYTE}, uri.{part})"
    assert shared_lua(f"{source} return e, uri.unescape(e, uri.{part}) == {EVERY_BYTE}") == [expected, True]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("escape('a b')", "a%20b"),
        ("escape('xyz a', {unreserved = uri.unreserved('x-y'), plus = true})", "xy%7A+%61"),
        ("unescape('a%20b%4')", "a b%4"),
        ("unescape('%zz%41+')", "%zzA+"),
        ("unescape('a+b%2B', {plus = true})", "a b+"),
        ("unescape('%%41')", "%A"),
        ("unescape('%2541')", "%41"),
        ("values(1, 2)", [1, 2]),
    ],
)
def test_parts_of_a_uri(shared_lua: Lua, call: str, expected: object) -> None:
    assert shared_lua(f"local uri = require('uri') return uri.{call}") == [expected]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("uri.escape", "Usage: uri.escape(string, [opts])"),
        ("uri.unescape, 5", "Usage: uri.unescape(string, [opts])"),
        ("uri.escape, 'a', 1", "opts must be a table"),
        ("uri.escape, 'a', {unreserved = 'x'}", "use uri.unreserved for building opts.unreserved"),
        ("uri.escape, 'a', {plus = 1}", "opts.plus must be a boolean"),
        ("uri.unreserved", "Usage: uri.unreserved(str)"),
        ("uri.unreserved, ''", "malformed pattern (missing ']')"),
    ],
)
def test_wrong_calls_for_parts_of_a_uri(shared_lua: Lua, call: str, message: str) -> None:
    (text,) = shared_lua(f"local uri = require('uri') return tostring(select(2, pcall({call})))")
    assert text.endswith(message)
