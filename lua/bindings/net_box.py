"""`net.box`: connections to other instances, built on `box.net`.

Lua keeps the state of a connection and refers to requests by number. This module has the socket, the greeting and the
replies that Lua has not taken yet. Errors of the socket become NO_CONNECTION with the texts of Tarantool's client.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from box.data import codec
from box.errors import BoxError, ErrorCode, client_error
from box.net.uri import UNIX_HOST, Uri
from box.wire.constants import RequestType
from box.wire.row import Row, StreamRow, encode_packet
from lua.bindings.binding import Binding, Outcome, exported, guarded, text, waiting

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.net.peer_connection import PeerConnection
    from box.session import Context
    from lua.runtime import Runtime

_TIMEOUT, _PUSH, _REPLY = 0, 1, 2
"""The results of `netbox_next`."""
_CLOSED, _SCHEMA_CHANGED = 1, 2
"""The results of `netbox_event`."""

_PEER_CLOSED: Final = "Peer closed"
_NO_GREETING: Final = "Invalid greeting"
"""The reason when a server closes the connection before its greeting is complete."""


def _no_connection(reason: str) -> BoxError:
    return BoxError(ErrorCode.NO_CONNECTION, reason)


def _reason(error: BaseException) -> str:
    """Return the reason for a lost connection in the words of Tarantool's client."""
    from box.net.peer_connection import EOF_TEXT

    if isinstance(error, BoxError):
        if error.message.startswith(EOF_TEXT):
            return _PEER_CLOSED
        if error.type in ("SocketError", "TimedOut"):
            return os.strerror(error.errno)
        return error.message
    return str(error)


@dataclass(eq=False, repr=False, slots=True)
class _Remote:
    """A connection to a server. `schema_version` is that of the schema which Lua has."""

    connection: PeerConnection
    schema_version: int = 0
    watcher: int = 0
    """The token of the fiber that waits for `netbox_event`, 0 if none waits."""


@dataclass(eq=False, repr=False, slots=True)
class _RequestWaiter:
    """A fiber that waits for a request; it has taken the first `known` pushes."""

    token: int
    known: int
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False, repr=False, slots=True)
class _Request:
    """A request whose reply Lua has not taken yet."""

    remote: _Remote
    kind: int
    sync: int = 0
    pushes: list[bytes] = field(default_factory=list)
    reply: bytes | None = None
    error: BoxError | None = None
    waiters: list[_RequestWaiter] = field(default_factory=list)


