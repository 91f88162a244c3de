"""Blocks of plain rows are split into runs that have the rows, bodies and values of the block."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from box.data.codec import _MARK, _MARK_VALUE
from box.journal.plain_runs import PlainRun, plain_runs
from box.journal.reader import parts_of
from box.journal.rows import RowEncoder, decode_rows
from box.journal.split_rows import split_block
from box.wire.constants import RequestType
from box.wire.entry import JournalEntry
from box.wire.row import Row
from box.wire.vclock import VClock

NOW = 1795222844.25
INSERT, REPLACE, UPDATE, DELETE, UPSERT = 2, 3, 4, 5, 9

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 40) | st.text(max_size=2), inner),
    max_leaves=5,
)
arrays = st.lists(values, max_size=4)
bases = st.sampled_from([{}, {0x15: 1}])
spaces = st.sampled_from([512, 513, 65535])


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, dict[int, Any]]:
    """Return the type and the body of a usual change."""
    kind = draw(st.sampled_from((INSERT, REPLACE, UPDATE, DELETE, UPSERT)))
    body: dict[int, Any] = {0x10: draw(spaces)}
    if kind in (INSERT, REPLACE):
        return kind, body | {0x21: draw(arrays)}
    if kind == DELETE:
        return kind, body | {0x20: draw(arrays)}
    body |= draw(bases)
    return kind, body | ({0x20: draw(arrays)} if kind == UPDATE else {0x28: draw(arrays)}) | {0x21: draw(arrays)}


usual = st.lists(st.lists(changes(), min_size=1, max_size=4), min_size=1, max_size=8)
starts = st.sampled_from([0, 100, 250, 65530, 2**32 - 5, 2**40])


def encoded(transactions: list[list[tuple[int, Any]]], start: int = 0) -> bytes:
    """Encode transactions as an instance with the id 5 writes them. A body is a map, or bytes."""
    encoder = RowEncoder()
    encoder.instance_id = 5
    entries = []
    for transaction in transactions:
        bodies = [(kind, body if isinstance(body, bytes) else msgpack.packb(body)) for kind, body in transaction]
        entries.append(JournalEntry([Row(kind, body=body) for kind, body in bodies], lambda _: None))
    return b"".join(encoder.encode(entries, VClock({5: start} if start else {}), NOW))


def rows_of(parts: list[PlainRun | list[Row]]) -> list[Row]:
    return [row for part in parts for row in (part if isinstance(part, list) else part.rows())]


@given(usual, starts)
@example([[(REPLACE, {0x10: 512, 0x21: [1]})] * 300], 65500)
@example([[(REPLACE, {0x10: 512, 0x21: [number]})] for number in range(300)], 65500)
@example([[(REPLACE, {0x10: 512, 0x21: [_MARK_VALUE]})]], 0)
def test_the_run_of_a_block_has_its_rows(transactions: list[list[tuple[int, Any]]], start: int) -> None:
    """Rows, ends and the time are those of the rows decoded one by one; a change of the lsn's size is no exception."""
    block = encoded(transactions, start)
    expected = decode_rows(block)
    assert rows_of(parts_of([block])) == expected
    run = split_block(block)
    if run is None:
        has_mark = _MARK in block  # what stands between tuples that are decoded together
        assert has_mark or any(start < border <= start + len(expected) for border in (128, 256, 65536, 2**32))
        return
    assert run.rows() == expected
    assert run.bodies(0, len(run)) == [row.body for row in expected]
    assert list(run.ends) == list(plain_runs(block)[0].ends)  # type: ignore[union-attr]
    assert run.tm == NOW


def test_values_are_those_of_the_bodies() -> None:
    """A row with one array has its value; one with two has both, with the key between them."""
    block = encoded(
        [
            [(REPLACE, {0x10: 512, 0x21: [1, "a"]})],
            [(DELETE, {0x10: 512, 0x20: [1]})],
            [(UPDATE, {0x10: 512, 0x15: 1, 0x20: [2], 0x21: [["=", 2, "b"]]})],
            [(UPSERT, {0x10: 512, 0x28: [["+", 1, 3]], 0x21: [4]})],
        ],
        300,
    )
    run = split_block(block)
    assert run is not None
    assert run.values == [[1, "a"], [1], [[2], 0x21, [["=", 2, "b"]]], [[["+", 1, 3]], 0x21, [4]]]
    assert [start[-1] for start in run.starts] == [0x21, 0x20, 0x20, 0x28]


def test_extensions_are_not_decoded() -> None:
    """Values with extensions are left to the code that knows what they are for, but their ends are checked."""
    run = split_block(encoded([[(REPLACE, {0x10: 512, 0x21: [1, msgpack.ExtType(2, b"u" * 16)]})]], 300))
    assert run is not None
    assert run.values is None


@pytest.mark.parametrize("count", [1, 3])
def test_a_header_inside_a_value_is_none(count: int) -> None:
    """A tuple that contains the bytes of rows does not become rows."""
    inner = encoded([[(REPLACE, {0x10: 512, 0x21: [1]})]], 300)
    block = encoded([[(REPLACE, {0x10: 512, 0x21: [7, inner.decode("latin-1").encode("utf-8"), inner]})]] * count, 300)
    assert split_block(block) is None
    assert rows_of(parts_of([block])) == decode_rows(block)


ODD = {
    "nop": (RequestType.NOP, b""),
    "confirm": (RequestType.CONFIRM, {0x02: 1, 0x03: 4}),
    "by a secondary index": (DELETE, {0x10: 512, 0x11: 1, 0x20: [1]}),
    "another order": (UPSERT, {0x10: 512, 0x21: [1], 0x28: []}),
    "one pair more": (DELETE, {0x10: 512, 0x20: [1], 0x21: [2]}),
    "one pair less": (UPDATE, {0x10: 512, 0x20: [1]}),
    "wrong type": (DELETE, {0x10: 512, 0x21: [1]}),
    "small id": (REPLACE, {0x10: 5, 0x21: [1]}),
    "large id": (REPLACE, {0x10: 70000, 0x21: [1]}),
    "large tuple": (REPLACE, {0x10: 512, 0x21: ["x" * 5000]}),
    "wide number of pairs": (REPLACE, b"\xde\x00\x02\x10\xcd\x02\x00\x21\x91\x01"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_row_among_usual_ones(name: str) -> None:
    """Such a row leaves the blocks around its own to the pattern, and all rows are those of the blocks."""
    usual = [encoded([[(REPLACE, {0x10: 512, 0x21: [number, "x" * 40]})] for number in range(30)], 300)] * 7
    odd = encoded([[(REPLACE, {0x10: 512, 0x21: [1]})], [ODD[name]]], 400)
    assert split_block(odd) is None
    blocks = [*usual[:3], odd, *usual[3:]]
    parts = parts_of(blocks)
    assert rows_of(parts) == decode_rows(b"".join(blocks))
    split = sum(len(part) for part in parts if isinstance(part, PlainRun) and part.starts)
    assert split >= 6 * 30


def test_damage_is_found() -> None:
    """A block that is cut anywhere is no run, so that the rows are decoded one by one and the error is theirs."""
    block = encoded([[(REPLACE, {0x10: 512, 0x21: [1, "a"]})], [(DELETE, {0x10: 512, 0x20: [1]})] * 2], 300)
    ends = {len(encoded([[(REPLACE, {0x10: 512, 0x21: [1, "a"]})]], 300)), len(block)}
    for size in range(1, len(block) + 1):
        assert (split_block(block[:size]) is not None) == (size in ends)
