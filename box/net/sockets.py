"""The operating system's network: listening sockets, connections, name look-ups, and texts for addresses and failures.

The texts are Tarantool's: `: failed to bind, called on fd -1` with errno EADDRINUSE for a taken port.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import socket
import stat
import termios
from array import array
from contextlib import suppress
from typing import Any, Final, Protocol

from box import forks
from box.errors import BoxError, system_error
from box.net.network import ProtocolFactory, Replaced
from box.net.uri import Uri, socket_error

_KEEPALIVE: Final = ((socket.TCP_KEEPCNT, 5), (socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 60))
"""Tarantool's keepalive: number of probes, seconds before the first, seconds between two. Accepted sockets inherit
it."""

BACKLOG: Final = 4096
"""The greatest number of connections that wait to be accepted: the system's default limit, as in Tarantool."""


def address_text(address: Any) -> str:
    """Return a socket address for logs and `box.session.peer()`: `127.0.0.1:3301`, `[::1]:3301`, `unix/:(socket)`."""
    # IPv6 has four parts: host, port, flow and scope.
    if isinstance(address, tuple) and len(address) == 2:
        return f"{address[0]}:{address[1]}"
    if isinstance(address, tuple) and len(address) == 4:
        return f"[{address[0]}]:{address[1]}"
    return "unix/:(socket)"


class NamedSocket(Protocol):
    """A socket, of the operating system or of a simulation, as far as its name in texts needs it."""

    def fileno(self) -> int: ...

    def getsockname(self) -> Any: ...

    def getpeername(self) -> Any: ...


def socket_name(sock: NamedSocket) -> str:
    """Return the name of a socket in error texts: `fd 12, aka 127.0.0.1:3301, peer of 127.0.0.1:49992`."""
    name = f"fd {sock.fileno()}"
    with suppress(OSError):
        name += f", aka {address_text(sock.getsockname())}"
        name += f", peer of {address_text(sock.getpeername())}"
    return name


