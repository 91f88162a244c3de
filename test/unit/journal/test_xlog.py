"""The format of log files: header, blocks, markers, and errors in each of them."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.journal.xlog import (
    EOF_MARKER,
    FIXHEADER_SIZE,
    ROW_MARKER,
    ZSTD_MARKER,
    BlockEncoder,
    Meta,
    XlogDecoder,
    checksum,
    decode_block,
    find_blocks,
    fixheader,
)
from box.journal.xlog_errors import XlogError
from box.wire.vclock import VClock

from .helpers import UUID_1

META = Meta("XLOG", UUID_1, VClock({1: 12}), VClock({1: 3}))
PEER_BLOCK = bytes.fromhex(
    "d5ba0bab2800ceab9d40c1a700000000000000"
    "8400040201030104cb41dac03b4f01bbc48410cd011015012091a66d61785f69642191 93a12b0201".replace(" ", "")
)
"""A block with one row as Tarantool wrote it: an UPDATE of _schema at the start of a new log."""


def blocks_of(data: bytes, step: int = 1 << 20) -> tuple[list[bytes], XlogDecoder]:
    """Decode all blocks of a file that is fed `step` bytes at a time."""
    decoder, blocks = XlogDecoder(), []
    for start in range(0, len(data), step):
        decoder.feed(data[start : start + step])
        while (block := decoder.next_block()) is not None:
            blocks.append(block)
    return blocks, decoder


def test_meta_is_what_tarantool_writes() -> None:
    """The header has file type, version and keys in Tarantool's order, and an empty line."""
    assert META.encode() == (
        b"XLOG\n0.13\nVersion: 2.8.1-0-g0000000\nInstance: 11111111-1111-1111-1111-111111111111\n"
        b"VClock: {1: 12}\nPrevVClock: {1: 3}\n\n"
    )
    assert Meta("SNAP", UUID_1, VClock()).encode().endswith(b"\nVClock: {}\n\n")


def test_meta_is_read_back() -> None:
    """A header is read from its first byte to its end, whatever follows; without its end it is incomplete."""
    raw = META.encode()
    assert Meta.decode(raw + b"rest") == (META, len(raw))
    assert Meta.decode(raw[:-1]) is None


def test_meta_of_version_0_12() -> None:
    """A header of version 0.12 has `Server` in place of `Instance`; unknown keys are skipped."""
    found = Meta.decode(
        b"SNAP\n0.12\nServer: 11111111-1111-1111-1111-111111111111\nVClock: {1: 5, 2: 7}\nColour: red\n\n"
    )
    assert found is not None
    assert (found[0].version, found[0].instance_uuid, found[0].vclock) == ("0.12", UUID_1, VClock({1: 5, 2: 7}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("XLOGXLOGXLOG\n0.13\n\n", "failed to parse xlog type string"),
        ("XLOG\n0.13-long-version\n\n", "failed to parse xlog version string"),
        ("XLOG\n0.14\n\n", "unsupported file format version 0.14"),
        ("XLOG\n0.13\nInstance\n\n", "can't extract meta value"),
        ("XLOG\n0.13\nInstance: 1\nVClock: {}\n\n", "can't parse instance UUID"),
        (f"XLOG\n0.13\nInstance: {UUID_1}\nVClock: {{1: x}}\n\n", "can't parse vclock"),
        ("x" * 5000, "failed to parse xlog type string"),
    ],
)
def test_wrong_meta(text: str, message: str) -> None:
    """Each kind of wrong header has an error text of its own."""
    with pytest.raises(XlogError, match=message):
        Meta.decode(text.encode())


def test_a_small_block_is_plain_and_identical_to_tarantools() -> None:
    """A small block is not compressed, and has the bytes that Tarantool writes."""
    assert BlockEncoder().encode(PEER_BLOCK[FIXHEADER_SIZE:]) == PEER_BLOCK
    assert decode_block(PEER_BLOCK) == (PEER_BLOCK[FIXHEADER_SIZE:], len(PEER_BLOCK))


def test_a_block_of_two_kilobytes_is_compressed() -> None:
    """A block of two kilobytes, its header included, is compressed, unless the encoder has no compression."""
    rows = b"\x90" * (2048 - FIXHEADER_SIZE)
    assert BlockEncoder().encode(rows[:-1]).startswith(ROW_MARKER)
    block = BlockEncoder().encode(rows)
    assert block.startswith(ZSTD_MARKER)
    assert decode_block(block) == (rows, len(block))
    assert BlockEncoder(compress=False).encode(rows).startswith(ROW_MARKER)


@pytest.mark.parametrize("length", [0, 127, 128, 255, 256, 65535, 65536, 2**31])
def test_the_fixheader_always_takes_19_bytes(length: int) -> None:
    """The header of a block takes 19 bytes, whatever the width of its numbers."""
    assert len(fixheader(ROW_MARKER, length, 0)) == FIXHEADER_SIZE
    assert len(fixheader(ROW_MARKER, length, 0xFFFFFFFF)) == FIXHEADER_SIZE


@given(st.lists(st.binary(min_size=1, max_size=3000), max_size=5), st.integers(1, 5000), st.booleans())
def test_what_is_written_is_read_in_pieces_of_any_size(rows: list[bytes], step: int, closed: bool) -> None:
    """The decoder gives the same blocks for pieces of any size."""
    encoder = BlockEncoder()
    data = META.encode() + b"".join(map(encoder.encode, rows)) + (EOF_MARKER if closed else b"")
    blocks, decoder = blocks_of(data, step)
    assert (blocks, decoder.meta, decoder.eof, decoder.position) == (rows, META, closed, len(data))


