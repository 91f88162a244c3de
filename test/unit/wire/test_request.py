"""Bodies of client requests: the quick decoders agree with the general ones."""

from __future__ import annotations

from unittest import mock

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode
from box.wire import request
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


texts = st.one_of(st.text(max_size=40), st.sampled_from(["x" * 255, "y" * 300])).map(pack)
arguments = st.lists(st.one_of(st.integers(-9, 9), st.text(max_size=3), st.none()), max_size=3).map(pack)
odd = st.sampled_from([b"\xd9\x01f", b"\xc4\x01f", b"\x05", b"\xc0", b"\x80", b"\x91", b"\xa2f", b"\xda\x00\x01f", b""])


@st.composite
def calls(draw: st.DrawFn) -> tuple[RequestType, bytes]:
    """Generate a CALL or an EVAL, mostly of the usual form."""
    kind = draw(st.sampled_from([RequestType.CALL, RequestType.CALL_16, RequestType.EVAL]))
    key = draw(st.sampled_from([0x22, 0x27]))
    pairs = [pack(key) + draw(texts | odd), b"\x21" + draw(arguments | odd)]
    if draw(st.integers(0, 3)) == 0:
        pairs = draw(st.permutations([*pairs, draw(st.sampled_from([b"\x22\xa1g", b"\x7f\x01", b"\xff\x01"]))]))
    tail = draw(st.sampled_from([b"", b"", b"\x00"]))
    return kind, bytes((0x80 | len(pairs),)) + b"".join(pairs) + tail


@settings(max_examples=160)
@given(calls())
def test_the_quick_reader_of_calls_agrees_with_the_careful_one(case: tuple[RequestType, bytes]) -> None:
    """The quick decoder of calls gives the general one's result for bodies it accepts."""
    kind, body = case
    quick = request._decode_usual_call(kind, body)
    if quick is not None:
        with mock.patch.object(request, "_decode_usual_call", return_value=None):
            assert decode_call(kind, body) == quick


@pytest.mark.parametrize("end", [b"", b"\xa1f\x21", b"\xa1f\x21\x91", b"\xa1f\x21\x90\x90"])
def test_bad_calls(end: bytes) -> None:
    """Cut arguments are an error before Lua sees them."""
    with pytest.raises(BoxError) as raised:
        decode_call(RequestType.CALL, b"\x82\x22" + end)
    assert raised.value.code == ErrorCode.INVALID_MSGPACK
