"""Calls that give way to other fibers, and calls that have their outcome at once, as in Tarantool 2.8.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Lua

_COUNTED = """
    local fiber, popen, socket = require('fiber'), require('popen'), require('socket')
    local function turns(run)
        local count, is_over = 0, false
        fiber.create(function()
            while not is_over do
                count = count + 1
                fiber.yield()
            end
        end)
        count = 0
        run()
        is_over = true
        return count
    end
"""


@pytest.mark.parametrize(
    "call",
    [
        "p = popen.shell('cat', 'rw') n = turns(function() p:read{timeout = 0} end) p:kill()",
        "n = turns(function() socket.tcp_server('127.0.0.1', 0, function() end):close() end)",
        "n = turns(function() socket.getaddrinfo('127.0.0.1', 80) end)",
        "n = turns(function() box.cfg{listen = 'unix/:./a.sock'} end)",
        "n = turns(function() pcall(box.cfg, {listen = 'unix/:/none/a.sock'}) end)",
        "n = turns(function() box.cfg{net_msg_max = 700} end)",
    ],
)
def test_other_fibers_run_meanwhile(lua: Lua, call: str, tmp_path: Path) -> None:
    source = f"{_COUNTED} local n, p {call.replace('./', f'{tmp_path}/')} return n > 0"
    assert lua(source, configure={}, directory=True) == [True]


@pytest.mark.parametrize(
    ("arguments", "state", "reason"),
    [
        ("'unix/:/none/x', {wait_connected = false}", "error", "No such file or directory"),
        ("'unix/:/none/x', {wait_connected = false, console = true}", "error", "No such file or directory"),
        (
            "'unix/:/none/x', {wait_connected = false, reconnect_after = 1}",
            "error_reconnect",
            "No such file or directory",
        ),
        ("'unix/:/tmp', {wait_connected = 0}", "error", "Connection refused"),
        ("'unix/', '', {wait_connected = false}", "error", "Connection refused"),
        ("'unix/', ('x'):rep(200), {wait_connected = false}", "error", "No buffer space available"),
        ("'unix/', 5, {wait_connected = false}", "error", "No such file or directory"),
        ("'localhost:1', {wait_connected = false}", "initial", None),
        ("'a b', 1, {wait_connected = false}", "initial", None),
    ],
)
def test_a_unix_socket_refuses_at_once(lua: Lua, arguments: str, state: str, reason: str | None) -> None:
    """A connection by TCP waits at least for the look-up of the name, also if there is no such name."""
    source = f"local c = require('net.box').connect({arguments}) local s, e = c.state, c.error c:close() return s, e"
    assert lua(source, directory=True) == [state, reason]


def test_no_host_and_no_port_is_this_machine(lua: Lua) -> None:
    assert lua("return require('net.box').connect('', '').error", directory=True) == ["Connection refused"]
