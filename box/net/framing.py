"""Framing: finds the rows in a stream of bytes, which arrives in pieces of any size.

```
[greeting, `prologue` bytes]  packet  packet  packet ...        a packet: see `box.wire.packet`
```

There is no I/O and no clock. A packet that is invalid or larger than the protocol allows is refused as soon as its
length has come; nothing of its body is stored.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from box.data.marks import FLOAT64, UINT8, UINT16, UINT32
from box.wire.change_run import SYNCHRONOUS, SYNCHRONOUS_TAIL, ChangeRun, origin_of_head
from box.wire.constants import Key
from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row, is_msgpack
from box.wire.tuple_run import TupleRun, tuple_head

StreamItem = Row | ChangeRun
SnapshotItem = Row | TupleRun

_USUAL_U16: Final = struct.Struct(">BI6sBHHd")
_USUAL_U32: Final = struct.Struct(">BI6sBIHd")
"""The usual packet up to its body: length, head of the header, type and value of the lsn, key and type of the time,
time."""
_HEAD_AT: Final = 5
"""The offset of the header: the length takes five bytes, ce and a u32."""
_LENGTH: Final = struct.Struct(">I").unpack_from
_TUPLES_A_RUN: Final = 2048
"""The greatest number of tuples in a run of a snapshot; receiving them takes about a millisecond."""
_LARGE_RUN: Final = 32768
"""A run of more bytes than this ends a turn."""
_JOINED: Final = 256 * 1024
"""Chunks are joined up to this many bytes, because runs end at the end of a chunk."""
_LENGTH_SIZE: Final = 9
"""The greatest size of a packet's length, in bytes."""
_LSN_MARK_AT: Final = 11
"""The offset of the lsn's MessagePack type, after the length (five bytes) and the head of the header (six)."""
_STAMP: Final = Key.TIMESTAMP << 8 | FLOAT64
"""The key of the time stamp (4) and the MessagePack type of a double (cb), as one number."""
_TAIL_SIZE: Final = len(SYNCHRONOUS_TAIL)
_TSN: Final = int(Key.TSN)
"""The key of the row's distance to the first row of its transaction; it follows the time."""
_DISTANCES: Final = {
    UINT8: (1, struct.Struct(">B").unpack_from),
    UINT16: (2, struct.Struct(">H").unpack_from),
    UINT32: (4, _LENGTH),
}
"""The widths and readers of that distance by its MessagePack type; a distance below 0x80 is its own type."""
_PART_SIZE: Final = 32
"""The greatest size, up to the body, of a usual packet from the middle of a transaction, in bytes."""


