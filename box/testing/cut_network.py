"""The operating system's network, with cuts between the nodes of a cluster."""

from __future__ import annotations

import asyncio
import errno
import os
import weakref
from collections.abc import Callable, Sequence
from typing import cast

from box.net.network import Listener, ProtocolFactory
from box.net.sockets import SocketNetwork
from box.net.uri import Uri


class Cuts:
    """The cuts between groups of addresses; the networks of all nodes of a cluster share one object."""

    def __init__(self) -> None:
        self._sides: Sequence[set[str]] = ()
        self._networks: weakref.WeakSet[CutNetwork] = weakref.WeakSet()

    def add(self, network: CutNetwork) -> None:
        """Register the network of a node, whose connections end when a cut crosses them."""
        self._networks.add(network)

    def divide(self, sides: Sequence[set[str]]) -> None:
        """Cut all connections between the given groups of addresses."""
        self._sides = sides
        for network in list(self._networks):
            network.drop_cut()

    def clear(self) -> None:
        """Remove all cuts."""
        self._sides = ()

    def is_cut(self, one: str, other: str) -> bool:
        """Return True if two addresses are in different groups.

        Addresses outside every group reach all nodes.
        """
        sides = [[address in side for side in self._sides] for address in (one, other)]
        return all(any(side) for side in sides) and sides[0] != sides[1]


class CutNetwork:
    """The network of one node (`box.net.network.Network`), which respects cuts. `address` is where the node listens."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str, cuts: Cuts) -> None:
        self._network = SocketNetwork(loop)
        self._address = address
        self._cuts = cuts
        self._connections: list[tuple[str | None, asyncio.Transport]] = []
        """Open connections, each with the address that it was made to, or None if it was accepted."""
        self._is_dead = False
        cuts.add(self)

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> Listener:
        return await self._network.listen(uri, self._watching(factory, None))

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        target = f"{uri.host}:{uri.service}"
        if self._is_dead or self._cuts.is_cut(self._address, target):
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        await self._network.connect(uri, self._watching(factory, target))
        self.drop_cut()  # a cut may have been made meanwhile

    def drop_cut(self) -> None:
        """Abort the connections that a cut crosses. The other end sees the connection close."""
        for target, transport in self._connections:
            if target is not None and self._cuts.is_cut(self._address, target):
                transport.abort()

    def abort(self) -> None:
        """Abort all connections at once, and refuse to make new ones."""
        self._is_dead = True
        for _, transport in self._connections:
            transport.abort()

    def _watching(self, factory: ProtocolFactory, target: str | None) -> ProtocolFactory:
        return lambda: _Doorkeeper(factory(), lambda transport: self._note(target, transport))

    def _note(self, target: str | None, transport: asyncio.Transport) -> None:
        still_open = [known for known in self._connections if not known[1].is_closing()]
        self._connections = [*still_open, (target, transport)]
        if self._is_dead:
            transport.abort()


class _Doorkeeper(asyncio.Protocol):
    """Records the transport of a new connection, then hands the connection to its own protocol."""

    def __init__(self, protocol: asyncio.BaseProtocol, note: Callable[[asyncio.Transport], None]) -> None:
        self._protocol = protocol
        self._note = note

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast(asyncio.Transport, transport)  # the transports of uvloop have another base class
        connection.set_protocol(self._protocol)
        self._note(connection)
        self._protocol.connection_made(connection)
