"""Runs of plain transactions have the rows that the log has, and damage after them is found where it is."""

from __future__ import annotations

import asyncio

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from box.journal import MemoryStorage
from box.journal.directory import LogDirectory, LogKind
from box.journal.plain_runs import PlainRun, plain_runs
from box.journal.reader import LogReader
from box.journal.rows import RowEncoder, decode_rows
from box.journal.xlog import FIXHEADER_SIZE, ROW_MARKER, ZSTD_MARKER, checksum, fixheader
from box.journal.xlog_errors import XlogError
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.entry import JournalEntry
from box.wire.row import Row
from box.wire.vclock import VClock

from .helpers import RecordingLog, key_of, recover, replace_row, running_journal, write

NOW = 1795222844.25
PLAIN = (RequestType.INSERT, RequestType.REPLACE, RequestType.UPDATE, RequestType.DELETE, RequestType.UPSERT)
OTHERS = (RequestType.NOP, RequestType.CONFIRM)

rows_of_transactions = st.tuples(
    st.sampled_from(PLAIN * 3 + OTHERS),
    st.sampled_from([0] * 8 + [2, 3]),  # the origin, 0: this instance
    st.sampled_from([False] * 9 + [True]),  # of a local space
    st.sampled_from([0] * 9 + [6]),  # flags
)
transactions = st.lists(st.lists(rows_of_transactions, min_size=1, max_size=4), max_size=12)
starts = st.sampled_from([0, 100, 250, 65530, 2**32 - 5, 2**40])


def encoded(specs: list[list[tuple[int, int, bool, int]]], start: int) -> bytes:
    """Encode transactions as an instance with the id 5 writes them."""
    clock = VClock({i: start for i in (2, 3, 5) if start})
    encoder, reached = RowEncoder(), dict(clock)
    encoder.instance_id = 5
    entries = []
    for number, transaction in enumerate(specs):
        rows = []
        for kind, origin, is_local, flags in transaction:
            body = b"" if kind == RequestType.NOP else msgpack.packb({0x10: 512, 0x21: [number, "x"]})
            row = Row(kind, origin, body=body, flags=flags, group_id=GROUP_LOCAL if is_local else 0)
            if origin:
                row.lsn = row.tsn = reached[origin] = reached.get(origin, 0) + 1 + number % 3
            rows.append(row)
        entries.append(JournalEntry(rows, lambda _: None))
    return b"".join(encoder.encode(entries, clock, NOW))


def rows_of(parts: list[PlainRun | list[Row]]) -> list[Row]:
    return [row for part in parts for row in (part if isinstance(part, list) else part.rows())]


@given(transactions, starts)
@example([[(3, 0, False, 0)] * 300], 0)
@example([[(3, 0, False, 0)] * 3] * 2, 0)
def test_the_parts_have_the_rows_of_the_block(specs: list[list[tuple[int, int, bool, int]]], start: int) -> None:
    """Runs and lists together have the rows of the block in its order."""
    block = encoded(specs, start)
    assert rows_of(plain_runs(block)) == decode_rows(block)


@given(transactions, starts)
def test_a_run_has_whole_transactions(specs: list[list[tuple[int, int, bool, int]]], start: int) -> None:
    """A run ends with the end of a transaction, and its methods agree about where transactions begin and end."""
    for part in plain_runs(encoded(specs, start)):
        if isinstance(part, list):
            assert (
                not part[-1].is_commit
                or part[-1].type in OTHERS
                or any(row.flags or row.group_id or row.type in OTHERS or row.replica_id for row in part)
            )
            continue
        assert part.ends[-1] == len(part)
        first = 0
        for transaction, end in zip(part.transactions(), part.ends, strict=True):
            assert transaction == part.transaction(first) == part.rows()[first:end]
            assert [row.is_commit for row in transaction] == [False] * (end - first - 1) + [True]
            assert {part.end_of(number) for number in range(first, end)} == {end}
            assert {part.end_of_last(count) for count in range(first, end)} == {first}
            first = end
        assert part.end_of_last(len(part)) == first


