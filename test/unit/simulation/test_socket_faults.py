"""Sockets of simulated nodes under faults of the network and of processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from box.errors import BoxError
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.simulated_node import NodeDied

SERVER = """
socket, fiber = require('socket'), require('fiber')
heard = {}
server = socket.tcp_server('0.0.0.0', 5000, function(s, from)
    accepted, caller = s, from
    while true do
        local line = s:read('\\n')
        if line == nil or line == '' then
            heard[#heard + 1] = line == nil and s:error() or 'end'
            break
        elseif line == 'wait\\n' then
            fiber.sleep(1000)
        end
        heard[#heard + 1] = line
        s:write('echo ' .. line)
    end
end)
"""
CLIENT = """
socket, fiber = require('socket'), require('fiber')
client = socket.tcp_connect('node2', 5000)
"""

Story = Callable[[Simulation, SimulatedNode, SimulatedNode], Coroutine[Any, Any, Any]]


async def lua(node: SimulatedNode, source: str, *args: Any) -> Any:
    return await node.run(node.application.eval(source, *args))


def play(story: Story, seed: int = 1) -> Any:
    """Return the result of a run of two nodes, the second of which has a server."""

    async def scenario(simulation: Simulation) -> Any:
        one, two = await simulation.start_cluster(2, lua=True)
        await lua(two, SERVER)
        return await simulation.within(1000, story(simulation, one, two))

    with Simulation(seed) as simulation:
        result = simulation.run(scenario(simulation))
        assert simulation.errors == []
        return result


# ---- nodes of a cluster


def test_a_socket_reads_the_greeting_of_a_node() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        return await lua(
            one,
            """
            local s = require('socket').tcp_connect('node2', 3301)
            local greeting = s:read(128)
            s:write('\\xce\\xff\\xff\\xff\\xff')
            return {greeting:sub(1, 24), #greeting, s:read(1000) ~= nil, s:read(1), s:peer().host}
            """,
        )

    assert play(story) == ["Tarantool 2.8.1 (Binary)", 128, True, "", "10.0.0.2"]


def test_a_program_between_two_nodes_sees_what_they_say() -> None:
    """`net.box` works over a Lua proxy between two nodes, in both directions, with more than buffers hold."""

    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(
            two,
            """
            box.cfg{}
            box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
            local function pass(from, to)
                fiber.create(function()
                    while true do
                        from:readable()
                        local data = from:sysread(65536)
                        local is_early = data == nil and from:error() == 'Resource temporarily unavailable'
                        if data == '' or data == nil and not is_early then break end
                        if data ~= nil and not to:write(data) then break end
                    end
                    to:shutdown('W')
                end)
            end
            proxy = socket.tcp_server('0.0.0.0', 6000, function(s)
                local node = socket.tcp_connect('localhost', 3301)
                pass(s, node)
                pass(node, s)
                fiber.sleep(1000)
            end)
            """,
        )
        return await lua(
            one,
            """
            local c = require('net.box').connect('node2:6000')
            local text = ('x'):rep(1000000)
            local size = c:eval('return #(...)', {text})
            local back = c:eval('return (...)', {text})
            c:close()
            return {c.state, size, back == text, require('net.box').connect('10.0.0.2:6000'):ping()}
            """,
        )

    assert play(story) == ["closed", 1000000, True, True]


def test_a_node_that_calls_a_program_has_an_address() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, "require('net.box').connect('node2:5000', {wait_connected = false, connect_timeout = 1})")
        await simulation.sleep(0.5)
        return await lua(two, "return {caller.host, caller.family, caller.port > 32767, accepted:peer().host}")

    assert play(story) == ["10.0.0.1", "AF_INET", True, "10.0.0.1"]


def test_a_node_that_is_addressed_by_a_socket_knows_who_it_is() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        return await lua(
            two,
            """
            box.session.on_connect(function() peer = box.session.peer() end)
            local s = socket.tcp_connect('node2', 3301)
            s:read(128)
            fiber.sleep(0.1)
            return {peer == s:name().host .. ':' .. s:name().port}
            """,
        )

    assert play(story) == [True]


def test_a_port_is_taken_by_a_node_or_by_a_socket() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        taken = await lua(two, "local s, why = socket.tcp_server('0.0.0.0', 3301, print) return {s == nil, why}")
        refused = await lua(two, "return {pcall(box.cfg, {listen = 5000})}")
        return taken, refused[0]

    assert play(story) == ([True, "Address already in use"], False)


def test_a_unix_socket_of_a_node_belongs_to_its_host() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await one.configure(listen="unix/:/tmp/node.sock")
        await two.configure(listen="unix/:/tmp/node.sock")
        source = """
            local s = require('socket').tcp_connect('unix/', '/tmp/node.sock')
            local greeting = s:read(9)
            s:close()
            local c = require('net.box').connect('unix/:/tmp/node.sock')
            return {greeting, c:ping(), (c:close())}
        """
        return [(await lua(node, source))[:2] for node in (one, two)]

    assert play(story) == [["Tarantool", True]] * 2


def test_hosts_have_names_and_addresses() -> None:
    """Hosts have names and addresses, also those whose process does not run; other names are unknown."""

    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        simulation.add_node("node3")
        return await lua(
            one,
            """
            local socket, found = require('socket'), {}
            for _, host in ipairs{'node1', 'node2', 'node3', 'localhost', 'no.such.host.invalid'} do
                local addresses, why = socket.getaddrinfo(host, 'http', {type = 'SOCK_STREAM'})
                found[#found + 1] = why or addresses[1].host .. ' ' .. addresses[1].port .. ' ' .. #addresses
            end
            found[#found + 1] = socket.getaddrinfo('node2', 1, {family = 'AF_INET6', type = 'SOCK_STREAM'})[1].host
            found[#found + 1] = select(2, socket.tcp_connect('node3', 5000))
            return found
            """,
        )

    assert play(story) == [
        "10.0.0.1 80 1",
        "10.0.0.2 80 1",
        "10.0.0.3 80 1",
        "127.0.0.1 80 1",
        "getaddrinfo: Name or service not known",
        "fd00::2",
        "Connection refused",
    ]


# ---- the network


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_breaks_a_connection_or_holds_it_up(seed: int) -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, CLIENT + "client:write('before\\n') client:read('\\n')")
        simulation.network.cut("node1", "node2")
        late = await lua(one, "client:write('meanwhile\\n') return {client:read('\\n', 5), client:error()}")
        simulation.network.heal()
        answer = await lua(one, "local line = client:read('\\n', 60) return {line, client:error()}")
        await simulation.sleep(1)
        return late, answer, await lua(two, "return heard")

    late, answer, heard = play(story, seed)
    assert late == [None, "Connection timed out"]
    assert (answer, heard) in (
        ([None, "Connection reset by peer"], ["before\n", "Connection reset by peer"]),
        (["echo meanwhile\n"], ["before\n", "meanwhile\n"]),
    )


def test_a_connection_over_a_cut_comes_about_when_the_way_works() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        simulation.network.isolate("node2")
        soon = await lua(one, "return {require('socket').tcp_connect('node2', 5000, 3)}")
        for_good = await lua(
            one,
            """
            local start = require('fiber').clock()
            local s, why = require('socket').tcp_connect('node2', 5000)
            return {s, why, require('fiber').clock() - start}
            """,
        )
        simulation.loop.call_later(30, simulation.network.heal)
        late = await lua(one, CLIENT + "client:write('x\\n') return {client:read('\\n')}")
        return soon, for_good, late

    soon, for_good, late = play(story)
    assert soon == [None, "Connection timed out"]
    assert for_good[:2] == [None, "Connection timed out"]
    assert for_good[2] == pytest.approx(120, abs=1)
    assert late == ["echo x\n"]


def test_a_reset_ends_both_sides() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, CLIENT + "client:write('x\\n')")
        await simulation.sleep(1)
        simulation.network.reset_connections("node1")
        found = await lua(
            one,
            """
            local line, first = client:read('\\n'), client:read('\\n')
            local why = client:error()
            return {line, first, why, client:send('x'), client:error(), client:peer(), client:error()}
            """,
        )
        await simulation.sleep(1)
        return found, await lua(two, "return heard")

    found, heard = play(story)
    reset, gone = "Connection reset by peer", "Transport endpoint is not connected"
    assert found == ["echo x\n", None, reset, None, "Broken pipe", None, gone]
    assert heard == ["x\n", reset]


def test_a_reader_that_does_not_read_holds_the_sender_up() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        simulation.network.bandwidth = 1_000_000
        return await lua(
            one,
            CLIENT
            + """
            client:write('wait\\n')
            fiber.sleep(1)
            local total = 0
            while true do
                local sent = client:send(('x'):rep(10000))
                if sent == nil then break end
                total = total + sent
            end
            return {total, client:error(), client:writable(10), client:write(('x'):rep(1000), 1)}
            """,
        )

    assert play(story) == [262144, "Resource temporarily unavailable", False]


def test_datagrams_are_lost_and_overtake_each_other() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(
            two,
            """
            got = {}
            local s = socket('AF_INET', 'SOCK_DGRAM', 'udp')
            s:bind('0.0.0.0', 7000)
            fiber.create(function()
                while s:readable() do got[#got + 1] = tonumber((s:recvfrom(100))) end
            end)
            """,
        )
        send = """
            udp = udp or require('socket')('AF_INET', 'SOCK_DGRAM', 'udp')
            local host = require('socket').getaddrinfo('node2', 7000)[1].host
            for i = 1, 100 do udp:sendto(host, 7000, tostring(i)) end
        """
        take = "local result = got got = {} return result"
        rounds = []
        for corruption, cut in ((0.0, False), (0.3, False), (0.0, True)):
            simulation.network.corruption = corruption
            if cut:
                simulation.network.cut("node1", "node2")
            await lua(one, send)
            await simulation.sleep(1)
            rounds.append(await lua(two, take))
        return rounds

    all_of_them, some, none = play(story)
    assert sorted(all_of_them) == list(range(1, 101)) != all_of_them
    assert 40 < len(some) < 100
    assert none == []


# ---- processes


def test_the_end_of_a_process_ends_its_connections() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, CLIENT + "busy = socket.tcp_connect('node2', 5000) client:write('x\\n') client:read('\\n')")
        await lua(one, "busy:write('wait\\nunheard\\n') fiber.sleep(1) busy:write('more')")
        await simulation.sleep(1)
        two.kill()
        ended = await lua(one, "return {client:read(10), client:send('x')}")
        await simulation.sleep(1)
        after = await lua(one, "return {client:send('x'), client:error(), client:read(1), busy:read(1), busy:error()}")
        refused = await lua(one, "return {socket.tcp_connect('node2', 5000)}")
        await two.start()
        await lua(two, SERVER)
        return ended, after, refused, await lua(one, CLIENT + "client:write('again\\n') return {client:read('\\n')}")

    assert play(story) == (
        ["", 1],
        [None, "Broken pipe", "", None, "Connection reset by peer"],
        [None, "Connection refused"],
        ["echo again\n"],
    )


def test_a_node_that_dies_before_it_has_read_resets() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, "s = require('socket').tcp_connect('node2', 3301) s:read(128)")
        two.halt()
        await lua(one, "s:write('x')")
        await simulation.sleep(0.1)
        two.kill()
        return await lua(one, "return {s:read(1), s:error()}")

    assert play(story) == [None, "Connection reset by peer"]


def test_a_process_that_stands_still_is_served_by_its_operating_system() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        two.halt()
        silence = await lua(one, CLIENT + "return {client:write('x\\n'), client:read('\\n', 10), client:error()}")
        two.go_on()
        return silence, await lua(one, "return {client:read('\\n', 10)}")

    assert play(story) == ([2, None, "Connection timed out"], ["echo x\n"])


def test_a_halted_node_finds_what_has_come_meanwhile() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, CLIENT + "fiber.create(function() first = client:read('\\n') second = client:read('\\n') end)")
        one.halt()
        await lua(two, "accepted:write('one\\n') fiber.sleep(1) accepted:write('two\\n')")
        await simulation.sleep(1)
        one.go_on()
        await simulation.sleep(0.1)
        return await lua(one, "return {first, second}")

    assert play(story) == ["one\n", "two\n"]


@pytest.mark.parametrize("callbacks", [1, 3, 10, 30, 100])
def test_a_process_may_die_in_the_middle_of_it(callbacks: int) -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        one.crash_after(callbacks)
        with pytest.raises(NodeDied):
            await lua(
                one,
                """
                local socket = require('socket')
                while true do
                    local s = socket.tcp_connect('node2', 5000)
                    s:write('x\\n') s:read('\\n') s:close()
                end
                """,
            )
        await simulation.sleep(2)
        await one.start()
        return await lua(one, CLIENT + "client:write('x\\n') return {client:read('\\n')}")

    assert play(story) == ["echo x\n"]


def test_a_node_stops_while_fibers_wait_for_sockets() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        await lua(one, CLIENT + "fiber.create(function() client:read(10) end)")
        await one.stop()
        await simulation.sleep(1)
        return await lua(two, "return heard")

    assert play(story) == ["end"]


# ---- what is not there


@pytest.mark.parametrize(
    ("call", "feature"),
    [
        ("require('popen').new({'/bin/true'})", "popen"),
        ("require('popen').shell('true')", "popen"),
        ("require('http.client').get('http://localhost')", "http.client"),
        ("os.execute('true')", "os.execute()"),
        ("io.popen('true')", "io.popen()"),
        ("io.open('/etc/passwd')", "io.open()"),
        ("for line in io.lines('/etc/passwd') do end", "io.lines()"),
        ("io.input('/etc/passwd')", "io.input()"),
        ("io.output('/dev/null')", "io.output()"),
        ("io.tmpfile()", "io.tmpfile()"),
        ("os.tmpname()", "os.tmpname()"),
    ],
)
def test_nothing_leads_out_of_the_simulation(call: str, feature: str) -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> None:
        with pytest.raises(BoxError, match=f"^{re.escape(feature)} is not supported in a simulation$"):
            await lua(one, call)

    play(story)


def test_the_log_does_not_lead_out_of_the_simulation() -> None:
    """box.cfg has made a node's log, and log.cfg changes no log that is there."""

    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> None:
        with pytest.raises(BoxError, match=r"log\.cfg: 'log' can't be set dynamically"):
            await lua(one, "require('log').cfg({log = 'file:/dev/null'})")

    play(story)


@pytest.mark.parametrize(
    ("option", "value"), [("log", "|cat"), ("log", "/dev/null"), ("pid_file", "n.pid"), ("username", "nobody")]
)
def test_options_that_lead_out_of_the_simulation(option: str, value: str) -> None:
    async def story(simulation: Simulation) -> None:
        node = simulation.add_node("n", lua=True, **{option: value})
        with pytest.raises(BoxError, match=f"^the option '{option}' is not supported in a simulation$"):
            await node.start()

    with Simulation(1) as simulation:
        simulation.run(story(simulation))


def test_kinds_of_sockets_that_are_not_there() -> None:
    async def story(simulation: Simulation, one: SimulatedNode, two: SimulatedNode) -> Any:
        return await lua(
            one,
            """
            local socket, errno = require('socket'), require('errno')
            return {socket('AF_NETLINK', 'SOCK_DGRAM', 0) == nil, errno() == errno.EAFNOSUPPORT,
                socket('AF_INET', 'SOCK_RAW', 'icmp') == nil, errno() == errno.ESOCKTNOSUPPORT,
                select(2, socket.tcp_connect('192.168.1.1', 80))}
            """,
        )

    assert play(story) == [True, True, True, True, "Network is unreachable"]


# ---- one seed, one run

STORM = """
import sys
from box.testing import Simulation
from test.unit.simulation.test_socket_faults import busy
with Simulation(sys.argv[1], keeps_messages=True) as simulation:
    print(simulation.run(busy(simulation)), simulation.trace.digest, simulation.errors)
"""
BUSY = """
local socket, fiber = require('socket'), require('fiber')
local log = {}
local done = fiber.channel(10)
for i = 1, 10 do
    fiber.create(function()
        for turn = 1, 10 do
            local s = socket.tcp_connect(i % 2 == 0 and 'node2' or 'node1', 5000, 2)
            if s ~= nil then
                s:write(('%d %d\\n'):format(i, turn))
                log[#log + 1] = tostring(s) .. tostring(s:read('\\n', 2))
                s:close()
            else
                fiber.sleep(0.1)
            end
        end
        done:put(true)
    end)
end
for i = 1, 10 do done:get() end
return #log, require('digest').md5_hex(table.concat(log))
"""


async def busy(simulation: Simulation) -> Any:
    """Run many connections with some faults."""
    one, two = await simulation.start_cluster(2, lua=True)
    await lua(one, SERVER)
    await lua(two, SERVER)
    simulation.network.corruption = 0.05
    for moment in (0.05, 0.1, 0.2):
        simulation.loop.call_later(moment, simulation.network.reset_connections, "node2")
    simulation.loop.call_later(0.15, simulation.network.cut, "node1", "node2")
    simulation.loop.call_later(1.0, simulation.network.heal)
    return await lua(one, BUSY)


def storm(seed: int, hash_seed: str) -> str:
    """Return the results and the trace of many connections, from a child process."""
    result = subprocess.run(
        [sys.executable, "-c", STORM, str(seed)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return result.stdout.strip()


def test_equal_seeds_give_equal_sockets_in_every_process() -> None:
    """Equal seeds give equal descriptors, ports and reads in every process."""
    first = storm(1, "0")
    assert first.endswith(" []")
    assert storm(1, "12345") == first
    assert storm(2, "0") != first
