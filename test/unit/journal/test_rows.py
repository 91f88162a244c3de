"""Rows in blocks: assignment of LSNs, encoding and decoding."""

from __future__ import annotations

from itertools import pairwise

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.journal.rows import (
    BrokenLsn,
    RowEncoder,
    assign_lsn,
    decode_rows,
    decode_tuples,
    decode_tuples_in_steps,
    insert_body_prefix,
)
from box.journal.xlog import BLOCK_SIZE
from box.journal.xlog_errors import XlogError
from box.txn.fast_path import FastWrite
from box.wire.change import REPLACE
from box.wire.change_run import SYNCHRONOUS
from box.wire.constants import Flag
from box.wire.entry import JournalEntry
from box.wire.packet_run import rows_of
from box.wire.row import Row, decode_header, encode_row
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

from .helpers import key_of, replace_row

NOW = 1795222844.25


def encode(*transactions: list[Row], clock: VClock | None = None) -> list[bytes]:
    """Encode transactions of instance 1 as blocks."""
    encoder = RowEncoder()
    encoder.instance_id = 1
    entries = [JournalEntry(rows, lambda _: None) for rows in transactions]
    return encoder.encode(entries, VClock() if clock is None else clock, NOW)


def local(key: int) -> Row:
    return replace_row(key, group_id=1)


def places(rows: list[Row]) -> list[tuple[int, int, int, bool]]:
    return [(row.replica_id, row.lsn, row.tsn, row.is_commit) for row in rows]


def test_a_single_row_is_its_own_transaction() -> None:
    """A single row gets the next LSN, the same tsn, and the commit flag."""
    rows = [replace_row(1)]
    assign_lsn(rows, clock := VClock({1: 5, 2: 9}), 1)
    assert places(rows) == [(1, 6, 6, True)]
    assert clock == {1: 6, 2: 9}


def test_a_transaction_of_several_rows() -> None:
    """In a transaction of several rows all have the LSN of the first as tsn, and the last one has the commit flag."""
    rows = [replace_row(1), replace_row(2), replace_row(3)]
    assign_lsn(rows, VClock(), 1)
    assert places(rows) == [(1, 1, 1, False), (1, 2, 1, False), (1, 3, 1, True)]


def test_rows_of_local_spaces_count_in_component_zero() -> None:
    """Rows of local spaces count in vclock component 0; the tsn is the LSN of the first replicated row, wherever that
    is.
    """
    rows = [local(1), replace_row(2), local(3), replace_row(4)]
    assign_lsn(rows, clock := VClock({0: 4, 1: 12}), 1)
    assert places(rows) == [(0, 5, 13, False), (1, 13, 13, False), (0, 6, 13, False), (1, 14, 13, True)]
    assert clock == {0: 6, 1: 14}


def test_only_local_rows() -> None:
    """In a transaction of local rows alone, the first one's LSN is the tsn."""
    rows = [local(1), local(2)]
    assign_lsn(rows, VClock({0: 2, 1: 12}), 1)
    assert places(rows) == [(0, 3, 3, False), (0, 4, 3, True)]


def test_foreign_rows_keep_their_place() -> None:
    """A row of another instance advances that instance's component of the vclock."""
    rows = [replace_row(1, replica_id=2, lsn=7, tsn=7, is_commit=False), replace_row(2, replica_id=2, lsn=8, tsn=7)]
    assign_lsn(rows, clock := VClock({1: 3, 2: 6}), 1)
    assert places(rows) == [(2, 7, 7, False), (2, 8, 7, True)]
    assert clock == {1: 3, 2: 8}


def test_a_foreign_row_that_does_not_advance_is_broken() -> None:
    """A row of another instance whose LSN does not advance is an error: it would make the file unreadable."""
    with pytest.raises(BrokenLsn, match="replica id: 2, confirmed lsn: 7, new lsn 7"):
        assign_lsn([replace_row(1, replica_id=2, lsn=7)], VClock({2: 7}), 1)


@pytest.mark.parametrize("lsn", [1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**40])
def test_encoding_is_that_of_the_row_codec(lsn: int) -> None:
    """The fast and the general encoder write the same bytes as `encode_row`."""
    row = replace_row(5)
    [block] = encode([row], clock=VClock({1: lsn - 1}))
    assert block == encode_row(row)
    assert decode_header(block)[0].lsn == lsn
    assert decode_rows(block) == [row]


