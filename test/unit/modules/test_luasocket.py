"""The calls of LuaSocket that `socket` offers. Expected results are those of 2.8.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua

SERVER = """
local socket, fiber = require('socket'), require('fiber')
local server = socket.tcp()
server:setoption('reuseaddr', true)
assert(server:bind('127.0.0.1', 0) == 1)
assert(server:listen(5) == 1)
server:settimeout(5)
local host, port = server:getsockname()
"""
PAIR = (
    SERVER
    + """
local client = socket.connect(host, port)
local accepted = server:accept()
accepted:settimeout(0.02)
"""
)


def test_a_master_becomes_a_server_or_is_connected(lua: Lua) -> None:
    assert lua(
        SERVER
        + """
        local kinds = {}
        local function kind(socket)
            kinds[#kinds + 1] = tostring(socket):gsub('%d+', 'N')
        end
        kind(server)
        local master = socket.tcp()
        kind(master)
        assert(master:connect(host, port) == 1)
        local accepted = server:accept()
        kind(accepted)
        master:send('via master\\n')
        local line = accepted:receive()
        accepted:send('answer')
        assert(accepted:close() == 1)
        return kinds, line, master:receive('*a')"""
    ) == [["tcp{server}: fd=N", "tcp{master}: fd=N", "tcp{client}: fd=N"], "via master", "answer"]


def test_receive_and_send(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local sent = {client:send('hello\\nworld\\n'), client:send('abcdef', 2, 4), client:send('abcdef', -2),
            client:send('', 1), (client:send('x'))}
        local got = {accepted:receive(), accepted:receive('*l', 'pre'), accepted:receive(3, '>')}
        local late = {select(2, accepted:receive(100)), select(2, accepted:receive('*l'))}
        local all = {accepted:receive('*a', 'p'), select(2, accepted:receive('*a')), (accepted:receive(0))}
        return sent, got, late, all"""
    ) == [
        [12, 4, -1, 0, 1],
        ["hello", "preworld", ">bcd"],
        ["Connection timed out", "Connection timed out"],
        ["pefx", "Connection timed out", ""],
    ]


@pytest.mark.parametrize("pattern", ["'*l'", "2", "'*a'"])
def test_the_end_of_the_stream(lua: Lua, pattern: str) -> None:
    assert lua(
        PAIR
        + f"""
        assert(client:shutdown('send') == 1)
        return {{accepted:receive({pattern}, '#')}}"""
    ) == [[None, "closed", "#"]]


def test_what_came_before_the_end_is_not_lost(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        client:send('tail')
        client:close()
        return {accepted:receive('*l', '#')}, {accepted:receive('*l')}"""
    ) == [[None, "closed", "#tail"], [None, "closed", ""]]


def test_a_fiber_that_waits_for_a_line_holds_nobody_up(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        accepted:settimeout(nil)
        local waiter = fiber.new(function() return accepted:receive() end)
        waiter:set_joinable(true)
        fiber.yield()
        client:send('late\\n')
        return waiter:join()"""
    ) == [True, "late"]


def test_timeouts_and_refusals_are_reasons(lua: Lua) -> None:
    assert lua(
        SERVER
        + """
        server:settimeout(0.01)
        local master = socket.tcp()
        return {server:accept()}, {master:getpeername()}, {master:bind(host, port)},
            {socket.bind(host, port)}, {socket.connect(host, 1)}, {socket.tcp():connect('no.such.host.invalid', 1)}"""
    ) == [
        [None, "Connection timed out"],
        [None, "Transport endpoint is not connected"],
        [None, "Address already in use"],
        [None, "Address already in use"],
        [None, "Connection refused"],
        [None, "getaddrinfo: Name or service not known"],
    ]


def test_unix_sockets(lua: Lua, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    assert lua(
        f"""
        local socket = require('socket')
        local server = socket.bind('unix/', '{path}', 3)
        local client = socket.connect('unix/', '{path}')
        return {{server:getsockname()}}, {{client:getpeername()}}"""
    ) == [["unix/", path, "unix"], ["unix/", path, "unix"]]


def test_options(lua: Lua) -> None:
    assert lua(
        """
        local master = require('socket').tcp()
        local set = {}
        for _, name in ipairs{'reuseaddr', 'keepalive', 'tcp-nodelay', 'linger'} do
            set[#set + 1] = {master:setoption(name, true), master:setoption(name, false)}
        end
        return set, master:setoption('linger', {on = true, timeout = 1})"""
    ) == [[[1, 1]] * 4, 1]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("socket.connect(nil, 1)", "Usage: luasocket.connect(host, port)"),
        ("socket.connect('localhost')", "Usage: luasocket.connect(host, port)"),
        ("socket.bind('localhost')", "Usage: luasocket.bind(host, port [, backlog])"),
        ("master:setoption('nothing', 1)", "Unknown socket option name: nothing"),
        ("master:setoption('reuseaddr')", "cannot convert 'nil' to 'int'"),
        ("master:setoption('keepalive', 'x')", "cannot convert 'string' to 'int [1]'"),
        ("master:setoption('keepalive', {{}})", "cannot convert 'table' to 'int'"),
        ("master:receive('*n')", "Usage: socket:receive(pattern, [, prefix])"),
        ("master:receive(-1)", "socket:read(): limit can not be negative"),
        ("master:send({})", "cannot convert 'table' to 'const char *'"),
        ("master:send()", "attempt to get length of local 'octets' (a nil value)"),
        ("master.settimeout({}, 1)", "Usage: socket:method()"),
        ("master:accept()", "attempt to call method 'accept' (a nil value)"),
        ("closed:receive()", "attempt to use closed socket"),
        ("closed:settimeout(1)", "attempt to use closed socket"),
        ("closed:close()", "attempt to use closed socket"),
    ],
)
def test_wrong_calls(lua: Lua, call: str, error: str) -> None:
    with pytest.raises(BoxError) as raised:
        lua(
            f"""
            local socket = require('socket')
            local master, closed = socket.tcp(), socket.tcp()
            closed:close()
            {call}"""
        )
    assert error in raised.value.message
