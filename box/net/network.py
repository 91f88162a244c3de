"""The network as an instance sees it: addresses that are served, and connections to others.

`box.net.sockets` has the operating system's, `box.testing.simulation` one in which everything may happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from box.net.uri import Uri

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    """An address that is served. `address` is as logs and `box.info.listen` show it."""

    @property
    def address(self) -> str: ...

    @property
    def has_replaced(self) -> bool:
        """Whether the file of a unix socket that nobody served was there before it."""

    def close(self) -> None:
        """Accept no more connections; those that are open stay."""


class Network(Protocol):
    """Listens, connects and looks up names."""

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> Listener:
        """Serve an address; each connection gets a protocol of its own. Raises a SocketError."""

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect, and tell the protocol of it. Raises OSError, and a SystemError for a name that nobody knows."""