@pytest.mark.parametrize("lsn", [1, 200, 250, 65000, 65530, 2**32 - 66010, 2**32 - 10])
def test_a_large_transaction_is_encoded_as_its_rows(lsn: int) -> None:
    """A large transaction is encoded as its single rows are, for distances to the first row of every width, and with
    flags.
    """
    rows = [replace_row(number) for number in range(66000)]
    rows[7].flags = rows[-1].flags = 6
    blocks = encode(rows, clock=(clock := VClock({1: lsn - 1})))
    assert clock == {1: lsn + 65999}
    assert places(rows)[:2] == [(1, lsn, lsn, False), (1, lsn + 1, lsn, False)]
    assert places(rows)[-1] == (1, lsn + 65999, lsn, True)
    assert {row.tm for row in rows} == {NOW}
    assert b"".join(blocks) == b"".join(map(encode_row, rows))


def test_the_pieces_of_a_large_transaction_are_joined_some_at_a_time() -> None:
    """The bytes of a large transaction are joined in several calls, so that other threads get the interpreter in
    between.

    Rows of local spaces are in runs of their own.
    """
    rows = [local(number) if number in (5, 2000, 2001) else replace_row(number) for number in range(20_000)]
    encoder = RowEncoder()
    encoder.instance_id, encoder.makes_packets = 1, True
    [block] = encoder.encode([JournalEntry(rows, lambda _: None)], VClock({1: 65000}), NOW)
    assert block == b"".join(map(encode_row, rows))
    assert max(len(part) for part in encoder._packets._parts) < 200_000
    assert len(encoder._packets._parts) < 100
    runs = encoder.take_packets()
    assert rows_of(runs) == rows
    assert [run.is_local for run in runs] == [False, True, False, True, False]
    assert encoder.take_packets() == []
    encoder.encode([JournalEntry(few := [replace_row(1), replace_row(2)], lambda _: None)], VClock({1: 65000}), NOW)
    assert rows_of(encoder.take_packets()) == few


def test_a_local_row_before_the_first_replicated_one() -> None:
    """A local row before the first replicated one has a negative distance to the tsn, which wraps at 2^64 as in
    Tarantool.
    """
    rows = [local(1), replace_row(2)]
    [block] = encode(rows, clock=VClock({0: 4, 1: 12}))
    assert b"\x08\xcf" + (2**64 - 8).to_bytes(8) in block
    assert places(decode_rows(block)) == [(0, 5, 13, False), (1, 13, 13, True)]


def test_sync_is_not_written() -> None:
    """The request's sync is not written to a file."""
    [block] = encode([replace_row(1, replica_id=2, lsn=3, sync=77)])
    assert decode_rows(block)[0].sync == 0


def test_flags_and_nop_survive() -> None:
    """A NOP has no body, and flags of synchronous transactions stay on the last row."""
    [block] = encode([replace_row(1), Row(12), replace_row(3, flags=6)])
    rows = decode_rows(block)
    assert [row.type for row in rows] == [3, 12, 3]
    assert rows[1].body == b""
    assert (rows[2].flags, rows[2].wait_sync, rows[2].wait_ack) == (6, True, True)
    assert all(row.tm == NOW for row in rows)


def test_blocks_are_cut_between_transactions() -> None:
    """A transaction is never split between blocks, which may exceed the target size."""
    filler = "f" * (BLOCK_SIZE // 4)
    transactions = [[replace_row(3 * n + i, filler=filler) for i in range(3)] for n in range(4)]
    blocks = encode(*transactions)
    assert [[key_of(row) for row in decode_rows(block)] for block in blocks] == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10, 11],
    ]


@pytest.mark.parametrize("block", [b"\xc1", b"\x81\x00", b"\x90", b"\x81\x00\x03\x82\x10", b"\x81\x00\xa1x\x80"])
def test_a_block_that_is_not_rows(block: bytes) -> None:
    """A block with a right checksum whose content is no rows is an error."""
    with pytest.raises(XlogError, match="can't parse row"):
        decode_rows(block)


