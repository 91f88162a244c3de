"""`socket`: the sockets of the machine for Lua, identified by descriptor.

A method that fails returns `(None, errno)`; nothing here blocks.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import struct
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from box.data import codec
from box.net.uri import UNIX_HOST
from lua.bindings.binding import Binding, exported, text, waiting
from lua.bindings.poll import Poll
from lua.machine.sockets import READ, WRITE, AddressQuery, Socket

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime

_DOMAINS: Final = """
    AF_UNIX AF_INET AF_INET6 AF_IPX AF_NETLINK AF_X25 AF_AX25 AF_ATMPVC AF_APPLETALK AF_PACKET
""".split()
_TYPES: Final = ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "SOCK_RDM", "SOCK_SEQPACKET")
_READ_ONLY: Final = frozenset({"SO_ACCEPTCONN", "SO_DOMAIN", "SO_ERROR", "SO_PEERCRED", "SO_PROTOCOL", "SO_TYPE"})
_TEXT_OPTIONS: Final = frozenset({"SO_BINDTODEVICE", "TCP_CONGESTION"})
_STRUCT_OPTIONS: Final = frozenset({"SO_LINGER", "TCP_INFO"})
_INT, _STRUCT, _TEXT = 1, 0, 2
_PORT_MAX: Final = 65535
_PATH_MAX: Final = 107
"""The longest path of a unix socket in bytes."""
_NEGATIVE: Final = re.compile(r"-\d+")
_NO_NAME: Final = b"getaddrinfo: Name or service not known"
_NO_SERVICE: Final = b"getaddrinfo: Servname not supported for ai_socktype"
_LEADING_NUMBER: Final = re.compile(r"\s*[+-]?\d+")


def _constants(prefix: str) -> dict[str, int]:
    return {
        name: int(value) for name, value in vars(socket).items() if name.startswith(prefix) and isinstance(value, int)
    }


def _option_table(prefix: str) -> dict[str, dict[str, Any]]:
    """Return name -> {iname = number, type = kind of its value, rw = whether it can be set}."""

    def kind(name: str) -> int:
        return _TEXT if name in _TEXT_OPTIONS else _STRUCT if name in _STRUCT_OPTIONS else _INT

    return {
        name: {"iname": number, "type": kind(name), "rw": name not in _READ_ONLY | _STRUCT_OPTIONS}
        for name, number in _constants(prefix).items()
    }


def _failing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method return `(None, errno)` in place of an exception."""

    @wraps(method)
    def call(self: SocketBinding, *args: Any) -> Any:
        try:
            return method(self, *args)
        except socket.gaierror:
            return None, errno.EINVAL
        except TypeError as error:
            if "hostname" not in str(error):
                raise
            return None, errno.EINVAL  # the name cannot be encoded for the domain name system
        except (OSError, OverflowError, ValueError, struct.error) as error:
            return None, getattr(error, "errno", None) or errno.EINVAL

    return call


def _asked_for(sock: Socket, size: int, flags: int) -> tuple[int, int]:
    """Return the size and the flags of a read.

    Python reads nothing if it is asked for no bytes, but the system fails if there is nothing, and drops a datagram.
    """
    if size > 0:
        return size, flags
    return 1, flags | (socket.MSG_PEEK if sock.type == socket.SOCK_STREAM else 0)


def _address_map(sock: Socket, address: Any) -> dict[str, Any]:
    if sock.family == socket.AF_UNIX:
        path = address if isinstance(address, str) else os.fsdecode(address or b"")
        return {"host": UNIX_HOST, "family": "AF_UNIX", "port": path}
    return {"host": address[0], "family": sock.family.name, "port": address[1]}


def _check_family(sock: Socket, family: int) -> None:
    """Raise the error of the system if a socket of another family gets an address."""
    if sock.family != family:
        is_short = sock.family == socket.AF_INET6 and family == socket.AF_INET
        number = errno.EINVAL if is_short or sock.family == socket.AF_UNIX else errno.EAFNOSUPPORT
        raise OSError(number, os.strerror(number))


