"""Bodies of client requests: the quick decoders agree with the general ones."""

from __future__ import annotations

import msgpack
import pytest

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode
from box.wire.constants import RequestType
from box.wire.request import decode_call


@pytest.mark.parametrize("name", ["f", "a.b:c", "x" * 31, "y" * 32, "z" * 255, "w" * 300])
@pytest.mark.parametrize("is_name_first", [True, False])
def test_calls(name: str, is_name_first: bool) -> None:
    """CALL and EVAL are decoded with texts of any length, and arguments before or after."""
    pairs = [(0x22, name), (0x21, [1, {"a": None}])]
    body = msgpack.packb(dict(pairs if is_name_first else pairs[::-1]))
    request = decode_call(RequestType.CALL, body)
    assert (request.text, unpack(request.args)) == (name, [1, {"a": None}])
    with pytest.raises(BoxError) as raised:
        decode_call(RequestType.EVAL, body)
    assert raised.value.code == ErrorCode.MISSING_REQUEST_FIELD


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (RequestType.EVAL, {0x27: 5, 0x21: []}),
        (RequestType.EVAL, {0x27: None}),
        (RequestType.CALL, {0x22: b"f", 0x21: []}),
        (RequestType.CALL, {0x22: "f", 0x21: {}}),
        (RequestType.EVAL, {"x": 1, 0x27: "return 1"}),
        (RequestType.CALL, {-1: 1, 0x22: "f"}),
    ],
)
def test_calls_of_wrong_types(kind: RequestType, body: dict[object, object]) -> None:
    """Texts that are no strings, and keys that are no unsigned numbers, are errors."""
    with pytest.raises(BoxError) as raised:
        decode_call(kind, msgpack.packb(body))
    assert str(raised.value) == "Invalid MsgPack - packet body"


@pytest.mark.parametrize("end", [b"", b"\xa1f\x21", b"\xa1f\x21\x91", b"\xa1f\x21\x90\x90"])
def test_bad_calls(end: bytes) -> None:
    """Cut arguments are an error before Lua sees them."""
    with pytest.raises(BoxError) as raised:
        decode_call(RequestType.CALL, b"\x82\x22" + end)
    assert raised.value.code == ErrorCode.INVALID_MSGPACK
