"""MessagePack and Python values."""

from __future__ import annotations

import math
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from uuid import UUID

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import (
    _MARK,
    Ext,
    FrozenMap,
    pack,
    pack_float32,
    skip,
    split_array,
    unpack,
    unpack_many,
)
from box.data.extensions import decode_decimal, encode_decimal
from box.errors import BoxError, ErrorCode

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.uuids()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)
)
_keys = st.text(max_size=5) | st.integers(-5, 5) | st.tuples(st.integers(0, 3), st.text(max_size=2))
values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(_keys, inner, max_size=20), max_leaves=30
)


@settings(max_examples=80, deadline=None)
@given(values)
def test_values_survive(value: object) -> None:
    """pack and unpack are inverse, and skip finds the end of a value at any start."""
    raw = pack(value)
    assert unpack(raw) == value
    assert skip(raw, 0) == len(raw)
    assert skip(b"\xc0" + raw + b"\xc0", 1) == len(raw) + 1


@pytest.mark.parametrize(
    ("number", "body"),
    [
        ("-12.34", "0201234d"),
        ("12.34", "0201234c"),
        ("0", "000c"),
        ("1", "001c"),
        ("1E3", "fd1c"),
        ("0.001", "031c"),
        ("-0.00", "020d"),
        ("1E-7", "071c"),
        ("-1.50", "02150d"),
        ("99999999999999999999999999999999999999", "00" + "099999999999999999999999999999999999999c"),
    ],
)
def test_decimal_layout(number: str, body: str) -> None:
    """A decimal is encoded as its scale, then packed digits with the sign."""
    assert encode_decimal(Decimal(number)).hex() == body
    assert decode_decimal(bytes.fromhex(body)) == Decimal(number)


def test_a_decimal_is_an_extension_of_fixed_size_where_there_is_one() -> None:
    assert pack(Decimal("-12.34")) == bytes.fromhex("d60102 01234d".replace(" ", ""))


def test_decimals_too_long_are_refused() -> None:
    with pytest.raises(BoxError, match="does not support decimal"):
        pack(Decimal("1" * 39))


@pytest.mark.parametrize("body", ["", "02", "02ab", "0212", "a161", "02f23c"])
def test_malformed_decimals(body: str) -> None:
    """A malformed decimal makes the whole message invalid."""
    data = bytes.fromhex(body)
    with pytest.raises(BoxError) as raised:
        unpack(b"\xc7" + bytes((len(data), 1)) + data)
    assert raised.value.code == ErrorCode.INVALID_MSGPACK


def test_uuid_is_16_big_endian_bytes() -> None:
    uuid = UUID("64d22e4d-ac92-4a23-899a-e59f34af5479")
    assert pack(uuid) == b"\xd8\x02" + uuid.bytes


def test_unknown_extensions_are_kept() -> None:
    """Extensions with unknown codes, also negative ones, are kept."""
    for code in (0, 5, 127, -2, -128):
        raw = b"\xc7\x03" + struct.pack("b", code) + b"abc"
        value = unpack(raw)
        assert (type(value), value.code, value.data) == (Ext, code, b"abc")
        assert pack(value) == raw


def test_text_that_is_not_utf8_survives() -> None:
    raw = b"\x92\xa2\xff\xfe\xa1a"
    assert pack(unpack(raw)) == raw


def test_maps_with_containers_for_keys() -> None:
    """Arrays as keys become tuples, maps as keys FrozenMaps; both pack to the same bytes."""
    raw = bytes.fromhex("83 9201a161 01  8101a162 02  a163 93c0 9103 8104a0")
    value = unpack(raw)
    assert value == {(1, "a"): 1, FrozenMap({1: "b"}): 2, "c": [None, [3], {4: ""}]}
    assert pack(value) == raw


