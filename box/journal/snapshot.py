"""Snapshots: all tuples of all spaces at one vclock, as INSERT rows numbered from 0.

Rows are ordered by space id, then by primary key. A snapshot is written under a temporary name and counts only after
the rename. One without an EOF marker is not trusted. Layout of a row, by `memtx_engine.c` of the 2.8 line:

    82|83|84  00 02  [07 group id]  [03 lsn]  04 cb <time, the same in all rows>
    82  10 ce <space id, 4 bytes>  21 <tuple>
"""

from __future__ import annotations

import errno
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import ErrorCode, client_error
from box.journal.directory import LogDirectory, Logger, LogKind, SilentLog
from box.journal.reader import BlockReader
from box.journal.rows import decode_rows, decode_tuples_in_steps, encode_header, insert_body_prefix
from box.journal.storage import INPROGRESS, AppendFile, Storage, failed, publish, remove_quietly, write_all
from box.journal.threads import SystemThreads
from box.journal.xlog import BLOCK_SIZE, EOF_MARKER, META_SIZE_MAX, BlockEncoder, Meta
from box.journal.xlog_errors import XlogError
from box.wire.constants import Key, RequestType
from box.wire.first_bytes import FIXMAP, FLOAT64, UINT16, UINT32
from box.wire.row import Row, encode_uint
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

_T = TypeVar("_T")

_SLICE: Final = 4096
"""The number of tuples that are fetched and written at once."""
_ROWS_A_STEP: Final = 1024
"""The number of rows of a block that are decoded without giving way; that takes a millisecond."""
_PROGRESS: Final = 100_000
"""The number of rows between two reports in the log."""
_SYNC_INTERVAL: Final = 1 << 24
"""The number of bytes after which the file is synced, as in Tarantool."""
_COMPRESSION_LEVEL: Final = 1
"""Zstandard needs two thirds of the time of level 3, Tarantool's; files of small tuples grow by a twenty-fifth."""
_LSNS: Final = (
    (range(0x100, 0x10000), bytes((UINT16,)), "H"),
    (range(0x10000, 0x100000000), bytes((UINT32,)), "I"),
)
"""The lsns of two and of four bytes, their mark, and the letter of an array of them. These have 16 and 32 bits on every
platform that Python runs on."""
_SPLIT: Final = 64
"""The number of headers that are split at once."""
_STAMP: Final = struct.Struct(">BBd").pack


class TupleSource(Protocol):
    """A source of tuples, which are fetched in slices."""

    def fetch(self, limit: int) -> list[bytes]:
        """Return the next tuples in primary key order, at most `limit`; an empty list at the end."""


class SnapshotSpace(NamedTuple):
    """A space for a snapshot: a frozen view of its tuples in primary key order; `group_id` is 1 for a local space."""

    space_id: int
    tuples: Sequence[bytes] | TupleSource
    group_id: int = 0