@given(
    st.lists(
        st.tuples(st.sampled_from([280, 512, 513, 2**31]), st.lists(st.integers(), max_size=3)), min_size=1, max_size=30
    )
)
def test_tuples_of_a_snapshot_block(spaces: list[tuple[int, list[int]]]) -> None:
    """Tuples of a snapshot's block come as runs of one space, in the order of the file."""
    clamped = [(space, [v % 2**63 for v in values]) for space, values in spaces]
    block = b"".join(
        encode_row(Row(2, lsn=n, tm=NOW, body=insert_body_prefix(space) + msgpack.packb(values)))
        for n, (space, values) in enumerate(clamped)
    )
    runs, others = decode_tuples(block)
    assert [(run.space_id, msgpack.unpackb(raw)) for run in runs for raw in run.tuples] == clamped
    *steps, last = decode_tuples_in_steps(block, 4)
    assert steps == [None] * ((len(clamped) - 1) // 4)
    assert last == (runs, others)
    assert all(a.space_id != b.space_id for a, b in pairwise(runs))
    assert others == []


def test_a_snapshot_block_of_another_writer() -> None:
    """A snapshot's block of another writer is read: short space ids, keys in another order, rows that
    are not tuples.
    """
    raft = Row(30, lsn=3, tm=NOW, body=msgpack.packb({0: 1}))
    block = (
        encode_row(Row(2, lsn=1, tm=NOW, body=b"\x82\x10\xcd\x02\x00\x21\x91\x01"))
        + encode_row(Row(2, lsn=2, tm=NOW, body=b"\x82\x21\x91\x02\x10\xcd\x02\x00"))
        + encode_row(raft)
    )
    runs, others = decode_tuples(block)
    assert runs == [TupleRun(512, [b"\x91\x01"]), TupleRun(512, [b"\x91\x02"])]
    assert [(row.type, row.body) for row in others] == [(30, raft.body)]


@pytest.mark.parametrize("before", [0, 0xFE, 0xFFFE, 0xFFFFFFFE])
@pytest.mark.parametrize("flags", [0, SYNCHRONOUS, int(Flag.WAIT_SYNC)])
@pytest.mark.parametrize("is_asked", [False, True])
def test_an_entry_that_is_its_own_row(before: int, flags: int, is_asked: bool) -> None:
    """A row that is a journal entry itself is written and sent as an entry with that row; its LSN is known then."""
    found = []
    bodies = [replace_row(key).body for key in range(4)]
    own = [FastWrite(REPLACE, body, None, None, None, None, None) for body in bodies]  # type: ignore[arg-type]
    for entry in own:
        entry.flags = flags
    others = [JournalEntry([replace_row(key, flags=flags)], lambda _: None) for key in range(4)]
    if is_asked:
        assert [entry.rows[0].body for entry in own] == bodies
    for entries in (own, others):
        encoder = RowEncoder()
        encoder.instance_id, encoder.makes_packets = 1, True
        found.append((encoder.encode(entries, VClock({1: before}), NOW), encoder.take_packets()))
    assert found[0] == found[1]
    assert [entry.lsn_in_log for entry in own] == [before + 1, before + 2, before + 3, before + 4]
    assert [(entry.rows[0].lsn, entry.rows[0].tsn) for entry in own] == [(entry.lsn_in_log,) * 2 for entry in own]


@pytest.mark.parametrize("before", [0, 0xFE, 0xFFFE, 0xFFFFFFFE])
@pytest.mark.parametrize("flags", [0, SYNCHRONOUS])
@pytest.mark.parametrize("makes_packets", [False, True])
def test_a_row_alone_in_its_batch_has_the_same_bytes(before: int, flags: int, makes_packets: bool) -> None:
    """Batches of one entry each are, one after the other, what one batch of all entries is."""
    found = []
    for sizes in ([4], [1, 1, 1, 1]):
        encoder, clock, blocks = RowEncoder(), VClock({1: before}), []
        encoder.instance_id, encoder.makes_packets = 1, makes_packets
        own = [FastWrite(REPLACE, replace_row(key).body, None, None, None, None, None) for key in range(4)]  # type: ignore[arg-type]
        for entry in own:
            entry.flags = flags
        left = iter(own)
        for size in sizes:
            blocks += encoder.encode([next(left) for _ in range(size)], clock, NOW)
        found.append((b"".join(blocks), clock, [entry.lsn_in_log for entry in own]))
    assert found[0] == found[1]


def test_a_row_alone_after_the_last_follower_has_no_packets() -> None:
    """Whether a batch is framed for followers is decided anew for each, also for one of a single row."""
    encoder, clock = RowEncoder(), VClock({1: 1000})
    encoder.instance_id, encoder.makes_packets = 1, True
    for key, makes_packets in enumerate((True, False, True)):
        encoder.makes_packets = makes_packets
        entry = FastWrite(REPLACE, replace_row(key).body, None, None, None, None, None)  # type: ignore[arg-type]
        encoder.encode([entry], clock, NOW)
        assert encoder.made_packets is makes_packets
