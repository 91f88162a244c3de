"""Sockets of fibers, with each other and with a Python server."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.errors import BoxError

from .conftest import Lua

PAIR = """
local socket, fiber, errno = require('socket'), require('fiber'), require('errno')
local server = socket('AF_INET', 'SOCK_STREAM', 'tcp')
server:setsockopt('SOL_SOCKET', 'SO_REUSEADDR', true)
server:bind('127.0.0.1', 0)
server:listen(5)
local client = socket('AF_INET', 'SOCK_STREAM', 'tcp')
client:sysconnect('127.0.0.1', server:name().port)
server:readable(5)
local peer = server:accept()
"""


def test_reads_by_size_delimiter_and_end(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local results = {peer:write('hello\\nworld;x'), client:read('\\n'), client:read(3),
            client:read({chunk = 10, delimiter = {';', 'x'}})}
        local late = client:read(100, 0.01)
        local reason = client:errno() == errno.EAGAIN or client:errno() == errno.ETIMEDOUT
        peer:shutdown('W')
        return results, late == nil and reason, client:read(100), client:read('\\n')"""
    ) == [[13, "hello\n", "wor", "ld;"], True, "x", ""]


def test_a_fiber_waits_for_data_while_another_sends_it(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local got
        local reader = fiber.new(function() got = client:read('\\n') end)
        reader:set_joinable(true)
        fiber.yield()
        peer:write('late\\n')
        reader:join()
        return got"""
    ) == ["late\n"]


def test_closing_wakes_the_fiber_that_waits(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local reader = fiber.new(function() return client:readable() end)
        reader:set_joinable(true)
        fiber.yield()
        client:close()
        local ended, ok, problem = reader:join(), pcall(client.read, client, 1)
        return ended, ok, (problem:gsub(':%d+', ''))"""
    ) == [True, False, "builtin/socket.lua: attempt to use closed socket"]


def test_a_cancelled_fiber_leaves_its_wait(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local reader = fiber.new(function() client:readable() end)
        reader:set_joinable(true)
        fiber.yield()
        reader:cancel()
        local ok, problem = reader:join()
        return ok, tostring(problem)"""
    ) == [False, "fiber is cancelled"]


def test_names_options_and_errors(lua: Lua) -> None:
    name, option, unknown, missing = lua(
        PAIR
        + """
        local name = client:peer() name.port = nil
        local _, problem = pcall(client.setsockopt, client, 'SOL_SOCKET', 'SO_NONE', 1)
        client:close()
        local no_peer = server:peer() == nil and server:error()
        return name, server:getsockopt('SOL_SOCKET', 'SO_REUSEADDR'), problem, no_peer"""
    )
    assert name == {"host": "127.0.0.1", "family": "AF_INET", "type": "SOCK_STREAM", "protocol": "tcp"}
    assert option == 1
    assert unknown.endswith("Unknown socket option name: SO_NONE")
    assert missing == "Transport endpoint is not connected"


def test_server_and_client_on_tcp_and_unix_sockets(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local socket = require('socket')
        local function talk(host, port)
            local server = socket.tcp_server(host, port, function(s) s:write('hi ' .. s:read('\\n')) end)
            local client = socket.tcp_connect(host, server:name().port)
            client:write('me\\n')
            local answer = client:read(100)
            server:close()
            return answer
        end
        return talk('127.0.0.1', 0), talk('unix/', ...)""",
        str(tmp_path / "s.sock"),
    ) == ["hi me\n", "hi me\n"]


