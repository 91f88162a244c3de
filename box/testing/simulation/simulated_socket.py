"""The common part of stream and datagram sockets of a simulated process."""

from __future__ import annotations

import errno
import os
import socket
import struct
from abc import ABC, abstractmethod
from typing import Any, Final, Protocol, overload

from box.net.uri import UNIX_HOST
from box.testing.simulation.bound_places import UNIX, SocketPlace
from box.testing.simulation.host_names import is_loopback, is_wildcard
from box.testing.simulation.loop import SimulatedLoop
from box.testing.simulation.simulated_network import ServedAddress, SimulatedHost
from box.testing.simulation.simulated_stream import network_error
from lua.machine.sockets import READ, WRITE

Endpoint = tuple[str, int]
"""An address and a port, or the path of a unix socket and 0."""

_LONGEST_PATH: Final = 107
"""The bytes of the longest path of a unix socket on Linux: `sun_path` without its final zero."""
_BUFFER: Final = 212992
"""The bytes of a socket's buffers, as by default on Linux."""
_DEFAULTS: Final[dict[tuple[int, int], int | bytes]] = {
    (socket.SOL_SOCKET, socket.SO_SNDBUF): _BUFFER,
    (socket.SOL_SOCKET, socket.SO_RCVBUF): _BUFFER,
    (socket.SOL_SOCKET, socket.SO_RCVLOWAT): 1,
    (socket.SOL_SOCKET, socket.SO_LINGER): struct.pack("ii", 0, 0),
}
"""The options with a default other than 0, by level and number."""
_FLAGS: Final = frozenset({socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_KEEPALIVE, socket.SO_BROADCAST})
"""The options that are read as 0 or 1."""
_LEVELS: Final = {
    socket.AF_UNIX: {int(socket.SOL_SOCKET)},
    socket.AF_INET: {int(socket.SOL_SOCKET), int(socket.IPPROTO_IP)},
    socket.AF_INET6: {int(socket.SOL_SOCKET), int(socket.IPPROTO_IP), int(socket.IPPROTO_IPV6)},
}
"""The levels of options that each family knows, besides the protocol's own."""


class SocketTable(Protocol):
    """The sockets of a process, as each of them uses it."""

    @property
    def host(self) -> SimulatedHost: ...

    @property
    def loop(self) -> SimulatedLoop: ...

    def adopt(self, sock: SimulatedSocket) -> int:
        """Give a socket a descriptor, and return it."""

    def forget(self, descriptor: int) -> None:
        """Remove a socket that is closed."""

    def changed(self, descriptor: int) -> None:
        """Tell watchers if a socket has become ready."""