class RowBuffer:
    """Collects bytes until packets are complete. `prologue` is the number of bytes before the first packet."""

    __slots__ = ("_at", "_chunks", "_have", "_need", "_prologue_size")

    def __init__(self, prologue: int = 0) -> None:
        self._chunks: list[bytes] = []
        self._at = 0
        """The position in the first chunk up to which all bytes have been taken."""
        self._have = 0
        self._need = self._prologue_size = prologue

    @property
    def size(self) -> int:
        """The number of bytes that are kept."""
        return self._have

    @property
    def may_have_rows(self) -> bool:
        """False if there is certainly no complete packet."""
        return self._have >= self._need and self._have > 0

    def add(self, data: bytes) -> None:
        """Add received bytes."""
        self._chunks.append(data)
        self._have += len(data)

    def take_prologue(self) -> bytes | None:
        """Return the bytes before the first packet, once; None until all are here."""
        if self._have < self._prologue_size:
            return None
        data, size = self._rest(), self._prologue_size
        self._keep(data[size:], 0)
        self._prologue_size = 0
        return data[:size]

    def take_rows(self, rows: deque[Row], most: int = sys.maxsize) -> None:
        """Append the complete rows to `rows`, at most `most`.

        Raises:
            ClientError: INVALID_MSGPACK, the stream cannot go on. Rows before the error are appended.
        """
        self._take(rows, most, None)

    def take_items(self, items: deque[Any], most: int = sys.maxsize, take_run: TakeRun | None = None) -> None:
        """Append complete rows to `items`; consecutive usual rows become a run, whose bodies are not checked.

        `take_run` finds the runs: of changes (`StreamItem`s), or, with `take_tuples`, of a snapshot's tuples
        (`SnapshotItem`s). A large run is the last item of the call.
        """
        self._take(items, most, take_run or take_changes)

    def _take(self, items: deque[Any], most: int, take_run: TakeRun | None) -> None:
        """Append everything complete: the runs that `take_run` finds, and every other row."""
        left = most
        try:
            is_no_run = take_run is None or (take_run is take_changes and self._have < _USUAL_U32.size)
            if is_no_run and left and self._take_one(items):
                return
            while left and self.may_have_rows:
                left = self._take_of_first(items, left, take_run)
        except BaseException:
            self._keep(b"", 0)
            raise

    def _take_one(self, items: deque[Any]) -> bool:
        """Append a packet if it is the only one that has arrived, as a heartbeat usually is. Returns False
        otherwise.
        """
        if len(self._chunks) != 1 or self._at:
            return False
        data = self._chunks[0]
        if len(data) <= _HEAD_AT or data[0] != UINT32 or _LENGTH(data, 1)[0] != len(data) - _HEAD_AT:
            return False
        items.append(decode_row(data[_HEAD_AT:]))
        self._keep(b"", 0)
        return True

    def _take_of_first(self, items: deque[Any], most: int, take_run: TakeRun | None) -> int:
        """Append everything complete in the first chunk, after adding what its last packet lacks.

        Returns how many more items may be taken; 0 after a large run.
        """
        self._complete_first()
        data, pos, left, need, had = self._chunks[0], self._at, most, 0, len(items)
        end = len(data)
        while left:
            left -= 1
            if take_run is not None:
                before, pos = pos, take_run(data, pos, end, items)
                if pos - before > _LARGE_RUN:
                    left = 0
                    break
                if before < pos < end:
                    continue
            if pos == end:
                break
            before, pos = pos, _take_parts(data, pos, end, items, left + 1)
            if pos > before:
                left = most - len(items) + had
                continue
            start, stop = packet_bounds(data, pos)
            if stop > end:
                need = stop - pos
                break
            items.append(decode_row(data[start:stop]))
            pos = stop
        self._have -= pos - self._at
        self._at, self._need = pos, need
        if pos == end:
            del self._chunks[0]
            self._at = 0
        return left

    def _complete_first(self) -> None:
        """Join as many chunks as the next packet needs, and small ones, so that only a part of megabytes is copied."""
        chunks, size, count = self._chunks, len(self._chunks[0]) - self._at, 1
        needed = max(self._need, _LENGTH_SIZE)
        while count < len(chunks) and (size < needed or size + len(chunks[count]) <= _JOINED):
            size += len(chunks[count])
            count += 1
        if count > 1:
            chunks[:count] = [b"".join((chunks[0][self._at :], *chunks[1:count]))]
            self._at = 0

    def _rest(self) -> bytes:
        """Return all bytes that are not taken yet."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return data[self._at :] if self._at else data

    def _keep(self, data: bytes, need: int) -> None:
        self._chunks = [data] if data else []
        self._at = 0
        self._have = len(data)
        self._need = need


TakeRun = Callable[[bytes, int, int, deque[Any]], int]
"""`take_run(data, start, end, items)` takes the run of packets at `start`, appends it to `items`, and returns its
end."""


def take_changes(data: bytes, pos: int, end: int, items: deque[Any]) -> int:
    """Append the run of usual changes that begins at `pos`, if there is one. Returns the end of the run."""
    last_start = end - _USUAL_U32.size
    if pos > last_start:
        return pos
    # A header with five pairs (85) has flags or the distance to the first row, one with four has neither.
    is_synchronous = data[pos + _HEAD_AT] == 0x85
    if is_synchronous:
        tail = _USUAL_U16.size if data[pos + _LSN_MARK_AT] == UINT16 else _USUAL_U32.size
        if not data.startswith(SYNCHRONOUS_TAIL, pos + tail):
            return pos  # the row belongs to a transaction of several rows
    usual_u16, usual_u32 = _USUAL_U16.unpack_from, _USUAL_U32.unpack_from
    origins: dict[bytes, int | None] = {}
    run = ChangeRun(0, SYNCHRONOUS if is_synchronous else 0)
    add_head, add_lsn, add_body = run.heads.append, run.lsns.append, run.bodies.append
    origin, last, tm = 0, 0, 0.0
    # Literals, because names would be looked up for each row: ce and cd are lsns of four and two bytes, with which the
    # body begins at 26 and 24; 5 is the size of the packet's length, which the length does not count.
    while pos <= last_start:
        mark = data[pos + _LSN_MARK_AT]
        if mark == 0xCE:
            frame, size, head, _, lsn, stamp, time = usual_u32(data, pos)
            body = pos + 26
        elif mark == 0xCD:
            frame, size, head, _, lsn, stamp, time = usual_u16(data, pos)
            body = pos + 24
        else:
            break
        stop = pos + 5 + size
        if stop > end or stamp != _STAMP or frame != 0xCE or body >= stop or lsn <= last:
            break
        if head in origins:
            replica_id = origins[head]
        else:
            replica_id = origins[head] = origin_of_head(head) if (head[0] == 0x85) is is_synchronous else None
        if replica_id != origin:
            if origin or replica_id is None:
                break
            origin = replica_id
        if is_synchronous:
            body += _TAIL_SIZE
            if body >= stop or data[body - _TAIL_SIZE : body] != SYNCHRONOUS_TAIL:
                break
        add_head(head)
        add_lsn(lsn)
        add_body(data[body:stop])
        last, tm, pos = lsn, time, stop
    if run.lsns:
        run.replica_id, run.tm = origin, tm
        items.append(run)
    return pos


def _take_parts(data: bytes, pos: int, end: int, items: deque[Any], most: int) -> int:
    """Append the usual rows from the middle of transactions that begin at `pos`, at most `most`.

    Returns the position after them. Unusual rows are left to `decode_row`.
    """
    # The numbers are those of `take_changes`. The fifth pair (85) is the distance, which one-row transactions lack.
    last_start, most = end - _PART_SIZE, len(items) + most
    if pos > last_start or data[pos + _HEAD_AT] != 0x85:
        return pos
    usual_u16, usual_u32 = _USUAL_U16.unpack_from, _USUAL_U32.unpack_from
    last_head, kind, origin = b"", 0, 0
    while pos <= last_start and len(items) < most:
        mark = data[pos + _LSN_MARK_AT]
        if mark == 0xCE:
            frame, size, head, _, lsn, stamp, time = usual_u32(data, pos)
            at = pos + 26
        elif mark == 0xCD:
            frame, size, head, _, lsn, stamp, time = usual_u16(data, pos)
            at = pos + 24
        else:
            break
        stop = pos + 5 + size
        if stop > end or data[at] != _TSN or stamp != _STAMP or frame != 0xCE:
            break
        if head != last_head:
            if head[0] != 0x85 or (found := origin_of_head(head)) is None:
                break
            last_head, kind, origin = head, head[2], found
        distance = data[at + 1]
        at += 2
        if distance >= 0x80:  # not a small integer, which is its own mark
            if distance not in _DISTANCES:
                break
            width, unpack = _DISTANCES[distance]
            distance = unpack(data, at)[0]
            at += width
        if at >= stop or distance >= lsn or not is_msgpack(body := data[at:stop]):
            break
        items.append(Row(kind, origin, lsn, time, 0, lsn - distance, False, 0, 0, 0, body))
        pos = stop
    return pos


def take_tuples(data: bytes, pos: int, end: int, items: deque[Any]) -> int:
    """Append the run of tuples of one space that begins at `pos`, if there is one. Returns the end of the run.

    All rows of a run have identical bytes before the tuple.
    """
    if pos + _HEAD_AT > end:
        return pos
    start, stop = packet_bounds(data, pos)
    found = tuple_head(data[start:stop]) if stop <= end else None
    if found is None:
        return pos
    space_id, size = found
    read, head = struct.Struct(f">BI{size}s").unpack_from, data[start : start + size]
    head_end, last_start = _HEAD_AT + size, end - _HEAD_AT - size
    tuples: list[bytes] = []
    add = tuples.append
    while pos <= last_start and len(tuples) < _TUPLES_A_RUN:  # ce: the length of a packet always has four bytes
        frame, length, here = read(data, pos)
        stop = pos + _HEAD_AT + length
        if stop > end or frame != 0xCE or here != head or length <= size:
            break
        add(data[pos + head_end : stop])
        pos = stop
    if tuples:
        items.append(TupleRun(space_id, tuples))
    return pos
