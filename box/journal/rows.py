"""Rows in a log block, encoded and decoded many at a time, because batches and blocks hold thousands of them.

The layout of one row is `box.wire.row`'s. Differences in a log: `sync` and `schema_version` are not written, and rows
follow each other without lengths.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgpack

from box.journal.xlog import BLOCK_SIZE
from box.journal.xlog_errors import XlogError
from box.wire.change_run import SYNCHRONOUS, SYNCHRONOUS_TAIL, ChangeRun
from box.wire.constants import GROUP_LOCAL, Flag, Key, RequestType
from box.wire.entry import JournalEntry, OwnRow
from box.wire.first_bytes import FIXMAP, FLOAT64, UINT32
from box.wire.packet_run import PacketRun, RunBuilder
from box.wire.row import Row, encode_uint
from box.wire.skipping import DeepUnpacker, StackError, skip_one
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

_U16_HEADER: Final = struct.Struct(">6sBH10s").pack
_U32_HEADER: Final = struct.Struct(">6sBI10s").pack
_U16_HEAD_OF_PART: Final = struct.Struct(">6sBH10sB").pack
_U32_HEAD_OF_PART: Final = struct.Struct(">6sBI10sB").pack
"""The header of a row in the middle of a transaction, up to the key of its distance to the transaction's first row."""
_U16_WHOLE_HEADER: Final = struct.Struct(">6sBHBBd").pack
_U32_WHOLE_HEADER: Final = struct.Struct(">6sBIBBd").pack
"""The header of a row that is a transaction by itself, with the time as a number."""
_ROWS_A_PART: Final = 1024
"""The number of rows whose bytes are joined at once."""
_HEADER_SIZE: Final = 21
"""The size of a header with an lsn of four bytes. Others differ by two bytes, which does not matter for the size of
blocks."""
_TIMESTAMP: Final = struct.Struct(">BBd").pack
_FRAME: Final = struct.Struct(">BI").pack
_USUAL_LSNS: Final = range(0x100, 0x100000000)
"""The lsns that MessagePack encodes in two or four bytes."""
_WRAP: Final = 1 << 64
"""Lsns are unsigned in a header: a negative difference wraps around."""
# The keys of a header as bytes.
_TYPE: Final = bytes((Key.REQUEST_TYPE,))
_REPLICA_ID: Final = bytes((Key.REPLICA_ID,))
_GROUP_ID: Final = bytes((Key.GROUP_ID,))
_LSN: Final = bytes((Key.LSN,))
_TSN: Final = bytes((Key.TSN,))
_FLAGS: Final = bytes((Key.FLAGS,))
_COMMIT: Final = int(Flag.COMMIT)
_NOP: Final = int(RequestType.NOP)


class BrokenLsn(Exception):
    """Raised for a foreign row whose lsn does not grow; writing it would make the file unreadable."""


