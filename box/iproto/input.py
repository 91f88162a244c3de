"""The buffer into which the connections of a server read.

One buffer serves all connections, because the bytes of each read are copied out before the next read begins. A read has
at most `readahead` bytes, as in Tarantool; the rest of a larger packet is read in larger pieces.
"""

from __future__ import annotations

from typing import Final

_LARGE: Final = 262144
"""The bytes of a read for a packet that is larger than `readahead`."""
_MOST: Final = 16 * 1024 * 1024
"""The most bytes of a read, whatever `readahead` says: a socket's buffer cannot hold more."""


class InputBuffer:
    """The input buffer of one server."""

    __slots__ = ("_usual", "_whole", "readahead")

    def __init__(self, readahead: int) -> None:
        self.resize(readahead)

    def resize(self, readahead: int) -> None:
        """Set the bytes of a usual read (`readahead`)."""
        self.readahead = min(readahead, _MOST)
        self._whole = memoryview(bytearray(max(self.readahead, _LARGE)))
        self._usual = self._whole[: self.readahead]

    def view(self, missing: int) -> memoryview:
        """Return the part of the buffer to read into, for a packet of which `missing` bytes have not arrived."""
        return self._usual if missing <= self.readahead else self._whole

    def take(self, size: int) -> bytes:
        """Return a copy of the bytes that were read."""
        return bytes(self._whole[:size])
