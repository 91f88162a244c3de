"""Streams and watchers of the binary protocol, on a server with a fake node."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from box.data.codec import pack
from box.iproto import watching
from box.wire.constants import RequestType
from box.wire.row import Row
from test.support import until

from .serving import RawClient, body, error_of, packet, run, serving

BEGIN, COMMIT, ROLLBACK = RequestType.BEGIN, RequestType.COMMIT, RequestType.TXN_ROLLBACK


def in_stream(request_type: int, sync: int, stream_id: int, content: bytes | None = None) -> bytes:
    return packet({0: request_type, 1: sync, 0x0A: stream_id}, content)


def call(sync: int, stream_id: int, name: str, *args: Any) -> bytes:
    return in_stream(RequestType.CALL, sync, stream_id, pack({0x22: name, 0x21: list(args)}))


def text_of(reply: Row) -> str:
    return error_of(reply).message


def test_a_stream_has_a_transaction() -> None:
    """A stream's transaction stays open from request to request, until COMMIT or ROLLBACK."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            for request_type, content in (
                (BEGIN, pack({0x56: 1.5, 0x59: 2})),
                (RequestType.REPLACE, body(tuple=[1, "a"])),
                (RequestType.SELECT, body(limit=10, key=[1])),
                (COMMIT, None),
                (BEGIN, None),
                (ROLLBACK, None),
                (COMMIT, None),
                (ROLLBACK, None),
            ):
                reply = await raw.ask(in_stream(request_type, 7, 3, content))
                assert (reply.type, reply.sync, reply.schema_version) == (0, 7, 77)
            assert node.txns.log == [
                *("begin 1.5 2", "yield", "yield", "yield", "commit True"),
                *("begin None 0", "yield", "rollback", "commit False", "rollback"),
            ]
            await raw.close()

    run(scenario())


def test_requests_of_a_stream_run_in_order_and_streams_beside_each_other() -> None:
    async def scenario() -> None:
        async with serving() as (node, server, address):
            raw = await RawClient.connect(address)
            raw.send(call(1, 5, "wait") + call(2, 5, "echo", 2) + call(3, 5, "echo", 3) + call(4, 6, "echo", 4))
            raw.send(packet({0: RequestType.CALL, 1: 5}, pack({0x22: "echo", 0x21: [5]})))
            assert [(await raw.read_row()).sync for _ in range(2)] == [4, 5]
            assert server.in_flight == 3
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)
            assert [(await raw.read_row()).sync for _ in range(3)] == [1, 2, 3]
            assert server.in_flight == 0
            (connection,) = server.connections
            assert len(connection.streams) == 0
            await raw.close()

    run(scenario())


def test_a_function_may_leave_its_transaction_to_the_stream() -> None:
    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            assert (await raw.ask(call(1, 5, "begin"))).type == 0
            assert text_of(await raw.ask(in_stream(BEGIN, 2, 5))) == (
                "Operation is not permitted when there is an active transaction "
            )
            assert (await raw.ask(in_stream(COMMIT, 3, 5))).type == 0
            assert node.txns.log == ["yield", "yield", "commit True"]
            outside = packet({0: RequestType.CALL, 1: 4}, pack({0x22: "begin"}))
            assert text_of(await raw.ask(outside)) == "Transaction is active at return from function"
            await raw.close()

    run(scenario())


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({0: RequestType.BEGIN}, "Unable to process BEGIN request out of stream"),
        ({0: RequestType.COMMIT}, "Unable to process COMMIT request out of stream"),
        ({0: RequestType.TXN_ROLLBACK}, "Unable to process ROLLBACK request out of stream"),
        ({0: RequestType.BEGIN, 0x0A: 0}, "Unable to process BEGIN request out of stream"),
        ({0: RequestType.AUTH, 0x0A: 1}, "Unable to process AUTH request in stream"),
        ({0: RequestType.WATCH, 0x0A: 1}, "Unable to process WATCH request in stream"),
        ({0: RequestType.ID, 0x0A: 1}, "Unable to process ID request in stream"),
        ({0: RequestType.VOTE, 0x0A: 1}, "Unable to process VOTE request in stream"),
        ({0: RequestType.SUBSCRIBE, 0x0A: 1}, "Unable to process SUBSCRIBE request in stream"),
        ({0: 99, 0x0A: 1}, "Unable to process (null) request in stream"),
        ({0: 12, 0x0A: 1}, "Unknown request type 12"),
        ({0: 17, 0x0A: 1}, "Unknown request type 17"),
    ],
)
def test_requests_that_do_not_belong_there(header: dict[int, Any], text: str) -> None:
    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            assert text_of(await raw.ask(packet(header | {1: 9}))) == text
            assert (await raw.ask(in_stream(RequestType.PING, 3, 1))).sync == 3
            await raw.close()

    run(scenario())


@pytest.mark.parametrize(
    "content", [b"\x90", b"\x01", pack({0x56: 1}), pack({0x56: "x"}), pack({0x59: -1}), pack({"x": 1})]
)
def test_a_begin_that_cannot_be_read(content: bytes) -> None:
    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            assert text_of(await raw.ask(in_stream(BEGIN, 1, 1, content))) == "Invalid MsgPack - request body"
            await raw.close()

    run(scenario())