class RowEncoder:
    """Assigns lsns to local rows and encodes batches; belongs to one thread."""

    __slots__ = ("_heads", "_packets", "instance_id", "made_packets", "makes_packets")

    def __init__(self) -> None:
        self.instance_id = 0
        self.makes_packets = False
        """True if the journal has followers, so that rows are also framed for other instances; see
        `take_packets`. Another thread may change it at any moment."""
        self.made_packets = False
        """True if the last `encode` has framed its rows: the value of `makes_packets` when it began."""
        self._heads: dict[tuple[int, int, int], bytes] = {}
        self._packets = RunBuilder()

    def encode(self, entries: Sequence[JournalEntry], clock: VClock, now: float) -> list[bytes]:
        """Encode entries to blocks of about `BLOCK_SIZE` bytes, each ending with a whole entry; `clock` moves with the
        rows.

        Sets `replica_id`, `lsn`, `tsn` and `is_commit` of local rows, and `tm` of all rows.

        Raises:
            BrokenLsn: the lsn of a foreign row does not grow.
        """
        makes_packets = self.made_packets = self.makes_packets
        if len(entries) == 1 and not makes_packets and (block := self._encode_one(entries[0], clock, now)) is not None:
            return [block]
        blocks: list[bytes] = []
        parts: list[bytes] = []
        size = 0
        instance_id, heads = self.instance_id, self._heads
        # Literals in this loop and in those below, because names would be looked up for each row: key 4 is the time
        # and cb a double; cd and ce are the unsigned integers of two and four bytes, which begin at 0x100 and 0x10000.
        stamp = _TIMESTAMP(4, 0xCB, now)
        packets = self._packets
        own_parts = None
        if makes_packets:
            packets.finish()  # drops what a failed write has left
        kind = head_flags = -1
        head = b""
        for entry in entries:
            body, lsn, row = entry.body, clock[instance_id] + 1, None
            if body is not None:
                if TYPE_CHECKING:
                    assert isinstance(entry, OwnRow)
                row_type, flags = entry.kind, entry.flags
            elif len(rows := entry.rows) == 1 and not ((row := rows[0]).replica_id or row.group_id):
                row_type, flags, body = row.type, row.flags, row.body
            if body is None or (flags and flags != SYNCHRONOUS) or lsn not in _USUAL_LSNS:
                if entry.run is not None:
                    size += self._encode_run(entry.run, clock, stamp, parts)
                else:
                    size += self._encode_rows(entry.rows, clock, now, stamp, parts)
                own_parts = None
            else:
                # The usual entry, one local row of a replicated space: one call makes its header.
                clock[instance_id] = lsn
                if row is None:
                    if TYPE_CHECKING:
                        assert isinstance(entry, OwnRow)
                    entry.row_lsn = lsn
                else:
                    row.lsn = row.tsn = lsn
                    row.replica_id = instance_id
                    row.tm = now
                if row_type != kind or flags != head_flags:
                    kind, head_flags = row_type, flags
                    head = heads.get((kind, instance_id, flags)) or self._head(kind, instance_id, flags)
                header = _U16_HEADER(head, 0xCD, lsn, stamp) if lsn < 0x10000 else _U32_HEADER(head, 0xCE, lsn, stamp)
                if flags:
                    header += SYNCHRONOUS_TAIL
                parts += (header, body)
                size += _HEADER_SIZE + len(body)
                if makes_packets:
                    if own_parts is None:
                        own_parts = packets.begin(instance_id, False, lsn)
                    packets.last = lsn
                    own_parts += (_FRAME(0xCE, len(header) + len(body)), header, body)
            if size >= BLOCK_SIZE:
                blocks.append(b"".join(parts))
                parts.clear()
                size = 0
        if parts:
            blocks.append(b"".join(parts))
        return blocks

    def _encode_one(self, entry: JournalEntry, clock: VClock, now: float) -> bytes | None:
        """Encode an entry that is alone in its batch as `encode` does, without the lists that serve many.

        Returns None, having done nothing, unless it is the usual one: one local row. No other instance may want it.
        """
        body, instance_id = entry.body, self.instance_id
        lsn = clock[instance_id] + 1
        if body is None or not 0x100 <= lsn < 0x100000000:
            return None
        if TYPE_CHECKING:
            assert isinstance(entry, OwnRow)
        if entry.flags:
            return None
        clock[instance_id] = entry.row_lsn = lsn
        kind = entry.kind
        head = self._heads.get((kind, instance_id, 0)) or self._head(kind, instance_id, 0)
        # Literals as in `encode`: cd is uint 16, ce uint 32, key 4 the time, cb a double.
        if lsn < 0x10000:
            return _U16_WHOLE_HEADER(head, 0xCD, lsn, 4, 0xCB, now) + body
        return _U32_WHOLE_HEADER(head, 0xCE, lsn, 4, 0xCB, now) + body

    def _encode_rows(self, rows: list[Row], clock: VClock, now: float, stamp: bytes, parts: list[bytes]) -> int:
        """Encode one transaction on the general path. Returns the number of bytes."""
        assign_lsn(rows, clock, self.instance_id)
        if len(rows) <= _ROWS_A_PART:
            return self._encode_part(rows, now, stamp, parts)
        # Joined in portions, because no other thread gets the interpreter while a hundred thousand pieces are joined or
        # freed.
        size = 0
        for start in range(0, len(rows), _ROWS_A_PART):
            pieces: list[bytes] = []
            size += self._encode_part(rows[start : start + _ROWS_A_PART], now, stamp, pieces)
            parts.append(b"".join(pieces))
            self._packets.pack()
        return size

    def _encode_part(self, rows: list[Row], now: float, stamp: bytes, parts: list[bytes]) -> int:
        """Encode some rows of a transaction whose lsns are assigned. Returns the number of bytes."""
        size, packets, makes_packets = 0, self._packets, self.made_packets
        into: list[bytes] | None = None
        kind = origin = -1
        head = b""
        for row in rows:
            row.tm = now
            lsn, tsn, body = row.lsn, row.tsn, row.body
            if 0 < tsn <= lsn < 0x100000000 and lsn >= 0x100 and not (row.is_commit or row.flags or row.group_id):
                # A usual row from the middle of a transaction. Literals as in `encode`: cd is uint 16, ce uint 32.
                if row.type != kind or row.replica_id != origin:
                    kind, origin, into = row.type, row.replica_id, None
                    # Five pairs: type, replica id, lsn, time, and key 8, the distance to the first row.
                    head = bytes((0x85, 0, kind, 2, origin, 3))
                header = (
                    _U16_HEAD_OF_PART(head, 0xCD, lsn, stamp, 8)
                    if lsn < 0x10000
                    else _U32_HEAD_OF_PART(head, 0xCE, lsn, stamp, 8)
                )
                header += encode_uint(lsn - tsn)
            else:
                header, kind, into = encode_header(row, stamp), -1, None
            length = len(header) + len(body)
            parts += (header, body)
            size += length
            if makes_packets:
                if into is None:
                    into = packets.begin(row.replica_id, row.group_id == GROUP_LOCAL, lsn)
                packets.last = lsn
                into += (_FRAME(0xCE, length), header, body)
        return size

    def _encode_run(self, run: ChangeRun, clock: VClock, stamp: bytes, parts: list[bytes]) -> int:
        """Encode a run of one-row transactions of another instance. Returns the number of bytes."""
        lsns, bodies = run.lsns, run.bodies
        if run.flags:  # the flags are the last pair of the header, so they may as well stand before the body
            bodies = [SYNCHRONOUS_TAIL + body for body in bodies]
        _check_growth(clock, run.replica_id, lsns[0])
        headers = [
            _U16_HEADER(head, 0xCD, lsn, stamp) if lsn < 0x10000 else _U32_HEADER(head, 0xCE, lsn, stamp)
            for head, lsn in zip(run.heads, lsns, strict=True)
        ]
        for pair in zip(headers, bodies, strict=True):
            parts += pair
        clock[run.replica_id] = lsns[-1]
        if self.made_packets:
            into = self._packets.begin(run.replica_id, False, lsns[0])
            for header, body in zip(headers, bodies, strict=True):
                into += (_FRAME(0xCE, len(header) + len(body)), header, body)
            self._packets.last = lsns[-1]
        return _HEADER_SIZE * len(lsns) + sum(map(len, bodies))

    def take_packets(self) -> list[PacketRun]:
        """Return the rows of the last `encode` as packets; none unless `made_packets`."""
        return self._packets.finish()

    def encode_assigned(self, entries: Iterable[JournalEntry]) -> list[bytes]:
        """Encode rows whose lsns are assigned already, unchanged, as one block."""
        rows = [row for entry in entries for row in entry.rows]
        return [b"".join(encode_header(row, _TIMESTAMP(Key.TIMESTAMP, FLOAT64, row.tm)) + row.body for row in rows)]

    def _head(self, row_type: int, instance_id: int, flags: int) -> bytes:
        """Encode the part of a header before the lsn: map of four or five pairs, type, replica id, and the lsn's
        key.
        """
        head = bytes((FIXMAP | (5 if flags else 4), *_TYPE, row_type, *_REPLICA_ID, instance_id, *_LSN))
        self._heads[row_type, instance_id, flags] = head
        return head


