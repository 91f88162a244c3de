"""Connects to another instance: address, socket, greeting, then AUTH if the address or the caller names a user."""

from __future__ import annotations

import asyncio
import errno

from box.errors import BoxError, ErrorCode, client_error, timed_out
from box.net.network import Network
from box.net.peer_connection import PeerConnection
from box.net.uri import Uri, address_of, parse, socket_error
from box.wire.greeting import Greeting


def parse_address(address: str | Uri) -> Uri:
    """Parse the address of a server, unless it is parsed already.

    Raises:
        ClientError: ILLEGAL_PARAMS, the text is not an address.
    """
    if isinstance(address, Uri):
        return address
    uri = parse(address)
    if uri is None or uri.service is None:
        raise client_error(ErrorCode.ILLEGAL_PARAMS, f"invalid uri: {address}")
    return uri


async def open_connection(
    loop: asyncio.AbstractEventLoop,
    network: Network,
    address: str | Uri,
    timeout: float | None = None,
    *,
    keeps_rows: bool,
) -> PeerConnection:
    """Open a connection and wait for its greeting; `timeout` seconds limit everything together.

    Raises:
        SocketError: the connection failed.
        BoxSystemError: the name is unknown.
        ClientError: PROTOCOL, the other side is not a server.
        TimedOut: the time is over.
    """
    uri = parse_address(address)
    connection = PeerConnection(loop, keeps_rows=keeps_rows)
    try:
        async with asyncio.timeout(timeout):
            await network.connect(uri, lambda: connection)
            await connection.wait_greeting()
    except TimeoutError:
        connection.close()
        raise timed_out() from None
    except OSError as error:
        connection.close()
        number = error.errno if error.errno and error.errno > 0 else errno.ECONNREFUSED
        raise socket_error(f"connect to {address_of(uri.format())}", "fd -1", number) from error
    except BaseException:
        connection.close()
        raise
    return connection


def require_binary(greeting: Greeting, refusal: str) -> None:
    """Raise PROTOCOL with the text `refusal` unless the server speaks the binary protocol."""
    if greeting.protocol != "Binary":
        raise client_error(ErrorCode.PROTOCOL, refusal)


async def connect(
    loop: asyncio.AbstractEventLoop,
    network: Network,
    address: str | Uri,
    *,
    timeout: float | None = None,
    user: str | None = None,
    password: str | None = None,
    keeps_rows: bool = False,
) -> PeerConnection:
    """Open a connection for requests; `user` and `password` take precedence over those of the address.

    Raises the errors of `open_connection`, and the server's refusal of the user.
    """
    uri = parse_address(address)
    deadline = None if timeout is None else loop.time() + timeout
    connection = await open_connection(loop, network, address, timeout, keeps_rows=keeps_rows)
    try:
        require_binary(connection.greeting, f"Unsupported protocol: {connection.greeting.protocol}")
        login = user or uri.login
        if login is not None:
            secret = password if user is not None else uri.password
            left = None if deadline is None else max(0.0, deadline - loop.time())
            await connection.authenticate(login, secret or "", timeout=left)
    except BaseException as error:
        connection.close(error if isinstance(error, BoxError) else None)
        raise
    return connection
