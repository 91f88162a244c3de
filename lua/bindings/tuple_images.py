"""Tuples in the form that Lua has in memory: many of them in one blob, so that Lua copies each with one call.

```
struct tuple of internal/tuple.lua      uint32 size, uint32 format's id (both native), the MessagePack
```

LuaJIT 2.0 does not compile the allocation of a tuple, so each step of a loop over tuples is interpreted, and a step
that writes the header itself takes a seventh longer.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

from lua.salt import salter

_HEADER: Final = struct.Struct("=II").pack
_KNOWN: Final = 1024
"""The number of sizes whose headers are kept for one format."""


class _Headers(dict[int, bytes]):
    """The headers of a format's tuples by their size in bytes, made when they are first needed."""

    __slots__ = ("_format_id",)

    def __init__(self, format_id: int) -> None:
        self._format_id = format_id

    def __missing__(self, size: int) -> bytes:
        header = _HEADER(size, self._format_id)
        if len(self) < _KNOWN:
            self[size] = header
        return header


class TupleImages:
    """Makes blobs of tuples of any format."""

    def __init__(self) -> None:
        self._headers: dict[int, _Headers] = {}
        self._salt = salter()

    def blob(self, rows: list[bytes], format_id: int) -> tuple[bytes, bytes]:
        """Return the images of tuples, one after another, with salt at the end, and the sizes of the tuples as native
        uint32.
        """
        if not rows:
            return b"", b""
        headers = self._headers.get(format_id)
        if headers is None:
            headers = self._headers[format_id] = _Headers(format_id)
        sizes = list(map(len, rows))
        parts = rows * 2
        parts[::2], parts[1::2] = map(headers.__getitem__, sizes), rows
        parts.append(self._salt())
        return b"".join(parts), array("I", sizes).tobytes()

    def forget(self, format_id: int) -> None:
        """Drop what is kept for a format."""
        self._headers.pop(format_id, None)
