"""Sockets that get odd addresses, ports, flags and sizes, as in Tarantool 2.8.1."""

from __future__ import annotations

from pathlib import Path

from .conftest import Lua

SOCKET = "local socket, errno, fiber = require('socket'), require('errno'), require('fiber') "


def test_addresses_that_do_not_fit(lua: Lua) -> None:
    """The error tells what is wrong: the family, the length of a path, a host that is no address."""
    source = (
        SOCKET
        + """
        local found = {}
        local function try(family, host, port)
            local s = socket(family, 'SOCK_STREAM', 0)
            s:bind(host, port)
            found[#found + 1] = s:errno()
            s:close()
        end
        try('AF_INET', '::1', 0)
        try('AF_INET6', '127.0.0.1', 0)
        try('AF_UNIX', '127.0.0.1', 0)
        try('AF_UNIX', 'unix/', ('x'):rep(200))
        try('AF_INET')
        return found, errno.EAFNOSUPPORT, errno.EINVAL, errno.ENOBUFS
    """
    )
    found, family, invalid, no_room = lua(source, directory=True)
    assert found == [family, invalid, invalid, no_room, invalid]


def test_ports_are_numbers_of_16_bits(lua: Lua) -> None:
    """What begins with no number is port 0, and larger numbers lose their upper bits."""
    source = (
        SOCKET
        + """
        local s = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        local other = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        s:bind('127.0.0.1', 'http')
        local port = s:name().port
        s:listen()
        return port > 0, other:sysconnect('127.0.0.1', port + 65536) or other:errno() == errno.EINPROGRESS,
            select(2, socket.tcp_connect('127.0.0.1', -1)), select(2, socket.tcp_connect('127.0.0.1', '\\255'))
    """
    )
    assert lua(source) == [
        True,
        True,
        "getaddrinfo: Servname not supported for ai_socktype",
        "getaddrinfo: Servname not supported for ai_socktype",
    ]


def test_empty_reads(lua: Lua) -> None:
    """Nothing is read for no bytes; an empty delimiter ends what has arrived, not what has not."""
    source = (
        SOCKET
        + """
        local l = socket.tcp_server('unix/', './p.sock', function(c) c:write('ab') fiber.sleep(1) end)
        local s = socket.tcp_connect('unix/', './p.sock')
        local found = {s:read(0, 'no number'), s:read('', 5), s:read(2, 5), s:read('', 0.01) == nil}
        s:close()
        l:close()
        return found
    """
    )
    assert lua(source, directory=True) == [["", "", "ab", True]]


def test_flags_are_names(lua: Lua) -> None:
    source = (
        SOCKET
        + """
        local s = socket('AF_INET', 'SOCK_DGRAM', 'udp')
        local received, number = s:recv(1, 'MSG_NONE'), s:errno()
        return received == nil, number == errno.EINVAL, s:sendto('127.0.0.1', 9, 'x', 'MSG_NONE') == nil,
            s:recv(1, {'MSG_PEEK', 'MSG_DONTWAIT'}) == nil and s:errno() == errno.EAGAIN
    """
    )
    assert lua(source) == [True, True, True, True]


def test_others_run_while_a_server_was_shut_down(lua: Lua) -> None:
    """Its socket is readable for ever."""
    source = (
        SOCKET
        + """
        local l = socket.tcp_server('unix/', './p.sock', function() end)
        l:shutdown('RW')
        fiber.sleep(0.01)
        return l:close()
    """
    )
    assert lua(source, directory=True) == [True]


def test_only_numbers_are_addresses_of_a_socket(lua: Lua) -> None:
    """bind and sysconnect look up no names; a server without a host listens on all addresses."""
    source = (
        SOCKET
        + """
        local function try(call, host)
            local s = socket('AF_INET', 'SOCK_DGRAM', 0)
            local ok = s[call](s, host, 0)
            s:close()
            return ok
        end
        local server = socket.tcp_server(nil, 0, print)
        local host = server:name().host
        server:close()
        local six = socket('AF_INET6', 'SOCK_DGRAM', 0)
        return try('bind', ''), try('bind', 'localhost'), try('sysconnect', 'localhost'), try('bind', '127.1'),
            try('bind', '255.255.255.255'), host, six:sysconnect('127.0.0.1', 1), select(2, socket.tcp_connect(nil, {}))
    """
    )
    assert lua(source) == [
        False, False, False, True, False, "0.0.0.0", True, "getaddrinfo: Name or service not known",
    ]  # fmt: skip


