"""The replies of one connection on their way to the client, with a bound for those that wait.

Replies gather in `parts` and are sent in one write. The code that makes them calls `flush` when `size` exceeds
`FLUSH_SIZE`, and makes no more while the transport is full.

Making a large reply at once would block the loop and need the memory twice. So its rows, or the results of a function,
are kept as they are, and pieces of about `_PIECE` bytes are made and sent when the transport has room and the
connection has its turn. All rows were read at one moment, so that later changes do not affect the reply. Nothing else
is sent before it is complete.

```
add_rows   few rows      -> parts
           many rows     -> larges;  pump: lengths summed up, header, pieces of rows, the rest of the replies
add_read   rows to find  -> larges;  pump: the rows are found first
add_array  results       -> larges;  pump: header, slices of the body
```
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from box.errors import BoxError, out_of_memory
from box.index.long_read import LongRead
from box.iproto.stats import Net
from box.wire.reply import reply_array_header, reply_error, reply_page_header, reply_rows_header

FLUSH_SIZE: Final = 65536
"""The bytes of gathered replies from which on a write is worth its cost."""
_PIECE: Final = 131072
"""The bytes of a piece of a large reply: more than a transport's high-water mark, so that it is written at once."""
LARGE_SIZE: Final = 262144
"""The bytes above which a reply of several rows is large. The results of a function are large from this size on."""
_LARGE_COUNT: Final = 8192
"""The number of rows above which a reply is large."""
_SIZE_MAX: Final = 0xFFFFFF00
"""The most bytes of rows in a packet, whose length has 32 bits and includes the header."""
_STEP: Final = 16384
"""The number of rows that are measured or freed in one step, which takes less than a millisecond."""


