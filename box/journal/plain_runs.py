"""Plain transactions of a log in columns: a start executes millions of them, and makes no objects for their rows.

A transaction is plain if all its rows are changes of one instance, with one of these headers:

```
84, 00 type, 02 replica id, 03 lsn, 04 cb time       a transaction of one row
85, the same, 08 distance to the first lsn           any other row of a longer one
86, the same, 09 01                                  its last row: the flags are COMMIT alone
```
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, Final

import msgpack

from box.journal.rows import row_of_log, unpacker_of
from box.journal.xlog_errors import XlogError
from box.wire.change_run import HEAD_SIZE, USUAL_TYPES
from box.wire.constants import RequestType
from box.wire.first_bytes import FIXMAP
from box.wire.row import Row
from box.wire.skipping import DeepUnpacker, StackError
from box.wire.vclock import VCLOCK_MAX

_SINGLE: Final = 4
_MIDDLE: Final = 5
_LAST: Final = 6
"""The number of pairs in the headers above: of a transaction's only row, of any other row, of its last row."""
# Below 0x80 a number is its own mark; cc to cf are the marks of uint 8 to uint 64.
_RESTS: Final = {
    **dict.fromkeys(range(0x80), struct.Struct(">0sBHd")),
    0xCC: struct.Struct(">BBHd"),
    0xCD: struct.Struct(">BHHd"),
    0xCE: struct.Struct(">BIHd"),
    0xCF: struct.Struct(">BQHd"),
}
"""The header after its first six bytes, by the first byte of the lsn: the mark of the lsn, which a small one lacks, the
lsn, key and mark of the time as one number, the time."""
_STAMP: Final = 0x04CB
"""The key of the time (4) and the mark of a double (cb), as one number."""
_DISTANCE_SIZES: Final = {0xCC: 3, 0xCD: 4, 0xCE: 6}
"""The size of the key and the value of a distance of 128 or more, by the mark of the value."""
_COMMIT: Final = b"\x09\x01"
"""The pair of the flags in the header of a last row."""
_NOP: Final = int(RequestType.NOP)
_Head = tuple[bytes, int, int, int, Callable[[bytes, int], tuple[Any, ...]], int]
"""The first bytes of a plain header, with the first byte of its lsn; the number of its pairs, the type, the replica id;
a function that decodes the rest up to the time, and the size of all this."""
_NO_HEAD: Final[_Head] = (b"\xc1", 0, 0, 0, struct.Struct("").unpack_from, 0)
"""Another header: no row begins with the byte 0xc1, which MessagePack never uses."""


class PlainRun:
    """Consecutive plain transactions of one instance. The columns have one item for each row, and the lsns grow.

    `ends` has the number of rows up to the end of each transaction. `tm` is the time of the last row in seconds. A body
    is a start and a rest (`box.journal.split_rows`); if `starts` is empty, each rest is the whole body. `values` are
    the decoded rests, or None if they have to be decoded again.
    """

    __slots__ = ("ends", "kinds", "lsns", "replica_id", "rests", "starts", "tm", "values")

    def __init__(self, replica_id: int) -> None:
        self.replica_id = replica_id
        self.kinds: list[int] = []
        self.lsns: Sequence[int] = []
        self.starts: list[bytes] = []
        self.rests: list[bytes] = []
        self.values: list[Any] | None = None
        self.ends: Sequence[int] = []
        self.tm = 0.0

    def __len__(self) -> int:
        return len(self.rests)

    def body(self, number: int) -> bytes:
        """Return the body of a row."""
        return self.starts[number] + self.rests[number] if self.starts else self.rests[number]

    def bodies(self, first: int, stop: int) -> list[bytes]:
        """Return the bodies of the rows from `first` to `stop`."""
        rests = self.rests[first:stop]
        return list(map(add, self.starts[first:stop], rests)) if self.starts else rests

    def end_of_last(self, count: int) -> int:
        """Return how many of the first `count` rows belong to transactions that end among them."""
        ended = bisect_right(self.ends, count)
        return self.ends[ended - 1] if ended else 0

    def end_of(self, first: int) -> int:
        """Return the number of rows up to the end of the transaction that contains the row `first`."""
        return self.ends[bisect_right(self.ends, first)]

    def row(self, number: int) -> Row:
        """Return one row as an object."""
        ended = bisect_right(self.ends, number)
        first = self.ends[ended - 1] if ended else 0
        is_commit = ended < len(self.ends) and self.ends[ended] == number + 1
        lsn = self.lsns[number]
        return Row(
            self.kinds[number],
            self.replica_id,
            lsn,
            self.tm,
            tsn=self.lsns[first],
            is_commit=is_commit,
            body=self.body(number),
        )

    def rows(self) -> list[Row]:
        """Return all rows as objects."""
        return [self.row(number) for number in range(len(self))]

    def transaction(self, first: int) -> list[Row]:
        """Return the rows of the transaction that begins at the row `first`."""
        return [self.row(number) for number in range(first, self.end_of(first))]

    def transactions(self) -> Iterator[list[Row]]:
        """Yield the rows of one transaction at a time as objects."""
        first = 0
        for end in self.ends:
            yield [self.row(number) for number in range(first, end)]
            first = end


class _GrowingRun(PlainRun):
    """A run that gets its rows one by one."""

    __slots__ = ()
    lsns: list[int]
    ends: list[int]

    def adders(
        self,
    ) -> tuple[Callable[[int], None], Callable[[int], None], Callable[[bytes], None], Callable[[int], None]]:
        """Return functions that append to the kinds, the lsns, the bodies and the ends."""
        return self.kinds.append, self.lsns.append, self.rests.append, self.ends.append

    def take_unfinished(self) -> list[Row]:
        """Remove the rows after the last whole transaction, and return them."""
        end = self.ends[-1] if self.ends else 0
        rows = [self.row(number) for number in range(end, len(self))]
        del self.kinds[end:], self.lsns[end:], self.rests[end:]
        return rows