def assign_lsn(rows: Sequence[Row], clock: VClock, instance_id: int) -> None:
    """Assign lsn, tsn and commit mark to the local rows (`replica_id` 0) of one transaction, and move `clock`.

    The tsn is the lsn of the first replicated row, or of the first row if none is replicated. Rows of local spaces
    count in component 0.

    Raises:
        BrokenLsn: the lsn of a foreign row does not grow.
    """
    local: list[Row] = []
    tsn = 0
    for row in rows:
        if row.replica_id:
            _follow(clock, row)
            continue
        if row.group_id != GROUP_LOCAL:
            row.replica_id = instance_id
        row.lsn = clock[row.replica_id] + 1
        clock[row.replica_id] = row.lsn
        if not tsn and row.group_id != GROUP_LOCAL:
            tsn = row.lsn
        row.is_commit = False
        local.append(row)
    for row in local:
        row.tsn = tsn or local[0].lsn
    if local and local[-1] is rows[-1]:
        rows[-1].is_commit = True


def _follow(clock: VClock, row: Row) -> None:
    _check_growth(clock, row.replica_id, row.lsn)
    clock[row.replica_id] = row.lsn


def _check_growth(clock: VClock, replica_id: int, lsn: int) -> None:
    if lsn <= clock[replica_id]:
        raise BrokenLsn(
            "Attempt to write a broken LSN to WAL: "
            f"replica id: {replica_id}, confirmed lsn: {clock[replica_id]}, new lsn {lsn}"
        )


