"""Compiled code picks the rows of a log that the decoder in Python would pick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.columns import Kind
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID
from box.wire.change import Request, decode_row
from box.wire.constants import DML_TYPES, Flag, RequestType
from box.wire.row import Row, encode_row
from box.wire.vclock import VClock

pytest.importorskip("numba", reason="the extra 'spark' is not installed")

GOODS = 512
SINCE = VClock({0: 3, 1: 10})

keys = st.integers(-5, 40) | st.sampled_from([2**40, "text"])
fields = st.builds(lambda key, rest: [7, key, *rest], keys, st.lists(st.integers(0, 300), max_size=2))


@st.composite
def rows(draw: st.DrawFn) -> bytes:
    """A row of any type, mostly usual."""
    kind = draw(st.sampled_from([2, 3, 4, 5, 9, 2, 3, 4, 5, 9, 12, 40, 30]))
    row = Row(kind, draw(st.integers(0, 3)), draw(st.integers(1, 30)), draw(st.floats(0, 2e9)), draw(st.integers(0, 1)))
    row.is_commit = draw(st.booleans())
    row.tsn = draw(st.integers(0, row.lsn))
    row.flags = draw(st.sampled_from([0, 0, 0, int(Flag.WAIT_SYNC | Flag.WAIT_ACK)]))
    space_id = draw(st.sampled_from([GOODS, GOODS, GOODS, 513, SPACE_ID, INDEX_ID, TRUNCATE_ID]))
    values = draw(fields)
    operations = [["=", 3, 1]]
    match kind:
        case RequestType.UPDATE:
            row.body = Request.update([values[1]], operations).body(space_id)
        case RequestType.DELETE:
            row.body = Request.delete([values[1]]).body(space_id)
        case RequestType.UPSERT:
            row.body = Request.upsert(pack(values), operations).body(space_id)
        case RequestType.INSERT | RequestType.REPLACE:
            row.body = Request(kind, pack(values)).body(space_id)
        case RequestType.CONFIRM:
            row.body = b"\x82\x02\x01\x03\x05"
        case RequestType.RAFT:
            row.body = b"\x81\x00\x02"
    return encode_row(row)


blocks = st.lists(rows(), max_size=12).map(b"".join)


def key_of(row: Row) -> Any:
    _, request = decode_row(row)
    return request.key[0] if request.key else unpack(request.tuple)[1]


def is_wanted(row: Row, low: int | None, high: int | None) -> bool:
    if row.lsn <= SINCE[row.replica_id] or row.type not in DML_TYPES or not row.body:
        return False
    space_id, _ = decode_row(row)
    if space_id != GOODS:
        return space_id in (SPACE_ID, INDEX_ID, TRUNCATE_ID)
    key = key_of(row)
    return not isinstance(key, int) or ((low is None or key >= low) and (high is None or key <= high))


@settings(max_examples=150, deadline=None)
@given(blocks, st.none() | st.integers(0, 20), st.none() | st.integers(10, 40))
def test_the_rows_of_a_share_are_among_the_selected_ones(block: bytes, low: int | None, high: int | None) -> None:
    from box.spark.compiled_log import RowSelector

    selected = decode_rows(RowSelector(GOODS, SINCE, 1, Kind.INTEGER, low, high).select(block))
    everything = decode_rows(block)
    wanted = [row for row in everything if is_wanted(row, low, high)]
    assert [row for row in selected if is_wanted(row, low, high)] == wanted
    assert all(row in everything for row in selected)


@settings(max_examples=100, deadline=None)
@given(blocks)
def test_only_rows_of_the_space_are_selected(block: bytes) -> None:
    from box.spark.compiled_log import RowSelector

    selected = decode_rows(RowSelector(GOODS, SINCE, 0, None, None, None).select(block))
    assert selected == [row for row in decode_rows(block) if is_wanted(row, None, None)]


@settings(max_examples=150, deadline=None)
@given(blocks)
def test_a_summary_says_where_the_block_leads(block: bytes) -> None:
    from box.spark.compiled_log import summarize

    later = [row for row in decode_rows(block) if row.lsn > SINCE[row.replica_id]]
    summary = summarize(block, SINCE)
    is_special = any(row.flags or row.type not in DML_TYPES or is_schema(row) for row in later)
    assert (summary is None) == is_special
    if summary is not None:
        assert summary.lsns == {
            replica: max(row.lsn for row in later if row.replica_id == replica)
            for replica in {row.replica_id for row in later}
        }
        assert summary.time == max((row.tm for row in later), default=0.0)


def is_schema(row: Row) -> bool:
    return bool(row.body) and decode_row(row)[0] in (SPACE_ID, INDEX_ID, TRUNCATE_ID)


@settings(max_examples=200, deadline=None)
@given(blocks.filter(bool), st.data())
def test_damaged_blocks_are_left_to_the_decoder_in_python(block: bytes, data: st.DataObject) -> None:
    """Where that decoder has no error the selection is right; where it has one nothing is read outside the block."""
    from box.spark.compiled_log import RowSelector, summarize

    damaged = bytearray(block)
    for _ in range(data.draw(st.integers(1, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(1, len(damaged)))]
    selected = RowSelector(GOODS, SINCE, 1, Kind.INTEGER, 5, 9).select(bytes(damaged))
    summarize(bytes(damaged), SINCE)
    try:
        everything = decode_rows(bytes(damaged))
        wanted = [row for row in everything if is_wanted(row, 5, 9)]
    except (XlogError, BoxError, IndexError):
        return
    assert [row for row in decode_rows(selected) if is_wanted(row, 5, 9)] == wanted
