"""Fast path for CALL and EVAL: all such requests of one read are run with a single entry into Lua.

The node's wave (`CallWaveLike`) takes packets of the usual form, runs their functions one after another and makes the
replies. It stops at the first function that needs more than a reply: one that waits, has failed, has left a transaction
open or has large results. Such a function is finished here, in the same way as on the general path (`Dispatcher`). A
packet of unusual form takes the general path from the beginning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from box.iproto.interface import CallWaveLike

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.iproto.connection import ServerConnection
    from box.iproto.server import IprotoServer

_REST: Final = 16
"""The number of calls that take the general path without an attempt, after the wave has refused a packet."""
_LONG_REST: Final = 64
"""The number after a wave whose only function waited, as functions that write to the log do. A wave for each of them
would cost more than the general path.
"""


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
        count = self._run(connection, wave, data, pos, deadline - server.turns.clock())
        if not count:
            self._rest = _REST
            return pos, 0
        return pos + wave.position, count

    def _run(self, connection: ServerConnection, wave: CallWaveLike, data: bytes, pos: int, seconds: float) -> int:
        self._running = connection
        try:
            count, outcome = wave.run(connection.session, data, pos, seconds)
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
            self._end(connection, wave, outcome)
            if count == 1 and isinstance(outcome, int):
                self._rest = _LONG_REST
        return count

    def _end(self, connection: ServerConnection, wave: CallWaveLike, outcome: bytes | BoxError | int) -> None:
        """Finish the last function of a wave, whose outcome is more than a reply."""
        ctx = wave.context
        assert ctx is not None
        ended = partial(self._server.dispatcher.function_ended, connection, wave.kind, ctx)
        if isinstance(outcome, int):
            wave.tell_end(outcome, ended)
            self._server.dispatcher.function_waits(connection, ctx)
        else:
            ended(outcome)

    def drain(self, connection: ServerConnection) -> None:
        """Send the replies that a wave has made so far, because an out-of-band message must not overtake them."""
        if self._running is connection:
            functions = self._server.node.functions
            wave = None if functions is None else functions.wave
            replies = b"" if wave is None else wave.take_replies()
            if replies:
                connection.reply(replies)