class SimulatedSocket(ABC):
    """A socket of a simulated process. Subclasses decide what happens to data."""

    def __init__(self, table: SocketTable, family: int, kind: int, protocol: int) -> None:
        self.family = socket.AddressFamily(family)
        self.type = socket.SocketKind(kind)
        self.proto = protocol
        self.own: Endpoint | None = None
        """The address that the socket is bound to, or None."""
        self.shares_place = False
        """True if other sockets may be bound to the same address."""
        self.error = 0
        """The errno of an error that has not been reported to the program yet, or 0."""
        self.is_closed = False
        self._table = table
        self._host = table.host
        self._network = table.host.network
        self._place: SocketPlace | None = None
        self._options: dict[tuple[int, int], int | bytes] = {}
        self._is_blocking = True
        self._descriptor = table.adopt(self)

    def __repr__(self) -> str:
        return f"<{self.type.name} {self._descriptor} of {self._host.name}>"

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool, /) -> None:
        """Store the flag for `getblocking`; a simulated call never blocks."""
        self._is_blocking = flag

    def getblocking(self) -> bool:
        return self._is_blocking

    def check_open(self) -> None:
        """Check that the socket is open.

        Raises:
            OSError: EBADF if it is closed.
        """
        if self.is_closed:
            raise network_error(errno.EBADF)

    def changed(self) -> None:
        """Tell watchers if the socket has become ready."""
        self._table.changed(self._descriptor)

    def ready(self, mask: int) -> int:
        """Return the part of `mask` (READ, WRITE) for which the socket is ready."""
        return (READ if mask & READ and self._is_readable() else 0) | (
            WRITE if mask & WRITE and self._is_writable() else 0
        )

    @abstractmethod
    def _is_readable(self) -> bool: ...

    @abstractmethod
    def _is_writable(self) -> bool: ...

    # -- calls that differ between kinds of sockets; `lua.machine.sockets.Socket` describes them

    @abstractmethod
    def listen(self, backlog: int, /) -> None: ...

    @abstractmethod
    def accept(self) -> tuple[SimulatedSocket, Any]: ...

    @abstractmethod
    def connect(self, address: Any, /) -> None: ...

    @abstractmethod
    def getpeername(self) -> Any: ...

    @abstractmethod
    def recv(self, size: int, flags: int, /) -> bytes: ...

    @abstractmethod
    def send(self, data: bytes, flags: int, /) -> int: ...

    @abstractmethod
    def recvfrom(self, size: int, flags: int, /) -> tuple[bytes, Any]: ...

    @abstractmethod
    def sendto(self, data: bytes, flags: int, address: Any, /) -> int: ...

    @abstractmethod
    def shutdown(self, how: int, /) -> None: ...

    # -- addresses

    @property
    def is_unix(self) -> bool:
        """True if its addresses are paths."""
        return self.family == socket.AF_UNIX

    @property
    @abstractmethod
    def _port_kind(self) -> str: ...

    def _endpoint(self, address: Any) -> Endpoint:
        """Resolve an address.

        Raises:
            OSError: EINVAL for a path that is too long.
            socket.gaierror: the name is unknown.
        """
        if self.is_unix:
            if len(os.fsencode(address)) > _LONGEST_PATH:
                raise network_error(errno.EINVAL)
            return address, 0
        return self._network.names.resolve(address[0], self.family), int(address[1])

    @property
    def _loopback(self) -> str:
        return "::1" if self.family == socket.AF_INET6 else "127.0.0.1"

    def _target(self, endpoint: Endpoint) -> str:
        """Return the host that has an address.

        Raises:
            OSError: ENETUNREACH if there is none.
        """
        if self.is_unix or is_loopback(endpoint[0]) or is_wildcard(endpoint[0]):
            return self._host.name
        name = self._network.names.name_of(endpoint[0])
        if name is None:
            raise network_error(errno.ENETUNREACH)
        return name

    def _place_at(self, endpoint: Endpoint, host: str) -> SocketPlace:
        return SocketPlace(host, UNIX, endpoint[0]) if self.is_unix else SocketPlace(host, self._port_kind, endpoint[1])

    def _served_at(self, endpoint: Endpoint, host: str) -> ServedAddress:
        """Return the key by which the network knows a listener at an address."""
        return ServedAddress(host, f"{UNIX_HOST}:{endpoint[0]}" if self.is_unix else str(endpoint[1]))

    def bind(self, address: Any, /) -> None:
        self.check_open()
        if self.own is not None:
            raise network_error(errno.EINVAL)
        endpoint = self._endpoint(address)
        if not self.is_unix and self._target_of_bind(endpoint) != self._host.name:
            raise network_error(errno.EADDRNOTAVAIL)
        self._bind(endpoint)

    def _target_of_bind(self, endpoint: Endpoint) -> str | None:
        try:
            return self._target(endpoint)
        except OSError:
            return None

    def _bind(self, endpoint: Endpoint) -> None:
        places, name = self._network.places, self._host.name
        if not self.is_unix and not endpoint[1]:
            endpoint = endpoint[0], places.free_port(name, self._port_kind)
        place = self._place_at(endpoint, name)
        self.shares_place = not self.is_unix and bool(self._options.get((socket.SOL_SOCKET, socket.SO_REUSEADDR)))
        self._check_place(endpoint)
        places.bind(place, self, shares=self.shares_place)
        self.own, self._place = endpoint, place

    @abstractmethod
    def _check_place(self, endpoint: Endpoint) -> None:
        """Check that no listener that cannot share its address serves this one.

        Raises:
            OSError: EADDRINUSE if one does.
        """

    def _bind_anywhere(self) -> None:
        """Bind to a free port, unless the socket is bound."""
        if self.own is None and not self.is_unix:
            self._bind((self._network.names.resolve("", self.family), 0))

    def _leave_place(self) -> None:
        if self._place is not None:
            self._network.places.release(self._place, self)
            self._place = None

    def _source(self, endpoint: Endpoint) -> Endpoint:
        """Return the address of this socket that the other side at `endpoint` sees."""
        own = self.own or ("", 0)
        if self.is_unix or (own[0] and not is_wildcard(own[0])):
            return own
        if is_loopback(endpoint[0]) or is_wildcard(endpoint[0]):
            return self._loopback, own[1]
        return self._network.names.address(self._host.name, self.family), own[1]

    def _shown(self, endpoint: Endpoint) -> Any:
        """Return an address in the form of Python's sockets."""
        if self.is_unix:
            return endpoint[0]
        return (*endpoint, 0, 0) if self.family == socket.AF_INET6 else endpoint

    def getsockname(self) -> Any:
        self.check_open()
        nowhere = ("", 0) if self.is_unix else (self._network.names.resolve("", self.family), 0)
        return self._shown(self.own or nowhere)

    # -- options

    @overload
    def getsockopt(self, level: int, option: int, /) -> int: ...

    @overload
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...

    def getsockopt(self, level: int, option: int, size: int | None = None, /) -> int | bytes:
        """Return an option. Options without effect here have the value that was set, or the default."""
        self._check_level(level)
        value: int | bytes | None = self._fact(option) if level == socket.SOL_SOCKET else None
        if value is None:
            value = self._options.get((level, option), _DEFAULTS.get((level, option), 0))
        if size is None:
            # What the system gives for a structure that is asked for as a number: its first int.
            return value if isinstance(value, int) else int.from_bytes(value[:4], "little", signed=True)
        return (value if isinstance(value, bytes) else struct.pack("i", value))[:size]

    def _fact(self, option: int) -> int | None:
        """Return an option that describes the socket and cannot be set, or None."""
        match option:
            case socket.SO_TYPE:
                return int(self.type)
            case socket.SO_DOMAIN:
                return int(self.family)
            case socket.SO_PROTOCOL:
                return self.proto
            case socket.SO_ERROR:
                return self.take_error()
            case socket.SO_ACCEPTCONN:
                return int(self._is_listening())
        return None

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        self._check_level(level)
        if level == socket.SOL_SOCKET and option in _FLAGS and isinstance(value, int):
            value = int(bool(value))
        self._options[level, option] = value

    def _check_level(self, level: int) -> None:
        """Check that the socket is open and knows a level of options.

        Raises:
            OSError: EBADF, ENOPROTOOPT or EOPNOTSUPP.
        """
        self.check_open()
        if level not in _LEVELS[self.family] and level != self._own_level():
            raise network_error(errno.EOPNOTSUPP if self.is_unix else errno.ENOPROTOOPT)

    @abstractmethod
    def _own_level(self) -> int: ...

    def _is_listening(self) -> bool:
        return False

    def take_error(self) -> int:
        """Return the errno of an unreported error, or 0, and clear it."""
        error, self.error = self.error, 0
        return error

    # -- the end

    def close(self) -> None:
        """Close the socket, unless it is closed."""
        if not self.is_closed:
            self.is_closed = True
            self._table.forget(self._descriptor)
            self._end()
            self._leave_place()

    @abstractmethod
    def _end(self) -> None: ...

    def detach(self) -> int:
        """Return the descriptor, which stays open until the process ends."""
        self.check_open()
        return self._descriptor
