"""The server's replies to every request type, on the fast path and the general path, to broken input, and to users."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.wire.ballot import Ballot
from box.wire.constants import Key, RequestType
from box.wire.messages import decode_vclock, vote_row
from box.wire.row import Row
from test.support import until

from .fakes import INSTANCE_UUID
from .serving import (
    SELECT_1,
    RawClient,
    body,
    client,
    data_of,
    error_of,
    packet,
    request,
    row,
    run,
    serving,
)


def test_greeting_and_session() -> None:
    """A client gets version, UUID and salt in the greeting, and has a session until it leaves."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            raw = await RawClient.connect(address)
            assert raw.greeting.startswith(f"Tarantool 2.8.1 (Binary) {INSTANCE_UUID} ".encode())
            (session,) = node.sessions.by_id.values()
            assert (session.id, session.type, session.user) == (1, "binary", "guest")
            assert session.peer is not None
            assert session.peer.startswith("127.0.0.1:")
            assert (server.stats.connections, session.fd > 0) == (1, True)
            await raw.close()
            await until(lambda: not node.sessions.by_id)
            assert server.stats.connections == 0

    run(scenario())


def test_data_requests() -> None:
    """Every data request gets its tuples; repeated ones, on the fast path, get the same reply."""

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:

            async def ask(request_type: int, **fields: Any) -> Any:
                return data_of(await connection.request(row(request_type, **fields)))

            for _ in range(3):
                assert await ask(RequestType.REPLACE, tuple=[1, "a"]) == [[1, "a"]]
                assert await ask(RequestType.SELECT, **SELECT_1) == [[1, "a"]]
            assert await ask(RequestType.INSERT, tuple=[2, "b"]) == [[2, "b"]]
            assert await ask(RequestType.INSERT, tuple=[3, "c"]) == [[3, "c"]]
            assert await ask(RequestType.UPDATE, key=[2], tuple=[["=", 1, "x"]]) == [[2, "x"]]
            assert await ask(RequestType.UPDATE, key=[2], tuple=[["=", 2, "y"]], index_base=1) == [[2, "y"]]
            assert await ask(RequestType.UPSERT, tuple=[4, "d"], ops=[]) == []
            assert await ask(RequestType.SELECT, limit=2, offset=1, key=[]) == [[2, "y"], [3, "c"]]
            assert await ask(RequestType.DELETE, key=[2]) == [[2, "y"]]
            assert await ask(RequestType.DELETE, key=[2]) == []
            assert await ask(RequestType.UPDATE, key=[2], tuple=[]) == []
            assert await ask(RequestType.SELECT, limit=10, key=[9]) == []
            assert node.stats.show_box()["SELECT"]["total"] == 5

    run(scenario())


def test_pipelining_of_any_split() -> None:
    """Requests may arrive in pieces of any size, and replies carry their syncs."""

    async def scenario() -> None:
        stream = b"".join(request(RequestType.REPLACE, sync, body(tuple=[sync])) for sync in (1, 200, 70000, 2**40))
        stream += request(RequestType.PING, 5) + packet({1: 6, 0: RequestType.PING}) + b"\x05\x82\x00\x40\x01\x07"
        async with serving() as (_, _, address):
            for size in (1, 2, 7, len(stream)):
                raw = await RawClient.connect(address)
                for start in range(0, len(stream), size):
                    raw.send(stream[start : start + size])
                    await raw.writer.drain()
                    if size < 7:
                        await asyncio.sleep(0)
                replies = [await raw.read_row() for _ in range(7)]
                assert [reply.sync for reply in replies] == [1, 200, 70000, 2**40, 5, 6, 7]
                assert {reply.schema_version for reply in replies} == {77}
                await raw.close()

    run(scenario())


def test_big_packet() -> None:
    """A tuple that takes many reads arrives complete."""

    async def scenario() -> None:
        async with serving() as (_, _, address), client(address) as connection:
            big = "x" * 3_000_000
            assert data_of(await connection.request(row(RequestType.REPLACE, tuple=[1, big]))) == [[1, big]]

    run(scenario())


def test_schema_change_voids_the_fast_path() -> None:
    """A request that begins like an earlier one does not reach a dropped space."""

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            await connection.request(row(RequestType.SELECT, **SELECT_1))
            node.schema.spaces.clear()
            node.schema.version += 1
            with pytest.raises(BoxError, match="Space '512' does not exist"):
                await connection.request(row(RequestType.SELECT, **SELECT_1))

    run(scenario())


