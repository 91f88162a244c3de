"""Non-blocking sockets for `socket`, by descriptor, and the readiness of descriptors.

A `Socket` has the methods of Python's sockets, which the operating system's are. Failures are OSErrors with the errno
of the system call, and `socket.gaierror` for unknown names.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def protocol_number(self, name: str) -> int:
        """Return the number of `tcp` or another protocol. Raises OSError."""

    def ready(self, descriptor: int, mask: int) -> int:
        """Return the part of `mask` for which a descriptor of any kind is ready now; errors and the end count as
        both.
        """

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


class SystemSockets:
    """The operating system's sockets."""

    def open(self, family: int, kind: int, protocol: int) -> socket.socket:
        return socket.socket(family, kind, protocol)

    async def getaddrinfo(self, loop: asyncio.AbstractEventLoop, query: AddressQuery) -> list[AddressInfo]:
        host, port, family, kind, protocol, flags = query
        return list(await loop.getaddrinfo(host, port, family=family, type=kind, proto=protocol, flags=flags))

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