class LargeReply:
    """A reply of rows that is made piece by piece. It owns and empties the list of rows, which `read` may fill."""

    __slots__ = ("_pieces", "_read", "_rows")

    def __init__(
        self,
        sync: int,
        schema_version: int,
        rows: list[bytes],
        read: LongRead | None = None,
        position_of: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._rows = rows
        self._read = read
        self._pieces = _pieces(sync, schema_version, rows, read, position_of)

    def next_piece(self) -> bytes | None:
        """Return the next piece, b"" for a step that made none, None at the end."""
        return next(self._pieces, None)

    def forget_some(self) -> bool:
        """Free some rows; returns False if none are left."""
        return _forget_some(self._rows, self._read)


def _forget_some(rows: list[bytes], read: LongRead | None) -> bool:
    if read is not None:
        read.close()
    del rows[-_STEP:]
    return bool(rows)


def _pieces(
    sync: int,
    schema_version: int,
    rows: list[bytes],
    read: LongRead | None,
    position_of: Callable[[bytes], bytes] | None,
) -> Iterator[bytes]:
    """Yield the pieces of a large reply; that of a page ends with the position of its last row.

    The generator does not refer to the reply. In a reference cycle, a reply that is dropped half-way would stay in
    memory, with the rows of its piece, until the garbage collector finds it.
    """
    size = 0
    try:
        while read is not None and read.take(rows):
            yield b""
    except BoxError as error:
        yield reply_error(sync, schema_version, error)
        return
    for start in range(0, len(rows), _STEP):
        size += sum(map(len, rows[start : start + _STEP]))
        yield b""
    if size > _SIZE_MAX:
        while _forget_some(rows, read):
            yield b""
        yield reply_error(sync, schema_version, out_of_memory(size, "obuf", "reply"))
        return
    tail = b""
    if position_of is None or not rows:
        yield reply_rows_header(sync, schema_version, len(rows), size)
    else:
        header, tail = reply_page_header(sync, schema_version, len(rows), size, position_of(rows[-1]))
        yield header
    count = 1 + _PIECE * len(rows) // max(size, 1)
    rows.reverse()  # rows are removed from the end, which is cheap for a list
    while rows:
        piece = rows[-count:]
        while len(piece) > 1 and sum(map(len, piece)) > 2 * _PIECE:
            piece = piece[(len(piece) + 1) // 2 :]
        del rows[-len(piece) :]
        piece.reverse()
        yield b"".join(piece)
    if tail:
        yield tail


class LargeBody:
    """A reply with an encoded body: `header`, then the bytes of `body` from `start` on."""

    __slots__ = ("_body", "_header", "_start")

    def __init__(self, header: bytes, body: bytes, start: int) -> None:
        self._header = header
        self._body = body
        self._start = start

    def next_piece(self) -> bytes | None:
        """Return the next piece, None at the end."""
        start = self._start
        if start >= len(self._body):
            self._body = b""
            return None
        header, self._header = self._header, b""
        self._start = start + _PIECE
        return header + self._body[start : start + _PIECE]

    def forget_some(self) -> bool:
        """Free the body; returns False, because nothing is left."""
        self._body = b""
        return False


class Output:
    """The replies of one connection. `transport` is None before the connection is made and after it is lost."""

    __slots__ = ("_counters", "larges", "parts", "size", "transport")

    def __init__(self, counters: list[int]) -> None:
        self._counters = counters
        self.transport: asyncio.Transport | None = None
        self.parts: list[bytes] = []
        self.size = 0
        """The bytes in `parts`, without replies that cannot be larger than their requests."""
        self.larges: deque[LargeReply | LargeBody] = deque()
        """The large replies to be sent, the oldest first."""

    def add_rows(self, sync: int, schema_version: int, rows: Sequence[bytes]) -> bool:
        """Add a reply of rows. Returns False if it is large, so that `pump` sends it; then it owns the list."""
        count = len(rows)
        size = 0 if count > _LARGE_COUNT else sum(map(len, rows))
        if count > _LARGE_COUNT or (size > LARGE_SIZE and count > 1):
            self.flush()
            self.larges.append(LargeReply(sync, schema_version, rows if isinstance(rows, list) else list(rows)))
            return False
        self.parts.append(reply_rows_header(sync, schema_version, count, size))
        self.parts.extend(rows)
        self.size += size + 32  # about the size of the header
        return True

    def add_page(self, sync: int, schema_version: int, rows: list[bytes], position: bytes) -> bool:
        """Add a reply of rows and a position; see `add_rows` for large replies."""
        count = len(rows)
        size = 0 if count > _LARGE_COUNT else sum(map(len, rows))
        if count > _LARGE_COUNT or size > LARGE_SIZE:
            self.flush()
            self.larges.append(LargeReply(sync, schema_version, rows, position_of=lambda _: position))
            return False
        header, tail = reply_page_header(sync, schema_version, count, size, position)
        self.parts += (header, *rows, tail)
        self.size += size + 64  # about the sizes of header and position
        return True

    def add_read(self, sync: int, schema_version: int, read: LongRead) -> None:
        """Add a reply of rows that have still to be found."""
        self.flush()
        self.larges.append(LargeReply(sync, schema_version, [], read, read.position_of))

    def add_array(self, sync: int, schema_version: int, array: bytes) -> None:
        """Add a large reply of a function's results.

        Raises:
            OutOfMemory: no packet can hold them.
        """
        if len(array) > _SIZE_MAX:
            raise out_of_memory(len(array), "obuf", "reply")
        self.flush()
        self.larges.append(LargeBody(*reply_array_header(sync, schema_version, array)))

    def flush(self) -> None:
        """Write the gathered replies, unless a large reply has to be completed first."""
        parts = self.parts
        if self.larges or not parts:
            return
        if self.transport is not None:
            self._write(parts[0] if len(parts) == 1 else b"".join(parts))
        parts.clear()
        self.size = 0

    def _write(self, data: bytes) -> None:
        transport = self.transport
        if transport is not None and not transport.is_closing():
            self._counters[Net.SENT] += len(data)
            transport.write(data)

    def pump(self, may_go_on: Callable[[], bool]) -> bool:
        """Send pieces of large replies while `may_go_on` returns True after each step; returns True if all are sent."""
        larges = self.larges
        while larges:
            piece = larges[0].next_piece()
            if piece is None:
                larges.popleft()
                continue
            if piece:
                self._write(piece)
            if not may_go_on():
                return False
        self.flush()
        return True

    def discard(self, may_go_on: Callable[[], bool]) -> bool:
        """Free the replies to a client that has gone, step by step; returns True if all are freed."""
        self.parts.clear()
        while self.larges:
            if not self.larges[0].forget_some():
                self.larges.popleft()
            if not may_go_on():
                return not self.larges
        return True