@given(
    st.lists(st.one_of(st.binary(min_size=1, max_size=300), st.binary(min_size=2000, max_size=3000)), max_size=12),
    st.integers(1, 4000),
    st.integers(1, 2000),
)
def test_several_blocks_at_once(rows: list[bytes], step: int, size: int) -> None:
    """Blocks that are read together are those that are read one by one, and stop after the asked size."""
    encoder = BlockEncoder()
    data = META.encode() + b"".join(map(encoder.encode, rows)) + EOF_MARKER
    decoder, found = XlogDecoder(), []
    for start in range(0, len(data), step):
        decoder.feed(data[start : start + step])
        while blocks := decoder.next_blocks(size):
            assert sum(map(len, blocks[:-1])) < size
            found += blocks
    assert (found, decoder.eof, decoder.position) == (rows, True, len(data))


def test_a_broken_block_among_several() -> None:
    """Those before a broken block are returned, and its error is raised by the next call."""
    decoder = XlogDecoder()
    decoder.feed(META.encode() + PEER_BLOCK * 3 + PEER_BLOCK[:-1] + b"\x00" + PEER_BLOCK)
    assert decoder.next_blocks(1 << 20) == [PEER_BLOCK[FIXHEADER_SIZE:]] * 3
    for _ in range(2):
        with pytest.raises(XlogError, match="tx checksum mismatch"):
            decoder.next_blocks(1 << 20)
    assert decoder.skip()
    assert decoder.next_blocks(1 << 20) == [PEER_BLOCK[FIXHEADER_SIZE:]]


def test_a_torn_block_is_waited_for() -> None:
    """The decoder waits for the rest of a block that is cut at any byte, and gives the blocks before it."""
    whole = META.encode() + PEER_BLOCK
    for cut in range(len(PEER_BLOCK)):
        blocks, decoder = blocks_of(whole + PEER_BLOCK[:cut])
        assert len(blocks) == 1
        assert decoder.position == len(whole)
        assert not decoder.eof


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"\x00" * 40, "invalid magic: 0x0"),
        (PEER_BLOCK[:-1] + b"\x00", "tx checksum mismatch"),
        (ROW_MARKER + b"\xa1" + PEER_BLOCK[5:], "broken fixheader length"),
        (ROW_MARKER + b"\xcf" + b"\xff" * 8 + b"\x00\x00" + b"\x00" * 10, "too large fixheader length"),
        (PEER_BLOCK[:5] + b"\xc0" + PEER_BLOCK[6:], "broken fixheader crc32p"),
        (PEER_BLOCK[:6] + b"\xc0" + PEER_BLOCK[7:], "broken fixheader crc32c"),
        (PEER_BLOCK[:11] + b"\xa1" + PEER_BLOCK[12:], "broken fixheader padding"),
        (fixheader(ZSTD_MARKER, 4, checksum(b"abcd")) + b"abcd", "Decompression error"),
    ],
)
def test_wrong_blocks(block: bytes, message: str) -> None:
    """Each kind of damage in a block has an error of its own."""
    with pytest.raises(XlogError, match=message):
        decode_block(block)


def test_data_after_the_eof_marker() -> None:
    """Data after the end marker is an error, in the same piece or in a later one."""
    data = META.encode() + PEER_BLOCK + EOF_MARKER
    with pytest.raises(XlogError, match="has some data after eof marker"):
        blocks_of(data + b"x")
    with pytest.raises(XlogError, match="has some data after eof marker"):
        blocks_of(data + b"x", len(data))


def test_skip_goes_to_the_next_block() -> None:
    """`skip` continues after a damaged block, as force_recovery needs it."""
    damaged = PEER_BLOCK[:-1] + b"\x00"
    decoder = XlogDecoder()
    decoder.feed(META.encode() + damaged + PEER_BLOCK + EOF_MARKER)
    with pytest.raises(XlogError):
        decoder.next_block()
    assert decoder.skip()
    assert decoder.next_block() == PEER_BLOCK[FIXHEADER_SIZE:]
    assert decoder.next_block() is None
    assert decoder.eof


def test_blocks_are_found_from_any_offset() -> None:
    """A reader that starts at any offset finds exactly the blocks that begin there or later."""
    encoder = BlockEncoder()
    noise = ROW_MARKER + os.urandom(40) + ZSTD_MARKER + os.urandom(30)
    data, starts = META.encode(), []
    for rows in (b"a" * 10, noise, b"b" * 5000, os.urandom(4000) + ROW_MARKER, b"c"):
        starts.append(len(data))
        data += encoder.encode(rows)
    data += EOF_MARKER
    for start in range(len(data)):
        assert [pos for pos, _ in find_blocks(data, start)] == [pos for pos in starts if pos >= start]
    middle = starts[2] + 1
    assert [pos for pos, _ in find_blocks(data, 0, middle)] == starts[:3]
    assert [pos for pos, _ in find_blocks(data, middle)] == starts[3:]
    assert sum(size for _, size in find_blocks(data)) == len(data) - len(META.encode()) - len(EOF_MARKER)
