"""The sockets of a simulated process that its Lua modules see: `lua.machine.Sockets` on the simulated network.

```
addresses     names of hosts and their addresses (`host_names.py`); `localhost` and 127.0.0.1 are the process's own host
streams       `stream_socket.py`; they connect to nodes as well: `box.cfg.listen`, `net.box`
datagrams     `datagram_socket.py`
descriptors   numbers that no other socket of the process has had, and that the operating system does not know
readiness     is reported in a turn of its own, once for everything that has happened before
the end       of the process closes all sockets, as an operating system does
```

Other kinds are not supported: EAFNOSUPPORT, ESOCKTNOSUPPORT. A read right after a write of the other side finds nothing
yet, even within one process, because data takes time to arrive; only unix sockets deliver at once.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from itertools import count
from typing import Final

from box.testing.simulation.datagram_socket import DatagramSocket
from box.testing.simulation.host_names import numeric_family, protocol_number
from box.testing.simulation.loop import SimulatedLoop
from box.testing.simulation.simulated_network import SimulatedHost
from box.testing.simulation.simulated_socket import SimulatedSocket
from box.testing.simulation.simulated_stream import network_error
from box.testing.simulation.stream_socket import StreamSocket
from lua.machine.sockets import READ, WRITE, AddressInfo, AddressQuery, Watcher

_FIRST_DESCRIPTOR: Final = 1 << 21
"""The first descriptor: above those of files, and those of an operating system, so that a call of C with one fails."""
_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""The families that are supported."""
_FLAGS: Final = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
"""Flags in the kind of a socket that have no effect: simulated calls never block, and nothing is executed."""
_PROTOCOLS: Final = {
    int(socket.SOCK_STREAM): (0, int(socket.IPPROTO_TCP)),
    int(socket.SOCK_DGRAM): (0, int(socket.IPPROTO_UDP)),
}
"""The protocols of each kind of socket."""
_KINDS: Final = {int(socket.SOCK_STREAM): StreamSocket, int(socket.SOCK_DGRAM): DatagramSocket}
"""The class of each kind."""


class SimulatedSockets:
    """The sockets of one process."""

    def __init__(self, host: SimulatedHost, loop: SimulatedLoop) -> None:
        self.host = host
        self.loop = loop
        self._sockets: dict[int, SimulatedSocket] = {}
        self._numbers = count(_FIRST_DESCRIPTOR)
        self._watchers: dict[int, tuple[int, Watcher]] = {}
        self._to_tell: dict[int, None] = {}
        host.on_end.append(self._process_died)

    # -- the bindings

    def open(self, family: int, kind: int, protocol: int) -> SimulatedSocket:
        """Make a socket.

        Raises:
            OSError: the family, kind or protocol is not supported.
        """
        self._check_process()
        kind &= ~_FLAGS
        if family not in _FAMILIES:
            raise network_error(errno.EAFNOSUPPORT)
        if kind not in _KINDS:
            raise network_error(errno.ESOCKTNOSUPPORT)
        if protocol not in ((0, 1) if family == socket.AF_UNIX else _PROTOCOLS[kind]):
            raise network_error(errno.EPROTONOSUPPORT)
        return _KINDS[kind](self, family, protocol)

    async def getaddrinfo(self, loop: asyncio.AbstractEventLoop, query: AddressQuery) -> list[AddressInfo]:
        """Look up addresses as in a thread, as on a real machine."""
        return await loop.run_in_executor(None, self.host.network.names.look_up, query)

    def address_of(self, text: str) -> tuple[int, str]:
        family = numeric_family(text)
        if not family:
            raise network_error(errno.EINVAL)
        return family, text

    def protocol_number(self, name: str) -> int:
        return protocol_number(name)

    def ready(self, descriptor: int, mask: int) -> int:
        """Return the part of `mask` for which a descriptor is ready. Descriptors of files are always ready."""
        sock = self._sockets.get(descriptor)
        return mask if sock is None else sock.ready(mask)

    def broadcast_hosts(self) -> list[str]:
        """Return nothing: a simulated network carries no broadcasts."""
        return []

    def watch(self, loop: asyncio.AbstractEventLoop, descriptor: int, mask: int, watcher: Watcher) -> None:
        if mask:
            self._watchers[descriptor] = mask, watcher
            self.changed(descriptor)
        else:
            self._watchers.pop(descriptor, None)

    # -- the sockets

    def adopt(self, sock: SimulatedSocket) -> int:
        """Give a socket a descriptor, and return it."""
        descriptor = next(self._numbers)
        self._sockets[descriptor] = sock
        return descriptor

    def forget(self, descriptor: int) -> None:
        """Remove a socket that is closed."""
        self._sockets.pop(descriptor, None)

    def changed(self, descriptor: int) -> None:
        """Tell watchers in the next turn, in the context of the process, if a descriptor is ready."""
        watched = self._watchers.get(descriptor)
        if watched is None or descriptor in self._to_tell or not self.ready(descriptor, watched[0]):
            return
        self._to_tell[descriptor] = None
        self.loop.call_soon(self._tell, descriptor, context=self.host.process.context())

    def _tell(self, descriptor: int) -> None:
        self._to_tell.pop(descriptor, None)
        for event in (READ, WRITE):
            mask, watcher = self._watchers.get(descriptor, (0, None))
            if watcher is not None and mask & event and self.ready(descriptor, event):
                watcher(descriptor, event)

    def _check_process(self) -> None:
        """Check that the process has not ended.

        Raises:
            OSError: EBADF if it has.
        """
        if self.host.process.is_dead:
            raise network_error(errno.EBADF)

    def _process_died(self) -> None:
        self._watchers.clear()
        for sock in list(self._sockets.values()):
            sock.close()
