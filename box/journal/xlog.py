r"""The log file format 0.13 (and 0.12 for reading), as pure functions on bytes.

```
file   = meta, block..., EOF marker                  a file that is still written, or whose writer died, has no EOF
meta   = "XLOG\n" | "SNAP\n" | ...                  file type
         "0.13\n"                                    format version
         "Version: 2.8.1-0-g0000000\n"                who wrote it, not interpreted
         "Instance: <uuid>\n"                        ("Server:" in 0.12)
         "VClock: {1: 12}\n"                         the state before the first row; its signature is the file's name
         "PrevVClock: {1: 3}\n"                      of the file before, not in the first one and not in snapshots
         "\n"
block  = marker (4), length (MP_UINT), crc32p (MP_UINT, 0), crc32c (MP_UINT), padding (MP_STR)    19 bytes together
         data (length bytes)                         rows, header map and body map each, without lengths;
                                                     one zstd frame after the second marker
marker = d5 ba 0b ab plain rows, d5 ba 0b ba zstd, d5 10 ad ed end of file
```

The checksum is CRC-32C of the data as stored, started with 0 and not inverted at the end. A transaction never crosses a
block. Sources: `xlog.c` of the 2.8 line, checked on files that Tarantool wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

import msgpack
import zstandard
from google_crc32c import extend

from box.journal.xlog_errors import XlogError
from box.wire.constants import BODY_LEN_MAX
from box.wire.first_bytes import FIXSTR
from box.wire.tarantool_version import PACKAGE_VERSION
from box.wire.vclock import VClock

ROW_MARKER: Final = b"\xd5\xba\x0b\xab"
ZSTD_MARKER: Final = b"\xd5\xba\x0b\xba"
EOF_MARKER: Final = b"\xd5\x10\xad\xed"
"""Each marker is an extension of two bytes (d5) in MessagePack, which is neither a row's header nor its body."""
MARKER_SIZE: Final = 4
FIXHEADER_SIZE: Final = 19
"""Room for the marker and three numbers of five bytes each. Shorter numbers are padded, so that the size is fixed."""

COMPRESS_THRESHOLD: Final = 2048
"""A block of at least this many bytes, including its fixheader, is compressed."""
BLOCK_SIZE: Final = 128 * 1024
"""A writer ends a block at the first end of a transaction after this many bytes of rows."""
META_SIZE_MAX: Final = 4096
"""A file whose meta is longer than this many bytes is not a log file."""

_COMPRESSION_LEVEL: Final = 3
"""The level of zstd that Tarantool uses, too."""
_NAME_SIZE: Final = 10
"""The size of Tarantool's fields for file type and format version, of which the final zero takes one byte."""
_MARKER_HEAD: Final = b"\xd5\xba\x0b"
"""The first three bytes of a block's marker. The fourth is ab for a plain block and ba for a compressed one."""
_AT_ONCE: Final = 1 << 26
"""The size up to which a block is decompressed to memory that its frame's header asks for, without growing it."""
_MARKER_TAILS: Final = (ROW_MARKER[3], ZSTD_MARKER[3])
_VERSIONS: Final = ("0.12", "0.13")
_CRC_MASK: Final = 0xFFFFFFFF
"""All bits of a checksum. The library inverts them before and after its work, which this undoes."""
_ZERO_CRC: Final = b"\x00"
"""The place for the checksum of the block before, which Tarantool never fills in either."""
_USUAL_LENGTHS: Final = range(0x10000)
"""The lengths that take at most three bytes, for which one call makes the fixheader."""
_BEFORE_CRC: Final = 0x00CE
"""The two bytes before the checksum, as one number: the place for that of the block before, and the mark of a checksum
of four bytes."""
_HEADER_U7: Final = struct.Struct(">4sBHIB7x")
_HEADER_U8: Final = struct.Struct(">4sBBHIB6x")
_HEADER_U16: Final = struct.Struct(">4sBHHIB5x")
"""The usual layouts of a fixheader, with a length of one, two or three bytes."""
_pack = msgpack.Packer().pack


