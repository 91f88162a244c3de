"""Replies on their way: large ones are sent in pieces, with the rows of the moment when they were made."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

from box.errors import ErrorCode
from box.iproto import output
from box.iproto.output import LargeReply, Output
from box.wire.error import decode_error_body
from box.wire.packet import packet_bounds
from box.wire.reply import reply_tuples
from box.wire.row import decode_row


class Transport:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return False


def output_to(transport: Any) -> Output:
    made = Output([0])
    made.transport = transport
    return made


def rows_of(sizes: list[int]) -> list[bytes]:
    return [bytes([number % 256]) * size for number, size in enumerate(sizes)]


def pieces_of(reply: LargeReply) -> list[bytes]:
    found = []
    while (piece := reply.next_piece()) is not None:
        found.append(piece)
    return [piece for piece in found if piece]


SHAPES = {
    "equal": [40] * 100_000,
    "empty": [0] * 20_000,
    "large": [300_000] * 5,
    "one large": [30_000_000],
    "large at the end": [20] * 50_000 + [500_000] * 6,
    "large at the beginning": [500_000] * 6 + [20] * 50_000,
    "mixed": [random.Random(1).choice((1, 10, 1000, 100_000)) for _ in range(3000)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_are_the_reply(shape: str) -> None:
    """The pieces together are the whole reply, and none is much larger than it must be."""
    rows = rows_of(SHAPES[shape])
    pieces = pieces_of(LargeReply(7, 77, list(rows)))
    assert b"".join(pieces) == reply_tuples(7, 77, rows)
    assert all(len(piece) <= max(400_000, max(map(len, rows))) for piece in pieces)


def test_more_than_a_packet_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply whose length needs more than 32 bits is an error of the protocol."""
    monkeypatch.setattr(output, "_SIZE_MAX", 1_000_000)
    data = b"".join(pieces_of(LargeReply(7, 77, rows_of([40] * 50_000))))
    start, end = packet_bounds(data, 0)
    assert end == len(data)
    reply = decode_row(data[start:end])
    error = decode_error_body(reply.type, reply.body)
    assert (reply.sync, error.code, error.message) == (
        7,
        ErrorCode.MEMORY_ISSUE,
        "Failed to allocate 2000000 bytes in obuf for reply",
    )


def test_nothing_stands_within_a_large_reply() -> None:
    """No reply is sent inside a large one: later ones follow it, earlier ones come before."""
    transport = Transport()
    out = output_to(transport)
    rows = rows_of([40] * 50_000)
    out.parts.append(b"before")
    assert not out.add_rows(7, 77, list(rows))
    steps = 0

    def may_go_on() -> bool:
        nonlocal steps
        steps += 1
        out.parts.append(b"+")
        out.flush()
        return steps % 3 != 0

    while not out.pump(may_go_on):
        pass
    data = b"".join(transport.written)
    assert data == b"before" + reply_tuples(7, 77, rows) + b"+" * steps
    assert not out.larges


def test_what_a_client_leaves_is_forgotten_in_steps() -> None:
    out = output_to(None)
    for _ in range(2):
        out.add_rows(7, 77, rows_of([40] * 50_000))
    steps = 0

    def may_go_on() -> bool:
        nonlocal steps
        steps += 1
        return False

    while not out.discard(may_go_on):
        pass
    assert steps > 5
    assert not out.larges


def test_a_reply_given_up_in_the_middle_leaves_no_garbage() -> None:
    """A large reply that is dropped frees its rows at once, without the garbage collector."""

    class Row(bytes):
        """A row whose instances are counted."""

        count = 0

        def __init__(self, content: bytes) -> None:
            Row.count += 1

        def __del__(self) -> None:
            Row.count -= 1

    out = output_to(transport := Transport())
    gc.disable()
    try:
        assert not out.add_rows(1, 77, [Row(bytes(100)) for _ in range(20_000)])
        while len(transport.written) < 2:
            out.pump(lambda: False)
        assert Row.count > 0
        while not out.discard(lambda: True):
            pass
        assert Row.count == 0
    finally:
        gc.enable()


def test_few_rows_gather() -> None:
    """Small replies of a few rows leave in one write and are counted."""
    transport = Transport()
    out = output_to(transport)
    replies = [rows_of([3] * count) for count in (0, 1, 2, 300)]
    for sync, rows in enumerate(replies):
        assert out.add_rows(sync, 77, rows)
    assert transport.written == []
    assert out.size >= sum(len(row) for rows in replies for row in rows)
    out.flush()
    assert transport.written == [b"".join(reply_tuples(sync, 77, rows) for sync, rows in enumerate(replies))]
    assert out.size == 0


def test_transport_that_closes_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = Transport()
    monkeypatch.setattr(transport, "is_closing", lambda: True)
    out = output_to(transport)
    out.parts.append(b"late")
    out.flush()
    assert (transport.written, out.parts) == ([], [])
