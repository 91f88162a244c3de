"""Requests that usual clients never send get the replies of Tarantool 2.8.1, observed byte by byte on it."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from box.sync import Node
from box.wire.auth import encode_auth
from box.wire.greeting import decode_greeting

SELECT, INSERT, REPLACE, UPDATE, CALL_16, CALL, EXECUTE, NOP, PREPARE = 1, 2, 3, 4, 6, 10, 11, 12, 13
LUA = """
box.schema.create_space('s', {id = 600}):create_index('pk')
box.schema.user.grant('guest', 'super')
box.schema.user.create('lim', {password = 'secret'})
function tuple_of(...) return box.tuple.new{...} end
function echo(...) return ... end
"""


class OddClient:
    """A connection that sends any bytes."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.greeting = self.socket.recv(128, socket.MSG_WAITALL)

    def ask(self, header: bytes, body: bytes = b"") -> tuple[dict[int, Any], dict[int, Any]]:
        """Send one request, and return the maps of the reply."""
        self.socket.sendall(struct.pack(">BI", 0xCE, len(header) + len(body)) + header + body)
        size = struct.unpack(">BI", self.socket.recv(5, socket.MSG_WAITALL))[1]
        unpacker = msgpack.Unpacker(strict_map_key=False)
        unpacker.feed(self.socket.recv(size, socket.MSG_WAITALL))
        head = unpacker.unpack()
        return head, unpacker.unpack() if unpacker.tell() < size else {}

    def log_in(self, user: str, password: str) -> None:
        body = encode_auth(user, password, decode_greeting(self.greeting).salt)
        assert self.ask(b"\x81\x00\x07", body)[0][0] == 0

    def text(self, kind: int, body: bytes) -> str:
        """Send a request that fails, and return the text of its error."""
        return str(self.ask(bytes((0x82, 0x00, kind, 0x01, 0x07)), body)[1][0x31])

    def data(self, kind: int, body: bytes) -> Any:
        """Send a request that succeeds, and return its data."""
        head, reply = self.ask(bytes((0x82, 0x00, kind, 0x01, 0x07)), body)
        assert (head[0], head[1]) == (0, 7), reply
        return reply[0x30]


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with Node(listen="127.0.0.1:0") as node:
        node.eval(LUA)
        host, _, port = str(node.info["listen"]).rpartition(":")
        yield host, int(port)


@pytest.fixture
def odd(address: tuple[str, int]) -> Iterator[OddClient]:
    client = OddClient(address)
    yield client
    client.socket.close()


@pytest.mark.parametrize("space_key", [b"\xcc\x10", b"\xcd\x00\x10", b"\xd0\x10", b"\xa1a", b"\xe0", b"\xc0", b"\x90"])
def test_longer_keys_of_data_requests_are_unknown(odd: OddClient, space_key: bytes) -> None:
    """A key is recognized by its first byte, and unknown keys of any type are skipped."""
    insert = b"\x82" + space_key + b"\xcd\x02\x58\x21\x91\x01"
    assert odd.text(INSERT, insert) == "Missing mandatory field 'space id' in request"
    select = b"\x84\x10\xcd\x02\x58\x12\x01" + space_key + b"\xcd\x02\x58\x20\x90"
    assert odd.data(SELECT, select) == []


@pytest.mark.parametrize("name_key", [b"\xcc\x22", b"\xcd\x00\x22", b"\xcf" + bytes(7) + b"\x22"])
def test_longer_keys_of_calls_are_known(odd: OddClient, name_key: bytes) -> None:
    assert odd.data(CALL, b"\x82" + name_key + b"\xa4echo\x21\x91\x05") == [5]


def test_keys_of_calls_are_unsigned(odd: OddClient) -> None:
    """A signed integer is none, even if it is positive."""
    assert odd.text(CALL, b"\x82\x22\xa4echo\xd0\x21\x91\x05") == "Invalid MsgPack - packet body"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (b"\x80", "Invalid MsgPack - SQL parameter list"),
        (b"\xa1a", "Invalid MsgPack - SQL parameter list"),
        (b"\x91\x80", "Invalid MsgPack - SQL bind parameter"),
        (b"\x92\x01\x81\x01\x02", "Invalid MsgPack - SQL bind parameter"),
        (b"\x91\x81\xc4\x01a\x02", "Invalid MsgPack - SQL bind parameter"),
        (b"\x91\x82\xa2:a\x01\xa2:b\x02", "Invalid MsgPack - SQL bind parameter"),
        (b"\x92\x90\x80", "Bind value type ARRAY for parameter 1 is not supported"),
        (b"\x91\x81\xa2:a\x90", "Bind value type ARRAY for parameter ':a' is not supported"),
    ],
)
@pytest.mark.parametrize("kind", [EXECUTE, PREPARE])
@pytest.mark.parametrize("statement", [b"\x40\xa7/* c */", b"\x40\xa6SELECT", b"\x43\x01"])
def test_parameters_are_checked_before_the_statement(
    odd: OddClient, kind: int, statement: bytes, params: bytes, text: str
) -> None:
    assert odd.text(kind, b"\x82" + statement + b"\x41" + params) == text


