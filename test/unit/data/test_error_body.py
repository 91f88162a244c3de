"""Errors as values of tuples: MessagePack extension 3."""

from __future__ import annotations

import pickle

import pytest

from box.data.codec import Ext, pack, unpack
from box.data.show import tuple_str
from box.errors import AccessDeniedError, BoxError, CustomError, access_denied
from box.spark.values import decode_fields, to_json

# Written by a 2.11: box.error.new('My', 'hello %s', 'w') with box.error.new(box.error.UNKNOWN) as its cause.
STACK = bytes.fromhex(
    "c762038100928700ab437573746f6d4572726f72020501a5622e6c756103a768656c6c6f2077040005000681ab637573746f6d5f74797065"
    "a24d798600ab436c69656e744572726f72020401a5622e6c756103ad556e6b6e6f776e206572726f7204000500"
)


def test_an_error_of_tarantool_is_a_value_and_has_the_same_bytes_again() -> None:
    error = unpack(STACK)
    assert type(error) is CustomError
    assert (error.custom_type, error.message, error.file, error.line) == ("My", "hello w", "b.lua", 5)
    assert (error.prev.message, error.prev.line, error.prev.prev) == ("Unknown error", 4, None)
    assert pack(error) == STACK
    assert pack(pickle.loads(pickle.dumps(error))) == STACK
    assert pack([1, {"e": error}]) == b"\x92\x01\x81\xa1e" + STACK


def test_fields_of_errors_of_later_versions_stay() -> None:
    fields = {"reason": "election", "term": 5, "state": [1], "id": Ext(2, bytes(16))}
    error = BoxError(7, "Can't modify data on a read-only instance", fields=fields)
    back = unpack(pack(error))
    assert back.fields == fields
    assert pack(back) == pack(error)


def test_an_access_denied_error_keeps_what_was_denied() -> None:
    error = unpack(pack(access_denied("Read", "space", "_user", "guest")))
    assert type(error) is AccessDeniedError
    assert error.fields == {"access_type": "Read", "object_type": "space", "object_name": "_user"}


@pytest.mark.parametrize("body", [b"", b"\x80", b"\x01", b"\x81\x00", b"\x81\x00\x90", b"\x81\x00\x91\x80", b"\xc1"])
def test_a_malformed_error_is_malformed_messagepack(body: bytes) -> None:
    raw = b"\xc7" + bytes((len(body), 3)) + body
    with pytest.raises(BoxError) as caught:
        unpack(b"\x91" + raw)
    assert caught.value.message == "Invalid MsgPack - packet body"


def test_texts_of_messages_have_errors_as_maps() -> None:
    """Errors in texts of messages are shown as maps, as 2.8.1 and 2.11 do."""
    assert tuple_str(b"\x92\x01" + STACK) == (
        '[1, {"stack": [{"type": "CustomError", "line": 5, "file": "b.lua", "message": "hello w", "errno": 0, '
        '"code": 0, "fields": {"custom_type": "My"}}, {"type": "ClientError", "line": 4, "file": "b.lua", '
        '"message": "Unknown error", "errno": 0, "code": 0}]}]'
    )


def test_spark_reads_errors_as_maps() -> None:
    text = to_json(decode_fields(b"\x92\x01" + STACK)[1])
    assert text.startswith('{"stack": [{"type": "CustomError", "line": 5, "file": "b.lua", "message": "hello w", ')
    assert to_json(decode_fields(b"\x91\x81\x90" + STACK)[0]).startswith('{"[]": {"stack": ')
