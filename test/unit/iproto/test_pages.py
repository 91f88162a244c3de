"""Pagination of the binary protocol: FETCH_POSITION, AFTER_POSITION, AFTER_TUPLE and the position in a reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from box import Node
from box.index import long_read

from .serving import RawClient, error_of, packet

FETCH, AFTER, AFTER_TUPLE = 0x1F, 0x2E, 0x2F
SELECT: dict[int, Any] = {0x10: 512, 0x11: 0, 0x12: 2, 0x13: 0, 0x14: 2, 0x20: []}
MALFORMED = "Invalid MsgPack - packet body"
INVALID = "Iterator position is invalid"


@asynccontextmanager
async def served(count: int, **options: Any) -> AsyncIterator[tuple[Node, RawClient]]:
    async with Node(listen="127.0.0.1:0", **options) as node:
        await node.eval(
            """
            box.schema.user.grant('guest', 'super')
            local s = box.schema.space.create('s')
            s:create_index('pk')
            for i = 1, (...) do s:insert({i, i % 3}) end
            """,
            count,
        )
        client = await RawClient.connect(await node.eval("return box.info.listen"))
        try:
            yield node, client
        finally:
            await client.close()


async def ask(client: RawClient, stream: int = 0, **fields: Any) -> bytes | str:
    """Select; return the raw body of the reply, or the text of an error."""
    body = SELECT | {int(name[1:], 16): value for name, value in fields.items()}
    header = {0: 1, 1: 7} | ({0x0A: stream} if stream else {})
    reply = await client.ask(packet(header, body))
    return error_of(reply).message if reply.type & 0x8000 else reply.body


@pytest.mark.parametrize("stream", [0, 1])
def test_replies_are_those_of_2_11(stream: int) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x1f": True}, "8230dd0000000292010192020235a36b5149"),
        ({"x1f": False}, "8130dd00000002920101920202"),
        ({"x1f": True, "x12": 0}, "8130dd00000000"),
        ({"x1f": True, "x14": 0, "x20": [100]}, "8130dd00000000"),
        ({"x1f": True, "x2e": "kQI"}, "8230dd0000000292030092040135a36b5151"),
        ({"x1f": True, "x2e": ""}, "8230dd0000000292010192020235a36b5149"),
        ({"x2e": "kQI"}, "8130dd00000002920300920401"),
        ({"x2e": "kQ\nI=="}, "8130dd00000002920300920401"),
        ({"x2f": [2, 2]}, "8130dd00000002920300920401"),
        ({"x2f": [5, 2], "x2e": "kQI"}, "8130dd00000002920300920401"),
    ]
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"x1f": 1}, MALFORMED),
        ({"x1f": None}, MALFORMED),
        ({"x2e": b"kQI"}, MALFORMED),
        ({"x2e": 5}, MALFORMED),
        ({"x2f": {1: 2}}, MALFORMED),
        ({"x2e": "##"}, INVALID),
        ({"x2e": "kQIAAAA"}, INVALID),
        ({"x2e": "AQ"}, INVALID),
        ({"x2f": []}, INVALID),
        (
            {"x20": ["x"], "x2e": "##"},
            "Supplied key type of part 0 does not match index part type: expected unsigned",
        ),
        ({"x20": ["x"], "x2f": ["y"]}, INVALID),
        ({"x11": 7, "x2f": ["y"]}, "No index #7 is defined in space 's'"),
        ({"x10": 9999, "x2f": ["y"]}, "Space '9999' does not exist"),
        ({"x14": 99, "x2f": ["y"]}, INVALID),
        (
            {"x14": 10, "x1f": True},
            "Index 'pk' (TREE) of space 's' (memtx) does not support requested iterator type",
        ),
    ]

    async def scenario() -> None:
        async with served(10) as (_, client):
            for fields, expected in cases:
                found = await ask(client, stream, **fields)
                assert isinstance(found, bytes), (fields, found)
                assert found.hex() == expected, fields
            for fields, text in refusals:
                assert await ask(client, stream, **fields) == text, fields

    asyncio.run(scenario())


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("iterator", [2, 4])
def test_long_pages(mvcc: bool, iterator: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with more rows than a turn reads has its position, too."""
    count = 4_000
    monkeypatch.setattr(long_read, "LONG", 1000)
    monkeypatch.setattr("box.txn.reads.LONG", 1000)

    async def scenario() -> None:
        async with served(count, memtx_use_mvcc_engine=mvcc) as (_, client):
            for limit in (2500, 500):
                at, found = "", []
                while True:
                    answer = await ask(client, x12=limit, x14=iterator, x1f=True, x2e=at)
                    assert isinstance(answer, bytes), answer
                    reply = msgpack.unpackb(answer, strict_map_key=False)
                    found += [row[0] for row in reply[0x30]]
                    if 0x35 not in reply:
                        break
                    at = reply[0x35]
                expected = list(range(1, count + 1))
                assert found == (expected if iterator == 2 else expected[::-1])

    asyncio.run(scenario())


def test_the_feature_is_announced() -> None:
    async def scenario() -> None:
        async with served(0) as (node, client):
            reply = await client.ask(packet({0: 73, 1: 1}, {0x54: 4, 0x55: []}))
            assert 4 in msgpack.unpackb(reply.body, strict_map_key=False)[0x55]
            assert await node.eval("return box.iproto.protocol_features.pagination")

    asyncio.run(scenario())
