"""Sends broken requests to a node's binary port: it answers or closes the connection, and keeps no task or session."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import msgpack
import pytest

from box import Node
from box.data.extensions import decode_decimal
from test.crash import packets
from test.support import until

KEYS = (0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x20, 0x21, 0x22, 0x23, 0x24, 0x26, 0x27, 0x28, 0x40, 0x43)
TYPES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 30, 40, 41, 64, 65, 66, 67, 68, 69, 70, 76, 77, 128, 1000)
SCALARS: tuple[Any, ...] = (
    0,
    1,
    -1,
    2**64 - 1,
    -(2**63),
    512,
    "",
    "a",
    "\0",
    "f",
    "guest",
    b"",
    b"\xff\xfe",
    None,
    True,
)
SCALARS = (*SCALARS, float("nan"), float("inf"), 0.5, "return ...", "error()", "box.space.t:get(1)", "box.cfg")

# A request whose body is {[]: 1}: a map with an array as its key.
LIST_AS_KEY = b"\x81\x90\x01"


def packet(header: dict[int, Any], body: bytes = b"") -> bytes:
    data = msgpack.packb(header) + body
    return b"\xce" + struct.pack(">I", len(data)) + data


class Requests:
    """Generated requests: known types and keys, values of any type, broken at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(10)
        if kind < 6 or depth > 3:
            return self.random.choice(SCALARS)
        if kind == 6:
            return msgpack.ExtType(self.random.choice((1, 2, 3, 100)), self.random.randbytes(self.random.randrange(4)))
        if kind == 7:
            return {self.random.choice((0, "a", 2.5, None)): self.value(depth + 1) for _ in range(3)}
        return [self.value(depth + 1) for _ in range(self.random.randrange(4))]

    def one(self) -> bytes:
        source = self.random
        body = {key: self.value() for key in KEYS if source.random() < 0.5}
        data = bytearray(msgpack.packb({0: source.choice(TYPES), 1: 7}) + msgpack.packb(body))
        if source.random() < 0.15:
            data[source.randrange(len(data))] = source.randrange(256)
        if source.random() < 0.05:
            del data[source.randrange(len(data)) :]
        size = len(data) if source.random() < 0.97 else source.choice((0, 1, 2**32 - 1, len(data) + 3))
        return b"\xce" + struct.pack(">I", size) + bytes(data)

    def many(self) -> bytes:
        kind = self.random.random()
        if kind < 0.1:
            return self.random.randbytes(200)
        if kind < 0.15:
            return b"box.info\nreturn 1\n"
        if kind < 0.2:
            return b"\xce\x00\x00\x40\x00" + b"\x91" * 0x4000
        return b"".join(self.one() for _ in range(self.random.randrange(1, 10)))


