"""Lunabox and Tarantool 2.8.1 are members of one SWIM cluster; `LUNABOX_TARANTOOL` names the executable."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.embed import LuaInstance
from box.swim import Address, Incarnation, Member, Status
from box.swim.decoding import BodyKey, Detection, MessageKind, Quit, decode_body, decode_meta
from box.swim.encoding import Packet
from test.support import until

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL", "")

pytestmark = pytest.mark.skipif(not TARANTOOL, reason="LUNABOX_TARANTOOL does not name a 2.8.1")

SECONDS = 60.0
SETUP = """
local number, uri = ...
number = tonumber(number)
local swim, fiber, uuid = require('swim'), require('fiber'), require('uuid')
function id(i)
    return uuid.fromstr(('00000000-0000-1000-8000-%012d'):format(i))
end
s = assert(swim.new({uuid = id(number), uri = 0, generation = number, heartbeat_rate = 0.1, ack_timeout = 0.05}))
function state(i)
    local m = s:member_by_uuid(id(i))
    return m and m:status()
end
events = {}
s:on_member_event(function(m, event)
    local known = events[m:uuid():str()] or {}
    for _, name in ipairs({'is_new_status', 'is_new_payload', 'is_new_uri', 'is_new_generation'}) do
        known[name] = known[name] or event[name](event)
    end
    events[m:uuid():str()] = known
end)
"""
LOOP = """
require('console')
io.stdout:setvbuf('line')
print(s:self():uri())
while true do
    require('socket').iowait(0, 'R')
    local line = io.read()
    if line == nil then os.exit(0) end
    local ok, result = pcall(loadstring(line))
    print(require('json').encode({ok, result == nil and box.NULL or result}))
end
"""


class Ours:
    """A Lunabox in this process."""

    def __init__(self) -> None:
        self._instance = LuaInstance(None)
        self._instance.node.log.level = 1
        self.uri = ""

    async def start(self, number: int) -> None:
        await self._run(SETUP, number)
        (self.uri,) = await self._run("return s:self():uri()")

    async def _run(self, source: str, *args: Any) -> Any:
        context = self._instance.node.new_context()
        return unpack(await self._instance.runtime.eval(source.encode(), pack(list(args)), context))

    async def eval(self, source: str) -> Any:
        result = await self._run(source)
        return result[0] if result else None

    async def kill(self) -> None:
        await self.eval("s:delete()")

    async def stop(self) -> None:
        await self._instance.stop()


class Theirs:
    """A process of Tarantool, which evaluates the lines of its standard input."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self.uri = ""

    async def start(self, number: int) -> None:
        import json

        script = self._directory / f"swim{number}.lua"
        script.write_text(SETUP + LOOP)
        self._process = await asyncio.create_subprocess_exec(
            TARANTOOL,
            str(script),
            str(number),
            cwd=self._directory,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self.uri = (await asyncio.wait_for(self._process.stdout.readline(), SECONDS)).decode().strip()
        self._loads = json.loads

    async def eval(self, source: str) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(source.replace("\n", " ").encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), SECONDS)
        ok, result = self._loads(line)
        assert ok, result
        return result

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()


Node = Ours | Theirs


@asynccontextmanager
async def members(directory: Path, *, ours: int, theirs: int) -> AsyncIterator[list[Node]]:
    """Run members with the numbers from 1, ours first."""
    nodes: list[Node] = [*(Ours() for _ in range(ours)), *(Theirs(directory) for _ in range(theirs))]
    try:
        for number, node in enumerate(nodes, 1):
            await node.start(number)
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


async def meet(nodes: list[Node]) -> None:
    for node in nodes[1:]:
        await node.eval(f"return s:probe_member('{nodes[0].uri}')")
    await reach(nodes, "return s:size()", len(nodes))


async def reach(nodes: list[Node], question: str, expected: Any) -> None:
    """Wait until all give an answer."""

    async def is_reached() -> bool:
        return [await node.eval(question) for node in nodes] == [expected] * len(nodes)

    await until(is_reached, f"{question}: {expected}", seconds=SECONDS, longest=0.1)


def test_one_cluster(tmp_path: Path) -> None:
    """Two Lunabox and two Tarantool nodes find each other, exchange payloads, and see who dies and who leaves."""

    async def main() -> None:
        async with members(tmp_path, ours=2, theirs=2) as nodes:
            await meet(nodes)
            for number, node in enumerate(nodes, 1):
                await node.eval(f"return s:set_payload({{name = 'node{number}', list = {{1, 2, {number}}}}})")
            for number in range(1, 5):
                await reach(
                    nodes,
                    f"local p = s:member_by_uuid(id({number})):payload() return p and p.name .. p.list[3]",
                    f"node{number}{number}",
                )
                await reach(nodes, f"return tonumber(s:member_by_uuid(id({number})):incarnation().generation)", number)
            await nodes[2].kill()
            survivors = [nodes[0], nodes[1], nodes[3]]
            await reach(survivors, "return state(3) == 'dead' or state(3)", None)
            await reach(survivors, "return events[id(3):str()].is_new_status", True)
            await nodes[1].eval("s:quit()")
            await reach([nodes[0], nodes[3]], "return state(2)", None)
            await reach([nodes[0], nodes[3]], "return s:size()", 2)
            await nodes[3].eval("s:quit()")
            await reach([nodes[0]], "return state(4)", None)

    asyncio.run(main())


