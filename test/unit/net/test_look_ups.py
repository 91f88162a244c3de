"""Names of hosts: a look-up that fails is an error for the connection that needs it, and for nobody else."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from box.errors import BoxSystemError
from box.net.sockets import SocketNetwork
from box.net.uri import Uri, parse

LOOPS = pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])


def uri_of(text: str) -> Uri:
    uri = parse(text)
    assert uri is not None
    return uri


@LOOPS
def test_a_look_up_that_nobody_waits_for_fails_in_silence(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        told: list[Any] = []
        loop.set_exception_handler(lambda _, context: told.append(context))
        network = SocketNetwork(loop)
        connecting = asyncio.create_task(network.connect(uri_of("name.invalid:1"), asyncio.Protocol))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        del connecting
        with pytest.raises(BoxSystemError, match="getaddrinfo: Name or service not known"):
            await network.connect(uri_of("name.invalid:1"), asyncio.Protocol)
        gc.collect()
        return told

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(main()) == []


@LOOPS
def test_the_next_address_of_a_name_is_tried(
    make_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that listens at IPv4 is reached by a name whose first address is of IPv6."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        addresses = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

        async def look_up(host: str, service: str, **_: Any) -> list[Any]:
            assert (host, service) == ("db", str(port))
            return addresses

        network = SocketNetwork(loop)
        monkeypatch.setattr(network, "_loop", Resolving(loop, look_up))
        await network.connect(uri_of(f"db:{port}"), Leaving)
        await asyncio.sleep(0)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(uri_of(f"db:{port}"), asyncio.Protocol)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


class Leaving(asyncio.Protocol):
    """Closes its connection as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Resolving:
    """A loop whose names are looked up by a function."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look_up: Any) -> None:
        self._loop = loop
        self.getaddrinfo = look_up

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
