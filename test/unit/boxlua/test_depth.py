"""Deeply nested tuples: one limit when they are stored, and everything stored can be read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from box.data.codec import pack, unpack
from box.data.deep import MAX_NESTING, DeepUnpacker, end_of
from box.errors import BoxError, ErrorCode
from box.journal.rows import decode_rows
from box.wire.body import walk
from box.wire.row import Row, decode_row, encode_row, is_msgpack

from .box_support import Box, Run

PEER_DEPTH = 5000
NESTED = """
    function nested(depth)
        local tuple = box.tuple.new{1}
        for _ = 2, depth do tuple = box.tuple.new{1, tuple} end
        return tuple
    end
    function depth(tuple)
        local level, value = 0, tuple
        while value do level, value = level + 1, value[2] end
        return level
    end
"""
DEEP = "MessagePack does not support more than 5100 arrays and maps inside each other"


def _nested(depth: int, inner: bytes = b"\x01") -> bytes:
    return b"\x91" * depth + inner


def test_what_is_stored_is_found_again_after_a_restart(run: Run, tmp_path: Path) -> None:
    """The deepest allowed tuple is read from the log, from a snapshot, by every statement, and as text."""

    async def fill(box: Box) -> None:
        await box(NESTED + "s = box.schema.space.create('s') s:create_index('pk') s:format{{'id', 'unsigned'}}")
        await box("s:insert{1, nested(...)} box.snapshot()", PEER_DEPTH)
        await box("s:insert{2, nested(...)} s:update(2, {{'=', 3, 'x'}}) s:upsert({2}, {{'=', 4, 'y'}})", PEER_DEPTH)
        assert await box("return depth(s:get(1)[2]), depth(s:get(2)[2]), s:get(2)[4]") == [PEER_DEPTH, PEER_DEPTH, "y"]

    async def look(box: Box) -> None:
        await box(NESTED + "s = box.space.s")
        assert await box("return depth(s:get(1)[2]), #s:select(), #tostring(s:get(2)) > 20000") == [PEER_DEPTH, 2, True]
        assert await box("return s:get(2)[4], s:get(1)['[2][2][2][1]'], s:delete(1)[1]") == ["y", 1, 1]

    run(fill, tmp_path, wal_mode="write")
    run(look, tmp_path, wal_mode="write")


def test_what_is_nested_deeper_is_refused_where_it_comes_in(run: Run) -> None:
    """Statements and updates refuse deeper values and store nothing."""

    async def body(box: Box) -> None:
        await box(NESTED + "s = box.schema.space.create('s') s:create_index('pk') s:insert{1}")
        for statement in (
            "s:insert{2, nested(...)}",
            "s:replace{1, nested(...)}",
            "s:update(1, {{'=', 2, nested(...)}})",
        ):
            assert await box.fails(statement, MAX_NESTING) == DEEP, statement
        assert await box("return s:len(), #s:get(1)") == [1, 1]
        await box("s:insert{2, nested(...)}", MAX_NESTING - 1)

    run(body)


def test_clients_may_send_and_get_what_is_nested(run: Run, tmp_path: Path) -> None:
    """Clients send and get the deepest tuples; beyond the limit they get an error, and the connection stays."""

    async def body(box: Box) -> None:
        path = str(tmp_path / "socket")
        await box("box.cfg{listen = ...} box.schema.user.grant('guest', 'super')", path)
        await box("box.schema.space.create('s', {id = 512}):create_index('pk')")
        reader, writer = await asyncio.open_unix_connection(path)
        await reader.readexactly(128)

        async def request(kind: int, raw: bytes) -> tuple[int, bytes]:
            packet = pack({0: kind, 1: 1}) + raw
            writer.write(b"\xce" + len(packet).to_bytes(4, "big") + packet)
            size = int.from_bytes((await reader.readexactly(5))[1:], "big")
            reply = await reader.readexactly(size)
            header_end = end_of(reply, 0)
            return unpack(reply[:header_end])[0], reply[header_end:]

        insert = b"\x82\x10\xcd\x02\x00\x21\x92"
        assert (await request(2, insert + b"\x01" + _nested(PEER_DEPTH)))[0] == 0
        code, answer = await request(2, insert + b"\x02" + _nested(MAX_NESTING + 1))
        assert (code & 0xFFF, DEEP.encode() in answer) == (ErrorCode.UNSUPPORTED, True)
        code, answer = await request(1, pack({0x10: 512, 0x11: 0, 0x12: 10, 0x20: []}))
        assert (code, _nested(PEER_DEPTH) in answer) == (0, True)
        writer.close()

    run(body)


def test_requests_are_checked_and_taken_apart() -> None:
    assert is_msgpack(_nested(PEER_DEPTH))
    assert not is_msgpack(_nested(PEER_DEPTH, b""))
    request = b"\x82\x10\xcd\x02\x00\x21" + _nested(PEER_DEPTH)
    assert dict(walk(request)) == {0x10: b"\xcd\x02\x00", 0x21: _nested(PEER_DEPTH)}
    for check in (is_msgpack, unpack, lambda raw: list(walk(b"\x81\x21" + raw))):
        with pytest.raises(BoxError, match=DEEP) as caught:
            check(_nested(MAX_NESTING + 100))
        assert caught.value.code == ErrorCode.UNSUPPORTED


def test_what_is_around_a_tuple_does_not_count() -> None:
    """The nesting of a request around the tuple does not count."""
    tuple_ = _nested(MAX_NESTING)
    row = Row(2, 1, 7, 1.5, body=b"\x82\x10\xcd\x02\x00\x21" + tuple_)
    assert unpack(tuple_)
    assert is_msgpack(row.body)
    assert dict(walk(row.body))[0x21] == tuple_
    packet = encode_row(row)
    assert decode_row(packet).body == decode_rows(packet)[0].body == row.body
    with pytest.raises(BoxError, match=DEEP):
        unpack(_nested(MAX_NESTING + 1))


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_deepest_that_is_taken_is_found_after_a_restart(run: Run, tmp_path: Path, snapshot: bool) -> None:
    async def fill(box: Box) -> None:
        await box(NESTED + "s = box.schema.space.create('s') s:create_index('pk')")
        assert await box.fails("s:insert{1, nested(...)}", MAX_NESTING) == DEEP
        await box("s:insert{1, nested(...)} s:replace{2, 1} s:update(2, {{'=', 3, 'x'}})", MAX_NESTING - 1)
        if snapshot:
            await box("box.snapshot()")

    async def look(box: Box) -> None:
        await box(NESTED)
        assert await box("return depth(box.space.s:get(1)[2]), box.space.s:len()") == [MAX_NESTING - 1, 2]

    run(fill, tmp_path, wal_mode="write")
    run(look, tmp_path, wal_mode="write")


def test_both_directions_of_the_codec_go_as_deep() -> None:
    arrays, maps = _nested(MAX_NESTING), b"\x81\xa1k" * MAX_NESTING + b"\xcb" + bytes(8)
    mixed = b"\x92\x01\x82\xa1a\x93\x01\x02\x03\xa1b" * (MAX_NESTING // 2 - 1) + b"\xc0"
    for raw in (arrays, maps, mixed):
        assert pack(unpack(raw)) == raw
        assert end_of(raw, 0) == len(raw)


def test_the_stand_in_reads_as_the_extension_does() -> None:
    raw = b"\x82\x00\x02\x93\x01\xa1x\xc0" + _nested(2000) + b"\x07"
    unpacker = DeepUnpacker(raw)
    assert unpacker.read_map_header() == 2
    assert [unpacker.unpack(), unpacker.unpack(), unpacker.unpack()] == [0, 2, [1, b"x", None]]
    unpacker.skip()
    assert (unpacker.tell(), unpacker.read_bytes(1)) == (len(raw) - 1, b"\x07")
    with pytest.raises((ValueError, IndexError)):
        unpacker.skip()
