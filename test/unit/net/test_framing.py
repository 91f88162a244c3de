"""Rows from bytes in pieces of any size, and packets that are refused before they are stored."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.errors import BoxError
from box.net import framing
from box.net.framing import RowBuffer, SnapshotItem, take_tuples
from box.wire.constants import BODY_LEN_MAX, RequestType
from box.wire.row import Row, decode_row, encode_packet
from box.wire.tuple_run import TupleRun


def row(lsn: int, body: bytes = b"\x80") -> Row:
    return Row(RequestType.REPLACE, 1, lsn, 1.0, body=body)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_rows_in_pieces(size: int) -> None:
    """The prologue comes first, then each row as soon as its last byte has arrived."""
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
    """A large row is joined once: many pieces cost no more than its size."""
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
    """An impossible packet is refused at its length, after the rows before it, and not kept."""
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


# --- snapshots ---------------------------------------------------------------------------------------------------

SPACE_IDS = (7, 127, 128, 255, 280, 512, 513, 70000)


def _space_id(space_id: int, form: str) -> bytes:
    """Encode a space id as short as possible, or in five bytes as Tarantool does."""
    return b"\xce" + space_id.to_bytes(4, "big") if form == "long" else bytes(msgpack.packb(space_id))


def _snapshot_row(spec: tuple[str, int, str, int, Any]) -> Row:
    kind, space_id, form, sync, value = spec
    raw = bytes(msgpack.packb(value))
    row = Row(RequestType.INSERT, sync=sync, body=b"\x82\x10" + _space_id(space_id, form) + b"\x21" + raw)
    if kind == "replace":
        row.type = RequestType.REPLACE
    elif kind == "with a place":
        row.replica_id, row.lsn, row.tm, row.tsn = 1, 70000, 1.0, 70000
    elif kind == "with more":
        row.body = b"\x83" + row.body[1:] + b"\x11\x00"
    elif kind == "the other way round":
        row.body = b"\x82\x21" + raw + b"\x10" + _space_id(space_id, form)
    elif kind == "end":
        row = Row(RequestType.OK, sync=sync, body=b"\x81\x26\x80")
    return row


snapshot_rows = st.tuples(
    st.sampled_from(["usual"] * 8 + ["replace", "with a place", "with more", "the other way round", "end"]),
    st.sampled_from(SPACE_IDS),
    st.sampled_from(["short", "long"]),
    st.sampled_from([0, 0, 0, 5, 300]),
    st.one_of(st.lists(st.integers(0, 3), max_size=3), st.text(max_size=40).map(lambda text: [1, text])),
)


def _repeated(groups: list[tuple[tuple[str, int, str, int, Any], int]]) -> list[Row]:
    return [_snapshot_row(spec) for spec, count in groups for _ in range(count)]


@settings(deadline=None)
@given(st.lists(st.tuples(snapshot_rows, st.sampled_from([1, 1, 2, 20])), max_size=15).map(_repeated))
def test_a_snapshot_comes_as_runs(rows: list[Row]) -> None:
    """Tuples of a snapshot come as runs, in order, for pieces of any size; other rows come one by one."""
    stream = b"".join(map(encode_packet, rows))
    for piece in (len(stream) or 1, 100, 7, 1):
        buffer = RowBuffer()
        items: list[SnapshotItem] = []
        for at in range(0, len(stream), piece):
            buffer.add(stream[at : at + piece])
            taken: deque[Any] = deque()
            while buffer.may_have_rows and (taken or not items or buffer.size):
                before = buffer.size
                buffer.take_items(taken, take_run=take_tuples)
                if buffer.size == before:
                    break
            items += taken
        found: list[Any] = []
        for item in items:
            if isinstance(item, TupleRun):
                found += [(item.space_id, raw) for raw in item.tuples]
            else:
                found.append(item)
        assert len(found) == len(rows)
        for one, row in zip(found, rows, strict=True):
            if isinstance(one, Row):
                assert one == decode_row(encode_packet(row)[5:])
            else:
                assert row.type == RequestType.INSERT
                assert not row.lsn
                space_id, raw = one
                assert msgpack.unpackb(row.body, strict_map_key=False) == {16: space_id, 33: msgpack.unpackb(raw)}
                assert row.body.endswith(raw)
        if piece == len(stream) and rows and all(_is_usual(row) for row in rows):
            assert all(isinstance(item, TupleRun) for item in items)


def _is_usual(row: Row) -> bool:
    return row.type == RequestType.INSERT and not row.lsn and row.body.startswith(b"\x82\x10")


@pytest.mark.parametrize("chunk", [1, 50, 700, 300_000])
@pytest.mark.parametrize("most", [1, 7, 256])
def test_rows_of_many_chunks(chunk: int, most: int) -> None:
    """Rows of many chunks all come in order, and the remaining size is right."""
    rows = [row(lsn, msgpack.packb({33: b"x" * (lsn * 977 % 3000)})) for lsn in range(1, 300)]
    data = b"".join(map(encode_packet, rows))
    buffer, taken = RowBuffer(), deque[Row]()
    for start in range(0, len(data), chunk):
        buffer.add(data[start : start + chunk])
    while buffer.may_have_rows:
        before = len(taken)
        buffer.take_rows(taken, most)
        assert before < len(taken) <= before + most
        assert buffer.size == sum(len(encode_packet(each)) for each in rows[len(taken) :])
    assert [each.lsn for each in taken] == [each.lsn for each in rows]


def test_megabytes_are_not_copied_for_a_few_rows() -> None:
    """A slow reader does not copy all unread bytes for each few rows."""
    data = b"".join(map(encode_packet, [row(lsn, msgpack.packb({33: b"x" * 100})) for lsn in range(1, 20_000)]))
    buffer, taken = RowBuffer(), deque[Row]()
    copied = 0
    for start in range(0, len(data), 16384):
        buffer.add(data[start : start + 16384])
        if start > len(data) // 2:
            known = list(buffer._chunks)
            buffer.take_rows(taken, 20)
            copied += sum(len(chunk) for chunk in buffer._chunks if not any(chunk is each for each in known))
    assert copied < 4 * len(data)


_WIDTHS = (0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, 2**32 - 1, 2**32, 2**40)
parts = st.builds(
    lambda kind, origin, lsn, distance, is_commit, flags, body: Row(
        kind, origin, lsn, 1.5, 0, max(1, lsn - distance), is_commit, flags, body=body
    ),
    st.sampled_from([RequestType.INSERT, RequestType.REPLACE, RequestType.DELETE, RequestType.NOP]),
    st.sampled_from([0, 1, 2, 31, 32, 127, 128]),
    st.sampled_from([width for width in _WIDTHS if width]),
    st.sampled_from(_WIDTHS),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([0, 0, 0, 2, 6]),
    st.sampled_from([b"\x82\x10\x01\x21\x91\x05", b"\x80", b""]),
)


def _outcome(stream: bytes, most: int) -> tuple[list[Row], str]:
    buffer, taken = RowBuffer(), deque[Any]()
    buffer.add(stream)
    try:
        while buffer.may_have_rows:
            before = len(taken)
            buffer.take_items(taken, most)
            assert len(taken) <= before + most
            if len(taken) == before:
                break
    except BoxError as error:
        return _rows_of(taken), str(error)
    return _rows_of(taken), ""


def _rows_of(items: deque[Any]) -> list[Row]:
    return [row for item in items for row in ([item] if isinstance(item, Row) else item.rows())]


@settings(max_examples=160, deadline=None)
@given(
    st.lists(parts, min_size=1, max_size=8),
    st.one_of(st.none(), st.tuples(st.integers(0, 400), st.integers(0, 255))),
    st.integers(1, 9),
)
def test_rows_of_transactions_are_what_the_general_way_makes_of_them(
    rows: list[Row], damage: tuple[int, int] | None, most: int
) -> None:
    """Generated rows of transactions, also with wrong bytes, give the rows and errors of the general path."""
    stream = bytearray(b"".join(encode_packet(row) for row in rows if row.type != RequestType.NOP or not row.body))
    if damage is not None and damage[0] < len(stream):
        stream[damage[0]] = damage[1]
    found = _outcome(bytes(stream), most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_take_parts", lambda data, pos, end, items, most: pos)
        expected = _outcome(bytes(stream), most)
    assert repr(found) == repr(expected)


def test_the_middle_of_a_transaction_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a transaction in a chunk but the last, which commits, are decoded in one call."""
    rows = [Row(RequestType.REPLACE, 1, lsn, 1.5, 0, 1, lsn == 70000, body=b"\x80") for lsn in range(1, 70001)]
    decoded = []
    monkeypatch.setattr(framing, "decode_row", lambda packet: decoded.append(packet) or decode_row(packet))
    found, error = _outcome(b"".join(map(encode_packet, rows)), 10**9)
    assert found == rows
    assert not error
    assert len(decoded) < 300