def checksum(data: bytes) -> int:
    """Return the CRC-32C of data with start value 0 and without the final inversion."""
    crc: int = extend(_CRC_MASK, data)
    return crc ^ _CRC_MASK


# --- meta ---------------------------------------------------------------------------------------------------------


class Meta(NamedTuple):
    """The text at the start of a file. `file_type` is `XLOG` or `SNAP`; `version` is that of the format."""

    file_type: str
    instance_uuid: UUID
    vclock: VClock
    prev_vclock: VClock | None = None
    version: str = "0.13"
    server_version: str = PACKAGE_VERSION

    def encode(self) -> bytes:
        """Encode the meta, including the empty line at its end, in the newest version."""
        lines = [
            self.file_type,
            _VERSIONS[-1],
            f"Version: {self.server_version}",
            f"Instance: {self.instance_uuid}",
            f"VClock: {self.vclock}",
        ]
        if self.prev_vclock is not None:
            lines.append(f"PrevVClock: {self.prev_vclock}")
        return "\n".join([*lines, "", ""]).encode()

    @classmethod
    def decode(cls, data: bytes) -> tuple[Meta, int] | None:
        """Decode the meta. Returns it with its length, or None if `data` ends too early. Unknown keys are skipped.

        Raises:
            XlogError: the meta is malformed.
        """
        end = data.find(b"\n\n", 0, META_SIZE_MAX)
        if end < 0:
            if len(data) >= META_SIZE_MAX:
                raise XlogError("failed to parse xlog type string")
            return None
        lines = data[:end].decode("utf-8", "replace").split("\n")
        if len(lines[0]) >= _NAME_SIZE:
            raise XlogError("failed to parse xlog type string")
        if len(lines) < 2 or len(lines[1]) >= _NAME_SIZE:
            raise XlogError("failed to parse xlog version string")
        if lines[1] not in _VERSIONS:
            raise XlogError(f"unsupported file format version {lines[1]}")
        return cls._of_items(lines[0], lines[1], _meta_items(lines[2:])), end + 2

    @classmethod
    def _of_items(cls, file_type: str, version: str, items: dict[str, str]) -> Meta:
        uuid = items.get("Instance", items.get("Server"))
        try:
            instance_uuid = UUID(uuid or "")
        except ValueError:
            raise XlogError("can't parse instance UUID") from None
        vclock = _parse_vclock(items.get("VClock", "{}"))
        prev = _parse_vclock(items["PrevVClock"]) if "PrevVClock" in items else None
        return cls(file_type, instance_uuid, vclock, prev, version, items.get("Version", ""))


def _meta_items(lines: list[str]) -> dict[str, str]:
    items = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if not colon:
            raise XlogError("can't extract meta value")
        items[key] = value.strip(" \t")
    return items


def _parse_vclock(text: str) -> VClock:
    try:
        return VClock.parse(text)
    except ValueError:
        raise XlogError("can't parse vclock") from None


# --- writing ------------------------------------------------------------------------------------------------------


def fixheader(marker: bytes, length: int, crc: int) -> bytes:
    """Encode the 19 bytes before a block's data; a string of zero bytes pads the numbers to that size."""
    # Literals, as every write comes here: a length of one byte, or of two (cc) or three (cd), and a string of seven to
    # five bytes (a0 and its length) that fills the rest.
    if crc >= 0x10000 and length in _USUAL_LENGTHS:
        if length < 0x80:
            return _HEADER_U7.pack(marker, length, _BEFORE_CRC, crc, 0xA7)
        if length < 0x100:
            return _HEADER_U8.pack(marker, 0xCC, length, _BEFORE_CRC, crc, 0xA6)
        return _HEADER_U16.pack(marker, 0xCD, length, _BEFORE_CRC, crc, 0xA5)
    numbers: bytes = marker + _pack(length) + _ZERO_CRC + _pack(crc)
    padding = FIXHEADER_SIZE - len(numbers)
    # The mark of the padding string takes one byte of the padding itself.
    return numbers + bytes((FIXSTR | (padding - 1),)) + bytes(padding - 1) if padding else numbers


