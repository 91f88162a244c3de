"""Blocking connections for `.test.py` scripts: `AdminConnection` (text console) and `BoxConnection` (binary protocol).

Scripts also import them, as `lib.admin_connection` and `lib.box_connection`. A port is a number, or the path of a unix
socket; a name of a host does not matter then.
"""

from __future__ import annotations

import select
import socket
import sys
from types import TracebackType
from typing import Any, Self

from console.suite.wire import END_OF_REPLY, GREETING_SIZE

Port = int | str
_PIECE = 4096
_CLIENT_TIMEOUT = 100.0
"""Seconds that a request of the binary protocol may take."""


_MADE: list[TarantoolConnection] = []


def disconnect_all() -> None:
    """Close the connections that scripts have left open."""
    while _MADE:
        _MADE.pop().disconnect()


class TarantoolConnection:
    """A connection to a port of a node, made at the first use."""

    def __init__(self, host: str, port: Port) -> None:
        self.host = host
        self.port = port
        self.is_connected = False
        self.socket: socket.socket
        _MADE.append(self)

    @property
    def uri(self) -> str:
        return str(self.port) if _is_path(self.port) else f"{self.host}:{self.port}"

    def connect(self) -> None:
        """Connect. Raises OSError."""
        if _is_path(self.port):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(str(self.port))
        else:
            self.socket = socket.create_connection((self.host, int(self.port)))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_connected = True

    def disconnect(self) -> None:
        if self.is_connected:
            self.socket.close()
            self.is_connected = False

    def reconnect(self) -> None:
        self.disconnect()
        self.connect()

    def opt_reconnect(self) -> None:
        """Connect again if the other end has closed the connection."""
        if not self.is_connected:
            self.reconnect()
            return
        try:
            if self.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b"":
                self.reconnect()
        except BlockingIOError:
            return
        except OSError:
            self.reconnect()

    def clone(self) -> Self:
        """Return another connection to the same port."""
        return type(self)(self.host, self.port)

    def execute(self, command: str, silent: bool = True) -> Any:
        """Send a command and return its reply. Prints both unless `silent`."""
        self.opt_reconnect()
        return self.execute_no_reconnect(command, silent)

    def execute_no_reconnect(self, command: str, silent: bool = True) -> Any:
        """Send a command on the connection as it is."""
        raise NotImplementedError

    def __call__(self, command: str, silent: bool = False, simple: bool = False) -> Any:
        return self.execute(command, silent)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()


class AdminConnection(TarantoolConnection):
    """A text console: `admin(command)` prints the command and its reply, and returns the reply."""

    def connect(self) -> None:
        """Connect and read the greeting. Raises OSError, RuntimeError if it is not that of a console."""
        super().connect()
        greeting = b""
        while len(greeting) < GREETING_SIZE and (piece := self.socket.recv(GREETING_SIZE - len(greeting))):
            greeting += piece
        if not (greeting.startswith(b"Tarantool") and b"console" in greeting):
            raise RuntimeError("Broken tarantool console handshake")

    def execute_no_reconnect(self, command: str, silent: bool = True) -> str | None:
        if not command:
            return None
        if not silent:
            sys.stdout.write(command + "\n")
        self.socket.sendall(command.replace("\n", " ").encode(errors="surrogateescape") + b"\n")
        reply = b""
        while END_OF_REPLY not in reply[-len(END_OF_REPLY) :] and (piece := self.socket.recv(_PIECE)):
            reply += piece
        text = reply.decode(errors="surrogateescape")
        if not silent:
            sys.stdout.write(text)
        return text


class BoxConnection(TarantoolConnection):
    """The binary address of a node, with the client `py_con` of the package `tarantool` from PyPI."""

    def __init__(self, host: str, port: Port) -> None:
        super().__init__(host, port)
        self._client: Any = None
        self.sort = False

    @property
    def py_con(self) -> Any:
        """The client; it connects at its first request. Errors of requests are responses, not exceptions."""
        if self._client is None:
            import tarantool

            host = None if _is_path(self.port) else self.host
            self._client = tarantool.Connection(host, self.port, connect_now=False, socket_timeout=_CLIENT_TIMEOUT)
            self._client.error = False
        return self._client

    def connect(self) -> None:
        self.py_con.connect()

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()

    def reconnect(self) -> None:
        self.disconnect()
        self.connect()

    def authenticate(self, user: str, password: str) -> None:
        self.py_con.authenticate(user, password)

    def set_schema(self, schema: Any) -> None:
        from tarantool.schema import Schema

        self.py_con.schema = Schema(schema)

    def check_connection(self) -> bool:
        """Return whether the connection is open and has nothing to read."""
        client_socket = self.py_con._socket
        # Not by recv: a socket with a timeout would wait for it, even with MSG_DONTWAIT.
        return client_socket is not None and not select.select([client_socket], [], [], 0)[0]

    def execute(self, command: str, silent: bool = True) -> Any:
        return self.execute_no_reconnect(command, silent)

    def execute_no_reconnect(self, command: str, silent: bool = True) -> Any:
        """Call a function by name. Prints the name and the response unless `silent`."""
        if not command:
            return None
        if not silent:
            print(command)
        response = self.py_con.call(command.replace("\n", " "))
        if not silent:
            print(response)
        return response

    def call(self, command: str, *arguments: Any) -> str | None:
        """Call a function; prints the call and its response, and returns the response's text."""
        if not command:
            return None
        print(f"call  {command} {arguments}")
        result = str(self.py_con.call(command, *arguments))
        print(result)
        return result


def _is_path(port: Port) -> bool:
    return str(port).startswith("/")