def encode_header(row: Row, stamp: bytes) -> bytes:
    """Encode the header map of a log row; `stamp` is the encoded timestamp pair.

    In a transaction that begins with rows of a local space the tsn may exceed the lsn. The difference then wraps around
    2^64, as in Tarantool's files.
    """
    lsn, tsn = row.lsn, row.tsn or row.lsn
    flags = row.flags
    pairs = [_TYPE, encode_uint(row.type)]
    count = 2
    if row.replica_id:
        pairs += (_REPLICA_ID, encode_uint(row.replica_id))
        count += 1
    if row.group_id:
        pairs += (_GROUP_ID, encode_uint(row.group_id))
        count += 1
    if lsn:
        pairs += (_LSN, encode_uint(lsn))
        count += 1
    pairs.append(stamp)
    if tsn != lsn or not row.is_commit:
        pairs += (_TSN, encode_uint((lsn - tsn) % _WRAP))
        count += 1
        if row.is_commit:
            flags |= _COMMIT
    if flags:
        pairs += (_FLAGS, encode_uint(flags))
        count += 1
    return bytes((FIXMAP | count,)) + b"".join(pairs)


def decode_rows(block: bytes) -> list[Row]:
    """Decode all rows of a block.

    Raises:
        XlogError: a row is malformed (`can't parse row`).
    """
    try:
        return _decode_rows(block, unpacker_of(block))
    except StackError:
        return _decode_rows(block, DeepUnpacker(block))


def _decode_rows(block: bytes, unpacker: Any) -> list[Row]:
    unpack, skip, tell = unpacker.unpack, unpacker.skip, unpacker.tell
    rows: list[Row] = []
    pos, end = 0, len(block)
    try:
        while pos < end:
            fields = unpack()
            body_at = pos = tell()
            if fields.get(0) != _NOP and body_at < end:
                skip()
                pos = tell()
            rows.append(row_of_log(fields, block[body_at:pos]))
    except StackError:
        raise
    except (IndexError, ValueError, AttributeError, TypeError, msgpack.exceptions.UnpackException):
        raise XlogError("can't parse row") from None
    return rows


