"""The control channel between a test and a node in a process of its own: requests one way, answers and news the other.

```
frame      4 bytes: the length of what follows; a pickled message
Request    number, name of a method of the servant, its arguments
Answer     the number, the result or the error, how the node stands; number 0: news, which nobody has asked for
```

Both ends belong to one test, so that pickles are safe. The end of the stream is the end of the process.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

_LENGTH: Final = struct.Struct(">I")
NEWS: Final = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a node tells of itself with each answer. Nothing was configured where it has its defaults."""

    is_configured: bool = False
    status: str = ""
    instance_id: int = 0
    is_read_only: bool = True
    term: int = 0
    leader_id: int = 0
    is_leader: bool = False
    vclock: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    """Entries of the limbo."""
    stopped: tuple[tuple[str, int, str], ...] = ()
    """Appliers that have stopped: address, code and text of the error."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a method."""

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request, or news."""

    number: int
    standing: Standing
    result: Any = None
    error: Exception | None = None


class Channel:
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Channel:
        """The channel over one of two connected sockets, which belongs to it from now on."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: Request | Answer) -> None:
        """Send a message. Whoever has ended does not get it."""
        data = pickle.dumps(message)
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def messages(self) -> AsyncIterator[Any]:
        """What arrives, until the other end is gone."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                yield pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def flush(self) -> None:
        """Wait until the other end can have everything."""
        await self._writer.drain()

    def close(self) -> None:
        """The other end sees that, and nothing more."""
        self._writer.close()