def plain_runs(block: bytes) -> list[PlainRun | list[Row]]:
    """Return the rows of log blocks in order: plain transactions as runs, others as objects.

    Raises:
        XlogError: a row is malformed (`can't parse row`).
    """
    try:
        return _plain_runs(block, unpacker_of(block))
    except StackError:
        return _plain_runs(block, DeepUnpacker(block))


def _plain_runs(block: bytes, unpacker: Any) -> list[PlainRun | list[Row]]:
    skip, tell, starts_with = unpacker.skip, unpacker.tell, block.startswith
    parts = _Parts()
    run, is_open, last = _GrowingRun(0), False, 0
    add_kind, add_lsn, add_body, add_end = run.adders()
    heads: dict[bytes, _Head] = {}
    head, pairs, kind, replica_id, unpack_from, size = _NO_HEAD
    pos, end = 0, len(block)
    try:
        while pos < end:
            if not starts_with(head, pos):
                found = block[pos : pos + HEAD_SIZE + 1]
                head, pairs, kind, replica_id, unpack_from, size = heads.get(found) or heads.setdefault(
                    found, _head(found)
                )
            rest, lsn, tm = 0, 0, 0.0
            if pairs and not parts.is_open:
                _, lsn, stamp, tm = unpack_from(block, pos + HEAD_SIZE)
                if stamp == _STAMP:
                    rest = pos + size
                    if pairs != _SINGLE:
                        rest = _end_of_header(block, rest, pairs, not is_open)
            if rest >= end:
                rest = 0  # without a body
            elif rest and (lsn <= last or replica_id != run.replica_id or (is_open and pairs == _SINGLE)):
                if is_open:
                    rest = 0
                else:
                    run = parts.begin(replica_id)
                    add_kind, add_lsn, add_body, add_end = run.adders()
            if rest:
                skip()
                skip()
                pos = tell()
                add_kind(kind)
                add_lsn(lsn)
                add_body(block[rest:pos])
                run.tm, last, is_open = tm, lsn, pairs == _MIDDLE
                if not is_open:
                    add_end(len(run.lsns))
            else:
                pos = parts.add_other(block, unpacker)
                run, is_open = _GrowingRun(0), False
    except StackError:
        raise
    except (IndexError, ValueError, AttributeError, TypeError, struct.error, msgpack.exceptions.UnpackException):
        raise XlogError("can't parse row") from None
    return parts.finish()


def _head(first: bytes) -> _Head:
    """Return what the first bytes of a header tell, up to the first byte of the lsn; `_NO_HEAD` if it is not plain."""
    # 0, 2 and 3 are the keys of type, replica id and lsn, with values of one byte each between them.
    if len(first) == HEAD_SIZE + 1 and first[1] == 0 and first[3] == 2 and first[5] == 3:
        pairs, kind, replica_id, layout = first[0] - FIXMAP, first[2], first[4], _RESTS.get(first[HEAD_SIZE])
        if _SINGLE <= pairs <= _LAST and kind in USUAL_TYPES and 0 < replica_id < VCLOCK_MAX and layout:
            return first, pairs, kind, replica_id, layout.unpack_from, HEAD_SIZE + layout.size
    return _NO_HEAD


def _end_of_header(block: bytes, pos: int, pairs: int, is_first: bool) -> int:
    """Return the end of a header of five or six pairs whose fifth one begins at `pos`, or 0 if it is not plain.

    The distance of a transaction's first row has to be 0.
    """
    mark = block[pos + 1]
    if block[pos] != 8 or (is_first and mark):  # 8 is the key of the distance
        return 0
    pos += 2 if mark < 0x80 else _DISTANCE_SIZES.get(mark, 0)
    if mark >= 0x80 and mark not in _DISTANCE_SIZES:
        return 0
    if pairs == _MIDDLE:
        return pos
    return pos + len(_COMMIT) if block.startswith(_COMMIT, pos) else 0


class _Parts:
    """The runs and the lists of rows found so far. `is_open`: the last list ends in the middle of a transaction."""

    def __init__(self) -> None:
        self.is_open = False
        self._parts: list[_GrowingRun | list[Row]] = []

    def begin(self, replica_id: int) -> _GrowingRun:
        """Begin a run."""
        run = _GrowingRun(replica_id)
        self._parts.append(run)
        return run

    def add_other(self, block: bytes, unpacker: Any) -> int:
        """Add the next row of a block as an object, with those before it in its transaction. Returns its end."""
        fields = unpacker.unpack()
        start: int = unpacker.tell()
        end = start
        if fields.get(0) != _NOP and start < len(block):  # 0 is the key of the type
            unpacker.skip()
            end = unpacker.tell()
        newest = self._parts[-1] if self._parts else None
        if not isinstance(newest, list):
            begun = [] if newest is None else newest.take_unfinished()
            self._parts.append(begun)
            newest = begun
        row = row_of_log(fields, block[start:end])
        newest.append(row)
        self.is_open = not row.is_commit
        return end

    def finish(self) -> list[PlainRun | list[Row]]:
        """Return all parts that have rows. A transaction without an end is a list."""
        newest = self._parts[-1] if self._parts else None
        if isinstance(newest, _GrowingRun) and (unfinished := newest.take_unfinished()):
            self._parts.append(unfinished)
        return [part for part in self._parts if part]
