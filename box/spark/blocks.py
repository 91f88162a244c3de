"""Reads blocks of snapshots and log files, and divides a file into shares for parallel readers.

A share begins where a block begins. The driver looks for a block near each of evenly spaced offsets: the first marker
that is followed by a whole block with a correct checksum (a marker may also occur inside compressed data). It reads one
or two blocks for each share and nothing in between. A reader goes from fixheader to fixheader and has to arrive exactly
at the end of its share, so that no block between two shares is lost or read twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple, Protocol

from box.errors import ErrorCode, client_error, system_error
from box.journal import xlog
from box.journal.xlog_errors import XlogError
from box.spark.paths import counted_size, open_file

_FILE_TYPES: Final = ("SNAP", "XLOG")
_WINDOW: Final = 1 << 18
"""The bytes that are read first to find a block; a block of a snapshot is rarely larger."""
SKIP_ADVICE: Final = (
    "to read the blocks that are intact, set the option onCorrupt to 'skip' (on the command line: --skip-corrupt)"
)
"""What errors about damaged files advise."""


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A range of whole blocks of a file: the offset of the first byte, and the offset after the last one."""

    start: int
    end: int


class Block(NamedTuple):
    """A block: its offset in the file, its decompressed rows, and the offset of its end in the file."""

    position: int
    rows: bytes
    end: int = 0


class SkipLog(Protocol):
    """A callback for blocks that a lenient reader skips: it gets file, offset, size in bytes (0: unknown) and
    reason."""

    def __call__(self, path: str, position: int, size: int, reason: str) -> None: ...


class _CutOffError(XlogError):
    """The file ends inside a block."""

    __slots__ = ()


class BlockFile:
    """One snapshot or log file, open for reading; a context manager.

    `meta` is decoded when the file is opened, and `data` is the range from the first block to the EOF marker.
    `file_type` is the type that the meta must have, None for both. Broken blocks are skipped and reported to `on_skip`
    if there is one. With `is_open` the file may still be written: then it ends after its last whole block.

    Raises:
        XlogError: the meta or, without `on_skip`, a block is broken; without `is_open` and `on_skip` also a missing EOF
            marker.
        BoxError: INVALID_XLOG_TYPE, the file has another type; SYSTEM, it cannot be opened.
    """

    def __init__(
        self, path: str, *, file_type: str | None = "SNAP", on_skip: SkipLog | None = None, is_open: bool = False
    ) -> None:
        self.path = path
        self._is_open = is_open
        self._on_skip = on_skip
        self._file: BinaryIO = open_file(path)
        try:
            self.size = counted_size(self._file) if is_open else self._file.seek(0, os.SEEK_END)
            self.meta, start = self._read_meta(file_type)
            self.data = BlockRange(start, self._find_end())
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> BlockFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def _read_meta(self, file_type: str | None) -> tuple[xlog.Meta, int]:
        try:
            found = xlog.Meta.decode(self._read(0, xlog.META_SIZE_MAX))
        except XlogError as error:
            raise self._error(error.message, 0) from None
        if found is None:
            raise self._error("unexpected end of file", self.size)
        if found[0].file_type not in (_FILE_TYPES if file_type is None else (file_type,)):
            raise client_error(ErrorCode.INVALID_XLOG_TYPE, file_type or "/".join(_FILE_TYPES), found[0].file_type)
        return found

    def _find_end(self) -> int:
        end = self.size - xlog.MARKER_SIZE
        if self._read(max(end, 0), xlog.MARKER_SIZE) == xlog.EOF_MARKER:
            return end
        if self._on_skip is None and not self._is_open:
            error = self._error("no EOF marker: the file is still being written, or was cut off", self.size)
            raise XlogError(f"{error.message}; {SKIP_ADVICE}")
        return self.size

    @property
    def is_cut_off(self) -> bool:
        """True if the file has no EOF marker."""
        return self.data.end == self.size

    def _read(self, position: int, size: int) -> bytes:
        try:
            self._file.seek(position)
            return self._file.read(size)
        except OSError as error:
            raise system_error(f"failed to read '{self.path}' file: {error.strerror}", error.errno or 0) from error

    def _error(self, text: str, position: int) -> XlogError:
        return XlogError(f"{self.path}: {text} at {position}")

    # -- dividing -------------------------------------------------------------------------------

    def first_block(self, position: int) -> int | None:
        """Return the offset of the first whole block at or after `position`, None if there is none."""
        window = _WINDOW
        while position < self.data.end:
            data = self._read(position, min(window, self.data.end - position))
            found = next(xlog.find_blocks(data), None)
            if found is not None:
                return position + found[0]
            if position + len(data) >= self.data.end:
                return None
            window *= 2
        return None

    def shares(self, count: int, wanted: BlockRange | None = None) -> list[BlockRange]:
        """Return at most `count` ranges of about equal size that together hold all blocks of `wanted` (None: of the
        file)."""
        start, end = (self.data.start, self.data.end) if wanted is None else (wanted.start, wanted.end)
        if start == end:
            return []
        starts = [start]
        for number in range(1, count):
            even = start + (end - start) * number // count
            if even <= starts[-1]:
                continue
            found = self.first_block(even)
            if found is None or found >= end:
                break
            if found > starts[-1]:
                starts.append(found)
        return [BlockRange(first, last) for first, last in zip(starts, [*starts[1:], end], strict=True)]

    # -- reading --------------------------------------------------------------------------------

    def blocks(self, wanted: BlockRange) -> Iterator[Block]:
        """Return the blocks of a range.

        Raises:
            XlogError: a block is broken and there is no `on_skip`; the text has file and offset.
        """
        position = wanted.start
        while position < wanted.end:
            try:
                rows, end = self._block(position, wanted.end)
            except XlogError as error:
                if self._is_open and isinstance(error, _CutOffError):
                    return
                if self._on_skip is None:
                    raise self._error(error.message, position) from None
                end = self._after_broken(position, wanted.end)
                self._on_skip(self.path, position, end - position, error.message)
            else:
                yield Block(position, rows, end)
            position = end

    def _block(self, position: int, limit: int) -> tuple[bytes, int]:
        """Return the rows of the block at `position` and the offset of its end."""
        header = xlog.decode_fixheader(self._read(position, xlog.FIXHEADER_SIZE))
        if header is None or position + xlog.FIXHEADER_SIZE + header.length > limit:
            raise _CutOffError("unexpected end of file")
        stored = self._read(position + xlog.FIXHEADER_SIZE, header.length)
        if len(stored) < header.length:
            raise _CutOffError("unexpected end of file")
        return xlog.decode_data(header, stored), position + xlog.FIXHEADER_SIZE + header.length

    def _after_broken(self, position: int, limit: int) -> int:
        found = self.first_block(position + 1)
        return limit if found is None else min(found, limit)