class BlockEncoder:
    """Makes blocks of rows. It keeps a compression context, so it belongs to one thread."""

    __slots__ = ("_compress", "_threshold")

    def __init__(self, *, compress: bool = True, level: int = _COMPRESSION_LEVEL) -> None:
        self._compress = zstandard.ZstdCompressor(level=level).compress
        self._threshold = COMPRESS_THRESHOLD - FIXHEADER_SIZE if compress else BODY_LEN_MAX

    def encode(self, rows: bytes) -> bytes:
        """Encode one block of encoded rows, which must not be empty."""
        marker, size = ROW_MARKER, len(rows)
        if size >= self._threshold:
            rows, marker = self._compress(rows), ZSTD_MARKER
            size = len(rows)
        return fixheader(marker, size, extend(_CRC_MASK, rows) ^ _CRC_MASK) + rows


# --- reading ------------------------------------------------------------------------------------------------------


class Fixheader(NamedTuple):
    """A decoded fixheader: whether the data is compressed, its length and its checksum."""

    compressed: bool
    length: int
    crc: int


def decode_fixheader(data: bytes, pos: int = 0) -> Fixheader | None:
    """Decode the fixheader at `pos`. Returns None if `data` ends too early.

    Raises:
        XlogError: the bytes are not a fixheader.
    """
    if len(data) - pos < FIXHEADER_SIZE:
        return None
    # The usual layouts, as `fixheader` makes them.
    mark = data[pos + MARKER_SIZE]
    if mark == 0xCD:
        marker, _, length, before, crc, padding = _HEADER_U16.unpack_from(data, pos)
        is_usual = padding == 0xA5
    elif mark == 0xCC:
        marker, _, length, before, crc, padding = _HEADER_U8.unpack_from(data, pos)
        is_usual = padding == 0xA6
    else:
        marker, length, before, crc, padding = _HEADER_U7.unpack_from(data, pos)
        is_usual = padding == 0xA7 and length < 0x80
    if is_usual and before == _BEFORE_CRC:
        if marker == ROW_MARKER:
            return Fixheader(False, length, crc)
        if marker == ZSTD_MARKER:
            return Fixheader(True, length, crc)
    return _decode_any_fixheader(data[pos : pos + FIXHEADER_SIZE])


def _decode_any_fixheader(raw: bytes) -> Fixheader:
    marker = raw[:MARKER_SIZE]
    if marker not in (ROW_MARKER, ZSTD_MARKER):
        raise XlogError(f"invalid magic: 0x{int.from_bytes(marker, 'little'):x}")
    unpacker = msgpack.Unpacker(raw=True)
    unpacker.feed(raw[MARKER_SIZE:])
    length = _fixheader_number(unpacker, "length")
    if length > BODY_LEN_MAX:
        raise XlogError("too large fixheader length")
    _fixheader_number(unpacker, "crc32p")
    crc = _fixheader_number(unpacker, "crc32c")
    free = FIXHEADER_SIZE - MARKER_SIZE - unpacker.tell()
    if free and raw[-free] != FIXSTR | (free - 1):
        raise XlogError("broken fixheader padding")
    return Fixheader(marker == ZSTD_MARKER, length, crc)


def _fixheader_number(unpacker: msgpack.Unpacker, what: str) -> int:
    try:
        value = unpacker.unpack()
    except (ValueError, msgpack.exceptions.UnpackException):
        value = None
    if type(value) is not int or value < 0:
        raise XlogError(f"broken fixheader {what}")
    return value


