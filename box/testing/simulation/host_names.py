"""Names and addresses of the hosts of a simulated network, and the lookup of both.

```
host               its name resolves to 10.0.0.1 for the first host of a simulation, 10.0.0.2 for the next and so on;
                   to fd00::1, fd00::2 and so on if IPv6 is asked for
localhost          127.0.0.1, or ::1: the host itself
services           a number, or one of a few names
```
"""

from __future__ import annotations

import socket
from typing import Final

from lua.machine.sockets import AddressInfo, AddressQuery

_SERVICES: Final = {
    "domain": 53,
    "echo": 7,
    "ftp": 21,
    "http": 80,
    "https": 443,
    "postgresql": 5432,
    "smtp": 25,
    "ssh": 22,
    "telnet": 23,
}
"""The port of each known service."""
_PROTOCOLS: Final = {"ip": 0, "icmp": 1, "tcp": 6, "udp": 17, "ipv6": 41, "ipv6-icmp": 58, "sctp": 132, "udplite": 136}
"""The number of each known protocol, as IANA assigns them."""
_KINDS: Final = ((socket.SOCK_STREAM, 6), (socket.SOCK_DGRAM, 17), (socket.SOCK_RAW, 0))
"""The kinds of sockets and their protocols, in the order of the C library's results."""
_LARGEST_PORT: Final = 65535
"""The largest port; the C library reduces larger numbers to 16 bits as well."""
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
"""The addresses that stand for all addresses of a host."""

_TEXTS: Final = {
    socket.EAI_NONAME: "Name or service not known",
    socket.EAI_SERVICE: "Servname not supported for ai_socktype",
    socket.EAI_FAMILY: "ai_family not supported",
    socket.EAI_SOCKTYPE: "ai_socktype not supported",
    socket.EAI_BADFLAGS: "Bad value for ai_flags",
    socket.EAI_ADDRFAMILY: "Address family for hostname not supported",
}
"""The messages of the C library (glibc) for errors of `getaddrinfo`."""


def _unknown(number: int) -> socket.gaierror:
    return socket.gaierror(number, _TEXTS[number])


def is_wildcard(address: str) -> bool:
    """Return True if an address stands for all addresses of a host."""
    return address in _WILDCARDS


def is_loopback(address: str) -> bool:
    """Return True if an address stands for the host itself, and other hosts cannot reach it."""
    return address.startswith("127.") or address == "::1"


def numeric_family(text: str) -> int:
    """Return AF_INET or AF_INET6 for an address, and 0 for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return int(family)
    return 0


def protocol_number(name: str) -> int:
    """Return the number of a protocol.

    Raises:
        OSError: the name is unknown.
    """
    try:
        return _PROTOCOLS[name]
    except KeyError:
        raise OSError("protocol not found") from None


class HostNames:
    """The hosts of a network with their addresses, numbered in the order in which they were added."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Give a host its addresses, if it has none."""
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers) + 1
            for family in (socket.AF_INET, socket.AF_INET6):
                self._names[self.address(name, family)] = name

    def address(self, name: str, family: int) -> str:
        """Return the address of a host."""
        number = self._numbers[name]
        if family == socket.AF_INET6:
            return f"fd00::{number:x}"
        return f"10.0.{number >> 8}.{number & 255}"

    def name_of(self, address: str) -> str | None:
        """Return the host that has a name or an address, or None."""
        return address if address in self._numbers else self._names.get(address)

    def resolve(self, host: str, family: int) -> str:
        """Return the address of a host name. An address is returned as it is, an empty name gives the wildcard address.

        Raises:
            socket.gaierror: the name is unknown, or the address belongs to another family.
        """
        if not host:
            return "::" if family == socket.AF_INET6 else "0.0.0.0"
        numeric = numeric_family(host)
        if numeric:
            if numeric != family:
                raise _unknown(socket.EAI_ADDRFAMILY)
            return host
        if host == "localhost":
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        if host not in self._numbers:
            raise _unknown(socket.EAI_NONAME)
        return self.address(host, family)

    # -- getaddrinfo

    def look_up(self, query: AddressQuery) -> list[AddressInfo]:
        """Return what `getaddrinfo` of the C library would. The default family is IPv4.

        Raises:
            socket.gaierror: the query has no answer.
        """
        host, port, family, kind, protocol, flags = query
        kinds = [
            (own_kind, own_protocol)
            for own_kind, own_protocol in _KINDS
            if kind in (0, own_kind) and (protocol in (0, own_protocol) or own_kind == socket.SOCK_RAW)
        ]
        if family not in (0, socket.AF_INET, socket.AF_INET6):
            raise _unknown(socket.EAI_FAMILY)
        if not kinds:
            raise _unknown(socket.EAI_SOCKTYPE)
        number = self._service(port, flags)
        if not host and (not port and port != 0):
            raise _unknown(socket.EAI_NONAME)
        found, address = self._host(host, family, flags)
        place = (address, number, 0, 0) if found == socket.AF_INET6 else (address, number)
        canonical = host if host and flags & socket.AI_CANONNAME else ""
        return [
            (int(found), int(own_kind), own_protocol or protocol, canonical if not position else "", place)
            for position, (own_kind, own_protocol) in enumerate(kinds)
        ]

    @staticmethod
    def _service(port: str | int, flags: int) -> int:
        if isinstance(port, int) or port.isdecimal():
            return int(port) & _LARGEST_PORT
        if not port:
            return 0
        if port not in _SERVICES or flags & socket.AI_NUMERICSERV:
            raise _unknown(socket.EAI_NONAME if flags & socket.AI_NUMERICSERV else socket.EAI_SERVICE)
        return _SERVICES[port]

    def _host(self, host: str | None, family: int, flags: int) -> tuple[int, str]:
        if not host:
            wanted = family or int(socket.AF_INET)
            if flags & socket.AI_PASSIVE:
                return wanted, self.resolve("", wanted)
            return wanted, self.resolve("localhost", wanted)
        numeric = numeric_family(host)
        if flags & socket.AI_NUMERICHOST and not numeric:
            raise _unknown(socket.EAI_NONAME)
        wanted = family or numeric or int(socket.AF_INET)
        return wanted, self.resolve(host, wanted)
