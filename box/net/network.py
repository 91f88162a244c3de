"""The network of an instance: addresses that it serves, and connections to others.

`box.net.sockets` implements it with the operating system, `box.testing.simulation` with simulated faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from box.net.uri import Uri

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Replaced(NamedTuple):
    """A file that was removed to make room for a unix socket; `lost_bytes` is the size of an ordinary file."""

    path: str
    lost_bytes: int

    @property
    def warning(self) -> str | None:
        """The text for the log if content was lost, otherwise None."""
        if not self.lost_bytes:
            return None
        return f"{self.path} was an ordinary file of {self.lost_bytes} bytes; the unix socket has replaced it"


class Listener(Protocol):
    """A served address; `address` is the text for logs and `box.info.listen`."""

    @property
    def address(self) -> str: ...

    @property
    def fd(self) -> int:
        """The descriptor of the listening socket; 0 in a simulation, where it has none."""

    @property
    def replaced(self) -> Replaced | None:
        """The file that the unix socket has replaced, or None."""

    def stop_accepting(self) -> bool:
        """Accept no more connections. Returns True if `close` should come a turn of the loop later.

        In that turn asyncio makes the transports of connections that it has accepted. It forgets those of a closed
        server, without closing them.
        """

    def close(self) -> None:
        """Accept no more connections; open ones stay."""


class Network(Protocol):
    """Listens, connects and looks up names."""

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> Listener:
        """Serve an address; each connection gets its own protocol object.

        Raises:
            SocketError: the address cannot be served.
        """

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect, and attach a protocol object to the connection.

        Raises:
            OSError: the connection failed.
            BoxSystemError: the name is unknown.
        """
