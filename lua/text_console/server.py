"""The text console's server: a listening address and the sessions of its clients."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from box.errors import BoxError
from box.log import Level
from box.net import uri as uris
from lua.text_console.console_connection import ConsoleConnection

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.net.network import Listener
    from lua.runtime import Runtime


class ListenError(Exception):
    """An address that cannot be listened on; the text is that of the Lua error."""


class ConsoleServer:
    """A listening address. `serve` runs the session of an accepted connection."""

    def __init__(
        self, node: Instance, runtime: Runtime, serve: Callable[[ConsoleConnection], Coroutine[Any, Any, None]]
    ) -> None:
        self._node = node
        self._runtime = runtime
        self._serve = serve
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[ConsoleConnection] = set()
        self.host = ""
        self.port = ""

    async def listen(self, address: str) -> None:
        """Begin to listen. Raises ListenError."""
        uri = uris.parse(address)
        if uri is None or uri.service is None:
            raise ListenError("usage")
        self.host, self.port = uri.host or "0.0.0.0", uri.service
        try:
            self._listener = await self._node.network.listen(uri, self._accept)
        except (OSError, BoxError) as error:
            raise ListenError(f"failed to create server {self.host}:{self.port}: {_reason(error)}") from error
        replaced = self._listener.replaced
        if replaced is not None:
            self._say("main", f"tcp_server: remove dead UNIX socket: {uri.unix}")
            if replaced.warning is not None:
                self._node.log.warn(replaced.warning)
        name, log = f"console/{self.host}:{self.port}", self._node.log
        log.add_fiber(name)
        log.of_fiber(name).info("started")

    @property
    def fd(self) -> int:
        """The descriptor of the listening socket."""
        assert self._listener is not None
        return self._listener.fd

    @property
    def name(self) -> dict[str, str | int]:
        """The address of the listening socket, as `socket:name()` of Lua returns it."""
        assert self._listener is not None
        kind = {"type": "SOCK_STREAM"}
        if self.host == "unix/":
            return {"host": self.host, "port": self.port, "family": "AF_UNIX", **kind, "protocol": 0}
        host, _, port = self._listener.address.rpartition(":")
        family = "AF_INET6" if ":" in host else "AF_INET"
        return {"host": host.strip("[]"), "port": int(port), "family": family, **kind, "protocol": "tcp"}

    def _accept(self) -> ConsoleConnection:
        return ConsoleConnection(self._runtime, self._on_made)

    def _on_made(self, connection: ConsoleConnection) -> None:
        self._connections.add(connection)
        task = self._runtime.loop.create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: ConsoleConnection) -> None:
        fiber = connection.fiber_name
        try:
            await self._serve(connection)
        # Only the session fails.
        except BoxError as error:  # mostly of an on_connect or on_disconnect trigger
            self._node.log.of_fiber(fiber).problem(error)
        except Exception as bug:
            self._node.log.error("console: " + "".join(traceback.format_exception(bug)).rstrip())
        finally:
            connection.close()
            self._connections.discard(connection)

    def _say(self, fiber: str, text: str) -> None:
        self._node.log.say(Level.INFO, text, fiber=fiber)

    def stop_listening(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self) -> None:
        """Stop listening and end every session."""
        self.stop_listening()
        for connection in list(self._connections):
            connection.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reason(error: BaseException) -> str:
    """Return the operating system's text for a network failure, or Tarantool's for an unknown name."""
    while isinstance(error, BoxError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, socket.gaierror):
        return os.strerror(errno.EIO)
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno is not None else str(error)