class SnapshotWriter:
    """Writes one snapshot in a thread: optionally `begin`, then `write`, then `commit` or `abort`. It blocks.

    `rate_limit` is in bytes per second, 0 for none. The interpreter lock is released while a block is compressed and
    written, about every half millisecond, so that the tx thread can run.
    """

    def __init__(
        self,
        storage: Storage,
        directory: str,
        vclock: VClock,
        instance_uuid: UUID,
        *,
        rate_limit: float = 0,
        log: Logger | None = None,
        sleep: Callable[[float], object] = SystemThreads.sleep,
    ) -> None:
        self.path = LogDirectory(storage, directory, LogKind.SNAP).filename(vclock.signature)
        self._meta = Meta(LogKind.SNAP.name, instance_uuid, vclock.copy())
        self._storage = storage
        self._rate_limit = rate_limit
        self._log = log or SilentLog()
        self._sleep = sleep
        self._encoder = BlockEncoder(level=_COMPRESSION_LEVEL)
        self._stamp = _STAMP(Key.TIMESTAMP, FLOAT64, storage.now())
        self._row_count = 0
        """The number of rows that have an lsn. The last blocks of them may not be written yet."""
        self._written_rows = 0
        self._unsynced = 0
        self._is_aborted = False
        self._is_touched = False
        self._file: AppendFile | None = None

    def begin(self) -> None:
        """Create the temporary file ahead of `write`, which otherwise does it. Raises the errors of `write`."""
        if self._is_there():
            self._is_touched = True
            return
        temporary = self.path + INPROGRESS
        remove_quietly(self._storage, temporary)
        self._file = self._create(temporary)
        self._log.info(f"saving snapshot `{temporary}'")

    def write(self, spaces: Iterable[SnapshotSpace], trailer: Sequence[Row] = ()) -> None:
        """Write and sync the temporary file. `trailer` has the rows after all tuples: the raft state.

        A complete snapshot with this vclock only gets a new modification time; a truncated one is replaced.

        Raises:
            BoxSystemError: the disk refuses, another instance's file has this name, or another thread has called
                `abort`.
        """
        if self._file is None:
            self.begin()
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._write_rows(file, spaces, trailer)
            write_all(file, EOF_MARKER)
            file.sync()
        except OSError as error:
            raise failed(f"failed to write to '{self.path}{INPROGRESS}' file", error) from error
        finally:
            file.close()
        self._log.info("done")

    @property
    def row_count(self) -> int:
        """The number of rows written so far; readable in any thread."""
        return self._written_rows

    def _is_there(self) -> bool:
        """True if the complete snapshot exists; its modification time is then set to now.

        Raises:
            BoxSystemError: another file has its name.
        """
        try:
            found = _find(self._storage, self.path)
            if found is None:
                return False
            if found.meta is None or not _same_point(found.meta, self._meta):
                raise failed(f"file '{self.path}' already exists", FileExistsError(errno.EEXIST, "File exists"))
            if found.is_whole:
                self._storage.touch(self.path)
        except OSError:
            return False
        return found.is_whole

    def _create(self, path: str) -> AppendFile:
        try:
            file = self._storage.create(path)
        except OSError as error:
            raise failed(f"failed to create file '{path}'", error) from error
        try:
            write_all(file, self._meta.encode())
        except OSError as error:
            file.close()
            raise failed(f"{path}: failed to write xlog meta", error) from error
        return file

    def _write_rows(self, file: AppendFile, spaces: Iterable[SnapshotSpace], trailer: Sequence[Row]) -> None:
        for space_id, tuples, group_id in spaces:
            body = insert_body_prefix(space_id)
            for part in _slices(tuples):
                for block in self._encode(part, body, group_id):
                    self._write_block(file, block)
        rows = []
        for row in trailer:
            row.lsn = row.tsn = self._row_count
            self._row_count += 1
            rows.append(encode_header(row, self._stamp) + row.body)
        if rows:
            self._write_block(file, b"".join(rows))

    def _encode(self, tuples: Sequence[bytes], body: bytes, group_id: int) -> Iterator[bytes]:
        """Encode tuples to blocks of rows; the sizes are summed in C for speed."""
        lsn = self._row_count
        self._row_count += len(tuples)
        if self._row_count // _PROGRESS != lsn // _PROGRESS:
            self._log.crit(f"{self._row_count // _PROGRESS * _PROGRESS / 1e6:.1f}M rows written")
        ends = list(accumulate(map(len, tuples)))
        start = written = 0
        while start < len(tuples):
            end = max(start + 1, bisect_left(ends, written + BLOCK_SIZE, start) + 1)
            yield self._rows(range(lsn + start, lsn + min(end, len(tuples))), body, group_id, tuples[start:end])
            self._written_rows = lsn + min(end, len(tuples))
            start, written = end, ends[min(end, len(tuples)) - 1]

    def _rows(self, lsns: range, body: bytes, group_id: int, tuples: Sequence[bytes]) -> bytes:
        """Encode rows: everything that precedes each tuple, and the tuple.

        From lsn 2^8 on only two or four bytes differ between rows, and all work is done in C, so that other threads
        wait less for the interpreter.
        """
        group = bytes((Key.GROUP_ID,)) + encode_uint(group_id) if group_id else b""
        kind = bytes((Key.REQUEST_TYPE, RequestType.INSERT))
        pairs = 3 + bool(group_id)  # type, lsn and time
        begin = bytes((FIXMAP | pairs,)) + kind + group + bytes((Key.LSN,))
        end = self._stamp + body
        layout = next((layout for layout in _LSNS if lsns.start in layout[0] and lsns[-1] in layout[0]), None)
        if layout is not None:
            parts = [b""] * (2 * len(tuples))
            parts[::2] = _numbered(begin + layout[1], lsns, layout[2], end)
            parts[1::2] = tuples
            return b"".join(parts)
        # The first row of a file has lsn 0, which is left out like every zero in a header.
        first = bytes((FIXMAP | (pairs - 1),)) + kind + group
        headers = [(begin + encode_uint(lsn) if lsn else first) + end for lsn in lsns]
        return b"".join(chain.from_iterable(zip(headers, tuples, strict=True)))

    def _write_block(self, file: AppendFile, rows: bytes) -> None:
        if self._is_aborted:
            raise OSError(errno.ECANCELED, "the snapshot was given up")
        block = self._encoder.encode(rows)
        write_all(file, block)
        self._unsynced += len(block)
        if self._rate_limit:
            self._sleep(len(block) / self._rate_limit)
        if self._unsynced >= _SYNC_INTERVAL:
            file.sync()
            self._unsynced = 0

    def commit(self) -> None:
        """Durably give the file its final name; does nothing if the snapshot existed.

        Raises:
            BoxSystemError: the disk refuses.
        """
        if self._is_touched:
            return
        temporary = self.path + INPROGRESS
        try:
            publish(self._storage, temporary, self.path)
        except OSError as error:
            raise failed(f"failed to rename '{temporary}' file", error) from error

    def abort(self) -> None:
        """Remove the temporary file. A `write` that is running in another thread ends early."""
        self._is_aborted = True
        file, self._file = self._file, None
        if file is not None:
            file.close()
        remove_quietly(self._storage, self.path + INPROGRESS)