class NetBoxBinding(Binding):
    """Python half of lua/modules/net/box.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._remotes: dict[int, _Remote] = {}
        self._requests: dict[int, _Request] = {}
        self._last_id = 0
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Close all connections, because the node stops."""
        for remote_id in list(self._remotes):
            self.close(remote_id)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def note_error(self, ctx: Context, error: BoxError) -> None:
        """Make an error the last error of the fiber. It is the reason why there is no connection, which `box.stat()`
        does not count.
        """
        ctx.error = error

    # Connections

    @waiting("netbox_connect")
    async def connect(self, host: bytes, port: bytes, timeout: float) -> tuple[int, bytes]:
        """Connect. Returns the number of the connection, and packed [protocol, uuid, version id].

        Raises:
            ClientError: NO_CONNECTION.
        """
        from box.net.dial import connect

        address: str | Uri = f"{text(host)}:{text(port)}"
        if text(host) == UNIX_HOST:
            address = Uri(host=UNIX_HOST, service=text(port))  # any text is a path
        elif ":" in text(host):
            address = f"[{text(host)}]:{text(port)}"
        try:
            connection = await connect(self.runtime.loop, self.node.network, address, timeout=timeout)
        except BoxError as error:
            reason = _reason(error)
            raise _no_connection(_NO_GREETING if reason == _PEER_CLOSED else reason) from error
        remote_id = self._next_id()
        remote = self._remotes[remote_id] = _Remote(connection)
        connection.on_close = lambda _error: self._wake_watcher(remote)
        greeting = connection.greeting
        return remote_id, codec.pack([greeting.protocol, str(greeting.uuid), greeting.version_id])

    @waiting("netbox_auth")
    async def authenticate(self, remote_id: float, user: bytes, password: bytes) -> bool:
        """Authenticate as a user.

        Raises:
            ClientError: NO_CONNECTION, with the server's refusal.
        """
        connection = self._remotes[int(remote_id)].connection
        try:
            await connection.authenticate(text(user), text(password))
        except BoxError as error:
            raise _no_connection(_reason(error)) from error
        return True

    @exported("netbox_close")
    def close(self, remote_id: float, reason: bytes = b"Connection closed") -> None:
        """Close a connection. Its requests fail with NO_CONNECTION and the reason."""
        remote = self._remotes.pop(int(remote_id), None)
        if remote is not None:
            remote.connection.close(_no_connection(text(reason)))

    @exported("netbox_schema")
    def schema(self, remote_id: float, version: float) -> None:
        """Note that Lua has the schema of this version now."""
        self._remotes[int(remote_id)].schema_version = int(version)

    @exported("netbox_version")
    def version(self, remote_id: float) -> int:
        """Return the schema version of the last reply."""
        remote = self._remotes.get(int(remote_id))
        return 0 if remote is None else remote.connection.schema_version

    @exported("netbox_event")
    def event(self, remote_id: float) -> Outcome:
        """Wait until the connection is lost (1 and the reason) or the server's schema has changed (2)."""
        remote = self._remotes.get(int(remote_id))
        if remote is None:
            return _CLOSED, b"Connection closed"
        error = remote.connection.error
        if error is not None:
            return _CLOSED, _reason(error).encode()
        if self._is_schema_old(remote):
            return _SCHEMA_CHANGED
        remote.watcher = self.runtime.new_token(lambda: self._wake_watcher(remote))
        return remote.watcher

    @staticmethod
    def _is_schema_old(remote: _Remote) -> bool:
        version = remote.connection.schema_version
        return version != 0 and version != remote.schema_version

    def _wake_watcher(self, remote: _Remote) -> None:
        token, remote.watcher = remote.watcher, 0
        if not token:
            return
        error = remote.connection.error
        if error is not None:
            self.runtime.wake(token, _CLOSED, _reason(error).encode())
        else:
            self.runtime.wake(token, _SCHEMA_CHANGED)

    # Requests

    @guarded("netbox_send")
    def send(self, remote_id: float, kind: float, body: bytes, stream_id: float | None = None) -> Outcome:
        """Send a request, in a stream or outside of all, and return its number."""
        remote = self._remotes.get(int(remote_id))
        if remote is None:
            raise _no_connection("Connection closed")
        number = self._next_id()
        request = self._requests[number] = _Request(remote, int(kind))
        row = StreamRow(int(kind), body=body, stream_id=int(stream_id)) if stream_id else Row(int(kind), body=body)
        future = remote.connection.send(row, lambda push: self._on_push(request, push))
        request.sync = row.sync
        future.add_done_callback(lambda future: self._on_reply(request, future))
        return number

    def _on_push(self, request: _Request, row: Row) -> None:
        request.pushes.append(row.body)
        self._tell(request)

    def _on_reply(self, request: _Request, future: asyncio.Future[Row]) -> None:
        remote = request.remote
        error = future.exception()
        if error is None:
            request.reply = future.result().body
        elif isinstance(error, BoxError) and error is not remote.connection.error:
            request.error = error
        else:
            request.error = _no_connection(_reason(error))
        # The fiber that loads the schema runs first, so that the receiver of the reply finds the schema being loaded.
        if remote.watcher and self._is_schema_old(remote):
            self._wake_watcher(remote)
        self._tell(request)

    def _found(self, request: _Request, known: int) -> Outcome:
        """Return the next push, the error or the reply for a fiber that has taken `known` pushes; None if none has
        arrived."""
        if len(request.pushes) > known:
            return _PUSH, request.pushes[known]
        if request.error is not None:
            return self.failure(request.error)
        return None if request.reply is None else (_REPLY, request.reply)

    def _tell(self, request: _Request) -> None:
        waiters, request.waiters = request.waiters, []
        for waiter in waiters:
            if len(request.pushes) > waiter.known:
                self.runtime.wake(waiter.token, _PUSH, request.pushes[waiter.known])
            elif request.error is not None:
                self.runtime.fail(waiter.token, request.error)
            elif request.reply is not None:
                self.runtime.wake(waiter.token, _REPLY, request.reply)
            else:
                request.waiters.append(waiter)
                continue
            if waiter.timer is not None:
                waiter.timer.cancel()

    @exported("netbox_pending")
    def pending(self, remote_id: float) -> int:
        """Return the number of a request that has no reply yet, or 0. A WATCH does not count."""
        remote = self._remotes.get(int(remote_id))
        for number, request in self._requests.items():
            is_answered = request.reply is not None or request.error is not None
            if request.remote is remote and not is_answered and request.kind != RequestType.WATCH:
                return number
        return 0

    @exported("netbox_next")
    def next(self, number: float, known: float, timeout: float | None) -> Outcome:
        """Return the push after the first `known` ones (1, body), the reply (2, body) or its error; 0 after the
        timeout.
        """
        request = self._requests.get(int(number))
        if request is None:
            return self.failure(client_error(ErrorCode.PROC_LUA, "Response is discarded"))
        found = self._found(request, int(known))
        if found is not None:
            return found
        if timeout is not None and timeout <= 0:
            return _TIMEOUT
        return self._wait(request, int(known), timeout)

    def _wait(self, request: _Request, known: int, timeout: float | None) -> int:
        token = self.runtime.new_token(lambda: self._give_up(request, waiter))
        waiter = _RequestWaiter(token, known)
        if timeout is not None:
            waiter.timer = self.runtime.loop.call_later(timeout, self._give_up, request, waiter)
        request.waiters.append(waiter)
        return token

    def _give_up(self, request: _Request, waiter: _RequestWaiter) -> None:
        """End a fiber's wait after its time, or because it was cancelled."""
        if waiter in request.waiters:
            request.waiters.remove(waiter)
            if waiter.timer is not None:
                waiter.timer.cancel()
            self.runtime.wake(waiter.token, _TIMEOUT)

    @guarded("netbox_unwatch")
    def unwatch(self, remote_id: float, number: float, kind: float, body: bytes) -> Outcome:
        """Send an UNWATCH, which has no reply, and end the WATCH that waits for an event."""
        remote, request = self._remotes.get(int(remote_id)), self._requests.get(int(number))
        if request is not None:
            request.remote.connection.forget(request.sync)
            request.error = client_error(ErrorCode.PROC_LUA, "Response is discarded")
            self._tell(request)
        if remote is not None and remote.connection.error is None:
            remote.connection.write(encode_packet(Row(int(kind), body=body)))
        return None

    @exported("netbox_discard")
    def discard(self, number: float) -> None:
        """Forget a request that Lua is no longer interested in."""
        self._requests.pop(int(number), None)