def decode_data(header: Fixheader, data: bytes, frames: zstandard.ZstdDecompressor | None = None) -> bytes:
    """Return the rows of a block from its stored bytes.

    `frames` decompresses them. A caller with many blocks gives the same object each time, because making one takes four
    times as long as a small block.

    Raises:
        XlogError: the checksum or the zstd frame is wrong.
    """
    if checksum(data) != header.crc:
        raise XlogError("tx checksum mismatch")
    if not header.compressed:
        return data
    frames = frames or zstandard.ZstdDecompressor()
    with suppress(zstandard.ZstdError):  # the stream below tells what is wrong
        if 0 < zstandard.frame_content_size(data) <= _AT_ONCE:
            return frames.decompress(data, allow_extra_data=False)
    decoder = frames.decompressobj()
    try:
        rows = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise XlogError(f"Decompression error: {error}") from None
    if not decoder.eof or decoder.unused_data:
        raise XlogError("invalid decompressed length")
    return rows


def decode_block(
    data: bytes, pos: int = 0, frames: zstandard.ZstdDecompressor | None = None
) -> tuple[bytes, int] | None:
    """Decode the block at `pos`. Returns its rows and the position after it, or None if `data` ends too early.

    `frames` is that of `decode_data`.

    Raises:
        XlogError: the marker, fixheader, checksum or zstd frame is wrong.
    """
    header = decode_fixheader(data, pos)
    if header is None:
        return None
    start = pos + FIXHEADER_SIZE
    end = start + header.length
    if end > len(data):
        return None
    return decode_data(header, data[start:end], frames), end


def find_marker(data: bytes, start: int = 0) -> int:
    """Return the position of the next block marker at or after `start`, or -1.

    A marker may also occur inside compressed data: only a block that decodes is a block.
    """
    while (pos := data.find(_MARKER_HEAD, start)) >= 0:
        if pos + 3 < len(data) and data[pos + 3] in _MARKER_TAILS:
            return pos
        start = pos + 1
    return -1


