"""Listening sockets and the texts for their addresses and failures.

The texts are the peer's: `binary: failed to bind, called on fd -1` with errno EADDRINUSE for a taken port.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from typing import Any, Final

from box.errors import BoxError
from box.net.uri import Uri, socket_error

_KEEPALIVE: Final = ((socket.TCP_KEEPCNT, 5), (socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 60))
"""Probes, seconds before the first, seconds between: the peer's values; accepted sockets inherit them."""

BACKLOG: Final = 4096


def address_text(address: Any) -> str:
    """A socket address as logs and `box.session.peer()` show it: `127.0.0.1:3301`, `[::1]:3301`, `unix/:(socket)`."""
    if isinstance(address, tuple) and len(address) == 2:
        return f"{address[0]}:{address[1]}"
    if isinstance(address, tuple) and len(address) == 4:
        return f"[{address[0]}]:{address[1]}"
    return "unix/:(socket)"


def socket_name(sock: socket.socket) -> str:
    """`fd 12, aka 127.0.0.1:3301, peer of 127.0.0.1:49992`, as error texts show a socket."""
    name = f"fd {sock.fileno()}"
    with suppress(OSError):
        name += f", aka {address_text(sock.getsockname())}"
        name += f", peer of {address_text(sock.getpeername())}"
    return name


def bind(family: int, address: Any) -> socket.socket:
    """A listening socket on one address; raises a SocketError.

    A file of a unix socket that nobody serves any more is removed first.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        _bind(sock, family, address)
        sock.listen(BACKLOG)
    except OSError as error:
        name = socket_name(sock)
        sock.close()
        raise socket_error("bind", name, error.errno or 0) from error
    except BaseException:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, family: int, address: Any) -> None:
    try:
        sock.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or family != socket.AF_UNIX or not is_abandoned(address):
            raise
        os.unlink(address)
        sock.bind(address)


def is_abandoned(path: str) -> bool:
    """Whether it is a socket that nobody listens on. (Another file refuses a connection, too.)"""
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def bind_first(candidates: list[tuple[int, Any]]) -> socket.socket:
    """A socket on the first address that can be bound; raises the SocketError of a taken port otherwise."""
    last: BoxError | None = None
    for family, address in candidates:
        try:
            return bind(family, address)
        except BoxError as error:
            last = error
    raise socket_error("binary: failed to bind", "fd -1", last.errno if last is not None else 0) from last


def host_of(uri: Uri) -> str | None:
    """The host to resolve for listening; None means every local address."""
    return None if uri.host in (None, "", "*") else uri.host


def remove_socket_file(path: str) -> None:
    """Remove the file of a unix socket that is closed."""
    with suppress(FileNotFoundError):
        os.unlink(path)