def unpacker_of(block: bytes) -> msgpack.Unpacker:
    """Return an unpacker that reads a block value by value."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(block)
    return unpacker


def row_of_log(fields: dict[int, Any], body: bytes) -> Row:
    """Return the row with a decoded header.

    Raises:
        XlogError: a field has a wrong type (`can't parse row`).
    """
    # The keys as literals, as in `box.wire.row`: 0 type, 2 replica id, 3 lsn, 4 time, 7 group id, 8 lsn - tsn, 9 flags.
    get = fields.get
    row_type, replica_id, lsn = get(0, 0), get(2, 0), get(3, 0)
    flags = get(9, 0)
    if not type(row_type) is type(replica_id) is type(lsn) is type(flags) is int:
        raise XlogError("can't parse row")
    if 8 in fields:
        tsn, is_commit = lsn - fields[8], bool(flags & _COMMIT)
        if tsn <= -(_WRAP >> 1):
            tsn += _WRAP  # the difference was negative and has wrapped, see `encode_header`
    else:
        tsn, is_commit = lsn, True
    return Row(row_type, replica_id, lsn, get(4, 0.0), get(7, 0), tsn, is_commit, flags & ~_COMMIT, 0, 0, body)


# --- snapshots --------------------------------------------------------------------------------------------------------


_BODY_PREFIX: Final = struct.Struct(">BBBIB").pack
_BODY_PREFIX_SIZE: Final = 8
"""The size of that prefix in bytes: map, key, mark and four bytes of the space id, key."""


def insert_body_prefix(space_id: int) -> bytes:
    """Encode an INSERT body up to the tuple; the space id always takes five bytes, as in Tarantool's files."""
    return _BODY_PREFIX(FIXMAP | 2, Key.SPACE_ID, UINT32, space_id, Key.TUPLE)


def decode_tuples(block: bytes) -> tuple[list[TupleRun], list[Row]]:
    """Decode a snapshot's block: its tuples in file order, and its rows that are not INSERT.

    Raises:
        XlogError: a row is malformed.
    """
    decoded = None
    for decoded in decode_tuples_in_steps(block, len(block)):  # noqa: B007 - the last one is the result
        pass
    assert decoded is not None
    return decoded


def decode_tuples_in_steps(block: bytes, rows: int) -> Iterator[tuple[list[TupleRun], list[Row]] | None]:
    """Decode a snapshot's block in steps: yields None after every `rows` rows, and the result at last.

    A usual row costs only two slices and the two C calls that find its end.
    """
    try:
        yield from _decode_tuples(block, unpacker_of(block), rows)
    except StackError:
        yield from _decode_tuples(block, DeepUnpacker(block), rows)


def _decode_tuples(block: bytes, unpacker: Any, rows: int) -> Iterator[tuple[list[TupleRun], list[Row]] | None]:
    skip, tell = unpacker.skip, unpacker.tell
    runs: list[TupleRun] = []
    others: list[Row] = []
    prefix = b"\x00"  # as no body begins: the first row is unusual and sets the prefix
    tuples: list[bytes] = []
    pos, end = 0, len(block)
    try:
        while pos < end:
            for _ in range(rows):
                start = pos
                skip()
                body = tell()
                skip()
                pos = tell()
                tuple_at = body + _BODY_PREFIX_SIZE
                if block[body:tuple_at] == prefix:
                    tuples.append(block[tuple_at:pos])
                else:
                    row = decode_rows(block[start:pos])[0]
                    if row.type != RequestType.INSERT:
                        others.append(row)
                    else:
                        space_id, raw = _insert_body(row.body)
                        prefix = insert_body_prefix(space_id)
                        tuples = [raw]
                        runs.append(TupleRun(space_id, tuples))
                if pos >= end:
                    break
            else:
                yield None
    except StackError:
        raise
    except (IndexError, ValueError, msgpack.exceptions.UnpackException):
        raise XlogError("can't parse row") from None
    yield runs, others


def _insert_body(body: bytes) -> tuple[int, bytes]:
    """Return the space id and the tuple of an INSERT body with keys in any order and form."""
    unpacker: Any = unpacker_of(body)
    space_id, raw = -1, b""
    for _ in range(unpacker.read_map_header()):
        key = unpacker.unpack()
        if key == Key.SPACE_ID:
            space_id = unpacker.unpack()
            continue
        start = unpacker.tell()
        unpacker = skip_one(unpacker, body)
        if key == Key.TUPLE:
            raw = body[start : unpacker.tell()]
    if type(space_id) is not int or space_id < 0 or not raw:
        raise XlogError("can't parse row")
    return space_id, raw
