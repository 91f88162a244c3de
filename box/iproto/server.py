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
from box.iproto.plans import Plans
from box.iproto.rate import RateLimit
from box.iproto.served_calls import ServedCalls
from box.iproto.stats import Net
from box.iproto.turns import Turns
from box.net import uri as uris
from box.wire.greeting import SALT_SIZE

if TYPE_CHECKING:
    from box.iproto.interface import NodeLike
    from box.net.network import Listener
    from box.session import Session


def _nothing() -> None:
    """Stands in for the listener of a closed server, which has nothing left to forget."""


class IprotoServer:
    """Serves clients of one node on one address.

    `in_flight` counts requests that wait for something; above `limit` (`net_msg_max`) nobody is read from.
    """

    def __init__(self, node: NodeLike) -> None:
        self.node = node
        self.loop = node.loop
        self.dml = node.dml
        self.schema = node.schema
        self.stats = node.stats
        self.dispatcher = Dispatcher(self)
        self.plans = Plans()
        self.calls = ServedCalls(self)
        self.connections: dict[ServerConnection, None] = {}
        self.in_flight = 0
        self.limit: int = node.config["net_msg_max"]
        self.input = InputBuffer(int(node.config["readahead"]))
        self.turns = Turns(node.loop, node.monotonic)
        self.is_delayed = False
        """ERRINJ_IPROTO_TX_DELAY: some data requests wait a millisecond, and none takes the shortcut."""
        self._forget_injection: Callable[[], None] = node.errinj.on_change("ERRINJ_IPROTO_TX_DELAY", self._set_delayed)
        self._waiting: deque[ServerConnection] = deque()
        self._warnings = RateLimit()
        self._admission_scheduled = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._listener: Listener | None = None

    def _set_delayed(self, value: object) -> None:
        self.is_delayed = bool(value)

    # -- listening --------------------------------------------------------------------------------------------

    async def listen(self, address: str | None) -> None:
        """Stop listening, then listen on `address` (as in `box.cfg.listen`; None for nothing).

        Open connections stay. Raises CFG for what is no address and a SocketError if it cannot be bound.
        """
        uri = None if address is None else uris.check(address, "listen")
        await self.stop_listening()
        if uri is None:
            return
        self._listener = await self.node.network.listen(uri, self._accept)
        replaced = self._listener.replaced
        if replaced is not None and replaced.warning is not None:
            self.node.log.warn(replaced.warning)
        self.node.log.info(f"binary: bound to {self.bound_address}")

    def _accept(self) -> ServerConnection:
        return ServerConnection(self)

    async def stop_listening(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        self.node.log.info("binary: stopped")

    @property
    def bound_address(self) -> str | None:
        """The address that the server listens on, as `box.info.listen` shows it; None if nowhere."""
        return None if self._listener is None else self._listener.address

    def abort(self) -> None:
        """Break every connection off: nobody gets another answer."""
        for connection in list(self.connections):
            connection.abort()

    async def close(self) -> None:
        """Stop listening and close every connection, without waiting for requests that are running."""
        await self.stop_listening()
        self._forget_injection()
        self._forget_injection = _nothing
        for connection in list(self.connections):
            connection.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- for the connections ----------------------------------------------------------------------------------

    def open_session(self, connection: ServerConnection) -> Session:
        """A session of the user guest."""
        session = self.node.sessions.open("binary", self.schema.guest, push=connection.push)
        session.until_read = connection.until_read
        return session

    def make_salt(self) -> bytes:
        """Random bytes for a greeting."""
        return self.node.random.randbytes(SALT_SIZE)

    def remember(self, connection: ServerConnection) -> None:
        """A connection is there."""
        self.connections[connection] = None
        self.turns.is_alone = len(self.connections) == 1
        self.stats.connections += 1
        self.stats.net.totals[Net.CONNECTIONS] += 1

    def forget(self, connection: ServerConnection) -> None:
        """A connection has ended."""
        if connection in self.connections:
            del self.connections[connection]
            self.turns.is_alone = len(self.connections) <= 1
            self.stats.connections -= 1

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that handles its own errors; a task is made only if it has to wait."""
        task = start(self.loop, coroutine)
        if task is not None:
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def wait_for_room(self, connection: ServerConnection) -> None:
        """Call `admit` of the connection when fewer requests are in flight. First come, first served."""
        self._waiting.append(connection)
        suppressed = self._warnings.take(self.loop.time())
        if suppressed is None:
            return
        if suppressed:
            self.node.log.warn(f"{suppressed} messages suppressed")
        self.node.log.warn(f"stopping input on connection {connection.session.peer}, net_msg_max limit is reached")

    def set_limit(self, limit: int) -> None:
        """`net_msg_max` has changed."""
        self.limit = limit
        self._schedule_admission()

    def set_readahead(self, size: float) -> None:
        """`readahead` has changed."""
        self.input.resize(int(size))

    def leave(self) -> None:
        """A request in flight has finished."""
        self.in_flight -= 1
        if self._waiting:
            self._schedule_admission()

    def _schedule_admission(self) -> None:
        """Admitted requests run outside of the callbacks of those that have finished."""
        if not self._admission_scheduled:
            self._admission_scheduled = True
            self.loop.call_soon(self._admit)

    def _admit(self) -> None:
        """Let as many connections go on as there may be more requests in flight; those that add none leave the room
        to the next."""
        self._admission_scheduled = False
        room = self.limit - self.in_flight + 1
        for _ in range(min(room, len(self._waiting))):
            self._waiting.popleft().admit()
        if room > 0 and self._waiting:
            self._schedule_admission()