@pytest.mark.parametrize("victim", [0, 2])
def test_death_is_seen_by_all(tmp_path: Path, victim: int) -> None:
    """A node of either kind that is gone is dead for the nodes of both; with `gc_mode` off it stays so."""

    async def main() -> None:
        async with members(tmp_path, ours=2, theirs=2) as nodes:
            for node in nodes:
                await node.eval("return s:cfg({gc_mode = 'off'})")
            await meet(nodes)
            await nodes[victim].kill()
            survivors = [node for number, node in enumerate(nodes) if number != victim]
            await reach(survivors, f"return state({victim + 1})", "dead")

    asyncio.run(main())


@pytest.mark.parametrize("leaver", [1, 2])
def test_quit_is_seen_by_all(tmp_path: Path, leaver: int) -> None:
    """A node of either kind that quits has left for the nodes of both at once."""

    async def main() -> None:
        async with members(tmp_path, ours=2, theirs=2) as nodes:
            for node in nodes:  # so that nothing but the message tells it
                await node.eval("return s:cfg({heartbeat_rate = 1, ack_timeout = 100})")
            await meet(nodes)
            others = [node for number, node in enumerate(nodes) if number != leaver]
            for node in others:
                await node.eval(f"left = s:member_by_uuid(id({leaver + 1}))")
            await nodes[leaver].eval("s:quit()")
            await reach(others, "return left:status()", "left")

    asyncio.run(main())


@pytest.mark.parametrize(
    "codec",
    [
        "{algo = 'aes128', mode = 'cbc', key = ('k'):rep(16)}",
        "{algo = 'aes256', mode = 'cfb', key = ('k'):rep(32)}",
        "{algo = 'aes192', mode = 'ofb', key = ('k'):rep(24)}",
        "{algo = 'aes128', mode = 'ecb', key = ('k'):rep(16)}",
    ],
)
def test_encryption(tmp_path: Path, codec: str) -> None:
    """Nodes of both kinds with one key understand each other."""

    async def main() -> None:
        async with members(tmp_path, ours=1, theirs=1) as nodes:
            for node in nodes:
                assert await node.eval(f"return s:set_codec({codec})") is True
            await nodes[0].eval("return s:set_payload('from us')")
            await nodes[1].eval("return s:set_payload('from them')")
            await meet(nodes)
            await reach([nodes[0]], "return s:member_by_uuid(id(2)):payload()", "from them")
            await reach([nodes[1]], "return s:member_by_uuid(id(1)):payload()", "from us")

    asyncio.run(main())


def test_a_restart_with_another_address(tmp_path: Path) -> None:
    """A node of Tarantool learns of a Lunabox that started again elsewhere with a greater generation."""

    async def main() -> None:
        async with members(tmp_path, ours=2, theirs=1) as nodes:
            await meet(nodes)
            await nodes[1].eval(
                "s:delete() s = require('swim').new({uuid = id(2), uri = 0, generation = 50, heartbeat_rate = 0.1})"
            )
            uri = await nodes[1].eval(f"s:probe_member('{nodes[0].uri}') return s:self():uri()")
            await reach(nodes, "return s:member_by_uuid(id(2)):uri()", uri)
            await reach([nodes[2]], "return events[id(2):str()].is_new_generation", True)

    asyncio.run(main())


def _written_again(data: bytes) -> bytes:
    """Encode what a packet says."""
    meta, position = decode_meta(data)
    body = decode_body(data, position)
    assert body.problem is None
    packet = Packet(meta.source, meta.route)
    packet.add_sender(body.sender)
    keys = iter((BodyKey.DISSEMINATION, BodyKey.ANTI_ENTROPY))
    for section in body.sections:
        if isinstance(section, Detection):
            packet.add_detection(section.kind, section.incarnation)
        elif isinstance(section, Quit):
            packet.add_quit(section.incarnation)
        else:
            described = [
                Member(d.uuid, d.address, d.status, d.incarnation, d.payload or b"", d.payload is not None)
                for d in section
            ]
            packet.add_members(next(keys), ((member, True) for member in described))
    return packet.to_bytes()


def test_bytes(tmp_path: Path) -> None:
    """Packets of Tarantool are what we write for the same facts, byte by byte: pings, over a route, and a QUIT."""

    async def main() -> None:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as third,
        ):
            for each in (sock, third):
                each.bind(("127.0.0.1", 0))
                each.setblocking(False)
            loop = asyncio.get_running_loop()
            here = Address(0x7F000001, sock.getsockname()[1])
            async with members(tmp_path, ours=0, theirs=1) as (node,):
                await node.eval("return s:set_payload({1, 2, 3})")
                await node.eval(f"return s:add_member({{uri = '{here}', uuid = id(77)}})")
                host, port = node.uri.split(":")
                ping = Packet(here, (Address(0x7F000001, third.getsockname()[1]), Address(0x7F000001, int(port))))
                ping.add_sender(bytes([1] * 16))
                ping.add_detection(MessageKind.PING, Incarnation(1, 1))
                sock.sendto(ping.to_bytes(), (host, int(port)))
                seen, has_quit = set(), False
                while len(seen) < 3:
                    data = await asyncio.wait_for(loop.sock_recv(sock, 2000), SECONDS)
                    assert _written_again(data) == data
                    meta, position = decode_meta(data)
                    seen.add((meta.route is not None, len(decode_body(data, position).sections)))
                    if len(seen) == 2 and not has_quit:
                        has_quit = True
                        await node.eval("s:quit()")
                assert seen == {(False, 3), (True, 3), (False, 1)}

    asyncio.run(main())


def test_statuses_are_numbered_alike() -> None:
    assert [status.name.lower() for status in Status] == ["alive", "suspected", "dead", "left"]