async def talk(address: str, data: bytes, *, hangs_up: bool = False) -> bytes:
    """Send bytes and return all that the node answers until it closes the connection; `hangs_up` does not wait."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        if hangs_up:
            return b""
        writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def until_quiet(node: Node, tasks: int, sessions: int) -> None:
    """Wait until no more tasks and sessions exist than before the requests."""
    open_sessions = node._embedding.core.sessions.by_id
    await until(lambda: len(asyncio.all_tasks()) <= tasks and len(open_sessions) <= sessions)


@pytest.mark.parametrize("seed", range(3))
def test_generated_garbage_leaves_nothing_behind(seed: int) -> None:
    async def run() -> None:
        bugs: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, problem: bugs.append(problem))
        async with Node(listen="127.0.0.1:0", log_level=0) as node:
            await node.eval(
                """
                local s = box.schema.space.create('t')
                s:create_index('pk')
                box.schema.user.grant('guest', 'super')
                function f(...) return ... end
                """
            )
            address = node.info["listen"]
            core = node._embedding.core
            tasks, sessions = len(asyncio.all_tasks()), len(core.sessions.by_id)
            requests = Requests(seed)
            for _ in range(15):
                await asyncio.gather(
                    *(talk(address, requests.many(), hangs_up=requests.random.random() < 0.3) for _ in range(10))
                )
            await until_quiet(node, tasks, sessions)
            assert bugs == []
            assert await node.eval("return box.info.status") == "running"
            assert await talk(address, packet({0: 64, 1: 5}))

    asyncio.run(run())


@pytest.mark.parametrize("request_type", [1, 2, 3, 4, 5, 8, 9, 10, 11, 13])
def test_a_container_as_a_key_of_a_body_is_an_unknown_key(request_type: int) -> None:
    """A body with a container as a key gets an error of the protocol, never ER_UNKNOWN as after a bug of the node."""

    async def run() -> None:
        async with Node(listen="127.0.0.1:0", log_level=0) as node:
            answer = await talk(node.info["listen"], packet({0: request_type, 1: 5}, LIST_AS_KEY))
            unpacker = msgpack.Unpacker(strict_map_key=False)
            unpacker.feed(answer[128:])
            unpacker.unpack()
            header = unpacker.unpack()
            assert header[1] == 5
            assert header[0] not in (0, 0x8000)

    asyncio.run(run())


def test_a_container_as_a_key_in_a_header_breaks_the_packet_alone() -> None:
    async def run() -> None:
        bugs: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, problem: bugs.append(problem))
        async with Node(listen="127.0.0.1:0", log_level=0) as node:
            header = b"\x83\x00\x40\x01\x05\x0a" + LIST_AS_KEY
            broken = b"\xce" + struct.pack(">I", len(header)) + header
            answer = await talk(node.info["listen"], broken)
            assert b"Invalid MsgPack - packet header" in answer
            assert bugs == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "body", [b"", b"\xcd", b"\xce\x7f\xff\xff\xff\x1c", b"\x28\x1c", b"\x00" + b"\x11" * 20 + b"\x1c"]
)
def test_a_decimal_that_no_memory_can_show_is_refused(body: bytes) -> None:
    """Decimals that are cut, whose scale exceeds 38, or that have more than 38 digits, raise ValueError."""
    with pytest.raises(ValueError, match="decimal"):
        decode_decimal(body)


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_packets_are_answered_by_the_protocol(seed: int) -> None:
    """A short campaign of generated packets passes; `python -m test.crash.packets` runs longer ones."""
    packets.campaign(120, seed)


FOUND = {
    "a type with higher bits": packets.Conversation("guest", [packet({0: 257, 1: 5}, LIST_AS_KEY)], 1 << 20),
    "SQL with higher bits": packets.Conversation("user", [packet({0: 267, 1: 5}, b"\x81\x40\xa1x")], 1 << 20),
    "an offset of 64 bits": packets.Conversation(
        "user", [packet({0: 1, 1: 5}, msgpack.packb({0x10: 512, 0x12: 9, 0x13: 2**63, 0x20: []}))], 1 << 20
    ),
    "an error code of 33 bits": packets.Conversation(
        "user", [packet({0: 8, 1: 5}, msgpack.packb({0x27: "box.error(...)", 0x21: [2**32 + 5]}))], 1 << 20
    ),
    "a negative error code": packets.Conversation(
        "user", [packet({0: 8, 1: 5}, msgpack.packb({0x27: "box.error(...)", 0x21: [-5]}))], 1 << 20
    ),
}


def test_packets_that_have_failed_once() -> None:
    """Each packet gets one reply; a state other than guest adds the reply to its login."""
    with packets.target() as target:
        for what, conversation in FOUND.items():
            assert len(target.play(conversation)) == 1 + (conversation.state != "guest"), what


def test_the_check_of_replies_finds_wrong_ones() -> None:
    """The campaign's check fails for error texts with names of Python and for bytes that are no reply."""
    stack = {0: [{0: "ClientError", 3: "text"}]}
    packets.check_reply({0: 0x8000 | 20, 1: 5}, {0x31: "Invalid MsgPack - packet body", 0x52: stack})
    for header, body in (
        ({0: 0x8000 | 20}, {0x31: "KeyError: 257", 0x52: stack}),
        ({0: 0x8000 | 20}, {0x31: "Indices for islice() ... (struct.error)", 0x52: stack}),
        ({0: 0x8000 | 20}, {0x31: "text", 0x52: {}}),
        ({0: 0x8000 | 20}, {0x31: 5, 0x52: stack}),
        ({0: "x"}, {}),
        ([], {}),
    ):
        with pytest.raises(AssertionError):
            packets.check_reply(header, body)
    with pytest.raises(AssertionError):
        packets.check_answers(b"no reply")