def test_numbers_of_requests_have_a_width() -> None:
    """The type of a request counts with its lowest byte, and numbers in a body with 32 bits, as in Tarantool."""

    async def scenario() -> None:
        async with serving() as (_, _, address), client(address) as connection:

            async def ask(request_type: int, **fields: Any) -> Any:
                return data_of(await connection.request(row(request_type, **fields)))

            for key, request_type in enumerate((2, 258, 65538, 2**32 + 2)):
                assert await ask(request_type, tuple=[key]) == [[key]]
            for request_type in (257, 513, 1025, 65537):
                for _ in range(2):
                    assert await ask(request_type, limit=10, key=[1]) == [[1]]
            wide = 2**32
            assert await ask(1, limit=10, key=[], offset=wide + 3) == [[3]]
            assert await ask(1, limit=wide + 1, key=[], offset=2**63) == [[0]]
            assert await ask(1, limit=1, key=[2], space_id=wide + 512, index_id=wide, iterator=wide) == [[2]]
            assert await ask(260, key=[1], tuple=[["=", 0, 1]], space_id=wide + 512) == [[1]]
            assert await ask(wide + 5, key=[1], space_id=wide + 512) == [[1]]
            for request_type in (267, 269):
                with pytest.raises(BoxError, match="Syntax error at line 1 near 'SELEC'"):
                    await connection.request(Row(request_type, body=pack({0x40: "SELEC"})))

    run(scenario())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (request(RequestType.SELECT, 7, body(key=[])), "Missing mandatory field 'limit' in request"),
        (request(RequestType.SELECT, 7), "Missing mandatory field 'space id' in request"),
        (request(RequestType.UPSERT, 7, body(tuple=[])), "Missing mandatory field 'operations' in request"),
        (request(RequestType.INSERT, 7, body(tuple=5)), "Invalid MsgPack - packet body"),
        (request(RequestType.INSERT, 7, b"\xc1"), "Invalid MsgPack - packet body"),
        (request(RequestType.PING, 7, b"\x80\x80"), "Invalid MsgPack - packet body"),
        (request(RequestType.INSERT, 7, body(tuple=[])[:-1]), "Invalid MsgPack - packet body"),
        (
            request(RequestType.SELECT, 7, body(limit=1, key=[], iterator=12)),
            "Illegal parameters, Invalid iterator type",
        ),
        (request(RequestType.SELECT, 7, pack({0x10: 1, 0x12: 1, 0x20: []})), "Space '1' does not exist"),
        (request(99, 7), "Unknown request type 99"),
        (request(RequestType.NOP, 7), "Unknown request type 12"),
        (request(RequestType.CALL, 7), "Invalid MsgPack - missing request body"),
        (request(RequestType.CALL, 7, {}), "Missing mandatory field 'function name' in request"),
        (request(RequestType.EVAL, 7, {}), "Missing mandatory field 'expression' in request"),
        (request(RequestType.AUTH, 7, {0x23: "guest"}), "Missing mandatory field 'tuple' in request"),
        (request(RequestType.EXECUTE, 7, {}), "Missing mandatory field 'SQL text or stmt id' in request"),
        (request(RequestType.EXECUTE, 7, {0x40: "SELEC"}), "Syntax error at line 1 near 'SELEC'"),
        (request(0x163, 7), "Unknown request type 99"),
        (packet({0: 1, 1: 7, 5: 3}, body(**SELECT_1)), "Wrong schema version, current: 3, in request: 77"),
        (packet({0: 64, 1: 7, 5: 3}), "Wrong schema version, current: 3, in request: 77"),
    ],
)
def test_refused_requests(data: bytes, text: str) -> None:
    """A bad request gets an error with its sync, and the connection goes on."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            reply = await raw.ask(data)
            assert (error_of(reply).message, reply.sync) == (text, 7)
            assert (await raw.ask(request(RequestType.PING, 8))).sync == 8
            await raw.close()

    run(scenario())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (request(RequestType.SELECT, 7), "ER_MISSING_REQUEST_FIELD: Missing mandatory field 'space id' in request"),
        (request(RequestType.INSERT, 7, b"\xc1"), "ER_INVALID_MSGPACK: Invalid MsgPack - packet body"),
        (request(99, 7), "ER_UNKNOWN_REQUEST_TYPE: Unknown request type 99"),
        (request(RequestType.SELECT, 7, pack({0x10: 1, 0x12: 1, 0x20: []})), None),
    ],
)
def test_packets_that_cannot_be_decoded_are_logged(data: bytes, text: str | None) -> None:
    """The lines have the name of Tarantool's network thread. Errors of good packets are not logged."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            await raw.ask(data)
            assert node.log.of_iproto == ([] if text is None else [text])
            await raw.close()

    run(scenario())


