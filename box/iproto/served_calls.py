"""Fast path for CALL and EVAL: all such requests of one read are run with a single entry into Lua.

The node's wave (`CallWaveLike`) takes packets of the usual form, runs their functions one after another and makes the
replies. When a function waits, the wave goes on. The wave also makes the replies of functions that have waited, and
passes on together those of all functions that have ended in one round of fibers. A function that ends with a write
(`return space:replace{...}`) has its reply when the write ends, without a wait. A wave stops at the first function that
needs more than a reply: one that has failed, has left a transaction open or has large results. Such a function is
finished here, also if it has waited. A packet of unusual form takes the general path from the beginning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from box.iproto.interface import CallWaveLike
from box.wire.constants import RequestType
from box.wire.reply import reply_tuple

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.iproto.connection import ServerConnection
    from box.iproto.server import IprotoServer
    from box.session import RequestContext
    from box.txn.pending import Pending

_REST: Final = 16
"""The number of calls that take the general path without an attempt, after the wave has refused a packet."""


class ServedCalls:
    """Runs waves of calls for all connections of one server."""

    def __init__(self, server: IprotoServer) -> None:
        self._server = server
        self._rest = 0
        self._running: ServerConnection | None = None

    def serve(self, connection: ServerConnection, data: bytes, pos: int, deadline: float) -> tuple[int, int]:
        """Serve the packets of `data` from `pos` on until about `deadline`.

        Returns the position after the served packets, and their number: 0 if the first packet takes the general path.
        """
        if self._rest:
            self._rest -= 1
            return pos, 0
        server = self._server
        functions = server.node.functions
        wave = None if functions is None else functions.wave
        if wave is None or not server.node.state.is_configured:
            return pos, 0
        count = self._run(connection, wave, data, pos, deadline)
        if not count:
            self._rest = _REST
            return pos, 0
        return pos + wave.position, count

    def _run(self, connection: ServerConnection, wave: CallWaveLike, data: bytes, pos: int, deadline: float) -> int:
        caller, seconds = Caller(self._server, wave, connection), deadline - self._server.turns.clock()
        self._running = connection
        try:
            count, outcome = wave.run(caller, connection.session, data, pos, seconds)
        except Exception as bug:
            if not wave.position:
                return 0  # the general path finds the exact error
            self.drain(connection)
            connection.reply_error(wave.sync, self._server.dispatcher.unexpected(bug))
            return 1
        finally:
            self._running = None
        replies = wave.take_replies()
        if replies:
            connection.reply(replies)
        if outcome is not None:
            assert wave.context is not None
            caller.function_ended(wave.context, outcome)
        return count

    def drain(self, connection: ServerConnection) -> None:
        """Send the replies that waves have made so far, because an out-of-band message must not overtake them."""
        functions = self._server.node.functions
        wave = None if functions is None else functions.wave
        if wave is None:
            return
        wave.take_late()
        if self._running is connection:
            replies = wave.take_replies()
            if replies:
                connection.reply(replies)


class Caller:
    """The client of a wave."""

    __slots__ = ("_connection", "_server", "_wave")

    def __init__(self, server: IprotoServer, wave: CallWaveLike, connection: ServerConnection) -> None:
        self._server = server
        self._wave = wave
        self._connection = connection

    @property
    def rooms(self) -> tuple[int, int]:
        """The number of requests that may still wait for something, and that of functions of this client."""
        server = self._server
        return server.limit - server.in_flight + 1, self._connection.room_for_calls

    @property
    def takes_calls(self) -> bool:
        return self._connection.takes_calls

    def functions_wait(self, count: int) -> None:
        """Count functions that have begun to wait."""
        self._server.in_flight += count
        self._connection.call_waits(count)

    def functions_ended(self, replies: bytes, count: int, largest: int) -> None:
        """Send the replies of functions that have waited; `largest` is the size of the largest one."""
        self._server.leave(count)
        self._connection.reply(replies)
        self._connection.call_ended(largest, count)

    def function_ended(self, ctx: RequestContext, outcome: bytes | BoxError) -> None:
        """Reply to a function."""
        self._server.dispatcher.function_ended(self._connection, RequestType.CALL, ctx, outcome)

    def function_writes(self, sync: int, write: Pending) -> None:
        """Reply to a function that has ended with a write when that has ended."""
        self._server.in_flight += 1
        write.on_done(partial(self._written, sync))

    def _written(self, sync: int, write: Pending) -> None:
        """Reply to a function that has ended with a write. Fibers that earlier writes have woken go on before that."""
        server = self._server
        server.leave()
        if write.error is not None:
            server.loop.call_soon(self._fail, sync, write.error)
        elif self._wave.is_behind:
            server.loop.call_soon(self._answer, sync, write)
        else:
            self._answer(sync, write)

    def _answer(self, sync: int, write: Pending) -> None:
        assert write.result is not None
        self._connection.reply(reply_tuple(sync, self._server.schema.version, write.result))

    def _fail(self, sync: int, error: BoxError) -> None:
        ctx = self._connection.request_context(sync)
        self._wave.fail(ctx, error, partial(self.function_ended, ctx))