def test_usual_transactions_are_runs() -> None:
    """Single rows and long transactions of one instance make one run, from the first lsn on."""
    parts = plain_runs(encoded([[(3, 0, False, 0)], [(2, 0, False, 0)] * 200, [(9, 0, False, 0)]], 0))
    assert len(parts) == 1
    assert isinstance(parts[0], PlainRun)
    assert parts[0].ends == [1, 201, 202]
    assert parts[0].tm == NOW


def test_a_malformed_row() -> None:
    """A block that is cut anywhere has the same rows, or the same error, as rows decoded one by one."""
    block = encoded([[(3, 0, False, 0)], [(3, 0, False, 0)] * 2], 300)
    outcomes = []
    for size in range(1, len(block)):
        outcome: list[list[Row] | str] = []
        for decode in (decode_rows, lambda part: rows_of(plain_runs(part))):
            try:
                outcome.append(decode(block[:size]))
            except XlogError as error:
                outcome.append(error.message)
        assert outcome[0] == outcome[1]
        outcomes.append(outcome[0])
    assert outcomes.count("can't parse row") > len(block) // 2


def spoiled(place: int) -> MemoryStorage:
    """Write ten transactions in blocks of their own, and make the body of one a malformed row with a good checksum."""
    storage = MemoryStorage()

    async def scenario() -> None:
        async with running_journal(storage) as journal:
            for key in range(10):
                await write(journal, replace_row(key))

    asyncio.run(scenario())
    file = f"./{0:020d}.xlog"
    data = storage.open(file).read(0, 1 << 20)
    pos = -1
    for _ in range(place + 1):
        pos = data.find(ROW_MARKER, pos + 1)
    length = data[pos + 4]
    rows = b"\xc1" * length  # MessagePack never uses the byte c1
    block = fixheader(ROW_MARKER, length, checksum(rows)) + rows
    storage.remove(file)
    storage.create(file).write(data[:pos] + block + data[pos + len(block) :])
    return storage


@pytest.mark.parametrize("place", [0, 1, 7])
def test_rows_before_a_malformed_one_count(place: int) -> None:
    """Small blocks are read together; still everything before a malformed row is read, and then its error is raised."""
    for is_run in (False, True):
        reader = LogReader(LogDirectory(spoiled(place), ".", LogKind.XLOG), VClock())
        read = reader.next_parts if is_run else reader.next_rows
        if place:
            assert [key_of(row) for row in (rows_of(read()) if is_run else read())] == list(range(place))  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(XlogError, match="can't parse row"):
                read()


@pytest.mark.parametrize("place", [0, 1, 7])
def test_force_recovery_leaves_out_the_block_of_a_malformed_row(place: int) -> None:
    """With force_recovery only the block with the malformed row is left out, and the log tells it."""
    log = RecordingLog()
    directory = LogDirectory(spoiled(place), ".", LogKind.XLOG, force_recovery=True, log=log)
    reader = LogReader(directory, VClock(), log=log)
    found: list[Row] = []
    while (parts := reader.next_parts()) is not None:
        found += rows_of(parts)
    assert [key_of(row) for row in found] == [key for key in range(10) if key != place]
    assert "E> can't decode row: can't parse row" in log.lines


def test_recovery_from_the_middle_of_a_run() -> None:
    """Rows up to the vclock are left out, although they are in one block with later ones."""
    storage = MemoryStorage()

    async def scenario() -> None:
        async with running_journal(storage) as journal:
            for key in range(1, 301):
                await write(journal, replace_row(key))

    asyncio.run(scenario())
    assert recover(storage, VClock({1: 120})) == (list(range(121, 301)), VClock({1: 300}))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 200, 255, 256, 65535, 65536])
@pytest.mark.parametrize("crc", [0, 0x7F, 0xFFFF, 0x10000, 0xFFFFFFFF])
@pytest.mark.parametrize("marker", [ROW_MARKER, ZSTD_MARKER])
def test_usual_fixheaders_have_the_general_layout(length: int, crc: int, marker: bytes) -> None:
    """The numbers are in their shortest forms, and a string of zero bytes fills the rest."""
    numbers = marker + msgpack.packb(length) + b"\x00" + msgpack.packb(crc)
    free = FIXHEADER_SIZE - len(numbers)
    assert fixheader(marker, length, crc) == numbers + bytes([0xA0 | (free - 1)]) + bytes(free - 1)