def test_waits_options_and_sizes(lua: Lua) -> None:
    """A wait that has timed out returns 0. Values of options are converted like numbers of C."""
    source = (
        SOCKET
        + r"""
        local server = socket.tcp_server('127.0.0.1', 0, function(c) c:write('ab') require('fiber').sleep(9) end)
        local s = socket.tcp_connect('127.0.0.1', server:name().port)
        local u = socket('AF_INET', 'SOCK_DGRAM', 'udp')
        u:bind('127.0.0.1', 0)
        u:sendto('127.0.0.1', u:name().port, ('x'):rep(700))
        u:readable(5)
        local function problem(...) return (select(2, pcall(...)):match('^%S+:%d+: (.*)')) end
        return u:wait(0), #u:recv(), u:readable('0'), s:readable(5), s:read({delimiter = box.NULL, chunk = 2}, 1),
            s:read({delimiter = {1}}, 0), s:send('a', box.NULL), s:setsockopt('SOL_SOCKET', 'SO_REUSEADDR', 1.5),
            problem(s.setsockopt, s, 'SOL_SOCKET', 'SO_REUSEADDR', box.NULL),
            problem(s.getsockopt, s, 'SOL_SOCKET', 'SO_LINGER'), problem(s.listen, s, {}), problem(s.recv, s, 1e300),
            problem(socket.tcp_server, '127.0.0.1', 0, {handler = print, prepare = 5}), {s:linger(true, 1.5)},
            socket.getaddrinfo('127.0.0.1', 80, 5, {flags = 0})
    """
    )
    assert lua(source) == [
        "RW", 700, False, True, "ab", None, 1, True, "cannot convert 'void *' to 'int'", "Use s:linger()",
        "bad argument #2 to 'listen' (cannot convert 'table' to 'int')",
        "Failed to allocate -9223372036854775808 bytes in ibuf",
        "Usage: socket.tcp_server(host, port, handler | opts)", [True, 1.5], None, "Invalid argument",
    ]  # fmt: skip


def test_a_read_takes_more_than_its_limit_from_the_system(lua: Lua) -> None:
    """What it leaves is for the next read, not for recv."""
    source = (
        SOCKET
        + """
        local server = socket.tcp_server('127.0.0.1', 0, function(c) c:write('abc') fiber.sleep(9) end)
        local s = socket.tcp_connect('127.0.0.1', server:name().port)
        return s:read(1, 5), s:recv(5), s:read(2, 0)
    """
    )
    assert lua(source) == ["a", None, "bc"]


def test_numbers_of_sockets_that_do_not_exist(lua: Lua) -> None:
    """No kind of socket has a negative number; nothing is returned then. Unknown names return nil."""
    chunk = """local socket, errno = require('socket'), require('errno')
    local function try(...)
        return select('#', socket(...)), errno.strerror()
    end
    return {{try(-1, 'SOCK_STREAM', 0)}, {try('AF_INET', -1, 0)}, {try('AF_INET', 'SOCK_STREAM', -1)},
        {try('AF_INET', 'SOCK_STREAM', 'nope')}}"""
    (results,) = lua(chunk)
    assert results == [
        [0, "Address family not supported by protocol"],
        [0, "Invalid argument"],
        [0, "Invalid argument"],
        [1, "Protocol wrong type for socket"],
    ]


def test_a_read_of_no_bytes(lua: Lua, tmp_path: Path) -> None:
    """It fails if there is nothing to receive. It takes a datagram, and nothing of a stream. Below 0 it is huge."""
    source = (
        SOCKET
        + """
        local l = socket.tcp_server('unix/', (...) .. '/s', function(c) c:write(c:read(1)) fiber.sleep(60) end)
        local s = socket.tcp_connect('unix/', (...) .. '/s')
        local found = {s:recv(0) == nil and s:errno(), s:recvfrom(0) == nil and s:errno(), s:sysread(0), s:errno()}
        s:write('a')
        s:readable(5)
        found[#found + 1], found[#found + 2], found[#found + 3] = s:recv(0), (s:recvfrom(0)), s:recv(-1LL)
        found[#found + 1] = s:recv(18446744073709551615ULL) == nil and s:errno()
        local a, b = socket('AF_UNIX', 'SOCK_DGRAM', 0), socket('AF_UNIX', 'SOCK_DGRAM', 0)
        a:bind('unix/', (...) .. '/d')
        b:sendto('unix/', (...) .. '/d', 'one')
        b:sendto('unix/', (...) .. '/d', 'two')
        found[#found + 1], found[#found + 2] = a:recv(0), a:recv(-1)
        l:close()
        return found, errno.EAGAIN"""
    )
    found, nothing = lua(source, str(tmp_path), directory=True)
    assert found == [nothing, nothing, "", 0, "", "", "a", nothing, "", "two"]


def test_a_call_with_wrong_arguments_forgets_the_last_error(lua: Lua) -> None:
    source = (
        SOCKET
        + """
        local found = {}
        for _, call in ipairs{{'readable', {}}, {'writable', {}}, {'wait', {}}, {'send', {}}} do
            local s = socket('AF_UNIX', 'SOCK_STREAM', 0)
            s:recv(1)
            local before = s:errno()
            found[#found + 1] = not pcall(s[call[1]], s, call[2]) and before ~= 0 and s:errno()
        end
        return unpack(found)"""
    )
    assert lua(source, directory=True) == [0, 0, 0, 0]
