"""Addresses of members as users write them: `127.0.0.1:3301`, `localhost:3301` or a port alone."""

from __future__ import annotations

import socket
from typing import Final

from box.errors import BoxError, ErrorCode
from box.net.uri import parse, socket_error
from box.swim.members import Address

# 127.0.0.1 and 255.255.255.255 as numbers.
_LOOPBACK: Final = 0x7F000001
_BROADCAST: Final = 0xFFFFFFFF


def parse_address(text: str, function: str) -> Address:
    """Return the address that a text names; `function` begins the texts of errors.

    Raises:
        BoxError: the text is not an IPv4 address. Host names are not looked up.
    """
    uri = parse(text)
    if uri is None or uri.service is None:
        raise _invalid(text)
    if uri.unix is not None:
        raise BoxError(ErrorCode.PROC_LUA, f"{function} only IP sockets are supported", type="IllegalParams")
    # As in C: the name of a service is no number, a number is cut to 16 bits.
    port = int(uri.service) & 0xFFFF if uri.service.isdigit() else 0
    if not uri.host:
        # A bind to all addresses would have none to tell to others.
        return Address(_LOOPBACK, port)
    ip = _LOOPBACK if uri.host == "localhost" else _ip(uri.host)
    if ip is None or ip == _BROADCAST:
        raise _invalid(text)
    if ip == 0:
        raise BoxError(ErrorCode.PROC_LUA, f"{function} INADDR_ANY is not supported", type="IllegalParams")
    return Address(ip, port)


def _invalid(text: str) -> BoxError:
    return socket_error(f'invalid uri "{text}"', "fd -1")


def _ip(host: str) -> int | None:
    try:
        return int.from_bytes(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
