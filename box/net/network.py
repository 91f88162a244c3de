"""The network as an instance sees it: addresses that are served, and connections to others.

`box.net.sockets` has the operating system's, `box.testing.simulation` one in which everything may happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from box.net.uri import Uri

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Replaced(NamedTuple):
    """A file that was removed to make room for a unix socket. `lost_bytes`: the content of an ordinary file."""

    path: str
    lost_bytes: int

    @property
    def warning(self) -> str | None:
        """Text for the log if content was lost."""
        if not self.lost_bytes:
            return None
        return f"{self.path} was an ordinary file of {self.lost_bytes} bytes; the unix socket has replaced it"


class Listener(Protocol):
    """An address that is served. `address` is as logs and `box.info.listen` show it."""

    @property
    def address(self) -> str: ...

    @property
    def replaced(self) -> Replaced | None:
        """The file that a unix socket has taken the place of, if there was one."""

    def close(self) -> None:
        """Accept no more connections; those that are open stay."""


class Network(Protocol):
    """Listens, connects and looks up names."""

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> Listener:
        """Serve an address; each connection gets a protocol of its own. Raises a SocketError."""

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect, and tell the protocol of it. Raises OSError, and a SystemError for a name that nobody knows."""
