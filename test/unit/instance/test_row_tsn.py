"""A transaction whose first row has a greater lsn than the others: a local row before replicated ones."""

from __future__ import annotations

from box.wire.row import Row, decode_row, encode_row


def test_a_distance_below_zero_wraps() -> None:
    row = Row(type=2, replica_id=1, lsn=3, tm=1.0, tsn=10, is_commit=True, body=b"\x82\x10\x01\x21\x90")
    encoded = encode_row(row)
    assert b"\x08\xcf\xff\xff\xff\xff\xff\xff\xff\xf9" in encoded
    assert decode_row(encoded) == row
