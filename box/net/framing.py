"""Framing: the rows in a stream of bytes, which comes in pieces of any size.

```
[greeting, `prologue` bytes]  packet  packet  packet ...        a packet: see `box.wire.packet`
```

No I/O and no clock. What cannot be a packet, or is larger than the protocol allows, is refused when its length has
come: nothing of its body is stored.
"""

from __future__ import annotations

from collections import deque

from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row


class RowBuffer:
    """Keeps the beginning of a packet until the rest comes. `prologue`: bytes that come before the first packet."""

    __slots__ = ("_chunks", "_have", "_need", "_prologue_size")

    def __init__(self, prologue: int = 0) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = self._prologue_size = prologue

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._have

    def add(self, data: bytes) -> None:
        """Bytes have come."""
        self._chunks.append(data)
        self._have += len(data)

    def take_prologue(self) -> bytes | None:
        """The bytes before the first packet, once; None until all are here."""
        if self._have < self._prologue_size:
            return None
        data, size = b"".join(self._chunks), self._prologue_size
        self._keep(data[size:], 0)
        self._prologue_size = 0
        return data[:size]

    def take_rows(self, rows: deque[Row]) -> None:
        """Append the rows that are complete. INVALID_MSGPACK for a stream that cannot go on; rows before are taken."""
        if self._have < self._need or not self._have:
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        pos, end, need = 0, len(data), 0
        try:
            while pos < end:
                start, stop = packet_bounds(data, pos)
                if stop > end:
                    need = stop - pos
                    break
                rows.append(decode_row(data[start:stop]))
                pos = stop
        except BaseException:
            self._keep(b"", 0)
            raise
        self._keep(data[pos:], need)

    def _keep(self, data: bytes, need: int) -> None:
        self._chunks = [data] if data else []
        self._have = len(data)
        self._need = need