def test_a_server_removes_its_socket_file(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local socket, exists = require('socket'), require('fio').path.exists
        local server = socket.tcp_server('unix/', ..., function() end)
        return exists(...), server:close(), exists(...)""",
        str(tmp_path / "s.sock"),
    ) == [True, True, False]


def test_unknown_names_of_an_address(lua: Lua) -> None:
    assert lua(
        """local socket, found = require('socket'), {}
        for _, options in ipairs({{type = 'x'}, {family = 'x'}, {flags = 'x'}, {protocol = 'x'}}) do
            local list, reason = socket.getaddrinfo('127.0.0.1', '80', options)
            table.insert(found, {list == nil, reason})
        end
        return found, socket('AF_INET', 'SOCK_STREAM') == nil"""
    ) == [[[True, "Invalid argument"]] * 3 + [[True, "Protocol wrong type for socket"]], True]


def test_a_printed_socket_has_two_addresses(lua: Lua) -> None:
    assert lua(
        """local server = require('socket').tcp_server('127.0.0.1', 0, function() end)
        local shown = require('json').decode(require('json').encode(server))
        return shown.name.host, shown.name.port == server:name().port, shown.peer == nil, shown.host == nil"""
    ) == ["127.0.0.1", True, True, True]


def test_a_socket_file_without_a_server_is_replaced(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        """local socket = require('socket')
        local first = socket('AF_UNIX', 'SOCK_STREAM', 0)
        first:bind('unix/', ...)
        first:close()
        local second = socket.tcp_server('unix/', ..., function() end)
        local third, reason = socket.tcp_server('unix/', ..., function() end)
        return second ~= nil, third == nil, reason""",
        str(tmp_path / "s.sock"),
    ) == [True, True, "Address already in use"]


def test_nobody_listens(lua: Lua, tmp_path: Path) -> None:
    assert lua(
        "local s, reason = require('socket').tcp_connect('unix/', ...) return s == nil, reason", str(tmp_path / "no")
    ) == [True, "No such file or directory"]


def test_datagrams(lua: Lua) -> None:
    assert lua(
        """local socket = require('socket')
        local a, b = socket('AF_INET', 'SOCK_DGRAM', 'udp'), socket('AF_INET', 'SOCK_DGRAM', 'udp')
        a:bind('127.0.0.1', 0)
        local sent = b:sendto('127.0.0.1', a:name().port, 'dgram')
        a:readable(5)
        local data, from = a:recvfrom(100)
        return sent, data, from.host"""
    ) == [5, "dgram", "127.0.0.1"]


def test_addresses_are_looked_up(lua: Lua) -> None:
    found, nothing, reason = lua(
        """local socket = require('socket')
        return socket.getaddrinfo('127.0.0.1', '80', {type = 'SOCK_STREAM'}),
            socket.getaddrinfo('127.0.0.1', 'no such service')"""
    )
    assert found == [{"host": "127.0.0.1", "family": "AF_INET", "type": "SOCK_STREAM", "protocol": "tcp", "port": 80}]
    assert nothing is None
    assert reason.startswith("getaddrinfo: Servname not supported")


def test_waiting_for_any_descriptor(lua: Lua) -> None:
    with pytest.raises(BoxError, match="Usage: iowait"):
        lua("require('socket').iowait(-1, 'R', 0)")
    assert lua("return require('socket').iowait(nil, nil, 0.001) == nil") == [True]


def test_errno_outlives_what_comes_between(lua: Lua) -> None:
    """errno() keeps the number of a failure through print, log and a yield."""
    assert (
        lua(
            """local socket, errno = require('socket'), require('errno')
        local results = {}
        for _, between in ipairs({print, require('log').info, require('fiber').yield}) do
            local listener = socket('AF_INET', 'SOCK_STREAM', 'tcp')
            listener:bind('127.0.0.1', 0)
            local failed, reason = socket.tcp_connect('127.0.0.1', listener:name().port, 5)
            between('something')
            table.insert(results, {failed == nil, reason, errno() == errno.ECONNREFUSED, errno.strerror()})
            listener:close()
        end
        return unpack(results)"""
        )
        == [[True, "Connection refused", True, "Connection refused"]] * 3
    )


def test_errno_of_a_call_through_the_ffi(lua: Lua) -> None:
    """errno() after an ffi call has that call's number, also after another failure."""
    assert lua(
        """local errno, ffi = require('errno'), require('ffi')
        ffi.cdef('int chdir(const char *path);')
        errno(errno.EPERM)
        print('a call into Python')
        ffi.C.chdir('/nonexistent')
        local number = errno()
        return number == errno.ENOENT, errno(0) == errno.ENOENT, errno()"""
    ) == [True, True, 0]


def test_reads_take_the_same_however_the_data_come(lua: Lua) -> None:
    """Reads by delimiters, by sizes and by two fibers in turn are right for data in pieces of any size."""
    assert lua(
        """
        local fiber, fio, socket = require('fiber'), require('fio'), require('socket')
        local path = fio.pathjoin(fio.tempdir(), 's')
        local text = ('one\\r\\ntwo--END--three\\n'):rep(40)
        local size
        local server = socket.tcp_server('unix/', path, function(peer)
            for at = 1, #text, size do
                peer:write(text:sub(at, at + size - 1))
                fiber.yield()
            end
        end)
        local function read_all(client)
            local parts, kinds = {}, {'\\r\\n', '--END--', 4, {delimiter = {'\\n', 'ee'}}, {chunk = 3, delimiter = 'x'}}
            for turn = 0, 1000000 do
                local part = client:read(kinds[turn % #kinds + 1], 5)
                if part == '' then break end
                parts[#parts + 1] = part
            end
            return table.concat(parts, '|')
        end
        local results = {}
        for i, parts_of in ipairs{1, 2, 3, 7, 10000} do
            size = parts_of
            local client = socket.tcp_connect('unix/', path)
            results[i] = read_all(client)
            client:close()
        end
        size = 2
        local shared, lines = socket.tcp_connect('unix/', path), {}
        local left = fiber.channel(2)
        for _ = 1, 2 do
            fiber.create(function()
                while true do
                    local line = shared:read('\\n', 5)
                    if line == '' or line == nil then break end
                    lines[#lines + 1] = line
                end
                left:put(true)
            end)
        end
        left:get() left:get()
        server:close()
        local same = true
        for i = 2, #results do same = same and results[i] == results[1] end
        return same, results[1]:gsub('|', '') == text, table.concat(lines) == text, #lines"""
    ) == [True, True, True, 80]


def test_a_cancelled_fiber_is_told_by_whatever_asks_for_readiness(lua: Lua) -> None:
    """A cancelled fiber gets the error from any call that asks for readiness, also if nothing has to be waited for."""
    assert lua(
        PAIR
        + """
        local texts = {}
        local asker = fiber.new(function()
            pcall(fiber.sleep, 100)
            for _, name in ipairs({'readable', 'writable', 'wait'}) do
                texts[#texts + 1] = tostring(select(2, pcall(client[name], client, 0)))
            end
            texts[#texts + 1] = tostring(select(2, pcall(socket.iowait, client:fd(), 'rw', 0)))
        end)
        asker:set_joinable(true)
        fiber.yield()
        asker:cancel()
        asker:join()
        return texts"""
    ) == [["fiber is cancelled"] * 4]


def test_the_text_of_a_socket(lua: Lua) -> None:
    assert lua(
        PAIR
        + """
        local text = tostring(client):gsub('fd %d+', 'fd'):gsub(':%d+', ':PORT')
        client:close()
        return text, (select(2, pcall(tostring, client)):gsub(':%d+', ''))"""
    ) == ["fd, aka 127.0.0.1:PORT, peer 127.0.0.1:PORT", "builtin/socket.lua: attempt to use closed socket"]


def test_names_that_cannot_be_resolved_are_an_input_error(lua: Lua) -> None:
    assert lua(
        """local socket, errno, numbers = require('socket'), require('errno'), {}
        local function note(f, ...) errno(0) f(...) numbers[#numbers + 1] = errno() == errno.EIO end
        note(socket.tcp_server, '0.0.0.0', -1, function() end)
        note(socket.tcp_connect, '127.0.0.1', 'no-such-service', 1)
        note(socket.getaddrinfo, '999.1.1.1', 1)
        return numbers"""
    ) == [[True] * 3]


def test_a_wait_lets_others_run(lua: Lua) -> None:
    """A wait for a socket that is ready lets other fibers run, even a wait without time."""
    assert lua(
        """
        local socket, fiber = require('socket'), require('fiber')
        local accepted = 0
        local server = socket.tcp_server('127.0.0.1', 0, function() accepted = accepted + 1 end)
        local client = socket.tcp_connect('127.0.0.1', server:name().port)
        fiber.sleep(0)
        local seen, runs = accepted, 0
        fiber.new(function() runs = runs + 1 end)
        client:writable(0)
        local without_time = runs
        client:writable()
        server:close()
        return seen, without_time, runs
        """
    ) == [1, 1, 1]
