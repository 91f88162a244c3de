"""Connecting to another instance: address, greeting, and what the greeting tells of it."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from uuid import UUID

from box.errors import ErrorCode, client_error
from box.net.stream import RowStream, socket_error
from box.net.uri import Uri, parse
from box.wire.auth import encode_auth
from box.wire.constants import GREETING_SIZE, RequestType
from box.wire.greeting import decode_greeting
from box.wire.row import Row


@dataclass(frozen=True, slots=True)
class Peer:
    """The instance at the other end. `user` is None when the address names none: guest needs no authentication."""

    uuid: UUID
    version: int
    salt: bytes
    user: str | None
    password: str

    @property
    def version_text(self) -> str:
        return f"{self.version >> 16}.{self.version >> 8 & 255}.{self.version & 255}"

    def auth_request(self) -> Row:
        """The AUTH request of the address's user."""
        return Row(RequestType.AUTH, body=encode_auth(self.user or "guest", self.password, self.salt))


async def connect(loop: asyncio.AbstractEventLoop, address: str, timeout: float) -> tuple[RowStream, Peer]:
    """Open a connection and read the greeting. Raises a SocketError, or PROTOCOL for a peer that is no instance."""
    uri = parse(address)
    if uri is None:
        raise client_error(ErrorCode.CFG, "replication", "expected host:service or /unix.socket")
    stream = RowStream(loop, prologue=GREETING_SIZE)
    try:
        async with asyncio.timeout(timeout):
            await _open(loop, uri, stream)
            greeting = decode_greeting(await stream.read_prologue())
    except TimeoutError:
        stream.close()
        raise socket_error("timed out", errno.ETIMEDOUT) from None
    except OSError as error:
        stream.close()
        raise socket_error(f"connect to {address_of(address)}", error.errno or errno.ECONNREFUSED) from error
    except BaseException:
        stream.close()
        raise
    if greeting.protocol != "Binary":
        stream.close()
        raise client_error(ErrorCode.PROTOCOL, "Unsupported protocol for replication")
    peer = Peer(greeting.uuid, greeting.version_id, greeting.salt, uri.login, uri.password or "")
    return stream, peer


def address_of(source: str) -> str:
    """The address of a source without user and password: `localhost:3301`, `unix/:/path`."""
    uri = parse(source)
    if uri is None:
        return source.rpartition("@")[2]
    return f"unix/:{uri.unix}" if uri.unix is not None else f"{uri.host or 'localhost'}:{uri.service}"


def service_port(service: str | None) -> int:
    """The port of a service given by number or by name."""
    if service is None:
        raise client_error(ErrorCode.CFG, "replication", "expected host:service or /unix.socket")
    return int(service) if service.isdigit() else socket.getservbyname(service)


async def _open(loop: asyncio.AbstractEventLoop, uri: Uri, stream: RowStream) -> None:
    if uri.unix is not None:
        await loop.create_unix_connection(lambda: stream, uri.unix)
    else:
        await loop.create_connection(lambda: stream, uri.host or "localhost", service_port(uri.service))
