"""Non-blocking sockets for `socket`, by descriptor, and the readiness of descriptors.

A `Socket` has the methods of Python's sockets, which the operating system's are. Failures are OSErrors with the errno
of the system call, and `socket.gaierror` for unknown names.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, Protocol, overload

READ: Final = 1
WRITE: Final = 2

_STANDARD: Final = 2
"""The last of the three standard descriptors, which are shared with the process that started this one."""

AddressInfo = tuple[int, int, int, str, Any]
"""Family, type, protocol, canonical name and address."""


class AddressQuery(NamedTuple):
    """A host and a service to look up, and the properties that addresses must have; 0 accepts any."""

    host: str | None
    port: str | int
    family: int = 0
    type: int = 0
    proto: int = 0
    flags: int = 0


Watcher = Callable[[int, int], None]
"""A callback that gets a descriptor and `READ` or `WRITE`."""


class Socket(Protocol):
    """A socket. An address is a tuple that begins with host and port, or the path of a unix socket."""

    @property
    def family(self) -> socket.AddressFamily: ...

    @property
    def type(self) -> socket.SocketKind: ...

    @property
    def proto(self) -> int: ...

    def fileno(self) -> int: ...

    def setblocking(self, flag: bool, /) -> None: ...

    def getblocking(self) -> bool: ...

    def bind(self, address: Any, /) -> None: ...

    def listen(self, backlog: int, /) -> None: ...

    def accept(self) -> tuple[Socket, Any]:
        """Accept a connection. Returns its socket and the client's address."""

    def connect(self, address: Any, /) -> None:
        """Begin to connect; EINPROGRESS is the usual outcome.

        The socket becomes writable when it is connected or has failed (SO_ERROR).
        """

    def getsockname(self) -> Any: ...

    def getpeername(self) -> Any: ...

    def recv(self, size: int, flags: int, /) -> bytes:
        """Read available bytes, up to `size`; none at the end."""

    def send(self, data: bytes, flags: int, /) -> int:
        """Write bytes. Returns the number written."""

    def recvfrom(self, size: int, flags: int, /) -> tuple[bytes, Any]:
        """Receive a message. Returns it with its sender's address."""

    def sendto(self, data: bytes, flags: int, address: Any, /) -> int: ...

    def shutdown(self, how: int, /) -> None: ...

    def close(self) -> None: ...

    def detach(self) -> int:
        """Give up the descriptor without closing it, and return it."""

    @overload
    def getsockopt(self, level: int, option: int, /) -> int: ...

    @overload
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...


class Sockets(Protocol):
    """The sockets of one process."""

    def open(self, family: int, kind: int, protocol: int) -> Socket:
        """Open a new socket."""

    async def getaddrinfo(self, loop: asyncio.AbstractEventLoop, query: AddressQuery) -> list[AddressInfo]:
        """Return the addresses of a host and a service. Raises `socket.gaierror`."""

    def address_of(self, text: str) -> tuple[int, str]:
        """Return the family and the usual form of an address. Raises OSError for a name, which is to be looked up."""

    def protocol_number(self, name: str) -> int:
        """Return the number of `tcp` or another protocol. Raises OSError."""

    def ready(self, descriptor: int, mask: int) -> int:
        """Return the part of `mask` for which a descriptor of any kind is ready now; errors and the end count as
        both.
        """

    def broadcast_hosts(self) -> list[str]:
        """Return an IPv4 address for each interface that is up: the broadcast address, or its own if it has none."""

    def watch(self, loop: asyncio.AbstractEventLoop, descriptor: int, mask: int, watcher: Watcher) -> None:
        """Call the watcher when the descriptor becomes ready for `mask`, which replaces an earlier one; 0 ends it."""


@contextmanager
def _flags_kept(descriptor: int) -> Iterator[None]:
    """Keep the status flags of a standard descriptor while the event loop watches it.

    The loop makes a watched descriptor non-blocking. On a terminal the C library would then lose output that does not
    fit the buffer.
    """
    if descriptor > _STANDARD:
        yield
        return
    is_blocking = os.get_blocking(descriptor)
    try:
        yield
    finally:
        os.set_blocking(descriptor, is_blocking)


_NO_ADDRESS: Final = "255.255.255.255"
"""C's `inet_addr`, which Tarantool uses, cannot tell this address from a failure."""
_INTERFACE_SIZE: Final = 256
"""More than the bytes of `struct ifreq`."""
_GET_FLAGS, _GET_ADDRESS, _GET_BROADCAST = 0x8913, 0x8915, 0x8919
"""The requests of Linux for the flags and addresses of an interface (netdevice(7))."""
_IS_UP, _HAS_BROADCAST = 0x1, 0x2


def _broadcast_host(sock: socket.socket, interface: bytes) -> str | None:
    """Return the broadcast address of an interface, or its own address if it has none. Returns None if the interface
    is down or has no IPv4 address.
    """

    def ask(request: int) -> bytes:
        return fcntl.ioctl(sock, request, struct.pack(f"{_INTERFACE_SIZE}s", interface[:15]))

    try:
        flags = int.from_bytes(ask(_GET_FLAGS)[16:18], sys.byteorder)
        if not flags & _IS_UP:
            return None
        return socket.inet_ntoa(ask(_GET_BROADCAST if flags & _HAS_BROADCAST else _GET_ADDRESS)[20:24])
    except OSError:
        return None


class SystemSockets:
    """The operating system's sockets."""

    def open(self, family: int, kind: int, protocol: int) -> socket.socket:
        # Python takes -1 for its own default.
        if family < 0:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        if kind < 0 or protocol < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return socket.socket(family, kind, protocol)

    async def getaddrinfo(self, loop: asyncio.AbstractEventLoop, query: AddressQuery) -> list[AddressInfo]:
        host, port, family, kind, protocol, flags = query
        return list(await loop.getaddrinfo(host, port, family=family, type=kind, proto=protocol, flags=flags))

    def address_of(self, text: str) -> tuple[int, str]:
        with suppress(OSError, ValueError):
            address = socket.inet_ntoa(socket.inet_aton(text))
            if address != _NO_ADDRESS:
                return socket.AF_INET, address
        try:
            socket.inet_pton(socket.AF_INET6, text)
        except (OSError, ValueError):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None
        return socket.AF_INET6, text

    def protocol_number(self, name: str) -> int:
        return socket.getprotobyname(name)

    def ready(self, descriptor: int, mask: int) -> int:
        poll = select.poll()
        events = (select.POLLIN if mask & READ else 0) | (select.POLLOUT if mask & WRITE else 0)
        poll.register(descriptor, events)
        found = 0
        for _, event in poll.poll(0):
            if event & select.POLLIN:
                found |= READ
            if event & select.POLLOUT:
                found |= WRITE
            if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                found |= mask
        return found & mask

    def broadcast_hosts(self) -> list[str]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            found = [_broadcast_host(sock, name.encode()) for _, name in socket.if_nameindex()]
        return [host for host in found if host is not None]

    def watch(self, loop: asyncio.AbstractEventLoop, descriptor: int, mask: int, watcher: Watcher) -> None:
        with _flags_kept(descriptor):
            if mask & READ:
                loop.add_reader(descriptor, watcher, descriptor, READ)
            else:
                loop.remove_reader(descriptor)
            if mask & WRITE:
                loop.add_writer(descriptor, watcher, descriptor, WRITE)
            else:
                loop.remove_writer(descriptor)
