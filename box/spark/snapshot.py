"""The content of a snapshot file, found without a node: definitions of its spaces, ranges of blocks, and rows.

A snapshot is split at block boundaries. The planner walks from fixheader to fixheader (19 bytes a block), so that a
damaged file is noticed before any data is read, and no block is lost between two ranges.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgpack

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.journal import xlog
from box.journal.xlog_errors import XlogError
from box.wire.constants import Key

_SNAPSHOT_NAME: Final = re.compile(r"\d{20}\.snap")
_SPACE_ID, _INDEX_ID = 280, 288


@dataclass(frozen=True, slots=True)
class SpaceInfo:
    """A space as the snapshot defines it. `format` and `parts` are decoded rows of `_space` and `_index`:
    a list of field maps, and for each index part a pair of 0-based field number and type."""

    id: int
    name: str
    format: list[dict[str, Any]]
    parts: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Whole blocks of a file: offsets of the first byte and of the byte after the last."""

    start: int
    end: int


def newest_snapshot(directory: str | os.PathLike[str]) -> Path:
    """The snapshot with the greatest signature; unfinished ones (`.inprogress`) do not count.

    Raises SYSTEM for a directory that cannot be read, MISSING_SNAPSHOT where there is none.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if _SNAPSHOT_NAME.fullmatch(name))
    except OSError as error:
        text = f"can't read directory {os.fspath(directory)}: {error.strerror}"
        raise BoxError(ErrorCode.SYSTEM, text, type="SystemError", errno=error.errno or 0) from error
    if not names:
        raise client_error(ErrorCode.MISSING_SNAPSHOT)
    return Path(directory) / names[-1]


class Snapshot:
    """One file. `skip_corrupt` passes over blocks that cannot be read; otherwise the first of them raises XlogError."""

    def __init__(self, path: str | os.PathLike[str], *, skip_corrupt: bool = False) -> None:
        self.path = os.fspath(path)
        self._skip_corrupt = skip_corrupt

    def __repr__(self) -> str:
        return f"<Snapshot {self.path}>"

    # -- planning -------------------------------------------------------------------------------

    def blocks(self) -> Iterator[BlockRange]:
        """Every block of the file, one after another. A file without its EOF marker is cut off: XlogError."""
        with open(self.path, "rb") as file:
            position = self._meta_size(file.read(xlog.META_SIZE_MAX))
            size = os.fstat(file.fileno()).st_size
            while True:
                file.seek(position)
                head = file.read(xlog.FIXHEADER_SIZE)
                if head[: xlog.MARKER_SIZE] == xlog.EOF_MARKER:
                    return
                try:
                    header = xlog.decode_fixheader(head)
                    if header is None or position + xlog.FIXHEADER_SIZE + header.length > size:
                        raise XlogError("unexpected end of file")
                except XlogError as error:
                    if not self._skip_corrupt:
                        raise XlogError(f"{self.path}: {error.message} at {position}") from None
                    position = self._next_block(position + 1, size)
                    if position < 0:
                        return
                    continue
                end = position + xlog.FIXHEADER_SIZE + header.length
                yield BlockRange(position, end)
                position = end

    def _meta_size(self, head: bytes) -> int:
        found = xlog.Meta.decode(head)
        if found is None:
            raise XlogError(f"{self.path}: unexpected end of file")
        meta, size = found
        if meta.file_type != "SNAP":
            raise client_error(ErrorCode.INVALID_XLOG_TYPE, "SNAP", meta.file_type)
        return size

    def _next_block(self, start: int, size: int) -> int:
        with open(self.path, "rb") as file:
            file.seek(start)
            data = file.read(size - start)
        found = next(xlog.find_blocks(data), None)
        return -1 if found is None else start + found[0]

    def partitions(self, count: int) -> list[BlockRange]:
        """At most `count` ranges of about the same size that hold all blocks, in the order of the file."""
        blocks = list(self.blocks())
        if not blocks:
            return []
        share = sum(block.end - block.start for block in blocks) / max(1, count)
        ranges: list[BlockRange] = []
        taken = 0.0
        first = blocks[0]
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            taken += block.end - block.start
            is_gap = following is not None and following.start != block.end
            if following is None or is_gap or taken >= share * (len(ranges) + 1):
                ranges.append(BlockRange(first.start, block.end))
                first = following or block
        return ranges

    # -- reading --------------------------------------------------------------------------------

    def _payloads(self, wanted: BlockRange) -> Iterator[bytes]:
        """The decoded rows of each block of a range."""
        with open(self.path, "rb") as file:
            file.seek(wanted.start)
            position = wanted.start
            while position < wanted.end:
                header = xlog.decode_fixheader(file.read(xlog.FIXHEADER_SIZE))
                if header is None:
                    raise XlogError(f"{self.path}: unexpected end of file at {position}")
                stored = file.read(header.length)
                try:
                    yield xlog.decode_data(header, stored)
                except XlogError as error:
                    if not self._skip_corrupt:
                        raise XlogError(f"{self.path}: {error.message} at {position}") from None
                position += xlog.FIXHEADER_SIZE + header.length

    def tuples(
        self, space_id: int, wanted: BlockRange, ext_hook: Callable[[int, bytes], Any] = msgpack.ExtType
    ) -> Iterator[list[Any]]:
        """Decoded tuples of one space in a range of blocks."""
        for payload in self._payloads(wanted):
            yield from _tuples_of_block(payload, space_id, ext_hook)

    def space(self, name: str) -> SpaceInfo:
        """The definition of a space by name, or by id when the name is a number. Raises NO_SUCH_SPACE."""
        info = next((info for info in self.spaces() if name in (info.name, str(info.id))), None)
        if info is None:
            raise client_error(ErrorCode.NO_SUCH_SPACE, name)
        return info

    def spaces(self) -> list[SpaceInfo]:
        """All spaces. System spaces come first in a snapshot, so that only its beginning is decoded."""
        rows: dict[int, list[Any]] = {}
        parts: dict[int, list[tuple[int, str]]] = {}
        for block in self.blocks():
            largest = 0
            for payload in self._payloads(block):
                for space_id, raw in raw_rows(payload):
                    largest = max(largest, space_id)
                    if space_id == _SPACE_ID:
                        definition = unpack(raw)
                        rows[definition[0]] = definition
                    elif space_id == _INDEX_ID:
                        index = unpack(raw)
                        parts.setdefault(index[0], []).extend(_parts_of(index[5]))
            if largest > _INDEX_ID and _SPACE_ID in rows:
                break
        return [
            SpaceInfo(space_id, row[2], row[6] if len(row) > 6 else [], parts.get(space_id, []))
            for space_id, row in sorted(rows.items())
        ]


def _parts_of(parts: list[Any]) -> list[tuple[int, str]]:
    """Field numbers and types of index parts in either notation: `[0, "unsigned"]` or a map."""
    pairs = ((part["field"], part["type"]) if isinstance(part, dict) else (part[0], part[1]) for part in parts)
    return [(int(field), str(kind)) for field, kind in pairs]


def raw_rows(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Space id and tuple bytes of every row of a block that has both; other rows (raft, limbo) are passed over."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(payload)
    end = len(payload)
    while unpacker.tell() < end:
        unpacker.skip()
        space_id, raw = -1, b""
        for _ in range(unpacker.read_map_header()):
            key = unpacker.unpack()
            start = unpacker.tell()
            if key == Key.SPACE_ID:
                space_id = unpacker.unpack()
                continue
            unpacker.skip()
            if key == Key.TUPLE:
                raw = payload[start : unpacker.tell()]
        if space_id >= 0:
            yield space_id, raw


def _tuples_of_block(payload: bytes, space_id: int, ext_hook: Callable[[int, bytes], Any]) -> Iterator[list[Any]]:
    unpacker = msgpack.Unpacker(
        raw=False, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=ext_hook, max_buffer_size=0
    )
    unpacker.feed(payload)
    skip, unpack_one, read_map_header, tell = unpacker.skip, unpacker.unpack, unpacker.read_map_header, unpacker.tell
    end = len(payload)
    while tell() < end:
        skip()
        fields: list[Any] | None = None
        is_wanted = False
        for _ in range(read_map_header()):
            key = unpack_one()
            if key == Key.SPACE_ID:
                is_wanted = unpack_one() == space_id
            elif key == Key.TUPLE and is_wanted:
                fields = unpack_one()
            else:
                skip()
        if fields is not None:
            yield fields
