"""Packets that the log's writer prepares for followers equal the rows decoded from the log and encoded again."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.journal import MemoryStorage, XlogGapError
from box.journal import follow as follow_module
from box.journal.block_index import BlockIndex
from box.journal.directory import LogDirectory, LogKind
from box.journal.packet_runs import packet_runs
from box.journal.reader import LogReader
from box.journal.rows import RowEncoder, decode_rows
from box.journal.xlog_errors import XlogError
from box.net.framing import RowBuffer, StreamItem
from box.replication.relay import RowFilter
from box.wire.change_run import ChangeRun
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.entry import JournalEntry, RunEntry
from box.wire.packet_run import PacketRun, rows_of
from box.wire.row import Row, encode_packet
from box.wire.vclock import VClock
from test.support import until

from .helpers import key_of, replace_row, running_journal, write
from .test_follow import take

NOW = 1795222844.25
TYPES = (RequestType.REPLACE, RequestType.DELETE, RequestType.NOP, RequestType.CONFIRM, RequestType.UPSERT)

row_specs = st.tuples(
    st.sampled_from(TYPES),
    st.sampled_from([0, 0, 0, 1, 2, 3]),  # the origin, 0: this instance
    st.booleans(),  # of a local space
    st.sampled_from([0, 0, 0, 2, 6]),  # flags
)
transactions = st.lists(st.lists(row_specs, min_size=1, max_size=4), max_size=12)
starts = st.sampled_from([0, 120, 250, 65530, 2**32 - 5, 2**40])


def make_rows(specs: list[list[tuple[Any, ...]]], clock: VClock) -> list[list[Row]]:
    """Make transactions as the journal gets them; rows of other instances continue from `clock`."""
    reached = dict(clock)
    result = []
    for number, transaction in enumerate(specs):
        rows = []
        for kind, origin, is_local, flags in transaction:
            body = b"" if kind == RequestType.NOP else msgpack.packb({0x10: 512, 0x21: [number, "x"]})
            row = Row(kind, origin, body=body, flags=flags, group_id=GROUP_LOCAL if is_local else 0)
            if origin:
                row.lsn = row.tsn = reached[origin] = reached.get(origin, 0) + 1 + number % 3
            rows.append(row)
        result.append(rows)
    return result


def encoded(specs: list[list[tuple[Any, ...]]], start: int) -> tuple[bytes, list[PacketRun]]:
    """Return the rows as they are in the log, and their packets, for an instance with the id 5."""
    clock = VClock({i: start for i in (1, 2, 3, 5) if start})
    encoder = RowEncoder()
    encoder.instance_id = 5
    encoder.makes_packets = True
    entries = [JournalEntry(rows, lambda _: None) for rows in make_rows(specs, clock)]
    blocks = encoder.encode(entries, clock, NOW)
    return b"".join(blocks), encoder.take_packets()


@given(transactions, starts)
def test_the_writers_packets_are_the_rows_of_the_log(specs: list[list[tuple[Any, ...]]], start: int) -> None:
    """Packets from the writer, and those made from a file, have the rows of the log."""
    block, runs = encoded(specs, start)
    rows = decode_rows(block)
    assert rows_of(runs) == rows
    assert rows_of(packet_runs(block)) == rows
    assert [run[:4] for run in packet_runs(block)] == [run[:4] for run in runs]


@given(transactions, starts, st.integers(0, 3), st.integers(0, 10), st.sets(st.integers(1, 5)), st.sampled_from([0, 7]))
def test_a_filter_of_packets_picks_what_a_filter_of_rows_does(
    specs: list[list[tuple[Any, ...]]], start: int, replica_id: int, known: int, ids: set[int], sync: int
) -> None:
    """A filter on packets picks the same bytes as a filter on rows."""
    block, runs = encoded(specs, start)
    at_subscribe = VClock({replica_id: start + known}) if start + known else VClock()
    row_filter = RowFilter(replica_id, at_subscribe, frozenset(ids), sync)
    assert row_filter.packets(runs) == b"".join(map(encode_packet, row_filter.select(decode_rows(block))))


@given(transactions, starts, st.integers(0, 40))
def test_a_part_of_a_run(specs: list[list[tuple[Any, ...]]], start: int, distance: int) -> None:
    """A run split at an LSN has all its rows in the two parts."""
    for run in encoded(specs, start)[1]:
        lsn = run.first - 1 + distance
        before, behind = run.up_to(lsn), run.after(lsn)
        parts = [part for part in (before, behind) if part is not None]
        assert b"".join(part.data for part in parts) == run.data
        for part in parts:
            lsns = [row.lsn for row in part.rows()]
            assert (part.first, part.last) == (lsns[0], lsns[-1])
            assert all(lsn_ <= lsn for lsn_ in lsns) if part is before else all(lsn_ > lsn for lsn_ in lsns)


stream_rows = st.tuples(
    st.sampled_from([2, 3, 4, 5, 9, 12, 40]), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0, 0, 6, 6, 2])
)


@given(st.lists(stream_rows), starts)
def test_a_stream_of_rows_comes_as_runs(specs: list[tuple[int, int, int, int]], start: int) -> None:
    """A stream of rows in pieces of any size comes as runs with the same rows, which go to the log unchanged."""
    lsns = {1: start, 2: start, 3: start}
    rows: list[Row] = []
    for kind, origin, step, flags in specs:
        lsns[origin] += step
        body = b"" if kind == RequestType.NOP else msgpack.packb({0x10: 512, 0x21: [len(rows)]})
        rows.append(Row(kind, origin, lsns[origin], NOW, tsn=lsns[origin], flags=flags, body=body))
    stream = b"".join(map(encode_packet, rows))
    for piece in (len(stream) or 1, 100, 7, 1):
        buffer = RowBuffer()
        items: list[StreamItem] = []
        for at in range(0, len(stream), piece):
            buffer.add(stream[at : at + piece])
            taken: deque[StreamItem] = deque()
            buffer.take_items(taken)
            items += taken
        found = [row for item in items for row in (item.rows() if isinstance(item, ChangeRun) else [item])]
        assert found == rows
        as_entries = [
            RunEntry(item, lambda _: None) if isinstance(item, ChangeRun) else JournalEntry([item], lambda _: None)
            for item in items
        ]
        assert _written(as_entries) == _written([JournalEntry([row], lambda _: None) for row in rows])


def _written(entries: list[JournalEntry]) -> tuple[list[Row], list[Row], VClock]:
    encoder = RowEncoder()
    encoder.makes_packets = True
    clock = VClock()
    blocks = encoder.encode(entries, clock, NOW)
    return decode_rows(b"".join(blocks)), rows_of(encoder.take_packets()), clock


@given(transactions, st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_broken_blocks(specs: list[list[tuple[Any, ...]]], at: int, damage: bytes) -> None:
    """Random bytes are rows or raise XlogError."""
    block, _ = encoded(specs, 65530)
    block = block[:at] + damage + block[at + len(damage) :]
    try:
        runs = packet_runs(block)
    except XlogError:
        return
    assert sum(len(run.data) for run in runs) >= len(block)


# --- places in files ---------------------------------------------------------------------------------------------


def test_a_reader_begins_near_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader begins near its first row, in a file that is being written and in an old one."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage) as journal:
            journal._writer.index = BlockIndex(step=1000)
            for key in range(1, 200):
                await write(journal, replace_row(key, filler="f" * 50))
            assert journal._writer.index.find(0, VClock({1: 10})) is not None
            monkeypatch.setattr(follow_module.Tail, "first_after", lambda *_: None)
            for start in (0, 1, 50, 198):
                follower = journal.follow(VClock({1: start} if start else {}))
                assert await take(follower, 199 - start) == list(range(start + 1, 200))
                follower.close()
        index = BlockIndex(step=1000)
        for _ in range(2):
            directory = LogDirectory(storage, ".", LogKind.XLOG)
            reader = LogReader(directory, VClock({1: 150}), index=index)
            monkeypatch.setattr("box.journal.reader._RUN_BYTES", 500)
            keys = []
            while (runs := reader.next_runs()) is not None:
                keys += [key_of(row) for row in rows_of(runs)]
            assert keys == list(range(151, 200))
        offset = index.find(0, VClock({1: 150}))
        assert offset is not None
        assert offset > 5000
        assert (index.find(0, VClock({1: 2})) or 0) < 1000

    asyncio.run(scenario())


def test_places_of_several_origins() -> None:
    """A place in a file serves only readers that have the rows of all origins before it."""
    index = BlockIndex(step=10)
    index.note(7, 100, VClock({1: 5}))
    index.note(7, 105, VClock({1: 6}))  # too close
    index.note(7, 120, VClock({0: 3, 1: 6, 2: 2}))
    index.note(7, 110, VClock({1: 7}))  # a second reader, behind
    assert index.find(7, VClock({1: 4})) is None
    assert index.find(7, VClock({1: 9})) == 100
    assert index.find(7, VClock({1: 9, 2: 2})) == 120
    assert index.find(8, VClock({1: 9, 2: 2})) is None
    index.forget_before(8)
    assert index.find(7, VClock({1: 9, 2: 2})) is None


def test_a_follower_that_comes_back_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that returns soon gets what was written meanwhile from memory, without a file."""

    async def scenario() -> None:
        async with running_journal() as journal:
            follower = journal.follow(VClock())
            await write(journal, replace_row(1))
            assert await take(follower, 1) == [1]
            follower.close()
            for key in range(2, 50):
                await write(journal, replace_row(key))
            monkeypatch.setattr(LogReader, "next_runs", None)
            for start in (1, 30, 48):
                follower = journal.follow(VClock({1: start}))
                assert await take(follower, 49 - start) == list(range(start + 1, 50))
                follower.close()
            monkeypatch.setattr(follow_module, "KEPT_ALONE", -1.0)
            await write(journal, replace_row(50))
            assert not journal._tail._batches
            assert not journal._writer.rows.makes_packets

    asyncio.run(scenario())