def test_the_fast_path_refuses_what_the_general_path_refuses() -> None:
    """What follows a remembered beginning is checked as in the first request."""

    async def scenario() -> None:
        good = body(limit=1, key=[1])
        for request_type, whole in ((RequestType.SELECT, good), (RequestType.REPLACE, body(tuple=[1]))):
            begin = whole[:-2]
            async with serving() as (_, _, address):
                raw = await RawClient.connect(address)
                assert (await raw.ask(request(request_type, 1, whole))).type == 0
                for bad in (b"", b"\x05", b"\x92\x01", b"\x91\x01\x00", b"\x80", b"\xc1", b"\xdc"):
                    for behind in (b"", request(RequestType.PING, 3)):
                        reply = await raw.ask(request(request_type, 2, begin + bad) + behind)
                        assert (error_of(reply).message, reply.sync) == ("Invalid MsgPack - packet body", 2)
                        assert not behind or (await raw.read_row()).sync == 3
                assert (await raw.ask(request(request_type, 4, begin + b"\xdc\x00\x01\x07"))).sync == 4
                await raw.close()

    run(scenario())


def test_header_longer_than_the_packet() -> None:
    """A header that would end in the next packet is broken, whatever the next packet has."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            reply = await raw.ask(b"\xce\x00\x00\x00\x02\x82\x00" + b"\x05\x82\x00\x40\x01\x07")
            assert error_of(reply).message == "Invalid MsgPack - packet header"
            assert (await raw.read_row()).sync == 7
            raw.send(b"\xce\x00\x00\x00\x03\x82\x00\x40" + b"\x01\x07")
            assert error_of(await raw.read_row()).message == "Invalid MsgPack - packet header"
            await raw.close()

    run(scenario())


def test_broken_fields_of_a_header() -> None:
    """The error of a wrong field in a header has the sync that comes before it."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            for header, sync in (
                (b"\x83\x00\x40\x01\x07\x60\x01", 7),
                (b"\x83\x01\x07\x00\x40\x08\x90", 7),
                (b"\x82\x01\x07\x00\xc0", 7),
                (b"\x83\x00\x40\x01\x07\xff\x05", 7),
                (b"\x83\x00\x40\x01\x07\x04\x05", 7),
                (b"\x82\x00\xa1x\x01\x07", 0),
                (b"\x83\x01\x07\x00\x40", 0),
                (b"\x83\x01\x07\x00\x40\xc1\x01", 0),
            ):
                reply = await raw.ask(b"\xce" + len(header).to_bytes(4, "big") + header)
                assert (error_of(reply).message, reply.sync) == ("Invalid MsgPack - packet header", sync), header
            await raw.close()

    run(scenario())


def test_schema_versions_have_32_bits() -> None:
    """Schema versions count with 32 bits, and 0 is none."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            raw = await RawClient.connect(address)
            version = node.schema.version
            for wanted, outcome in ((2**32, 0), (2**63, 0), (2**32 + version, 0), (2**32 + version + 1, 0x8000 | 109)):
                header = b"\x83\x00\x40\x01\x07\x05\xcf" + wanted.to_bytes(8, "big")
                assert (await raw.ask(b"\xce" + len(header).to_bytes(4, "big") + header)).type == outcome, wanted
            await raw.close()

    run(scenario())


def test_broken_header_and_stream() -> None:
    """A broken header gets an error with sync 0; a broken length closes the connection."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            for header in (
                b"\xc1",
                b"\x90",
                b"\x81\x00\xa1x",
                b"\x81\x60\x01",
                b"\x82\x00\x40",
                b"\x82\x00\x40\x01\xff",
            ):
                reply = await raw.ask(b"\xce" + len(header).to_bytes(4, "big") + header)
                assert (error_of(reply).message, reply.sync) == ("Invalid MsgPack - packet header", 0)
            usual = await RawClient.connect(address)
            reply = await usual.ask(b"\xce\xff\xff\xff\xff\x82\x00\x02\x01\x05\x83\x10\xcd\x02\x00")
            assert error_of(reply).message == f"Invalid MsgPack - too big packet size in the header: {2**32 - 1}"
            assert await usual.reader.read() == b""
            await usual.close()
            reply = await raw.ask(b"\xcf" + (2**40).to_bytes(8, "big"))
            assert error_of(reply).message == f"Invalid MsgPack - too big packet size in the header: {2**40}"
            assert await raw.reader.read() == b""
            await raw.close()
            raw = await RawClient.connect(address)
            assert error_of(await raw.ask(b"\xa1x")).message == "Invalid MsgPack - packet length"
            assert await raw.reader.read() == b""
            await raw.close()

    run(scenario())


