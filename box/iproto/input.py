"""The buffer into which the connections of a server read.

One buffer serves all connections, because each read is taken out before the next begins. A read has `readahead`
bytes at most, as in Tarantool; a packet of which more is missing is read in larger pieces.
"""

from __future__ import annotations

from typing import Final

_LARGE: Final = 262144
_MOST: Final = 16 * 1024 * 1024
"""Bytes of a read, whatever `readahead` says: no more can be in a socket."""


class InputBuffer:
    """The buffer of one server."""

    __slots__ = ("_usual", "_whole", "readahead")

    def __init__(self, readahead: int) -> None:
        self.resize(readahead)

    def resize(self, readahead: int) -> None:
        """`readahead` has changed."""
        self.readahead = min(readahead, _MOST)
        self._whole = memoryview(bytearray(max(self.readahead, _LARGE)))
        self._usual = self._whole[: self.readahead]

    def view(self, missing: int) -> memoryview:
        """The place of a read for a packet of which so many bytes are missing."""
        return self._usual if missing <= self.readahead else self._whole

    def take(self, size: int) -> bytes:
        """Take over the bytes that were read."""
        return bytes(self._whole[:size])
