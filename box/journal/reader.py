"""Reads rows from files: one file block by block (`BlockReader`), or the chain of files in a WAL directory
(`LogReader`).

Both read what exists now and can continue later, so that recovery, `Journal.follow` and a reader outside a node
share the code. They block, so they are used in a thread, or before the node serves clients.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from box.errinj import ErrorInjections
from box.journal.block_index import BlockIndex
from box.journal.directory import LogDirectory, LogFile, Logger, SilentLog
from box.journal.log_gap import XlogGapError, gap_before, gap_between
from box.journal.packet_runs import fresh_runs, packet_runs
from box.journal.plain_runs import PlainRun, plain_runs
from box.journal.rows import decode_rows
from box.journal.split_rows import split_block
from box.journal.storage import Storage, failed
from box.journal.xlog import MARKER_SIZE, Meta, XlogDecoder
from box.journal.xlog_errors import XlogError
from box.wire.packet_run import PacketRun
from box.wire.row import Row
from box.wire.vclock import VClock

T = TypeVar("T")

_CHUNK: Final = 1 << 20
"""The bytes that are read at once; a block that is larger makes the next read as large as it needs."""
_RUN_BYTES: Final = 512 * 1024
"""`next_runs` stops after this many bytes of rows, plus up to one block."""
_ROW_BYTES: Final = 32 * 1024
"""The same for `next_rows` and `next_parts`: a millisecond or two."""
_SMALL: Final = 1024
"""The size in bytes of blocks that are not split any further when an unusual row is among theirs."""


class LogPosition(NamedTuple):
    """The start of a block: the file's signature and the offset in the file."""

    signature: int
    offset: int


