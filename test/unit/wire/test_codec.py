"""Greeting, replies, errors, authentication and statistics: exact bytes and their checks."""

from __future__ import annotations

import base64
from uuid import UUID

import msgpack
import pytest

from box.data.error_body import decode_error_stack, encode_error_stack
from box.errors import BoxError, ErrorCode, access_denied, client_error, system_error
from box.iproto.stats import Net, Stats
from box.schema.access import decode_hash, password_hash
from box.wire.auth import encode_auth, is_right_scramble, scramble
from box.wire.constants import Key, RequestType, type_name
from box.wire.error import decode_error_body, encode_error_body
from box.wire.greeting import decode_greeting, encode_greeting
from box.wire.packet import packet_bounds
from box.wire.reply import reply_array, reply_chunk, reply_error, reply_ok, reply_tuples
from box.wire.row import decode_row
from test.unit.iproto.fakes import INSTANCE_UUID

SALT = bytes(range(32))


def test_greeting() -> None:
    raw = encode_greeting(INSTANCE_UUID, SALT)
    assert raw[:64] == b"Tarantool 2.8.1 (Binary) 7170b4c0-a72c-4a07-8e55-3c7c9f1b2f3a".ljust(63) + b"\n"
    assert raw[64:] == base64.b64encode(SALT).ljust(63) + b"\n"
    greeting = decode_greeting(raw)
    assert (greeting.version_id, greeting.protocol) == (0x020801, "Binary")
    assert (greeting.uuid, greeting.salt) == (INSTANCE_UUID, SALT)


def test_other_greetings() -> None:
    """Greetings of consoles are recognised, versions may have suffixes, and others are refused."""
    console = b"Tarantool 2.8.1 (Lua console)".ljust(63) + b"\n" + b"type 'help' for interactive help".ljust(63) + b"\n"
    assert decode_greeting(console).protocol == "Lua console"
    suffixed = encode_greeting(INSTANCE_UUID, SALT, "1.10.9b")
    assert decode_greeting(suffixed).version_id == 0x010A09
    good = encode_greeting(INSTANCE_UUID, SALT)
    short_salt = good[:64] + b"AAAA".ljust(63) + b"\n"
    for bad in (b"x" * 128, good[:-1] + b" ", good[:100], good.replace(b"7170b4c0-", b"7170b4c0x"), short_salt):
        with pytest.raises(BoxError, match="Invalid greeting") as failure:
            decode_greeting(bad)
        assert failure.value.code == ErrorCode.PROTOCOL


def test_reply_bytes() -> None:
    """Replies have the fixed widths of Tarantool."""
    header = "83 00ce00000000 01cf0000000000000005 05ce0000004d"
    assert reply_ok(5, 77) == bytes.fromhex("ce00000018" + header + "80")
    assert reply_tuples(5, 77, [b"\x91\x01"]) == bytes.fromhex("ce00000020" + header + "8130dd00000001 9101")
    assert reply_tuples(5, 77, []) == bytes.fromhex("ce0000001e" + header + "8130dd00000000")
    assert reply_tuples(5, 77, [b"\x91\x01"] * 2)[-9:] == bytes.fromhex("dd00000002 9101 9101")
    assert decode_row(reply_array(5, 77, b"\x92\x01\x02")[5:]).body == bytes.fromhex("8130dd00000002 01 02")
    assert decode_row(reply_array(5, 77, b"\xdc\x00\x10" + bytes(16))[5:]).body[:7] == bytes.fromhex("8130dd00000010")
    many = b"\xdd\x00\x01\x00\x00" + bytes(65536)
    assert decode_row(reply_array(5, 77, many)[5:]).body == b"\x81\x30" + many
    chunk = decode_row(reply_chunk(5, 77, b"\x07")[5:])
    assert (chunk.type, chunk.sync, msgpack.unpackb(chunk.body, strict_map_key=False)) == (
        RequestType.CHUNK,
        5,
        {48: [7]},
    )


def test_packet_bounds() -> None:
    assert packet_bounds(b"\x05abcde", 0) == (1, 6)
    assert packet_bounds(b"x\xcd\x01\x00", 1) == (4, 260)
    assert packet_bounds(b"\xce\x00\x00", 0) == (5, 5)
    with pytest.raises(BoxError, match="packet length"):
        packet_bounds(b"\x91", 0)


def test_error_stack_bytes() -> None:
    """An error stack has type, line, file, message, errno and code, in this order, then its causes."""
    error = client_error(ErrorCode.NO_SUCH_SPACE, "x")
    error.file, error.line = "box/space.cc", 36
    error.prev = system_error("disk", 5)
    value = msgpack.unpackb(encode_error_stack(error), strict_map_key=False)
    assert list(value[0][0].items()) == [
        (0, "ClientError"),
        (2, 36),
        (1, "box/space.cc"),
        (3, "Space 'x' does not exist"),
        (4, 0),
        (5, ErrorCode.NO_SUCH_SPACE),
    ]
    assert value[0][1] == {0: "SystemError", 2: 0, 1: "", 3: "disk", 4: 5, 5: ErrorCode.SYSTEM}


def test_a_raised_error_carries_its_place() -> None:
    """A raised error has the file and line of its statement; a known place is kept; without a raise there is none."""
    cause = client_error(ErrorCode.NO_SUCH_SPACE, "y")
    with pytest.raises(BoxError) as caught:
        raise client_error(ErrorCode.NO_SUCH_SPACE, "x")
    caught.value.prev = cause
    back = decode_error_stack(encode_error_stack(caught.value))
    assert back.prev is not None
    assert (back.file, back.prev.file, back.prev.line) == ("test/unit/wire/test_codec.py", "", 0)
    assert back.line == test_a_raised_error_carries_its_place.__code__.co_firstlineno + 4
    with pytest.raises(BoxError) as caught:
        raise back
    assert decode_error_stack(encode_error_stack(caught.value)).line == back.line


