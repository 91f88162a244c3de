"""Row headers: exact bytes, both ways, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.errors import BoxError, ErrorCode, client_error
from box.wire import row as row_module
from box.wire.constants import Flag, RequestType
from box.wire.row import Row, decode_header, decode_row, encode_packet, encode_row, is_msgpack

BODY = msgpack.packb({0x10: 512, 0x21: [1, "a"]})


@pytest.mark.parametrize(
    ("row", "header"),
    [
        (Row(3, 1, 7, 1.0), "84 0003 0201 0307 04cb3ff0000000000000"),
        (Row(3, 1, 100000, 1.0), "84 0003 0201 03ce000186a0 04cb3ff0000000000000"),
        (Row(3, 1, 2**40, 1.0), "84 0003 0201 03cf0000010000000000 04cb3ff0000000000000"),
        (Row(12, 1, 300, 0.0), "83 000c 0201 03cd012c"),
        (Row(0), "81 0000"),
        (Row(64, sync=200), "82 0040 01ccc8"),
        (Row(30, 1, 5, group_id=1), "84 001e 0201 0701 0305"),
        (Row(2, 1, 8, tsn=8, is_commit=False), "84 0002 0201 0308 0800"),
        (Row(2, 1, 9, tsn=8, is_commit=False), "84 0002 0201 0309 0801"),
        (Row(2, 1, 10, tsn=8, flags=Flag.WAIT_SYNC | Flag.WAIT_ACK), "85 0002 0201 030a 0802 0907"),
        (Row(2, 1, 10, flags=Flag.WAIT_SYNC), "84 0002 0201 030a 0902"),
    ],
)
def test_header_bytes(row: Row, header: str) -> None:
    """A header has Tarantool's order of keys; zeros, and the tsn and COMMIT flag of a single row, are left out."""
    assert encode_row(row) == bytes.fromhex(header)
    decoded = decode_row(encode_row(row))
    assert decoded.txn_id == row.txn_id
    assert (decoded.is_commit, decoded.flags, decoded.group_id) == (row.is_commit, row.flags, row.group_id)


numbers = st.integers(0, 2**63 - 1)


@given(
    st.sampled_from([2, 3, 5, 40, 100]),
    st.integers(0, 31),
    st.integers(1, 2**62),
    st.floats(0, 4e9),
    st.integers(0, 1),
    st.integers(0, 1000),
    st.booleans(),
    st.sampled_from([0, 2, 6]),
    numbers,
)
def test_round_trip(
    kind: int, replica_id: int, lsn: int, tm: float, group: int, before: int, is_commit: bool, flags: int, sync: int
) -> None:
    """Decoding gives what was encoded, with the tsn filled in."""
    row = Row(kind, replica_id, lsn, tm, group, max(1, lsn - before), is_commit, flags, sync, body=BODY)
    decoded = decode_row(encode_row(row))
    assert decoded == row
    packet = encode_packet(row)
    assert packet[0] == 0xCE
    assert decode_row(packet[5:]) == row


def test_flag_names() -> None:
    row = Row(2, flags=Flag.WAIT_SYNC)
    assert (row.wait_sync, row.wait_ack) == (True, False)


def test_general_header_forms() -> None:
    """Wide keys, long maps and the protocol's other keys are accepted in a header."""
    header = b"\xde\x00\x03" + b"\xcc\x00\x03" + b"\x01\xcd\x00\x09" + b"\x10\xce\x00\x00\x02\x00"
    row, end = decode_header(b"junk" + header + BODY, 4)
    assert (row.type, row.sync, end) == (3, 9, 4 + len(header))
    row, end = decode_header(b"\x83\x00\x03\x10\x05\x01\x09")
    assert (row.type, row.sync, end) == (3, 9, 7)


BROKEN_HEADERS = (
    *(b"", b"\x81", b"\x81\x00", b"\x81\x00\xcd\x01", b"\x90", b"\xc1", b"\x81\x00\xff"),
    *(b"\x81\x60\x01", b"\x81\x00\xa1x", b"\x81\x04\x01", b"\x81\xa1x\x01"),
)


@pytest.mark.parametrize("raw", BROKEN_HEADERS)
def test_broken_headers(raw: bytes) -> None:
    with pytest.raises(BoxError, match="Invalid MsgPack - packet header") as failure:
        decode_row(raw)
    assert failure.value.code == ErrorCode.INVALID_MSGPACK


@pytest.mark.parametrize(
    "raw", [b"\x81\x00\x03\xc1", b"\x81\x00\x03\x92\x01", b"\x81\x00\x03\x80\x80", b"\x81\x00\x0c\x80"]
)
def test_broken_bodies(raw: bytes) -> None:
    """A body is exactly one value, and a NOP has none."""
    with pytest.raises(BoxError, match="Invalid MsgPack - packet body"):
        decode_row(raw)


def test_is_msgpack() -> None:
    assert is_msgpack(BODY)
    assert not is_msgpack(BODY[:-1])
    assert not is_msgpack(BODY + b"\x01")


def test_a_distance_below_zero_wraps() -> None:
    """A transaction whose first row has a greater LSN, a local row before replicated ones, has a
    distance that wraps.
    """
    row = Row(type=2, replica_id=1, lsn=3, tm=1.0, tsn=10, is_commit=True, body=b"\x82\x10\x01\x21\x90")
    encoded = encode_row(row)
    assert b"\x08\xcf\xff\xff\xff\xff\xff\xff\xff\xf9" in encoded
    assert decode_row(encoded) == row


@given(
    st.one_of(
        st.binary(max_size=12),
        st.recursive(
            st.one_of(
                st.none(), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=4), st.floats(), st.text(max_size=4)
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.integers(0, 9), st.text(max_size=2)), inner)
            ),
            max_leaves=8,
        ).map(msgpack.packb),
    ),
    st.binary(max_size=2),
)
def test_small_values_are_told_as_large_ones(value: bytes, behind: bytes) -> None:
    """The fast paths of `is_msgpack` and of headers with a type alone give the results of the general ones."""
    for raw in (value, value + behind, value[:-1]):
        assert row_module.is_msgpack(raw) == row_module._is_msgpack(raw)
        packet = b"\x81\x00" + raw
        assert _decoded(packet, decode_row) == _decoded(packet, _decode_by_general_code)


def _decode_by_general_code(packet: bytes) -> Row:
    row, pos = decode_header(packet)
    if pos < len(packet):
        if row.type == RequestType.NOP or not row_module._is_msgpack(packet[pos:]):
            raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
        row.body = packet[pos:]
    return row


def _decoded(packet: bytes, decode: Callable[[bytes], Row]) -> Row | str:
    try:
        return decode(packet)
    except BoxError as error:
        return error.message