class BlockReader:
    """Reads one file. `next_block` returns None at the end of the written data and continues there when called again.

    With `force_recovery` a broken block is logged and skipped. With `counted_only` the file may belong to another
    process, and bytes that its writer may still cut off are not read.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        *,
        force_recovery: bool = False,
        counted_only: bool = False,
        log: Logger | None = None,
        errinj: ErrorInjections | None = None,
    ) -> None:
        self.path = path
        self._counted_only = counted_only
        self.skips_broken = force_recovery
        self._log = log or SilentLog()
        self._injections: Mapping[str, object] = {} if errinj is None else errinj.values
        self._decoder = XlogDecoder(path)
        self._offset = 0
        try:
            self._file = storage.open(path)
        except OSError as error:
            raise failed(f"failed to open '{path}' file", error) from error

    @property
    def eof(self) -> bool:
        """True if the EOF marker was read, so the file was closed in order."""
        return self._decoder.eof

    @property
    def position(self) -> int:
        """The offset after the last whole block, or after the meta."""
        return self._decoder.position

    def read_meta(self) -> Meta:
        """Read the meta of the file.

        Raises:
            XlogError: it is malformed or incomplete.
        """
        while (meta := self._decoder.read_meta()) is None:
            if not self._fill():
                raise XlogError("Unexpected end of file, run with 'force_recovery = true'")
        return meta

    def seek(self, offset: int) -> None:
        """Continue at the block that begins at `offset`; call it right after `read_meta`."""
        self._decoder.jump(offset)
        self._offset = offset

    def next_block(self) -> bytes | None:
        """Return the rows of the next block, or None at the end.

        Raises:
            XlogError: the block is broken.
            BoxSystemError: the file cannot be read.
        """
        self.read_meta()
        while True:
            try:
                block = self._decoder.next_block()
                if block is not None:
                    if not self._injections.get("ERRINJ_XLOG_GARBAGE"):
                        return block
                    if not self.skips_broken:
                        raise XlogError("tx checksum mismatch")
                    self._log.error("can't open tx: tx checksum mismatch")
                    continue
                if not self._fill():
                    return None
            except XlogError as error:
                if not self.skips_broken:
                    raise
                self._log.error(f"can't open tx: {error.message}")
                while not self._decoder.skip():
                    if not self._fill():
                        return None

    def next_blocks(self, size: int) -> list[bytes]:
        """Return the rows of the next blocks, each alone: one block at least, and more up to about `size` bytes.

        The list is empty at the end. An error in a block that is not the first is raised by the next call.

        Raises:
            XlogError: the first block is broken.
            BoxSystemError: the file cannot be read.
        """
        if not self._injections.get("ERRINJ_XLOG_GARBAGE"):
            try:
                blocks = self._decoder.next_blocks(size)
            except XlogError:
                blocks = []  # `next_block` decides what to do about it
            if blocks:
                return blocks
        block = self.next_block()
        return [] if block is None else [block]

    def _fill(self) -> bool:
        try:
            size = self._size_to_read()
            if self._counted_only:
                size = min(size, max(0, self._file.counted_size() - self._offset))
            data = self._file.read(self._offset, size) if size else b""
        except OSError as error:
            raise failed(f"failed to read '{self.path}' file", error) from error
        self._offset += len(data)
        if data:
            self._decoder.feed(data)
        return bool(data)

    def _size_to_read(self) -> int:
        """Return the number of bytes to read next; ERRINJ_XLOG_READ makes the rest of a file unreadable after that many
        bytes.
        """
        limit = self._injections.get("ERRINJ_XLOG_READ", -1)
        assert isinstance(limit, int)
        if 0 <= limit < self._offset:
            raise OSError(errno.EIO, "Input/output error")
        if limit >= 0:
            return max(1, limit - self._offset + 1)
        # No more than the rest of a block that has begun: what follows it would be copied with the next block.
        return self._decoder.needed() or _CHUNK

    def close(self) -> None:
        self._file.close()


class LogReader:
    """Reads the rows of a WAL directory that are later than `vclock`, and moves `vclock` past them.

    It begins with the last file that does not start after `vclock`. With `force_recovery` of the directory, missing
    rows cause a warning instead of an error. `position` starts the reader at a block in the middle of a file; so does
    `index`, which also learns the blocks of a file that is read from its start. `limit` is the growing vclock that the
    writer has announced: `next_runs` stops there, because later bytes may still be cut off. `counted_only` has that
    effect for a writer in another process.

    Raises:
        XlogGapError: rows are missing.
    """

    def __init__(
        self,
        directory: LogDirectory,
        vclock: VClock,
        *,
        position: LogPosition | None = None,
        index: BlockIndex | None = None,
        limit: VClock | None = None,
        counted_only: bool = False,
        log: Logger | None = None,
        errinj: ErrorInjections | None = None,
    ) -> None:
        self.vclock = vclock
        self._begin = vclock.copy()
        self._before: dict[int, int] = {}
        """For each origin, the lsn of its newest row up to the starting vclock, as far as the files read so far tell
        it."""
        self._limit = limit
        self._is_at_limit = False
        self._counted_only = counted_only
        self._index = index
        self._file_clock: VClock | None = None
        """The vclock at the current place in the file, while it is known. The object is replaced, never changed."""
        self._errinj = errinj
        self._directory = directory
        self._position = position
        self._log = log or SilentLog()
        self._file: LogFile | None = None
        self._following: LogFile | None = None
        self._blocks: BlockReader | None = None
        self._is_reopening = False
        self._failure: XlogError | None = None
        """The error of a malformed row; the rows before it were returned already."""
        self.looks_for_files = True
        """True if the directory is searched for a next file at the end of each file."""

    @property
    def is_at_end_of_file(self) -> bool:
        """True if the writer has closed the file being read: the next file exists or will."""
        return self._blocks is None or self._blocks.eof

    def reopen(self) -> None:
        """Continue before the end marker of a file that was closed in order, because the next writer may continue that
        file.
        """
        if self._file is not None and self._blocks is not None and self._blocks.eof:
            self._position = LogPosition(self._file.signature, self._blocks.position - MARKER_SIZE)
            self._blocks.close()
            self._blocks = None
            self._is_reopening = True

    @property
    def position(self) -> LogPosition | None:
        """The position of the next block; None before the first file."""
        if self._file is None or self._blocks is None:
            return self._position
        return LogPosition(self._file.signature, self._blocks.position)

    def next_rows(self) -> list[Row] | None:
        """Return new rows of some blocks, or None at the end. The list is empty if the blocks have no new row."""
        blocks = self._next_blocks(_ROW_BYTES)
        self._file_clock = None
        return self._fresh(self._decoded(blocks, _rows)) if blocks else None

    def next_parts(self) -> list[PlainRun | list[Row]] | None:
        """Return new rows of some blocks, plain transactions as runs, or None at the end."""
        blocks = self._next_blocks(_ROW_BYTES)
        self._file_clock = None
        if not blocks:
            return None
        vclock = self.vclock
        parts: list[PlainRun | list[Row]] = []
        for part in self._decoded(blocks, parts_of):
            if isinstance(part, PlainRun) and part.lsns[0] > vclock[part.replica_id]:
                vclock[part.replica_id] = part.lsns[-1]
                parts.append(part)
            else:
                parts.append(self._fresh(part if isinstance(part, list) else part.rows()))
        return parts

    def next_runs(self) -> list[PacketRun] | None:
        """Return new rows of some blocks as packets, or None at the end or at `limit`."""
        blocks = [] if self._is_at_limit else self._next_blocks(_RUN_BYTES)
        if not blocks:
            return None
        runs = packet_runs(blocks[0] if len(blocks) == 1 else b"".join(blocks))
        # A copy: the limit grows meanwhile, and must not let a later run pass after it has cut off an earlier one.
        limit = None if self._limit is None else self._limit.copy()
        if limit is not None and any(run.last > limit[run.replica_id] for run in runs):
            self._is_at_limit = True
            runs = [part for run in runs if (part := run.up_to(limit[run.replica_id])) is not None]
        else:
            self._note(runs)
        return fresh_runs(runs, self.vclock)

    def _note(self, runs: list[PacketRun]) -> None:
        """Note the vclock after these rows of a file that is read from its start."""
        clock, index, file, blocks = self._file_clock, self._index, self._file, self._blocks
        if clock is None or index is None or file is None or blocks is None:
            return
        clock = self._file_clock = clock.copy()
        for run in runs:
            if run.last > clock[run.replica_id]:
                clock[run.replica_id] = run.last
        index.note(file.signature, blocks.position, clock)

    def _next_blocks(self, size: int) -> list[bytes]:
        """Return the rows of the next blocks, opening the next file if necessary; see `BlockReader.next_blocks`."""
        if self._failure is not None:
            raise self._failure
        if self._blocks is None and not self._open_first():
            return []
        while True:
            assert self._blocks is not None
            blocks = self._blocks.next_blocks(size)
            if blocks:
                return blocks
            if self._following is None:
                # The writer ends a file before it creates the next one. Once there is a next one, this file is final,
                # but its last rows may have been written after the read above, so that it is read to its end once more.
                self._following = self._find_next()
                if self._following is None:
                    return []
            else:
                self._step(self._following)

    def _decoded(self, blocks: list[bytes], decode: Callable[[list[bytes]], list[T]]) -> list[T]:
        """Decode blocks together, or one by one if a row is malformed.

        The rows before a malformed one still count: its error is raised by the next read, unless it is in the first
        block.
        """
        if len(blocks) > 1:
            try:
                return decode(blocks)
            except XlogError:
                pass
        decoded: list[T] = []
        for number, block in enumerate(blocks):
            try:
                decoded += decode([block])
            except XlogError as error:
                if self._directory.force_recovery:
                    self._log.error(f"can't decode row: {error.message}")
                    continue
                self._failure = error
                if not number:
                    raise
                break
        return decoded

    def _fresh(self, rows: list[Row]) -> list[Row]:
        """Return the rows later than the vclock, and move the vclock past them."""
        vclock, before = self.vclock, self._before
        fresh = []
        for row in rows:
            if row.lsn > vclock[row.replica_id]:
                vclock[row.replica_id] = row.lsn
                fresh.append(row)
            else:
                before[row.replica_id] = row.lsn
        return fresh

    @property
    def lacks_rows(self) -> bool:
        """True if the files, read to their end, end before the `vclock` at which reading began.

        The next row written then follows a gap. That happens after a new join, and if a snapshot is durable but the log
        is not.
        """
        return self._file is not None and any(
            self.vclock[origin_id] == lsn > max(self._before.get(origin_id, 0), self._file.vclock[origin_id])
            for origin_id, lsn in self._begin.items()
            if origin_id
        )

    def _open_first(self) -> bool:
        self._directory.scan()
        if self._position is not None:
            signature = self._position.signature
            file = next((file for file in self._directory.files if file.signature == signature), None)
            if file is not None:
                self._open(file)
                self._seek(self._position.offset)
                return True
        file = self._directory.match(self.vclock)
        if file is None:
            return False
        self._heed(gap_before(file, self.vclock))
        self._open(file)
        return True

    def _find_next(self) -> LogFile | None:
        assert self._file is not None
        following = self._directory.after(self._file)
        if following is None and self.looks_for_files:
            self._directory.scan()
            following = self._directory.after(self._file)
        return following

    def _step(self, following: LogFile) -> None:
        assert self._file is not None
        self._heed(gap_between(self._file, following, self.vclock))
        self.finish()
        self._following = None
        self._open(following)

    def _open(self, file: LogFile) -> None:
        directory = self._directory
        self._blocks = BlockReader(
            directory.storage,
            file.path,
            force_recovery=directory.force_recovery,
            counted_only=self._counted_only,
            log=self._log,
            errinj=self._errinj,
        )
        self._blocks.read_meta()
        self._file = file
        if not self._is_reopening:
            self._log.info(f"recover from `{file.path}'")
        self._is_reopening = False
        if self._index is not None:
            offset = self._index.find(file.signature, self.vclock)
            self._file_clock = file.vclock
            if offset is not None:
                self._seek(offset)
        # This is done even if the previous file ended early, so that the next search starts after this file and does
        # not find it again.
        if file.vclock.covers(self.vclock):
            self.vclock.merge_max(file.vclock)

    def _seek(self, offset: int) -> None:
        """Continue at a block of the file that was just opened."""
        assert self._blocks is not None
        self._blocks.seek(offset)
        self._file_clock = None

    def _heed(self, gap: XlogGapError | None) -> None:
        """Raise the error of a gap, or log it with `force_recovery`."""
        if gap is None:
            return
        if not self._directory.force_recovery:
            raise gap
        self._log.error(gap.message)
        self._log.warn("ignoring a gap in LSN")

    def finish(self) -> None:
        """Close a file that was read to its end, and log how it ended."""
        if self._blocks is None:
            return
        if self._blocks.eof:
            self._log.info(f"done `{self._blocks.path}'")
        else:
            self._log.warn(f"file `{self._blocks.path}` wasn't correctly closed")
        self.close()

    def close(self) -> None:
        """Close the open file, if any."""
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None


def _rows(blocks: list[bytes]) -> list[Row]:
    """Return the rows of blocks.

    Raises:
        XlogError: a row is malformed.
    """
    return decode_rows(b"".join(blocks))


def parts_of(blocks: list[bytes]) -> list[PlainRun | list[Row]]:
    """Return the rows of blocks, plain transactions as runs, as many as possible with `starts`.

    Raises:
        XlogError: a row is malformed.
    """
    block = b"".join(blocks)
    if (run := split_block(block)) is not None:
        return [run]
    if len(blocks) == 1 or len(block) < _SMALL:
        return plain_runs(block)
    half = len(blocks) // 2
    return parts_of(blocks[:half]) + parts_of(blocks[half:])
