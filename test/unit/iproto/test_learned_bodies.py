"""Requests whose bodies begin like an earlier one ("learned bodies") get the replies of the general path."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.instance.node import Instance
from box.iproto import connection
from box.iproto.learned_bodies import LearnedBodies
from box.journal.storage import MemoryStorage
from box.schema.ids import SpaceId
from box.wire.change import Request
from box.wire.constants import Key, RequestType
from box.wire.row import Row

from .serving import RawClient, packet

SPACE, OTHER = 512, 513
KINDS = (RequestType.SELECT, RequestType.INSERT, RequestType.REPLACE)


def _pair(key: int, raw: bytes) -> bytes:
    return pack(int(key)) + raw


numbers = st.sampled_from([0, 1, 2, 128])
space_ids = st.sampled_from([SPACE, SPACE, SPACE, OTHER, 999])
odd_tuples = [b"\x91\x01", b"\x92\x01\x05", b"\x92\x01", b"\x93\x01\xa1a\xc1", b"\x80", b"\xdc\x00\x02\x01\xa1c"]
tuples = st.one_of(
    st.tuples(numbers, st.sampled_from(["a", "b"])).map(lambda fields: pack(list(fields))),
    st.sampled_from(odd_tuples),
)
odd_keys = st.sampled_from([b"\x90", b"\x91\xa1x", b"\x92\x01\x01", b"\x91"])
keys = st.one_of(numbers.map(lambda key: pack([key])), odd_keys)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """Generate a type, and a body whose last value may be anything."""
    kind = draw(st.sampled_from(KINDS))
    pairs = [_pair(Key.SPACE_ID, pack(draw(space_ids)))]
    if kind == RequestType.SELECT:
        pairs += [
            _pair(Key.INDEX_ID, pack(draw(st.sampled_from([0, 0, 1, 7])))),
            _pair(Key.OFFSET, pack(draw(st.integers(0, 1)))),
            _pair(Key.LIMIT, pack(draw(st.sampled_from([1, 10, 2**33])))),
            _pair(Key.ITERATOR, pack(draw(st.sampled_from([0, 2, 5, 12])))),
            _pair(Key.KEY, draw(keys)),
        ]
    else:
        pairs.append(_pair(Key.TUPLE, draw(tuples)))
    if draw(st.integers(0, 9)) == 0:
        pairs = draw(st.permutations(pairs))
    return kind, bytes((0x80 | len(pairs),)) + b"".join(pairs) + draw(st.sampled_from([b"", b"", b"", b"\x01"]))


syncs = st.sampled_from([1, 127, 128, 70000, 2**33])
headers = st.sampled_from(["usual", "usual", "usual", "usual", "reversed", "long", "versioned"])
requests = st.tuples(st.just("request"), bodies(), syncs, headers)
pings = st.tuples(st.just("request"), st.just((int(RequestType.PING), b"")), syncs, headers)
changes = st.sampled_from([("add_index",), ("drop_index",), ("trigger",), ("no_trigger",), ("read_only",)])
programs = st.lists(st.one_of(requests, requests, requests, pings, changes), max_size=25)


class KeepsTuple:
    """A trigger in Python that keeps the tuple."""

    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        await asyncio.sleep(0)
        return new


def encode(step: tuple[Any, ...]) -> bytes:
    (kind, body), sync, form = step[1:]
    if form == "reversed":
        return packet({1: sync, 0: int(kind)}, body)
    if form == "versioned":
        return packet({0: int(kind), 1: sync, int(Key.SCHEMA_VERSION): 0}, body)
    if form == "long":
        raw = b"\x82\x00\xcc" + bytes((int(kind),)) + b"\x01" + pack(sync) + body
        return b"\xce" + len(raw).to_bytes(4, "big") + raw
    return packet({0: int(kind), 1: sync}, body)


async def change(node: Instance, step: str) -> None:
    ctx, schema = node.new_context(), node.schema
    space = schema.space(SPACE)
    if step == "add_index" and 1 not in space.indexes:
        row = [SPACE, 1, "sk", "tree", {"unique": False}, [[1, "string"]]]
        await node.dml.execute(ctx, schema.space(SpaceId.INDEX), Request.insert(pack(row)))
    elif step == "drop_index" and 1 in space.indexes:
        await node.dml.execute(ctx, schema.space(SpaceId.INDEX), Request.delete([SPACE, 1]))
    elif step == "trigger":
        space.on_replace.append(KeepsTuple())
    elif step == "no_trigger":
        space.on_replace.clear()
    elif step == "read_only":
        await node.configure({"read_only": not node.config["read_only"]})


async def answers(program: list[tuple[Any, ...]]) -> list[Any]:
    """Return the replies request by request, and the statistics."""
    node = Instance(disk=MemoryStorage())
    await node.configure({"log_level": 0, "wal_mode": "none", "listen": "127.0.0.1:0"})
    ctx = node.new_context()
    fields = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}]
    grant = [1, 0, "universe", 0, 0xFFFFFFFF]
    await node.dml.execute(ctx, node.schema.space(SpaceId.PRIV), Request.replace(pack(grant)))
    for space_id in (SPACE, OTHER):
        row = [space_id, 1, f"s{space_id}", "memtx", 0, {}, fields]
        await node.dml.execute(ctx, node.schema.space(SpaceId.SPACE), Request.insert(pack(row)))
        index = [space_id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]
        await node.dml.execute(ctx, node.schema.space(SpaceId.INDEX), Request.insert(pack(index)))
    client = await RawClient.connect(node.iproto.bound_address or "")
    replies: list[Any] = []
    node.dml.counters[:] = [0] * len(node.dml.counters)
    try:
        for step in program:
            if step[0] == "request":
                reply: Row = await client.ask(encode(step))
                replies.append((reply.type, reply.sync, reply.schema_version, reply.body))
            elif not (step[0].endswith("index") and node.config["read_only"]):
                await change(node, step[0])
    finally:
        await client.close()
        await node.close()
    return [*replies, node.dml.counters]


CUT = [
    ("request", (3, b"\x82\x10\xcd\x02\x00\x21" + raw), 1, "usual")
    for raw in (b"\x92\x01\xa1a", b"\x92\x01", b"\x92\x02\xa1a")
]
"""A malformed tuple after a beginning that is known."""
TOO_LONG = [
    ("request", (2, b"\x82\x10\xcd\x02\x00!\x92\x00\xa1a"), 1, "usual"),
    ("read_only",),
    ("request", (2, b"\x82\x10\xcd\x02\x00!\x92\x00\xa1a\x01"), 1, "usual"),
]
"""A body with a byte too many, to a read-only instance: the error is the body's."""


@settings(max_examples=25, deadline=None)
@example(CUT)
@example(TOO_LONG)
@given(programs)
def test_replies_are_those_of_the_general_path(program: list[tuple[Any, ...]]) -> None:
    """Replies equal those of the general path while bodies and headers vary and indexes, triggers and
    the mode change.
    """

    async def body() -> None:
        learned = await answers(program)
        with mock.patch.object(connection, "HEADER_SHAPES", {}), mock.patch.object(LearnedBodies, "learn"):
            assert learned == await answers(program)

    asyncio.run(body())