def _numbered(begin: bytes, numbers: range, letter: str, end: bytes) -> list[bytes]:
    """Return, for each number, its bytes between `begin` and `end`; `letter` is that of an array of such numbers."""
    columns = array(letter, numbers)
    if sys.byteorder == "little":
        columns.byteswap()
    packed, count, size = columns.tobytes(), len(numbers), len(begin) + columns.itemsize + len(end)
    found = bytearray((begin + bytes(columns.itemsize) + end) * (-(-count // _SPLIT) * _SPLIT))
    for place in range(columns.itemsize):
        found[len(begin) + place : count * size : size] = packed[place :: columns.itemsize]
    return list(chain.from_iterable(struct.iter_unpack(f"{size}s" * _SPLIT, found)))[:count]


class _Found(NamedTuple):
    """A file with the name of a snapshot: its meta, or None without a valid one, and whether it has an EOF marker."""

    meta: Meta | None
    is_whole: bool


def _find(storage: Storage, path: str) -> _Found | None:
    """Look at the file at a path; None if it does not exist. Raises OSError."""
    if not storage.exists(path):
        return None
    file = storage.open(path)
    try:
        decoded = Meta.decode(file.read(0, META_SIZE_MAX))
        end = file.read(max(0, storage.size(path) - len(EOF_MARKER)), len(EOF_MARKER))
    except XlogError:
        return _Found(None, False)
    finally:
        file.close()
    return _Found(decoded[0] if decoded else None, end == EOF_MARKER)


def _same_point(one: Meta, other: Meta) -> bool:
    return (one.file_type, one.instance_uuid, one.vclock) == (other.file_type, other.instance_uuid, other.vclock)


def _slices(tuples: Sequence[bytes] | TupleSource) -> Iterator[Sequence[bytes]]:
    if isinstance(tuples, Sequence):
        for start in range(0, len(tuples), _SLICE):
            yield tuples[start : start + _SLICE]
        return
    while part := tuples.fetch(_SLICE):
        yield part


def write_snapshot(
    storage: Storage,
    directory: str,
    vclock: VClock,
    instance_uuid: UUID,
    spaces: Iterable[SnapshotSpace],
    trailer: Sequence[Row] = (),
) -> str:
    """Write and commit a snapshot in one go. Returns its path.

    Raises:
        BoxSystemError: the disk refuses.
    """
    writer = SnapshotWriter(storage, directory, vclock, instance_uuid)
    try:
        writer.write(spaces, trailer)
        writer.commit()
    except BaseException:
        writer.abort()
        raise
    return writer.path


class SnapshotReader:
    """Reads one snapshot through `tuples` (fast) or `rows`; both check the EOF marker at the end.

    With `force_recovery` broken blocks and a missing EOF marker are logged and ignored.

    Raises:
        BoxSystemError: the file cannot be read.
        XlogError: the content is wrong.
        ClientError: INVALID_XLOG_TYPE, it is another kind of file.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        *,
        force_recovery: bool = False,
        log: Logger | None = None,
        errinj: ErrorInjections | None = None,
    ) -> None:
        self.path = path
        self._force = force_recovery
        self._log = log or SilentLog()
        self._blocks = BlockReader(storage, path, force_recovery=force_recovery, log=log, errinj=errinj)
        try:
            self.meta = self._blocks.read_meta()
            if self.meta.file_type != LogKind.SNAP.name:
                raise client_error(ErrorCode.INVALID_XLOG_TYPE, LogKind.SNAP.name, self.meta.file_type)
        except BaseException:
            self._blocks.close()
            raise

    def __enter__(self) -> SnapshotReader:
        return self

    @property
    def position(self) -> int:
        """The offset after the last whole block that was read."""
        return self._blocks.position

    def __exit__(self, *exception: object) -> None:
        self.close()

    def skip_broken(self, skips: bool) -> None:
        """Choose whether broken parts are skipped or raise, from the next block on; `force_recovery` is the initial
        choice.
        """
        self._blocks.skips_broken = skips

    def tuples(self) -> Iterator[tuple[list[TupleRun], list[Row]]]:
        """Yield, for every block, its tuples as runs of one space, and its rows that are not tuples (raft state)."""
        return (found for found in self.tuples_in_steps() if found is not None)

    def tuples_in_steps(self) -> Iterator[tuple[list[TupleRun], list[Row]] | None]:
        """Yield the results of `tuples` in steps, for callers that yield to others: None comes before a block's last
        step.
        """
        return self._decoded(partial(decode_tuples_in_steps, rows=_ROWS_A_STEP))

    def rows(self) -> Iterator[Row]:
        """Yield every row; its lsn is its number in the file."""
        for rows in self._decoded(lambda block: [decode_rows(block)]):
            yield from rows

    def _decoded(self, decode: Callable[[bytes], Iterable[_T]]) -> Iterator[_T]:
        while (block := self._blocks.next_block()) is not None:
            try:
                yield from decode(block)
            except XlogError as error:
                if not self._blocks.skips_broken:
                    raise
                self._log.error(f"can't decode row: {error.message}")
        if not self._blocks.eof:
            text = f"snapshot `{self.path}' has no EOF marker"
            if not self._force:
                raise XlogError(text)
            self._log.error(text)

    def close(self) -> None:
        self._blocks.close()