def find_blocks(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield `(position, size)` of every whole block that begins in `data[start:end]`, wherever `start` falls.

    A block may extend beyond `end`, up to the end of `data`. The first candidate must have a good checksum, which a
    marker inside compressed data does not have. Later blocks follow without a gap and are checked by their fixheaders.
    """
    stop = len(data) if end is None else end
    pos = _first_block(data, start, stop)
    while 0 <= pos < stop:
        try:
            header = decode_fixheader(data, pos)
        except XlogError:
            pos = _first_block(data, pos + 1, stop)
            continue
        if header is None or pos + FIXHEADER_SIZE + header.length > len(data):
            return
        size = FIXHEADER_SIZE + header.length
        yield pos, size
        pos += size
        if data[pos : pos + MARKER_SIZE] == EOF_MARKER:
            return


def _first_block(data: bytes, start: int, stop: int) -> int:
    pos = find_marker(data, start)
    while 0 <= pos < stop:
        try:
            header = decode_fixheader(data, pos)
        except XlogError:
            header = None
        if header is not None:
            body = data[pos + FIXHEADER_SIZE : pos + FIXHEADER_SIZE + header.length]
            if len(body) == header.length and checksum(body) == header.crc:
                return pos
        pos = find_marker(data, pos + 1)
    return -1


class XlogDecoder:
    """Decodes a file that arrives in pieces: `feed` bytes, call `next_block` until it returns None, feed more.

    `meta` is set as soon as its bytes are there. `eof` tells that the EOF marker was read. `position` is the offset in
    the file of the first byte not yet taken: after None without `eof` that is where a torn block (or nothing) begins.
    """

    __slots__ = ("_buffer", "_frames", "_name", "_pos", "_start", "eof", "meta")

    def __init__(self, name: str = "") -> None:
        """`name` is that of the file, for errors about its end."""
        self._name = name
        self._buffer = b""
        self._pos = 0
        self._start = 0
        self._frames: zstandard.ZstdDecompressor | None = None
        self.meta: Meta | None = None
        self.eof = False

    @property
    def position(self) -> int:
        return self._start + self._pos

    @property
    def pending(self) -> int:
        """The number of bytes fed but not yet decoded."""
        return len(self._buffer) - self._pos

    def _data_after_end(self) -> XlogError:
        where = f"{self._name}: " if self._name else ""
        return XlogError(f"{where}has some data after eof marker at {self.position}")

    def feed(self, data: bytes) -> None:
        """Append the next bytes of the file.

        Raises:
            XlogError: bytes follow the EOF marker.
        """
        if self.eof and data:
            raise self._data_after_end()
        self._start += self._pos
        self._buffer = self._buffer[self._pos :] + data
        self._pos = 0

    def jump(self, position: int) -> None:
        """Continue at the block that begins at `position`; the next `feed` must have the bytes from there."""
        self._buffer, self._pos, self._start = b"", 0, position

    def read_meta(self) -> Meta | None:
        """Return the meta, or None while bytes are missing.

        Raises:
            XlogError: the meta is malformed.
        """
        if self.meta is None and (found := Meta.decode(self._buffer)) is not None:
            self.meta, self._pos = found
        return self.meta

    def next_block(self) -> bytes | None:
        """Return the rows of the next block, or None if more bytes are needed or the file has ended.

        After an error the decoder stays at the broken block; `skip` passes over it.

        Raises:
            XlogError: the block is broken.
        """
        if self.eof or self.read_meta() is None:
            return None
        if self._buffer.startswith(EOF_MARKER, self._pos):
            if self.pending > MARKER_SIZE:
                raise self._data_after_end()
            self._pos += MARKER_SIZE
            self.eof = True
            return None
        self._frames = self._frames or zstandard.ZstdDecompressor()
        found = decode_block(self._buffer, self._pos, self._frames)
        if found is None:
            return None
        rows, self._pos = found
        return rows

    def next_blocks(self, size: int) -> list[bytes]:
        """Return the rows of the next blocks, each alone: one block at least, and more of them up to `size` bytes.

        The list is empty if more bytes are needed or the file has ended. An error in a block that is not the first is
        raised by the next call.

        Raises:
            XlogError: the first block is broken.
        """
        blocks: list[bytes] = []
        if self.eof or self.read_meta() is None:
            return blocks
        while size > 0:
            # A block of a short transaction, written out here: a log may consist of millions of them.
            buffer, pos = self._buffer, self._pos
            if len(buffer) - pos >= FIXHEADER_SIZE and buffer[pos + MARKER_SIZE] < 0x80:
                marker, length, before, crc, padding = _HEADER_U7.unpack_from(buffer, pos)
                rows = buffer[pos + FIXHEADER_SIZE : pos + FIXHEADER_SIZE + length]
                if (
                    marker == ROW_MARKER
                    and before == _BEFORE_CRC
                    and padding == 0xA7
                    and len(rows) == length
                    and extend(_CRC_MASK, rows) ^ _CRC_MASK == crc
                ):
                    self._pos = pos + FIXHEADER_SIZE + length
                    blocks.append(rows)
                    size -= length
                    continue
            try:
                block = self.next_block()
            except XlogError:
                if blocks:
                    break
                raise
            if block is None:
                break
            blocks.append(block)
            size -= len(block)
        return blocks

    def needed(self) -> int:
        """Return the least number of bytes that the next block still needs, or 0 if that is not known yet."""
        if self.meta is None or self.pending < FIXHEADER_SIZE:
            return 0
        header = decode_fixheader(self._buffer, self._pos)
        return 0 if header is None else max(0, FIXHEADER_SIZE + header.length - self.pending)

    def skip(self) -> bool:
        """Continue at the next marker after an error. Returns False, and drops all bytes, if there is none."""
        if self.meta is None:
            return False
        pos = find_marker(self._buffer, self._pos + 1)
        if pos >= 0:
            self._pos = pos
            return True
        # A marker of four bytes may begin in the last three.
        tail = self._buffer[self._pos + 1 :][-(MARKER_SIZE - 1) :]
        self._start += len(self._buffer) - len(tail)
        self._buffer, self._pos = tail, 0
        return False
