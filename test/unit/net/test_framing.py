"""Rows out of bytes that come in pieces of any size, and what is refused before it is stored."""

from __future__ import annotations

from collections import deque

import pytest

from box.errors import BoxError
from box.net.framing import RowBuffer
from box.wire.constants import BODY_LEN_MAX, RequestType
from box.wire.row import Row, decode_row, encode_packet


def row(lsn: int, body: bytes = b"\x80") -> Row:
    return Row(RequestType.REPLACE, 1, lsn, 1.0, body=body)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_rows_in_pieces(size: int) -> None:
    """The prologue comes first, then each row as soon as its last byte is here."""
    rows = [row(lsn) for lsn in range(1, 40)]
    data = b"HELO" + b"".join(map(encode_packet, rows))
    buffer, taken = RowBuffer(4), deque[Row]()
    prologue = None
    for start in range(0, len(data), size):
        buffer.add(data[start : start + size])
        if prologue is None:
            prologue = buffer.take_prologue()
        if prologue is not None:
            buffer.take_rows(taken)
    assert prologue == b"HELO"
    assert list(taken) == [decode_row(encode_packet(each)[5:]) for each in rows]
    assert buffer.size == 0


def test_a_large_row_is_put_together_once() -> None:
    """Pieces of a packet wait as they are: a packet of many pieces costs no more than its size."""
    packet = encode_packet(row(1, b"\x81\x21\xc6" + (1_000_000).to_bytes(4, "big") + bytes(1_000_000)))
    buffer, taken = RowBuffer(), deque[Row]()
    for start in range(0, len(packet), 1000):
        assert not taken
        buffer.add(packet[start : start + 1000])
        buffer.take_rows(taken)
        assert len(buffer._chunks) <= 2 + start // 1000
    assert [len(each.body) for each in taken] == [1_000_007]


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (b"\xcf" + (2**40).to_bytes(8, "big"), f"too big packet size in the header: {2**40}"),
        (b"\xcf" + (BODY_LEN_MAX + 1).to_bytes(8, "big"), "too big packet size in the header: 2147483649"),
        (b"\xce\xff\xff\xff\xff", "too big packet size in the header: 4294967295"),
        (b"\xc1", "packet length"),
        (b"\xa3abc", "packet length"),
    ],
)
def test_impossible_packets(length: bytes, text: str) -> None:
    """They are refused at their length, after the rows before them; nothing is kept."""
    buffer, taken = RowBuffer(), deque[Row]()
    buffer.add(encode_packet(row(1)) + length + bytes(100_000))
    with pytest.raises(BoxError, match=text):
        buffer.take_rows(taken)
    assert ([each.lsn for each in taken], buffer.size) == ([1], 0)


def test_the_largest_packet_is_waited_for() -> None:
    buffer = RowBuffer()
    buffer.add(b"\xce" + BODY_LEN_MAX.to_bytes(4, "big") + bytes(10))
    buffer.take_rows(deque())
    assert buffer.size == 15