def test_the_line_of_a_c_function_has_no_sign() -> None:
    error = client_error(ErrorCode.NO_SUCH_SPACE, "x")
    error.file, error.line = "[C]", -1
    assert decode_error_stack(encode_error_stack(error)).line == 0xFFFFFFFF


def test_error_round_trip() -> None:
    denied = access_denied("Read", "space", "s", "guest")
    custom = BoxError(7, "mine", type="CustomError", custom_type="MyError")
    denied.prev = custom
    back = decode_error_body(0x8000 | denied.code, encode_error_body(denied))
    assert (back.type, back.code, back.message, back.fields) == (
        denied.type,
        denied.code,
        denied.message,
        denied.fields,
    )
    assert back.prev is not None
    assert (back.prev.custom_type, back.prev.code, back.prev.message) == ("MyError", 7, "mine")


def test_code_of_a_type() -> None:
    """Errors other than ClientError have one code for their type."""
    for error, code in (
        (BoxError(0, "x", type="LuajitError"), ErrorCode.PROC_LUA),
        (BoxError(0, "x", type="OutOfMemory"), ErrorCode.MEMORY_ISSUE),
        (BoxError(0, "x", type="FiberIsCancelled"), ErrorCode.PROC_LUA),
        (BoxError(0, "x", type="SocketError"), ErrorCode.SYSTEM),
    ):
        assert decode_row(reply_error(1, 2, error)[5:]).type == 0x8000 | code


def test_old_and_broken_errors() -> None:
    """An error with a text alone, with a code alone, or with a broken stack is decoded."""
    old = decode_error_body(0x8000 | 36, msgpack.packb({0x31: "gone"}))
    assert (old.code, old.message) == (36, "gone")
    for body in (b"", b"\x01", b"\x80", b"\xc1"):
        assert (decode_error_body(0x8024, body).code, decode_error_body(0x8024, body).message) == (36, "")
    whole = {0: "ClientError", 1: "", 2: 0, 3: "m", 4: 0, 5: 1}
    for stack, text in (
        ({}, "Invalid MP_ERROR MsgPack format"),
        ({0: [1]}, "Invalid MP_ERROR MsgPack format"),
        ({0: [whole | {2: -1}]}, "Invalid MP_ERROR MsgPack format"),
        ({0: [{0: "ClientError"}]}, "Missing mandatory error fields"),
        ({0: [whole | {0: "CustomError"}]}, "Missing mandatory error fields"),
        ({0: [whole | {0: "AccessDeniedError"}]}, "Missing mandatory error fields"),
        ({0: [whole | {6: 5}]}, "Invalid MP_ERROR MsgPack format"),
    ):
        with pytest.raises(BoxError, match=text):
            decode_error_stack(msgpack.packb(stack))
        assert text in decode_error_body(0x8001, msgpack.packb({Key.ERROR.value: stack})).message


def test_scramble() -> None:
    """The scramble fits one stored hash, salt and password only."""
    stored = decode_hash(password_hash("secret"))
    proof = scramble(SALT, "secret")
    assert is_right_scramble(proof, SALT, stored)
    assert not is_right_scramble(scramble(SALT, "wrong"), SALT, stored)
    assert not is_right_scramble(proof, SALT[::-1], stored)
    assert msgpack.unpackb(encode_auth("guest", None, SALT), strict_map_key=False) == {0x23: "guest", 0x21: []}
    sent = msgpack.unpackb(encode_auth("a", "secret", SALT), strict_map_key=False, raw=True)
    assert sent == {0x23: b"a", 0x21: [b"chap-sha1", proof]}


def test_type_names() -> None:
    names = [type_name(kind) for kind in (1, 6, 10, 12, 40, 41, 31, 64)]
    assert names == ["SELECT", None, "CALL", "NOP", "CONFIRM", "ROLLBACK", None, None]


def test_rates() -> None:
    """A rate is the mean of the last five seconds; `current` values are no totals."""
    stats = Stats()
    stats.collect(RequestType.SELECT, 50)
    stats.net.totals[Net.SENT] = 100
    stats.connections = 3
    stats.box.roll(1.0)
    assert stats.show_box()["SELECT"] == {"total": 50, "rps": 10}
    stats.box.roll(5.0)
    assert stats.show_box()["SELECT"] == {"total": 50, "rps": 0}
    assert stats.show_net()["CONNECTIONS"] == {"total": 0, "rps": 0, "current": 3}
    names = "SELECT INSERT REPLACE UPDATE DELETE AUTH EVAL UPSERT CALL EXECUTE PREPARE ERROR"
    assert " ".join(stats.show_box()) == names
    stats.reset()
    assert stats.show_box()["SELECT"]["total"] == stats.show_net()["SENT"]["total"] == 0


def test_nil_uuid_greeting() -> None:
    """An instance without a UUID sends zeros in its greeting."""
    assert decode_greeting(encode_greeting(UUID(int=0), SALT)).uuid == UUID(int=0)


@pytest.mark.parametrize(("code", "shown"), [(2**32 + 5, 5), (-1, 0xFFFFFFFF), (10**300, 0), (2**64, 0)])
def test_codes_of_errors_have_32_bits(code: int, shown: int) -> None:
    """An error with a code of any size is encoded: it counts with 32 bits."""
    reply = decode_row(reply_error(7, 77, BoxError(code, "as you wish"))[5:])
    assert reply.type == 0x8000 | shown
    assert decode_error_body(reply.type, reply.body).message == "as you wish"