def test_keys_of_sql_requests(odd: OddClient) -> None:
    """They are recognized by their first byte; the values of unknown ones may have any type."""
    body = b"\x82\xcc\x40\xa8SELECT 1\x41\x90"
    assert odd.text(EXECUTE, body) == "Missing mandatory field 'SQL text or stmt id' in request"
    assert odd.data(EXECUTE, b"\x83\xa1a\x01\xc0\xc0\x40\xa8SELECT 1") == [[1]]
    assert odd.text(EXECUTE, b"\x81\x43\xcf\x00\x00\x00\x01\x00\x00\x00\x05").startswith(
        "Prepared statement with id 5 does not exist"
    )


@pytest.mark.parametrize("field", [b"\x10\xd0\x05", b"\x0b\xd3" + bytes(7) + b"\x05", b"\x22\xc4\x01a", b"\x0f\xa1a"])
def test_values_in_headers_have_their_type_also_for_unused_keys(odd: OddClient, field: bytes) -> None:
    """A positive signed integer is no unsigned one, and a binary is no string. The sync before the field counts."""
    head, body = odd.ask(b"\x83\x00\x40\x01\x09" + field)
    assert (head[0], head[1], body[0x31]) == (0x8014, 9, "Invalid MsgPack - packet header")
    head, body = odd.ask(b"\x83\x00\x40" + field + b"\x01\x09")
    assert (head[0], head[1]) == (0x8014, 0)


def test_no_operation_has_no_body(odd: OddClient) -> None:
    assert odd.text(NOP, b"\x80") == "Invalid MsgPack - packet body"
    assert odd.text(NOP, b"") == "Unknown request type 12"


def test_names_of_functions_end_at_a_zero_byte_in_errors(odd: OddClient) -> None:
    assert odd.text(CALL, b"\x81\x22\xa3a\x00b") == "Procedure 'a' is not defined"


@pytest.mark.parametrize(
    ("sync", "seen"),
    [(5, 5), (2**31, -(2**31)), (2**32 - 1, -1), (2**32 + 3, 3), (2**53 + 1, 1), (2**63, 0), (2**64 - 1, -1)],
)
def test_lua_sees_the_lower_half_of_a_sync(odd: OddClient, sync: int, seen: int) -> None:
    """Replies have all 64 bits of it."""
    header = b"\x82\x00\x08\x01" + msgpack.packb(sync)
    head, body = odd.ask(header, b"\x81\x27" + msgpack.packb("return box.session.sync()"))
    assert (head[0], head[1], body.get(0x30)) == (0, sync, [seen])


def test_a_tuple_with_an_array_is_one_result_of_an_old_call(odd: OddClient) -> None:
    """Only a table of tables is a list of tuples."""
    assert odd.data(CALL_16, msgpack.packb({0x22: "tuple_of", 0x21: [[1], 2]})) == [[[1], 2]]
    assert odd.data(CALL_16, msgpack.packb({0x22: "echo", 0x21: [[[1], 2]]})) == [[1], [2]]
    assert odd.data(CALL_16, msgpack.packb({0x22: "tuple_of", 0x21: []})) == [[]]


def test_schema_versions_are_shown_as_signed(odd: OddClient) -> None:
    text = odd.ask(b"\x83\x00\x40\x01\x07\x05\xce\x80\x00\x00\x00")[1][0x31]
    assert text.startswith("Wrong schema version, current: -2147483648, in request: ")


def test_names_of_operations_end_at_a_zero_byte_in_errors(odd: OddClient) -> None:
    odd.data(INSERT, b"\x82\x10\xcd\x02\x58\x21\x91\x01")
    update = b"\x83\x10\xcd\x02\x58\x20\x91\x01\x21\x91\x93\xa3a\x00b\x01\x01"
    assert odd.text(UPDATE, update) == 'Unknown UPDATE operation #1: "a"'


def test_names_of_objects_end_at_a_zero_byte_in_refusals(address: tuple[str, int]) -> None:
    client = OddClient(address)
    with contextlib.closing(client.socket):
        client.log_in("lim", "secret")
        text = client.text(CALL, b"\x81\x22\xa3a\x00b")
        assert text == "Execute access to function 'a' is denied for user 'lim'"


@pytest.mark.parametrize("end", [b"\x91\x01\x80", b"\x92\x01", b"\x91\xa5a"])
def test_a_body_is_checked_before_rights(odd: OddClient, address: tuple[str, int], end: bytes) -> None:
    """Also if the beginning of the body is known from earlier requests."""
    beginning = b"\x82\x10\xcd\x02\x58\x21"
    odd.data(REPLACE, beginning + b"\x91\x05")
    client = OddClient(address)
    with contextlib.closing(client.socket):
        client.log_in("lim", "secret")
        assert client.text(REPLACE, beginning + b"\x91\x05") == "Write access to space 's' is denied for user 'lim'"
        assert client.text(REPLACE, beginning + end) == "Invalid MsgPack - packet body"