def test_a_negative_timeout() -> None:
    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            reply = await raw.ask(in_stream(BEGIN, 1, 1, pack({0x56: -1.0})))
            assert text_of(reply) == "Illegal parameters, timeout must be a number greater than 0"
            await raw.close()

    run(scenario())


def test_the_end_of_a_connection_rolls_back() -> None:
    """At the end of a connection queued requests are served first, then transactions are rolled back."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            raw = await RawClient.connect(address)
            await raw.ask(in_stream(BEGIN, 1, 1))
            await raw.ask(in_stream(BEGIN, 1, 2))
            raw.send(call(2, 2, "wait") + in_stream(COMMIT, 3, 2) + in_stream(BEGIN, 4, 2))
            await until(lambda: server.in_flight == 3)
            await raw.close()
            await until(lambda: "rollback" in node.txns.log)
            assert node.txns.log.count("rollback") == 1
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)
            await until(lambda: node.txns.log.count("rollback") == 2)
            assert node.txns.log[-4:] == ["commit True", "begin None 0", "yield", "rollback"]
            assert server.in_flight == 0

    run(scenario())


def test_id() -> None:
    """The reply to ID has the version, the supported features and the authentication method."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            ask = packet({0: RequestType.ID, 1: 3}, pack({0x54: 99, 0x55: [0, 1, 700], 0x5B: "x", 0x7F: 1}))
            reply = await raw.ask(ask)
            fields = msgpack.unpackb(reply.body, strict_map_key=False)
            assert (fields[0x54], fields[0x5B]) == (4, "chap-sha1")
            assert fields[0x55] == [0, 1, 2, 3, 4]
            for wrong in (None, b"\x90", pack({0x54: "4"}), pack({0x55: 1}), pack({0x55: ["x"]}), pack({0x5B: 1})):
                refused = await raw.ask(packet({0: RequestType.ID, 1: 3}, wrong))
                assert text_of(refused) == "Invalid MsgPack - request body"
            await raw.close()

    run(scenario())


def watch(kind: int, sync: int, key: str) -> bytes:
    return packet({0: kind, 1: sync}, pack({0x57: key}))


async def event(raw: RawClient) -> tuple[int, int, dict[int, Any]]:
    row = await raw.read_row()
    return row.type, row.sync, msgpack.unpackb(row.body, strict_map_key=False)


def test_watchers() -> None:
    """A watcher gets an event at once, then one for the newest value after each acknowledgement, and none after
    UNWATCH.
    """

    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            raw.send(watch(RequestType.WATCH, 11, "key"))
            assert await event(raw) == (RequestType.EVENT, 11, {0x57: "key"})
            node.events.broadcast(b"key", pack(1))
            node.events.broadcast(b"key", pack([2]))
            raw.send(watch(RequestType.WATCH, 12, "key"))
            assert await event(raw) == (RequestType.EVENT, 12, {0x57: "key", 0x58: [2]})
            raw.send(watch(RequestType.WATCH, 13, "key"))
            assert (await raw.ask(packet({0: RequestType.PING, 1: 14}))).sync == 14
            node.events.broadcast(b"key", None)
            assert await event(raw) == (RequestType.EVENT, 13, {0x57: "key"})
            raw.send(watch(RequestType.UNWATCH, 15, "key") + watch(RequestType.UNWATCH, 15, "other"))
            node.events.broadcast(b"key", pack(3))
            assert (await raw.ask(packet({0: RequestType.PING, 1: 16}))).sync == 16
            await raw.close()
            await until(lambda: len(node.events) == 1)
            node.events.broadcast(b"key", None)
            assert len(node.events) == 0

    run(scenario())


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "Invalid MsgPack - missing request body"),
        (b"\x90", "Invalid MsgPack - packet body"),
        (pack({0x57: 1}), "Invalid MsgPack - packet body"),
        (pack({}), "Missing mandatory field 'EVENT_KEY' in request"),
    ],
)
def test_a_watch_that_cannot_be_read(content: bytes | None, text: str) -> None:
    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            for kind in (RequestType.WATCH, RequestType.UNWATCH):
                assert text_of(await raw.ask(packet({0: kind, 1: 1}, content))) == text
            await raw.close()

    run(scenario())


def test_keys_of_a_connection_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that watches too many keys is refused, until it gives some up."""
    monkeypatch.setattr(watching, "_ROOM", 10 * 1024)

    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            raw.send(b"".join(watch(RequestType.WATCH, number, f"{number:04}") for number in range(1000)))
            kinds = [(await raw.read_row()).type for _ in range(1000)]
            assert kinds.count(RequestType.EVENT) == 10 * 1024 // 516 == len(node.events)
            refused = await raw.ask(watch(RequestType.WATCH, 5, "one more"))
            assert text_of(refused) == "Failed to allocate 520 bytes in malloc for watcher"
            raw.send(watch(RequestType.UNWATCH, 5, "0001") + watch(RequestType.UNWATCH, 5, "0002"))
            raw.send(watch(RequestType.WATCH, 6, "one more"))
            assert await event(raw) == (RequestType.EVENT, 6, {0x57: "one more"})
            await raw.close()
            await until(lambda: len(node.events) == 0)

    run(scenario())