@pytest.mark.parametrize(
    "raw", [b"", b"\x92\x01", b"\xc1", b"\xa5abc", b"\x01\x02", b"\xdd\xff\xff\xff\xff", b"\x81\x01"]
)
def test_bad_input(raw: bytes) -> None:
    """Cut, reserved and trailing bytes raise one error with Tarantool's text."""
    with pytest.raises(BoxError, match=r"^Invalid MsgPack - packet body$") as raised:
        unpack(raw)
    assert raised.value.code == ErrorCode.INVALID_MSGPACK


def test_every_cut_is_found() -> None:
    raw = pack([1, "a", [2.5, {"k": [b"x" * 300, None]}], Decimal("1.5"), 70000])
    for end in range(len(raw)):
        with pytest.raises(BoxError):
            unpack(raw[:end])
        with pytest.raises(BoxError):
            skip(raw[:end], 0)


def test_nesting_without_end_is_an_error_not_a_crash() -> None:
    with pytest.raises(BoxError):
        unpack(b"\x91" * 100_000)


def test_values_without_an_encoding() -> None:
    for value in (object(), 2**64, -(2**63) - 1):
        with pytest.raises(BoxError) as raised:
            pack(value)
        assert raised.value.code == ErrorCode.PROC_RET


def test_float32() -> None:
    assert unpack(pack_float32(1.5)) == 1.5
    assert math.isinf(unpack(b"\xca\x7f\x80\x00\x00"))


def test_split_array() -> None:
    elements = [1, "a", [2], {"k": "v"}, None] * 5
    assert split_array(pack(elements)) == [pack(element) for element in elements]
    with pytest.raises(BoxError, match="Tuple/Key must be MsgPack array"):
        split_array(pack({"a": 1}))


def test_the_plain_library_reads_what_we_write() -> None:
    value = {"a": [1, 2.5, None, True, "x", b"y"]}
    assert msgpack.unpackb(pack(value)) == value


@settings(max_examples=60, deadline=None)
@given(st.lists(values, max_size=4))
def test_many_values_at_once(many: list[object]) -> None:
    """Decoding many values at once equals decoding one by one; only maps with special keys take the other way."""
    raws = list(map(pack, many))
    found = unpack_many(raws)
    assert found == many or found is None
    simple = [value for value in many if not isinstance(value, list | dict)]
    assert unpack_many(list(map(pack, simple))) == simple


@settings(max_examples=80, deadline=None)
@given(st.lists(_scalars, min_size=1, max_size=6), st.data())
def test_what_is_not_one_value_each_is_not_taken(many: list[object], data: st.DataObject) -> None:
    """Decoding with wrong boundaries gives nothing, unless each part is a value by chance."""
    pieces = list(map(pack, many))
    for place in data.draw(st.lists(st.integers(0, len(pieces)), max_size=3)):
        pieces.insert(
            place, data.draw(st.sampled_from([_MARK, _MARK[:4], _MARK[4:], b"\xd3" + _MARK[1:], b"\x92", b"\xa9"]))
        )
    joined = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(joined)), max_size=6)))
    raws = [joined[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(joined)], strict=True)]
    found = unpack_many(raws)
    if found is not None:
        assert found == list(map(unpack, raws))


def test_a_mark_in_a_value_is_no_harm() -> None:
    """A separator inside a value is harmless: values are checked one by one then."""
    mark = unpack(_MARK)
    assert unpack_many([pack([mark]), pack(1)]) is None
    assert unpack_many([pack(1), _MARK[1:], _MARK[:1]]) is None
    assert unpack_many([b"\xa9", b"\x01", b"\x02"]) is None
    assert unpack_many([b"\x92", b"\x01" + _MARK, b"\x02"]) is None
    assert unpack_many([b"\x01\x02"]) is None
    assert unpack_many([b"\x01", b""]) is None
    assert unpack_many([]) == []


def test_threads_pack_extensions_at_once() -> None:
    """A packer that calls Python for an extension is never used by two threads."""
    values = [[number, UUID(int=number), Decimal(number) / 8, {"nested": [Decimal(number)]}] for number in range(300)]
    expected = [pack(value) for value in values]
    switches = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: [pack(value) for value in values], range(8)))
    finally:
        sys.setswitchinterval(switches)
    assert found == [expected] * 8