def test_rows_whose_file_was_removed_are_not_sent_from_memory() -> None:
    """A follower whose files were removed gets a gap, though memory still has the rows."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage, wal_max_size=150) as journal:
            follower = journal.follow(VClock())
            for key in range(1, 5):
                await write(journal, replace_row(key))
            follower.close()
            storage.remove(f"./{0:020d}.xlog")
            follower = journal.follow(VClock())
            with pytest.raises(XlogGapError):
                await anext(follower)
            follower.close()
            follower = journal.follow(VClock({1: 3}))
            assert await take(follower, 1) == [4]
            follower.close()

    asyncio.run(scenario())


def test_a_batch_that_was_written_before_anybody_followed() -> None:
    """A batch written while nobody followed has no packets, and a follower reads it from its file."""

    async def scenario() -> None:
        async with running_journal() as journal:
            await write(journal, replace_row(1))
            follower = journal.follow(VClock())
            assert await take(follower, 1) == [1]
            live = asyncio.create_task(take(follower, 2))
            await until(lambda: follower._reader is None)
            journal._writer.rows.makes_packets = False  # as if the writer had been at it when the follower came
            await write(journal, replace_row(2))
            journal._writer.rows.makes_packets = True
            await write(journal, replace_row(3))
            assert await live == [2, 3]
            follower.close()

    asyncio.run(scenario())


def test_a_follower_that_comes_while_a_batch_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was being written when the first follower came has no packets, and is read from its file."""
    encode = RowEncoder.encode

    async def scenario() -> None:
        async with running_journal(inline_limit=100) as journal:
            await write(journal, replace_row(1))
            followers = []

            def encode_and_follow(self: RowEncoder, *arguments: Any) -> list[bytes]:
                blocks = encode(self, *arguments)
                if not followers:
                    followers.append(journal.follow(VClock({1: 1})))
                return blocks

            monkeypatch.setattr(RowEncoder, "encode", encode_and_follow)
            await write(journal, replace_row(2), replace_row(3))
            await write(journal, replace_row(4))
            assert await asyncio.wait_for(take(followers[0], 3), 30) == [2, 3, 4]
            followers[0].close()

    asyncio.run(scenario())


class _GrowingLimit(VClock):
    """The vclock of a writer that announces more rows whenever a reader in another thread looks at origin 2."""

    def __getitem__(self, replica_id: int) -> int:
        if replica_id == 2:
            self.update({1: 3, 2: 1})
        return self.get(replica_id, 0)


def test_a_limit_that_grows_during_a_read_leaves_no_gap() -> None:
    """Rows that a reader cuts off at its limit are not overtaken by later rows of their origin."""

    async def scenario() -> None:
        storage = MemoryStorage()
        async with running_journal(storage) as journal:
            await write(journal, replace_row(1))
            await write(journal, replace_row(2))
            await write(journal, replace_row(3, replica_id=2, lsn=1))
            await write(journal, replace_row(4))
        directory = LogDirectory(storage, ".", LogKind.XLOG)
        reader = LogReader(directory, VClock(), limit=_GrowingLimit({1: 1}))
        assert [key_of(row) for row in rows_of(reader.next_runs() or [])] == [1]

    asyncio.run(scenario())
