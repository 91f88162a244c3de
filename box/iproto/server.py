"""The binary protocol's server: listening, the set of connections, and what they share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from box.eager import start
from box.iproto.connection import ServerConnection
from box.iproto.dispatch import Dispatcher
from box.iproto.input import InputBuffer
from box.iproto.learned_bodies import LearnedBodies
from box.iproto.served_calls import ServedCalls
from box.iproto.served_statements import ServedStatements
from box.iproto.stats import Net
from box.iproto.turns import Turns
from box.net import uri as uris
from box.rate_limit import RateLimit
from box.waiters import Waiters
from box.wire.greeting import SALT_SIZE
from box.wire.tarantool_version import VERSION

if TYPE_CHECKING:
    from box.iproto.interface import NodeLike
    from box.net.network import Listener
    from box.session import Session


def _nothing() -> None:
    """Do nothing: a closed server has no listener to remove."""


class IprotoServer:
    """Serves the clients of one node on one address.

    `in_flight` counts requests that wait for something; above `limit` (`net_msg_max`) no connection is read.
    """

    def __init__(self, node: NodeLike) -> None:
        self.node = node
        self.loop = node.loop
        self.dml = node.dml
        self.schema = node.schema
        self.stats = node.stats
        self.dispatcher = Dispatcher(self)
        self.learned_bodies = LearnedBodies()
        self.calls = ServedCalls(self)
        self.statements = ServedStatements(self)
        self.connections: dict[ServerConnection, None] = {}
        self.in_flight = 0
        self.limit: int = node.config["net_msg_max"]
        self.input = InputBuffer(int(node.config["readahead"]))
        self.turns = Turns(node.loop, node.monotonic)
        self.is_delayed = False
        """True if the error injection ERRINJ_IPROTO_TX_DELAY is on: some data requests wait a millisecond, and none
        takes a fast path.
        """
        self._forget_injection: Callable[[], None] = node.errinj.on_change("ERRINJ_IPROTO_TX_DELAY", self._set_delayed)
        self._waiting: deque[ServerConnection] = deque()
        """Connections that wait until fewer requests are in flight."""
        self._warnings = RateLimit()
        self._admission_scheduled = False
        self._departures = Waiters()
        """Woken when a connection has ended."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._listener: Listener | None = None
        self.is_closed = False
        """True from `close` on: a connection that arrives later is broken off."""

    def _set_delayed(self, value: object) -> None:
        self.is_delayed = bool(value)

    # -- listening --------------------------------------------------------------------------------------------

    async def listen(self, address: str | None) -> None:
        """Stop listening, then listen on `address`, in the form of `box.cfg.listen`, or on nothing if it is None.

        Open connections stay.

        Raises:
            ConfigError: CFG, the address is malformed.
            SocketError: the address cannot be bound.
        """
        uri = None if address is None else uris.check(address, "listen")
        if self._listener is not None:
            await self.stop_listening()
            self.node.log.of_cord("iproto/101/main").info("binary: stopped")
        if uri is None:
            return
        self._listener = await self.node.network.listen(uri, self._accept)
        replaced = self._listener.replaced
        if replaced is not None and replaced.warning is not None:
            self.node.log.warn(replaced.warning)
        self.node.log.info(f": bound to {self.bound_address}")

    def _accept(self) -> ServerConnection:
        return ServerConnection(self)

    async def stop_listening(self) -> None:
        """Accept no more connections; open ones stay."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            if listener.stop_accepting():
                await asyncio.sleep(0)
        finally:
            listener.close()

    @property
    def bound_address(self) -> str | None:
        """The address that the server listens on, as in `box.info.listen`, or None."""
        return None if self._listener is None else self._listener.address

    async def until_left(self, leaving: list[ServerConnection], timeout: float) -> bool:
        """Wait until these connections have ended. Returns False if that takes longer than `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._departures.until(lambda: self.connections.keys().isdisjoint(leaving))
        except TimeoutError:
            return False
        return True

    def watchers_of(self, key: bytes) -> list[ServerConnection]:
        """Return the connections whose clients watch a key."""
        return [connection for connection in self.connections if connection.is_watching(key)]

    def abort(self) -> None:
        """Break off every connection; no client gets another reply."""
        for connection in list(self.connections):
            connection.abort()

    async def close(self) -> None:
        """Stop listening and close every connection, without waiting for running requests."""
        self.is_closed = True
        await self.stop_listening()
        self._forget_injection()
        self._forget_injection = _nothing
        for connection in list(self.connections):
            connection.end_streams()
            connection.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- for the connections ----------------------------------------------------------------------------------

    def open_session(self, connection: ServerConnection) -> Session:
        """Open a session of the user guest for a connection."""
        session = self.node.sessions.open("binary", self.schema.guest, push=connection.push)
        session.until_read = connection.until_read
        return session

    def make_salt(self) -> bytes:
        """Return random bytes for a greeting."""
        return self.node.random.randbytes(SALT_SIZE)

    @property
    def greeting_version(self) -> str:
        """The version that greetings announce."""
        return str(self.node.config["iproto_greeting_version"] or VERSION)

    def remember(self, connection: ServerConnection) -> None:
        """Count a new connection."""
        self.connections[connection] = None
        self.turns.is_alone = len(self.connections) == 1
        self.stats.connections += 1
        self.stats.net.totals[Net.CONNECTIONS] += 1

    def forget(self, connection: ServerConnection) -> None:
        """Remove a connection that has ended."""
        if connection in self.connections:
            del self.connections[connection]
            self.turns.is_alone = len(self.connections) <= 1
            self.stats.connections -= 1
            self._departures.wake()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that handles its own errors; a task is made only if it has to wait."""
        task = start(self.loop, coroutine)
        if task is not None:
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def wait_for_room(self, connection: ServerConnection) -> None:
        """Call `admit` of a connection when fewer requests are in flight; first come, first served."""
        self._waiting.append(connection)
        suppressed = self._warnings.take(self.loop.time())
        if suppressed is None:
            return
        log = self.node.log.of_cord("iproto")
        if suppressed:
            log.warn(f"{suppressed} messages suppressed")
        log.warn(f"stopping input on connection {connection.socket_name}, net_msg_max limit is reached")

    def set_limit(self, limit: int) -> None:
        """Set `net_msg_max`."""
        self.limit = limit
        self._schedule_admission()

    def set_readahead(self, size: float) -> None:
        """Set `readahead`, in bytes."""
        self.input.resize(int(size))

    def leave(self, count: int = 1) -> None:
        """Count the end of requests in flight."""
        self.in_flight -= count
        if self._waiting:
            self._schedule_admission()

    def _schedule_admission(self) -> None:
        """Admit waiting connections in the next turn of the loop, outside of the callbacks of ended requests."""
        if not self._admission_scheduled:
            self._admission_scheduled = True
            self.loop.call_soon(self._admit)

    def _admit(self) -> None:
        """Let waiting connections serve requests again: as many connections as further requests may be in flight.

        If an admitted connection adds no request, the next one is admitted in its place.
        """
        self._admission_scheduled = False
        room = self.limit - self.in_flight + 1  # as in Tarantool, input stops only when the limit is exceeded
        for _ in range(min(room, len(self._waiting))):
            self._waiting.popleft().admit()
        if room > 0 and self._waiting:
            self._schedule_admission()
