"""Compiled code finds the rows of a log that the decoder in Python finds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID
from box.spark.primary_keys import KeyKind, PlainParts
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
    """Generate a row of any type, mostly a usual one."""
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


Change = tuple[bytes | None, int, bytes]


def key_of(row: Row, number: int, part: int = 0) -> Any:
    """Return the field of a tuple, or the part of a key."""
    _, request = decode_row(row)
    return request.key[part] if request.key else unpack(request.tuple)[number]


def key_bytes(row: Row, parts: PlainParts) -> bytes:
    values = [key_of(row, field, part) for part, (field, _) in enumerate(parts)]
    return b"".join(bytes([value >= 0]) + value.to_bytes(8, "big", signed=value < 0) for value in values)


def is_wanted(row: Row, left_out: Collection[tuple[int, int]] = ()) -> bool:
    if row.lsn <= SINCE[row.replica_id] or row.type not in DML_TYPES or not row.body:
        return False
    if (row.replica_id, row.lsn) in left_out:
        return False
    return decode_row(row)[0] in (GOODS, SPACE_ID, INDEX_ID, TRUNCATE_ID)


parts_of_keys = st.sampled_from([((1, KeyKind.INTEGER),), ((1, KeyKind.INTEGER), (0, KeyKind.INTEGER)), None])


def changes_in(block: bytes, parts: PlainParts | None, left_out: Collection[tuple[int, int]] = ()) -> list[Change]:
    """Return the changes that the compiled finder finds; those that it leaves to Python are decoded there."""
    from box.spark.compiled_log import ChangeFinder

    found = ChangeFinder(GOODS, parts, SINCE, left_out).find(block)
    if isinstance(found, bytes):
        return [(None, row.type, row.body) for row in decode_rows(found) if is_wanted(row, left_out)]
    assert parts is not None
    return list(zip(*(column.to_pylist() for column in found), strict=True))


def expected_changes(block: bytes, left_out: Collection[tuple[int, int]] = ()) -> list[Row]:
    return [row for row in decode_rows(block) if is_wanted(row, left_out)]


@settings(max_examples=60, deadline=None)
@given(blocks, parts_of_keys, st.sets(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=2))
def test_the_changes_of_a_space_are_found(
    block: bytes, parts: PlainParts | None, left_out: set[tuple[int, int]]
) -> None:
    wanted = expected_changes(block, left_out)
    found = changes_in(block, parts, left_out)
    assert [(kind, body) for _, kind, body in found] == [(row.type, row.body) for row in wanted]
    for (key, _, _), row in zip(found, wanted, strict=True):
        if key is not None:
            assert parts is not None
            assert key == key_bytes(row, parts)


@settings(max_examples=40, deadline=None)
@given(blocks)
def test_usual_changes_are_found_without_python(block: bytes) -> None:
    from box.spark.compiled_log import ChangeFinder

    parts = ((1, KeyKind.INTEGER),)
    wanted = expected_changes(block)
    is_usual = all(
        not is_schema(row) and row.type != RequestType.NOP and isinstance(key_of(row, 1), int) for row in wanted
    )
    assert isinstance(ChangeFinder(GOODS, parts, SINCE, ()).find(block), bytes) != is_usual


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=80, deadline=None)
@given(blocks.filter(bool), st.data())
def test_damaged_blocks_are_left_to_the_decoder_in_python(block: bytes, data: st.DataObject) -> None:
    """In a damaged block the changes are right where the Python decoder has no error, and no read leaves the block
    otherwise.
    """
    from box.spark.compiled_log import ChangeFinder, summarize

    damaged = bytearray(block)
    for _ in range(data.draw(st.integers(1, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(1, len(damaged)))]
    rows = bytes(damaged)
    parts = ((1, KeyKind.INTEGER),)
    ChangeFinder(GOODS, parts, SINCE, ()).find(rows)
    summarize(rows, SINCE)
    try:
        wanted = [(row.type, row.body) for row in expected_changes(rows)]
    except (XlogError, BoxError, IndexError):
        return
    assert [(kind, body) for _, kind, body in changes_in(rows, parts)] == wanted