def test_not_configured() -> None:
    """Before box.cfg is complete PING and VOTE are served; other requests get the errors of an unconfigured node."""
    loading, missing = "Instance bootstrap hasn't finished yet", "Space '7' does not exist"
    snapshot = "Snapshot recovery does not support write requests, use box.ctl.is_recovery_finished"

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            node.state.is_configured = False
            node.space.is_temporary = False
            for refused, text in (
                (row(RequestType.SELECT, **SELECT_1), loading),
                (Row(RequestType.SELECT, body=pack({0x10: 7, 0x12: 1, 0x20: []})), missing),
                (row(RequestType.REPLACE, tuple=[1]), "read-only mode"),
                (Row(RequestType.REPLACE, body=pack({0x10: 7, 0x21: [1]})), missing),
                (Row(RequestType.CALL, body=pack({0x22: "echo"})), loading),
                (Row(RequestType.EVAL, body=pack({0x27: "return 1"})), loading),
                (Row(RequestType.EXECUTE, body=pack({0x40: "SELECT 1"})), loading),
                (Row(RequestType.AUTH, body=pack({0x23: "guest", 0x21: []})), loading),
            ):
                with pytest.raises(BoxError, match=text):
                    await connection.request(refused)
            node.schema.has_user_spaces = False
            with pytest.raises(BoxError, match="Syntax error"):
                await connection.request(Row(RequestType.EXECUTE, body=pack({0x40: "SELECT 1"})))
            node.space.is_temporary = True
            with pytest.raises(BoxError, match=snapshot):
                await connection.request(row(RequestType.REPLACE, tuple=[1]))
            node.schema.users["guest"].credentials.universal = 0
            for refused, text in (
                (row(RequestType.SELECT, **SELECT_1), "Usage access to universe '' is denied for user 'guest'"),
                (Row(RequestType.CALL, body=pack({0x22: "echo"})), "Execute access to function 'echo' is denied"),
                (Row(RequestType.EVAL, body=pack({0x27: "return 1"})), "Execute access to universe '' is denied"),
            ):
                with pytest.raises(BoxError, match=text):
                    await connection.request(refused)
            await connection.request(Row(RequestType.PING))
            ballot = Ballot.decode((await connection.request(vote_row())).body)
            assert (ballot.is_ro, str(ballot.vclock)) == (True, "{1: 5, 2: 7}")
            assert str(decode_vclock(await connection.request(Row(RequestType.VOTE_DEPRECATED)))) == "{1: 12}"

    run(scenario())


@pytest.mark.parametrize(
    ("user", "password", "text"),
    [
        ("alice", "wrong", "Incorrect password supplied for user 'alice'"),
        ("bob", "secret", "User 'bob' is not found"),
        ("guest", "secret", "Incorrect password supplied for user 'guest'"),
    ],
)
def test_refused_users(user: str, password: str, text: str) -> None:
    async def scenario() -> None:
        async with serving() as (_, _, address):
            with pytest.raises(BoxError) as refusal:
                async with client(f"{user}:{password}@{address}"):
                    raise AssertionError("authenticated")
            assert refusal.value.message == text

    run(scenario())


def test_refusals_do_not_tell_users_apart_if_the_greeting_is_of_2_11() -> None:
    """With a greeting of 2.11, a refusal does not tell if the user exists: neither for a wrong password nor for a
    malformed request.
    """
    refusal = "User not found or supplied credentials are invalid"

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            for version, text in (("2.10.8", "User 'bob' is not found"), ("2.11.0", refusal), ("3.0.0", refusal)):
                node.config["iproto_greeting_version"] = version
                with pytest.raises(BoxError, match=text) as caught:
                    await connection.authenticate("bob", "secret")
            assert caught.value.code == ErrorCode.PASSWORD_MISMATCH
            answers = []
            for user in ("alice", "bob"):
                for proof in (["chap-sha1", b"0" * 20], ["chap-sha1", b"0"], []):
                    with pytest.raises(BoxError) as caught:
                        await connection.request(Row(RequestType.AUTH, body=pack({0x23: user, 0x21: proof})))
                    answers.append((caught.value.code, caught.value.message))
            assert answers[:3] == answers[3:]
            await connection.authenticate("alice", "secret")

    run(scenario())


