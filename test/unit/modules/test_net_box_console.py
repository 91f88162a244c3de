"""Connections of `net.box` to a console (`console = true`). Texts were printed by a running Tarantool 2.8.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

SETUP = """
local net_box, fiber, console = require('net.box'), require('fiber'), require('console')
local text, binary = ...
local server = console.listen(text)
local function connect(address, options)
    return net_box.connect(address, table.deepcopy(options or {console = true}))
end
local function failure(...)
    local ok, problem = pcall(...)
    return ok, tostring(problem)
end
local remote = connect(text)
"""


@pytest.fixture
def console(lua: Lua, tmp_path: Path) -> Any:
    """Run Lua source after SETUP, with a console and a binary server to connect to."""
    text, binary = f"unix/:{tmp_path}/c.sock", f"unix/:{tmp_path}/b.sock"

    def run(source: str) -> Any:
        return lua(SETUP + source, text, binary, configure={"listen": binary, "wal_mode": "none"})

    return run


def test_a_line_is_answered_with_the_text_of_the_console(console: Any) -> None:
    assert console(
        """return remote.state, remote.protocol, remote.peer_version_id, remote:eval('1, 2'), remote:eval('a = 1'),
            remote:eval('error("x")'), remote:is_connected(), remote.call == nil"""
    ) == [
        "active",
        "Lua console",
        133121,
        "---\n- 1\n- 2\n...\n",
        "---\n...\n",
        "---\n- error: x\n...\n",
        True,
        True,
    ]


def test_a_late_answer_is_thrown_away(console: Any) -> None:
    assert console(
        """local ok, problem = failure(remote.eval, remote, 'require("fiber").sleep(0.2) return 5', 0.01)
        return ok, problem, remote.state, remote:eval('7')"""
    ) == [False, "Timeout exceeded", "active", "---\n- 7\n...\n"]


def test_answers_belong_to_requests_of_several_fibers(console: Any) -> None:
    assert console(
        """local found = {}
        local channel = fiber.channel(3)
        for i = 1, 3 do
            fiber.create(function() found[i] = remote:eval(tostring(i)) channel:put(true) end)
        end
        for _ = 1, 3 do channel:get() end
        return found"""
    ) == [["---\n- 1\n...\n", "---\n- 2\n...\n", "---\n- 3\n...\n"]]


def test_a_push_is_no_answer(console: Any) -> None:
    assert console("return remote:eval('box.session.push(1) return 2')") == ["---\n- 2\n...\n"]


def test_the_end_of_the_session_ends_the_connection(console: Any) -> None:
    assert console(
        r"""local gone = 0
        remote:on_disconnect(function() gone = gone + 1 end)
        local first = {failure(remote.eval, remote, [[\quit]])}
        return first, remote.state, remote.error, {failure(remote.eval, remote, '1')}, gone"""
    ) == [[False, "Peer closed"], "error", "Peer closed", [False, "Peer closed"], 1]


def test_a_request_that_waits_fails_when_the_connection_is_closed(console: Any) -> None:
    assert console(
        """fiber.create(function() fiber.sleep(0.02) remote:close() end)
        local waiting = {failure(remote.eval, remote, 'require("fiber").sleep(60)')}
        return waiting, remote.state, {failure(remote.eval, remote, '1')}"""
    ) == [[False, "Connection closed"], "closed", [False, "Connection closed"]]


def test_a_connection_comes_back(console: Any) -> None:
    assert console(
        r"""remote:close()
        remote = connect(text, {console = true, reconnect_after = 0.01})
        failure(remote.eval, remote, [[\quit]])
        return remote:wait_state('active', 10), remote:eval('3')"""
    ) == [True, "---\n- 3\n...\n"]


def test_a_server_of_the_binary_protocol_evaluates_lines_too(console: Any) -> None:
    assert console(
        """box.schema.user.grant('guest', 'super')
        remote = connect(binary)
        return remote.state, remote.protocol, remote.space == nil, remote:eval('1'), remote:eval('error("x")')"""
    ) == ["active", "Binary", True, "---\n- 1\n...\n", "---\n- error: x\n...\n"]


def test_errors_of_the_connection_and_of_arguments(console: Any) -> None:
    assert console(
        """local none = connect(text .. '.none')
        local shown = {failure(remote.eval, remote)}
        shown[2] = shown[2]:gsub(':%d+:', ':N:')
        return none.state, none.error, {failure(none.eval, none, '1')}, shown,
            (select(2, failure(remote.eval, remote, '1', 'x')):gsub(':%d+:', ':N:'))"""
    ) == [
        "error",
        "No such file or directory",
        [False, "No such file or directory"],
        [False, "builtin/box/net_box.lua:N: attempt to concatenate local 'line' (a nil value)"],
        "builtin/box/net_box.lua:N: Usage: future:wait_result(timeout)",
    ]
