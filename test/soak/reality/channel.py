"""The control channel between a test and a node in another process: the test sends requests, the node sends answers.

```
frame      4 bytes, big-endian: the length of the message that follows; a pickled message
Request    number, name of a method of the node server, its arguments
Answer     the request's number, the result or the error, the node's state;
           number 0 (NEWS): the state has changed, and no request asked for it
```

Both ends belong to one test, so unpickling is safe. The stream ends when the process ends.
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
class NodeState:
    """What a node reports of itself with each answer. The defaults stand for an instance that is not configured."""

    is_configured: bool = False
    status: str = ""
    instance_id: int = 0
    is_read_only: bool = True
    term: int = 0
    leader_id: int = 0
    is_leader: bool = False
    vclock: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    """The number of transactions in the limbo."""
    stopped: tuple[tuple[str, int, str], ...] = ()
    """Address, error code and error text of each applier that has stopped."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a method of the node server."""

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result or error of a request, or an unasked report of the node's state (number `NEWS`)."""

    number: int
    state: NodeState
    result: Any = None
    error: Exception | None = None


class Channel:
    """One end of the control channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Channel:
        """Make a channel of one end of a socket pair; the channel owns the socket from now on."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: Request | Answer) -> None:
        """Send a message; it is lost without an error if the other process has ended."""
        data = pickle.dumps(message)
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def messages(self) -> AsyncIterator[Any]:
        """Yield arriving messages until the other end closes."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                yield pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def flush(self) -> None:
        """Wait until the socket has accepted what was sent."""
        await self._writer.drain()

    def close(self) -> None:
        """Close this end; the other end sees the end of the stream."""
        self._writer.close()