def test_users() -> None:
    """The right password makes the session the user's, an empty proof makes it guest's, and on_auth sees both."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            seen: list[tuple[str, bool]] = []

            async def on_auth(ctx: Any, user: str, is_right: bool) -> None:
                seen.append((user, is_right))

            node.sessions.on_auth.append(on_auth)
            async with client(f"alice:secret@{address}") as connection:
                (session,) = node.sessions.by_id.values()
                assert session.user == "alice"
                await connection.request(Row(RequestType.AUTH, body=pack({0x23: "guest", 0x21: []})))
                assert session.user == "guest"
                for proof, text in (
                    ([], "authentication request body"),
                    (["chap-sha1", 5], "authentication scramble"),
                    (["chap-sha1", "short"], "invalid scramble size"),
                ):
                    with pytest.raises(BoxError, match=text):
                        await connection.request(Row(RequestType.AUTH, body=pack({0x23: "alice", 0x21: proof})))
                with pytest.raises(BoxError, match="Incorrect password"):
                    await connection.authenticate("alice", "wrong")
            assert seen == [("alice", True), ("guest", True), ("alice", False)]

    run(scenario())


def test_session_hooks() -> None:
    """on_connect runs before the first request and may refuse the client; on_disconnect runs at the end."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            events: list[str] = []
            gate = node.loop.create_future()

            async def on_connect(ctx: Any) -> None:
                events.append(f"connect {ctx.session.id}")
                await gate

            async def on_disconnect(ctx: Any) -> None:
                events.append(f"disconnect {ctx.session.id}")
                raise client_error(ErrorCode.PROC_LUA, "ignored")

            node.sessions.on_connect.append(on_connect)
            node.sessions.on_disconnect.append(on_disconnect)
            connecting = asyncio.create_task(RawClient.connect(address))
            await until(lambda: bool(events))
            assert not connecting.done()
            gate.set_result(None)
            raw = await connecting
            await raw.ask(request(RequestType.PING, 1))
            await raw.close()
            await until(lambda: len(events) == 2 and not node.sessions.by_id)
            assert events == ["connect 1", "disconnect 1"]
            assert node.log.lines[-1] == "ER_PROC_LUA: ignored"

            async def refuse(ctx: Any) -> None:
                raise client_error(ErrorCode.PROC_LUA, "not you")

            node.sessions.on_connect.append(refuse)
            raw = await RawClient.connect(address)
            assert error_of(await raw.read_row()).message == "not you"
            assert await raw.reader.read() == b""
            await raw.close()

    run(scenario())


def test_replication_takes_the_connection() -> None:
    """A replication request gets the socket and unread input, may return them, and its error is sent as a reply."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            raw = await RawClient.connect(address)
            join = request(RequestType.JOIN, 3, {int(Key.INSTANCE_UUID): str(INSTANCE_UUID)})
            refusal = await raw.ask(join)
            assert (error_of(refusal).message, refusal.sync) == ("Replication does not support wal_mode = 'none'", 3)
            await raw.ask(request(RequestType.PING, 4))

            taken: list[bytes] = []

            async def behaviour(connection: Any, row: Row) -> None:
                transport, rest, is_full = connection.detach()
                assert not is_full
                taken.append(rest)
                transport.write(b"hello")
                await asyncio.sleep(0)

            node.replication.behaviour = behaviour
            raw.send(join + b"more")
            assert await raw.reader.read() == b"hello"
            assert taken == [b"more"]
            await raw.close()
            await until(lambda: not server.connections and not node.sessions.by_id)

            node.replication.behaviour = None
            raw = await RawClient.connect(address)
            assert error_of(await raw.ask(request(RequestType.SUBSCRIBE, 5, {}))).code == ErrorCode.UNSUPPORTED
            assert await raw.reader.read() == b""
            await raw.close()

    run(scenario())


def test_error_reply_has_both_forms() -> None:
    """An error reply has the text for old clients, and the stack with causes for new ones."""

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            reply = await raw.ask(request(RequestType.SELECT, 1, pack({0x10: 1, 0x12: 1, 0x20: []})))
            decoded = msgpack.unpackb(reply.body, strict_map_key=False)
            assert reply.type == 0x8000 | ErrorCode.NO_SUCH_SPACE
            assert decoded[Key.ERROR_24] == decoded[Key.ERROR][0][0][3] == "Space '1' does not exist"
            await raw.close()

    run(scenario())
