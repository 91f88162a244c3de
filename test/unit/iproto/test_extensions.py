"""Unknown and malformed MessagePack extensions from clients.

In tuples and keys they have the code of 2.11 (2.8.1 stores them unread). In arguments of functions they have that of
2.8.1, but for datetimes and intervals, which only 2.11 has.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from box import Node
from box.wire.constants import RequestType

from .serving import RawClient, error_of, packet

SPACE = 512
MALFORMED = {
    "decimal": (b"\xd4\x01\x00", b"\xc7\x03\x01\xcf\xff\xff"),
    "uuid": (b"\xd4\x02\x00", b"\xc7\x00\x02", b"\xc7\x11\x02" + bytes(17)),
    "error": (b"\xd4\x03\x00", b"\xc7\x03\x03\x81\x00\x90", b"\xc7\x04\x03\x81\x00\x91\x80"),
    "datetime": (b"\xd4\x04\x00", b"\xc7\x00\x04", b"\xd7\x04" + b"\x7f" * 8),
    "interval": (b"\xc7\x00\x06", b"\xd8\x06" + b"x" * 16),
}
UNKNOWN = (
    b"\xd4\x05\x00",
    b"\xc7\x00\x08",
    b"\xd8\x32" + b"x" * 16,
    b"\xd4\xff\x00",
    b"\xc7\x00\xff",
    b"\xd7\xff" + b"\xff" * 8,
    b"\xc8\x00\x03\xffabc",
    b"\xc9" + (70000).to_bytes(4, "big") + b"\x7f" + bytes(70000),
)
AS_ARGUMENT = {
    "decimal": (32, "msgpack.decode: invalid MsgPack"),
    "uuid": (32, "msgpack.decode: invalid MsgPack"),
    "error": (32, "Can not parse an error from MsgPack"),
    "datetime": (20, "Invalid MsgPack - packet body"),
    "interval": (20, "Invalid MsgPack - packet body"),
}


def request(kind: int, **fields: bytes) -> bytes:
    numbers = {"space": 0x10, "limit": 0x12, "key": 0x20, "tuple": 0x21, "function": 0x22, "expression": 0x27}
    body = bytes((0x80 + len(fields),))
    for name, raw in fields.items():
        body += bytes((numbers[name],)) + raw
    return packet({0: kind, 1: 1}, body)


async def scenario(values: tuple[bytes, ...], ask: Any) -> None:
    async with Node(listen="127.0.0.1:0") as node:
        await node.eval("box.schema.user.grant('guest', 'super') box.schema.space.create('s'):create_index('pk')")
        raw = await RawClient.connect(await node.eval("return box.info.listen"))
        try:
            for number, value in enumerate(values):
                await ask(raw, msgpack.packb(number), value)
        finally:
            await raw.close()


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_malformed_is_refused(kind: str) -> None:
    async def ask(raw: RawClient, number: bytes, value: bytes) -> None:
        space, array = msgpack.packb(SPACE), b"\x91" + value
        for data in (
            request(RequestType.INSERT, space=space, tuple=b"\x92" + number + value),
            request(RequestType.SELECT, space=space, limit=b"\x01", key=array),
        ):
            error = error_of(await raw.ask(data))
            assert (error.code, error.message) == (20, "Invalid MsgPack - packet body")
        for data in (
            request(RequestType.EVAL, expression=msgpack.packb("return ..."), tuple=array),
            request(RequestType.CALL, function=msgpack.packb("type"), tuple=b"\x91" + array),
        ):
            error = error_of(await raw.ask(data))
            assert (error.code, error.message) == AS_ARGUMENT[kind]
        assert (await raw.ask(packet({0: RequestType.PING, 1: 1}))).type == 0

    asyncio.run(scenario(MALFORMED[kind], ask))


def test_what_is_unknown_is_kept_as_it_is() -> None:
    """A tuple keeps the bytes of an unknown extension; as a number, as a key and as a Lua value it is refused."""

    async def ask(raw: RawClient, number: bytes, value: bytes) -> None:
        space, row = msgpack.packb(SPACE), b"\x92" + number + value
        for kind in (RequestType.INSERT, RequestType.REPLACE):
            reply = await raw.ask(request(kind, space=space, tuple=row))
            assert reply.body.endswith(row)
        reply = await raw.ask(request(RequestType.SELECT, space=space, limit=b"\x01", key=b"\x91" + number))
        assert reply.body.endswith(row)
        refused = [
            (18, request(RequestType.SELECT, space=space, limit=b"\x01", key=b"\x91" + value)),
            (26, request(RequestType.UPDATE, space=space, key=b"\x91" + number, tuple=b"\x91\x93\xa1+\x01" + value)),
            (
                32,
                request(
                    RequestType.EVAL, expression=msgpack.packb("return box.space.s:get(...)[2]"), tuple=b"\x91" + number
                ),
            ),
        ]
        for code, data in refused:
            assert error_of(await raw.ask(data)).code == code

    asyncio.run(scenario(UNKNOWN, ask))