_PROTOCOLS: Final = {int(socket.IPPROTO_TCP): "tcp", int(socket.IPPROTO_UDP): "udp"}
_USUAL_PROTOCOLS: Final = {int(socket.SOCK_STREAM): "tcp", int(socket.SOCK_DGRAM): "udp"}


def _protocol_name(sock: Socket) -> str | int:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return sock.proto
    name = _PROTOCOLS.get(sock.proto) or _USUAL_PROTOCOLS.get(int(sock.type))
    return name or sock.proto


class SocketBinding(Binding):
    """Python half of lua/modules/socket.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._sockets: dict[int, Socket] = {}
        self.poll = Poll(runtime)
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Close all sockets, because the node stops."""
        self.poll.close()
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()

    def _adopt(self, sock: Socket) -> int:
        sock.setblocking(False)
        fd = sock.fileno()
        self._sockets[fd] = sock
        return fd

    def _socket(self, fd: float) -> Socket:
        try:
            return self._sockets[int(fd)]
        except KeyError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    @exported("socket_constants")
    def constants(self) -> bytes:
        """Return the tables of `socket.internal`."""
        domains = {name: int(getattr(socket, name)) for name in _DOMAINS if hasattr(socket, name)}
        domains["AF_LOCAL"] = int(socket.AF_UNIX)
        domains |= {name.replace("AF_", "PF_"): value for name, value in list(domains.items())}
        return codec.pack(
            {
                "DOMAIN": domains,
                "SO_TYPE": {name: int(getattr(socket, name)) for name in _TYPES},
                "SEND_FLAGS": _constants("MSG_"),
                "AI_FLAGS": _constants("AI_"),
                "SOL_SOCKET": socket.SOL_SOCKET,
                # By level, as Tarantool has them on Linux: SOL_SOCKET is 1 and IPPROTO_TCP is 6.
                "SO_OPT": [_option_table("SO_"), *[None] * 4, _option_table("TCP_")],
            }
        )

    # Making and closing

    @exported("socket_open")
    @_failing
    def open(self, domain: float, kind: float, protocol: float) -> Any:
        """Open a socket. Returns its descriptor."""
        return self._adopt(self.runtime.machine.sockets.open(int(domain), int(kind), int(protocol)))

    @exported("socket_protocol")
    @_failing
    def protocol(self, name: bytes) -> Any:
        """Return the number of a protocol."""
        return self.runtime.machine.sockets.protocol_number(text(name))

    @exported("socket_close")
    @_failing
    def close(self, fd: float) -> Any:
        """Close a socket; fibers that wait for it are resumed."""
        sock = self._socket(fd)
        self.poll.forget(int(fd))
        del self._sockets[int(fd)]
        sock.close()
        return True

    @exported("socket_detach")
    @_failing
    def detach(self, fd: float) -> Any:
        """Forget a descriptor without closing it."""
        sock = self._socket(fd)
        self.poll.forget(int(fd))
        del self._sockets[int(fd)]
        return sock.detach()

    # Addresses

    def _address(self, sock: Socket, host: bytes, port: Any, is_own: bool = False) -> Any:
        """Return the address of a host, which must not be a name: as in Tarantool, nothing is looked up here.

        `is_own` is true for the address of the socket itself.

        Raises:
            OSError: it is no address, or none for this socket.
        """
        name = text(host)
        if name == UNIX_HOST:
            path = os.fsdecode(port if isinstance(port, bytes) else str(int(port)).encode())
            if len(os.fsencode(path)) > _PATH_MAX:
                raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
            _check_family(sock, socket.AF_UNIX)
            # As in Tarantool, an empty path is the whole field, which is the name of a socket without a file.
            return path or b"\0" * (_PATH_MAX + 1)
        # As C's `atoi` and the 16 bits of a port have it: what is no number is 0.
        found = _LEADING_NUMBER.match(text(port) if isinstance(port, bytes) else str(int(port or 0)))
        number = int(found[0]) & _PORT_MAX if found else 0
        family, address = self.runtime.machine.sockets.address_of(name)
        if (
            family == socket.AF_INET
            and sock.family == socket.AF_INET6
            and sock.type == socket.SOCK_DGRAM
            and not is_own
        ):
            return f"::ffff:{address}", number
        _check_family(sock, family)
        return address, number

    @exported("socket_connect")
    @_failing
    def connect(self, fd: float, host: bytes, port: Any) -> Any:
        """Connect to an address, which must not be a name; EINPROGRESS is the usual outcome."""
        sock = self._socket(fd)
        sock.connect(self._address(sock, host, port))
        return True

    @exported("socket_bind")
    @_failing
    def bind(self, fd: float, host: bytes, port: Any) -> Any:
        sock = self._socket(fd)
        sock.bind(self._address(sock, host, port, is_own=True))
        return True

    @exported("socket_listen")
    @_failing
    def listen(self, fd: float, backlog: float) -> Any:
        self._socket(fd).listen(int(backlog))
        return True

    @exported("socket_accept")
    @_failing
    def accept(self, fd: float) -> Any:
        """Accept a connection. Returns its descriptor, and the client's address as a map."""
        sock, address = self._socket(fd).accept()
        return self._adopt(sock), codec.pack(_address_map(sock, address))

    def _named(self, sock: Socket, address: Any) -> bytes:
        described = _address_map(sock, address)
        return codec.pack(described | {"type": sock.type.name, "protocol": _protocol_name(sock)})

    @exported("socket_name")
    @_failing
    def name(self, fd: float) -> Any:
        """Return the socket's own address: a map of host, port, family, type and protocol."""
        sock = self._socket(fd)
        return self._named(sock, sock.getsockname())

    @exported("socket_peer")
    @_failing
    def peer(self, fd: float) -> Any:
        """Return the address of the other side: a map of host, port, family, type and protocol."""
        sock = self._socket(fd)
        return self._named(sock, sock.getpeername())

    @waiting("socket_getaddrinfo")
    async def getaddrinfo(self, host: bytes | None, port: Any, packed: bytes, timeout: float) -> Any:
        """Resolve a name. Returns a list of address maps, or (None, errno, reason). A name or service that does not
        exist is EIO.

        `packed` is a map of family, type, protocol and flags, all numbers.
        """
        await asyncio.sleep(0)  # other fibers run even if there is nothing to look up
        if not host and port is None:
            return None, errno.EIO, _NO_NAME
        service = text(port) if isinstance(port, bytes) else int(port or 0)
        query = AddressQuery(text(host) if host else None, service, **codec.unpack(packed))
        # uvloop would take a negative number for a port. What else is wrong with the query is told first.
        has_service = not (isinstance(service, str) and (_NEGATIVE.fullmatch(service) or not service.isascii()))
        if not has_service:
            query = query._replace(host=None, port=0)
        try:
            async with asyncio.timeout(timeout):
                found = await self.runtime.machine.sockets.getaddrinfo(self.runtime.loop, query)
        except TimeoutError:
            return None, errno.ETIMEDOUT, b"timed out"
        except socket.gaierror as error:
            return None, errno.EIO, f"getaddrinfo: {error.strerror}".encode()
        except UnicodeError:  # bytes that are no name; a wrong service is told first
            try:
                await self.runtime.machine.sockets.getaddrinfo(self.runtime.loop, query._replace(host=None))
            except socket.gaierror:
                return None, errno.EIO, _NO_SERVICE
            return None, errno.EIO, _NO_NAME
        except OSError as error:
            return None, error.errno, f"getaddrinfo: {error.strerror}".encode()
        if not has_service:
            return None, errno.EIO, _NO_SERVICE
        return codec.pack([_info_map(*entry) for entry in found])

    # Data

    @exported("socket_read")
    @_failing
    def read(self, fd: float, size: float, flags: float) -> Any:
        """Read available bytes, up to `size`; empty at the end."""
        sock = self._socket(fd)
        wanted, how = _asked_for(sock, int(size), int(flags))
        return sock.recv(wanted, how)[: int(size)]

    @exported("socket_write")
    @_failing
    def write(self, fd: float, data: bytes, flags: float) -> Any:
        """Write bytes. Returns the number written."""
        return self._socket(fd).send(data, int(flags))

    @exported("socket_sendto")
    @_failing
    def sendto(self, fd: float, host: bytes, port: Any, data: bytes, flags: float) -> Any:
        sock = self._socket(fd)
        return sock.sendto(data, int(flags), self._address(sock, host, port))

    @exported("socket_recvfrom")
    @_failing
    def recvfrom(self, fd: float, size: float, flags: float) -> Any:
        """Receive a message. Returns it with its sender's address as a map."""
        sock = self._socket(fd)
        wanted, how = _asked_for(sock, int(size), int(flags))
        data, address = sock.recvfrom(wanted, how)
        return data[: int(size)], codec.pack(_address_map(sock, address)) if address else None

    @exported("socket_shutdown")
    @_failing
    def shutdown(self, fd: float, how: float) -> Any:
        self._socket(fd).shutdown(int(how))
        return True

    # Socket options (getsockopt, setsockopt)

    @exported("socket_getopt")
    @_failing
    def getopt(self, fd: float, level: float, option: float, is_text: bool) -> Any:
        """Return an option: a number or a text."""
        sock = self._socket(fd)
        if is_text:
            # 256 bytes are more than the texts of the system need: names of devices and of algorithms.
            return sock.getsockopt(int(level), int(option), 256).rstrip(b"\0")
        return sock.getsockopt(int(level), int(option))

    @exported("socket_setopt")
    @_failing
    def setopt(self, fd: float, level: float, option: float, value: Any) -> Any:
        """Set an option to a number, a boolean or a text."""
        self._socket(fd).setsockopt(int(level), int(option), value if isinstance(value, bytes) else int(value))
        return True

    @exported("socket_linger")
    @_failing
    def linger(self, fd: float, active: bool | None, seconds: float | None) -> Any:
        """Set the linger option if `active` is given. Returns packed [active, seconds]."""
        sock = self._socket(fd)
        if active is not None:
            value = struct.pack("ii", int(active), int(seconds or 0))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)
        # A `struct linger`: two ints.
        is_on, delay = struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        return codec.pack([bool(is_on), delay])

    @exported("socket_blocking")
    @_failing
    def blocking(self, fd: float, is_blocking: bool | None) -> Any:
        """Set the blocking mode if it is given. Returns 1 if operations do not block, otherwise 0."""
        sock = self._socket(fd)
        if is_blocking is not None:
            sock.setblocking(is_blocking)
        return 0 if sock.getblocking() else 1

    @exported("socket_wait")
    @_failing
    def wait(self, fd: float, mask: float, timeout: float | None) -> Any:
        """Wait for readiness (1 read, 2 write). Returns it, or a token that wakes with it; 0 after the timeout.

        The descriptor may be any, not only a socket's. As in Tarantool, a socket is asked by the loop, so that other
        fibers run and other sockets are asked as well.
        """
        number = int(fd)
        return self.poll.wait(number, int(mask) & (READ | WRITE), timeout, asks_loop=number in self._sockets)


def _info_map(family: int, kind: int, protocol: int, canonical: str, address: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "host": address[0],
        "port": address[1],
        "family": socket.AddressFamily(family).name,
        "type": socket.SocketKind(kind).name,
        "protocol": _PROTOCOLS.get(protocol, protocol),
    }
    return described | ({"canonname": canonical} if canonical else {})
