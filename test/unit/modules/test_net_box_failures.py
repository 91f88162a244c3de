"""Errors and warnings about what a user gives to a connection of `net.box`. Expected values are those of Tarantool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

START = """
box.cfg{listen = 'unix/:./failures.sock'}
box.schema.user.grant('guest', 'super')
fiber, net_box = require('fiber'), require('net.box')
function pusher() box.session.push(1) return 2 end
function look(c)
    local ok, problem = pcall(c.call, c, 'tostring', {1})
    return {c.state, tostring(c.error), c:is_connected(), ok and problem or {problem.code or 0, problem.message}}
end
function settled(c)
    while c.state ~= 'error' do fiber.sleep(0.001) end
    return look(c)
end
"""


@pytest.mark.parametrize("reconnects", ["nil", "0.01"])
@pytest.mark.parametrize(
    ("failing", "told", "reason", "later"),
    [
        ("on_push = function() error('x', 0) end", [0, "x"], "x", "x"),
        ("on_push = function() box.error{code = 77, reason = 'boxed'} end", [77, "boxed"], "boxed", ""),
    ],
)
def test_an_error_of_on_push_ends_the_connection(
    lua: Lua, reconnects: str, failing: str, told: list[Any], reason: str, later: str
) -> None:
    """It ends at once and for good, also if it would be made again after an error of the network."""
    assert lua(
        START
        + f"""local c = net_box.connect(box.cfg.listen, {{reconnect_after = {reconnects}}})
        local _, problem = pcall(c.call, c, 'pusher', {{}}, {{{failing}}})
        return {{problem.code or 0, problem.message}}, look(c)""",
        directory=True,
    ) == [told, ["error", reason, False, [0, later]]]


def test_a_buffer_that_is_none_ends_the_connection(lua: Lua) -> None:
    told, seen = lua(
        START
        + """local c = net_box.connect(box.cfg.listen)
        return tostring(select(2, pcall(c.call, c, 'tostring', {1}, {buffer = 5}))), look(c)""",
        directory=True,
    )
    assert told.endswith("attempt to index local 'buffer' (a number value)")
    assert seen == ["error", told, False, [0, told]]


@pytest.mark.parametrize("event", ["on_connect", "on_schema_reload"])
@pytest.mark.parametrize("reconnects", ["nil", "0.01"])
def test_an_error_of_a_trigger_ends_the_connection(lua: Lua, event: str, reconnects: str) -> None:
    assert lua(
        START
        + f"""local c = net_box.connect(box.cfg.listen, {{wait_connected = false, reconnect_after = {reconnects}}})
        c:{event}(function() error('refused', 0) end)
        return settled(c)""",
        directory=True,
    ) == [["error", "refused", False, [0, "refused"]]]


def test_an_error_of_on_disconnect(lua: Lua) -> None:
    """It is raised by close(); if the connection is lost, it becomes the reason."""
    assert lua(
        START
        + """local function new()
            local c = net_box.connect(box.cfg.listen)
            c:on_disconnect(function() error('leave', 0) end)
            return c
        end
        local closed, lost = new(), new()
        local outcome = {pcall(closed.close, closed)}
        pcall(lost.call, lost, 'pusher', {}, {on_push = function() error('x', 0) end})
        return outcome, closed.state, settled(lost)""",
        directory=True,
    ) == [[False, "leave"], "closed", ["error", "leave", False, [0, "leave"]]]


def test_errors_of_local_calls_are_those_of_procedures(lua: Lua) -> None:
    assert lua(
        START
        + """local problems = {}
        for i, expression in ipairs({'box.error(1, "x")', 'error("y", 0)', 'error({1}, 0)'}) do
            local problem = select(2, pcall(net_box.self.eval, net_box.self, expression))
            problems[i] = {problem.code, (problem.message:gsub('0x%x+', 'N'))}
        end
        return problems""",
        directory=True,
    ) == [[[32, "Illegal parameters, x"], [32, "y"], [32, "table: N"]]]


def test_readers_of_one_tuple_take_no_buffer(lua: Lua, tmp_path: Path) -> None:
    """The error has the place where it was raised."""
    address = f"unix/:{tmp_path}/w.sock"
    chunk = """box.schema.user.grant('guest', 'super')
        local index = require('net.box').connect(...).space._schema.index.primary
        return select(2, pcall(index.get, index, 'version', {buffer = require('buffer').ibuf()}))"""
    [text] = lua(chunk, address, configure={"listen": address})
    assert re.fullmatch(r"\S+:\d+: index:get\(\) doesn't support `buffer` argument", text)


def test_the_log_names_the_obsolete_timeout_once(lua: Lua, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    address = f"unix/:{tmp_path}/w.sock"
    chunk = """local conn = require('net.box').connect(...)
        return conn:timeout(1):ping() and conn:timeout(1):ping()"""
    assert lua(chunk, address, configure={"listen": address, "log_level": 5}) == [True]
    assert capfd.readouterr().err.count("netbox:timeout(timeout) is deprecated since 1.7.4, please use space:<req") == 1
