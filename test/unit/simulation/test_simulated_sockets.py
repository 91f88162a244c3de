"""Sockets in Lua of simulated nodes behave as on the loopback of a real machine."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.embed import LuaInstance
from box.testing import Simulation

PRELUDE = """
local socket, fiber, errno = require('socket'), require('fiber'), require('errno')
local path = ...
local function reason(s) return s:error() end
local function listening(host, port)
    local server = socket(host == 'unix/' and 'AF_UNIX' or 'AF_INET', 'SOCK_STREAM', 0)
    assert(server:bind(host, port) and server:listen(5))
    return server
end
local function pair(host, port)
    local server = listening(host or '127.0.0.1', port or 0)
    local client = socket.tcp_connect(host or '127.0.0.1', server:name().port)
    assert(server:readable(5))
    local accepted = server:accept()
    return client, accepted, server
end
local function pause() fiber.sleep(0.05) end
local function in_fiber(f, ...)
    local result = fiber.new(f, ...)
    result:set_joinable(true)
    return result
end
"""


def on_real(source: str, path: Path) -> Any:
    """Return the results on this machine."""

    async def main() -> Any:
        instance = LuaInstance(None, write=lambda data: None)
        instance.node.log.level = 1
        try:
            context = instance.node.new_context()
            (found,) = unpack(await instance.runtime.eval(source.encode(), pack([str(path)]), context, "@test"))
            return found
        finally:
            await instance.stop()

    return asyncio.run(asyncio.wait_for(main(), 30))


def on_simulated(source: str, path: Path, seed: int = 1) -> Any:
    """Return the results in a simulated node."""

    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        return await simulation.within(60, node.run(node.application.eval(source, str(path))))

    with Simulation(seed) as simulation:
        found = simulation.run(scenario(simulation))
        assert simulation.errors == []
        return found


PROGRAMS = {
    "an echo server": """
        local server = socket.tcp_server('127.0.0.1', 0, function(s, from)
            while true do
                local line = s:read('\\n')
                if line == '' or line == nil then break end
                s:write(from.host .. ' ' .. line)
            end
        end)
        local client = socket.tcp_connect('localhost', server:name().port)
        local results = {}
        for i = 1, 3 do
            client:write('line ' .. i .. '\\n')
            results[i] = client:read('\\n', 5)
        end
        local name, peer = client:name(), client:peer()
        name.port, peer.port = nil, nil
        client:shutdown('W')
        results[4], results[5], results[6] = client:read('\\n', 5), name, peer
        server:close()
        return results
    """,
    "a unix socket": """
        local server = socket.tcp_server('unix/', path, function(s, from)
            s:write(from.host .. from.port .. ' ' .. s:read('\\n'))
        end)
        local client = socket.tcp_connect('unix/', path)
        client:write('me\\n')
        return {client:read(100, 5), client:name(), client:peer(), server:name(), client:close(), server:close()}
    """,
    "refused connections": """
        local port, held
        repeat
            local closed = listening('127.0.0.1', 0)
            port = closed:name().port
            closed:close()
            held = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        until held:bind('127.0.0.1', port)  -- without listen: it refuses connections, and no other program gets it
        local nobody = {socket.tcp_connect('127.0.0.1', port, 5)}
        nobody[3] = errno.strerror()
        local raw, other = socket('AF_INET', 'SOCK_STREAM', 'tcp'), socket('AF_INET', 'SOCK_STREAM', 'tcp')
        local first = {raw:sysconnect('127.0.0.1', port), reason(raw)}
        raw:writable(5)
        local second = {raw:sysconnect('127.0.0.1', port), reason(raw)}
        local third = {raw:sysconnect('127.0.0.1', port), reason(raw)}
        other:sysconnect('127.0.0.1', port)
        other:writable(5)
        local number = other:getsockopt('SOL_SOCKET', 'SO_ERROR') == errno.ECONNREFUSED
        return nobody, first, second, third, number, other:getsockopt('SOL_SOCKET', 'SO_ERROR'),
            {socket.tcp_connect('unix/', path .. '.none')}
    """,
    "sockets in the wrong state": """
        local s, results = socket('AF_INET', 'SOCK_STREAM', 'tcp'), {}
        local function note(value) results[#results + 1] = {value, value ~= true and reason(s) or nil} end
        note(s:recv(1)) note(s:send('x')) note(s:shutdown('W')) note(s:peer()) note(s:accept())
        s = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        note(s:bind('127.0.0.1', 0)) note(s:bind('127.0.0.1', 0)) note(s:listen()) note(s:accept())
        local port = s:name().port
        local server = s
        s = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        note(s:bind('127.0.0.1', port))
        note(s:setsockopt('SOL_SOCKET', 'SO_REUSEADDR', true))
        note(s:bind('127.0.0.1', port))
        note(s:bind('8.8.8.8', 0))
        note(s:bind('::1', 0))
        note(s:sysconnect('127.0.0.1', port))
        s:writable(5)
        note(s:sysconnect('127.0.0.1', port))
        note(s:recv(10))
        note(s:shutdown('W'))
        note(s:send('x'))
        results[#results + 1] = {socket('AF_INET', 'SOCK_STREAM', 'udp') == nil, errno() == errno.EPROTONOSUPPORT}
        s = socket('AF_UNIX', 'SOCK_STREAM', 0)
        note(s:listen()) note(s:recv(1)) note(s:send('x')) note(s:peer()) note(s:shutdown('W'))
        note(s:bind('unix/', ('/x'):rep(60)))
        return results
    """,
    "a peer that closes": """
        local client, accepted = pair()
        accepted:write('bye')
        accepted:close()
        pause()
        local results = {client:read(2), client:read(10), client:read(10), client:sysread(1)}
        results[5] = client:send('x')
        pause()
        results[6], results[7] = client:send('y'), reason(client)
        results[8] = client:recv(1)
        results[9] = client:peer() == nil and reason(client)
        return results
    """,
    "a peer that closes and has not read": """
        local client, accepted = pair()
        client:write('unheard')
        accepted:write('heard')
        pause()
        accepted:close()
        pause()
        local results = {client:recv(10), client:recv(10), reason(client)}
        results[4], results[5] = client:recv(10), client:send('x')
        results[6] = reason(client)
        return results
    """,
    "a reset while somebody reads": """
        local client, accepted = pair()
        local reader = in_fiber(function() return client:read(10), reason(client) end)
        pause()
        accepted:linger(true, 0)
        accepted:close()
        return {reader:join()}
    """,
    "closing while reading": """
        local client, accepted = pair()
        local reader = in_fiber(function() return client:readable(5) end)
        fiber.yield()
        client:close()
        local result = {reader:join()}
        return result, accepted:read(10, 5)
    """,
    "half closed": """
        local client, accepted = pair()
        local server = in_fiber(function()
            local all = accepted:read(1000)
            accepted:write(all:upper())
            accepted:close()
        end)
        client:write('some')
        client:write('thing')
        client:shutdown('W')
        local answer = {client:read(1000), client:send('x'), reason(client)}
        server:join()
        return answer
    """,
    "timeouts": """
        local client, accepted, server = pair()
        local start = fiber.clock()
        local results = {client:read(1, 0.1), reason(client), client:readable(0.1), reason(client),
            client:wait(0.1), server:readable(0.1), socket.iowait(client:fd(), 'R', 0.1)}
        local spent = fiber.clock() - start
        return results, spent > 0.39 and spent < 10
    """,
    "several fibers and one socket": """
        local client, accepted = pair()
        local woken, waiters = {}, {}
        for i = 1, 4 do
            waiters[i] = in_fiber(function()
                woken[#woken + 1] = {i, i < 4 and client:readable(5) or client:wait(5)}
            end)
        end
        fiber.yield()
        accepted:write('x')
        for i = 1, 4 do waiters[i]:join() end
        return woken
    """,
    "readiness": """
        local client, accepted, server = pair()
        local fresh = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        local results = {fresh:wait(0), server:wait(0), client:wait(0), accepted:readable(0)}
        client:shutdown('W')
        pause()
        results[5], results[6] = accepted:wait(0), client:wait(0)
        accepted:close()
        pause()
        results[7] = client:wait(0)
        client:close()
        local other = socket.tcp_connect('127.0.0.1', server:name().port)
        pause()
        results[8] = server:wait(0)
        return results
    """,
    "a large transfer to who reads slowly": """
        local client, accepted = pair()
        local chunk, total, stopped = ('x'):rep(65536), 0, false
        while not stopped and total < 2^26 do
            local sent = client:send(chunk)
            if sent == nil then
                stopped = reason(client)
                if client:writable(0.2) then stopped = false end
            else
                total = total + sent
            end
        end
        local digest, got = require('digest').crc32.new(), 0
        local reader = in_fiber(function()
            while got < total + 3000000 do
                local data = accepted:read(100000, 5)
                if data == nil or data == '' then break end
                got = got + #data
            end
        end)
        local rest = client:write(('y'):rep(3000000), 20)
        client:close()
        reader:join()
        return stopped, rest, got - total
    """,
    "datagrams": """
        local a, b = socket('AF_INET', 'SOCK_DGRAM', 'udp'), socket('AF_INET', 'SOCK_DGRAM', 'udp')
        local results = {a:recv(1), reason(a), b:send('x'), reason(b)}
        a:bind('127.0.0.1', 0)
        results[5] = b:sendto('127.0.0.1', a:name().port, 'first')
        results[6] = a:readable(5)
        local data, from = a:recvfrom(3)
        results[7], results[8], results[9] = data, from.host, from.port == b:name().port
        results[10] = a:recv(10) == nil and reason(a)
        results[11] = a:sysconnect('127.0.0.1', from.port)
        results[12], results[13] = a:send('back'), b:readable(5)
        results[14] = b:recv(10)
        local port = b:name().port
        b:close()
        a:send('nobody')
        pause()
        results[15] = a:send('x') == nil and reason(a)
        results[16] = a:sendto('127.0.0.1', port, ('x'):rep(70000)) == nil and reason(a)
        results[17] = a:listen() or reason(a)
        results[18] = a:peer().port == port
        return results
    """,
    "datagrams of unix sockets": """
        local a, b = socket('AF_UNIX', 'SOCK_DGRAM', 0), socket('AF_UNIX', 'SOCK_DGRAM', 0)
        local results = {b:sendto('unix/', path, 'x') == nil and reason(b)}
        a:bind('unix/', path)
        results[2] = b:sendto('unix/', path, 'hello')
        a:readable(5)
        results[3] = {a:recvfrom(100)}
        results[4] = b:sysconnect('unix/', path)
        for i = 1, 100 do
            if b:send(tostring(i)) == nil then results[5] = {i > 5, reason(b)} break end
        end
        results[6] = b:writable(0)
        a:recv(10)
        results[7] = b:writable(5)
        a:close()
        results[8] = b:send('x') == nil and reason(b)
        local stream = socket('AF_UNIX', 'SOCK_STREAM', 0)
        results[9] = stream:sysconnect('unix/', path) or reason(stream)
        return results
    """,
    "options": """
        local s = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        local results = {}
        local function note(...) results[#results + 1] = {...} end
        for _, name in ipairs{'SO_REUSEADDR', 'SO_KEEPALIVE', 'SO_TYPE', 'SO_DOMAIN', 'SO_PROTOCOL', 'SO_ERROR',
            'SO_ACCEPTCONN', 'SO_BROADCAST'} do
            note(name, s:getsockopt('SOL_SOCKET', name))
        end
        note(s:setsockopt('SOL_SOCKET', 'SO_KEEPALIVE', 7), s:getsockopt('SOL_SOCKET', 'SO_KEEPALIVE'))
        note(s:setsockopt('tcp', 'TCP_NODELAY', true), s:getsockopt('tcp', 'TCP_NODELAY'))
        note(s:setsockopt('tcp', 'TCP_KEEPIDLE', 33), s:getsockopt('tcp', 'TCP_KEEPIDLE'))
        note(s:linger())
        note(s:linger(true, 3))
        note(s:linger())
        note(s:nonblock())
        note(s:setsockopt('nope', 'SO_ERROR', 1), reason(s))
        local u = socket('AF_UNIX', 'SOCK_STREAM', 0)
        note(u:setsockopt('tcp', 'TCP_NODELAY', 1), reason(u))
        return results
    """,
    "looking addresses up": """
        local function look(...)
            return {socket.getaddrinfo(...)}
        end
        return look('127.0.0.1', '80'), look('127.0.0.1', 81, {type = 'SOCK_STREAM'}),
            look('localhost', 80, {family = 'AF_INET', type = 'SOCK_DGRAM'}), look('::1', 80, {type = 'SOCK_STREAM'}),
            look('127.0.0.1', 'no such service'), look('::1', 80, {family = 'AF_INET'}),
            look('127.0.0.1', nil, {type = 'SOCK_STREAM'}), look(nil, 80, {type = 'SOCK_STREAM', family = 'AF_INET'}),
            look('0.0.0.0', 80, {protocol = 'udp', type = 'SOCK_DGRAM'}),
            look('localhost', 1, {type = 'SOCK_STREAM', flags = 'AI_NUMERICHOST'}),
            look(nil, 80, {type = 'SOCK_STREAM', family = 'AF_INET', flags = 'AI_PASSIVE'})
    """,
    "peeking": """
        local client, accepted = pair()
        client:write('abc')
        accepted:readable(5)
        return accepted:recv(2, 'MSG_PEEK'), accepted:recv(10), accepted:recv(1), reason(accepted)
    """,
    "a server that is closed": """
        local server = listening('127.0.0.1', 0)
        local client = socket.tcp_connect('127.0.0.1', server:name().port)
        pause()
        server:close()
        pause()
        return {client:recv(1), reason(client)}
    """,
    "a socket file without a server": """
        local first = socket.tcp_server('unix/', path, function() end)
        first:close()
        local gone = {socket.tcp_connect('unix/', path)}
        local second = socket.tcp_server('unix/', path, function() end)
        local third, text = socket.tcp_server('unix/', path, function() end)
        return gone, second ~= nil, third == nil, text
    """,
    "a unix socket whose peer is gone": """
        local client, accepted = pair('unix/', path)
        accepted:write('last')
        accepted:close()
        pause()
        return {client:send('x'), reason(client)}, {client:recv(10), client:recv(10)}
    """,
    "a unix socket that has not been read": """
        local client, accepted = pair('unix/', path)
        client:write('unheard')
        pause()
        accepted:close()
        return {client:recv(10), reason(client)}, {client:recv(10)}, {client:send('x'), reason(client)}
    """,
    "a server that stops listening": """
        local server = listening('127.0.0.1', 0)
        local results = {server:shutdown('W'), server:accept(), reason(server), server:shutdown('R')}
        results[5], results[6], results[7] = server:accept(), reason(server), server:wait(0)
        return results
    """,
    "LuaSocket's calls": """
        local server = socket.bind('127.0.0.1', 0)
        server:settimeout(5)
        local client = socket.connect('127.0.0.1', select(2, server:getsockname()))
        local accepted = server:accept()
        accepted:settimeout(0.1)
        client:send('hello\\nworld')
        local results = {accepted:receive(), {accepted:receive(3)}, {accepted:receive(100)}}
        client:close()
        results[4] = {accepted:receive('*a')}
        results[5] = {socket.connect('127.0.0.1', select(2, client.getsockname(accepted)))} ~= nil
        server:close()
        local held = require('socket')('AF_INET', 'SOCK_STREAM', 'tcp')
        held:bind('127.0.0.1', 0)
        results[6] = {socket.connect('127.0.0.1', held:name().port)}
        return results
    """,
    "a full backlog": """
        local results = {}
        for _, place in ipairs{{'127.0.0.1', 0, 'AF_INET'}, {'unix/', path, 'AF_UNIX'}} do
            local server = socket(place[3], 'SOCK_STREAM', 0)
            server:bind(place[1], place[2])
            server:listen(1)
            local clients = {}
            for i = 1, 5 do
                local s = socket(place[3], 'SOCK_STREAM', 0)
                local ok = s:sysconnect(place[1], server:name().port)
                clients[i] = {s, ok, s:error()}
            end
            pause()
            for i = 1, 5 do
                local s = clients[i][1]
                results[#results + 1] = {clients[i][2], clients[i][3], place[2] == 0 and s:writable(0)}
            end
            results[#results + 1] = {server:accept() ~= nil, server:accept() ~= nil, server:accept()}
        end
        return results
    """,
    "IPv6": """
        -- Another program may have the port on 127.0.0.1; on a simulated machine no address shares ports with another.
        local server, held
        for _ = 1, 10 do
            server, held = socket('AF_INET6', 'SOCK_STREAM', 'tcp'), socket('AF_INET', 'SOCK_STREAM', 'tcp')
            assert(server:bind('::1', 0))
            if held:bind('127.0.0.1', server:name().port) then break end
        end
        server:listen()
        local client = socket('AF_INET6', 'SOCK_STREAM', 'tcp')
        client:sysconnect('::1', server:name().port)
        client:writable(5)
        local name, peer = client:name(), client:peer()
        name.port, peer.port = nil, nil
        return name, peer, {socket.tcp_connect('127.0.0.1', server:name().port)}
    """,
}


CALLS = {
    "send('abc')": 8,
    "recv(2)": 3,
    "recv(100)": 8,
    "wait(0)": 3,
    "shutdown('W')": 1,
    "shutdown('R')": 0.4,
    "close()": 1,
    "getsockopt('SOL_SOCKET', 'SO_ERROR')": 0.7,
    "peer() == nil": 0.7,
    "linger(true, 0)": 0.3,
}
"""Calls on one end of a connection, with their weights."""


def generated(random: Random, number: int) -> str:
    """Generate a function that makes calls on both ends of a connection and returns the result of each."""
    place = f"'unix/', path .. '.{number}'" if number % 3 == 0 else ""
    lines = [f"local results, ends, server = {{}}, {{}} ends.a, ends.b, server = pair({place})"]
    for _ in range(14):
        end, call = random.choice("ab"), random.choices(list(CALLS), list(CALLS.values()))[0]
        lines.append(
            f"""
            if ends.{end} ~= nil then
                local s = ends.{end}
                local value = s:{call}
                local is_open = s._handle.fd >= 0
                results[#results + 1] = {{[[{end}:{call}]], value, is_open and s:error() or nil}}
                if not is_open then ends.{end} = nil end
            end
            pause()"""
        )
    return "\n".join([*lines, "server:close() for _, s in pairs(ends) do s:close() end return results"])


@pytest.mark.parametrize("seed", range(3))
def test_generated_programs_see_the_same_on_a_real_machine(seed: int, tmp_path: Path) -> None:
    """Generated programs with many connections have equal results on a real machine and in a simulated node."""
    random = Random(seed)
    fibers = [f"fibers[{number}] = in_fiber(function() {generated(random, number)} end)" for number in range(1, 41)]
    source = "\n".join(
        [
            PRELUDE,
            "local fibers, all = {}, {}",
            *fibers,
            "for number, running in ipairs(fibers) do all[number] = {running:join()} end return all",
        ]
    )
    simulated, real = on_simulated(source, tmp_path / "simulated"), on_real_path(source, tmp_path)
    for number, (found, expected) in enumerate(zip(simulated, real, strict=True)):
        assert found[0] is True
        assert found == expected, number


def has_ipv6() -> bool:
    """Return whether this machine has an IPv6 loopback."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_sees_the_same_on_a_real_machine(name: str, tmp_path: Path) -> None:
    if name == "IPv6" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    source = f"{PRELUDE}\nlocal function program() {PROGRAMS[name]} end return {{program()}}"
    assert on_simulated(source, tmp_path / "simulated") == on_real_path(source, tmp_path)


def on_real_path(source: str, directory: Path) -> Any:
    """Run a program on this machine and return its results, with the directory's name as on the simulated machine."""
    return _renamed(on_real(source, directory / "realistic"))


def _renamed(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("/realistic", "/simulated")
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item) for key, item in value.items()}
    return value