class _OccupiedError(OSError):
    """The path of a unix socket is served, or occupied by something that cannot be removed."""

    def __init__(self) -> None:
        super().__init__(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def bind(family: int, address: Any) -> tuple[socket.socket, Replaced | None]:
    """Return a listening socket on one address, and the file that it replaced.

    A file at the path of a unix socket that refuses connections is removed first, as in Tarantool. That is an abandoned
    socket, or an ordinary file.

    Raises:
        SocketError: the address cannot be bound.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        replaced = _bind(sock, family, address)
        sock.listen(BACKLOG)
    except _OccupiedError as error:
        name = socket_name(sock)
        sock.close()
        raise socket_error("unlink", name, errno.EADDRINUSE) from error
    except OSError as error:
        name = socket_name(sock)
        sock.close()
        raise socket_error("bind", name, error.errno or 0) from error
    except BaseException:
        sock.close()
        raise
    return sock, replaced


def _bind(sock: socket.socket, family: int, address: Any) -> Replaced | None:
    try:
        sock.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or family != socket.AF_UNIX:
            raise
        replaced = _remove_refusing(address)
        sock.bind(address)
        return replaced
    return None


def _remove_refusing(path: str) -> Replaced:
    """Remove the file at the path of a unix socket.

    Raises:
        _OccupiedError: the path is served, or the file cannot be removed.
    """
    if not _refuses(path):
        raise _OccupiedError
    try:
        found = os.stat(path)
        os.unlink(path)
    except OSError as error:
        raise _OccupiedError from error
    return Replaced(path, lost_bytes=found.st_size if stat.S_ISREG(found.st_mode) else 0)


def _refuses(path: str) -> bool:
    """True if nobody listens on a path. Files that are not sockets refuse connections, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def bind_first(candidates: list[tuple[int, Any]]) -> socket.socket:
    """Return a socket on the first address that can be bound.

    Raises:
        SocketError: every address is taken.
    """
    last: BoxError | None = None
    for family, address in candidates:
        try:
            return bind(family, address)[0]
        except BoxError as error:
            last = error
    raise socket_error(": failed to bind", "fd -1", last.errno if last is not None else 0) from last


def _host_of(uri: Uri) -> str | None:
    """Return the host to resolve for listening; None means every local address."""
    return None if uri.host in (None, "", "*") else uri.host


def _remove_socket_file(path: str) -> None:
    """Remove the file of a closed unix socket."""
    with suppress(FileNotFoundError):
        os.unlink(path)


class SocketListener:
    """A listening socket, served by a loop."""

    def __init__(
        self, server: asyncio.Server, sock: socket.socket, path: str | None, replaced: Replaced | None
    ) -> None:
        self.replaced = replaced
        self.fd = sock.fileno()
        self._server = server
        self._address: Any = sock.getsockname()
        self._path = path
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Leave the socket's file alone after a fork: it belongs to the parent."""
        self._path = None

    @property
    def address(self) -> str:
        return address_text(self._address)

    def stop_accepting(self) -> bool:
        loop = self._server.get_loop()
        if not isinstance(loop, asyncio.SelectorEventLoop):
            return False
        for sock in self._server.sockets:
            loop.remove_reader(sock.fileno())
        return True

    def close(self) -> None:
        self._server.close()
        if self._path is not None:
            _remove_socket_file(self._path)


_UNIX_FIELD: Final = 108
"""The bytes that Linux has for the path of a unix socket."""


def _connected_unix(path: str) -> socket.socket:
    """Connect to the path of a unix socket, which succeeds or fails at once.

    Raises:
        OSError: nobody listens there, or has room for one more connection.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(os.fsencode(path) or b"\0" * _UNIX_FIELD)  # as in Tarantool, an empty path is the whole field
    except OSError as error:
        sock.close()
        # Python refuses a path that is too long without a number.
        number = error.errno or errno.ENOBUFS
        raise OSError(number, os.strerror(number)) from error
    return sock


class SocketNetwork:
    """The network of the operating system."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> SocketListener:
        replaced: Replaced | None = None
        if uri.unix is not None:
            sock, replaced = bind(socket.AF_UNIX, uri.unix)
            server = await self._loop.create_unix_server(factory, sock=sock)
        else:
            sock = bind_first(await self._resolve(uri))
            server = await self._loop.create_server(factory, sock=sock)
        # The loop has set its own backlog, which is also how many connections it accepts in one turn: set ours again.
        sock.listen(BACKLOG)
        return SocketListener(server, sock, uri.unix, replaced)

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        if uri.unix is not None:
            await self._loop.create_unix_connection(factory, sock=_connected_unix(uri.unix))
            return
        try:
            # Not left to the loop, which prints the failure of a look-up whose connection was cancelled.
            found = await self._addresses(uri.host or "localhost", uri.service, 0)
        except socket.gaierror as error:
            raise system_error(f"getaddrinfo: {error.strerror}", errno.EIO) from error
        problem: OSError | None = None
        for family, address in found:
            try:
                await self._loop.create_connection(factory, address[0], address[1], family=family)
            except OSError as error:
                problem = problem or error
            else:
                return
        raise problem or OSError(errno.EADDRNOTAVAIL, "no address")

    async def _resolve(self, uri: Uri) -> list[tuple[int, Any]]:
        try:
            return await self._addresses(_host_of(uri), uri.service, socket.AI_PASSIVE | socket.AI_ADDRCONFIG)
        except OSError as error:
            raise socket_error("can't resolve uri for bind", "fd -1") from error

    async def _addresses(self, host: str | None, service: str | None, flags: int) -> list[tuple[int, Any]]:
        """Return the family and the address of each socket address that a host has.

        Raises:
            gaierror: the name is unknown.
        """
        try:
            # A numeric address needs no look-up, and so no thread. It is passed as bytes because Python encodes text by
            # the rules for international domain names, and the import of that codec takes some milliseconds.
            numeric = flags | socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            raw = None if host is None else host.encode()
            found = socket.getaddrinfo(raw, service, type=socket.SOCK_STREAM, flags=numeric)
        except OSError:
            found = await self._loop.getaddrinfo(host, service, type=socket.SOCK_STREAM, flags=flags)
        return [(family, address) for family, _, _, _, address in found]


class EndWatch:
    """Tells whether the other side has closed the socket of a transport, before the loop does."""

    def __init__(self, sock: Any) -> None:
        self._poll: select.poll | None = None
        if getattr(sock, "family", None) is not None:  # otherwise it is not a socket of the operating system
            self._descriptor: int = sock.fileno()
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLRDHUP)

    def has_ended(self) -> bool:
        """Return whether the other side has closed the socket and all that it sent has been read."""
        found = self._poll.poll(0) if self._poll is not None else []
        if not found or found[0][1] & select.POLLERR:  # the loop finds out the reason of an error
            return False
        unread = array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, unread)
        return unread[0] == 0


def send_now(sock: Any, data: bytes) -> int:
    """Write to the socket of a transport with an empty buffer. Returns the number of bytes written."""
    if getattr(sock, "family", None) is None:
        return 0  # it is not a socket of the operating system
    try:
        return os.write(sock.fileno(), data)
    except OSError:
        return 0  # the next read will find out the reason
